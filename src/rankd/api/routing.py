"""Route declarations, and the router from a method and a path to a route.

One table drives the router, the fast lane, the documentation and the tests. A path template is made
of whole segments: literals, parameters such as ``{board}``, and a parameter followed by a verb such
as ``{player}:ban``.

Finding a route takes the same time for ten routes as for a thousand. Templates of one length with
their literals in the same places form a *shape*; a path is split into segments once, and each shape
of that length is one dictionary lookup.

Segments and verbs are split before percent-decoding, so an encoded slash or colon belongs to its
value: ``/v1/players/a%3Aban:ban`` bans the player ``a:ban``.

The role of a node selects the routes that it serves. With several nodes, those that take scores,
those that serve reads and the one with the background work can be deployed and scaled separately.
Every role serves the routes without a scope, such as health and metrics.
"""

import re
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any, Literal, NamedTuple, NoReturn
from urllib.parse import unquote_to_bytes

from rankd.api.messages import Request, Response
from rankd.errors import (
    FieldError,
    InvalidRequest,
    MalformedRequest,
    MethodNotAllowed,
    Misdirected,
    NotFound,
    RankdError,
)
from rankd.model.board import shown_name
from rankd.model.submission import A_TIME, read_instant
from rankd.model.window import Instant

TEXT_LENGTH_MAX = 256
"""The default length limit of a text parameter of a query."""

Scope = Literal["read", "submit", "moderate", "admin"]
Handler = Callable[[Any, Request], Coroutine[Any, Any, Response]]
Quick = Callable[[Any, Request], Response | None]
Answered = Callable[[Response | Exception | None], None]
"""Takes the response or an error; None if the handler has to answer after all."""
AllAnswered = Callable[[Sequence[bytes | Response | Exception | None]], None]
"""Takes the same for many requests, in their order; bytes are the body of a plain 200."""
InForce = Callable[[], bool]
"""Returns False once the plan is stale."""


class WordPlan(NamedTuple):
    """Answers requests that differ in the last parameter of their paths, many at once."""

    answer: Callable[[Sequence[str]], Sequence[bytes | None] | None]
    """Returns the body for each value, None in it where the handler has to answer; None instead of
    the list if the plan is stale."""
    in_force: InForce


class RemotePlan(NamedTuple):
    """The same for a remote index, one request at a time."""

    ask: Callable[[str, Answered], bool]
    """Calls back with the response later; returns False if the plan is stale."""
    in_force: InForce


class BodyPlan(NamedTuple):
    """Answers requests that differ in their bodies."""

    read: Callable[[bytes, Any], Any]
    """Returns the submission of a body and an actor; None if the handler has to answer."""
    submit: Callable[[list[Any], AllAnswered], bool]
    """Calls back with all results later; returns False if the plan is stale."""
    in_force: InForce


class PagePlan(NamedTuple):
    """Answers requests that differ in the offset of their query at most."""

    find: Callable[[int], Response | None]
    """Returns the response for an offset, 0 for none; None if the handler has to answer."""
    in_force: InForce


RouteAnswering = WordPlan | RemotePlan | BodyPlan | PagePlan
MakePlan = Callable[[Any, Request], RouteAnswering | None]

_BAD_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,19}")
_TEMPLATE_PARAM = re.compile(r"\{(\w+)\}(?::(\w+))?")


def decode_percent(text: str) -> str:
    """Percent-decode once. Raises MalformedRequest for a bad escape or invalid UTF-8."""
    if "%" not in text and text.isascii():
        return text
    if _BAD_PERCENT.search(text):
        raise MalformedRequest("a percent sign in the target is not followed by two hex digits")
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        raise MalformedRequest("the target is not UTF-8 once percent-decoded") from None


@dataclass(frozen=True, kw_only=True, slots=True)
class Param:
    """One query parameter: its type, bounds and default."""

    name: str
    kind: type[int] | type[str] | type[bool] = str
    default: int | str | bool | None = None
    required: bool = False
    low: int = -(2**63)
    high: int = 2**63 - 1
    length_max: int = TEXT_LENGTH_MAX
    choices: tuple[str, ...] = ()
    time: bool = False
    """Whether the text is an RFC 3339 time, and the value an Instant."""
    doc: str = ""

    def accepts(self) -> str:
        """Return the accepted values as a phrase that follows the name."""
        if self.time:
            return f"must be {A_TIME}"
        if self.kind is int:
            return f"must be a whole number from {self.low} to {self.high}"
        if self.kind is bool:
            return "must be true or false"
        if self.choices:
            return f"must be one of {', '.join(self.choices)}"
        return f"must be at most {self.length_max} characters"

    def read(self, text: str) -> int | str | bool | None:
        """Return the value of a text, or None if it is not accepted."""
        if self.time:
            return _instant(text)
        if self.kind is int:
            if not _WHOLE_NUMBER.fullmatch(text):
                return None
            number = int(text)
            return number if self.low <= number <= self.high else None
        if self.kind is bool:
            return {"true": True, "false": False}.get(text)
        if self.choices and text not in self.choices:
            return None
        return text if len(text) <= self.length_max else None


def _instant(text: str) -> Instant | None:
    try:
        return read_instant(text)
    except ValueError:
        return None


NUMBERS = Param(
    name="numbers",
    choices=("number", "string"),
    doc="string for scores as text, which JavaScript reads without losing digits; "
    "wins over Accept: application/json; numbers=string",
)
"""The query parameter of routes whose responses have scores. Others accept and ignore it."""


@dataclass(frozen=True, kw_only=True)
class Route:
    """One route: its path, its handler, its parameters and the scope it needs."""

    method: str
    path: str
    operation: str
    """The stable name of the route, for generated clients: ``submit_score``."""
    handler: Handler
    scope: Scope | None = None
    """The scope that a key must have; None if the route needs no key."""
    hot: bool = False
    """Whether the fast lane may serve it. ``EagerTask`` has the rules for its handler."""
    quick: Quick | None = None
    """Returns the handler's response without waiting; None if the handler has to answer."""
    plan: MakePlan | None = None
    """Makes the plan of requests like this one, without authorization; None if each needs the
    handler. Its responses are 200, JSON and ``no-store`` unless they have their own headers."""
    params: tuple[Param, ...] = ()
    any_query: bool = False
    """Whether any query is accepted and ignored: links to pages carry tracking parameters."""
    body: Any = None
    """The type that ``decode_body`` decodes; None if the route has no body."""
    body_bytes_max: int | None = None
    """A body limit of its own, instead of the service's."""
    writes: bool = False
    """Whether it writes: an error response then has ``applied``."""
    gathers: bool = False
    """Whether the writer answers for all processes, and a worker only if it cannot reach it."""
    responses: Mapping[int, Any] = field(default_factory=dict)
    """The type of each status's body, for the documentation."""
    errors: tuple[type[RankdError], ...] = ()
    """Errors it may raise, beside those common to routes of its kind."""
    _by_name: Mapping[str, Param] = field(init=False, repr=False)
    _defaults: Mapping[str, Any] = field(init=False, repr=False)
    _needs_query: bool = field(init=False, repr=False)

    def __post_init__(self) -> None:
        by_name = {param.name: param for param in self.params}
        assert len(by_name) == len(self.params), f"{self.operation} declares a parameter twice"
        assert self.method != "HEAD", "a GET answers HEAD too"
        object.__setattr__(self, "_by_name", by_name)
        object.__setattr__(self, "_defaults", {p.name: p.default for p in self.params})
        object.__setattr__(self, "_needs_query", any(p.required for p in self.params))

    def read_query(self, query: str) -> Mapping[str, Any]:
        """Return the values of all declared parameters. Raises InvalidRequest with all errors."""
        if self.any_query or (not query and not self._needs_query):
            return self._defaults
        values = dict(self._defaults)
        seen: set[str] = set()
        errors: list[FieldError] = []
        for part in query.split("&"):
            if part:
                self._read_part(part, values, seen, errors)
        errors += [
            FieldError(param.name, "is required")
            for param in self.params
            if param.required and param.name not in seen
        ]
        if errors:
            raise InvalidRequest(errors)
        return values

    def _read_part(
        self, part: str, values: dict[str, Any], seen: set[str], errors: list[FieldError]
    ) -> None:
        encoded, _, text = part.replace("+", " ").partition("=")
        name = decode_percent(encoded)
        param = self._by_name.get(name) or (NUMBERS if name == NUMBERS.name else None)
        if param is None:
            known = ", ".join(self._by_name) or "none"
            message = f"is not a parameter of this path; there are: {known}"
            errors.append(FieldError(shown_name(name), message))
            return
        value = param.read(decode_percent(text))
        if param.name in seen:
            errors.append(FieldError(param.name, "is given more than once"))
        elif value is None:
            errors.append(FieldError(param.name, param.accepts()))
        seen.add(param.name)
        if name in values:
            values[name] = value


NAMES_WITH_COLONS = ("player",)
"""Path parameters whose values may have colons: ``/v1/players/a:ban`` is also the player a:ban."""


class RouteMatch(NamedTuple):
    """A route, and the values of its path parameters."""

    route: Route
    params: dict[str, str]


class _RouteRow(NamedTuple):
    route: Route
    names: tuple[tuple[str, int], ...]
    """Each parameter with the number of its segment."""


@dataclass(slots=True)
class _TemplateShape:
    """Templates of one length with literals, parameters and verb in the same places."""

    literals: Callable[[list[str]], Any]
    places: tuple[int, ...]
    verb_place: int | None
    rows: dict[Any, dict[str, _RouteRow]] = field(default_factory=dict)

    def rows_of(self, segments: list[str]) -> dict[str, _RouteRow] | None:
        """Return the routes of a path by method."""
        if self.verb_place is None:
            return self.rows.get(self.literals(segments))
        _, _, verb = segments[self.verb_place].rpartition(":")
        return self.rows.get((verb, self.literals(segments)))

    def ends_name(self, rows: Mapping[str, _RouteRow]) -> bool:
        """Whether a verb can only follow a name, so that its path is no other path as well."""
        if self.verb_place is None:
            return False
        (*_, row) = rows.values()
        return not any((name, self.verb_place) in row.names for name in NAMES_WITH_COLONS)

    def cut_verb(self, segments: list[str]) -> None:
        """Remove the verb from its segment."""
        if self.verb_place is not None:
            segments[self.verb_place] = segments[self.verb_place].rpartition(":")[0]


class Router:
    """Finds the route of a method and a path."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = tuple(routes)
        self._shapes: dict[int, list[_TemplateShape]] = {}
        made: dict[tuple[int, tuple[int, ...], int | None], _TemplateShape] = {}
        for route in self.routes:
            self._add(route, made)
        for shapes in self._shapes.values():
            # A verb before a bare parameter, and more literals before fewer.
            shapes.sort(key=lambda shape: (shape.verb_place is None, len(shape.places)))
        self._made = _made(self.routes)
        operations = [route.operation for route in self.routes]
        assert len(set(operations)) == len(operations), "an operation is named twice"

    def _add(
        self, route: Route, made: dict[tuple[int, tuple[int, ...], int | None], _TemplateShape]
    ) -> None:
        segments = route.path.split("/")
        assert route.path.startswith("/"), route.path
        found = [
            (n, m) for n, text in enumerate(segments) if (m := _TEMPLATE_PARAM.fullmatch(text))
        ]
        places = tuple(place for place, _ in found)
        names = tuple(match[1] for _, match in found)
        verbs = [(place, match[2]) for place, match in found if match[2]]
        assert len(verbs) <= 1 and len(set(names)) == len(names), route.path
        verb_place, verb = verbs[0] if verbs else (None, None)

        identity = (len(segments), places, verb_place)
        if identity not in made:
            fixed = [place for place in range(len(segments)) if place not in places]
            # The first one twice, so that the key is a tuple for every shape.
            shape = _TemplateShape(itemgetter(fixed[0], *fixed), places, verb_place)
            made[identity] = shape
            self._shapes.setdefault(len(segments), []).append(shape)
        shape = made[identity]
        key = shape.literals(segments) if verb is None else (verb, shape.literals(segments))
        rows = shape.rows.setdefault(key, {})
        assert route.method not in rows, f"{route.method} {route.path} is there twice"
        rows[route.method] = _RouteRow(route, tuple(zip(names, places, strict=True)))

    def find(self, method: str, path: str) -> RouteMatch:
        """Return the route. Raises NotFound, MethodNotAllowed or MalformedRequest."""
        segments = path.split("/")
        encoded = "%" in path
        plain = _decode_where_it_cannot_cut(segments) if encoded else segments
        wanted = "GET" if method == "HEAD" else method
        for shape in self._shapes.get(len(segments), ()):
            if encoded:
                segments = _encoded_at(shape.places, path, plain)
            rows = shape.rows_of(segments)
            if rows is None:
                continue
            if (row := rows.get(wanted)) is not None:
                shape.cut_verb(segments)
                params = {name: segments[place] for name, place in row.names}
                if encoded:
                    params = {name: decode_percent(text) for name, text in params.items()}
                if "" in params.values():
                    raise NotFound
                return RouteMatch(row.route, params)
            if shape.ends_name(rows):
                break
        allow = self.allowed(path)
        if not allow:
            raise NotFound
        raise MethodNotAllowed(allow, instead=self._made.get(path) if method == "POST" else None)

    def allowed(self, path: str) -> tuple[str, ...]:
        """Return the methods of a path; none if it is unknown."""
        plain = _decode_where_it_cannot_cut(path.split("/"))
        methods: set[str] = set()
        for shape in self._shapes.get(len(plain), ()):
            segments = _encoded_at(shape.places, path, plain)
            rows = shape.rows_of(segments) or {}
            shape.cut_verb(segments)
            if "" not in [segments[place] for place in shape.places]:
                methods.update(rows)
            if rows and shape.ends_name(rows):
                break
        if "GET" in methods:
            methods.add("HEAD")
        return tuple(sorted(methods | {"OPTIONS"})) if methods else ()


def _made(routes: Iterable[Route]) -> dict[str, str]:
    """Return the PUT route that creates an item of a collection, by the collection's path."""
    found: dict[str, str] = {}
    for route in routes:
        many, _, last = route.path.rpartition("/")
        if route.method == "PUT" and "{" not in many and _TEMPLATE_PARAM.fullmatch(last):
            found[many] = f"{route.method} {route.path}"
    return found


def _decode_where_it_cannot_cut(segments: list[str]) -> list[str]:
    """Return the segments decoded, except those in which a colon may end a value."""
    return [text if ":" in text else decode_percent(text) for text in segments]


def _encoded_at(places: tuple[int, ...], path: str, plain: list[str]) -> list[str]:
    """Return the segments with literals decoded and parameters as sent."""
    encoded = path.split("/")
    return [encoded[n] if n in places else text for n, text in enumerate(plain)]


ALL, API, QUERY, INGEST, MANAGER = "all", "api", "query", "ingest", "manager"
ROLES = (ALL, API, QUERY, INGEST, MANAGER)

MANAGING = (ALL, MANAGER)
"""Roles that roll windows over on time and store receipts that other nodes left behind."""


def routes_of(role: str, routes: Iterable[Route]) -> tuple[Route, ...]:
    """Return the routes of a node; those outside its role raise Misdirected."""
    return tuple(route if _answers(role, route) else _left(role, route) for route in routes)


def _answers(role: str, route: Route) -> bool:
    if route.scope is None or role in (ALL, API):
        return True
    return (role == QUERY and not route.writes) or (role == INGEST and route.writes)


def _left(role: str, route: Route) -> Route:
    async def handler(_service: Any, _request: Request) -> NoReturn:
        raise Misdirected(role)

    return replace(route, handler=handler, hot=False, quick=None, plan=None)

"""The OpenAPI 3.1 document, generated from the table of routes."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import msgspec

from rankd import schemas
from rankd._version import __version__
from rankd.api import request_schemas
from rankd.api.messages import Request, Response
from rankd.api.problems import KINDS, Problem
from rankd.api.routing import Param, Route
from rankd.model.standing import PAGE_LIMIT_MAX
from rankd.model.submission import SUBMISSION_KEY_BYTES_MAX

_TEMPLATE = re.compile(r"\{(\w+)\}")
_REFERENCE = "#/components/schemas/{name}"
_PROBLEM_JSON = "application/problem+json"

DESCRIPTION = """\
A real-time leaderboard service. Ranks count from 1, offsets from 0, times are RFC 3339 in UTC.

Keys are sent as `Authorization: Bearer`; a player's token takes the same place. While no key has
been created and the service listens on loopback only, none is needed.

Errors are answered as `application/problem+json` with a `code` that never changes; on writes
`applied` tells whether anything was done.
"""

TAGS = {
    "boards": "Competitions and their windows.",
    "scores": "Submitting.",
    "standings": "Ranks and lists.",
    "players": "Names, attributes and friends.",
    "audit": "The recorded facts and their actors.",
    "keys": "Keys and their scopes.",
    "classic": "The routes of well-known system-design texts, in their words.",
    "service": "Health, metrics and documentation.",
}

PROBLEMS = {
    400: ("Malformed", "It cannot be read: the target, the headers or the JSON."),
    401: ("Unauthenticated", "No key or token is shown, or none that is known."),
    403: ("Forbidden", "The key or token does not reach this far."),
    404: ("NotFound", "There is no such path, board, window, player or entry."),
    405: ("MethodNotAllowed", "The path takes other methods, which Allow names."),
    409: ("Conflict", "A concurrent change came first: read again, then repeat the request."),
    413: ("TooLarge", "The body is larger than is taken here."),
    415: ("UnsupportedMediaType", "The body is not application/json, or is compressed."),
    422: ("Invalid", "It can be read and not be done; `errors` names the fields."),
    429: ("RateLimited", "Too often. Wait as long as Retry-After says."),
    503: ("Unavailable", "Not now. Wait as long as Retry-After says; keep the submission key."),
}
"""Error responses by status: the name of the component, and its description."""

HEADERS: dict[int, tuple[str, str, str]] = {
    401: ("WWW-Authenticate", "string", "The authentication scheme: Bearer."),
    405: ("Allow", "string", "The methods this path takes."),
    429: ("Retry-After", "integer", "In seconds."),
    503: ("Retry-After", "integer", "In seconds."),
}

MEDIA = {
    "metrics": "text/plain",
    "docs": "text/html",
    "docs_style": "text/css",
    "openapi": "application/json",
}
"""Media types of responses that have no JSON schema."""

PATH_SCHEMAS: dict[str, request_schemas.Schema] = {
    "board": request_schemas.BOARD_NAME,
    "player": request_schemas.PLAYER,
    "player_id": request_schemas.PLAYER,
    "rank": {"type": "integer", "minimum": 1, "maximum": 10**18 - 1, "description": "From 1."},
    "n": {"type": "integer", "minimum": 1, "maximum": PAGE_LIMIT_MAX, "description": "How many."},
    "key": request_schemas.text(64, "The id of a key."),
}

ANY_PLAYER: request_schemas.Schema = {
    "type": "string",
    "minLength": 1,
    "description": "The player's id. An id that no player can have has no standing.",
}


@cache
def document() -> bytes:
    """Return the OpenAPI document as JSON."""
    return msgspec.json.format(msgspec.json.encode(describe(table())), indent=1)


def table() -> tuple[Route, ...]:
    """Return every route."""
    from rankd.api.routes import ROUTES  # That module has a route to this document.

    return ROUTES


def describe(routes: tuple[Route, ...]) -> dict[str, Any]:
    """Return the OpenAPI document of some routes."""
    kinds = _kinds(routes)
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REFERENCE)
    by_kind = {repr(kind): _as_sent(schema) for kind, schema in zip(kinds, schemas, strict=True)}
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, by_kind)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "rankd",
            "version": __version__,
            "summary": "A real-time leaderboard service.",
            "description": DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": name, "description": doc} for name, doc in TAGS.items()],
        "paths": paths,
        "components": {
            "schemas": _components(components),
            "responses": {name: _problem(status) for status, (name, _) in PROBLEMS.items()},
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "A key, as rk_…"},
                "player": {
                    "type": "http",
                    "scheme": "bearer",
                    "bearerFormat": "JWT",
                    "description": "A player's token: reads, and submits for that player.",
                },
            },
        },
    }


def _components(made: Mapping[str, Any]) -> dict[str, Any]:
    """Return all component schemas: generated from types, replaced where written by hand."""
    shapes = {name: _as_sent(schema) for name, schema in made.items()} | request_schemas.COMPONENTS
    shapes["BoardBody"]["properties"]["definition"] = request_schemas.ref("BoardDefinition")
    told = {"anyOf": [request_schemas.ref("Receipt"), request_schemas.ref("Refusal")]}
    shapes["Results"]["properties"]["results"] = {"type": "array", "items": told}
    return dict(sorted(shapes.items()))


def _as_sent(schema: Any) -> Any:
    """Return a generated schema with Decimals as JSON numbers, or strings with numbers=string."""
    if isinstance(schema, list):
        return [_as_sent(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("format") == "decimal":
        return {"type": ["number", "string"], "pattern": r"^-?[0-9]+(\.[0-9]+)?$"}
    if "anyOf" in schema and {"type": "integer"} in schema["anyOf"]:
        wider = [inner for inner in schema["anyOf"] if inner != {"type": "integer"}]
        if any(inner.get("format") == "decimal" for inner in wider):
            schema = {**schema, "anyOf": wider}  # "number" includes whole numbers.
    return {name: _as_sent(inner) for name, inner in schema.items()}


def _kinds(routes: tuple[Route, ...]) -> list[Any]:
    found: dict[str, Any] = {
        repr(kind): kind for kind in (Problem, schemas.Receipt, schemas.Refusal)
    }
    for route in routes:
        for answer in (route.body, *route.responses.values()):
            for kind in answer if isinstance(answer, tuple) else (answer,):
                if kind is not None and kind is not dict:
                    found[repr(kind)] = kind
    return list(found.values())


def tag_of(route: Route) -> str:
    """Return the tag of a route."""
    module = route.handler.__module__.rpartition(".")[2]
    groups = {"compat": "classic", "health": "service", "docs_page": "service"}
    group = groups.get(module, module)
    return group if group in TAGS else "service"


def words_of(route: Route) -> tuple[str, str]:
    """Return a route's summary and description: the first line and the rest of its docstring."""
    first, _, rest = (route.handler.__doc__ or route.operation).strip().partition("\n")
    return first, " ".join(rest.split())


def _operation(route: Route, schemas: Mapping[str, Any]) -> dict[str, Any]:
    summary, more = words_of(route)
    described: dict[str, Any] = {
        "operationId": route.operation,
        "summary": summary,
        **({"description": more} if more else {}),
        "tags": [tag_of(route)],
        "parameters": [*_path_parameters(route), *map(_parameter, route.params)],
        "responses": {
            **{str(status): _response(kind, schemas) for status, kind in _answers(route)},
            **{str(status): _refusal(status) for status in refusals(route)},
            "default": _problem(None),
        },
    }
    if route.writes:
        described["parameters"] += _write_parameters(route)
    described["security"] = security_of(route)
    if route.scope is not None:
        described["x-scope"] = route.scope
    if route.errors:
        described["x-codes"] = codes_of(route)
    if route.body is not None:
        described["requestBody"] = {
            "required": route.operation != "put_board",
            "content": {
                "application/json": {"schema": request_schemas.BY_OPERATION[route.operation]}
            },
        }
    if route.operation in MEDIA:
        content: dict[str, Any] = {MEDIA[route.operation]: {"schema": {}}}
        described["responses"]["200"] = {"description": summary, "content": content}
    return described


def security_of(route: Route) -> list[dict[str, list[str]]]:
    """Return the accepted credentials: a key, a player's token, or none."""
    if route.scope is None:
        return []
    if route.scope == "read" or "score" in route.operation or tag_of(route) == "classic":
        return [{"key": []}, {"player": []}]
    return [{"key": []}]


def _answers(route: Route) -> list[tuple[int, Any]]:
    return list(route.responses.items()) or [(200, None)]


def refusals(route: Route) -> list[int]:
    """Return the error statuses of a route."""
    found = {400, 405, 422}
    if route.scope is not None:
        found |= {401, 403, 429, 503}
    if route.body is not None:
        found |= {413, 415}
    if "{" in route.path:
        found.add(404)
    return sorted(found | {KINDS[error].status for error in route.errors})


def codes_of(route: Route) -> dict[str, list[str]]:
    """Return the error codes declared by a route, by status."""
    found: dict[str, list[str]] = {}
    for error in route.errors:
        found.setdefault(str(KINDS[error].status), []).append(error.code)
    return found


def _refusal(status: int) -> dict[str, Any]:
    return {"$ref": f"#/components/responses/{PROBLEMS[status][0]}"}


def _problem(status: int | None) -> dict[str, Any]:
    doc = "Anything else that is wrong." if status is None else PROBLEMS[status][1]
    content = {_PROBLEM_JSON: {"schema": request_schemas.ref("Problem")}}
    described: dict[str, Any] = {"description": doc, "content": content}
    if status in HEADERS:
        name, kind, meaning = HEADERS[status]
        schema = {"type": kind, "minimum": 0} if kind == "integer" else {"type": kind}
        described["headers"] = {name: {"description": meaning, "required": True, "schema": schema}}
    return described


def _response(kind: Any, schemas: Mapping[str, Any]) -> dict[str, Any]:
    if kind is None:
        return {"description": "Nothing has changed since the version in If-None-Match."}
    if isinstance(kind, tuple):
        schema: Any = {"anyOf": [schemas[repr(each)] for each in kind]}
    else:
        schema = schemas[repr(kind)]
    return {"description": "Done.", "content": {"application/json": {"schema": schema}}}


def _path_parameters(route: Route) -> Iterator[dict[str, Any]]:
    for name in _TEMPLATE.findall(route.path):
        schema = PATH_SCHEMAS.get(name, request_schemas.text(256))
        if schema is request_schemas.PLAYER and not route.writes:
            schema = ANY_PLAYER
        yield {"name": name, "in": "path", "required": True, "schema": schema}


def _parameter(param: Param) -> dict[str, Any]:
    return {
        "name": param.name,
        "in": "query",
        "required": param.required,
        "description": param.doc or f"{param.name} {param.accepts()}",
        "schema": schema_of(param),
    }


def schema_of(param: Param) -> dict[str, Any]:
    """Return the schema of a query parameter."""
    schema: dict[str, Any] = {"type": "string", "maxLength": param.length_max}
    if param.time:
        schema["format"] = "date-time"
    elif param.kind is int:
        schema = {"type": "integer", "minimum": param.low, "maximum": param.high}
    elif param.kind is bool:
        schema = {"type": "boolean"}
    if param.choices:
        schema["enum"] = list(param.choices)
    if param.default is not None:
        schema["default"] = param.default
    return schema


def _write_parameters(route: Route) -> list[dict[str, Any]]:
    if route.operation != "submit_score" and tag_of(route) != "classic":
        return []
    doc = "The submission key: sent again, the submission counts once."
    schema = {"type": "string", "minLength": 1, "maxLength": SUBMISSION_KEY_BYTES_MAX}
    return [
        {
            "name": "Idempotency-Key",
            "in": "header",
            "required": False,
            "description": doc,
            "schema": schema,
        }
    ]


def DOCS_PAGE() -> bytes:
    """Return the API reference page."""
    from rankd.api.docs_page import page  # It is made from this document.

    return page()


async def docs_style(service: object, request: Request) -> Response:
    """Return the style sheet of the API reference page."""
    from rankd.api.docs_page import STYLE

    del service, request
    kind = b"text/css; charset=utf-8"
    return Response(STYLE.encode(), content_type=kind, cache_control=b"public, max-age=300")


ROUTES = (Route(method="GET", path="/docs.css", operation="docs_style", handler=docs_style),)

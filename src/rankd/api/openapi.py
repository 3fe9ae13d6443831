"""The OpenAPI 3.1 document, generated from the table of routes, and the reference page made of it.

The page loads one local style sheet.
"""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import msgspec

from rankd import schemas
from rankd._version import __version__
from rankd.api import request_schemas
from rankd.api.messages import HTML, KINDS, Problem, Request, Response
from rankd.api.routing import Param, Route
from rankd.core.reviews import POSITION_DIGITS_MAX
from rankd.core.window_control import WINDOW_TEXT_LENGTH_MAX
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
    "runs": "Tokens for players that are about to play.",
    "standings": "Ranks and lists.",
    "streams": "Changes as they happen, and tickets for browsers.",
    "players": "Names, attributes and friends.",
    "corrections": "Adjustments, retractions, and states of players.",
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
    410: ("TooOld", "Nothing is known as far back as that."),
    413: ("TooLarge", "The body is larger than is taken here."),
    415: ("UnsupportedMediaType", "The body is not application/json, or is compressed."),
    426: ("UpgradeRequired", "The route speaks WebSocket only."),
    422: ("Invalid", "It can be read and not be done; `errors` names the fields."),
    429: ("RateLimited", "Too often. Wait as long as Retry-After says."),
    503: ("Unavailable", "Not now. Wait as long as Retry-After says; keep the submission key."),
}
"""Error responses by status: the name of the component, and its description."""

HEADERS: dict[int, tuple[str, str, str]] = {
    401: ("WWW-Authenticate", "string", "The authentication scheme: Bearer."),
    405: ("Allow", "string", "The methods this path takes."),
    426: ("Upgrade", "string", "The protocol: websocket."),
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

STREAMS = frozenset(("stream_board",))
"""Routes whose response is a stream of events, each with one of the schemas."""

PATH_SCHEMAS: dict[str, request_schemas.Schema] = {
    "board": request_schemas.BOARD_NAME,
    "player": request_schemas.PLAYER,
    "player_id": request_schemas.PLAYER,
    "rank": {"type": "integer", "minimum": 1, "maximum": 10**18 - 1, "description": "From 1."},
    "n": {"type": "integer", "minimum": 1, "maximum": PAGE_LIMIT_MAX, "description": "How many."},
    "window": {
        "type": "string",
        "minLength": 1,
        "maxLength": WINDOW_TEXT_LENGTH_MAX,
        "description": "Such as daily:-1, or the id of one, such as daily:2026-11-14.",
    },
    "key": request_schemas.text(64, "The id of a key."),
    "position": {
        "type": "integer",
        "minimum": 1,
        "maximum": 10**18 - 1,
        "description": "The position of a retraction.",
    },
    "operation": request_schemas.text(64, "The id of an operation."),
    "review": request_schemas.text(POSITION_DIGITS_MAX, "The id of a review."),
    "webhook": request_schemas.text(256, "The name of a webhook."),
    "reward": request_schemas.text(64, "The id of a reward."),
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
    result = {"anyOf": [request_schemas.ref("Receipt"), request_schemas.ref("Refusal")]}
    shapes["Results"]["properties"]["results"] = {"type": "array", "items": result}
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
    group = {"compat": "classic", "windows": "boards", "stream_routes": "streams"}.get(
        module, module
    )
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
            "required": route.operation not in request_schemas.OPTIONAL_BODIES,
            "content": {
                "application/json": {"schema": request_schemas.BY_OPERATION[route.operation]}
            },
        }
    if route.operation in STREAMS:
        answer = described["responses"]["200"]["content"]
        answer["text/event-stream"] = answer.pop("application/json")
    if route.operation in MEDIA:
        content: dict[str, Any] = {MEDIA[route.operation]: {"schema": {}}}
        described["responses"]["200"] = {"description": summary, "content": content}
    return described


def security_of(route: Route) -> list[dict[str, list[str]]]:
    """Return the accepted credentials: a key, a player's token, or none."""
    if route.scope is None:
        return []
    submits = route.scope == "submit" and route.operation.endswith(
        ("score", "scores", "claim_reward")
    )
    if route.scope == "read" or submits or tag_of(route) in ("classic", "runs"):
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


# ------------------------------------------------------------------------ the page


Described = Mapping[str, Any]

STYLE = """\
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #fff; --faint: #5c6570; --line: #e3e6ea;
  --raised: #f6f7f9; --accent: #0b62d6; --get: #0a7a50; --post: #0b62d6; --put: #97600a;
  --delete: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --paper: #14171b; --faint: #9aa4af;
  --line: #2b3138; --raised: #1c2026; --accent: #6ea8ff; --get: #4cc38a; --post: #6ea8ff;
  --put: #e0a94a; --delete: #ff8a80; } }
* { box-sizing: border-box; }
html { scroll-behavior: smooth; scroll-padding-top: 1rem; }
body { margin: 0; color: var(--ink); background: var(--paper); line-height: 1.5;
  font: 15px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
a { color: var(--accent); text-decoration: none; }
a:hover, a:focus { text-decoration: underline; }
nav { position: fixed; inset: 0 auto 0 0; width: 18rem; padding: 1.5rem 1rem 3rem 1.5rem;
  overflow-y: auto; border-right: 1px solid var(--line); background: var(--raised); }
nav h1 { margin: 0 0 .1rem; font-size: 1.3rem; }
nav h2 { margin: 1.2rem 0 .3rem; font-size: .75rem; letter-spacing: .06em; color: var(--faint);
  text-transform: uppercase; }
nav ul { margin: 0; padding: 0; list-style: none; }
nav li a { display: flex; gap: .5rem; padding: .12rem 0; color: inherit; font-size: .85rem; }
main { margin-left: 18rem; padding: 2rem 3rem 6rem; max-width: 64rem; }
main > section > h2 { margin: 3rem 0 0; font-size: 1.5rem; text-transform: capitalize; }
article { margin-top: 1.5rem; padding: 1.1rem 1.4rem 1.2rem; border: 1px solid var(--line);
  border-radius: 10px; }
article h3 { display: flex; flex-wrap: wrap; align-items: baseline; gap: .6rem; margin: 0;
  font-size: 1rem; }
article h3 code { font-size: .95rem; overflow-wrap: anywhere; }
article > p { margin: .4rem 0 .6rem; }
h4 { margin: 1rem 0 .3rem; font-size: .75rem; letter-spacing: .06em; color: var(--faint);
  text-transform: uppercase; }
code, pre { font-family: ui-monospace, "SF Mono", Menlo, Consolas, monospace; font-size: .85rem; }
pre { margin: .3rem 0; padding: .7rem .9rem; overflow-x: auto; border-radius: 6px;
  background: var(--raised); }
.method { font: 700 .72rem/1 ui-monospace, Menlo, Consolas, monospace; min-width: 3.4rem; }
nav .method { font-size: .62rem; line-height: 1.9; min-width: 2.6rem; }
.get { color: var(--get); } .post { color: var(--post); } .put { color: var(--put); }
.delete { color: var(--delete); }
.scope { margin-left: auto; padding: .05rem .5rem; border: 1px solid var(--line);
  border-radius: 99px; color: var(--faint); font-size: .75rem; font-weight: 400; }
table { width: 100%; border-collapse: collapse; font-size: .88rem; }
td { padding: .3rem .8rem .3rem 0; vertical-align: top; border-top: 1px solid var(--line); }
td:first-child { width: 11rem; overflow-wrap: anywhere; } td:nth-child(2) { width: 13rem; }
td:nth-child(2), .faint { color: var(--faint); }
.needed { color: var(--delete); }
@media (max-width: 56rem) { nav { position: static; width: auto; border: 0; }
  main { margin: 0; padding: 1rem; } td:first-child, td:nth-child(2) { width: auto; } }
"""

TYPED_MAX = 80
"""Longer type descriptions are cut."""


@cache
def page() -> bytes:
    """Return the API reference page."""
    described = describe(table())
    operations = list(_operations(described))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>rankd API</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="stylesheet" href="/docs.css"></head><body>'
        f"{_contents(operations)}<main>{_welcome(described)}"
        f"{''.join(_groups(described, operations))}</main></body></html>"
    ).encode()


def _escape(text: str) -> str:
    from html import escape  # Only the page needs it: its table of entities is not for the start.

    return escape(text)


Operation = tuple[str, str, Described]


def _operations(described: Described) -> Iterator[Operation]:
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            yield method, path, operation


def _contents(operations: list[Operation]) -> str:
    linked = '<a href="/openapi.json">openapi.json</a>'
    version = _escape(__version__)
    parts = [f'<nav><h1>rankd</h1><div class="faint">{version} · {linked}</div>']
    for tag in TAGS:
        items = "".join(
            f'<li><a href="#{operation["operationId"]}">{_badge(method)}'
            f"<span>{_words(operation['operationId'])}</span></a></li>"
            for method, _, operation in operations
            if operation["tags"] == [tag]
        )
        parts.append(f"<h2>{tag}</h2><ul>{items}</ul>")
    return "".join(parts) + "</nav>"


def _words(operation_id: str) -> str:
    return _escape(operation_id.replace("_", " "))


def _badge(method: str) -> str:
    return f'<span class="method {method}">{method.upper()}</span>'


def _welcome(described: Described) -> str:
    paragraphs = described["info"]["description"].strip().split("\n\n")
    return "".join(f"<p>{_prose(paragraph)}</p>" for paragraph in paragraphs)


def _prose(text: str) -> str:
    """Return text as HTML, with spans between backticks as code."""
    parts = _escape(" ".join(text.split())).replace("``", "`").split("`")
    return "".join(f"<code>{part}</code>" if at % 2 else part for at, part in enumerate(parts))


def _groups(described: Described, operations: list[Operation]) -> Iterator[str]:
    for tag, doc in TAGS.items():
        mine = [one for one in operations if one[2]["tags"] == [tag]]
        articles = "".join(_article(described, *one) for one in mine)
        yield f"<section><h2>{tag}</h2><p>{_escape(doc)}</p>{articles}</section>"


def _article(described: Described, method: str, path: str, operation: Described) -> str:
    scope = operation.get("x-scope")
    badge = f'<span class="scope">{scope}</span>' if scope else '<span class="scope">no key</span>'
    return (
        f'<article id="{operation["operationId"]}">'
        f"<h3>{_badge(method)}<code>{_escape(path)}</code>{badge}</h3>"
        f"<p>{_prose(operation['summary'] + ' ' + operation.get('description', ''))}</p>"
        f"{_parameters(operation)}{_body(described, operation)}{_responses(operation)}</article>"
    )


def _parameters(operation: Described) -> str:
    rows = [
        _row(
            param["name"],
            param["schema"],
            param.get("description") or param["schema"].get("description", ""),
            needed=param["required"] and param["in"] != "path",
        )
        for param in operation["parameters"]
    ]
    return f"<h4>Parameters</h4><table>{''.join(rows)}</table>" if rows else ""


def _row(name: str, schema: Described, doc: str, *, needed: bool) -> str:
    mark = ' <span class="needed" title="required">*</span>' if needed else ""
    cells = (f"<code>{_escape(name)}</code>{mark}", _escape(_typed(schema)), _prose(doc))
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _body(described: Described, operation: Described) -> str:
    body = operation.get("requestBody")
    if body is None:
        return ""
    schema = body["content"]["application/json"]["schema"]
    shape = described["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    rows = [
        _row(name, inner, inner.get("description", ""), needed=name in shape.get("required", ()))
        for name, inner in shape["properties"].items()
    ]
    examples = "".join(
        f"<pre>{_escape(json.dumps(example, ensure_ascii=False))}</pre>"
        for example in shape.get("examples", ())
    )
    return f"<h4>Body</h4><table>{''.join(rows)}</table>{examples}"


def _responses(operation: Described) -> str:
    good = [
        f"{status}: {_escape(_answered(answer))}"
        for status, answer in operation["responses"].items()
        if status.isdigit() and "$ref" not in answer
    ]
    wrong = [
        status
        for status, answer in operation["responses"].items()
        if status.isdigit() and "$ref" in answer
    ]
    refused = f'<span class="faint">or a problem: {", ".join(wrong)}</span>'
    return f"<h4>Answers</h4><div>{' · '.join(good)} {refused}</div>"


def _answered(answer: Described) -> str:
    for media, content in answer.get("content", {}).items():
        return media if not content["schema"] else _typed(content["schema"])
    return "no body"


def _typed(schema: Described) -> str:
    """Return a short description of a value's type."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        kinds = [_typed(inner) for inner in schema["anyOf"] if inner != {"type": "null"}]
        words = " or ".join(dict.fromkeys(kinds))
    elif "enum" in schema:
        words = " | ".join(map(str, schema["enum"]))
    elif schema.get("type") == "array":
        words = f"list of {_typed(schema.get('items', {}))}"
    else:
        words = f"{schema.get('type', 'anything')}{_bounds(schema)}"
    if "default" in schema:
        words += f", default {json.dumps(schema['default'])}"
    return words if len(words) <= TYPED_MAX else words[:TYPED_MAX] + "…"


def _bounds(schema: Described) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None and abs(high) < 2**53 and abs(low) < 2**53:
        return f", {low} to {high}"
    if low is not None and abs(low) < 2**53:
        return f", from {low}"
    if "maxLength" in schema:
        return f", up to {schema['maxLength']}"
    return ""


# -------------------------------------------------------------------------- handlers

_CACHEABLE = b"public, max-age=300"


async def openapi(service: object, request: Request) -> Response:
    """Return the OpenAPI document."""
    del service, request
    return Response(document(), cache_control=_CACHEABLE)


async def docs(service: object, request: Request) -> Response:
    """Return the API reference as a page, without external resources."""
    del service, request
    return Response(page(), content_type=HTML, cache_control=_CACHEABLE)


async def docs_style(service: object, request: Request) -> Response:
    """Return the style sheet of the API reference page."""
    del service, request
    kind = b"text/css; charset=utf-8"
    return Response(STYLE.encode(), content_type=kind, cache_control=_CACHEABLE)


ROUTES = (
    Route(method="GET", path="/openapi.json", operation="openapi", handler=openapi),
    Route(method="GET", path="/docs", operation="docs", handler=docs, any_query=True),
    Route(method="GET", path="/docs.css", operation="docs_style", handler=docs_style),
)

"""The description of the API, made from the table of routes: OpenAPI 3.1, and a page to read it."""

import html
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import msgspec

from rankd._version import __version__
from rankd.api.problems import Problem
from rankd.api.routes import Param, Route

_TEMPLATE = re.compile(r"\{(\w+)\}")
_REFERENCE = "#/components/schemas/{name}"


@cache
def document() -> bytes:
    """Return the OpenAPI document as JSON."""
    return msgspec.json.format(msgspec.json.encode(describe(_table())), indent=1)


def _table() -> tuple[Route, ...]:
    from rankd.api.table import ROUTES  # The table has a route to this document.

    return ROUTES


def describe(routes: tuple[Route, ...]) -> dict[str, Any]:
    """Return the OpenAPI document of some routes."""
    kinds = _kinds(routes)
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REFERENCE)
    by_kind = {repr(kind): schema for kind, schema in zip(kinds, schemas, strict=True)}
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, by_kind)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "rankd",
            "version": __version__,
            "description": "A real-time leaderboard service.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _kinds(routes: tuple[Route, ...]) -> list[Any]:
    found: dict[str, Any] = {repr(Problem): Problem}
    for route in routes:
        for answer in (route.body, *route.responses.values()):
            for kind in answer if isinstance(answer, tuple) else (answer,):
                if kind is not None and kind is not dict:
                    found[repr(kind)] = kind
    return list(found.values())


def _operation(route: Route, schemas: Mapping[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": route.operation,
        "summary": (route.handler.__doc__ or route.operation).strip().splitlines()[0],
        "parameters": [*_path_parameters(route), *map(_parameter, route.params)],
        "responses": {
            **{str(status): _response(kind, schemas) for status, kind in _answers(route)},
            "default": _response(Problem, schemas, problem=True),
        },
    }
    if route.scope is not None:
        described["security"] = [{"key": []}, {}]
        described["x-scope"] = route.scope
    if route.body is not None:
        schema = {"type": "object"} if route.body is dict else schemas[repr(route.body)]
        described["requestBody"] = {
            "required": route.operation != "put_board",
            "content": {"application/json": {"schema": schema}},
        }
    return described


def _answers(route: Route) -> list[tuple[int, Any]]:
    return list(route.responses.items()) or [(200, None)]


def _response(kind: Any, schemas: Mapping[str, Any], *, problem: bool = False) -> dict[str, Any]:
    if kind is None:
        return {"description": "As it says."}
    if isinstance(kind, tuple):
        any_of = {"anyOf": [schemas[repr(each)] for each in kind]}
        return {"description": "Done.", "content": {"application/json": {"schema": any_of}}}
    wrong = problem or kind is Problem
    media = "application/problem+json" if wrong else "application/json"
    return {
        "description": "What is wrong, and what to do." if wrong else "Done.",
        "content": {media: {"schema": schemas[repr(kind)]}},
    }


def _path_parameters(route: Route) -> Iterator[dict[str, Any]]:
    for name in _TEMPLATE.findall(route.path):
        schema = {"type": "string", "minLength": 1}
        yield {"name": name, "in": "path", "required": True, "schema": schema}


def _parameter(param: Param) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string", "maxLength": param.length_max}
    if param.kind is int:
        schema = {"type": "integer", "minimum": param.low, "maximum": param.high}
    elif param.kind is bool:
        schema = {"type": "boolean"}
    if param.choices:
        schema["enum"] = list(param.choices)
    if param.default is not None:
        schema["default"] = param.default
    return {
        "name": param.name,
        "in": "query",
        "required": param.required,
        "description": param.doc,
        "schema": schema,
    }


@cache
def DOCS_PAGE() -> bytes:
    """Return the description as a page that loads nothing from anywhere."""
    rows = "".join(_rows())
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>rankd API</title>'
        '<meta name="viewport" content="width=device-width">'
        f"<h1>rankd {html.escape(__version__)}</h1>"
        '<p>The machine-readable description is <a href="/openapi.json">openapi.json</a>.</p>'
        f"{rows}</html>"
    ).encode()


def _rows() -> Iterator[str]:
    for route in _table():
        summary = (route.handler.__doc__ or "").strip().splitlines()[0]
        scope = f" <small>scope: {route.scope}</small>" if route.scope else ""
        yield f"<h3><code>{route.method} {html.escape(route.path)}</code>{scope}</h3>"
        yield f"<p>{html.escape(summary)}</p>"
        if route.params:
            items = "".join(
                f"<li><code>{param.name}</code>: {html.escape(param.doc or param.accepts())}</li>"
                for param in route.params
            )
            yield f"<ul>{items}</ul>"

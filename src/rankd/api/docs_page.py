"""The API reference page, rendered from the OpenAPI document. It loads one local style sheet."""

import html
import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from rankd._version import __version__
from rankd.api.openapi import TAGS, describe, table

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
    """Return the page."""
    described = describe(table())
    operations = list(_operations(described))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>rankd API</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="stylesheet" href="/docs.css"></head><body>'
        f"{_contents(operations)}<main>{_welcome(described)}"
        f"{''.join(_groups(described, operations))}</main></body></html>"
    ).encode()


Operation = tuple[str, str, Described]


def _operations(described: Described) -> Iterator[Operation]:
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            yield method, path, operation


def _contents(operations: list[Operation]) -> str:
    linked = '<a href="/openapi.json">openapi.json</a>'
    version = html.escape(__version__)
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
    return html.escape(operation_id.replace("_", " "))


def _badge(method: str) -> str:
    return f'<span class="method {method}">{method.upper()}</span>'


def _welcome(described: Described) -> str:
    paragraphs = described["info"]["description"].strip().split("\n\n")
    return "".join(f"<p>{_prose(paragraph)}</p>" for paragraph in paragraphs)


def _prose(text: str) -> str:
    """Return text as HTML, with spans between backticks as code."""
    parts = html.escape(" ".join(text.split())).replace("``", "`").split("`")
    return "".join(f"<code>{part}</code>" if at % 2 else part for at, part in enumerate(parts))


def _groups(described: Described, operations: list[Operation]) -> Iterator[str]:
    for tag, doc in TAGS.items():
        mine = [one for one in operations if one[2]["tags"] == [tag]]
        articles = "".join(_article(described, *one) for one in mine)
        yield f"<section><h2>{tag}</h2><p>{html.escape(doc)}</p>{articles}</section>"


def _article(described: Described, method: str, path: str, operation: Described) -> str:
    scope = operation.get("x-scope")
    told = f'<span class="scope">{scope}</span>' if scope else '<span class="scope">no key</span>'
    return (
        f'<article id="{operation["operationId"]}">'
        f"<h3>{_badge(method)}<code>{html.escape(path)}</code>{told}</h3>"
        f"<p>{_prose(operation['summary'] + ' ' + operation.get('description', ''))}</p>"
        f"{_parameters(operation)}{_body(described, operation)}{_answers(operation)}</article>"
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
    cells = (f"<code>{html.escape(name)}</code>{mark}", html.escape(_typed(schema)), _prose(doc))
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
        f"<pre>{html.escape(json.dumps(example, ensure_ascii=False))}</pre>"
        for example in shape.get("examples", ())
    )
    return f"<h4>Body</h4><table>{''.join(rows)}</table>{examples}"


def _answers(operation: Described) -> str:
    good = [
        f"{status}: {html.escape(_answered(answer))}"
        for status, answer in operation["responses"].items()
        if status.isdigit() and "$ref" not in answer
    ]
    wrong = [
        status
        for status, answer in operation["responses"].items()
        if status.isdigit() and "$ref" in answer
    ]
    told = f'<span class="faint">or a problem: {", ".join(wrong)}</span>'
    return f"<h4>Answers</h4><div>{' · '.join(good)} {told}</div>"


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

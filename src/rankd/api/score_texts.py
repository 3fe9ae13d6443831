"""Scores as text, for clients whose numbers are less exact than 64 bits.

A JavaScript number is exact up to 2**53. A client that sends ``?numbers=string``, or ``Accept:
application/json; numbers=string``, gets every score as JSON text with the same digits. A response
is rendered with numbers first and converted once, behind both lanes and every cache.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from rankd import schemas
from rankd.api.messages import JSON, Header, Response
from rankd.api.routing import NUMBERS

BY_ACCEPT: Header = (b"vary", b"accept")
"""Sent with cacheable responses that have scores."""

SCORES = frozenset(
    (
        *("score", "previous_score", "new_score", "delta", "raw_delta"),
        *("columns", "scores", "raw_scores"),
        *("score_min", "score_max", "gain_per_minute_max"),
    )
)
"""Fields that hold a score, or a list or an object of scores."""

OPAQUE = frozenset(("metadata", "attributes"))
"""Fields with arbitrary values from clients."""

BY_NAME = frozenset(("windows",))
"""Fields whose objects have names chosen by boards as keys."""

_ACCEPTED = re.compile(
    rb'application/json\s*;[^,]*\bnumbers="?string"?\s*(?:[;,]|$)', re.IGNORECASE
)

_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_items = msgspec.json.Decoder(list[Raw]).decode


def wants_text(query: Mapping[str, Any], headers: Mapping[bytes, bytes]) -> bool:
    """Whether scores are requested as text. The query takes precedence over Accept."""
    if NUMBERS.name not in query:
        return False  # The route has no scores, or the query was refused.
    asked = query[NUMBERS.name]
    if asked is not None:
        return bool(asked == "string")
    return _ACCEPTED.search(headers.get(b"accept", b"")) is not None


def text_tag(etag: bytes) -> bytes:
    """Return the ETag of a body with scores as text."""
    return etag[:-1] + b'-text"'


def with_text(response: Response) -> Response:
    """Return a response with its scores as text; a 304 and an error have none."""
    if response.content_type != JSON:
        return response
    headers = tuple(
        (name, text_tag(value) if name == b"etag" else value) for name, value in response.headers
    )
    body = convert(response.body)
    return msgspec.structs.replace(response, body=body, headers=headers)


def convert(body: bytes) -> bytes:
    """Return JSON with every score as text. All other bytes stay the same."""
    match body[:1]:
        case b"{":
            return _object({name: _field(name, value) for name, value in _fields(body).items()})
        case b"[":
            return b"[%b]" % b",".join(convert(bytes(item)) for item in _items(body))
        case _:
            return body


def _field(name: str, value: Raw) -> bytes:
    text = bytes(value)
    if name in OPAQUE:
        return text
    if name in SCORES:
        return _quote(text)
    if name in BY_NAME and text[:1] == b"{":
        return _object({each: convert(bytes(one)) for each, one in _fields(text).items()})
    return convert(text)


def _quote(text: bytes) -> bytes:
    match text[:1]:
        case b"{":
            return _object({name: _quote(bytes(value)) for name, value in _fields(text).items()})
        case b"[":
            return b"[%b]" % b",".join(_quote(bytes(item)) for item in _items(text))
        case b'"' | b"n" | b"t" | b"f":
            return text
        case _:
            return b'"%b"' % text


def _object(fields: Mapping[str, bytes]) -> bytes:
    return schemas.encode({name: Raw(value) for name, value in fields.items()})

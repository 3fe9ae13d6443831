"""The request a handler receives, its JSON body, and the response it returns.

Plain values, independent of the lane: a handler cannot tell which lane called it. Sockets, parsers
and ASGI stay outside.
"""

import functools
import json
import re
import secrets
from collections.abc import Hashable, Mapping
from decimal import Decimal
from typing import Any, TypeVar, cast

import msgspec

from rankd.errors import FieldError, InvalidRequest, MalformedRequest, UnsupportedMediaType
from rankd.model.board import shown_name

JSON = b"application/json"
PROBLEM_JSON = b"application/problem+json"
HTML = b"text/html; charset=utf-8"

NO_STORE = b"no-store"
"""The default cache-control: a rank is outdated when it is read."""

Header = tuple[bytes, bytes]


def new_request_id() -> str:
    """Return a unique id: 64 random bits."""
    return secrets.token_hex(8)


class Request(msgspec.Struct, gc=False):
    """One complete request: head parsed, body read, query validated."""

    method: str
    """The method as sent: ``HEAD`` where a route declares ``GET``."""
    path: str
    """Without the query, still percent-encoded."""
    params: Mapping[str, str]
    """The values of the template's parameters, percent-decoded once."""
    query: Mapping[str, Any]
    """Every parameter the route declares, of the type it declares, or its default."""
    headers: Mapping[bytes, bytes]
    """By name in lower case. A header that was repeated is joined with commas."""
    body: bytes = b""
    client: str = ""
    """The address at the other end of the connection; a proxy's, if there is one."""
    _request_id: str = ""
    counted: bool = False
    """Whether rate limits have counted it already."""

    @property
    def request_id(self) -> str:
        """The id of this request in responses and logs, generated at first use."""
        if not self._request_id:
            self._request_id = new_request_id()
        return self._request_id


class Response(msgspec.Struct, frozen=True, gc=False):
    """One response. The lane adds its length, the date and the common headers.

    Frozen, so that a handler may cache and return it again.
    """

    body: bytes = b""
    status: int = 200
    content_type: bytes = JSON
    cache_control: bytes = NO_STORE
    headers: tuple[Header, ...] = ()
    """More headers, names in lower case. Names and values come from the handler, never from a
    client."""


def squeezed_tag(etag: bytes) -> bytes:
    """Return the ETag of the compressed body. A tag stands for exact bytes: RFC 9110, 8.8.3."""
    return etag[:-1] + b'-gzip"'


def known_tag(request: Request, etag: bytes) -> bytes | None:
    """Return the ETag with which the client has this body cached, plain or compressed; else None.

    ``etag`` is the tag of the uncompressed body in the requested form.
    """
    shown = request.headers.get(b"if-none-match")
    if shown is None:
        return None
    tags = [tag.strip().removeprefix(b"W/") for tag in shown.split(b",")]
    if etag in tags or b"*" in tags:
        return etag
    squeezed = squeezed_tag(etag)
    return squeezed if squeezed in tags else None


# ------------------------------------------------------------------------- JSON bodies
#
# A body that two parsers could read differently is refused. msgspec refuses NaN, Infinity, numbers
# out of range, lone surrogates and trailing bytes. It accepts three things that parsers disagree
# about:
#
# * a key that occurs twice in one object (the last one wins, silently);
# * bytes that are not UTF-8, or numbers out of range, inside a field the type does not have;
# * nesting down to Python's own limit.
#
# So the body is first decoded without a type. Encoding the result again shows in one comparison
# whether a key was lost: a text without backslashes has two quotes for each of its strings, and a
# dropped key takes its quotes along. Both passes are C and cost a third of a microsecond for a
# submission.
#
# Numbers with a point become Decimals with their exact digits, except where a type asks for floats:
# a double keeps fifteen digits, and a score has up to nineteen.


DEPTH_MAX = 32
"""The deepest nesting of arrays and objects: more than any type here needs, metadata included."""

T = TypeVar("T")

_JSON_TYPE = re.compile(
    rb'application/(?:json|[\w.-]+\+json)[ \t]*(?:;[ \t]*charset="?utf-8"?[ \t]*)?', re.IGNORECASE
)
_WHERE = re.compile(r".*( - at `(?:key in )?\$?\.?(.*?)`)", re.DOTALL)
"""Matches the last path in the message: a quoted field name before it may look like one."""
_MISSING = re.compile(r"Object missing required field `(\w+)`")
_OTHERWISE = re.compile(r"Expected `([^`]*)`, got `([^`]*)`")

_WORDS = {
    "array": "a list",
    "bool": "true or false",
    "decimal": "a number",
    "float": "a number with a point",
    "int": "a whole number",
    "object": "an object",
    "str": "text",
}
"""JSON words for the Python type names in msgspec's messages."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def decode_body(request: Request, kind: type[T]) -> T:
    """Return the body as a value of this type.

    Raises UnsupportedMediaType, MalformedRequest (400: not JSON, or not strict) or InvalidRequest
    (422: JSON with fields this type does not accept).
    """
    if request.headers.get(b"content-encoding", b"").lower() not in {b"", b"identity"}:
        raise UnsupportedMediaType("application/json", encoded=True)
    content_type = request.headers.get(b"content-type", b"")
    if content_type != b"application/json" and not _JSON_TYPE.fullmatch(content_type):
        raise UnsupportedMediaType("application/json")
    return decode_json(request.body, kind)


def decode_json(text: bytes, kind: type[T]) -> T:
    """Return a JSON text as a value of this type. Raises as ``decode_body`` does."""
    _check_json(text)
    try:
        value: T = _decoder(cast("Hashable", kind)).decode(text)
    except msgspec.ValidationError as exc:
        raise InvalidRequest(_unknown_fields(text, kind) or [_wrong_field(str(exc))]) from None
    return value


@functools.lru_cache(maxsize=256)
def _decoder(kind: Hashable) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(cast("Any", kind), float_hook=Decimal)


def _check_json(text: bytes) -> None:
    """Raise MalformedRequest unless all JSON parsers decode this text to the same value."""
    try:
        value = _decode(text)
        if text.count(b"{") + text.count(b"[") > DEPTH_MAX:
            _check_depth(value)
        if b"\\" in text:
            json.loads(text, object_pairs_hook=_check_keys)
        elif text.count(b'"') != _encode(value).count(b'"'):
            raise MalformedRequest("the body has an object with the same key twice")
    except RecursionError:
        raise MalformedRequest(_TOO_DEEP) from None
    except (OverflowError, msgspec.ValidationError):  # Without a type, only that is invalid.
        raise MalformedRequest("the body has a number that is too large") from None
    except (ValueError, msgspec.MsgspecError):
        raise MalformedRequest(_unread(text)) from None


_TOO_DEEP = f"the body nests deeper than {DEPTH_MAX}"


def _unread(text: bytes) -> str:
    """Return the reason why a body cannot be decoded, as specific as it is known."""
    if text.startswith(_BYTE_ORDER_MARK):
        return "the body begins with a byte order mark: leave it out"
    try:
        decoded = text.decode()
    except UnicodeDecodeError:
        return "the body is not UTF-8"
    if b"\\ud" in text.lower() and _is_otherwise_json(decoded):
        return "the body has half of a surrogate pair, which is no character"
    return "the body is not JSON"


def _is_otherwise_json(text: str) -> bool:
    """Whether Python's json decodes it, which accepts lone surrogates."""
    try:
        json.loads(text, parse_int=str, parse_float=str, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def _check_keys(pairs: list[tuple[str, Any]]) -> None:
    """Raise MalformedRequest for a repeated key. Returns None: only the keys matter."""
    if len({key for key, _ in pairs}) != len(pairs):
        raise MalformedRequest("the body has an object with the same key twice")


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(DEPTH_MAX):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if type(outer) is dict else outer)
            if type(inner) is dict or type(inner) is list
        ]
        if not level:
            return
    raise MalformedRequest(_TOO_DEEP)


def _unknown_fields(text: bytes, kind: object) -> list[FieldError]:
    """Return errors for unknown and missing fields; an empty list if no field is unknown."""
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return []
    names = kind.__struct_encode_fields__
    given = _decode(text)
    if not kind.__struct_config__.forbid_unknown_fields or not isinstance(given, dict):
        return []
    message = f"is unknown; known are {', '.join(names)}"
    unknown = [FieldError(shown_name(name), message) for name in given if name not in names]
    required = names[: len(names) - len(kind.__struct_defaults__)]
    missing = [FieldError(name, "is required") for name in required if name not in given]
    return [*unknown, *missing] if unknown else []


def _wrong_field(message: str) -> FieldError:
    """Translate msgspec's message into a FieldError, without text quoted from the body."""
    where = _WHERE.fullmatch(message)
    path, said = (where[2], message[: where.start(1)]) if where else ("", message)
    if missing := _MISSING.fullmatch(said):
        return FieldError(f"{path}.{missing[1]}".lstrip("."), "is required")
    if otherwise := _OTHERWISE.fullmatch(said):
        return FieldError(path, f"must be {_in_words(otherwise[1])}, not {_in_words(otherwise[2])}")
    if said.startswith("Object contains unknown field"):
        return FieldError(path, "has a field that is not known here")
    return FieldError(path, "has a value it cannot have")


def _in_words(kinds: str) -> str:
    return " or ".join(_WORDS.get(kind, kind) for kind in kinds.split(" | "))

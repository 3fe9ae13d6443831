"""JSON of the client: request bodies, and the responses that only clients read.

JSON has no NaN and no infinity. The encoder writes null for them, which means that nothing was
given: an impossible score would count as another one, and metadata would be stored changed. So
values that JSON cannot represent are refused here.
"""

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from math import isfinite
from typing import TypeVar
from urllib.parse import quote, urlencode

import msgspec

from rankd import schemas
from rankd.errors import FieldError, Invalid, InvalidRequest, InvalidSubmission
from rankd.http_client import HttpResponse

T = TypeVar("T")


class Key(msgspec.Struct, omit_defaults=True):
    """A key as it is listed."""

    id: str
    scopes: list[str]
    boards: list[str] | None
    title: str | None
    created: str | None = None
    last_used: str | None = None
    expires: str | None = None
    key: str | None = None
    """The secret: returned once, when the key is created."""
    signing: str | None = None
    """hmac or ed25519 for a key that signs submissions; run for one that signs runs."""
    public_key: str | None = None


class Keys(msgspec.Struct):
    """All keys."""

    keys: list[Key]


class Problem(msgspec.Struct):
    """The body of an error response."""

    status: int
    detail: str
    code: str
    request_id: str | None = None
    applied: str | None = None
    errors: list[schemas.WrongField] | None = None


class PolledPage(msgspec.Struct):
    """The result of polling a page."""

    page: schemas.Page | None
    """None if it has not changed."""
    etag: str | None
    """Pass it to the next call."""


NAME_LENGTH_MAX = 64
"""Characters of a name in the path of a field: enough to find it."""

MESSAGE = "must be a finite number: neither NaN nor an infinity can be sent"

_SIGNS = (b"null", b"NaN", b"Infinity")
"""The encodings of a float or Decimal that is not finite."""


def encoded(said: object, refused: type[Invalid] = InvalidRequest) -> bytes:
    """Return a body. Raises ``refused`` with every field that is not a finite number."""
    body = schemas.encode(said)
    if _is_doubtful(body):
        _insist(said, "", 0, refused)
    return body


def encoded_scores(scores: Sequence[object], *, first: int = 0) -> bytes:
    """Return the body of a batch. ``first`` is the index of its first item, for error messages."""
    body = schemas.encode({"scores": scores})
    if _is_doubtful(body):
        _insist(scores, "scores", first, InvalidSubmission)
    return body


def _is_doubtful(body: bytes) -> bool:
    """Whether to check every value: searching the bytes first costs nothing beside sending them."""
    return any(sign in body for sign in _SIGNS)


def _insist(said: object, path: str, first: int, refused: type[Invalid]) -> None:
    plain = msgspec.to_builtins(said, str_keys=True, builtin_types=(Decimal,))
    if errors := [FieldError(field, MESSAGE) for field in _no_numbers(plain, path, first)]:
        raise refused(errors)


def _no_numbers(value: object, path: str, first: int = 0) -> Iterator[str]:
    """Yield the path of every number that is not finite."""
    match value:
        case float() | Decimal() if not isfinite(value):
            yield path
        case dict():
            for name, inner in value.items():
                below = str(name)[:NAME_LENGTH_MAX]
                yield from _no_numbers(inner, f"{path}.{below}" if path else below)
        case list() | tuple():
            for number, inner in enumerate(value, start=first):
                yield from _no_numbers(inner, f"{path}[{number}]")


def _segment(value: object) -> str:
    """Encode one segment of a path, including dots that would change the path."""
    text = str(value)
    return text.replace(".", "%2E") if text in {".", ".."} else quote(text, safe="")


def path_of(template: str, *values: object, **query: object) -> str:
    """Return a path with its values percent-encoded, and the given parameters of the query."""
    path = template.format(*map(_segment, values))
    given = {name: _shown(value) for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def reader_of(kind: type[T]) -> Callable[[HttpResponse], T]:
    """Return the decoder of responses of a type."""
    decode = msgspec.json.Decoder(kind, float_hook=Decimal).decode

    def read(answer: HttpResponse) -> T:
        return decode(answer.body)

    return read


def body_of(refused: type[Invalid] = InvalidRequest, /, **given: object) -> bytes:
    """Return the JSON of the fields that are given. Raises ``refused``."""
    return encoded({name: value for name, value in given.items() if value is not None}, refused)

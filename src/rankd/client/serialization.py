"""JSON of the client: request bodies, and the responses that only clients read.

JSON has no NaN and no infinity. The encoder writes null for them, which means that nothing was
given: an impossible score would count as another one, and metadata would be stored changed. So
values that JSON cannot represent are refused here.
"""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from math import isfinite

import msgspec

from rankd import schemas
from rankd.errors import FieldError, Invalid, InvalidRequest, InvalidSubmission


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

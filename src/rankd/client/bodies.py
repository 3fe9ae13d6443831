"""What a call says, as JSON; refused here if JSON cannot say it.

There is no NaN and no infinity in JSON. The encoder writes null where there was one, which means
something else: that nothing was given. So a score nobody can rank would be counted as another, and
metadata kept as what it never was.
"""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from math import isfinite

import msgspec

from rankd import wire
from rankd.errors import FieldError, Invalid, InvalidRequest, InvalidSubmission

NAME_LENGTH_MAX = 64
"""Of a name in the path of a field: enough to find it again."""

MESSAGE = "must be a finite number: neither NaN nor an infinity can be sent"

_SIGNS = (b"null", b"NaN", b"Infinity")
"""What a float, or a Decimal, that is no number is written as."""


def encoded(said: object, refused: type[Invalid] = InvalidRequest) -> bytes:
    """Return a body. Raises ``refused`` with every field that is no number."""
    body = wire.encode(said)
    if _is_doubtful(body):
        _insist(said, "", 0, refused)
    return body


def encoded_scores(scores: Sequence[object], *, first: int = 0) -> bytes:
    """Return the body of a batch, of which the first is so many behind the first of them all."""
    body = wire.encode({"scores": scores})
    if _is_doubtful(body):
        _insist(scores, "scores", first, InvalidSubmission)
    return body


def _is_doubtful(body: bytes) -> bool:
    """Whether it is worth looking closer: to search bytes costs nothing, beside sending them."""
    return any(sign in body for sign in _SIGNS)


def _insist(said: object, path: str, first: int, refused: type[Invalid]) -> None:
    plain = msgspec.to_builtins(said, str_keys=True, builtin_types=(Decimal,))
    if errors := [FieldError(field, MESSAGE) for field in _no_numbers(plain, path, first)]:
        raise refused(errors)


def _no_numbers(value: object, path: str, first: int = 0) -> Iterator[str]:
    """Yield the path of everything that is none."""
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

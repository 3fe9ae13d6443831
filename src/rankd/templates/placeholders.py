"""Placeholders, and the splitting of a schema's JSON at them."""

import re
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import msgspec


class PlaceholderKind(IntEnum):
    """The rendering of a placeholder from one row of a column."""

    NUMBER = 0
    """The number."""
    OPTIONAL = 1
    """The number; null if it is 0."""
    GUARDED = 2
    """The number; null if that of the other column is 0."""
    CHANGE = 3
    """The number minus that of the other column; null if one of them is 0."""
    SHARE = 4
    """The percentile of a rank, with the total in the other column; null if the rank is 0."""
    CHOICE = 5
    """One of some texts; the number is its index."""
    TEXT = 6
    """A JSON string; null for None."""
    RAW = 7
    """Encoded JSON, unchanged; null for None."""
    COUNT = 8
    """A number that grows by one from row to row; the column is the first number."""
    MASKED = 9
    """A number stored in eight bytes, big-endian, XORed with a mask."""


class Placeholder:
    """One placeholder, to be put into a schema in place of a value."""

    __slots__ = ("column", "every", "kind", "mask", "other", "texts")

    def __init__(
        self,
        kind: PlaceholderKind,
        column: int,
        *,
        other: int = 0,
        every: int = 1,
        mask: int = 0,
        texts: Sequence[bytes] = (),
    ) -> None:
        self.kind = kind
        self.column = column
        """The index of its column."""
        self.other = other
        """The index of the second column, for kinds that need two."""
        self.every = every
        """The distance between two rows: in numbers, or in bytes if masked."""
        self.mask = mask
        self.texts = texts
        """The texts of a CHOICE."""


def placeholder(kind: PlaceholderKind, column: int, **how: Any) -> Any:
    """Return a placeholder, typed Any so that it fits any field of a schema."""
    return Placeholder(kind, column, **how)


_MARK = "\0%d\0"
_MARKED = re.compile(rb'"\\u0000(\d+)\\u0000"')


def parts_of(shape: object) -> list[bytes | Placeholder]:
    """Return a schema's JSON, split at its placeholders."""
    blanks: list[Placeholder] = []

    def mark(value: object) -> str:
        assert isinstance(value, Placeholder), f"{value!r} cannot be a part of a form"
        blanks.append(value)
        return _MARK % (len(blanks) - 1)

    text = msgspec.json.Encoder(enc_hook=mark, decimal_format="number").encode(shape)
    parts: list[bytes | Placeholder] = []
    for place, part in enumerate(_MARKED.split(text)):
        parts.append(blanks[int(part)] if place % 2 else part)
    return parts

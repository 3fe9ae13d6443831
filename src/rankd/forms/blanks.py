"""What may be left blank in a form, and how a shape with blanks becomes one."""

import re
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import msgspec


class Kind(IntEnum):
    """How a blank is filled in from the row of a column."""

    NUMBER = 0
    """The number."""
    OPTIONAL = 1
    """The number, null where it is 0."""
    GUARDED = 2
    """The number, null where that of another column is 0."""
    CHANGE = 3
    """The number less that of another column, null where one of them is 0."""
    SHARE = 4
    """The percentile of a rank among as many as another column tells, null where it is 0."""
    CHOICE = 5
    """One of some texts, which the number counts from 0."""
    TEXT = 6
    """A string, null where it is None."""
    RAW = 7
    """JSON as it is, null where it is None."""
    COUNT = 8
    """A number that grows by one from row to row; the column is the first."""
    MASKED = 9
    """A number kept in eight bytes, most significant first, under a mask."""


class Blank:
    """One blank, to be put into a shape where its value will be."""

    __slots__ = ("column", "every", "kind", "mask", "other", "texts")

    def __init__(
        self,
        kind: Kind,
        column: int,
        *,
        other: int = 0,
        every: int = 1,
        mask: int = 0,
        texts: Sequence[bytes] = (),
    ) -> None:
        self.kind = kind
        self.column = column
        """Which of the columns it is filled in from."""
        self.other = other
        """The other one, of kinds that look at two."""
        self.every = every
        """How far it is from one row to the next: in numbers, in bytes if masked."""
        self.mask = mask
        self.texts = texts
        """What a CHOICE chooses from."""


def blank(kind: Kind, column: int, **how: Any) -> Any:
    """Return a blank as a value of whatever type a shape wants there."""
    return Blank(kind, column, **how)


_MARK = "\0%d\0"
_MARKED = re.compile(rb'"\\u0000(\d+)\\u0000"')


def parts_of(shape: object) -> list[bytes | Blank]:
    """Return a shape as JSON, parted where there are blanks in it."""
    blanks: list[Blank] = []

    def mark(value: object) -> str:
        assert isinstance(value, Blank), f"{value!r} cannot be a part of a form"
        blanks.append(value)
        return _MARK % (len(blanks) - 1)

    text = msgspec.json.Encoder(enc_hook=mark, decimal_format="number").encode(shape)
    parts: list[bytes | Blank] = []
    for place, part in enumerate(_MARKED.split(text)):
        parts.append(blanks[int(part)] if place % 2 else part)
    return parts

"""Templates in pure Python: the reference for the native ones, and their fallback."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from rankd.templates.placeholders import Placeholder, PlaceholderKind

_NULL = b"null"
_encode = msgspec.json.encode


class Form:
    """JSON with placeholders. Same behaviour as the native class."""

    def __init__(self, parts: Sequence[bytes | Placeholder]) -> None:
        self._parts = list(parts)

    def fill_one(self, values: Sequence[Any]) -> bytes:
        """Return the template rendered with one value for each column."""
        columns = [
            value if isinstance(value, bytes) and self._is_packed(number) else [value]
            for number, value in enumerate(values)
        ]
        return self._row(columns, 0)

    def fill(self, columns: Sequence[Any], start: int, end: int) -> bytes:
        """Return the template rendered for each row from ``start`` to ``end``, joined by commas."""
        return b",".join(self.fill_each(columns, start, end))

    def fill_each(self, columns: Sequence[Any], start: int, end: int) -> list[bytes]:
        """Return the template rendered for each row from ``start`` to ``end``."""
        if not 0 <= start <= end:
            raise ValueError("rows count from 0")
        return [self._row(columns, row) for row in range(start, end)]

    def fill_rows(self, columns: Sequence[Any], rows: Sequence[int]) -> bytes:
        """Return the template rendered for some rows in their order, joined by commas.

        A COUNT grows by one from each to the next.
        """
        if min(rows, default=0) < 0:
            raise ValueError("rows count from 0")
        return b",".join(self._row(columns, row, place) for place, row in enumerate(rows))

    def _is_packed(self, column: int) -> bool:
        return any(
            isinstance(part, Placeholder)
            and part.kind == PlaceholderKind.MASKED
            and part.column == column
            for part in self._parts
        )

    def _row(self, columns: Sequence[Any], row: int, place: int | None = None) -> bytes:
        count = row if place is None else place
        return b"".join(
            _filled(part, columns, row, count) if isinstance(part, Placeholder) else part
            for part in self._parts
        )


def _filled(placeholder: Placeholder, columns: Sequence[Any], row: int, count: int) -> bytes:
    column = columns[placeholder.column]
    if placeholder.kind == PlaceholderKind.COUNT:
        return b"%d" % ((column[0] if isinstance(column, list) else column) + count)
    at = row * placeholder.every
    if column is None or isinstance(column, int):
        column, at = [column], 0
    if placeholder.kind == PlaceholderKind.MASKED:
        word = column[at : at + 8]
        if len(word) < 8:
            raise IndexError("a column is shorter than that")
        masked = int.from_bytes(word, "big") ^ placeholder.mask
        return b"%d" % int.from_bytes(masked.to_bytes(8, "big"), "big", signed=True)
    value = column[at]
    match placeholder.kind:
        case PlaceholderKind.NUMBER:
            return b"%d" % value
        case PlaceholderKind.OPTIONAL:
            return b"%d" % value if value else _NULL
        case PlaceholderKind.CHOICE:
            return bytes(placeholder.texts[value])
        case PlaceholderKind.TEXT:
            return _encode(value)
        case PlaceholderKind.RAW:
            return _NULL if value is None else bytes(value)
    other = columns[placeholder.other]
    return _of_two(placeholder.kind, value, other if isinstance(other, int) else other[row])


def _of_two(kind: PlaceholderKind, value: int, other: int) -> bytes:
    match kind:
        case PlaceholderKind.GUARDED:
            return b"%d" % value if other else _NULL
        case PlaceholderKind.CHANGE:
            return b"%d" % (value - other) if value and other else _NULL
        case PlaceholderKind.SHARE:
            return _encode(round((other - value + 1) / other * 100, 2)) if value else _NULL
    raise AssertionError(kind)


def enclose(head: bytes, bodies: Iterable[object], size_max: int) -> list[bytes | None]:
    """Return each body after a head, its length and a blank line.

    None in place of a body that is not bytes or is longer than ``size_max``.
    """
    return [
        b"%b%d\r\n\r\n%b" % (head, len(body), body)
        if isinstance(body, bytes) and len(body) <= size_max
        else None
        for body in bodies
    ]

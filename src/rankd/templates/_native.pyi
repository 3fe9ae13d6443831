"""Native templates."""

from collections.abc import Iterable, Sequence
from typing import Any

from rankd.templates.placeholders import Placeholder

class Form:
    """JSON with placeholders. Same behaviour as the class in pure Python, in C.

    Columns are arrays of numbers (types ``q``, ``Q``, ``I``), bytes, or sequences of values for the
    kind of their placeholder; a number or None is the value of every row. Reading beyond the end of
    a column raises IndexError.
    """

    def __init__(self, parts: Sequence[bytes | Placeholder]) -> None: ...
    def fill_one(self, values: Sequence[Any]) -> bytes:
        """Return the template rendered with one value for each column."""

    def fill(self, columns: Sequence[Any], start: int, end: int) -> bytes:
        """Return the template rendered for each row from ``start`` to ``end``, joined by commas."""

    def fill_each(self, columns: Sequence[Any], start: int, end: int) -> list[bytes]:
        """Return the template rendered for each row from ``start`` to ``end``."""

    def fill_rows(self, columns: Sequence[Any], rows: Sequence[int]) -> bytes:
        """Return the template rendered for some rows in their order, joined by commas.

        A COUNT grows by one from each to the next.
        """

def enclose(head: bytes, bodies: Iterable[object], size_max: int) -> list[bytes | None]:
    """Return each body after a head, its length and a blank line.

    None in place of a body that is not bytes or is longer than ``size_max``.
    """

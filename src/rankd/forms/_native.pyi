"""Native forms, as Python sees them."""

from collections.abc import Iterable, Sequence
from typing import Any

from rankd.forms.blanks import Blank

class Form:
    """JSON with blanks. Same behaviour as ``plain.Form``, in C.

    Columns are arrays of numbers (types ``q``, ``Q``, ``I``), bytes, or sequences of whatever a
    blank of their kind takes; a number or None stands for itself in every row. Nothing is read
    beyond the end of a column: IndexError.
    """

    def __init__(self, parts: Sequence[bytes | Blank]) -> None: ...
    def fill_one(self, values: Sequence[Any]) -> bytes:
        """Return the form filled in with one value for each column."""

    def fill(self, columns: Sequence[Any], start: int, end: int) -> bytes:
        """Return the form filled in for each of some rows, with commas between them."""

    def fill_each(self, columns: Sequence[Any], start: int, end: int) -> list[bytes]:
        """Return the form filled in for each of some rows."""

def enclose(head: bytes, bodies: Iterable[object], size_max: int) -> list[bytes | None]:
    """Return each body behind a head, its size and a blank line; None for what is no such body.

    That is what is not bytes, and what is longer than ``size_max``.
    """

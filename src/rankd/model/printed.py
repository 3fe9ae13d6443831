"""How something looks to a person who prints it: what it tells, not what it is made of.

Receipts and pages are kept as columns, in smallest units, for the sake of speed. Whoever prints one
wants its rank and its score. Nothing here runs before somebody asks.
"""

from collections.abc import Iterator
from typing import Any

Words = Iterator[tuple[str, Any] | tuple[str, Any, Any]]
"""Each word and its value; a third is the value that goes without saying."""


class Printed:
    """Printed as its name and what it tells, at a prompt and by rich alike."""

    __slots__ = ()

    def _words(self) -> Words:
        raise NotImplementedError

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [(word, value) for word, value, *default in self._words() if [value] != default]

    def __repr__(self) -> str:
        said = ", ".join(f"{word}={value!r}" for word, value in self.__rich_repr__())
        return f"{type(self).__name__}({said})"

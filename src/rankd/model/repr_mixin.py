"""A readable ``repr`` for receipts, pages and standings.

Receipts and pages are stored as columns, in smallest units, for speed. Their ``repr`` shows ranks
and scores instead, and costs nothing until it is called.
"""

from collections.abc import Iterator
from typing import Any

Words = Iterator[tuple[str, Any] | tuple[str, Any, Any]]
"""Each word and its value; a third is the value that goes without saying."""


class ReprMixin:
    """Adds a ``repr`` of the class name and ``_words()``, also for rich."""

    __slots__ = ()

    def _words(self) -> Words:
        raise NotImplementedError

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [(word, value) for word, value, *default in self._words() if [value] != default]

    def __repr__(self) -> str:
        said = ", ".join(f"{word}={value!r}" for word, value in self.__rich_repr__())
        return f"{type(self).__name__}({said})"

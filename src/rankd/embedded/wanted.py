"""A board as a program asked for it, which may not be there yet.

Asking takes no time, defining a board does: it is a fact, and goes to the disk. So whoever asks has
the board in hand at once, and what it takes to define it is done when it is awaited, or with the
first write.
"""

from collections.abc import Mapping
from contextlib import suppress

from rankd.core.service import Rankd
from rankd.embedded.opening import Opened
from rankd.errors import Refused


class Wanted:
    """One board of an open engine, by its name and what was said of it."""

    def __init__(self, opened: Opened, name: str, definition: Mapping[str, object]) -> None:
        self.name = name
        self._opened = opened
        self._definition: Mapping[str, object] | None = definition
        """None once the board was there, defined so: what becomes of it later is not undone."""
        with suppress(Refused):  # Told to whoever reads or writes.
            self.there()

    def there(self) -> Rankd:
        """Return the engine, if it has the board, defined so.

        Raises UnknownBoard, BoardDiffers and InvalidBoard.
        """
        rankd = self._opened.rankd
        if self._definition is not None:
            rankd.expect(self.name, self._definition)
            self._definition = None
        return rankd

    async def made(self) -> Rankd:
        """Return the engine, once it has the board. Raises BoardDiffers and InvalidBoard."""
        rankd = self._opened.rankd
        if self._definition is not None:
            if self._definition or self.name not in rankd.book.boards:
                await rankd.define(self.name, self._definition)
            self._definition = None
        return rankd

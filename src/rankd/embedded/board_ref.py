"""A reference to a board that may not exist yet.

Making a reference takes no time; defining a board does, because that is a fact on the disk. So a
program gets the reference at once, and the board is defined when it is awaited, or with the first
write.
"""

from collections.abc import Mapping
from contextlib import suppress

from rankd.core.engine import Engine
from rankd.embedded.handles import OpenEngine
from rankd.errors import Refused


class BoardRef:
    """One board of an open engine, by its name and its expected definition."""

    def __init__(self, opened: OpenEngine, name: str, definition: Mapping[str, object]) -> None:
        self.name = name
        self._opened = opened
        self._definition: Mapping[str, object] | None = definition
        """None once the board existed with this definition; later changes to it are not undone."""
        with suppress(Refused):  # Raised again by a read or a write.
            self.there()

    def there(self) -> Engine:
        """Return the engine, if it has the board with this definition.

        Raises UnknownBoard, BoardDiffers and InvalidBoard.
        """
        rankd = self._opened.rankd
        if self._definition is not None:
            rankd.expect(self.name, self._definition)
            self._definition = None
        return rankd

    async def made(self) -> Engine:
        """Return the engine after defining the board. Raises BoardDiffers and InvalidBoard."""
        rankd = self._opened.rankd
        if self._definition is not None:
            if self._definition or self.name not in rankd.state.boards:
                await rankd.define(self.name, self._definition)
            self._definition = None
        return rankd

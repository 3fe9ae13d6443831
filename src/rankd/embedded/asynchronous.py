"""The engine for a program with an event loop: writes are awaited, reads are plain calls."""

from contextlib import nullcontext

from rankd.core.reader import at_once
from rankd.embedded.async_api import BoardWriter, RanksWriter
from rankd.embedded.board_ref import BoardRef
from rankd.embedded.handles import OpenEngine
from rankd.embedded.sync_reads import AnsweredBoard, AnsweredRanks


class AsyncBoard(AnsweredBoard, BoardWriter):
    """One board of an open engine. Reads are plain calls; writes and previews are awaited."""

    def __init__(self, wanted: BoardRef) -> None:
        super().__init__(wanted, at_once, nullcontext())


class AsyncRanks(AnsweredRanks, RanksWriter):
    """An open engine. Reads are plain calls; everything else is awaited."""

    def __init__(self, opened: OpenEngine) -> None:
        super().__init__(opened, at_once)

    def board(self, name: str, **definition: object) -> AsyncBoard:
        """Return a board; define it, with defaults for missing fields, if it does not exist.

        If awaited, it is defined now, and errors are raised. Otherwise it is defined before the
        first write to it, which raises BoardDiffers if it exists with another definition. Until
        then it can be read if it exists with this definition.
        """
        return AsyncBoard(BoardRef(self._opened, name, definition))

"""The engine for a program with an event loop: writes are awaited, reads answer at once."""

from rankd.core.reader import at_once
from rankd.embedded.answered import AnsweredBoard, AnsweredRanks
from rankd.embedded.awaited import BoardWriter, RanksWriter
from rankd.embedded.opening import Opened
from rankd.embedded.wanted import Wanted


class AsyncBoard(AnsweredBoard, BoardWriter):
    """One board of an open engine. Reads answer at once; writes and previews are awaited."""

    def __init__(self, wanted: Wanted) -> None:
        super().__init__(wanted, at_once)


class AsyncRanks(AnsweredRanks, RanksWriter):
    """An open engine. Reads answer at once; everything else is awaited."""

    def __init__(self, opened: Opened) -> None:
        super().__init__(opened, at_once)

    def board(self, name: str, **definition: object) -> AsyncBoard:
        """Get a board; define it first, with defaults for what is not said, if it is not there.

        Awaited, it is there, or its error was raised. Not awaited, it is defined before the first
        write to it, which raises BoardDiffers if it is there and defined otherwise. Until then it
        can be read if it is there, defined so.
        """
        return AsyncBoard(Wanted(self._opened, name, definition))

"""What can be read of a ledger that is folded here, whoever writes it."""

import asyncio

from rankd.core.book import Book
from rankd.core.projector import Projector
from rankd.core.reader import Reader
from rankd.errors import IndexBehind, RankdError
from rankd.model.facts import Position
from rankd.ports import Clock


class View:
    """The readable half of an engine."""

    def __init__(self, projector: Projector, clock: Clock) -> None:
        self.projector = projector
        self.reader = Reader(projector=projector, clock=clock)

    @property
    def book(self) -> Book:
        """What is known of boards and players."""
        return self.projector.book

    @property
    def position(self) -> Position:
        """The position that reads are true at."""
        return self.projector.checkpoint

    @property
    def failure(self) -> RankdError | None:
        """Why nothing new is seen or taken, if that is so."""
        return None

    @property
    def stale(self) -> bool:
        """Whether there may be more in the ledger than is seen here, for longer than a moment."""
        return self.failure is not None

    @property
    def waiting(self) -> int:
        """How many facts wait for a commit."""
        return 0

    @property
    def spooled(self) -> int:
        """How many submissions wait on this node's disk for the ledger to be back."""
        return 0

    @property
    def commits(self) -> int:
        """How many appends there were since the start."""
        return 0

    @property
    def unsaved(self) -> int:
        """How many positions a start would have to fold again."""
        return 0

    async def reached(self, position: Position, *, within_seconds: float) -> None:
        """Wait until reads are true at a position. Raises IndexBehind."""
        if self.projector.shown_to >= position:
            return
        try:
            async with asyncio.timeout(within_seconds):
                await self.projector.reach(position)
        except TimeoutError:
            here = self.projector.shown_to
            raise IndexBehind(position=position, checkpoint=here) from None

"""What is done without being asked: windows turn on time, and the index is saved now and then.

Each manager is a loop that one task runs. It sleeps until there is something to do, does it in the
intake's turn where that is needed, and stops with the engine.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable

from rankd.core.intake import Intake
from rankd.core.notes import VERSION, Heading, take_notes
from rankd.core.projector import Tell
from rankd.errors import LedgerUnavailable, RankdError
from rankd.model.facts import Position
from rankd.ports import Clock, Snapshots

SLEEP_SECONDS_MAX = 1.0
"""How late a manager may notice that the clock was set."""

SAVE_EVERY_FACTS = 1_000_000
"""Folding so many again takes a start some five seconds."""

SAVE_AT_CLOSE_FACTS = 50_000
"""Fewer are folded again sooner than they are saved."""

_log = logging.getLogger(__name__)


class Sealer:
    """Turns windows of boards that nobody submits to: readers, too, want to see a new day."""

    def __init__(self, intake: Intake, clock: Clock) -> None:
        self._intake = intake
        self._clock = clock

    async def run(self) -> None:
        """Turn windows until the engine stops."""
        while True:
            due_in = (self._intake.turn_at - self._clock.now()) / 1_000_000
            await asyncio.sleep(min(max(due_in, 0.0), SLEEP_SECONDS_MAX))
            if self._clock.now() < self._intake.turn_at:
                continue
            try:
                await self.turn()
            except LedgerUnavailable:
                return  # The engine has stopped, and says so itself.

    async def turn(self) -> None:
        """Turn what is due now.

        The writer does it, as it does for every batch: who asks may be told to stop meanwhile.
        """
        await self._intake.put([])


class Snapshotter:
    """Saves the index beside everything else that goes on."""

    def __init__(
        self, intake: Intake, snapshots: Callable[[], Snapshots | None], saved: Position
    ) -> None:
        self.saved = saved
        """The checkpoint of the last snapshot."""
        self._intake = intake
        self._snapshots = snapshots
        self._saving = asyncio.Lock()

    async def run(self) -> None:
        """Save now and then until the engine stops."""
        while True:
            await asyncio.sleep(SLEEP_SECONDS_MAX)
            if self.unsaved >= SAVE_EVERY_FACTS:
                try:
                    await self.save()
                except (RankdError, OSError) as exc:
                    _log.error("the index could not be saved: %s", exc)
                    self.saved = self._intake.projector.checkpoint  # Not again at once.

    @property
    def unsaved(self) -> int:
        """How many positions a start would have to fold again."""
        return self._intake.projector.checkpoint - self.saved

    async def save(self, tell: Tell = lambda _: None) -> Position:
        """Save the index; return the position it is saved at."""
        async with self._saving:
            snapshots = self._snapshots()
            if snapshots is None:
                return self.saved
            taken: list[Heading] = []

            def notes() -> Iterable[bytes]:
                self._refuse_if_stopped()
                heading = self._heading()
                taken.append(heading)
                return take_notes(self._intake.projector.book, heading)

            async for progress in snapshots.save(notes):
                tell(progress)
            self.saved = taken[0].checkpoint
            return self.saved

    def _refuse_if_stopped(self) -> None:
        """A fold that failed may have left the book ahead of the index."""
        if self._intake.failure is not None:
            raise LedgerUnavailable("the engine has stopped; open it anew", applied="no")

    def _heading(self) -> Heading:
        projector, owed = self._intake.projector, self._intake.owed
        return Heading(
            VERSION,
            projector.checkpoint,
            projector.at,
            self._intake.link,
            projector.book.profiled_at,
            {int(position): body for position, body in owed.items()},
        )

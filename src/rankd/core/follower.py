"""A process that follows another's writes: the same fold again, over the same ledger.

It is told when there is more to read, and looks by itself now and then in case nobody told it. What
it answers is as true as the writer's answer was at that position, and says which that is.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress

from rankd.core.projector import FACTS_TOGETHER_MAX, Projector, Tell
from rankd.core.recovery import Build, Home, recover
from rankd.core.view import View
from rankd.errors import LedgerUnavailable, RankdError, SnapshotDamaged, Unavailable
from rankd.model.facts import Recorded
from rankd.ports import Clock, LedgerReader, Progress, Snapshots

LOOK_SECONDS = 0.05
"""How long a word from the writer may be missing before one looks without it."""

_log = logging.getLogger(__name__)


class Follower(View):
    """A view that goes on with the ledger."""

    def __init__(self, ledger: LedgerReader, projector: Projector, clock: Clock) -> None:
        super().__init__(projector, clock)
        self._ledger = ledger
        self._more = asyncio.Event()
        self._failure: RankdError | None = None
        self.ended = asyncio.Event()
        """Set when it follows no longer: whatever it answers from then on only gets older."""

    @property
    def failure(self) -> RankdError | None:
        """Why nothing new is seen, if that is so."""
        return self._failure

    def wake(self) -> None:
        """Say that there is more to read."""
        self._more.set()

    async def run(self) -> None:
        """Follow until cancelled. What cannot be folded ends it, and is told."""
        try:
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS):
                        await self._more.wait()
                self._more.clear()
                while facts := await self._read():
                    await self.projector.fold(facts)
        except RankdError as exc:
            self._note(exc)
            _log.error("the ledger can be followed no longer: %s", exc)
        except Exception as exc:
            self._note(LedgerUnavailable(f"following failed: {exc!r}", applied="no"))
            _log.exception("following failed")
        finally:
            self.ended.set()

    async def _read(self) -> Sequence[Recorded]:
        """Return what comes next; nothing, and say so, while the ledger cannot be read.

        That may pass, and nothing is half done: whoever reads again goes on from the same place.
        """
        try:
            facts = await self._ledger.read(after=self.position, limit=FACTS_TOGETHER_MAX)
        except Unavailable as exc:
            if self._failure is None:
                _log.warning("the ledger cannot be read: %s", exc)
            self._note(exc)
            return ()
        self._note(None)
        return facts

    def _note(self, failure: RankdError | None) -> None:
        if (failure is None) != (self._failure is None):
            self.book.revision += 1
        self._failure = failure


class Replaced(Snapshots):
    """Snapshots that another process saves: what is loaded may be replaced meanwhile.

    Then it is gone, which looks like damage. The one that took its place is whole.
    """

    def __init__(self, snapshots: Snapshots) -> None:
        self._snapshots = snapshots

    def save(self, notes: Callable[[], Iterable[bytes]]) -> AsyncIterator[Progress]:
        """Never called: the one who writes the ledger saves."""
        raise AssertionError("the one who writes the ledger saves")

    async def load(self, tell: Tell) -> Sequence[bytes] | None:
        """Load what is saved, or what replaced it under way."""
        try:
            return await self._snapshots.load(tell)
        except SnapshotDamaged:
            return await self._snapshots.load(tell)


def _reading(build: Build) -> Build:
    def built() -> Home:
        home = build()
        return Home(home.index, None if home.snapshots is None else Replaced(home.snapshots))

    return built


@asynccontextmanager
async def following(
    *, ledger: LedgerReader, build: Build, clock: Clock, tell: Tell
) -> AsyncIterator[Follower]:
    """Come as far as the ledger is, and go on with it."""
    found = await recover(ledger, _reading(build), tell)
    follower = Follower(ledger, found.projector, clock)
    task = asyncio.create_task(follower.run(), name="follower")
    try:
        yield follower
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

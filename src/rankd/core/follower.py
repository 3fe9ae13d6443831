"""A process that follows another's writes: the same fold again, over the same ledger.

The writer notifies it of new facts; it also polls, in case a notification is lost. Its answers are
those of the writer at the position they name.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any

from rankd.core.projector import FACTS_TOGETHER_MAX, Projector, Tell
from rankd.core.read_engine import ReadEngine
from rankd.core.recovery import Build, IndexHome, recover
from rankd.core.rolling_windows import RollingDrafts
from rankd.core.steady_clock import LASTING_SECONDS, ClockMonitor, SteadyClock
from rankd.core.supervisor import Supervisor
from rankd.core.window_archiver import WindowArchiver
from rankd.errors import IndexBehind, LedgerUnavailable, RankdError, SnapshotDamaged, Unavailable
from rankd.model.facts import Position, Recorded
from rankd.ports import NOTHING_HELD, Clock, LedgerReader, Progress, Snapshots

LOOK_SECONDS = 0.05
"""How long a word from the writer may be missing before one looks without it."""

BEHIND_SECONDS_MAX = 1.0
"""Time to fold a position that the writer has told of; then the index counts as behind."""

ARCHIVE_PATIENCE_SECONDS = 15.0
"""Time for the process that writes to archive a window: then its file need not be written twice."""

_log = logging.getLogger(__name__)


class Follower(ReadEngine):
    """A view that goes on with the ledger."""

    def __init__(
        self, ledger: LedgerReader, projector: Projector, clock: Clock, build: Build
    ) -> None:
        super().__init__(projector, clock, ledger, lambda: build().index)
        self._ledger = ledger
        self._more = asyncio.Event()
        self._failure: RankdError | None = None
        self._writer_failure: RankdError | None = None
        """Why the writer takes nothing, as it says itself or by its silence."""
        self._silent = False
        self._clock_confirmations: int | None = None
        """Of the writer, as last heard."""
        self._behind: IndexBehind | None = None
        self._due: tuple[Position, float] | None = None
        """A position that is not folded yet, and when it was told of, by the loop's clock."""
        self._writer_ended = False
        self._writer_loops: Sequence[str] = ()
        """Loops of the writing process that fail."""
        self.finished = asyncio.Event()
        """Set when it has stopped following: its answers only get older from then on."""

    @property
    def failure(self) -> RankdError | None:
        """Why there may be more in the ledger than is seen here, if that is so."""
        return self.ledger_failure or self._behind

    @property
    def ledger_failure(self) -> RankdError | None:
        """Why nothing is read of the ledger, or taken by its writer, if that is so."""
        return self._failure or self._writer_failure

    @property
    def index_failure(self) -> RankdError | None:
        """The reason why the index is behind the writer's position, if it is."""
        return self._behind

    @property
    def ended(self) -> bool:
        """Whether the process that writes takes nothing more for good."""
        return self._writer_ended

    @property
    def loop_problems(self) -> list[str]:
        """Background loops that fail, here and in the process that writes."""
        there = [f"in the process that writes, {problem}" for problem in self._writer_loops]
        return [*super().loop_problems, *there]

    @property
    def writer_answers(self) -> bool:
        """Whether the process that writes is heard of."""
        return not self._silent

    # ---------------------------------------------------------------- word from the writer

    def hear(
        self,
        position: Position,
        failure: str = "",
        clock_confirmations: int = 0,
        *,
        ended: bool = False,
        loop_problems: Sequence[str] = (),
    ) -> None:
        """Note how far the ledger is, and why the writer takes nothing, if it says so.

        It may have ``ended`` for good, and loops of it may fail. A step of the clock that was
        confirmed to the writer is confirmed here, too.
        """
        self._silent, self._writer_ended = False, ended
        self._writer_loops = loop_problems
        if self._clock_confirmations is not None and (
            clock_confirmations > self._clock_confirmations
        ):
            self.clock.confirm()
        self._clock_confirmations = clock_confirmations
        self._note_writer(LedgerUnavailable(failure, applied="no") if failure else None)
        if position <= self.position:
            return
        now = asyncio.get_running_loop().time()
        if self._due is None or self._due[0] <= self.position:
            self._due = position, now
        elif now - self._due[1] > BEHIND_SECONDS_MAX:
            self._fall_behind(self._due[0])
        self._more.set()

    def miss(self, failure: RankdError) -> None:
        """Note that the writer is silent: its writes are not seen here."""
        self._silent = True
        self._note_writer(failure)

    async def follow_to(self, position: Position) -> None:
        """Wait until reads include a position; once that takes too long, they say so instead."""
        self._more.set()
        if self.position >= position or self.failure is not None:
            return
        try:
            async with asyncio.timeout(BEHIND_SECONDS_MAX):
                await self.projector.reach(position)
        except TimeoutError:
            self._fall_behind(position)

    def _note_writer(self, failure: RankdError | None) -> None:
        if (failure is None) != (self._writer_failure is None):
            self.state.revision += 1
            if failure is None:
                _log.info("the process that writes takes writes again")
            else:
                _log.warning("the process that writes takes no writes: %s", failure)
        self._writer_failure = failure

    def _fall_behind(self, position: Position) -> None:
        if self._behind is None and self.position < position:
            self._behind = IndexBehind(position=position, checkpoint=self.position)
            self.state.revision += 1
            _log.warning("the index is behind the writer: %s", self._behind)

    def _catch_up(self) -> None:
        if self._behind is not None and self._behind.position <= self.position:
            self._behind = None
            self.state.revision += 1
            _log.info("the index has caught up with the writer, at %d", self.position)

    # -------------------------------------------------------------------------- reading

    async def run(self) -> None:
        """Follow until cancelled. A fact that cannot be folded ends it, and is reported."""
        try:
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS):
                        await self._more.wait()
                self._more.clear()
                while facts := await self._read():
                    await self.projector.fold(facts)
                    self._catch_up()
        except RankdError as exc:
            self._note(exc)
            _log.error("the ledger can be followed no longer: %s", exc)
        except Exception as exc:
            self._note(LedgerUnavailable(f"following failed: {exc!r}", applied="no"))
            _log.exception("following failed")
        finally:
            self.finished.set()

    async def _read(self) -> Sequence[Recorded]:
        """Return the next facts; none, with a log line, while the ledger cannot be read.

        The failure may pass: the next read goes on from the same position.
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
            self.state.revision += 1
        self._failure = failure


class ReadOnlySnapshots(Snapshots):
    """Snapshots that another process saves.

    The loaded one may be replaced meanwhile, which looks like damage. The new one is whole.
    """

    def __init__(self, snapshots: Snapshots) -> None:
        self._snapshots = snapshots

    def save(
        self,
        notes: Callable[[], Iterable[bytes]],
        *,
        still: AbstractAsyncContextManager[Any] = NOTHING_HELD,
    ) -> AsyncIterator[Progress]:
        """Never called: the process that writes the ledger saves."""
        raise AssertionError("the one who writes the ledger saves")

    async def load(self, tell: Tell) -> Sequence[bytes] | None:
        """Load the snapshot, or the one that replaced it during the load."""
        try:
            return await self._snapshots.load(tell)
        except SnapshotDamaged:
            return await self._snapshots.load(tell)


def _reading(build: Build) -> Build:
    def built() -> IndexHome:
        home = build()
        snapshots = None if home.snapshots is None else ReadOnlySnapshots(home.snapshots)
        return IndexHome(home.index, snapshots, home.archives)

    return built


@asynccontextmanager
async def following(
    *,
    ledger: LedgerReader,
    build: Build,
    clock: Clock,
    tell: Tell,
    supervisor: Supervisor | None = None,
    lasting_seconds: float = LASTING_SECONDS,
) -> AsyncIterator[Follower]:
    """Come as far as the ledger is, and go on with it."""
    found = await recover(ledger, _reading(build), tell)
    steady = SteadyClock(clock, lasting_seconds=lasting_seconds, recorded=found.projector.at)
    follower = Follower(ledger, found.projector, steady, build)
    follower.supervisor = supervisor or Supervisor()
    monitor = ClockMonitor(steady, ledger, lambda: follower.ledger_time)
    await monitor.look()
    archiver = WindowArchiver(
        lambda: found.home.archives, lambda: follower.state, patience=ARCHIVE_PATIENCE_SECONDS
    )
    tasks = [
        follower.supervisor.start("follower", follower.run),
        follower.supervisor.start("clock", monitor.run),
        follower.supervisor.start("movement", follower.movement.run),
        follower.supervisor.start(
            "rolling_windows", RollingDrafts(ledger, lambda: follower.projector).run
        ),
        follower.supervisor.start("window_archiver", archiver.run),
    ]
    try:
        yield follower
    finally:
        await follower.past.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

"""Doubles of what the core stands on: a clock that is set, a ledger that fails when it is told to.

Nothing here waits for time to pass: a test that wants something to be under way holds it there,
and learns that it has come so far from the double itself.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Literal, overload

from rankd.adapters.memory.index import NativeIndex
from rankd.adapters.memory.ledger import MemoryLedger
from rankd.adapters.memory.shared_index import MemorySharedIndex, SharedMemory
from rankd.adapters.memory.snapshot_folder import SnapshotFolder
from rankd.core.assembly import running
from rankd.core.board_state import BoardState
from rankd.core.engine import Engine
from rankd.core.projector import Projector
from rankd.core.recovery import Build, IndexHome
from rankd.errors import IndexUnavailable, LedgerUnavailable, RankdError
from rankd.model.facts import Fact, Position, Recorded, RedactedPart
from rankd.model.window import Instant
from rankd.ports import Appended, Clock, FirstUse, Ledger, Progress, RankIndex, StoredReceipt

HOUR = 3_600_000_000
DAY = 24 * HOUR
NOON = Instant(datetime(2026, 11, 14, 12, tzinfo=UTC).timestamp()) * 1_000_000


class SetClock:
    """A clock that stands where it was set."""

    def __init__(self, time: Instant = NOON) -> None:
        self.time = time

    def now(self) -> Instant:
        return self.time


class MachineClock(SetClock):
    """A clock of a machine: it may be set, beside a counter that may not."""

    def __init__(self, time: Instant = NOON) -> None:
        super().__init__(time)
        self.counter = 5 * DAY

    def elapsed(self) -> int:
        return self.counter

    def run(self, microseconds: int) -> None:
        """Let time pass."""
        self.time += microseconds
        self.counter += microseconds

    def step(self, microseconds: int) -> None:
        """Set the clock."""
        self.time += microseconds


class MovesIndex(NativeIndex):
    """An index that has to be told every move, as one across a network has."""

    judges: ClassVar[bool] = False


class SharedLedger(MemoryLedger):
    """A ledger that other nodes may append to, too."""

    shared: ClassVar[bool] = True

    async def receipts_through(self) -> Position:
        positions = [one.position for one in self._recorded]
        lacking = await self.lacking_receipts(positions)
        return Position(lacking[0] - 1 if lacking else len(positions))

    async def lost(self) -> LedgerUnavailable:
        """Wait for ever: this one is never out of reach."""
        never: asyncio.Future[LedgerUnavailable] = asyncio.get_running_loop().create_future()
        return await never

    async def regained(self) -> None:
        pass


class ReceivingLedger(MemoryLedger):
    """A ledger that another is copied into, and what was asked of it."""

    def __init__(
        self, *, fails_after: int | None = None, keeps_not: str = "", loses: int | None = None
    ) -> None:
        super().__init__()
        self.told: list[str] = []
        self._fails_after = fails_after
        """How often facts are taken over before that fails, once."""
        self._keeps_not, self._loses = keeps_not, loses

    async def begin_copy(self, source: str) -> None:
        self.told.append(f"begun: {source}")

    async def take_over(
        self, facts: Sequence[Recorded], *, receipts: Sequence[StoredReceipt] = ()
    ) -> None:
        if self._fails_after == 0:
            self._fails_after = None
            raise LedgerUnavailable("it is gone", applied="unknown")
        if self._fails_after is not None:
            self._fails_after -= 1
        if any(getattr(one.fact, "player", "") == self._keeps_not for one in facts):
            raise UnicodeError("no such text")
        self.told.append(f"took {len(facts)}")
        for one in facts:
            if one.position != self._loses:
                await self.append([one.fact], now=one.at)
        await self.keep_receipts(receipts)

    async def end_copy(self) -> None:
        self.told.append("ended")


class FarIndex:
    """An index across a network, which can be cut off, and be lost."""

    immediate: ClassVar[bool] = False
    judges: ClassVar[bool] = False
    shared: ClassVar[bool] = True
    replicas: ClassVar[None] = None
    notes: ClassVar[tuple[str, ...]] = ("injected",)

    def __init__(self) -> None:
        self.memory = SharedMemory()
        self.there = MemorySharedIndex(self.memory)
        self.cut = False
        self.calls = 0
        self.before_call: Callable[[], None] = lambda: None

    def __getattr__(self, name: str) -> Any:
        async def asked(*args: Any, **named: Any) -> Any:
            await asyncio.sleep(0)
            self.calls += 1
            self.before_call()
            if self.cut:
                raise IndexUnavailable("injected")
            return await getattr(self.there, name)(*args, **named)

        return asked

    def empty(self) -> None:
        self.memory.empty()


class FaultyLedger:
    """A ledger on top of another: appends can be held, and can fail before or after they happen.

    It keeps the port's promise 6: after ``unknown`` it refuses everything. ``anew`` is what is
    found when it is opened again.
    """

    durable: ClassVar[bool] = False
    shared: ClassVar[bool] = False

    def __init__(self, inner: MemoryLedger | None = None) -> None:
        self.inner = inner or MemoryLedger()
        self.begun = 0
        """How many appends have been asked for."""
        self.batches: list[list[Fact]] = []
        """What each of them brought."""
        self.read_failure: Exception | None = None
        """What reads raise from here on."""
        self._open = asyncio.Event()
        self._open.set()
        self._asked = asyncio.Condition()
        self._plan: list[tuple[Exception, bool] | None] = []
        self._broken = False

    def anew(self) -> "FaultyLedger":
        """Return the ledger as it is opened again."""
        return FaultyLedger(self.inner)

    # -- what is to happen --

    def hold(self) -> None:
        """Let appends wait, before anything is applied."""
        self._open.clear()

    def release(self) -> None:
        """Let them go on."""
        self._open.set()

    async def asked(self, appends: int) -> None:
        """Wait until so many appends have been asked for."""
        async with self._asked:
            await self._asked.wait_for(lambda: self.begun >= appends)

    def fail(
        self,
        *,
        applied: Literal["no", "unknown"] = "unknown",
        done: bool = False,
        error: Exception | None = None,
        after: int = 0,
    ) -> None:
        """Let the append after the next ``after`` ones fail; ``done``: it happens all the same."""
        assert not (done and applied == "no"), "no ledger may say that"
        self._plan += [None] * after
        self._plan.append((error or LedgerUnavailable("injected", applied=applied), done))

    # -- the port --

    @overload
    async def append(
        self,
        facts: Sequence[Fact],
        *,
        now: Instant,
        receipts: Sequence[StoredReceipt] = ...,
        after: None = ...,
    ) -> Appended: ...

    @overload
    async def append(
        self,
        facts: Sequence[Fact],
        *,
        now: Instant,
        receipts: Sequence[StoredReceipt] = ...,
        after: Position | None,
    ) -> Appended | None: ...

    async def append(
        self,
        facts: Sequence[Fact],
        *,
        now: Instant,
        receipts: Sequence[StoredReceipt] = (),
        after: Position | None = None,
    ) -> Appended | None:
        self._refuse_if_broken()
        async with self._asked:
            self.begun += 1
            self.batches.append(list(facts))
            self._asked.notify_all()
        await self._open.wait()
        failure = self._plan.pop(0) if self._plan else None
        if failure is None:
            return await self._append(facts, now, receipts, after)
        error, done = failure
        if done:
            await self._append(facts, now, receipts, after)
        self._broken = not isinstance(error, LedgerUnavailable) or error.applied == "unknown"
        raise error

    async def _append(
        self,
        facts: Sequence[Fact],
        now: Instant,
        receipts: Sequence[StoredReceipt],
        after: Position | None,
    ) -> Appended | None:
        return await self.inner.append(facts, now=now, receipts=receipts, after=after)

    def _refuse_if_broken(self) -> None:
        if self._broken:
            raise LedgerUnavailable("open it anew", applied="no")

    async def read(self, *, after: Position, limit: int) -> Sequence[Recorded]:
        self._refuse_if_broken()
        if self.read_failure is not None:
            raise self.read_failure
        await asyncio.sleep(0)  # A disk is never there at once.
        return await self.inner.read(after=after, limit=limit)

    async def read_at(self, positions: Sequence[Position]) -> Sequence[Recorded]:
        self._refuse_if_broken()
        return await self.inner.read_at(positions)

    async def facts_of(
        self,
        *,
        board: str | None,
        player: str,
        after: Position | None = None,
        before: Position | None,
        limit: int,
        newest_first: bool = True,
    ) -> Sequence[Recorded]:
        self._refuse_if_broken()
        if self.read_failure is not None:
            raise self.read_failure
        return await self.inner.facts_of(
            board=board,
            player=player,
            after=after,
            before=before,
            limit=limit,
            newest_first=newest_first,
        )

    async def redacted_parts(
        self, positions: Sequence[Position], *, player: str, through: Position
    ) -> tuple[RedactedPart, ...]:
        return await self.inner.redacted_parts(positions, player=player, through=through)

    async def head(self) -> Position:
        return await self.inner.head()

    async def lacking_receipts(self, positions: Sequence[Position]) -> Sequence[Position]:
        return await self.inner.lacking_receipts(positions)

    async def changed(self, *, after: Position, within_seconds: float) -> None:
        await self.inner.changed(after=after, within_seconds=within_seconds)

    async def link_at(self, position: Position) -> bytes | None:
        return await self.inner.link_at(position)

    async def first_use(self, *, board: str, key: str) -> FirstUse | None:
        return await self.inner.first_use(board=board, key=key)

    async def keep_receipts(self, receipts: Sequence[StoredReceipt]) -> None:
        await self.inner.keep_receipts(receipts)

    async def kept_receipts(self, *, after: Position, limit: int) -> Sequence[StoredReceipt]:
        return await self.inner.kept_receipts(after=after, limit=limit)

    async def receipts_through(self) -> Position:
        return await self.inner.receipts_through()

    def verify(self) -> AsyncIterator[Progress]:
        return self.inner.verify()

    async def close(self) -> None:
        await self.inner.close()


class ReopenableLedger(FaultyLedger):
    """A ledger that can be opened anew, unless that is to fail."""

    def __init__(self, inner: MemoryLedger | None = None) -> None:
        super().__init__(inner)
        self.failure: RankdError | None = None
        self.reopened = 0
        self.refusals: list[Exception] = []
        """What the next attempts raise."""
        self.answers = asyncio.Event()
        """Cleared while the disk answers nothing."""
        self.answers.set()

    async def append(self, *args: Any, **given: Any) -> Any:
        if self.failure is not None:
            raise LedgerUnavailable(str(self.failure), applied="no")
        appending = asyncio.ensure_future(self._append_in_time(*args, **given))
        return await asyncio.shield(appending)  # A thread goes on though its caller has gone.

    async def _append_in_time(self, *args: Any, **given: Any) -> Any:
        await self.answers.wait()
        return await super().append(*args, **given)

    async def reopen(self) -> None:
        self.reopened += 1
        await self.answers.wait()
        if self.refusals:
            raise self.refusals.pop(0)
        self.failure, self._broken = None, False


class LosableLedger(FaultyLedger):
    """A ledger that other nodes append to as well: it can be lost, and found again."""

    shared: ClassVar[bool] = True

    def __init__(self, inner: MemoryLedger | None = None) -> None:
        super().__init__(inner)
        self._lost, self._found = asyncio.Event(), asyncio.Event()

    def lose(self) -> None:
        """Say that nothing can be appended; what is held stays held."""
        self._lost.set()
        self._found.clear()

    def find(self) -> None:
        """Say that it is back."""
        self._lost.clear()
        self._found.set()

    async def lost(self) -> LedgerUnavailable:
        await self._lost.wait()
        return LedgerUnavailable("it is lost", applied="no")

    async def regained(self) -> None:
        if self._lost.is_set():
            await self._found.wait()

    async def head(self) -> Position:
        self._refuse_if_broken()
        return await super().head()

    def _refuse_if_broken(self) -> None:
        if self._lost.is_set():
            raise LedgerUnavailable("it is lost", applied="no")


# ------------------------------------------------------------------------------ engines


def bare() -> IndexHome:
    """Return an index that is kept nowhere."""
    return IndexHome(NativeIndex(), None)


def bare_in_moves() -> IndexHome:
    return IndexHome(MovesIndex(), None)


def kept_in(folder: Path) -> Build:
    """Return how to build an index that is kept in a folder."""

    def build() -> IndexHome:
        index = NativeIndex()
        return IndexHome(index, SnapshotFolder(folder, index))

    return build


@asynccontextmanager
async def engine(
    ledger: Ledger,
    clock: Clock | None = None,
    build: Build = bare,
    *,
    movement_entries: int = 0,
    **settings: Any,
) -> AsyncIterator[Engine]:
    """Run an engine on these parts.

    Without movement, which becomes known in the background, in the midst of a comparison.
    """
    clock = clock or SetClock()
    parts: dict[str, Any] = {"build": build, "clock": clock, "reading": nullcontext(), **settings}
    async with running(ledger=ledger, **parts) as rankd:
        rankd.movement.grant(movement_entries)
        yield rankd


async def facts_of(ledger: Ledger) -> Sequence[Recorded]:
    """Return everything that a ledger has."""
    return await ledger.read(after=Position(0), limit=1_000_000)


async def verified(rankd: Engine) -> None:
    """Have an engine compare itself with its ledger."""
    async for _ in rankd.verify():
        pass


def state_of(projector: Projector) -> dict[str, object]:
    """Return all that a projector knows, the index and the state, to be compared."""
    state = projector.state
    return {
        "index": digest_of(projector.index),
        "boards": {name: page_of(page) for name, page in state.boards.items()},
        "profiles": state.profiles,
        "names": state.names,
        "as of": (projector.checkpoint, projector.at, state.profiled_at),
    }


def digest_of(index: RankIndex) -> str:
    """Return the digest of an index that has no draft left."""
    assert isinstance(index, NativeIndex)
    index.check()
    assert not [entries for entries in index.state.rankings.values() if entries.draft]
    return index.digest().hex()


def page_of(page: BoardState) -> dict[str, object]:
    """Return all that a page of the state says."""
    return {
        "definition": page.board.definition(),
        "since": (page.since, page.defined_at, page.default),
        "open": [(name, one.window, str(one.ranking)) for name, one in page.windows.items()],
        "sealed": [
            (id, one.window, str(one.ranking), one.terms.board.definition(), one.through, one.at)
            for id, one in page.sealed.items()
        ],
    }

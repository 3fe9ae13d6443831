"""Doubles of what the core stands on: a clock that is set, a ledger that fails when it is told to.

Nothing here waits for time to pass: a test that wants something to be under way holds it there,
and learns that it has come so far from the double itself.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar, Literal, overload

from rankd.adapters.memory.index import NativeIndex
from rankd.adapters.memory.ledger import MemoryLedger
from rankd.adapters.memory.snapshot import SnapshotFolder
from rankd.core.book import BoardPage
from rankd.core.projector import Projector
from rankd.core.recovery import Build, Home
from rankd.core.service import Rankd, running
from rankd.errors import LedgerUnavailable
from rankd.model.facts import Fact, Position, Recorded
from rankd.model.window import Instant
from rankd.ports import Appended, Clock, FirstUse, Kept, Ledger, Progress, RankIndex

HOUR = 3_600_000_000
DAY = 24 * HOUR
NOON = Instant(datetime(2026, 11, 14, 12, tzinfo=UTC).timestamp()) * 1_000_000


class SetClock:
    """A clock that stands where it was set."""

    def __init__(self, time: Instant = NOON) -> None:
        self.time = time

    def now(self) -> Instant:
        return self.time


class MovesIndex(NativeIndex):
    """An index that has to be told every move, as one across a network has."""

    judges: ClassVar[bool] = False


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
        receipts: Sequence[Kept] = ...,
        after: None = ...,
    ) -> Appended: ...

    @overload
    async def append(
        self,
        facts: Sequence[Fact],
        *,
        now: Instant,
        receipts: Sequence[Kept] = ...,
        after: Position | None,
    ) -> Appended | None: ...

    async def append(
        self,
        facts: Sequence[Fact],
        *,
        now: Instant,
        receipts: Sequence[Kept] = (),
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
        self, facts: Sequence[Fact], now: Instant, receipts: Sequence[Kept], after: Position | None
    ) -> Appended | None:
        appended = await self.inner.append(facts, now=now, receipts=receipts, after=after)
        return appended and appended._replace(link=await self.inner.chain_head())

    def _refuse_if_broken(self) -> None:
        if self._broken:
            raise LedgerUnavailable("open it anew", applied="no")

    async def read(self, *, after: Position, limit: int) -> Sequence[Recorded]:
        self._refuse_if_broken()
        if self.read_failure is not None:
            raise self.read_failure
        await asyncio.sleep(0)  # A disk is never there at once.
        return await self.inner.read(after=after, limit=limit)

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

    async def keep_receipts(self, receipts: Sequence[Kept]) -> None:
        await self.inner.keep_receipts(receipts)

    async def receipts_through(self) -> Position:
        return await self.inner.receipts_through()

    def verify(self) -> AsyncIterator[Progress]:
        return self.inner.verify()

    async def close(self) -> None:
        await self.inner.close()


# ------------------------------------------------------------------------------ engines


def bare() -> Home:
    """Return an index that is kept nowhere."""
    return Home(NativeIndex(), None)


def bare_in_moves() -> Home:
    return Home(MovesIndex(), None)


def kept_in(folder: Path) -> Build:
    """Return how to build an index that is kept in a folder."""

    def build() -> Home:
        index = NativeIndex()
        return Home(index, SnapshotFolder(folder, index))

    return build


def engine(
    ledger: Ledger, clock: Clock | None = None, build: Build = bare
) -> AbstractAsyncContextManager[Rankd]:
    """Return a running engine on these parts."""
    return running(ledger=ledger, build=build, clock=clock or SetClock(), reading=nullcontext())


async def facts_of(ledger: Ledger) -> Sequence[Recorded]:
    """Return everything that a ledger has."""
    return await ledger.read(after=Position(0), limit=1_000_000)


async def verified(rankd: Rankd) -> None:
    """Have an engine compare itself with its ledger."""
    async for _ in rankd.verify():
        pass


def state_of(projector: Projector) -> dict[str, object]:
    """Return all that a projector knows, the index and the book, to be compared."""
    book = projector.book
    return {
        "index": digest_of(projector.index),
        "boards": {name: page_of(page) for name, page in book.boards.items()},
        "profiles": book.profiles,
        "friends": book.friends,
        "as of": (projector.checkpoint, projector.at, book.profiled_at),
    }


def digest_of(index: RankIndex) -> str:
    """Return the digest of an index that has no draft left."""
    assert isinstance(index, NativeIndex)
    index.check()
    assert not [entries for entries in index.state.rankings.values() if entries.draft]
    return index.digest().hex()


def page_of(page: BoardPage) -> dict[str, object]:
    """Return all that a page of the book says."""
    return {
        "definition": page.board.definition(),
        "since": (page.since, page.defined_at, page.default),
        "open": [(name, one.window, str(one.ranking)) for name, one in page.windows.items()],
        "sealed": [
            (id, one.window, str(one.ranking), one.terms.board.definition(), one.through, one.at)
            for id, one in page.sealed.items()
        ],
    }

"""A ledger that another writes is read as its writer reads it, and does not get in its way."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import ClassVar, overload

import pytest

from rankd.adapters.sqlite import SQLiteLedger
from rankd.adapters.sqlite.database import FILE
from rankd.adapters.sqlite.ledger import WAL_PAGES_MAX
from rankd.adapters.sqlite.read_only import ReadOnlyLedger
from rankd.errors import NoLedger
from rankd.model.facts import Fact, Position, Recorded, RedactedPart, ScoreSubmitted
from rankd.model.window import Instant
from rankd.ports import Appended, FirstUse, Ledger, LedgerReader, Progress, StoredReceipt
from rankd.testing.contracts import LedgerContract

_: type[LedgerReader] = ReadOnlyLedger  # mypy sees whether the methods are those of the port.

NOW = Instant(1_763_000_000_000_000)
PAGE_BYTES = 4096


class WrittenHereReadThere:
    """A Ledger of two connections: one writes, and whatever is read the follower reads."""

    durable: ClassVar[bool] = True
    shared: ClassVar[bool] = False

    def __init__(self, writer: SQLiteLedger, follower: ReadOnlyLedger) -> None:
        self.writer, self.follower = writer, follower

    @classmethod
    @asynccontextmanager
    async def open(cls, folder: Path) -> AsyncIterator["WrittenHereReadThere"]:
        async with SQLiteLedger.open(folder) as writer, ReadOnlyLedger.open(folder) as follower:
            yield cls(writer, follower)

    async def redacted_parts(
        self, positions: Sequence[Position], *, player: str, through: Position
    ) -> tuple[RedactedPart, ...]:
        return await self.writer.redacted_parts(positions, player=player, through=through)

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
        return await self.writer.append(facts, now=now, receipts=receipts, after=after)

    async def keep_receipts(self, receipts: Sequence[StoredReceipt]) -> None:
        await self.writer.keep_receipts(receipts)

    async def kept_receipts(self, *, after: Position, limit: int) -> Sequence[StoredReceipt]:
        return await self.writer.kept_receipts(after=after, limit=limit)

    def verify(self) -> AsyncIterator[Progress]:
        return self.writer.verify()

    async def close(self) -> None:
        await self.writer.close()

    async def read(self, *, after: Position, limit: int) -> Sequence[Recorded]:
        return await self.follower.read(after=after, limit=limit)

    async def read_at(self, positions: Sequence[Position]) -> Sequence[Recorded]:
        return await self.follower.read_at(positions)

    async def head(self) -> Position:
        return await self.follower.head()

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
        return await self.follower.facts_of(
            board=board,
            player=player,
            after=after,
            before=before,
            limit=limit,
            newest_first=newest_first,
        )

    async def first_use(self, *, board: str, key: str) -> FirstUse | None:
        return await self.follower.first_use(board=board, key=key)

    async def receipts_through(self) -> Position:
        return await self.follower.receipts_through()

    async def lacking_receipts(self, positions: Sequence[Position]) -> Sequence[Position]:
        return await self.follower.lacking_receipts(positions)

    async def changed(self, *, after: Position, within_seconds: float) -> None:
        await self.follower.changed(after=after, within_seconds=within_seconds)

    async def link_at(self, position: Position) -> bytes | None:
        return await self.follower.link_at(position)


class TestFollowedLedger(LedgerContract):
    @pytest.fixture
    async def stack(self) -> AsyncIterator[AsyncExitStack]:
        async with AsyncExitStack() as stack:
            yield stack

    @pytest.fixture
    async def ledger(self, stack: AsyncExitStack, tmp_path: Path) -> WrittenHereReadThere:
        return await stack.enter_async_context(WrittenHereReadThere.open(tmp_path))

    @pytest.fixture
    def reopen(
        self, stack: AsyncExitStack, ledger: WrittenHereReadThere, tmp_path: Path
    ) -> Callable[[], Awaitable[Ledger]]:
        async def reopened() -> Ledger:
            """A new writer; the follower that was there before goes on."""
            await ledger.writer.close()
            writer = await stack.enter_async_context(SQLiteLedger.open(tmp_path))
            return WrittenHereReadThere(writer, ledger.follower)

        return reopened


# ------------------------------------------------------------------ what only a follower can do


@pytest.mark.anyio
async def test_where_there_is_no_ledger_nothing_is_begun(tmp_path: Path) -> None:
    with pytest.raises(NoLedger):
        async with ReadOnlyLedger.open(tmp_path):
            pass
    assert not (tmp_path / FILE).exists()


@pytest.mark.anyio
async def test_a_follower_that_reads_on_leaves_the_writer_its_checkpoints(tmp_path: Path) -> None:
    """The WAL begins anew again and again; a read that did not end would make it grow for ever."""
    wal = tmp_path / f"{FILE}-wal"
    async with WrittenHereReadThere.open(tmp_path) as ledger:
        seen, written, longest = Position(0), 0, 0
        while written < 6 * WAL_PAGES_MAX * PAGE_BYTES:
            facts = [incompressible(seen + number) for number in range(200)]
            await ledger.append(facts, now=NOW)
            # Not at the same time, so that it does not depend on who is quicker.
            while page := await ledger.read(after=seen, limit=150):
                seen = page[-1].position
            assert seen == await ledger.head()
            assert await ledger.first_use(board="b", key="nobody's") is None
            written += sum(len(fact.metadata or b"") for fact in facts)
            longest = max(longest, wal.stat().st_size)
    assert longest < 3 * WAL_PAGES_MAX * PAGE_BYTES


def incompressible(seed: int) -> ScoreSubmitted:
    """A fact that takes a kilobyte however it is packed."""
    noise = random.Random(seed).randbytes(512).hex()
    return ScoreSubmitted("b", f"p{seed}", scores=(seed,), metadata=f'"{noise}"'.encode())


@pytest.mark.anyio
async def test_a_follower_outlives_its_writer_and_meets_the_next(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        writer = await stack.enter_async_context(SQLiteLedger.open(tmp_path))
        follower = await stack.enter_async_context(ReadOnlyLedger.open(tmp_path))
        await writer.append([ScoreSubmitted("b", "ann", scores=(1,))], now=NOW)
        await writer.close()
        assert await follower.head() == 1
        again = await stack.enter_async_context(SQLiteLedger.open(tmp_path))
        await again.append([ScoreSubmitted("b", "bob", scores=(2,))], now=NOW)
        found = await follower.read(after=Position(0), limit=10)
        assert [recorded.position for recorded in found] == [1, 2]


@pytest.mark.anyio
async def test_reading_while_another_writes_misses_nothing(tmp_path: Path) -> None:
    async with WrittenHereReadThere.open(tmp_path) as ledger:
        appends, each = 60, 50

        async def write() -> None:
            for number in range(appends):
                await ledger.append(
                    [incompressible(number * each + place) for place in range(each)], now=NOW
                )

        async def tail() -> list[str]:
            seen: list[Recorded] = []
            while len(seen) < appends * each:
                after = seen[-1].position if seen else Position(0)
                seen += await ledger.read(after=after, limit=33)
            facts = [recorded.fact for recorded in seen]
            return [fact.player for fact in facts if isinstance(fact, ScoreSubmitted)]

        async with asyncio.timeout(60):
            _, players = await asyncio.gather(write(), tail())
        assert players == [f"p{number}" for number in range(appends * each)]

"""Recovery: from the ledger alone, or from a snapshot of it that can be believed; never another."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.core.doubles import (
    FaultyLedger,
    SetClock,
    bare,
    engine,
    kept_in,
    state_of,
    verified,
)
from tests.unit.core.histories import STEPS, History, Step

from rankd.adapters.memory.index import NativeIndex
from rankd.adapters.memory.snapshot_folder import SnapshotFolder
from rankd.core import fold_parts
from rankd.core.engine import Engine
from rankd.core.player_boards import PlayerBoards
from rankd.core.projector import BEGINNING
from rankd.core.recovery import IndexHome, recover
from rankd.core.writer import WriteResult
from rankd.errors import LedgerUnavailable, SnapshotDamaged
from rankd.model.facts import Position
from rankd.model.receipt import Receipt
from rankd.ports import NOTHING_HELD, Ledger, Progress, Ranking, Run, Verdicts

pytestmark = pytest.mark.anyio
BOARD: Mapping[str, object] = {"rule": "sum", "windows": ["all", "daily"]}


async def submit(rankd: Engine, score: int, key: str | None = None) -> WriteResult:
    (answer,) = await rankd.submit("b", [{"player": "p", "score": score, "key": key}])
    return answer


def ignore(_progress: Progress) -> None:
    pass


async def found_in(ledger: Ledger, folder: Path) -> int:
    """Return where a start would begin to fold: 0 if no snapshot is believed."""
    return (await recover(ledger, kept_in(folder), ignore)).saved


async def test_a_start_goes_on_from_a_snapshot(tmp_path: Path) -> None:
    ledger = FaultyLedger()
    async with engine(ledger, build=kept_in(tmp_path)) as rankd:
        await rankd.define("b", BOARD)
        await submit(rankd, 1)
        saved = await rankd.save()
        await submit(rankd, 10)
        living = state_of(rankd.reader.projector)
    assert saved == 2
    found = await recover(ledger, kept_in(tmp_path), ignore)
    assert (found.saved, found.projector.checkpoint) == (2, 3)
    assert state_of(found.projector) == living


@pytest.mark.parametrize("then", ["nothing", "a submission", "a repeat"])
async def test_receipts_that_were_owed_at_a_save_are_still_given(tmp_path: Path, then: str) -> None:
    """Neither the ledger nor the fold behind the snapshot has them: only its notes."""
    ledger = FaultyLedger()
    async with engine(ledger, build=kept_in(tmp_path)) as rankd:
        await rankd.define("b", BOARD)
        first = await submit(rankd, 1, "k")
        assert await rankd.save() == first.position
        if then == "a submission":
            ledger.fail(applied="unknown", done=True)
            with pytest.raises(Exception, match="injected"):
                await submit(rankd, 5, "l")
        elif then == "a repeat":
            await submit(rankd, 1, "k")
    found = await recover(ledger.anew(), kept_in(tmp_path), ignore)
    assert found.saved == first.position
    async with engine(ledger.anew(), build=kept_in(tmp_path)) as rankd:
        again = await submit(rankd, 1, "k")
        assert (again.duplicate, again.receipt) == (True, first.receipt)
        assert again.receipt is not None
        if then == "a submission":
            assert (await submit(rankd, 5, "l")).duplicate
        await verified(rankd)


async def test_receipts_owed_at_a_crash_are_folded_again() -> None:
    ledger = FaultyLedger()
    async with engine(ledger) as rankd:
        await rankd.define("b", BOARD)
        answers = [await submit(rankd, number, f"k{number}") for number in range(3)]
    found = await recover(ledger.anew(), bare, ignore)
    assert list(dict(found.receipts)) == [answers[-1].position]  # The others were handed in.
    assert answers[-1].receipt is not None
    assert Receipt.decode(dict(found.receipts)[answers[-1].position]) == answers[-1].receipt


async def test_a_receipt_is_that_of_its_moment_however_much_came_after_it() -> None:
    ledger = FaultyLedger()
    async with engine(ledger) as rankd:
        await rankd.define("b", BOARD)
        ledger.fail(applied="unknown", done=True, after=1)
        first = await submit(rankd, 1, "k")
        with pytest.raises(Exception, match="injected"):
            await rankd.submit("b", [{"player": f"q{n}", "score": 9} for n in range(50)])
    async with engine(ledger.anew()) as rankd:
        again = await submit(rankd, 1, "k")
        assert again.receipt == first.receipt
        assert again.receipt is not None
        assert (again.receipt.rank, again.receipt.total) == (1, 1)


async def test_a_snapshot_of_another_ledger_is_left_aside(tmp_path: Path) -> None:
    async with engine(FaultyLedger(), build=kept_in(tmp_path)) as rankd:
        await rankd.define("b", BOARD)
        await submit(rankd, 1)
        await rankd.save()
    other = FaultyLedger()
    async with engine(other) as rankd:
        await rankd.define("b", BOARD)
        await submit(rankd, 2)
    assert await found_in(other, tmp_path) == 0
    async with engine(other, build=kept_in(tmp_path)) as rankd:
        standing = await rankd.reader.standing("b", "p")
        assert standing is not None
        assert standing.scores == (2,)
        await verified(rankd)


async def test_a_snapshot_from_beyond_the_ledgers_head_is_left_aside(tmp_path: Path) -> None:
    ledger, shorter = FaultyLedger(), FaultyLedger()
    for one in (ledger, shorter):
        async with engine(one, build=kept_in(tmp_path)) as rankd:
            await rankd.define("b", BOARD)
            if one is ledger:
                await submit(rankd, 1)
                await rankd.save()
    assert await found_in(shorter, tmp_path) == 0


async def test_damage_is_told_and_everything_is_folded_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ledger = FaultyLedger()
    async with engine(ledger, build=kept_in(tmp_path)) as rankd:
        await rankd.define("b", BOARD)
        await submit(rankd, 1)
        await rankd.save()
        living = state_of(rankd.reader.projector)
    damage(tmp_path)
    with caplog.at_level(logging.WARNING):
        found = await recover(ledger, kept_in(tmp_path), ignore)
    assert (found.saved, "cannot be used" in caplog.text) == (0, True)
    assert state_of(found.projector) == living


def damage(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[:-1] + b"\x00")


class Shelf:
    """Snapshots that bring back an index of one moment with notes of another."""

    def __init__(self, index: NativeIndex, notes: Sequence[bytes]) -> None:
        self._index, self._notes = index, notes

    async def save(
        self,
        notes: Callable[[], Iterable[bytes]],
        *,
        still: AbstractAsyncContextManager[Any] = NOTHING_HELD,
    ) -> AsyncIterator[Progress]:
        raise NotImplementedError
        yield

    async def load(self, tell: Callable[[Progress], None]) -> Sequence[bytes]:
        return self._notes


async def notes_of(ledger: FaultyLedger, folder: Path) -> Sequence[bytes]:
    home = kept_in(folder)()
    assert home.snapshots is not None
    notes = await home.snapshots.load(ignore)
    assert notes is not None
    return notes


async def test_notes_of_another_moment_than_their_index_are_left_aside(tmp_path: Path) -> None:
    ledger = FaultyLedger()
    async with engine(ledger, build=kept_in(tmp_path)) as rankd:
        await rankd.define("b", BOARD)
        await submit(rankd, 1)
        await rankd.save()
        living = state_of(rankd.reader.projector)
    notes = await notes_of(ledger, tmp_path)

    def build() -> IndexHome:
        index = NativeIndex()  # At the beginning, not where the notes are.
        return IndexHome(index, Shelf(index, notes))

    found = await recover(ledger, build, ignore)
    assert found.saved == BEGINNING
    assert state_of(found.projector) == living


@pytest.mark.parametrize("frames", [[], [b""], [b"\xc1"], [b"\x91\xa5other"]])
async def test_notes_that_cannot_be_read_are_left_aside(frames: list[bytes]) -> None:
    ledger = FaultyLedger()
    async with engine(ledger) as rankd:
        await rankd.define("b", BOARD)

    def build() -> IndexHome:
        index = NativeIndex()
        return IndexHome(index, Shelf(index, frames))

    found = await recover(ledger, build, ignore)
    assert (found.saved, found.projector.checkpoint) == (0, 1)


async def test_a_snapshot_that_cannot_be_loaded_for_other_reasons_is_no_damage() -> None:
    class Failing(Shelf):
        async def load(self, tell: Callable[[Progress], None]) -> Sequence[bytes]:
            raise SnapshotDamaged("injected")

    def build() -> IndexHome:
        index = NativeIndex()
        return IndexHome(index, Failing(index, []))

    ledger = FaultyLedger()
    async with engine(ledger, build=build) as rankd:
        await rankd.define("b", BOARD)
    assert (await recover(ledger, build, ignore)).projector.checkpoint == 1


async def lives(steps: Sequence[Sequence[Step]], ends: Sequence[int], folder: Path) -> None:
    """Live through a history in several lives, saved somewhere in each; compare with none."""
    ledger, clock = FaultyLedger(), SetClock()
    receipts: dict[Any, bytes] = {}
    borders = sorted({end % (len(steps) + 1) for end in ends} | {len(steps)})
    for first, end in zip([0, *borders], borders, strict=False):
        async with engine(ledger, clock, kept_in(folder)) as rankd:
            history = History(rankd, clock, receipts)
            half = (first + end) // 2
            await history.live(steps[first:half])
            saved, _ = await asyncio.gather(rankd.save(), history.live(steps[half:end]))
            living = state_of(rankd.reader.projector)
        found = await recover(ledger, kept_in(folder), ignore)
        assert found.saved == rankd.snapshotter.saved >= saved, "later once facts were redacted"
        assert state_of(found.projector) == living
        again = await recover(ledger, bare, ignore)
        assert state_of(again.projector) == living
        assert decoded(found.receipts) == decoded(again.receipts)


def decoded(receipts: Iterable[tuple[Any, bytes]]) -> dict[Any, Receipt]:
    """Return receipts as they are read: facts judged in columns are written in another form."""
    return {position: Receipt.decode(receipt) for position, receipt in receipts}


@settings(max_examples=40)
@given(STEPS, st.lists(st.integers(0, 1_000), max_size=2))
def test_a_life_after_a_snapshot_goes_on_as_if_there_had_been_none(
    tmp_path_factory: pytest.TempPathFactory, steps: Sequence[Sequence[Step]], ends: Sequence[int]
) -> None:
    asyncio.run(lives(steps, ends, tmp_path_factory.mktemp("index")))


async def test_entrants_are_found_in_the_index_of_a_snapshot_without_them(tmp_path: Path) -> None:
    ledger, board = FaultyLedger(), {**BOARD, "segments": ["region"]}
    async with engine(ledger, build=kept_in(tmp_path)) as rankd:
        await rankd.define("b", board)
        await submit(rankd, 1)
        page, since = rankd.state.page("b"), rankd.state.page("b").since
        page.traced, rankd.state.player_boards = False, PlayerBoards()
        await rankd.save()
    found = (await recover(ledger, kept_in(tmp_path), ignore)).projector.state
    assert (dict(found.player_boards), found.page("b").traced) == ({"p": (since,)}, True)


class HeldIndex(NativeIndex):
    """An index that takes the second part of a batch when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.taken, self.let = 0, asyncio.Event()

    async def judge(self, runs: Sequence[Run], **named: Any) -> Sequence[Sequence[Verdicts]] | None:
        if self.taken == 1:
            await self.let.wait()
        self.taken += 1
        return await super().judge(runs, **named)


async def test_a_save_waits_for_the_end_of_a_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the middle of one there is no link, and its receipts are not unstored yet."""
    monkeypatch.setattr(fold_parts, "IN_PLACE_COST_MAX", 1_000)
    ledger, index, many = FaultyLedger(), HeldIndex(), 2_000
    items = [{"player": f"p{n}", "score": n, "key": f"k{n}"} for n in range(many)]
    snapshots = SnapshotFolder(tmp_path, index)
    async with engine(ledger, build=lambda: IndexHome(index, snapshots)) as rankd:
        await rankd.define("b", BOARD)
        submitting = asyncio.create_task(rankd.submit("b", items))
        await rankd.reader.projector.reach(Position(2))
        saving = asyncio.create_task(rankd.save())
        await asyncio.wait([saving], timeout=0.2)  # So long it would take if it did not wait.
        assert 1 < rankd.position < 1 + many
        index.let.set()
        await submitting
        assert await saving == 1 + many
    found = await recover(ledger.anew(), kept_in(tmp_path), ignore)
    assert (found.saved, len(dict(found.receipts))) == (1 + many, many)


class FailingIndex(NativeIndex):
    """An index that fails once it has taken so much."""

    fails_after = Position(0)

    async def judge(self, runs: Sequence[Run], **named: Any) -> Sequence[Sequence[Verdicts]] | None:
        if 0 < self.fails_after < named["after"]:
            raise RuntimeError("injected")
        return await super().judge(runs, **named)


async def test_a_batch_whose_second_part_fails_is_whole_after_a_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fold_parts, "IN_PLACE_COST_MAX", 1_000)
    ledger, index, many = FaultyLedger(), FailingIndex(), 2_000
    items = [{"player": f"p{n}", "score": n, "key": f"k{n}"} for n in range(many)]
    async with engine(ledger, build=lambda: IndexHome(index, None)) as rankd:
        await rankd.define("b", BOARD)
        index.fails_after = rankd.position
        with pytest.raises(LedgerUnavailable) as failed:
            await rankd.submit("b", items)
        assert failed.value.applied == "unknown"
        assert rankd.failure is not None
        seen = await index.count(Ranking("b", "all"))
        assert 0 < seen == rankd.position - 1 < many
    async with engine(ledger.anew()) as rankd:
        answers = await rankd.submit("b", items)
        assert all(answer.duplicate and answer.receipt is not None for answer in answers)
        assert await rankd.reader.projector.index.count(Ranking("b", "all")) == many
        await verified(rankd)

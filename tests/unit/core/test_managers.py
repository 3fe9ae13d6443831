"""The managers: windows turn although nobody submits, and saves happen by themselves, in order."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from tests.unit.core.doubles import (
    DAY,
    HOUR,
    NOON,
    FaultyLedger,
    SetClock,
    bare,
    engine,
    kept_in,
)

from rankd.adapters.memory.archive import MemoryArchive
from rankd.adapters.memory.index import NativeIndex
from rankd.core import assembly, managers
from rankd.core.engine import Engine
from rankd.core.recovery import IndexHome, recover
from rankd.errors import IndexUnavailable, LedgerUnavailable
from rankd.model.facts import Position
from rankd.ports import NOTHING_HELD, Progress, SealedName, SealedRow

pytestmark = pytest.mark.anyio
BOARD: dict[str, Any] = {"rule": "sum", "windows": ["daily"]}
PATIENCE_SECONDS = 60.0
"""Nothing takes so long; it only ends a test that would never end."""


@pytest.fixture(autouse=True)
def _managers_that_hardly_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(managers, "SLEEP_SECONDS_MAX", 0.001)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not true():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.001)


async def test_windows_turn_although_nobody_submits() -> None:
    clock, ledger = SetClock(), FaultyLedger()
    async with engine(ledger, clock) as rankd:
        await rankd.define("b", BOARD)
        clock.time += DAY
        await until(lambda: "daily:2026-11-14" in rankd.state.page("b").sealed)
        assert rankd.state.page("b").windows["daily"].window.id == "daily:2026-11-15"
        before = ledger.begun
        await asyncio.sleep(0.02)
        assert ledger.begun == before  # And then there is nothing to do.


async def test_the_sealer_ends_with_the_engine_it_works_for() -> None:
    clock, ledger = SetClock(), FaultyLedger()
    async with engine(ledger, clock) as rankd:
        await rankd.define("b", BOARD)
        ledger.fail(applied="unknown")
        clock.time += DAY
        await until(lambda: rankd.failure is not None)
        asked = ledger.begun
        await asyncio.sleep(0.02)
        assert ledger.begun == asked


async def test_the_index_is_saved_when_enough_was_folded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(managers, "SAVE_EVERY_FACTS", 5)
    ledger = FaultyLedger()
    async with engine(ledger, build=kept_in(tmp_path)) as rankd:
        await rankd.define("b", BOARD)
        await rankd.submit("b", [{"player": "p", "score": 1}] * 10)
        await until(lambda: rankd.snapshotter.saved > 0)
    assert (await recover(ledger, kept_in(tmp_path), lambda _: None)).saved == 11


async def test_a_large_index_is_saved_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(managers, "SAVE_EVERY_FACTS", 5)
    monkeypatch.setattr(managers, "SAVED_PER_FACT_MAX", 1)
    async with engine(FaultyLedger(), build=kept_in(tmp_path)) as rankd:
        await rankd.define("b", BOARD)
        await rankd.submit("b", [{"player": f"p{number}", "score": 1} for number in range(10)])
        await until(lambda: rankd.snapshotter.saved == 11)
        await rankd.submit("b", [{"player": "p1", "score": 1}] * 19)
        await asyncio.sleep(0.02)
        assert rankd.snapshotter.saved == 11, "ten players and ten entries were saved"
        await rankd.submit("b", [{"player": "p1", "score": 1}])
        await until(lambda: rankd.snapshotter.saved == 31)


@pytest.mark.parametrize(("least", "saved"), [(3, 3), (4, 0)])
async def test_at_the_end_it_is_saved_only_if_that_is_worth_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, least: int, saved: int
) -> None:
    monkeypatch.setattr(assembly, "SAVE_AT_CLOSE_FACTS", least)
    ledger = FaultyLedger()
    async with engine(ledger, build=kept_in(tmp_path)) as rankd:
        await rankd.define("b", BOARD)
        await rankd.submit("b", [{"player": "p", "score": 1}] * 2)
    assert (await recover(ledger, kept_in(tmp_path), lambda _: None)).saved == saved


async def test_an_engine_that_failed_is_not_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembly, "SAVE_AT_CLOSE_FACTS", 1)
    ledger = FaultyLedger()
    async with engine(ledger, build=kept_in(tmp_path)) as rankd:
        await rankd.define("b", BOARD)
        ledger.fail(applied="unknown", done=True)
        with pytest.raises(LedgerUnavailable):
            await rankd.retire("b")
        with pytest.raises(LedgerUnavailable):
            await rankd.save()
    assert (await recover(ledger.anew(), kept_in(tmp_path), lambda _: None)).saved == 0


class FailingSnapshots:
    """Cannot be saved to."""

    def __init__(self) -> None:
        self.asked = 0

    async def save(
        self,
        notes: Callable[[], Iterable[bytes]],
        *,
        still: AbstractAsyncContextManager[Any] = NOTHING_HELD,
    ) -> AsyncIterator[Progress]:
        self.asked += 1
        raise OSError(28, "injected")
        yield Progress(0, 0)

    async def load(self, tell: Callable[[Progress], None]) -> Sequence[bytes] | None:
        return None


async def test_a_save_that_fails_is_told_and_not_tried_again_at_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(managers, "SAVE_EVERY_FACTS", 5)
    failing = FailingSnapshots()
    with caplog.at_level(logging.ERROR):
        async with engine(FaultyLedger(), build=lambda: IndexHome(NativeIndex(), failing)) as rankd:
            await rankd.define("b", BOARD)
            await rankd.submit("b", [{"player": "p", "score": 1}] * 10)
            await until(lambda: failing.asked > 0)
            await asyncio.sleep(0.02)
            assert failing.asked == 1
            assert (rankd.snapshotter.saved, rankd.unsaved) == (0, 11), "it is not called saved"
            await rankd.submit("b", [{"player": "p", "score": 1}] * 10)
            await until(lambda: failing.asked == 2)
            with pytest.raises(OSError, match="injected"):
                await rankd.save()
            await rankd.submit("b", [{"player": "p", "score": 1}])
    assert "could not be saved" in caplog.text


async def test_saves_at_once_come_one_after_another(tmp_path: Path) -> None:
    ledger = FaultyLedger()
    async with engine(ledger, build=kept_in(tmp_path)) as rankd:
        await rankd.define("b", BOARD)
        told = await asyncio.gather(rankd.save(), rankd.save(), rankd.save())
        assert list(told) == [1, 1, 1]
        assert rankd.unsaved == 0
    assert (await recover(ledger, kept_in(tmp_path), lambda _: None)).saved == 1


async def test_where_nothing_is_kept_a_save_does_nothing() -> None:
    async with engine(FaultyLedger(), build=bare) as rankd:
        await rankd.define("b", BOARD)
        assert await rankd.save() == 0


async def test_a_save_goes_on_when_its_caller_goes_away(tmp_path: Path) -> None:
    ledger = FaultyLedger()
    async with engine(ledger, build=kept_in(tmp_path)) as rankd:
        await rankd.define("b", BOARD)
        await rankd.save()
        await rankd.submit("b", [{"player": "p", "score": 1}])
        saving = asyncio.create_task(rankd.save())
        await asyncio.sleep(0)
        saving.cancel()
        await asyncio.gather(saving, return_exceptions=True)
        async with asyncio.timeout(60):
            while rankd.snapshotter.saved < 2:  # noqa: ASYNC110 - nothing signals it
                await asyncio.sleep(0.001)
    assert (await recover(ledger, kept_in(tmp_path), lambda _: None)).saved == 2


async def test_final_standings_are_archived_once_and_go_on_where_they_broke_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(managers, "PAGE_LIMIT_MAX", 2)
    clock, archive = SetClock(), MemoryArchive()
    async with engine(FaultyLedger(), clock) as rankd:
        await rankd.define("b", {"windows": ["daily"], "ties": "standard"})
        scores = [("ann", 3), ("bob", 5), ("cyd", 3), ("dee", 1), ("eve", 9)]
        await rankd.submit("b", scores)
        clock.time += DAY
        await rankd.sealer.turn()
        (sealed,) = rankd.state.boards["b"].sealed.values()
        name = ("b", sealed.window.id, sealed.through)
        ties = [(1, "eve", 9), (2, "bob", 5), (3, "ann", 3), (3, "cyd", 3), (5, "dee", 1)]
        expected = [(place, *row) for place, row in enumerate(ties, start=1)]
        page = await rankd.reader.page("b", window=sealed.window.id)
        keys = sealed.terms.order.parted(page.order_keys)
        before = [
            SealedRow(place, rank, player, keys[place - 1], (score,), None)
            for place, rank, player, score in expected[:2]
        ]
        await archive.keep_standings(*name[:2], before, since=sealed.through)  # And was stopped.
        await managers.Archiver(rankd.reader, archive).keep(sealed)
        again = managers.Archiver(rankd.reader, archive)  # Another node, or another life.
        await again.keep(sealed)
        await again.keep(sealed)
        found = [(row.place, row.rank, row.player, *row.scores) for row in archive.sealed[name]]
        assert found == expected
        assert [row.order_key for row in archive.sealed[name]] == sorted(keys)
        assert archive.totals == {name: 5}


async def test_what_a_board_keeps_no_longer_is_dropped_from_the_archive_too() -> None:
    clock, archive = SetClock(), MemoryArchive()
    async with engine(FaultyLedger(), clock) as rankd:
        await rankd.define("b", {"windows": ["daily"], "retention": {"daily": "2d"}})
        await rankd.define("kept", {"windows": ["daily"]})
        mine, another = (managers.Archiver(rankd.reader, archive) for _ in range(2))

        async def turn(archiver: managers.Archiver) -> None:
            await rankd.submit("b", [("ann", 3)])
            await rankd.submit("kept", [("ann", 3)])
            clock.time += DAY
            await rankd.sealer.turn()
            for page in list(rankd.state.boards.values()):
                for sealed in list(page.sealed.values()):
                    await archiver.keep(sealed)
            await archiver.drop()

        for _ in range(5):
            await turn(mine)
        closed = [{name.window for name in archived_of(archive, board)} for board in ("b", "kept")]
        assert list(map(len, closed)) == [len(rankd.state.boards["b"].sealed), 5]
        assert closed[0] == set(rankd.state.boards["b"].sealed) and len(closed[0]) < 5
        assert set(archive.sealed) == set(archive.totals)

        # Another life of the node finds what was dropped while nobody looked.
        await archive.keep_standings("b", "daily:2000-01-01", [], since=Position(5))
        await archive.keep_standings("b", "daily:2100-01-01", [], since=Position(1_000))
        await archive.keep_standings("retired", "daily:2000-01-01", [], since=Position(5))
        await another.drop()
        left = {name.window for name in archived_of(archive, "b")}
        assert left == closed[0] | {"daily:2100-01-01"}, "of what is not read yet nobody can tell"
        assert archived_of(archive, "retired")
        await another.drop()

        await rankd.retire("kept")
        await rankd.define("kept", {"windows": ["daily"]})
        await another.drop()
        assert len(archived_of(archive, "kept")) == 5


async def test_archives_of_windows_that_a_wrong_time_closed_are_dropped() -> None:
    clock, archive = SetClock(), MemoryArchive()
    async with engine(FaultyLedger(), clock) as rankd:
        await rankd.define("b", {"windows": ["daily"]})
        archiver = managers.Archiver(rankd.reader, archive)

        async def archived() -> list[str]:
            await rankd.submit("b", [("ann", 3)])
            for sealed in list(rankd.state.page("b").sealed.values()):
                await archiver.keep(sealed)
            await archiver.drop()
            return [name.window for name in archived_of(archive, "b")]

        assert await archived() == []
        clock.time += DAY
        assert await archived() == ["daily:2026-11-14"]
        clock.time += 3_000 * DAY
        assert await archived() == ["daily:2026-11-14", "daily:2026-11-15"]
        clock.time += DAY
        assert len(await archived()) == 3
        clock.time -= 3_001 * DAY
        await rankd.correct_time()
        assert await archived() == ["daily:2026-11-14"]
        clock.time += DAY
        assert await archived() == ["daily:2026-11-14", "daily:2026-11-15"]


async def look(rankd: Engine, archiver: managers.Archiver) -> None:
    """Have an archiver look at all closed windows once."""
    await rankd.sealer.turn()
    for page in list(rankd.state.boards.values()):
        for sealed in list(page.sealed.values()):
            await archiver.keep(sealed)
    await archiver.drop()


async def test_archive_that_a_wrong_time_dropped_is_made_again() -> None:
    clock, archive = SetClock(), MemoryArchive()
    async with engine(FaultyLedger(), clock) as rankd:
        await rankd.define("b", {"windows": ["daily"], "retention": {"daily": "3d"}})
        first, second = (managers.Archiver(rankd.reader, archive) for _ in range(2))
        await rankd.submit("b", [("ann", 3), ("bob", 4)])
        clock.time += DAY
        for archiver in (first, second):
            await look(rankd, archiver)
        (name,) = archive.sealed
        before = list(archive.sealed[name])
        clock.time += 60 * DAY
        for archiver in (first, second):
            await look(rankd, archiver)
        assert name not in archive.sealed
        clock.time -= 60 * DAY
        await rankd.correct_time()
        await look(rankd, second)  # The one that had dropped it may be gone.
        assert {id: list(rows) for id, rows in archive.sealed.items()} == {name: before}
        assert archive.totals == {name: 2}


async def test_archive_that_a_wrong_time_filled_is_made_again() -> None:
    clock, archive = SetClock(), MemoryArchive()
    async with engine(FaultyLedger(), clock) as rankd:
        await rankd.define("b", {"rule": "sum", "windows": ["daily"]})
        archiver = managers.Archiver(rankd.reader, archive)
        await rankd.submit("b", [("ann", 1)])
        first = Position(rankd.position + 1)
        # Two hours ahead: the window of the second day closes at the same fact by either time.
        for hours in (11 + 2, 24 + 2, 48 + 2):
            clock.time = NOON + hours * HOUR
            await rankd.submit("b", [("ann", hours)])
            await look(rankd, archiver)
        clock.time -= 2 * HOUR
        await rankd.correct_time(first=first, ahead=2 * HOUR)
        for again in (archiver, managers.Archiver(rankd.reader, archive)):
            await look(rankd, again)
            scores = {
                name[1]: [row.scores for row in archive.sealed[name]] for name in archive.totals
            }
            assert scores == {"daily:2026-11-14": [(14,)], "daily:2026-11-15": [(26,)]}
            assert set(archive.sealed) == set(archive.totals)


def archived_of(archive: MemoryArchive, board: str) -> list[SealedName]:
    return [SealedName(*name) for name in archive.sealed if name[0] == board]


async def test_what_was_read_from_before_a_window_was_closed_is_not_archived() -> None:
    clock, archive = SetClock(), MemoryArchive()
    async with engine(FaultyLedger(), clock) as rankd:
        await rankd.define("b", {"windows": ["daily"]})
        await rankd.submit("b", [("ann", 3)])
        clock.time += DAY
        await rankd.sealer.turn()
        (sealed,) = rankd.state.boards["b"].sealed.values()
        later = sealed._replace(sealed=Position(sealed.through + 9))
        with pytest.raises(IndexUnavailable, match="before the window was closed"):
            await managers.Archiver(rankd.reader, archive).keep(later)
        assert not archive.sealed
        assert not archive.totals

"""The managers: windows turn although nobody submits, and saves happen by themselves, in order."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.unit.core.doubles import DAY, FaultyLedger, SetClock, bare, engine, kept_in

from rankd.adapters.memory.index import NativeIndex
from rankd.core import managers, service
from rankd.core.recovery import Home, recover
from rankd.errors import LedgerUnavailable
from rankd.model.facts import Position
from rankd.ports import Progress, SealedRow

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
        await until(lambda: "daily:2026-11-14" in rankd.book.page("b").sealed)
        assert rankd.book.page("b").windows["daily"].window.id == "daily:2026-11-15"
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


@pytest.mark.parametrize(("least", "saved"), [(3, 3), (4, 0)])
async def test_at_the_end_it_is_saved_only_if_that_is_worth_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, least: int, saved: int
) -> None:
    monkeypatch.setattr(service, "SAVE_AT_CLOSE_FACTS", least)
    ledger = FaultyLedger()
    async with engine(ledger, build=kept_in(tmp_path)) as rankd:
        await rankd.define("b", BOARD)
        await rankd.submit("b", [{"player": "p", "score": 1}] * 2)
    assert (await recover(ledger, kept_in(tmp_path), lambda _: None)).saved == saved


async def test_an_engine_that_failed_is_not_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "SAVE_AT_CLOSE_FACTS", 1)
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

    async def save(self, notes: Callable[[], Iterable[bytes]]) -> AsyncIterator[Progress]:
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
        async with engine(FaultyLedger(), build=lambda: Home(NativeIndex(), failing)) as rankd:
            await rankd.define("b", BOARD)
            await rankd.submit("b", [{"player": "p", "score": 1}] * 10)
            await until(lambda: failing.asked > 0)
            await asyncio.sleep(0.02)
            assert failing.asked == 1
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


async def test_a_save_whose_caller_goes_away_leaves_the_one_before(tmp_path: Path) -> None:
    ledger = FaultyLedger()
    async with engine(ledger, build=kept_in(tmp_path)) as rankd:
        await rankd.define("b", BOARD)
        await rankd.save()
        await rankd.submit("b", [{"player": "p", "score": 1}])
        saving = asyncio.create_task(rankd.save())
        await asyncio.sleep(0)
        saving.cancel()
        await asyncio.gather(saving, return_exceptions=True)
        found = (await recover(ledger, kept_in(tmp_path), lambda _: None)).saved
        assert found in (1, 2)
        assert await rankd.save() == 2


class Kept:
    """An archive in a list."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str, int], list[SealedRow]] = {}

    async def kept_standings(self, board: str, window: str, *, since: Position) -> int:
        return len(self.rows.get((board, window, since), ()))

    async def keep_standings(
        self, board: str, window: str, rows: Sequence[SealedRow], *, since: Position
    ) -> None:
        assert rows, "nothing is kept for nothing"
        self.rows.setdefault((board, window, since), []).extend(rows)


async def test_final_standings_are_archived_once_and_go_on_where_they_broke_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(managers, "PAGE_LIMIT_MAX", 2)
    clock, archive = SetClock(), Kept()
    async with engine(FaultyLedger(), clock) as rankd:
        await rankd.define("b", {"windows": ["daily"], "ties": "standard"})
        scores = [("ann", 3), ("bob", 5), ("cyd", 3), ("dee", 1), ("eve", 9)]
        await rankd.submit("b", scores)
        clock.time += DAY
        await rankd.sealer.turn()
        (sealed,) = rankd.book.boards["b"].sealed.values()
        name = ("b", sealed.window.id, sealed.through)
        expected = [
            (1, "eve", (9,), None),
            (2, "bob", (5,), None),
            (3, "ann", (3,), None),
            (3, "cyd", (3,), None),
            (5, "dee", (1,), None),
        ]
        archive.rows[name] = list(expected[:2])  # Somebody was stopped in the middle of it.
        await managers.Archiver(rankd.reader, archive).keep(sealed)
        assert archive.rows == {name: expected}
        again = managers.Archiver(rankd.reader, archive)  # Another node, or another life.
        await again.keep(sealed)
        await again.keep(sealed)
        assert archive.rows == {name: expected}

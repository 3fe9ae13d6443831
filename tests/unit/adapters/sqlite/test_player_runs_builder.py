"""Runs are built behind the appends, and built again whatever becomes of them."""

import asyncio
import random
import shutil
from pathlib import Path

import pytest
from tests.unit.adapters.sqlite.runs_building import (
    NOW,
    RANGE_FACTS,
    assert_complete,
    built,
    facts,
    fill,
    runs_in,
    small_runs,
)

from rankd.adapters.sqlite import SQLiteLedger, player_runs
from rankd.adapters.sqlite.database import FILE, PLAYERS
from rankd.adapters.sqlite.player_runs import PlayerRun, RunRange
from rankd.adapters.sqlite.read_only import OfflineLedger, ReadOnlyLedger
from rankd.model.facts import ScoreSubmitted
from rankd.model.window import Instant

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def covered(folder: Path) -> int:
    """Return the last position that the runs reach without a gap."""
    reached = 0
    for name in runs_in(folder):
        first, last = name.removesuffix(".run").split("-")
        assert int(first) == reached + 1, runs_in(folder)
        reached = int(last)
    return reached


async def test_a_small_ledger_has_no_runs(tmp_path: Path) -> None:
    with small_runs():
        async with SQLiteLedger.open(tmp_path) as ledger:
            await fill(ledger, RANGE_FACTS - 1)
            assert not (tmp_path / PLAYERS).exists()
            await assert_complete(ledger)


async def test_all_but_the_end_is_in_runs(tmp_path: Path) -> None:
    with small_runs():
        async with SQLiteLedger.open(tmp_path) as ledger:
            for many in (25, 1, 200, 7, 3):
                await fill(ledger, many)
                head = await ledger.head()
                assert head - RANGE_FACTS - 10 < covered(tmp_path) <= head
                await assert_complete(ledger)


async def test_a_ledger_without_runs_gets_them_when_it_is_opened(tmp_path: Path) -> None:
    with small_runs():
        async with SQLiteLedger.open(tmp_path) as ledger:
            await fill(ledger, 300)
        shutil.rmtree(tmp_path / PLAYERS)
        async with SQLiteLedger.open(tmp_path) as ledger:
            await assert_complete(ledger)  # Whether or not they are built.
            await built(ledger)
            assert covered(tmp_path) > 270
            await assert_complete(ledger)


async def test_runs_of_another_ledger_are_thrown_away(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    with small_runs():
        for folder, now in ((one, 1), (other, 2)):
            async with SQLiteLedger.open(folder) as ledger:
                for start in range(0, 200, 10):
                    await ledger.append(facts(start + now, 10), now=Instant(now))
                await built(ledger)
        shutil.rmtree(one / PLAYERS)
        shutil.copytree(other / PLAYERS, one / PLAYERS)
        async with ReadOnlyLedger.open(one) as reader:
            await assert_complete(reader)
        async with SQLiteLedger.open(one) as ledger:
            await built(ledger)
            assert covered(one) > 170
            await assert_complete(ledger)


async def test_a_damaged_run_is_built_again(tmp_path: Path) -> None:
    with small_runs():
        async with SQLiteLedger.open(tmp_path) as ledger:
            await fill(ledger, 250)
        whole = {path.name: path.read_bytes() for path in (tmp_path / PLAYERS).iterdir()}
        for name, data in whole.items():
            for broken in (b"", data[:100], bytes(len(data)), data[:20] + b"\xff" + data[21:]):
                (tmp_path / PLAYERS / name).write_bytes(broken)
                async with ReadOnlyLedger.open(tmp_path) as reader:
                    await assert_complete(reader)
                async with OfflineLedger.open(tmp_path) as offline:
                    await assert_complete(offline)
                assert (tmp_path / PLAYERS / name).read_bytes() == broken
                async with SQLiteLedger.open(tmp_path) as ledger:
                    await built(ledger)
                    await assert_complete(ledger)
                    await ledger.append(facts(0, 1), now=Instant(0))
                    await built(ledger)
                    await assert_complete(ledger)
                    covered(tmp_path)


async def test_runs_of_many_pages_are_merged_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(player_runs, "MERGED_PAGES", 1)
    monkeypatch.setattr(player_runs, "RANGE_FACTS", 1_500)
    monkeypatch.setattr(player_runs, "MERGED_RUNS", 3)
    dice = random.Random(4)
    async with SQLiteLedger.open(tmp_path) as ledger:
        for _ in range(24):
            players = [f"p{int(dice.paretovariate(0.3)) % 500}" for _ in range(700)]
            await ledger.append([ScoreSubmitted("b", one, scores=(1,)) for one in players], now=NOW)
            await built(ledger)
        assert len(runs_in(tmp_path)) < 5
        await assert_complete(ledger)
        largest = PlayerRun(
            max((tmp_path / PLAYERS).iterdir(), key=lambda path: path.stat().st_size)
        )
        pages = [largest.page(number) for number in range(largest.pages)]
        entries = b"".join(pages)
        assert len(pages) > 15
        assert len(entries) == 12 * (largest.range.last + 1 - largest.range.first)
        assert entries == b"".join(
            sorted(entries[at : at + 12] for at in range(0, len(entries), 12))
        )
        largest.close()


async def test_a_folder_that_cannot_be_written_costs_only_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tries: list[RunRange] = []

    def fail(folder: Path, range_: RunRange, entries: object) -> None:
        tries.append(range_)
        raise OSError(28, "No space left on device")

    with small_runs():
        with monkeypatch.context() as patched:
            patched.setattr(player_runs, "write_run", fail)
            async with SQLiteLedger.open(tmp_path) as ledger:
                await fill(ledger, 200)
                await assert_complete(ledger)
        assert 2 <= len(tries) <= 200 // RANGE_FACTS
        assert "not built for now" in caplog.text
        async with SQLiteLedger.open(tmp_path) as ledger:
            await built(ledger)
            assert covered(tmp_path) > 170


async def test_a_file_in_place_of_the_folder_costs_only_time(tmp_path: Path) -> None:
    with small_runs():
        async with SQLiteLedger.open(tmp_path) as ledger:
            (tmp_path / PLAYERS).write_text("")
            await fill(ledger, 100)
            await assert_complete(ledger)


async def test_a_ledger_is_closed_while_runs_are_built(tmp_path: Path) -> None:
    with small_runs():
        for turn in range(20):
            async with SQLiteLedger.open(tmp_path) as ledger:
                await ledger.append(facts(turn * 50, 50), now=Instant(0))
                if turn % 2:
                    await asyncio.sleep(turn / 10_000)
        async with SQLiteLedger.open(tmp_path) as ledger:
            await built(ledger)
            assert covered(tmp_path) > 970
            await assert_complete(ledger)


async def test_a_reader_meets_runs_as_they_are_built_and_merged(tmp_path: Path) -> None:
    with small_runs():
        async with SQLiteLedger.open(tmp_path) as ledger:
            await fill(ledger, 50)
            async with ReadOnlyLedger.open(tmp_path) as reader:
                for _ in range(25):
                    await asyncio.gather(fill(ledger, 30), *(ask(reader) for _ in range(3)))
                    await assert_complete(reader)


async def ask(reader: ReadOnlyLedger) -> None:
    found = await reader.facts_of(board=None, player="p1", before=None, limit=100_000)
    positions = [one.position for one in found]
    assert positions == list(range(positions[0], 0, -5))


async def test_a_backup_has_no_runs_and_gets_its_own(tmp_path: Path) -> None:
    with small_runs():
        async with SQLiteLedger.open(tmp_path / "one") as ledger:
            await fill(ledger, 200)
            async for _ in ledger.backup(tmp_path / "copy"):
                pass
        assert not (tmp_path / "copy" / PLAYERS).exists()
        async with OfflineLedger.open(tmp_path / "copy") as offline:
            await assert_complete(offline)
        async with SQLiteLedger.open(tmp_path / "copy") as copy:
            await built(copy)
            assert covered(tmp_path / "copy") > 170
            await assert_complete(copy)
    assert (tmp_path / "copy" / FILE).exists()

"""Which runs are used, and which are merged."""

from pathlib import Path

import apsw
import pytest
from tests.unit.adapters.sqlite.runs_building import RANGE_FACTS, fill, runs_in, small_runs

from rankd.adapters.sqlite import SQLiteLedger, player_runs
from rankd.adapters.sqlite.database import FILE, PLAYERS
from rankd.adapters.sqlite.player_runs import (
    PlayerRun,
    PlayerRuns,
    RunRange,
    due_for_merge,
    first_gap,
    level_of,
    write_run,
)
from rankd.model.facts import Position

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Ranges:
    """Runs of no entries, over ranges of given levels."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.opened = folder, list[PlayerRun]()

    def of(self, *levels: int, gap_before: int | None = None) -> list[PlayerRun]:
        first = 1
        for place, level in enumerate(levels):
            if place == gap_before:
                first += 5
            last = first + RANGE_FACTS * player_runs.MERGED_RUNS**level
            named = RunRange(Position(first), Position(last), bytes(16), bytes(32))
            write_run(self.folder, named, [])
            self.opened.append(PlayerRun(self.folder / named.name))
            first = last + 1
        return self.opened[-len(levels) :]


@pytest.mark.parametrize(
    ("levels", "due"),
    [
        ((0,), (0, 0)),
        ((0, 0), (0, 0)),
        ((0, 0, 0), (0, 3)),
        ((1, 1, 0, 0), (0, 0)),
        ((1, 1, 0, 0, 0), (2, 5)),
        ((1, 1, 1, 0, 0, 0), (0, 3)),
        ((2, 0, 0, 2), (0, 0)),
        ((2, 0, 0, 2, 2), (0, 5)),
        ((0, 0, 1, 0), (0, 0)),
        ((3, 3, 3), (0, 0)),
    ],
)
def test_neighbours_of_one_size_are_merged(
    tmp_path: Path, levels: tuple[int, ...], due: tuple[int, int]
) -> None:
    with small_runs(level_max=3):
        ranges = Ranges(tmp_path)
        runs = ranges.of(*levels)
        assert [level_of(run) for run in runs] == list(levels)
        assert list(due_for_merge(runs)) == runs[slice(*due)]
        for run in ranges.opened:
            run.close()


def test_no_runs_are_merged_over_a_gap(tmp_path: Path) -> None:
    with small_runs():
        ranges = Ranges(tmp_path)
        runs = ranges.of(0, 0, 0, gap_before=1)
        assert list(due_for_merge(runs)) == []
        assert first_gap(runs, Position(999)) == (
            runs[0].range.last + 1,
            runs[1].range.first - 1,
        )
        assert first_gap(runs[:1], Position(999)) == (runs[0].range.last + 1, 999)
        assert first_gap([], Position(999)) == (1, 999)
        for run in ranges.opened:
            run.close()


async def test_the_number_of_runs_grows_with_the_logarithm(tmp_path: Path) -> None:
    with small_runs():
        async with SQLiteLedger.open(tmp_path) as ledger:
            for _ in range(30):
                await fill(ledger, 40)
                assert len(runs_in(tmp_path)) <= 2 * 5


async def test_of_runs_that_overlap_the_longest_is_used(tmp_path: Path) -> None:
    with small_runs(merged=99):
        async with SQLiteLedger.open(tmp_path) as ledger:
            await fill(ledger, 100)
            before = {path: path.read_bytes() for path in (tmp_path / PLAYERS).iterdir()}
    with small_runs(merged=3):
        async with SQLiteLedger.open(tmp_path) as ledger:
            await fill(ledger, 20)
        merged = runs_in(tmp_path)
    for path, data in before.items():
        path.write_bytes(data)
    assert len(runs_in(tmp_path)) > len(merged)
    database = apsw.Connection(str(tmp_path / FILE), flags=apsw.SQLITE_OPEN_READONLY)
    runs = PlayerRuns(tmp_path)
    used = runs.refresh(database)
    assert [run.path.name for run in used] == merged
    runs.delete_useless(used)
    assert runs_in(tmp_path) == merged
    runs.close()
    database.close()

"""Runs: written once, found in by pages, and never trusted when a byte has changed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rankd.adapters.sqlite import player_entries
from rankd.adapters.sqlite.player_entries import PlayerQuestion, sort
from rankd.adapters.sqlite.player_runs import PlayerRun, RunDamaged, RunRange, write_run
from rankd.model.facts import Position

SEED, LINK = bytes(range(16)), bytes(range(32))
NAMES = [f"p{number % 7}" if number % 5 else "hot" for number in range(1, 2_001)]


def range_of(first: int, last: int) -> RunRange:
    return RunRange(Position(first), Position(last), SEED, LINK)


def written(folder: Path, names: list[str]) -> Path:
    made = [
        player_entries._entry(SEED, name, f"b{position % 2}", position)
        for position, name in enumerate(names, 1)
    ]
    ordered = sort(b"".join(made))
    parts = [ordered[start : start + 12 * 100] for start in range(0, len(ordered), 12 * 100)]
    range_ = range_of(1, max(len(names), 1))
    write_run(folder, range_, parts)
    return folder / range_.name


@pytest.fixture
def run(tmp_path: Path) -> Iterator[PlayerRun]:
    opened = PlayerRun(written(tmp_path, NAMES))
    yield opened
    opened.close()


def found(
    run: PlayerRun, player: str, board: str | None, after: int, before: int, *, newest: bool
) -> list[int]:
    asked = PlayerQuestion(player, board, Position(after), Position(before), newest_first=newest)
    pages = list(run.find(asked))
    return [position for page in pages for position in (page[::-1] if newest else page)]


def test_a_players_facts_are_found_between_any_two_positions(run: PlayerRun) -> None:
    assert run.pages == 6
    assert sum(len(run.page(number)) for number in range(6)) == 12 * len(NAMES)
    for player in ("hot", "p0", "p3", "nobody"):
        for board in (None, "b0", "b1", "b2"):
            for after, before in ((0, 9_999), (0, 1), (500, 501), (500, 1_000), (1_999, 2**41)):
                expected = [
                    at
                    for at, name in enumerate(NAMES, 1)
                    if name == player and board in (None, f"b{at % 2}") and after < at < before
                ]
                assert found(run, player, board, after, before, newest=False) == expected
                assert found(run, player, board, after, before, newest=True) == expected[::-1]


def test_a_question_reads_only_the_pages_of_its_player(
    run: PlayerRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    page = run.page

    def noted(number: int) -> bytes:
        read.append(number)
        return page(number)

    monkeypatch.setattr(run, "page", noted)
    assert len(found(run, "hot", None, 0, 9_999, newest=True)) == 400
    assert len(read) <= 3
    read.clear()
    assert found(run, "hot", None, 0, 100, newest=True)
    assert len(read) <= 2


def test_a_run_without_entries_is_a_run(tmp_path: Path) -> None:
    run = PlayerRun(written(tmp_path, []))
    assert found(run, "ann", None, 0, 9, newest=True) == []
    run.close()


def read_all(path: Path) -> None:
    run = PlayerRun(path)
    try:
        for number in range(run.pages):
            run.page(number)
    finally:
        run.close()


def test_a_run_with_any_changed_byte_is_damaged(tmp_path: Path) -> None:
    path = written(tmp_path, NAMES[:400])
    whole = path.read_bytes()
    for place in [*range(0, len(whole), 7), *range(len(whole) - 120, len(whole))]:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        with pytest.raises(RunDamaged):
            read_all(path)


def test_a_run_that_is_cut_off_or_grown_or_empty_is_damaged(tmp_path: Path) -> None:
    path = written(tmp_path, NAMES[:400])
    whole = path.read_bytes()
    lengths = [*range(0, len(whole), 501), len(whole) - 1]
    for data in (*(whole[:end] for end in lengths), whole + b"\0", bytes(len(whole))):
        path.write_bytes(data)
        with pytest.raises(RunDamaged):
            read_all(path)


def test_a_run_under_another_name_is_damaged(tmp_path: Path) -> None:
    path = written(tmp_path, NAMES)
    other = path.rename(tmp_path / range_of(1, 1_000).name)
    with pytest.raises(RunDamaged):
        PlayerRun(other)


def test_a_run_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    def parts() -> Iterator[bytes]:
        yield bytes(12)
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="gone"):
        write_run(tmp_path, range_of(1, 2), parts())
    assert list(tmp_path.iterdir()) == []

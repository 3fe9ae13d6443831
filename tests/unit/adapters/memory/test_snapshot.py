"""A saved index comes back as it was, or is refused: whatever happened to its files."""

import shutil
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from rankd.adapters.memory import index as module
from rankd.adapters.memory import snapshot
from rankd.adapters.memory.index import NativeIndex
from rankd.errors import SnapshotDamaged
from rankd.model.facts import Position
from rankd.ports import Move, Progress, Ranking, Shape

T = TypeVar("T")

WIDE, EMPTY, PLAIN = Ranking("b", "wide"), Ranking("b", "empty", "x:y"), Ranking("c", "plain")
SHAPES = {WIDE: Shape(40, True), EMPTY: Shape(16, False), PLAIN: Shape(16, False)}


def now(call: Coroutine[Any, Any, T]) -> T:
    try:
        call.send(None)
    except StopIteration as done:
        answer: T = done.value
        return answer
    raise AssertionError("the call suspended")


def made(count: int = 5, *, through: int = 7) -> NativeIndex:
    index = NativeIndex()
    moves = [Move(WIDE, f"p{n}", bytes([n]) * 40, b"m" * n or None) for n in range(count)]
    moves += [Move(PLAIN, f"p{n}", bytes([n]) * 16) for n in range(count + 1)]
    now(index.apply(moves, after=Position(0), through=Position(through), opened=SHAPES))
    return index


def loaded(folder: Path) -> NativeIndex:
    index = NativeIndex.load(folder)
    assert index is not None
    index.check()
    return index


def home(folder: Path) -> Path:
    (found,) = (path for path in folder.iterdir() if path.is_dir())
    return found


def everything(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_where_nothing_was_saved_nothing_is_loaded(tmp_path: Path) -> None:
    assert NativeIndex.load(tmp_path) is None
    assert NativeIndex.load(tmp_path / "absent") is None


def test_what_was_saved_is_loaded_with_its_checkpoint(tmp_path: Path) -> None:
    index = made()
    index.save(tmp_path / "new" / "folder")
    again = loaded(tmp_path / "new" / "folder")
    assert again.digest() == index.digest()
    assert now(again.checkpoint()) == 7
    assert set(now(again.rankings("b"))) == {WIDE, EMPTY}


def test_what_was_loaded_goes_on_like_what_was_saved(tmp_path: Path) -> None:
    index = made()
    now(index.apply([], after=Position(7), through=Position(8), dropped=[PLAIN]))
    index.save(tmp_path)
    again = loaded(tmp_path)
    moves = [Move(WIDE, "p1", None), Move(WIDE, "new", bytes(40), b"car")]
    for each in (index, again):
        now(each.apply(moves, after=Position(8), through=Position(9)))
        each.check()
    assert again.digest() == index.digest()


def test_players_that_wait_to_be_released_are_not_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PLAYERS_RELEASED_PER_APPLY", 1)
    index = made()
    now(index.apply([], after=Position(7), through=Position(8), dropped=[PLAIN, WIDE]))
    index.save(tmp_path)
    again = loaded(tmp_path)
    assert set(now(again.rankings("b"))) == {EMPTY}
    index.check()


def test_an_empty_index_can_be_saved(tmp_path: Path) -> None:
    NativeIndex().save(tmp_path)
    assert now(loaded(tmp_path).checkpoint()) == 0


def test_a_save_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    made().save(tmp_path)
    second = made(3, through=9)
    second.save(tmp_path)
    assert loaded(tmp_path).digest() == second.digest()
    assert {path.name for path in tmp_path.iterdir()} == {"current", home(tmp_path).name}


def test_metadata_and_counts_that_fill_several_frames_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "HELD_PER_FRAME", 3)
    monkeypatch.setattr(snapshot, "METADATA_PER_FRAME", 2)
    index = made(50)
    index.save(tmp_path)
    assert loaded(tmp_path).digest() == index.digest()


def test_progress_is_told_from_the_first_file_to_the_last(tmp_path: Path) -> None:
    told: list[Progress] = []
    made().save(tmp_path, progress=told.append)
    assert told == [Progress(6, 17), Progress(11, 17), Progress(17, 17)]
    told.clear()
    NativeIndex.load(tmp_path, progress=told.append)
    assert told == [Progress(6, 17), Progress(11, 17), Progress(17, 17)]


# ---- Interrupted -------------------------------------------------------------------------------


class Cut(Exception):
    """The power went out."""


def cut(_: Progress) -> None:
    raise Cut


def test_a_save_that_fails_leaves_the_one_before_and_nothing_else(tmp_path: Path) -> None:
    index = made()
    index.save(tmp_path)
    files = everything(tmp_path)
    with pytest.raises(Cut):
        made(3).save(tmp_path, progress=cut)
    assert everything(tmp_path) == files
    assert loaded(tmp_path).digest() == index.digest()


def test_a_save_that_was_cut_off_is_not_seen_and_cleared_away_by_the_next(tmp_path: Path) -> None:
    index = made()
    index.save(tmp_path)
    shutil.copytree(home(tmp_path), tmp_path / ("0" * 32))
    (tmp_path / ".current.unfinished").write_bytes(b'{"vers')
    assert loaded(tmp_path).digest() == index.digest()
    index.save(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"current", home(tmp_path).name}


def test_what_others_keep_in_the_folder_stays(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    made().save(tmp_path)
    assert (tmp_path / "notes").is_dir()


# ---- Damaged -----------------------------------------------------------------------------------


def test_any_changed_byte_is_found(tmp_path: Path) -> None:
    made().save(tmp_path)
    for path in everything(tmp_path):
        sound = path.read_bytes()
        for at in range(len(sound)):
            path.write_bytes(sound[:at] + bytes([sound[at] ^ 1 << at % 8]) + sound[at + 1 :])
            with pytest.raises(SnapshotDamaged):
                NativeIndex.load(tmp_path)
        path.write_bytes(sound)
    loaded(tmp_path)


def test_any_missing_end_is_found(tmp_path: Path) -> None:
    made().save(tmp_path)
    for path in everything(tmp_path):
        sound = path.read_bytes()
        for length in range(len(sound)):
            path.write_bytes(sound[:length])
            with pytest.raises(SnapshotDamaged):
                NativeIndex.load(tmp_path)
        path.write_bytes(sound + b"\0")
        with pytest.raises(SnapshotDamaged):
            NativeIndex.load(tmp_path)
        path.write_bytes(sound)
    loaded(tmp_path)


def test_a_missing_file_is_found(tmp_path: Path) -> None:
    made().save(tmp_path)
    for path in everything(home(tmp_path)):
        sound = path.read_bytes()
        path.unlink()
        with pytest.raises(SnapshotDamaged):
            NativeIndex.load(tmp_path)
        path.write_bytes(sound)
    shutil.rmtree(home(tmp_path))
    with pytest.raises(SnapshotDamaged):
        NativeIndex.load(tmp_path)


def test_a_file_of_another_save_is_found(tmp_path: Path) -> None:
    made().save(tmp_path / "a")
    made().save(tmp_path / "b")
    ours, theirs = home(tmp_path / "a"), home(tmp_path / "b")
    for path in everything(ours):
        sound = path.read_bytes()
        shutil.copy(theirs / path.name, path)
        with pytest.raises(SnapshotDamaged):
            NativeIndex.load(tmp_path / "a")
        path.write_bytes(sound)


def test_lists_that_changed_places_are_found(tmp_path: Path) -> None:
    made().save(tmp_path)
    one, two = home(tmp_path) / "1", home(tmp_path) / "2"
    contents = one.read_bytes(), two.read_bytes()
    one.write_bytes(contents[1])
    two.write_bytes(contents[0])
    with pytest.raises(SnapshotDamaged, match="another save"):
        NativeIndex.load(tmp_path)


@pytest.mark.parametrize(
    "change", [{"version": 2}, {"mark": "../elsewhere"}, {"mark": "0" * 32}, {"sha256": ""}]
)
def test_a_name_that_leads_elsewhere_is_found(tmp_path: Path, change: dict[str, Any]) -> None:
    made().save(tmp_path)
    current = msgspec.json.decode((tmp_path / "current").read_bytes())
    (tmp_path / "current").write_bytes(msgspec.json.encode({**current, **change}))
    with pytest.raises(SnapshotDamaged):
        NativeIndex.load(tmp_path)

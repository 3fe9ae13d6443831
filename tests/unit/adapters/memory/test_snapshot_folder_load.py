"""A saved index comes back as it was, or is refused: whatever happened to its files."""

import asyncio
import hashlib
import shutil
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from rankd.adapters.memory import snapshot_folder, snapshot_save
from rankd.adapters.memory.archive_store import ArchiveStore
from rankd.adapters.memory.index import NativeIndex
from rankd.adapters.memory.snapshot_folder import SnapshotFolder
from rankd.errors import SnapshotDamaged
from rankd.model.facts import Position
from rankd.ports import Move, Progress, Ranking, RankingShape
from rankd.rank import PlayerTable, RankList

T = TypeVar("T")

WIDE, EMPTY, PLAIN = Ranking("b", "wide"), Ranking("b", "empty", "x:y"), Ranking("c", "plain")
SHAPES = {
    WIDE: RankingShape(40, True),
    EMPTY: RankingShape(16, False),
    PLAIN: RankingShape(16, False),
}


def now(call: Coroutine[Any, Any, T]) -> T:
    try:
        call.send(None)
    except StopIteration as done:
        answer: T = done.value
        return answer
    raise AssertionError("the call suspended")


def made(count: int = 5) -> NativeIndex:
    index = NativeIndex()
    moves = [Move(WIDE, f"p{n}", bytes([n]) * 40, b"m" * n or None) for n in range(count)]
    moves += [Move(PLAIN, f"p{n}", bytes([n]) * 16) for n in range(count + 1)]
    now(index.apply(moves, after=Position(0), through=Position(7), opened=SHAPES))
    return index


def save(index: NativeIndex, folder: Path, *, beside: Iterable[Move] = ()) -> None:
    """Save, making a move after each step as long as there are any."""

    async def saved() -> None:
        moves = iter(beside)
        async for _ in SnapshotFolder(folder, index).save(lambda: [b"note"]):
            after = await index.checkpoint()
            for move in moves:
                await index.apply([move], after=after, through=Position(after + 1))
                break

    asyncio.run(saved())


def load(folder: Path, tell: snapshot_folder.Tell = lambda _: None) -> NativeIndex:
    loaded = snapshot_folder.load(
        folder, make_players=PlayerTable, make_list=RankList, archives=ArchiveStore(), tell=tell
    )
    assert loaded is not None
    state, notes = loaded
    assert notes == [b"note"]
    index = NativeIndex()
    index.fill(state)
    index.check()
    return index


def refuse(folder: Path) -> None:
    with pytest.raises(SnapshotDamaged):
        load(folder)


def home(folder: Path) -> Path:
    (found,) = (path for path in folder.iterdir() if path.is_dir())
    return found


def everything(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A save in whose files there is something of everything."""
    monkeypatch.setattr(snapshot_save, "STEP_ENTRIES", 2)
    moves = [
        Move(PLAIN, "p1", None),
        Move(WIDE, "p2", bytes(40), b"car"),
        Move(PLAIN, "x", bytes(16)),
    ]
    save(made(), tmp_path, beside=moves)
    assert {path.name for path in everything(tmp_path) if path.stat().st_size} == {
        "current",
        "contents",
        "base",
        "touched",
        "notes",
    }
    return tmp_path


def test_where_nothing_was_saved_nothing_is_loaded(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "absent"):
        nothing = snapshot_folder.load(
            folder,
            make_players=PlayerTable,
            make_list=RankList,
            archives=ArchiveStore(),
            tell=lambda _: None,
        )
        assert nothing is None


def test_players_keep_their_numbers_where_nobody_left(tmp_path: Path) -> None:
    index = made(50)
    save(index, tmp_path)
    again = load(tmp_path)
    assert again.digest() == index.digest()
    assert list(again.state.players.blocks(99)) == list(index.state.players.blocks(99))


def test_players_whom_nobody_holds_are_forgotten(tmp_path: Path) -> None:
    """One left before the save, so that numbers differ; one leaves and none is in all rankings."""
    index = made(6)
    leave = [Move(WIDE, "p0", None), Move(PLAIN, "p0", None), Move(PLAIN, "p5", None)]
    now(index.apply(leave, after=Position(7), through=Position(8)))
    save(index, tmp_path, beside=[Move(WIDE, "p5", None), Move(PLAIN, "p6", None)])
    again = load(tmp_path)
    assert again.digest() == index.digest()
    assert [again.state.players.find(f"p{n}") is None for n in range(7)] == [
        True,
        False,
        False,
        False,
        False,
        True,
        True,
    ]


def test_progress_is_told_from_beginning_to_end(folder: Path) -> None:
    told: list[Progress] = []
    load(folder, told.append)
    assert list(dict.fromkeys(each.stage for each in told)) == ["checking", "loading"]
    for stage in ("checking", "loading"):
        done = [each.done for each in told if each.stage == stage]
        assert done == sorted(set(done))
        assert {each.total for each in told if each.stage == stage} == {done[-1]}


# ---- Damaged -----------------------------------------------------------------------------------


def test_any_changed_byte_is_found(folder: Path) -> None:
    for path in everything(folder):
        sound = path.read_bytes()
        for at in range(len(sound)):
            path.write_bytes(sound[:at] + bytes([sound[at] ^ 1 << at % 8]) + sound[at + 1 :])
            refuse(folder)
        path.write_bytes(sound)
    load(folder)


def test_any_missing_end_is_found(folder: Path) -> None:
    for path in everything(folder):
        sound = path.read_bytes()
        for length in range(len(sound)):
            path.write_bytes(sound[:length])
            refuse(folder)
        path.write_bytes(sound + b"\0")
        refuse(folder)
        path.write_bytes(sound)
    load(folder)


def test_a_missing_file_is_found(folder: Path) -> None:
    for path in everything(home(folder)):
        sound = path.read_bytes()
        path.unlink()
        refuse(folder)
        path.mkdir()
        refuse(folder)
        path.rmdir()
        path.write_bytes(sound)
    shutil.rmtree(home(folder))
    refuse(folder)


def test_a_file_of_another_save_is_found(tmp_path: Path) -> None:
    for name in ("a", "b"):
        save(made(), tmp_path / name)
    save(made(6), tmp_path / "c")
    ours = home(tmp_path / "a")
    changed = 0
    for path in everything(ours):
        for other in ("b", "c"):
            sound, theirs = path.read_bytes(), (home(tmp_path / other) / path.name).read_bytes()
            if sound != theirs:  # Two saves of the same may have the same bytes in it.
                path.write_bytes(theirs)
                refuse(tmp_path / "a")
                path.write_bytes(sound)
                changed += 1
    assert changed >= 3
    load(tmp_path / "a")


@pytest.mark.parametrize(
    "change", [{"version": 1}, {"mark": "../elsewhere"}, {"mark": "0" * 32}, {"sha256": ""}]
)
def test_a_name_that_leads_elsewhere_is_found(folder: Path, change: dict[str, Any]) -> None:
    current = msgspec.json.decode((folder / "current").read_bytes())
    (folder / "current").write_bytes(msgspec.json.encode({**current, **change}))
    refuse(folder)


# ---- Sound, but nonsense -----------------------------------------------------------------------


def rewrite(folder: Path, name: str, body: bytes) -> None:
    """Change a file, and everything that vouches for it."""
    path = home(folder)
    contents = msgspec.msgpack.decode((path / "contents").read_bytes(), type=snapshot_save.Contents)
    if name != "contents":
        (path / name).write_bytes(body)
        contents.files[name] = snapshot_save.FileDigest(len(body), hashlib.sha256(body).digest())
        body = msgspec.msgpack.encode(contents)
    (path / "contents").write_bytes(body)
    sha256 = hashlib.sha256(body).hexdigest()
    current = snapshot_save.CurrentSave(snapshot_save.VERSION, path.name, sha256)
    (folder / "current").write_bytes(msgspec.json.encode(current))


def framed(*bodies: bytes) -> bytes:
    return b"".join(len(body).to_bytes(4, "little") + body for body in bodies)


@pytest.mark.parametrize("name", ["base", "touched"])
@pytest.mark.parametrize(
    "body",
    [
        b"\xff\xff\xff\xff",
        b"\x05\0\0",
        b"\x05\0\0\0abc",
        framed(b"no frame"),
        framed(snapshot_save.encode(snapshot_save.IdFrame(bytes(4), b"\x01\0\x01\0", b"ab"))),
        framed(snapshot_save.encode(snapshot_save.IdFrame(b"", b"", b""))),
        framed(snapshot_save.encode(snapshot_save.IdFrame(bytes(4), b"\x01\0", b"\xff"))),
        framed(snapshot_save.encode(snapshot_save.EntryFrame(0, b"\x99\0\0\0", bytes(40), [], []))),
        framed(snapshot_save.encode(snapshot_save.EntryFrame(0, bytes(4), bytes(40), [0], []))),
        framed(snapshot_save.encode(snapshot_save.EntryFrame(0, bytes(3), bytes(40), [], []))),
        framed(snapshot_save.encode(snapshot_save.RemovedFrame(0, bytes(4)))),
    ],
)
def test_what_no_save_would_write_is_refused(folder: Path, name: str, body: bytes) -> None:
    rewrite(folder, name, body)
    refuse(folder)


def test_a_ranking_that_comes_in_two_parts_is_refused(folder: Path) -> None:
    base = (home(folder) / "base").read_bytes()
    rewrite(folder, "base", base + base[base.index(b"\x96\xa5piece") - 4 :])
    refuse(folder)


@pytest.mark.parametrize(
    "changed", [{"mark": "0" * 32}, {"files": {}}, {"checkpoint": "x"}, {"more": 1}]
)
def test_contents_that_no_save_would_write_are_refused(
    folder: Path, changed: dict[str, Any]
) -> None:
    contents = msgspec.msgpack.decode((home(folder) / "contents").read_bytes())
    rewrite(folder, "contents", msgspec.msgpack.encode({**contents, **changed}))
    refuse(folder)


@pytest.mark.parametrize("change", ["count", "width", "twice"])
def test_rankings_that_no_save_would_name_are_refused(folder: Path, change: str) -> None:
    contents = msgspec.msgpack.decode(
        (home(folder) / "contents").read_bytes(), type=snapshot_save.Contents
    )
    first = contents.rankings[0]
    if change == "count":
        first.count += 1
    elif change == "width":
        first.key_bytes = 17
    else:
        contents.rankings.append(snapshot_save.SavedRanking(99, first.ranking, 16, False, 0))
    rewrite(folder, "contents", msgspec.msgpack.encode(contents))
    refuse(folder)

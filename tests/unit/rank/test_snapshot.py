"""Snapshots: what was saved comes back, or the file is refused, and never a little of each."""

import errno
import os
import random
import resource
import signal
import struct
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any
from zlib import crc32

import pytest

from rankd.rank import snapshot

WIDTHS = [16, 24, 32, 40]


def table_of(rank: ModuleType, count: int, *, gaps: bool = False) -> Any:
    table = rank.PlayerTable()
    table.intern_many([f"{'ö' * (i % 30)}{i}" for i in range(count)])
    if gaps:
        for number in range(0, count, 3):
            table.remove(number)
        table.intern_many([f"again {i}" for i in range(count // 9)])
    return table


def numbers_of(table: Any) -> list[int]:
    return [number for numbers, _, _ in table.blocks() for number in numbers]


def list_of(rank: ModuleType, table: Any, *, width: int = 16, dense: bool = False) -> Any:
    dice = random.Random(width)
    ranks = rank.RankList(width, players=table, dense=dense)
    for number in numbers_of(table):
        ranks.put(number, bytes(width - 9) + bytes([dice.randrange(5)]) + dice.randbytes(8))
    return ranks


def ids_by_number(table: Any) -> dict[int, str]:
    return {number: table.id_of(number) for number in numbers_of(table)}


def same_files(a: Path, b: Path) -> bool:
    return a.read_bytes() == b.read_bytes()


# ---- Round trips -------------------------------------------------------------------------------


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("count", [0, 1, 2, 500, 20_000])
def test_a_table_comes_back(rank: ModuleType, tmp_path: Path, count: int, gaps: bool) -> None:
    table = table_of(rank, count, gaps=gaps)
    snapshot.save_players(table, tmp_path / "players", note=b"at 7")
    again = snapshot.load_players(tmp_path / "players", make=rank.PlayerTable)
    assert type(again) is rank.PlayerTable
    assert ids_by_number(again) == ids_by_number(table)
    again.check()
    header = snapshot.read_header(tmp_path / "players")
    assert header == snapshot.Header(kind=snapshot.FileKind.PLAYERS, count=len(table), note=b"at 7")


def test_numbers_nobody_has_are_given_out_after_a_load(rank: ModuleType, tmp_path: Path) -> None:
    table = table_of(rank, 10)
    for number in (2, 5):
        table.remove(number)
    snapshot.save_players(table, tmp_path / "players")
    again = snapshot.load_players(tmp_path / "players", make=rank.PlayerTable)
    assert {again.intern("x"), again.intern("y")} == {2, 5}
    assert again.intern("z") == 10


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("count", [0, 1, 300])
def test_a_list_comes_back(
    rank: ModuleType, tmp_path: Path, count: int, width: int, dense: bool
) -> None:
    table = table_of(rank, count, gaps=True)
    ranks = list_of(rank, table, width=width, dense=dense)
    snapshot.save_list(ranks, tmp_path / "list", note=bytes(range(256)))
    again = snapshot.load_list(tmp_path / "list", table, make=rank.RankList)
    assert type(again) is rank.RankList
    assert list(again) == list(ranks)
    assert (again.width, again.dense, again.players) == (width, dense, table)
    again.check()
    header = snapshot.read_header(tmp_path / "list")
    assert (header.kind, header.count) == (snapshot.FileKind.LIST, len(ranks))
    assert (header.width, header.dense, header.by_id) == (width, dense, True)
    assert (header.note, header.version) == (bytes(range(256)), snapshot.VERSION)


def test_a_list_without_a_table_comes_back(rank: ModuleType, tmp_path: Path) -> None:
    ranks = rank.RankList()
    for player in (0, 5, 2**32 - 2):
        ranks.put(player, bytes(16))
    snapshot.save_list(ranks, tmp_path / "list")
    again = snapshot.load_list(tmp_path / "list", None, make=rank.RankList)
    assert list(again) == list(ranks)
    assert not snapshot.read_header(tmp_path / "list").by_id


def test_large_ones_are_read_in_blocks(serving: ModuleType, tmp_path: Path) -> None:
    table = table_of(serving, 40_000)
    ranks = list_of(serving, table)
    told: list[tuple[int, int]] = []
    snapshot.save_list(ranks, tmp_path / "list", progress=lambda *done: told.append(done))
    size = snapshot.BLOCK_ENTRIES
    steps = [(size, 40_000), (2 * size, 40_000), (40_000, 40_000)]
    assert told == steps
    told.clear()
    again = snapshot.load_list(tmp_path / "list", table, progress=lambda *done: told.append(done))
    assert told == steps
    assert list(again.blocks()) == list(ranks.blocks())
    told.clear()
    snapshot.save_players(table, tmp_path / "players", progress=lambda *done: told.append(done))
    snapshot.load_players(tmp_path / "players", progress=lambda *done: told.append(done))
    assert told == steps * 2


def test_both_implementations_write_the_same_bytes(
    native: ModuleType, oracle: ModuleType, tmp_path: Path
) -> None:
    """Native to oracle to native: nothing is lost on the way, and nothing added."""
    table = table_of(native, 1000, gaps=True)
    ranks = list_of(native, table, width=24, dense=True)
    table_path, list_path = tmp_path / "t1", tmp_path / "l1"
    snapshot.save_players(table, table_path)
    snapshot.save_list(ranks, list_path, note=b"n")
    for step, module in enumerate((oracle, native), start=2):
        table = snapshot.load_players(table_path, make=module.PlayerTable)
        ranks = snapshot.load_list(list_path, table, make=module.RankList)
        snapshot.save_players(table, tmp_path / f"t{step}")
        snapshot.save_list(ranks, tmp_path / f"l{step}", note=b"n")
        assert same_files(tmp_path / f"t{step}", table_path)
        assert same_files(tmp_path / f"l{step}", list_path)
        ranks.check()


def test_the_layout_is_the_one_that_is_written_down(oracle: ModuleType, tmp_path: Path) -> None:
    """Bytes spelled out by hand: a file of today must be read by every later version."""

    def sealed(before: bytes, part: bytes) -> tuple[bytes, bytes]:
        return before + part, part + struct.pack("<I", crc32(before + part))

    table = oracle.PlayerTable()
    table.intern_many(["ann", "Zoë"])
    ranks = oracle.RankList(players=table, dense=True)
    ranks.put(0, b"k" * 16)
    ranks.put(1, b"j" * 16)
    snapshot.save_players(table, tmp_path / "players")
    snapshot.save_list(ranks, tmp_path / "list", note=b"note")
    for name, head, payload in [
        ("players", struct.pack("<HcBHQI", 1, b"P", 0, 0, 2, 0),
         struct.pack("<IIHH", 0, 1, 3, 4) + "annZoë".encode()),
        ("list", struct.pack("<HcBHQI", 1, b"L", 3, 16, 2, 4) + b"note",
         b"j" * 16 + b"k" * 16 + struct.pack("<II", 1, 0)),
    ]:  # fmt: skip
        all, written = sealed(b"", b"rankd\r\n\x1a" + head)
        all, block = sealed(all, struct.pack("<II", 2, len(payload)) + payload)
        _, end = sealed(all, struct.pack("<IIQ", 0, 8, 2))
        assert (tmp_path / name).read_bytes() == written + block + end


def test_the_note_is_small(serving: ModuleType, tmp_path: Path) -> None:
    most = bytes(snapshot.NOTE_BYTES_MAX)
    snapshot.save_list(serving.RankList(), tmp_path / "list", note=most)
    assert snapshot.read_header(tmp_path / "list").note == most
    with pytest.raises(ValueError, match="at most 65536 bytes"):
        snapshot.save_list(serving.RankList(), tmp_path / "list", note=most + b"x")
    assert snapshot.read_header(tmp_path / "list").note == most


def test_a_path_may_be_a_string(serving: ModuleType, tmp_path: Path) -> None:
    path = str(tmp_path / "list")
    snapshot.save_list(serving.RankList(), path)
    assert len(snapshot.load_list(path, None)) == 0
    assert snapshot.read_header(path).count == 0


# ---- Damage ------------------------------------------------------------------------------------

Load = Callable[[Path], object]


@pytest.fixture(params=["players", "list", "empty list"])
def small(
    request: pytest.FixtureRequest, serving: ModuleType, tmp_path: Path
) -> Iterator[tuple[Path, Load]]:
    """A small file of each kind, and how it is read."""
    table = table_of(serving, 5, gaps=True)
    path = tmp_path / "file"
    if request.param == "players":
        snapshot.save_players(table, path, note=b"note")
        yield path, snapshot.load_players
    else:
        ranks = (
            list_of(serving, table) if request.param == "list" else serving.RankList(players=table)
        )
        snapshot.save_list(ranks, path, note=b"note")
        yield path, lambda file: snapshot.load_list(file, table)


def refused(path: Path, load: Load, content: bytes) -> snapshot.SnapshotError:
    path.write_bytes(content)
    with pytest.raises(snapshot.SnapshotError) as caught:
        load(path)
    assert str(path) in str(caught.value)
    return caught.value


def test_every_byte_is_under_a_checksum(small: tuple[Path, Load]) -> None:
    path, load = small
    sound = path.read_bytes()
    for at in range(len(sound)):
        for flip in (0x01, 0x02, 0x10, 0x40, 0x80, 0xFF):
            refused(path, load, sound[:at] + bytes([sound[at] ^ flip]) + sound[at + 1 :])
    path.write_bytes(sound)
    load(path)


def test_every_cut_is_noticed(small: tuple[Path, Load]) -> None:
    path, load = small
    sound = path.read_bytes()
    for length in range(len(sound)):
        error = refused(path, load, sound[:length])
        assert isinstance(error, snapshot.CutShort)
        assert f"ends at byte {length}" in str(error)


@pytest.mark.parametrize("more", [b"\0", b"\n", b"rankd", bytes(20)])
def test_nothing_may_follow_the_end(small: tuple[Path, Load], more: bytes) -> None:
    path, load = small
    sound = path.read_bytes()
    error = refused(path, load, sound + more)
    assert f"damaged at byte {len(sound)}: there should be nothing more" in str(error)
    refused(path, load, sound + sound)


def test_every_byte_left_out_or_put_in_is_noticed(small: tuple[Path, Load]) -> None:
    path, load = small
    sound = path.read_bytes()
    for at in range(len(sound)):
        refused(path, load, sound[:at] + sound[at + 1 :])
        refused(path, load, sound[:at] + b"\0" + sound[at:])


def blocks_of(content: bytes) -> tuple[bytes, list[bytes], bytes]:
    """Cut a file without a note into its header, its blocks and its end."""
    at, pieces = 8 + 18 + 4, []
    while at < len(content):
        size = 8 + struct.unpack_from("<II", content, at)[1] + 4
        pieces.append(content[at : at + size])
        at += size
    return content[: 8 + 18 + 4], pieces[:-1], pieces[-1]


@pytest.mark.parametrize("kind", ["players", "list"])
def test_blocks_keep_their_order_number_and_file(
    serving: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(snapshot, "BLOCK_ENTRIES", 10)
    path, other = tmp_path / "file", tmp_path / "other"
    table = table_of(serving, 40)
    load: Load = snapshot.load_players
    if kind == "players":
        snapshot.save_players(table, path)
        snapshot.save_players(table_of(serving, 50), other)
    else:
        ranks = list_of(serving, table)
        snapshot.save_list(ranks, path)
        ranks.put(39, bytes(16))
        snapshot.save_list(ranks, other)
        load = lambda file: snapshot.load_list(file, table)  # noqa: E731
    header, (a, b, c, d), end = blocks_of(path.read_bytes())
    load(path)
    _, strangers, strange_end = blocks_of(other.read_bytes())
    for content in (
        [b, a, c, d, end],
        [a, b, d, c, end],
        [a, b, c, end],
        [b, c, d, end],
        [a, a, b, c, d, end],
        [a, b, c, d, d, end],
        [a, b, c, d, end, end],
        [a, b, c, d],
        [end],
        [end, a, b, c, d],
        [strangers[0], b, c, d, end],
        [a, b, c, strangers[3], end],
        [a, b, c, d, strange_end],
        [*strangers, strange_end],
    ):
        made_up = b"".join([header, *content])
        if made_up not in (path.read_bytes(), other.read_bytes()):
            refused(tmp_path / "made up", load, made_up)


@pytest.mark.parametrize("seed", range(20))
def test_random_damage_is_noticed(serving: ModuleType, tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    table = table_of(serving, 2000)
    path = tmp_path / "file"
    snapshot.save_list(list_of(serving, table), path)
    content = bytearray(path.read_bytes())
    at, size = dice.randrange(len(content)), dice.randrange(1, 3000)
    fresh = dice.randbytes(len(content[at : at + size]))
    content[at : at + size] = fresh
    refused(path, lambda file: snapshot.load_list(file, table), bytes(content))


# ---- Files of others ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        b"\0" * 100,
        b"SQLite format 3\0",
        b"\x89PNG\r\n\x1a\n",
        b"hello\n",
        b"rankd\n",
        b"rankd\r\n\n",
    ],
)
def test_a_foreign_file_is_told_apart(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    for load in (snapshot.read_header, snapshot.load_players):
        with pytest.raises(snapshot.ForeignFile, match="not a snapshot of rankd"):
            load(path)
    with pytest.raises(snapshot.ForeignFile):
        snapshot.load_list(path, None)


def test_a_newer_version_says_so(small: tuple[Path, Load]) -> None:
    path, load = small
    content = bytearray(path.read_bytes())
    content[8:10] = struct.pack("<H", 2)
    error = refused(path, load, bytes(content))
    assert isinstance(error, snapshot.NewerVersion)
    assert "version 2 of the layout; this rankd reads up to 1" in str(error)


def test_one_kind_is_not_loaded_as_the_other(serving: ModuleType, tmp_path: Path) -> None:
    table = table_of(serving, 5)
    snapshot.save_players(table, tmp_path / "players")
    snapshot.save_list(list_of(serving, table), tmp_path / "list")
    with pytest.raises(snapshot.OtherKind, match="holds a player table, not a rank list"):
        snapshot.load_list(tmp_path / "players", table)
    with pytest.raises(snapshot.OtherKind, match="holds a rank list, not a player table"):
        snapshot.load_players(tmp_path / "list")


def test_a_list_needs_the_players_it_names(rank: ModuleType, tmp_path: Path) -> None:
    table = table_of(rank, 50)
    path = tmp_path / "list"
    snapshot.save_list(list_of(rank, table), path)
    with pytest.raises(snapshot.Mismatched, match="a player is not in the player table"):
        snapshot.load_list(path, table_of(rank, 49), make=rank.RankList)
    with pytest.raises(snapshot.Mismatched, match="needs the player table"):
        snapshot.load_list(path, None, make=rank.RankList)
    snapshot.save_list(rank.RankList(), path)
    with pytest.raises(snapshot.Mismatched, match="without a player table"):
        snapshot.load_list(path, table, make=rank.RankList)


def test_ties_of_another_table_are_noticed(rank: ModuleType, tmp_path: Path) -> None:
    table, other = rank.PlayerTable(), rank.PlayerTable()
    ranks = rank.RankList(players=table)
    ranks.put_many(table.intern_many(["a", "b"]), bytes(32))
    other.intern_many(["b", "a"])
    snapshot.save_list(ranks, tmp_path / "list")
    with pytest.raises(snapshot.Mismatched, match="must increase"):
        snapshot.load_list(tmp_path / "list", other, make=rank.RankList)


def crafted(kind: bytes, flags: int, width: int, count: int, blocks: list[bytes]) -> bytes:
    """A file whose checksums are right, whatever it says."""
    all = b"rankd\r\n\x1a" + struct.pack("<HcBHQI", 1, kind, flags, width, count, 0)
    content = all + struct.pack("<I", crc32(all))
    for block in blocks:
        all += block
        content += block + struct.pack("<I", crc32(all))
    return content


END = struct.pack("<IIQ", 0, 8, 0)


@pytest.mark.parametrize(
    "content",
    [
        crafted(b"X", 0, 16, 0, [END]),
        crafted(b"L", 0, 17, 0, [END]),
        crafted(b"L", 0, 8, 0, [END]),
        crafted(b"L", 0, 16, 1, [END]),
        crafted(b"L", 0, 16, 0, [struct.pack("<IIQ", 0, 8, 1)]),
        crafted(b"L", 0, 16, 0, [struct.pack("<II", 1, 20) + bytes(20), END]),
        crafted(b"L", 0, 16, 1, [struct.pack("<II", 1, 19) + bytes(19), END]),
        crafted(b"L", 0, 16, 1, [struct.pack("<II", 1, 2**32 - 1), END]),
        crafted(b"L", 0, 16, 2**20, [struct.pack("<II", 2**20, 20 * 2**20), END]),
        crafted(b"L", 0, 16, 2, [struct.pack("<II", 2, 40) + bytes(40)]),
    ],
    ids=[
        "kind", "width", "narrow", "promise", "total", "too many", "size", "huge", "huge block",
        "twice",
    ],
)  # fmt: skip
def test_a_file_with_right_checksums_must_still_make_sense(tmp_path: Path, content: bytes) -> None:
    refused(tmp_path / "file", lambda path: snapshot.load_list(path, None), content)


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    for load in (snapshot.read_header, snapshot.load_players):
        with pytest.raises(FileNotFoundError):
            load(tmp_path / "none")


# ---- Saving whole or not at all ----------------------------------------------------------------


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_its_owners_alone(serving: ModuleType, tmp_path: Path) -> None:
    snapshot.save_list(serving.RankList(), tmp_path / "list")
    assert (tmp_path / "list").stat().st_mode & 0o777 == 0o600


def test_a_new_file_takes_the_place_of_the_old(serving: ModuleType, tmp_path: Path) -> None:
    ranks = serving.RankList()
    for player in range(3):
        ranks.put(player, bytes(16))
        snapshot.save_list(ranks, tmp_path / "list", note=b"%d" % player)
        assert snapshot.read_header(tmp_path / "list").note == b"%d" % player
    assert files_in(tmp_path) == ["list"]


def test_the_file_is_on_the_disk_before_it_has_its_name(
    serving: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def noted_fsync(descriptor: int) -> None:
        target = Path(f"/proc/self/fd/{descriptor}").readlink()
        done.append("folder" if target == tmp_path else "file")
        fsync(descriptor)

    def noted_replace(self: Path, target: Path) -> Path:
        done.append("rename")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(Path, "replace", noted_replace)
    snapshot.save_list(serving.RankList(), tmp_path / "list")
    assert done == ["file", "rename", "folder"]


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """Let no file grow beyond a size: what a full disk does to a program, without filling one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("size", [0, 1, 100, 20_000, 329_000])
def test_a_full_disk_leaves_the_old_file(serving: ModuleType, tmp_path: Path, size: int) -> None:
    table = table_of(serving, 20_000)
    ranks = list_of(serving, table)
    small = serving.RankList(players=table)
    path = tmp_path / "list"
    snapshot.save_list(small, path, note=b"old")
    with file_size_limit(size), pytest.raises(OSError, match="File too large") as caught:
        snapshot.save_list(ranks, path)
    assert caught.value.errno == errno.EFBIG
    with file_size_limit(size), pytest.raises(OSError, match="File too large"):
        snapshot.save_players(table, path)
    assert files_in(tmp_path) == ["list"]
    assert snapshot.read_header(path).note == b"old"
    assert len(snapshot.load_list(path, table)) == 0
    snapshot.save_list(ranks, path)
    assert len(snapshot.load_list(path, table)) == 20_000


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failure_at_the_end_leaves_the_old_file(
    serving: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def failing(*_: object) -> None:
        raise OSError(errno.EIO, "the disk")

    path = tmp_path / "list"
    snapshot.save_list(serving.RankList(), path, note=b"old")
    monkeypatch.setattr(os if step == "fsync" else Path, step, failing)
    with pytest.raises(OSError, match="the disk"):
        snapshot.save_list(serving.RankList(), path, note=b"new")
    assert files_in(tmp_path) == ["list"]
    assert snapshot.read_header(path).note == b"old"


def test_a_list_that_changes_meanwhile_is_not_saved(rank: ModuleType, tmp_path: Path) -> None:
    ranks = rank.RankList()
    count = snapshot.BLOCK_ENTRIES + 1
    ranks.load([(b"".join(i.to_bytes(16, "big") for i in range(count)), array("I", range(count)))])
    with pytest.raises(RuntimeError, match="changed"):
        snapshot.save_list(ranks, tmp_path / "list", progress=lambda *_: ranks.remove(0))
    assert files_in(tmp_path) == []


def test_a_table_that_changes_meanwhile_is_not_saved(rank: ModuleType, tmp_path: Path) -> None:
    table = rank.PlayerTable()
    table.intern_many([f"{i}" for i in range(snapshot.BLOCK_ENTRIES + 10)])
    last = table.find(f"{snapshot.BLOCK_ENTRIES + 9}")

    def change(done: int, total: int) -> None:
        if last in table:
            table.remove(last)

    with pytest.raises((RuntimeError, KeyError)):
        snapshot.save_players(table, tmp_path / "players", progress=change)
    assert files_in(tmp_path) == []


def test_a_caller_who_gives_up_leaves_no_litter(serving: ModuleType, tmp_path: Path) -> None:
    def give_up(done: int, total: int) -> None:
        raise KeyboardInterrupt

    table = table_of(serving, 10)
    with pytest.raises(KeyboardInterrupt):
        snapshot.save_players(table, tmp_path / "players", progress=give_up)
    assert files_in(tmp_path) == []
    snapshot.save_players(table, tmp_path / "players")
    with pytest.raises(KeyboardInterrupt):
        snapshot.load_players(tmp_path / "players", progress=give_up)


def test_a_folder_that_is_not_there_is_an_os_error(serving: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        snapshot.save_list(serving.RankList(), tmp_path / "none" / "list")


def test_what_a_killed_process_left_can_be_removed(
    serving: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot.save_list(serving.RankList(), tmp_path / "list")
    with monkeypatch.context() as killed:
        killed.setattr(Path, "unlink", lambda *_, **__: None)
        killed.setattr(os, "fsync", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            snapshot.save_list(serving.RankList(), tmp_path / "list")
    assert len(files_in(tmp_path)) == 2
    snapshot.remove_leftovers(tmp_path)
    assert files_in(tmp_path) == ["list"]


def test_a_failed_load_holds_no_memory(native: ModuleType, tmp_path: Path) -> None:
    before = native.bytes_in_use()
    path = tmp_path / "players"
    snapshot.save_players(table_of(native, 40_000), path)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(snapshot.CutShort):
        snapshot.load_players(path)
    assert native.bytes_in_use() == before

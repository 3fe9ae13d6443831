"""An index as a folder of files: saved whole or not at all, loaded whole or refused.

    folder/
        current             names the one that counts, and the SHA-256 of its contents
        5f0c…/              one save, under a name that was never used before
            contents        checkpoint, rankings, how often players are held, metadata
            players         the table of players                          (rank/snapshot.py)
            0  1  2 …       a list for each ranking, in the contents' order    ( " )

A save writes a new folder beside the old one and everything in it to the disk. Then a single
rename of ``current`` decides, and only after it does the old one go. So whenever the power fails,
``current`` names a folder that is complete.

Every file bears the mark of its save, which is the folder's name: the lists and the table speak of
players by numbers, and those of another save would be other players.

``contents`` is a row of frames, each 4 bytes of length (little-endian) and so much MessagePack; an
empty one is the end.
"""

import hashlib
import os
import re
import secrets
import shutil
import struct
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO

import msgspec

from rankd.adapters.memory.state import Entries, State, little_endian
from rankd.errors import SnapshotDamaged
from rankd.model.facts import Position
from rankd.ports import Progress, Ranking
from rankd.rank import PlayerTable, RankList
from rankd.rank import snapshot as files

VERSION = 1

HELD_PER_FRAME = 1 << 16
METADATA_PER_FRAME = 1 << 10
FRAME_BYTES_MAX = 1 << 28
"""A damaged length must not ask for all memory; a thousand entries' metadata is far less."""

_LENGTH = struct.Struct("<I")
_MARK = re.compile(r"[0-9a-f]{32}")
_CURRENT, _CONTENTS, _PLAYERS = "current", "contents", "players"

Tell = Callable[[Progress], None]


class Current(msgspec.Struct, forbid_unknown_fields=True):
    """Which save counts."""

    version: int
    mark: str
    sha256: str


class Opening(msgspec.Struct, tag="opening", array_like=True):
    """The first frame."""

    mark: str
    checkpoint: int
    rankings: int
    entries: int
    """Of all rankings together."""


class Listed(msgspec.Struct, tag="ranking", array_like=True):
    """A ranking; which file has its entries is told by how many came before."""

    ranking: Ranking


class Held(msgspec.Struct, tag="held", array_like=True):
    """How many lists hold each player, by number, 4 bytes each; goes on where the last ended."""

    numbers: bytes


class Beside(msgspec.Struct, tag="metadata", array_like=True):
    """Metadata of some entries of one ranking."""

    place: int
    numbers: list[int]
    values: list[bytes]


Frame = Opening | Listed | Held | Beside
_decoder = msgspec.msgpack.Decoder(Frame)


class _Told:
    """How far all the files together have come."""

    def __init__(self, tell: Tell | None, total: int) -> None:
        self._tell, self._total, self._before = tell, total, 0

    def file(self, count: int) -> Callable[[int, int], None] | None:
        """Return who is told of one file's progress; the next one's begins after it."""
        tell, before = self._tell, self._before
        self._before += count
        if tell is None:
            return None
        return lambda done, _: tell(Progress(before + done, self._total))


# ------------------------------------------------------------------------------- saving


def save(state: State, folder: Path, *, progress: Tell | None = None) -> None:
    """Save a state that does not change meanwhile. What was saved before stays until then. O(n)."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    mark = secrets.token_hex(16)
    home = folder / mark
    home.mkdir(mode=0o700)
    try:
        _save_lists(state, home, progress)
        digest = _save_contents(state, home)
        _sync(home)
        _sync(folder)
        current = Current(VERSION, mark, digest.hex())
        _replace(folder / _CURRENT, msgspec.json.encode(current))
    except BaseException:
        shutil.rmtree(home, ignore_errors=True)
        raise
    for other in folder.iterdir():
        if other != home and _MARK.fullmatch(other.name):
            shutil.rmtree(other, ignore_errors=True)


def _save_lists(state: State, home: Path, progress: Tell | None) -> None:
    lists = [entries.ranks for entries in state.rankings.values()]
    told = _Told(progress, len(state.players) + sum(map(len, lists)))
    files.save_players(
        state.players,
        home / _PLAYERS,
        note=_note(home, _PLAYERS),
        progress=told.file(len(state.players)),
    )
    for number, ranks in enumerate(lists):
        files.save_list(
            ranks,
            home / str(number),
            note=_note(home, str(number)),
            progress=told.file(len(ranks)),
        )


def _note(home: Path, name: str) -> bytes:
    return f"{home.name}/{name}".encode()


def _save_contents(state: State, home: Path) -> bytes:
    """Write what the lists do not say, and return its SHA-256."""
    digest = hashlib.sha256()
    with (home / _CONTENTS).open("xb") as file:
        for frame in _frames(state, home.name):
            body = msgspec.msgpack.encode(frame)
            assert len(body) <= FRAME_BYTES_MAX, len(body)
            _write(file, digest, body)
        _write(file, digest, b"")
        file.flush()
        os.fsync(file.fileno())
    return digest.digest()


def _write(file: IO[bytes], digest: "hashlib._Hash", body: bytes) -> None:
    for part in (_LENGTH.pack(len(body)), body):
        digest.update(part)
        file.write(part)


def _frames(state: State, mark: str) -> Iterator[Frame]:
    lists = [entries.ranks for entries in state.rankings.values()]
    yield Opening(mark, state.checkpoint, len(lists), sum(map(len, lists)))
    yield from map(Listed, state.rankings)
    for start in range(0, len(state.held), HELD_PER_FRAME):
        yield Held(little_endian(state.held[start : start + HELD_PER_FRAME]).tobytes())
    for number, entries in enumerate(state.rankings.values()):
        items = iter(entries.metadata.items())
        while some := list(islice(items, METADATA_PER_FRAME)):
            yield Beside(number, [player for player, _ in some], [value for _, value in some])


def _replace(path: Path, body: bytes) -> None:
    """Let a file have this content, or the one it has: never half of it."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    with unfinished.open("wb") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    _sync(path.parent)


def _sync(folder: Path) -> None:
    """Let the names in a folder survive a power cut: they are written there, not in the files."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# ------------------------------------------------------------------------------ loading


def load(
    folder: Path,
    *,
    make_players: Callable[[], PlayerTable] = PlayerTable,
    make_list: Callable[..., RankList] = RankList,
    progress: Tell | None = None,
) -> State | None:
    """Return what was saved in a folder, None if nothing was. Raises SnapshotDamaged. O(n)."""
    try:
        body = (folder / _CURRENT).read_bytes()
    except FileNotFoundError:
        return None
    with _damage():
        current = msgspec.json.decode(body, type=Current)
        if current.version != VERSION:
            raise SnapshotDamaged(f"{folder} has version {current.version}, not {VERSION}")
        if not _MARK.fullmatch(current.mark):
            raise SnapshotDamaged(f"{folder} names a save that cannot be one")
        home = folder / current.mark
        contents = _load_contents(home, current.sha256)
        return _load_lists(home, contents, make_players, make_list, progress)


_DAMAGE = (files.SnapshotError, msgspec.DecodeError, UnicodeDecodeError, FileNotFoundError)


@contextmanager
def _damage() -> Iterator[None]:
    """Turn whatever is wrong with the files into ours; a failing disk is the caller's to see."""
    try:
        yield
    except _DAMAGE as exc:
        raise SnapshotDamaged(str(exc)) from exc


class _Contents:
    """What the frames said, put together."""

    def __init__(self) -> None:
        self.opening: Opening | None = None
        self.rankings: list[Ranking] = []
        self.held: array[int] = array("I")
        self.metadata: dict[int, dict[int, bytes]] = {}

    def add(self, frame: Frame) -> None:
        match frame:
            case Opening():
                self.opening = frame
            case Listed(ranking):
                self.rankings.append(ranking)
            case Held(numbers):
                some = array("I")
                some.frombytes(numbers)
                self.held.extend(little_endian(some))
            case Beside(number, players, values):
                beside = self.metadata.setdefault(number, {})
                beside.update(zip(players, values, strict=True))


def _load_contents(home: Path, sha256: str) -> _Contents:
    """Return what the lists do not say. Believed only once all of it was read, and its hash."""
    path, contents, digest = home / _CONTENTS, _Contents(), hashlib.sha256()
    with path.open("rb") as file:
        while body := _read(file, digest, path):
            try:
                contents.add(_decoder.decode(body))
            except ValueError as exc:
                raise SnapshotDamaged(f"{path} is damaged: {exc}") from exc
        if file.read(1) or digest.hexdigest() != sha256:
            raise SnapshotDamaged(f"{path} is not what was saved")
    return contents


def _read(file: IO[bytes], digest: "hashlib._Hash", path: Path) -> bytes:
    """Return the next frame; empty at the end."""
    head = file.read(_LENGTH.size)
    (length,) = _LENGTH.unpack(head) if len(head) == _LENGTH.size else (FRAME_BYTES_MAX + 1,)
    body = file.read(length) if length <= FRAME_BYTES_MAX else b""
    if len(body) != length:
        raise SnapshotDamaged(f"{path} is damaged or cut short at byte {file.tell()}")
    digest.update(head)
    digest.update(body)
    return body


def _load_lists(
    home: Path,
    contents: _Contents,
    make_players: Callable[[], PlayerTable],
    make_list: Callable[..., RankList],
    progress: Tell | None,
) -> State:
    opening = contents.opening
    if opening is None or opening.mark != home.name or opening.rankings != len(contents.rankings):
        raise SnapshotDamaged(f"{home} does not hold what its contents name")
    count = _expect(home, _PLAYERS)
    told = _Told(progress, count + opening.entries)
    players = files.load_players(home / _PLAYERS, make=make_players, progress=told.file(count))
    state = State(players, Position(opening.checkpoint), held=contents.held)
    for number, ranking in enumerate(contents.rankings):
        count = _expect(home, str(number))
        ranks = files.load_list(
            home / str(number), players, make=make_list, progress=told.file(count)
        )
        state.rankings[ranking] = Entries(ranks, contents.metadata.get(number))
    if sum(contents.held) != opening.entries:
        raise SnapshotDamaged(f"{home} holds players more or less often than it should")
    return state


def _expect(home: Path, name: str) -> int:
    """Return how many entries a file has, having made sure that it is this save's own."""
    header = files.read_header(home / name)
    if header.note != _note(home, name):
        raise SnapshotDamaged(f"{home / name} belongs to another save")
    return header.count

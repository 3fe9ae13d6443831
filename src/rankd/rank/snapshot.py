"""Player tables and rank lists as files: written whole or not at all, read whole or refused.

A snapshot spares a restart the fold of the whole ledger, so a wrong one would be worse than none:
every byte of it is under a checksum, and so are the order and the number of its blocks.

All numbers are little-endian. A CRC-32 covers everything before it from the file's first byte on,
other CRCs aside: so a block that was changed, moved, left out or taken from another file is found
where it stands.

    bytes
        8   magic: "rankd", CR LF, and the byte that ends a text file on old systems
        2   version of this layout
        1   kind: "P" player table, "L" rank list
        1   flags: 1 counts distinct scores, 2 equal keys are ordered by player ids
        2   bytes in a key; 0 in a player table
        8   entries in the file
        4   bytes in the note
        n   note: the caller's own, such as the checkpoint of the saved index
        4   CRC
    then blocks
        4   entries in the block
        4   bytes of its payload
        n   payload
              "P"  numbers, 4 bytes each; lengths of ids, 2 bytes each; ids end to end
              "L"  keys end to end, in order; players' numbers, 4 bytes each
        4   CRC
    then the end, a block without entries
        4   0
        4   8
        8   entries in the file, again
        4   CRC

The numbers in a list mean the players of the table that was saved with it. The caller keeps the
two together, for instance by the same mark in both notes.

Errors of reading; those of the file system pass through as they are:

SnapshotError           the file cannot be used
├── ForeignFile         not written by rankd at all
├── NewerVersion        written by a later rankd than this one
├── OtherKind           a player table where a list was wanted, or the reverse
├── Damaged             changed since it was written, at or soon after a byte that is named
│   └── CutShort        ends before its end
└── Mismatched          sound, but not of one piece with the players it is loaded for
"""

import enum
import os
import secrets
import struct
import sys
from array import array
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING
from zlib import crc32

from rankd.rank import ID_BYTES_MAX, PlayerTable, RankList

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rankd.rank._ranklist import Buffer

    # Told after each block: entries done, entries in all.
    Progress = Callable[[int, int], None]
    TableBlock = tuple[Buffer, Buffer, Buffer]
    ListBlock = tuple[Buffer, Buffer]

VERSION = 1
NOTE_BYTES_MAX = 1 << 16

# A block is what is held in memory at once: half a megabyte of entries, a few with longest ids.
BLOCK_ENTRIES = 1 << 14
# Files of later writers may have larger ones; a damaged number must not ask for all memory.
BLOCK_ENTRIES_MAX = 1 << 16
assert BLOCK_ENTRIES <= BLOCK_ENTRIES_MAX

_MAGIC = b"rankd\r\n\x1a"
_VERSION = struct.Struct("<H")
_REST = struct.Struct("<cBHQI")
_BLOCK = struct.Struct("<II")
_TOTAL = struct.Struct("<Q")
_CRC = struct.Struct("<I")
_DENSE, _BY_ID = 1, 2
_WIDTHS = (16, 24, 32, 40)
_LEFTOVER = ".rankd-unfinished"


class SnapshotError(ValueError):
    """The file cannot be used."""


class ForeignFile(SnapshotError):
    """The file was not written by rankd."""


class NewerVersion(SnapshotError):
    """The file was written by a later rankd."""


class OtherKind(SnapshotError):
    """The file holds the other kind of thing."""


class Damaged(SnapshotError):
    """The file changed since it was written."""


class CutShort(Damaged):
    """The file ends before its end."""


class Mismatched(SnapshotError):
    """The file is sound, but does not fit the table or list it is loaded into."""


class FileKind(enum.Enum):
    """The kind of contents of a file."""

    PLAYERS = b"P"
    LIST = b"L"


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The header of a file."""

    kind: FileKind
    count: int
    note: bytes = b""
    width: int = 0
    dense: bool = False
    by_id: bool = False
    version: int = VERSION


# ---- Saving ------------------------------------------------------------------------------------


def save_players(
    table: PlayerTable,
    path: Path | str,
    *,
    note: bytes = b"",
    progress: "Progress | None" = None,
) -> None:
    """Write a player table. The old file, if any, stays until the new one is on the disk. O(n)."""
    header = Header(kind=FileKind.PLAYERS, count=len(table), note=note)
    pieces = (
        (len(numbers), _little_endian(numbers).tobytes() + _little_endian(lengths).tobytes() + text)
        for numbers, lengths, text in table.blocks(BLOCK_ENTRIES)
    )
    _save(Path(path), header, pieces, progress)


def save_list(
    ranks: RankList,
    path: Path | str,
    *,
    note: bytes = b"",
    progress: "Progress | None" = None,
) -> None:
    """Write a list. The old file, if any, stays until the new one is on the disk. O(n).

    RuntimeError if the list changes meanwhile.
    """
    header = Header(
        kind=FileKind.LIST,
        count=len(ranks),
        note=note,
        width=ranks.width,
        dense=ranks.dense,
        by_id=ranks.players is not None,
    )
    pieces = (
        (len(players), keys + _little_endian(players).tobytes())
        for keys, players in ranks.blocks(BLOCK_ENTRIES)
    )
    _save(Path(path), header, pieces, progress)


def remove_leftovers(folder: Path | str) -> None:
    """Delete the files left by a process that died while saving. Not during a save."""
    for leftover in Path(folder).glob(f".*{_LEFTOVER}"):
        leftover.unlink(missing_ok=True)


class _FileWriter:
    """A file being written, and the CRC of its bytes so far."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._crc = 0

    def write(self, *parts: bytes) -> None:
        for part in parts:
            self._crc = crc32(part, self._crc)
            self._file.write(part)
        self._file.write(_CRC.pack(self._crc))


def _save(
    path: Path,
    header: Header,
    pieces: "Iterable[tuple[int, bytes]]",
    progress: "Progress | None",
) -> None:
    if len(header.note) > NOTE_BYTES_MAX:
        raise ValueError(f"a note has at most {NOTE_BYTES_MAX} bytes, not {len(header.note)}")
    with _replacing(path) as file:
        writer = _FileWriter(file)
        writer.write(_MAGIC, _VERSION.pack(VERSION), *_header_parts(header))
        done = 0
        for entries, payload in pieces:
            if entries == 0:  # A run of numbers that nobody has; a block of none is the end.
                continue
            writer.write(_BLOCK.pack(entries, len(payload)), payload)
            done += entries
            if progress is not None:
                progress(done, header.count)
        if done != header.count:
            raise RuntimeError("the player table changed while it was being saved")
        writer.write(_BLOCK.pack(0, _TOTAL.size), _TOTAL.pack(done))


def _header_parts(header: Header) -> tuple[bytes, bytes]:
    flags = _DENSE * header.dense + _BY_ID * header.by_id
    return (
        _REST.pack(header.kind.value, flags, header.width, header.count, len(header.note)),
        header.note,
    )


@contextmanager
def _replacing(path: Path) -> "Iterator[IO[bytes]]":
    """Give a file to write that takes the path's place once it is on the disk, or vanishes."""
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(8)}{_LEFTOVER}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(unfinished, flags, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Let the new name survive a power cut too: it is written in the folder, not in the file."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# ---- Loading -----------------------------------------------------------------------------------


def read_header(path: Path | str) -> Header:
    """Return the header of a file, note included, without reading its entries."""
    with Path(path).open("rb") as file:
        return _read_header(_FileReader(file, path))


def load_players(
    path: Path | str,
    *,
    make: "Callable[..., PlayerTable]" = PlayerTable,
    progress: "Progress | None" = None,
) -> PlayerTable:
    """Return the player table a file holds. SnapshotError if it cannot be used. O(n)."""
    with Path(path).open("rb") as file:
        reader = _FileReader(file, path)
        header = _read_header(reader)
        reader.expect(header, FileKind.PLAYERS)
        table = make()
        with reader.mismatches():
            table.load(map(_table_block, _read_blocks(reader, header, progress)))
    return table


def load_list(
    path: Path | str,
    players: PlayerTable | None,
    *,
    make: "Callable[..., RankList]" = RankList,
    progress: "Progress | None" = None,
) -> RankList:
    """Return the list a file holds, of players in this table. SnapshotError if unusable. O(n)."""
    with Path(path).open("rb") as file:
        reader = _FileReader(file, path)
        header = _read_header(reader)
        reader.expect(header, FileKind.LIST)
        if header.by_id and players is None:
            raise Mismatched(f"{path} needs the player table it was saved with")
        if not header.by_id and players is not None:
            raise Mismatched(f"{path} was saved without a player table")
        ranks = make(header.width, players=players, dense=header.dense)
        with reader.mismatches():
            ranks.load(
                _list_block(entries, payload, header.width)
                for entries, payload in _read_blocks(reader, header, progress)
            )
    return ranks


class _FileReader:
    """A file being read, the offset in it, and the CRC of the bytes read."""

    def __init__(self, file: IO[bytes], path: Path | str) -> None:
        self._file = file
        self._path = path
        self._crc = 0
        self.at = 0

    def read(self, size: int) -> bytes:
        piece = self._raw(size)
        self._crc = crc32(piece, self._crc)
        return piece

    def check(self, since: int) -> None:
        """Compare the next CRC with the bytes read; report the part since a byte as damaged."""
        if _CRC.unpack(self._raw(_CRC.size)) != (self._crc,):
            raise self.damaged(since, "its checksum is wrong")

    def check_end(self) -> None:
        if self._file.read(1):
            raise self.damaged(self.at, "there should be nothing more")

    def read_magic(self) -> None:
        start = self._file.read(len(_MAGIC))
        if start != _MAGIC:
            if start == _MAGIC[: len(start)]:
                raise CutShort(f"{self._path} is cut short: it ends at byte {len(start)}")
            raise ForeignFile(f"{self._path} is not a snapshot of rankd")
        self._crc, self.at = crc32(start), len(start)

    def read_version(self) -> int:
        (version,) = _VERSION.unpack(self.read(_VERSION.size))
        if version > VERSION:
            raise NewerVersion(
                f"{self._path} has version {version} of the layout; this rankd reads up to "
                f"{VERSION}. Use a newer rankd, or rebuild from the ledger."
            )
        return int(version)

    def expect(self, header: Header, kind: FileKind) -> None:
        if header.kind is not kind:
            names = {FileKind.PLAYERS: "a player table", FileKind.LIST: "a rank list"}
            raise OtherKind(f"{self._path} holds {names[header.kind]}, not {names[kind]}")

    def damaged(self, at: int, why: str) -> Damaged:
        return Damaged(f"{self._path} is damaged at byte {at}: {why}")

    @contextmanager
    def mismatches(self) -> "Iterator[None]":
        """Raise Mismatched for sound values that the table or list refuses."""
        try:
            yield
        except SnapshotError:
            raise
        except ValueError as exc:
            raise Mismatched(f"{self._path} does not fit: {exc}") from exc

    def _raw(self, size: int) -> bytes:
        piece = self._file.read(size)
        self.at += len(piece)
        if len(piece) < size:
            raise CutShort(f"{self._path} is cut short: it ends at byte {self.at}")
        return piece


def _read_header(reader: _FileReader) -> Header:
    reader.read_magic()
    version = reader.read_version()
    kind, flags, width, count, note_bytes = _REST.unpack(reader.read(_REST.size))
    if note_bytes > NOTE_BYTES_MAX:
        raise reader.damaged(0, f"a note of {note_bytes} bytes")
    note = reader.read(note_bytes)
    reader.check(0)
    if kind not in (FileKind.PLAYERS.value, FileKind.LIST.value):
        raise reader.damaged(0, f"{kind!r} is no kind of snapshot")
    if width not in (_WIDTHS if kind == FileKind.LIST.value else (0,)):
        raise reader.damaged(0, f"keys of {width} bytes")
    return Header(
        kind=FileKind(kind),
        count=count,
        note=note,
        width=width,
        dense=bool(flags & _DENSE),
        by_id=bool(flags & _BY_ID),
        version=version,
    )


def _read_blocks(
    reader: _FileReader, header: Header, progress: "Progress | None"
) -> "Iterator[tuple[int, bytes]]":
    """Yield entry counts and payloads; end only where the file ends, with nothing missing."""
    done = 0
    while True:
        start = reader.at
        entries, size = _BLOCK.unpack(reader.read(_BLOCK.size))
        if entries > BLOCK_ENTRIES_MAX or not _fits(header, entries, size):
            raise reader.damaged(start, f"{entries} entries in {size} bytes")
        payload = reader.read(size)
        reader.check(start)
        if entries == 0:
            break
        yield entries, payload
        done += entries
        if progress is not None:
            progress(done, header.count)
    reader.check_end()
    if not done == header.count == _TOTAL.unpack(payload)[0]:
        raise reader.damaged(start, f"{done} entries where {header.count} were promised")


def _fits(header: Header, entries: int, size: int) -> bool:
    if entries == 0:
        return size == _TOTAL.size
    if header.kind is FileKind.LIST:
        return size == entries * (header.width + 4)
    return entries * (6 + 1) <= size <= entries * (6 + ID_BYTES_MAX)


def _table_block(block: tuple[int, bytes]) -> "TableBlock":
    entries, payload = block
    view = memoryview(payload)
    numbers = _numbers("I", view[: entries * 4])
    lengths = _numbers("H", view[entries * 4 : entries * 6])
    return numbers, lengths, view[entries * 6 :]


def _list_block(entries: int, payload: bytes, width: int) -> "ListBlock":
    view = memoryview(payload)
    return view[: entries * width], _numbers("I", view[entries * width :])


# ---- Numbers -----------------------------------------------------------------------------------


def _little_endian(numbers: "array[int]") -> "array[int]":
    """In the file's byte order: mostly this machine's own."""
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers


def _numbers(typecode: str, raw: memoryview) -> "array[int]":
    numbers = array(typecode)
    numbers.frombytes(raw)
    return _little_endian(numbers)

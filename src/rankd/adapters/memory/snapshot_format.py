"""The files of a saved index: their names, formats and checksums.

    folder/
        current             names the save that counts, and the SHA-256 of its contents
        5f0c…/              one save, under a name that was never used before
            contents        checkpoint, rankings, size and SHA-256 of each other file
            base            players and entries, read while the index went on
            touched         the last state of every player touched meanwhile
            notes           the core's own state, beside the index

``base``, ``touched`` and ``notes`` are rows of frames, each 4 bytes of length (little-endian) and
so many bytes. Those of the first two are MessagePack. Players come first in ``base``, then one
ranking after another, each in its order. In ``touched`` a later frame outdoes an earlier one, and
all outdo ``base``. Rankings go by the place they were given in this save, players by the numbers
they had in it. Rankings that the contents do not name are ignored.
"""

import hashlib
import os
import re
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO

import msgspec

from rankd.errors import SnapshotDamaged
from rankd.ports import Ranking

VERSION = 2

FRAME_BYTES_MAX = 1 << 28
"""A damaged length must not ask for all memory; a step's entries and their metadata are less."""

READ_BYTES = 1 << 20
"""So much is hashed at once."""

CURRENT, CONTENTS, BASE, TOUCHED, NOTES = "current", "contents", "base", "touched", "notes"
MARK = re.compile(r"[0-9a-f]{32}")

HEAD_BYTES = 4
"""The length of a frame, little-endian."""


class CurrentSave(msgspec.Struct, forbid_unknown_fields=True):
    """Which save counts."""

    version: int
    mark: str
    sha256: str


class SavedRanking(msgspec.Struct, array_like=True):
    """A ranking that was saved."""

    place: int
    ranking: Ranking
    key_bytes: int
    dense: bool
    count: int


class FileDigest(msgspec.Struct, array_like=True):
    """The size and digest that a sound file has."""

    size: int
    sha256: bytes


class Contents(msgspec.Struct, forbid_unknown_fields=True):
    """The checkpoint, rankings and files of one save."""

    mark: str
    checkpoint: int
    rankings: list[SavedRanking]
    files: dict[str, FileDigest]


class PlayerFrame(msgspec.Struct, tag="named", array_like=True):
    """Players: numbers, 4 bytes each; lengths of ids, 2 bytes each; ids end to end."""

    numbers: bytes
    lengths: bytes
    text: bytes


class EntryFrame(msgspec.Struct, tag="piece", array_like=True):
    """Entries of one ranking, and the metadata of some of them."""

    place: int
    numbers: bytes
    keys: bytes
    shown: list[int]
    values: list[bytes]


class RemovedFrame(msgspec.Struct, tag="gone", array_like=True):
    """Players without an entry in a ranking."""

    place: int
    numbers: bytes


Frame = PlayerFrame | EntryFrame | RemovedFrame

encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(Frame).decode


def packed(numbers: "array[int]") -> bytes:
    """Return numbers as files have them."""
    return little_endian(numbers).tobytes()


def unpacked(typecode: str, raw: bytes) -> "array[int]":
    """Return the numbers that were packed."""
    numbers = array(typecode)
    numbers.frombytes(raw)
    return little_endian(numbers)


def little_endian(numbers: "array[int]") -> "array[int]":
    """Return the numbers as files and digests have them: mostly as they are."""
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers


# ------------------------------------------------------------------------------ writing


PRIVATE_FILE = 0o600
"""The mode of every file: its owner's alone."""

SYNCED_TOGETHER_BYTES = 4 << 20
"""Files are synced after each of so many bytes: one sync at the end would keep the disk busy for as
long as a second, and every commit of the ledger waits behind it."""


class FrameFile:
    """A file of frames that is being written."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("xb", buffering=0)
        path.chmod(PRIVATE_FILE)
        self._digest, self._size, self._synced = hashlib.sha256(), 0, 0

    def write(self, bodies: Iterable[bytes]) -> None:
        """Write frames, one after another.

        All in one call: each call lets other threads run, and waits until they let this one.
        """
        parts: list[bytes] = []
        for body in bodies:
            assert len(body) <= FRAME_BYTES_MAX, f"a frame of {len(body)} bytes"
            parts += (len(body).to_bytes(HEAD_BYTES, "little"), body)
        if parts:
            self._append(b"".join(parts))

    def _append(self, data: bytes) -> None:
        self._digest.update(data)
        self._size += len(data)
        rest = memoryview(data)
        while rest:  # A disk that is nearly full takes what it can.
            rest = rest[self._file.write(rest) :]
        if self._size - self._synced >= SYNCED_TOGETHER_BYTES:
            os.fdatasync(self._file.fileno())
            self._synced = self._size

    def finish(self) -> FileDigest:
        """Sync the file, and return its size and digest."""
        os.fsync(self._file.fileno())
        self._file.close()
        return FileDigest(self._size, self._digest.digest())

    def close(self) -> None:
        """Let go of the file, finished or not. Safe to repeat."""
        self._file.close()


def write_synced(path: Path, body: bytes) -> None:
    """Write a whole file to the disk."""
    with path.open("wb") as file:
        path.chmod(PRIVATE_FILE)
        file.write(body)
        file.flush()
        os.fsync(file.fileno())


def sync_names(folder: Path) -> None:
    """Let the names in a folder survive a power cut: they are written there, not in the files."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# ------------------------------------------------------------------------------ reading


def check(path: Path, written: FileDigest, tell: Callable[[int], None]) -> None:
    """Raise SnapshotDamaged unless a file has its size and digest; report the bytes read."""
    if path.stat().st_size != written.size:
        raise SnapshotDamaged(f"{path} has another size than when it was saved")
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(READ_BYTES):
            digest.update(part)
            tell(len(part))
    if digest.digest() != written.sha256:
        raise SnapshotDamaged(f"{path} is not what was saved")


def frames(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the frames of a file."""
    while head := file.read(HEAD_BYTES):
        length = int.from_bytes(head, "little") if len(head) == HEAD_BYTES else FRAME_BYTES_MAX + 1
        body = file.read(length) if length <= FRAME_BYTES_MAX else b""
        if len(body) != length:
            raise SnapshotDamaged(f"{file.name} is damaged or cut short at byte {file.tell()}")
        yield body

"""Run: a file with the sorted entries of one range of the ledger. It is written once.

A run is derived from facts that never change, so it is right for ever or damaged. It consists of
pages of 4,096 bytes, each with its own checksum; a fence, the first entry of each page; and a
trailer, with a checksum over fence and trailer. The trailer names the range and the hash-chain link
at its end: a run beside another ledger is recognised, and not used.

A question reads one page of a run, or as many as hold the player's entries: the fence is in memory,
three thousandths of the run's size.
"""

import os
import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from rankd.adapters.sqlite.database import PRIVATE_FILE, sync_folder
from rankd.adapters.sqlite.player_entries import ENTRY_BYTES, PlayerHash, bounds, find
from rankd.model.facts import Position

PAGE_BYTES = 4_096
PAGE_ENTRIES = (PAGE_BYTES - 4) // ENTRY_BYTES
SYNC_BYTES = 1 << 20
"""Bytes written between two syncs: a commit of the ledger never waits for more of them."""

SUFFIX, UNFINISHED = ".run", ".part"

_MAGIC = b"rankdpl1"
"""Also the version of the format: a run of another one is thrown away. It changes, too, when a kind
of fact that exists gets a board or a player."""

_TRAILER = struct.Struct(">8sQQQ16s32s")
_CHECK = struct.Struct(">I")
_END_BYTES = _TRAILER.size + _CHECK.size


class RunDamaged(Exception):
    """A run cannot be used: it is thrown away, and its range is read from the facts."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path.name}: {problem}")
        self.path = path


class RunRange(NamedTuple):
    """Range of facts of a run, with the seed of its hashes."""

    first: Position
    last: Position
    seed: bytes
    link: bytes
    """The hash-chain link after the last fact."""

    @property
    def name(self) -> str:
        """Return the name of the file."""
        return f"{self.first:013}-{self.last:013}{SUFFIX}"


class PlayerRun:
    """One run, open for reading."""

    def __init__(self, path: Path) -> None:
        """Open a run. Raises RunDamaged, and FileNotFoundError if it is gone."""
        self.path = path
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.range, self._fence = self._read_end()
        except BaseException:
            self.close()
            raise

    def _read_end(self) -> tuple[RunRange, bytes]:
        size = os.fstat(self._file).st_size
        end = self._read(size - _END_BYTES, _END_BYTES)
        magic, first, last, count, seed, link = _TRAILER.unpack(end[: _TRAILER.size])
        fence_bytes = -(-count // PAGE_ENTRIES) * ENTRY_BYTES
        pages = fence_bytes // ENTRY_BYTES
        if magic != _MAGIC or size != pages * PAGE_BYTES + fence_bytes + _END_BYTES:
            raise RunDamaged(self.path, "it has another format or length")
        fence = self._read(pages * PAGE_BYTES, fence_bytes)
        if crc32(fence + end[: _TRAILER.size]) != _CHECK.unpack(end[_TRAILER.size :])[0]:
            raise RunDamaged(self.path, "its end has another checksum")
        found = RunRange(Position(first), Position(last), seed, link)
        if found.name != self.path.name:
            raise RunDamaged(self.path, f"it is {found.name}")
        self._count = count
        return found, fence

    def _read(self, offset: int, size: int) -> bytes:
        try:
            data = os.pread(self._file, size, offset) if offset >= 0 else b""
        except OSError as exc:
            raise RunDamaged(self.path, str(exc.strerror)) from exc
        if len(data) != size:
            raise RunDamaged(self.path, "it is too short")
        return data

    @property
    def pages(self) -> int:
        """Return the number of pages."""
        return len(self._fence) // ENTRY_BYTES

    def page(self, number: int) -> bytes:
        """Return the entries of a page. Raises RunDamaged."""
        data = self._read(number * PAGE_BYTES, PAGE_BYTES)
        if crc32(data[:-4]) != _CHECK.unpack(data[-4:])[0]:
            raise RunDamaged(self.path, f"page {number} has another checksum")
        return data[: min(self._count - number * PAGE_ENTRIES, PAGE_ENTRIES) * ENTRY_BYTES]

    def find(
        self, wanted: PlayerHash, after: Position, before: Position, *, newest_first: bool
    ) -> Iterator[list[int]]:
        """Yield the positions of a player's facts between two positions, a page at a time."""
        low, high = bounds(wanted, after, before)
        start, end = max(self._pages_below(low) - 1, 0), self._pages_below(high)
        for number in range(end - 1, start - 1, -1) if newest_first else range(start, end):
            found = find(self.page(number), *wanted)
            yield [position for position in found if after < position < before]

    def _pages_below(self, bound: bytes) -> int:
        """Return how many pages begin below an entry."""
        return bisect_left(range(self.pages), bound, key=self._first_of)

    def _first_of(self, number: int) -> bytes:
        return self._fence[number * ENTRY_BYTES : (number + 1) * ENTRY_BYTES]

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def write_run(folder: Path, range: RunRange, entries: Iterable[bytes]) -> None:
    """Write a run of sorted entries, given in parts, and give it its name when it is complete."""
    path = folder / range.name
    part = path.with_name(f".{range.name}{UNFINISHED}")
    try:
        with part.open("wb") as file:
            part.chmod(PRIVATE_FILE)
            unsynced, count, fence = 0, 0, bytearray()
            for page in _pages(entries):
                fence += page[:ENTRY_BYTES]
                count += len(page) // ENTRY_BYTES
                padded = page.ljust(PAGE_BYTES - 4, b"\0")
                file.write(padded + _CHECK.pack(crc32(padded)))
                unsynced += PAGE_BYTES
                if unsynced >= SYNC_BYTES:
                    file.flush()
                    os.fdatasync(file.fileno())
                    unsynced = 0
            end = _TRAILER.pack(_MAGIC, range.first, range.last, count, range.seed, range.link)
            file.write(fence + end + _CHECK.pack(crc32(fence + end)))
            file.flush()
            os.fsync(file.fileno())
        part.rename(path)
        sync_folder(folder)
    except BaseException:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise


def _pages(entries: Iterable[bytes]) -> Iterator[bytes]:
    """Cut parts of any length into pages; the last may be shorter."""
    size, rest = PAGE_ENTRIES * ENTRY_BYTES, b""
    for part in entries:
        data = rest + part
        whole = len(data) - len(data) % size
        for start in range(0, whole, size):
            yield data[start : start + size]
        rest = data[whole:]
    if rest:
        yield rest

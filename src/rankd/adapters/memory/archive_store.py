"""The archive files of one process: written once, named by their content, read in parts.

The files::

    folder/
        seed                8 bytes, the same for all files: without it no client can choose ids
                            that collide in their lookups
        5f/5f0c…            a file, named by the SHA-256 of its bytes

A file never changes, and its name is its content: several processes share one, and to write it
again changes nothing. So a crash leaves at most files that no snapshot names, and the next sweep
removes them. A process that follows another's ledger has a folder of its own, with hard links: a
file that the other process removes stays as long as it is needed.

Few files are open at a time, and the blocks read last are in a cache; both are bounded. Archives
of a few entries, and all of a process without a folder, are in memory.
"""

import hashlib
import os
import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar
from weakref import WeakSet, WeakValueDictionary

from rankd.adapters import sync_folder
from rankd.adapters.memory.archive_format import ArchiveHead, ArchiveReader, read_head
from rankd.errors import WindowArchiveDamaged

FILES_OPEN_MAX = 64
"""Archive files that a process has open at the same time."""

CACHE_BYTES_MAX = 8 << 20
"""Bytes of blocks and pages that a process keeps, about."""

IN_MEMORY_BYTES_MAX = 1024
"""Archives of so few bytes are in memory, and in the snapshots: a file would cost as much."""

SYNCED_TOGETHER_BYTES = 4 << 20
"""Files are synced after each of so many bytes: one sync at the end would keep the disk busy for as
long as a second, and every commit of the ledger waits behind it."""

SEED = "seed"
UNFINISHED = ".unfinished"
DAMAGED = ".damaged"
NAME_LENGTH = 64
COPIED_TOGETHER = 1 << 20
CACHED_BYTES_EACH = 400
"""Memory of a decoded block beside its bytes."""

T = TypeVar("T")


class StoredArchive:
    """One archive: a file, or bytes in memory."""

    __slots__ = ("__weakref__", "_store", "body", "head", "name", "size")

    def __init__(
        self, store: "ArchiveStore", name: str, size: int, head: ArchiveHead, body: bytes | None
    ) -> None:
        self._store = store
        self.name = name
        """Of the file; empty if it is in memory."""
        self.size = size
        self.head = head
        self.body = body

    def get(self, offset: int, length: int, decode: Callable[[bytes], T]) -> T:
        """Return decoded bytes. Raises WindowArchiveDamaged where they are not to be had."""
        return self._store.cached(self, offset, length, decode)

    @property
    def reader(self) -> ArchiveReader:
        """Its entries."""
        return ArchiveReader(self.head, self)


class ArchiveStore:
    """Archives in a folder, or in memory.

    Files are found in ``own`` or ``home``, and written to ``own``; in memory without one.
    """

    def __init__(self, home: Path | None = None, *, own: Path | None = None) -> None:
        self.home, self.own = home, own
        self.damaged: dict[str, str] = {}
        """Files that were found damaged, by name, and how."""
        self.named: frozenset[str] = frozenset()
        """The files that the saved index names."""
        self._lock = Lock()
        self._files: WeakValueDictionary[str, StoredArchive] = WeakValueDictionary()
        """Those in use, by name."""
        self._open: OrderedDict[str, int] = OrderedDict()
        self._cache: OrderedDict[tuple[int | str, int], tuple[Any, int]] = OrderedDict()
        self._cached_bytes = 0
        self._writing: WeakSet[ArchiveTarget] = WeakSet()
        self._seed: int | None = None

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Close the open files. They are opened again if they are read."""
        with self._lock:
            while self._open:
                os.close(self._open.popitem()[1])

    @property
    def seed(self) -> int:
        """The seed of lookups. Blocks for a moment when it is first asked for."""
        if self._seed is None:
            self._seed = self._read_seed()
        return self._seed

    def _read_seed(self) -> int:
        for folder in filter(None, (self.home, self.own)):
            with suppress(OSError):
                found = (folder / SEED).read_bytes()
                if len(found) == 8:
                    return int.from_bytes(found, "little")
        seed = secrets.token_bytes(8)
        if self.own is not None:
            self.own.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(self.own / SEED, seed)
        return int.from_bytes(seed, "little")

    # ------------------------------------------------------------------------ reading

    def cached(
        self, archive: StoredArchive, offset: int, length: int, decode: Callable[[bytes], T]
    ) -> T:
        """Return a decoded part of an archive."""
        place = (archive.name or id(archive.head), offset)
        with self._lock:
            known = self._cache.get(place)
            if known is not None:
                self._cache.move_to_end(place)
                return known[0]  # type: ignore[no-any-return]
            try:
                decoded = decode(self._read(archive, offset, length))
            except WindowArchiveDamaged as exc:
                self._quarantine(archive, exc)
                raise
            if archive.body is None:
                self._remember(place, decoded, length)
            return decoded

    def _remember(self, place: tuple[int | str, int], decoded: Any, length: int) -> None:
        size = 3 * length + CACHED_BYTES_EACH
        self._cache[place] = decoded, size
        self._cached_bytes += size
        while self._cached_bytes > CACHE_BYTES_MAX:
            self._cached_bytes -= self._cache.popitem(last=False)[1][1]

    def _read(self, archive: StoredArchive, offset: int, length: int) -> bytes:
        if archive.body is not None:
            return archive.body[offset : offset + length]
        try:
            found = os.pread(self._descriptor(archive.name), length, offset)
        except OSError as exc:
            raise WindowArchiveDamaged(f"{archive.name}: {exc}") from exc
        if len(found) < length:
            raise WindowArchiveDamaged(f"{archive.name} is cut short")
        return found

    def _descriptor(self, name: str) -> int:
        descriptor = self._open.get(name)
        if descriptor is not None:
            self._open.move_to_end(name)
            return descriptor
        while len(self._open) >= FILES_OPEN_MAX:
            os.close(self._open.popitem(last=False)[1])
        descriptor = self._open[name] = self._opened(name)
        return descriptor

    def _opened(self, name: str) -> int:
        for path in self._paths(name):
            with suppress(FileNotFoundError):
                return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        raise FileNotFoundError(f"{name} is missing")

    def _paths(self, name: str) -> Iterator[Path]:
        for folder in dict.fromkeys((self.own, self.home)):
            if folder is not None:
                yield folder / name[:2] / name

    def _quarantine(self, archive: StoredArchive, problem: WindowArchiveDamaged) -> None:
        """Put a damaged file aside: the next start rebuilds its ranking, unless it is repaired."""
        name = archive.name
        self.damaged[name] = problem.problem
        if (descriptor := self._open.pop(name, None)) is not None:
            os.close(descriptor)
        if self.own is not None and name:
            path = self.own / name[:2] / name
            with suppress(OSError):
                path.replace(path.with_name(name + DAMAGED))

    # ------------------------------------------------------------------------ writing

    def target(self) -> "ArchiveTarget":
        """Return an archive to be written."""
        target = ArchiveTarget(self)
        self._writing.add(target)
        return target

    def open(self, name: str, size: int, head: ArchiveHead) -> StoredArchive:
        """Return the archive in a file that a snapshot names. Raises WindowArchiveDamaged."""
        with self._lock:
            known = self._files.get(name)
            if known is not None:
                return known
            self._link(name)
            if not any(_has_size(path, size) for path in self._paths(name)):
                raise WindowArchiveDamaged(f"{name} is missing, or cut short")
            return self._register(StoredArchive(self, name, size, head, None))

    def _link(self, name: str) -> None:
        """Have a file of another process in this folder, too."""
        if self.own is None or self.home is None or self.own == self.home:
            return
        path = self.own / name[:2] / name
        with suppress(FileExistsError, FileNotFoundError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.link(self.home / name[:2] / name, path)

    def _register(self, archive: StoredArchive) -> StoredArchive:
        self._files[archive.name] = archive
        return archive

    def in_memory(self, body: bytes) -> StoredArchive:
        """Return an archive of these bytes. Raises WindowArchiveDamaged."""
        head = read_head(len(body), lambda offset, length: body[offset : offset + length])
        return StoredArchive(self, "", len(body), head, body)

    def put(self, unfinished: Path, name: str, size: int) -> StoredArchive:
        """Have a file that was written, and synced, under its name. Blocks."""
        assert self.own is not None, "files are written to a folder of one's own"
        path = self.own / name[:2] / name
        head = _head_of(unfinished, size)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._link(name)
        there = _is_sound(path, name, size)  # It takes long: readers do not wait for it.
        with self._lock:
            if there and path.exists():
                unfinished.unlink()
            else:
                unfinished.replace(path)
            if (descriptor := self._open.pop(name, None)) is not None:
                os.close(descriptor)
            self.damaged.pop(name, None)
            known = self._files.get(name)
            archive = known or self._register(StoredArchive(self, name, size, head, None))
        sync_folder(path.parent)
        sync_folder(self.own)
        return archive

    # ------------------------------------------------------------------------ sweeping

    def sweep(self) -> int:
        """Remove the files that neither the saved index nor this process needs; return how many.

        Blocks.
        """
        if self.own is None or not self.own.is_dir():
            return 0
        removed = 0
        for path in [path for path in self.own.glob("??/*") if path.name not in self.named]:
            with self._lock:
                if path.name not in self._files:
                    path.unlink(missing_ok=True)
                    removed += 1
        writing = {target.path for target in list(self._writing)}
        for path in self.own.glob(f"*{UNFINISHED}"):
            if path not in writing:
                path.unlink(missing_ok=True)
        return removed

    @property
    def outdated(self) -> bool:
        """Whether the saved index names files that this process needs no longer."""
        return any(name not in self._files for name in self.named)


class ArchiveTarget:
    """An archive that is being written, on one thread at a time."""

    def __init__(self, store: ArchiveStore) -> None:
        self._store = store
        self._parts: list[bytes] = []
        """Until they are too many to be kept in memory."""
        self._digest = hashlib.sha256()
        self._size = self._synced = 0
        self._descriptor: int | None = None
        self.path: Path | None = None

    def write(self, data: bytes) -> None:
        """Add bytes."""
        self._size += len(data)
        if self._descriptor is None:
            self._parts.append(data)
            if self._store.own is None or self._size <= IN_MEMORY_BYTES_MAX:
                return
            data = self._begin(self._store.own)
        self._digest.update(data)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._number, rest) :]
        if self._size - self._synced >= SYNCED_TOGETHER_BYTES:
            os.fdatasync(self._number)
            self._synced = self._size

    @property
    def _number(self) -> int:
        assert self._descriptor is not None, "it is written to a file"
        return self._descriptor

    def _begin(self, folder: Path) -> bytes:
        """Open a file; return the bytes so far, which are to be written to it first."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path = folder / f"{secrets.token_hex(16)}{UNFINISHED}"
        self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        parts, self._parts = b"".join(self._parts), []
        return parts

    def finish(self) -> StoredArchive:
        """Return the archive, on the disk unless it is in memory."""
        if self._descriptor is None:
            return self._store.in_memory(b"".join(self._parts))
        os.fsync(self._number)
        self._close()
        assert self.path is not None, "it is written to a file"
        return self._store.put(self.path, self._digest.hexdigest(), self._size)

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def end(self) -> None:
        """Close and remove an unfinished file. Safe to repeat."""
        self._close()
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def write_whole(path: Path, body: bytes) -> None:
    """Write a small file, and sync it; all of it or nothing."""
    unfinished = path.with_name(f"{path.name}{UNFINISHED}")
    with unfinished.open("wb") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    sync_folder(path.parent)


def _has_size(path: Path, size: int) -> bool:
    try:
        return path.stat().st_size == size
    except OSError:
        return False


def _head_of(path: Path, size: int) -> ArchiveHead:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return read_head(size, lambda offset, length: os.pread(descriptor, length, offset))
    finally:
        os.close(descriptor)


def _is_sound(path: Path, name: str, size: int) -> bool:
    """Whether a file has the content that it is named by."""
    if not _has_size(path, size):
        return False
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(COPIED_TOGETHER):
            digest.update(part)
    return digest.hexdigest() == name

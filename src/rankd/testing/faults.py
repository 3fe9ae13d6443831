"""Disks that forget, fail and stop: injected faults of storage.

``kill -9`` proves nothing about durability, for unsynced writes are still in the system's cache. So
SQLite is given a file system of ours, on top of the real one, that sees every write, sync,
truncation and deletion, and decides its outcome:

    Recorder    lets everything happen and records it. From the record, ``Crash`` makes
                the files as they may be after a power cut at any moment.
    FailAt      lets one operation fail, before or after it was done.
    KillAt      ends the process, without a word, in the middle of one operation.

A power cut may leave everything up to a file's last sync, and of the writes since then any part, in
any order, torn at sectors of 512 bytes or at pages of 4,096. Names (a file made, a file deleted)
become durable in order, and are durable once a new file of that folder is synced, as SQLite syncs
the folder then. Not modelled: a disk that confirms a sync and lies.

Small disks that really fill, or stand still, are mounted for one test. Only a process that may
mount has them (root, or the root of a namespace of its own); tests that must run everywhere use
SQLite's file system.
"""

import fcntl
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from pathlib import Path
from random import Random
from typing import Protocol

import apsw

SECTOR_BYTES = 512
PAGE_BYTES = 4_096

_numbers = count(1)


class Kind(Enum):
    """The kinds of operations on a disk."""

    CREATE = "create"
    WRITE = "write"
    TRUNCATE = "truncate"
    SYNC = "sync"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing asked of the disk."""

    kind: Kind
    file: str
    """Its name within the folder."""
    offset: int = 0
    """Where a write begins; how long a file is after a truncation."""
    data: bytes = b""


Perform = Callable[[], None]


class Watcher(Protocol):
    """Decides the outcome of each operation: ``perform`` executes it."""

    def __call__(self, operation: Operation, perform: Perform) -> None:
        """Do it, leave it, or raise."""


@contextmanager
def watched_disk(watcher: Watcher) -> Iterator[str]:
    """Give SQLite a file system that asks the watcher, and yield the name to open files with."""
    vfs = _WatchedVFS(f"watched-{next(_numbers)}", watcher)
    try:
        yield vfs.name
    finally:
        vfs.unregister()


class _WatchedVFS(apsw.VFS):
    def __init__(self, name: str, watcher: Watcher) -> None:
        self.name, self._watcher = name, watcher
        super().__init__(name, "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> "apsw.VFSFile":
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        if path is None:  # A temporary file, which no crash leaves behind.
            return apsw.VFSFile("", name, flags)
        existed = Path(path).exists()
        file = _WatchedFile(path, name, flags, self._watcher)
        if not existed:
            self._watcher(Operation(Kind.CREATE, Path(path).name), _nothing)
        return file

    def xDelete(self, filename: str, syncdir: bool) -> None:
        self._watcher(
            Operation(Kind.DELETE, Path(filename).name),
            lambda: super(_WatchedVFS, self).xDelete(filename, syncdir),
        )

    def excepthook(self, *_: object) -> bool:
        """SQLite has been told by a result code; no other report is needed."""
        return True


class _WatchedFile(apsw.VFSFile):
    def __init__(
        self, path: str, name: str | apsw.URIFilename | None, flags: list[int], watcher: Watcher
    ) -> None:
        self._name, self._watcher = Path(path).name, watcher
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        self._watcher(
            Operation(Kind.WRITE, self._name, offset, bytes(data)),
            lambda: super(_WatchedFile, self).xWrite(data, offset),
        )

    def xTruncate(self, newsize: int) -> None:
        self._watcher(
            Operation(Kind.TRUNCATE, self._name, newsize),
            lambda: super(_WatchedFile, self).xTruncate(newsize),
        )

    def xSync(self, flags: int) -> None:
        self._watcher(
            Operation(Kind.SYNC, self._name), lambda: super(_WatchedFile, self).xSync(flags)
        )

    def excepthook(self, *_: object) -> bool:
        """As above."""
        return True


def _nothing() -> None:
    pass


# ------------------------------------------------------------------- fail, and be killed


def io_error() -> apsw.Error:
    """Return the error that SQLite raises when a disk reports one."""
    return _with_code(apsw.IOError("injected"), apsw.SQLITE_IOERR_FSYNC)


def disk_full() -> apsw.Error:
    """Return the error that SQLite raises when no space is left."""
    return _with_code(apsw.FullError("injected"), apsw.SQLITE_FULL)


def _with_code(error: apsw.Error, code: int) -> apsw.Error:
    error.result, error.extendedresult = code & 0xFF, code  # type: ignore[attr-defined]
    return error


@dataclass
class FailAt:
    """Fails operation number ``fails``, counted from 0; all later ones too if ``for_good``."""

    fails: int
    error: Callable[[], apsw.Error] = io_error
    done: bool = False
    """Whether the operation is done all the same: a confirmation that was lost on the way."""
    for_good: bool = False
    kinds: frozenset[Kind] = frozenset({Kind.WRITE, Kind.SYNC})
    armed: bool = True
    seen: int = field(default=0, init=False)
    failed: bool = field(default=False, init=False)

    def __call__(self, operation: Operation, perform: Perform) -> None:
        """Count, and fail in turn."""
        if self.armed and operation.kind in self.kinds:
            number, self.seen = self.seen, self.seen + 1
            if number == self.fails or (self.for_good and number > self.fails):
                self.failed = True
                if self.done:
                    perform()
                raise self.error()
        perform()


@dataclass
class KillAt:
    """Kills this process at operation number ``dies``, before it or when it is done."""

    dies: int
    done: bool
    kinds: frozenset[Kind] = frozenset(Kind)
    armed: bool = False
    seen: int = field(default=0, init=False)

    def __call__(self, operation: Operation, perform: Perform) -> None:
        """Count, and die in turn."""
        if not self.armed or operation.kind not in self.kinds:
            return perform()
        number, self.seen = self.seen, self.seen + 1
        if number != self.dies:
            return perform()
        if self.done:
            perform()
        os.kill(os.getpid(), signal.SIGKILL)
        return None


# ---------------------------------------------------------------------------- power loss


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """In a record: from here on, this much was promised."""

    facts: int


class Recorder:
    """Lets everything happen and remembers it, in order."""

    def __init__(self) -> None:
        self.record: list[Operation | Acknowledged] = []

    def __call__(self, operation: Operation, perform: Perform) -> None:
        """Do it, and remember it."""
        perform()
        self.record.append(operation)

    def acknowledge(self, facts: int) -> None:
        """Remember that so many facts in all have been acknowledged."""
        self.record.append(Acknowledged(facts))


@dataclass
class _File:
    """A file's durable bytes, and the operations since its last sync."""

    durable: bytearray = field(default_factory=bytearray)
    pending: list[Operation] = field(default_factory=list)
    fresh: bool = True
    """Never synced: its first sync makes the folder's names durable too."""


class Crash:
    """The disk at one moment of a record, when the power fails."""

    def __init__(self, record: list[Operation | Acknowledged], *, after: int) -> None:
        self.acknowledged = 0
        self._now: dict[str, _File] = {}
        self._names: dict[str, _File] = {}
        self._renamed: list[tuple[str, _File | None]] = []
        for entry in record[:after]:
            if isinstance(entry, Acknowledged):
                self.acknowledged = entry.facts
            else:
                self._happen(entry)

    def _happen(self, operation: Operation) -> None:
        name = operation.file
        match operation.kind:
            case Kind.CREATE:
                self._now[name] = file = _File()
                self._renamed.append((name, file))
            case Kind.DELETE:
                self._now.pop(name, None)
                self._renamed.append((name, None))
            case Kind.SYNC:
                self._sync(name)
            case Kind.WRITE | Kind.TRUNCATE:
                self._now[name].pending.append(operation)

    def _sync(self, name: str) -> None:
        file = self._now[name]
        for operation in file.pending:
            _apply(file.durable, operation)
        file.pending.clear()
        if file.fresh:
            file.fresh = False
            self._settle_names(len(self._renamed), self._names)
            self._renamed.clear()

    def _settle_names(self, many: int, names: dict[str, _File]) -> None:
        for name, file in self._renamed[:many]:
            if file is None:
                names.pop(name, None)
            else:
                names[name] = file

    def synced(self) -> dict[str, bytes]:
        """Return the files in the worst case: only synced bytes."""
        return {name: bytes(file.durable) for name, file in self._names.items()}

    def files(self, random: Random) -> dict[str, bytes]:
        """Return one possible state of the disk after the power cut."""
        names = dict(self._names)
        self._settle_names(random.randint(0, len(self._renamed)), names)
        manner = random.choice(_MANNERS)
        found = {}
        for name, file in names.items():
            data = bytearray(file.durable)
            for operation in manner(file.pending, random):
                _apply(data, operation)
            found[name] = bytes(data)
        return found


def _apply(data: bytearray, operation: Operation) -> None:
    missing = operation.offset - len(data)
    if missing > 0:
        data.extend(bytes(missing))
    if operation.kind is Kind.TRUNCATE:
        del data[operation.offset :]
    else:
        data[operation.offset : operation.offset + len(operation.data)] = operation.data


def _everything(pending: list[Operation], _random: Random) -> list[Operation]:
    return pending


def _nothing_of(_pending: list[Operation], _random: Random) -> list[Operation]:
    return []


def _prefix(pending: list[Operation], random: Random) -> list[Operation]:
    return pending[: random.randint(0, len(pending))]


def _subset(pending: list[Operation], random: Random) -> list[Operation]:
    chance = random.choice((0.1, 0.5, 0.9))
    return [operation for operation in pending if random.random() < chance]


def _shuffled(pending: list[Operation], random: Random) -> list[Operation]:
    return random.sample(pending, random.randint(0, len(pending)))


def _torn(pending: list[Operation], random: Random) -> list[Operation]:
    grain = random.choice((SECTOR_BYTES, PAGE_BYTES))
    pieces = [piece for operation in pending for piece in _pieces(operation, grain)]
    return _subset(pieces, random)


def _pieces(operation: Operation, grain: int) -> Iterator[Operation]:
    """Yield the parts of a write that lie in different sectors of the disk."""
    if operation.kind is Kind.TRUNCATE:
        yield operation
        return
    start, end = operation.offset, operation.offset + len(operation.data)
    while start < end:
        stop = min(end, (start // grain + 1) * grain)
        part = operation.data[start - operation.offset : stop - operation.offset]
        yield Operation(Kind.WRITE, operation.file, start, part)
        start = stop


_MANNERS = (_everything, _nothing_of, _prefix, _subset, _shuffled, _torn, _torn)


FILLER = "filler"
"""The file that takes up the rest of a disk."""

_CHUNK_BYTES = 64 << 10
_FREEZE, _THAW = 0xC0045877, 0xC0045878
"""The requests of Linux, FIFREEZE and FITHAW."""


class CannotMount(Exception):
    """This process may not mount a disk."""


@contextmanager
def small_disk(folder: Path, size_bytes: int) -> Iterator[Path]:
    """Mount a disk of so many bytes at a folder, which is made. Raises CannotMount."""
    folder.mkdir(exist_ok=True)
    options = f"size={size_bytes},mode=0700"
    _run("mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder))
    try:
        yield folder
    finally:
        _run("umount", "--lazy", str(folder))


@contextmanager
def freezable_disk(folder: Path, size_bytes: int) -> Iterator[Path]:
    """Mount a disk at a folder, which is made, that can stand still. Raises CannotMount."""
    image = folder.with_suffix(".image")
    folder.mkdir(exist_ok=True)
    with image.open("wb") as file:
        file.truncate(size_bytes)
    _run("mkfs.ext4", "-q", str(image))
    _run("mount", "-o", "loop", str(image), str(folder))
    try:
        yield folder
    finally:
        _run("umount", "--lazy", str(folder))


@contextmanager
def standstill(disk: Path) -> Iterator[None]:
    """Let no write to a disk end meanwhile: writers wait, as for a disk that hangs."""
    folder = os.open(disk, os.O_RDONLY)
    try:
        fcntl.ioctl(folder, _FREEZE, 0)
        try:
            yield
        finally:
            fcntl.ioctl(folder, _THAW, 0)
    finally:
        os.close(folder)


def fill(disk: Path) -> None:
    """Take up all that is left on a disk."""
    with (disk / FILLER).open("ab", buffering=0) as file:
        for size in (_CHUNK_BYTES, 4_096, 1):
            try:
                while file.write(bytes(size)) == size:
                    pass
            except OSError:
                continue


def empty(disk: Path) -> None:
    """Free the space that ``fill`` took."""
    (disk / FILLER).unlink(missing_ok=True)


def make_read_only(disk: Path, *, read_only: bool = True) -> None:
    """Let a mounted disk be read only, or written again. Raises CannotMount."""
    _run("mount", "-o", f"remount,{'ro' if read_only else 'rw'}", str(disk))


def _run(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as exc:
        raise CannotMount(str(exc)) from exc
    if done.returncode:
        raise CannotMount(done.stderr.strip())

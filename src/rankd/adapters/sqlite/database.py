"""Ledger's file: lock, connections and their threads, durability settings, errors.

One process has a ledger open at a time, and within it one connection that writes and checkpoints;
two of them could damage the file. So a folder is locked before its database is touched, and every
other connection is read-only.

The settings that decide whether a commit survives a power cut (the journal mode and
``synchronous``) are read back after they were set: SQLite silently ignores a pragma that it cannot
follow.

SQLite blocks its caller, so the event loop never calls it: it submits work to a thread with a
connection of its own, and awaits the result. Work on one thread runs in the order of submission.
Submitted work runs even if the waiting task is cancelled.
"""

import asyncio
import errno
import fcntl
import os
import stat
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar
from weakref import WeakSet

import apsw

from rankd.adapters import sync_folder
from rankd.adapters.sqlite.migration import APPLICATION_ID, migrate
from rankd.adapters.sqlite.queries import SCHEMA_VERSION
from rankd.errors import (
    LedgerCorrupt,
    LedgerInUse,
    LedgerNotCopied,
    LedgerTooNew,
    LedgerUnavailable,
    NoLedger,
    RankdError,
)

FILE = "ledger.db"
LOCK = "ledger.lock"
COPYING = "ledger.copying"
"""Exists while another ledger is copied into this one, and after an interrupted copy."""

PLAYERS = "ledger.players"
"""Folder of the runs by which a player's facts are found. Derived from the facts: a backup has
none, and it can be deleted at any time."""

PART = f"{FILE}.part"
"""File of a backup or restore until it is complete and verified."""

IGNORED = frozenset(
    {LOCK, COPYING, FILE, f"{FILE}-journal", f"{FILE}-shm", PLAYERS, "lost+found", "rankd.toml"}
)
"""Names that an empty folder may hold: those of an interrupted first start or copy, the settings,
and the one that a file system makes. Hidden files are ignored too."""

SQLITE_VERSION_MIN = (3, 51, 3)
"""In older versions a WAL that is reset at the wrong moment can lose commits."""

SYNCHRONOUS = "FULL"
"""Each commit is on stable storage before it is acknowledged."""

BUSY_MS_MAX = 250
"""There is no other writer, so waits are rare: a backup tool that locks the file briefly."""

CACHE_KIB = 65_536
"""Page cache of the connection that writes: the upper levels of the key table of a large ledger."""

PROBE = ".ledger.probe"
"""Name of a file that ``probe`` writes and removes."""

PROBE_BYTES = 1 << 20
"""Free space that a disk must have before a ledger is reopened: some thousand appends."""

PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600
"""Modes of a data folder and its files: the owner's alone."""

_OTHERS = 0o077
"""Mode bits of the group and of others."""

_COPIED_BYTES = 1 << 20

_NAMED_MAX = 3
"""Number of obstructing files that an error names."""

_LEVELS = {"OFF": 0, "NORMAL": 1, "FULL": 2, "EXTRA": 3}


# ------------------------------------------------------------------------------ errors

# Errors that may pass if the caller waits, or the operator repairs the machine. Any other means a
# damaged file.
_PASSING = frozenset(
    {
        apsw.SQLITE_BUSY,
        apsw.SQLITE_LOCKED,
        apsw.SQLITE_IOERR,
        apsw.SQLITE_FULL,
        apsw.SQLITE_NOMEM,
        apsw.SQLITE_CANTOPEN,
        apsw.SQLITE_READONLY,
        apsw.SQLITE_PERM,
        apsw.SQLITE_AUTH,
        apsw.SQLITE_PROTOCOL,
        apsw.SQLITE_INTERRUPT,
    }
)


_DISK_CODES = frozenset({apsw.SQLITE_FULL, apsw.SQLITE_IOERR})
_DISK_REASONS = {
    errno.ENOSPC: "no space is left on the disk",
    errno.EDQUOT: "the quota of the disk is used up",
    errno.EROFS: "the disk can only be read",
    errno.EIO: "the disk reports an error",
}


_REASONS = {
    apsw.SQLITE_FULL: "no space is left on the disk",
    apsw.SQLITE_IOERR: "the disk reports an error",
    apsw.SQLITE_READONLY: "the disk or the file can only be read",
}
"""Replacements for SQLite's own messages, some of which are misleading or empty."""


def translated(error: apsw.Error, *, applied: Literal["no", "unknown"] = "no") -> RankdError:
    """Translate an error of SQLite."""
    # Both are missing in errors of apsw itself, such as for a closed connection.
    code: int = getattr(error, "extendedresult", apsw.SQLITE_ERROR)
    problem = f"{_REASONS.get(code & 0xFF, error)} ({_name(code)})"
    if applied == "unknown" or code & 0xFF in _PASSING:
        return LedgerUnavailable(problem, applied=applied)
    return LedgerCorrupt(problem)


def _name(code: int) -> str:
    """Return SQLite's name of an error: the extended name, or that of its class."""
    named = apsw.mapping_extended_result_codes.get(code) or apsw.mapping_result_codes.get(code)
    return str(named or code)


@contextmanager
def translated_errors() -> Iterator[None]:
    """Translate exceptions of SQLite and of the system, where nothing can be applied yet."""
    try:
        yield
    except apsw.Error as exc:
        raise translated(exc) from exc
    except UnicodeDecodeError as exc:
        raise LedgerCorrupt("text in the database is not UTF-8") from exc
    except OSError as exc:
        where = f"{exc.filename}: " if exc.filename else ""
        raise LedgerUnavailable(f"{where}{exc.strerror}", applied="no") from exc


# ------------------------------------------------------------------------------ folder


def is_disk_failure(error: RankdError) -> bool:
    """Whether an error is caused by a disk that is full, failing, or read-only."""
    cause = error.__cause__
    if isinstance(cause, apsw.Error):
        return getattr(cause, "extendedresult", 0) & 0xFF in _DISK_CODES
    return isinstance(cause, OSError) and cause.errno in _DISK_REASONS


def probe(folder: Path) -> None:
    """Write, sync and remove a file. Raises LedgerUnavailable if the disk takes no writes."""
    path = folder / PROBE
    try:
        try:
            with path.open("wb") as file:
                path.chmod(PRIVATE_FILE)
                file.write(bytes(PROBE_BYTES))
                file.flush()
                os.fsync(file.fileno())
        finally:
            path.unlink(missing_ok=True)
    except OSError as exc:
        problem = _DISK_REASONS.get(exc.errno or 0, exc.strerror)
        raise LedgerUnavailable(f"{problem} ({folder})", applied="no") from exc


class FolderLock:
    """Exclusive lock on a folder, held until ``release`` or the end of the process.

    ``flock`` belongs to the open file, not to the process, so a second attempt within this process
    is refused as well. A forked child closes its copy of the open file.
    """

    def __init__(self, folder: Path) -> None:
        self._file = _open_lock(folder / LOCK)
        self._owner = os.getpid()
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            os.close(self._file)
            if isinstance(exc, BlockingIOError):
                raise LedgerInUse(str(folder)) from None
            raise
        _locks.add(self)

    def release(self) -> None:
        if self._owner == os.getpid():
            _locks.discard(self)
            os.close(self._file)

    def give_up(self) -> None:
        """Close the copy of the file in a forked child: the lock stays with its owner."""
        os.close(self._file)


def _open_lock(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
    except OSError as exc:
        if exc.errno != errno.EROFS:
            raise
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


@contextmanager
def lock_against_writers(folder: Path) -> Iterator[None]:
    """Keep other processes from opening a ledger for writing. Writes nothing; raises LedgerInUse.

    A folder without a lock file was never opened where it is, or is read-only.
    """
    with translated_errors():
        number = _lock_to_read(folder)
    try:
        yield
    finally:
        if number is not None:
            os.close(number)


def _lock_to_read(folder: Path) -> int | None:
    try:
        number = os.open(folder / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(number, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as exc:
        os.close(number)
        if isinstance(exc, BlockingIOError):
            raise LedgerInUse(str(folder)) from None
        raise
    return number


_locks: WeakSet[FolderLock] = WeakSet()
"""Locks held by this process."""


def _give_up_locks() -> None:
    for lock in list(_locks):
        lock.give_up()
    _locks.clear()


os.register_at_fork(after_in_child=_give_up_locks)


def prepare(folder: Path) -> FolderLock:
    """Create the folder if it is missing, durably, and lock it."""
    with translated_errors():
        if not folder.exists():
            folder.mkdir(mode=PRIVATE_FOLDER, parents=True)
            sync_folder(folder.parent)
        lock = FolderLock(folder)
        make_private(folder)
        return lock


def make_private(folder: Path) -> None:
    """Remove the permissions of others on a folder and its files, if they belong to this user."""
    for path in (folder, *folder.iterdir()):
        with suppress(OSError):  # Removed meanwhile, or on a read-only disk.
            found = path.lstat()
            ours = found.st_uid == os.geteuid() and not stat.S_ISLNK(found.st_mode)
            if ours and found.st_mode & _OTHERS:
                path.chmod(stat.S_IMODE(found.st_mode) & ~_OTHERS)


def note_copy(folder: Path, source: str | None) -> None:
    """Record that a ledger is being copied into this folder, and its source; None once complete."""
    if source is not None:
        mark(folder, COPYING, source)
        return
    (folder / COPYING).unlink(missing_ok=True)
    sync_folder(folder)


def mark(folder: Path, name: str, text: str = "") -> None:
    """Write a small file durably. A folder created for it never exists without it.

    A copy killed at its very beginning must not leave an empty folder, in which a new ledger could
    be begun by mistake.
    """
    if folder.exists():
        _write(folder / name, text)
        return
    new = folder.absolute().with_name(f".{folder.absolute().name}.new")
    new.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    _write(new / name, text)
    new.rename(folder)
    sync_folder(folder.absolute().parent)


def _write(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8") as file:
        path.chmod(PRIVATE_FILE)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)


def holds_ledger(folder: Path, *, copying: bool = False) -> bool:
    """Return whether a folder holds a ledger; False if it is empty or absent. Writes nothing.

    Raises LedgerNotCopied for a part of one, unless a copy is to continue there, and NoLedger if
    the folder holds anything else.
    """
    with translated_errors():
        _refuse_partial(folder, copying=copying)
        if _has_bytes(folder / FILE):
            return True
        if content := content_of(folder):
            raise NoLedger(
                f"{folder} holds no ledger ({FILE}), but other files ({listed(content)}): name "
                "the folder of a ledger, or an empty one for a new ledger; if this was one, "
                "`rankd restore` makes another from its backup, in an empty folder"
            )
        return False


def insist_on_ledger(folder: Path) -> None:
    """Raise the errors of ``holds_ledger``, and NoLedger for an empty or absent folder."""
    if not holds_ledger(folder):
        raise NoLedger(f"{folder} holds no ledger; name the folder of one")


def content_of(folder: Path) -> list[str]:
    """Return the names in a folder that are neither ignored nor hidden, sorted."""
    if not folder.is_dir():
        return []
    wal = f"{FILE}-wal"
    names = {path.name for path in folder.iterdir()} - IGNORED
    if not _has_bytes(folder / wal):
        names.discard(wal)
    return sorted(name for name in names if not name.startswith("."))


def listed(names: list[str]) -> str:
    """Return the first few names as text."""
    return ", ".join(names[:_NAMED_MAX]) + (", …" if len(names) > _NAMED_MAX else "")


def _has_bytes(file: Path) -> bool:
    return file.exists() and file.stat().st_size > 0


def _refuse_partial(folder: Path, *, copying: bool) -> None:
    note = folder / COPYING
    if (folder / PART).exists():
        raise LedgerNotCopied(
            f"{folder} holds only a part of a ledger ({PART}): a `rankd restore` or `rankd "
            "backup` into it was cut off, or goes on; repeat it, or remove the folder"
        )
    if note.exists() and not copying:
        raise LedgerNotCopied(
            f"a copy of {note.read_text(encoding='utf-8')} into {folder} was not finished; repeat "
            "the `rankd restore` that began it, and it goes on where it ended"
        )


# ------------------------------------------------------------------------- connections


class SQLiteDurability(NamedTuple):
    """Settings in force, read back from SQLite."""

    sqlite: str
    journal_mode: str
    synchronous: str


def connect_writer(folder: Path, *, vfs: str | None = None) -> apsw.Connection:
    """Open the only connection that writes, and upgrade the file to the newest schema."""
    _insist_on_sqlite()
    created = not (folder / FILE).exists()
    _confirm_wal(folder)
    database = apsw.Connection(str(folder / FILE), vfs=vfs)
    try:
        if created:  # Before there is a WAL, which gets the same mode.
            (folder / FILE).chmod(PRIVATE_FILE)
        database.set_busy_timeout(BUSY_MS_MAX)
        _insist_on_our_file(database)
        _set_pragmas(database)
        migrate(database)
        with suppress(apsw.BusyError):  # A reader is active: a later checkpoint empties it.
            database.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        if created:
            sync_folder(folder)
    except BaseException:
        database.close()
        raise
    return database


def _confirm_wal(folder: Path) -> None:
    """Make the WAL of a process that died durable, before it is used.

    After a failed sync, the system may mark pages clean that never reached the disk: they can be
    read until the power goes, and another sync does not write them. Rewriting the same bytes in
    place makes them dirty, so that the next sync writes them.
    """
    path = folder / f"{FILE}-wal"
    if not path.exists():
        return
    with path.open("r+b") as wal:
        while data := wal.read(_COPIED_BYTES):
            wal.seek(-len(data), os.SEEK_CUR)
            wal.write(data)
        wal.flush()
        os.fsync(wal.fileno())


def connect_reader(folder: Path, *, vfs: str | None = None) -> apsw.Connection:
    """Open a read-only connection. A writer has the file open already."""
    database = apsw.Connection(str(folder / FILE), flags=apsw.SQLITE_OPEN_READONLY, vfs=vfs)
    database.set_busy_timeout(BUSY_MS_MAX)
    database.pragma("mmap_size", 0)
    return database


def connect_closed(file: Path) -> apsw.Connection:
    """Open the file of a ledger that no process has open. Nothing is written, there or beside it.

    So it may be on a full or read-only disk. A file with an older schema is migrated in a temporary
    copy. Raises NoLedger if there is no ledger in the file.
    """
    database = _connect_closed(file)
    try:
        if not _insist_on_our_file(database):
            raise NoLedger(f"{file} holds no ledger: the making of one was cut short")
        if database.pragma("user_version") == SCHEMA_VERSION:
            return database
        copy = _migrated(database)
    except BaseException:
        database.close()
        raise
    database.close()
    return copy


def is_ledger(file: Path) -> bool:
    """Return whether a ledger that no process has open can be read."""
    try:
        connect_closed(file).close()
    except (NoLedger, apsw.Error):
        return False
    return True


def _connect_closed(file: Path) -> apsw.Connection:
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    uri = file.absolute().as_uri()
    if not _has_bytes(file.with_name(f"{file.name}-wal")):
        return apsw.Connection(f"{uri}?immutable=1", flags=flags)
    # A process that died left commits in its WAL. In exclusive mode the index of a WAL is in
    # memory, instead of a file beside it; the vfs takes no locks, which would need a writable file.
    database = apsw.Connection(f"{uri}?mode=ro", flags=flags, vfs="unix-none")
    database.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    database.pragma("locking_mode", "EXCLUSIVE")
    return database


def _migrated(database: apsw.Connection) -> apsw.Connection:
    copy = apsw.Connection("")  # A temporary file that SQLite removes.
    try:
        with copy.backup("main", database, "main") as backup:
            backup.step()
        migrate(copy)
    except BaseException:
        copy.close()
        raise
    return copy


def attach_read_only(database: apsw.Connection, folder: Path, name: str) -> None:
    """Attach the ledger in a folder to a connection of another file, read-only, under a name."""
    uri = f"{(folder / FILE).absolute().as_uri()}?mode=ro"
    database.execute(f"ATTACH :uri AS {name}", {"uri": uri})


def insist_on_our_version(folder: Path, database: apsw.Connection) -> None:
    """Refuse a file whose writer, another version of rankd, has another schema version."""
    version = database.pragma("user_version")
    if version != SCHEMA_VERSION:
        raise LedgerUnavailable(
            f"{folder} is open in a rankd that keeps schema {version}, and this one knows "
            f"{SCHEMA_VERSION}: use the version that has it open",
            applied="no",
        )


def durability(database: apsw.Connection) -> SQLiteDurability:
    """Return the settings in force on a connection."""
    level = database.pragma("synchronous")
    names = {number: name for name, number in _LEVELS.items()}
    return SQLiteDurability(
        sqlite=apsw.sqlite_lib_version(),
        journal_mode=str(database.pragma("journal_mode")).upper(),
        synchronous=names[level],
    )


def _insist_on_sqlite() -> None:
    version = tuple(int(part) for part in apsw.sqlite_lib_version().split("."))
    if version < SQLITE_VERSION_MIN:
        wanted = ".".join(map(str, SQLITE_VERSION_MIN))
        raise LedgerUnavailable(
            f"SQLite {apsw.sqlite_lib_version()} can lose commits; rankd needs {wanted} or later",
            applied="no",
        )


def _insist_on_our_file(database: apsw.Connection) -> bool:
    """Refuse a file of another program or a newer schema; return False for an empty file."""
    ours, version = database.pragma("application_id"), database.pragma("user_version")
    tables = database.execute("SELECT count(*) FROM sqlite_schema").get
    if (ours, version, tables) == (0, 0, 0):
        return False  # A new file, or an interrupted creation.
    if ours != APPLICATION_ID:
        raise LedgerCorrupt(f"{FILE} is a database of another program")
    if version > SCHEMA_VERSION:
        raise LedgerTooNew(FILE, schema=version, known=SCHEMA_VERSION)
    if version < 1:
        raise LedgerCorrupt(f"{FILE} says that its schema is {version}, which none ever was")
    return True


def _set_pragmas(database: apsw.Connection) -> None:
    database.pragma("mmap_size", 0)  # A failing disk then raises an error, not SIGBUS.
    database.pragma("cache_size", -CACHE_KIB)
    database.pragma("secure_delete", "ON")  # Erased data does not stay on pages that are freed.
    database.pragma("journal_mode", "WAL")
    database.pragma("synchronous", SYNCHRONOUS)
    database.wal_autocheckpoint(0)  # The ledger checkpoints itself, and sees the errors.
    found = durability(database)
    if (found.journal_mode, found.synchronous) != ("WAL", SYNCHRONOUS):
        raise LedgerUnavailable(
            f"this file system does not allow what durability needs: {found}", applied="no"
        )


T = TypeVar("T")


class DatabaseThread:
    """One connection, used on one thread."""

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"ledger-{name}")
        self._database: apsw.Connection | None = None
        self._ended = False

    async def open(self, connect: Callable[[], apsw.Connection]) -> None:
        """Open the connection. On failure the thread ends and nothing stays open."""
        try:
            await self.reopen(connect)
        except BaseException:
            self._end()
            self._close(None)  # It may have been opened while the caller was cancelled.
            raise

    async def run(self, work: Callable[[apsw.Connection], T]) -> T:
        """Run a function with the connection, and return its result."""
        return await self._do(partial(self._with_database, work))

    def later(self, work: Callable[[apsw.Connection], object]) -> None:
        """Submit work without waiting for it; it runs after the work submitted before."""
        self._thread.submit(self._with_database, work)

    async def reopen(
        self,
        connect: Callable[[], apsw.Connection],
        last: Callable[[apsw.Connection], object] | None = None,
    ) -> None:
        """Close the connection as ``close`` does, and open another; there is none if that fails."""
        await self._do(partial(self._reopen, connect, last))

    async def close(self, last: Callable[[apsw.Connection], object] | None = None) -> None:
        """Run a last function, close the connection and end the thread."""
        if self._ended:
            return
        try:
            if self._database is not None:
                await self._do(partial(self._close, last))
        finally:
            self._end()

    def _end(self) -> None:
        self._ended = True
        self._thread.shutdown()

    async def _do(self, work: Callable[[], T]) -> T:
        if self._ended:
            raise _closed()
        loop = asyncio.get_running_loop()
        doing = loop.run_in_executor(self._thread, _translated, work)
        try:
            return await asyncio.shield(doing)
        except asyncio.CancelledError:
            doing.add_done_callback(_retrieve)
            raise

    def _with_database(self, work: Callable[[apsw.Connection], T]) -> T:
        if self._database is None:
            raise _closed()
        return work(self._database)

    def _reopen(
        self,
        connect: Callable[[], apsw.Connection],
        last: Callable[[apsw.Connection], object] | None,
    ) -> None:
        self._close(last)
        self._database = connect()

    def _close(self, last: Callable[[apsw.Connection], object] | None) -> None:
        database, self._database = self._database, None
        if database is None:
            return
        try:
            if last is not None:
                last(database)
        finally:
            database.close()


async def stepwise(steps: Iterator[T]) -> AsyncIterator[T]:
    """Take each step of long work on a thread of its own."""
    lane = DatabaseThread("steps")
    try:
        while (step := await lane._do(partial(next, steps, None))) is not None:
            yield step
    finally:
        lane._end()


def _retrieve(done: "asyncio.Future[T]") -> None:
    """Retrieve the error of a cancelled wait, so that asyncio does not log it."""
    if not done.cancelled():
        done.exception()


def _translated(work: Callable[[], T]) -> T:
    with translated_errors():
        return work()


def _closed() -> LedgerUnavailable:
    return LedgerUnavailable("the ledger is closed", applied="no")

"""Backup: copy of a ledger, open here, elsewhere or nowhere, into a folder of its own.

The process that has the ledger open copies it with the connection that writes, a few pages between
one append and the next: SQLite then carries each later append into the copy by itself, where a copy
made by any other connection would have to begin again with every append. So a backup holds all
facts appended before its last step. A restore
copies a closed ledger (``OfflineLedger``).

The file gets its final name only when it is complete and verified. Until then, and from the start,
the folder holds a part under another name, and cannot be opened as a ledger.

``transcribing`` copies, row by row, a ledger that another process writes. A copy of its pages needs
one snapshot for the whole copy, which keeps the WAL from being emptied: it would grow all the
while, by a page for nearly every key. But a ledger only grows at its end. The head at the start
defines the rows of the copy, and these never change, so they are read a few at a time. No read
lasts long, and between two of them is a pause in which the writer can empty its WAL. Only the
players change in place, and recent keys move to their table; both are read together with the head,
in one transaction.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import apsw

from rankd.adapters import sync_folder
from rankd.adapters.sqlite.database import (
    COPYING,
    FILE,
    PART,
    attach_read_only,
    content_of,
    listed,
    mark,
    prepare,
    translated_errors,
)
from rankd.adapters.sqlite.migration import migrate
from rankd.adapters.sqlite.queries import QUERIES, fetch
from rankd.errors import FieldError, InvalidRequest, LedgerUnavailable
from rankd.model.facts import Position
from rankd.ports import Progress

STEP_PAGES = 256
"""A megabyte: an append never waits longer than for that."""


class CopyFolder:
    """Empty folder that a ledger is copied into: locked, and marked as partial until ``keep``.

    Raises InvalidRequest for a folder with a ledger or other content, and LedgerInUse. The part of
    an interrupted copy is begun anew.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.part = folder / PART
        with translated_errors():
            _insist_on_empty(folder)
            begun = not self.part.exists()
            if begun:
                mark(folder, PART)
            try:
                self._lock = prepare(folder)
            except BaseException:
                if begun:
                    self.part.unlink()
                raise
            self._begin()

    def _begin(self) -> None:
        try:
            _insist_on_empty(self._folder)  # Another process may have been first.
            self.part.with_name(f"{PART}-journal").unlink(missing_ok=True)
            mark(self._folder, PART)
        except BaseException:
            self._lock.release()
            raise

    def connect(self, flags: int = apsw.SQLITE_OPEN_READWRITE) -> apsw.Connection:
        """Open the part for writing."""
        copy = apsw.Connection(str(self.part), flags=flags)
        copy.pragma("journal_mode", "OFF")
        copy.pragma("synchronous", "OFF")  # Synced once, when it is complete.
        return copy

    def sync(self) -> None:
        """Make the part durable."""
        with self.part.open("r+b") as copy:
            os.fsync(copy.fileno())

    def keep(self) -> None:
        """Rename the part to the ledger's file."""
        self.part.rename(self._folder / FILE)
        sync_folder(self._folder)

    def close(self) -> None:
        """Release the folder's lock."""
        self._lock.release()


def _insist_on_empty(folder: Path) -> None:
    for name in (FILE, COPYING):
        if (folder / name).exists():
            problem = f"{folder} holds a ledger already ({name}); name an empty one"
            raise InvalidRequest([FieldError("folder", problem)])
    if content := [name for name in content_of(folder) if not name.startswith(PART)]:
        problem = f"{folder} holds other files ({listed(content)}); name an empty one"
        raise InvalidRequest([FieldError("folder", problem)])


class RunningBackup:
    """Copy of one database into a folder, in steps, on the thread of its connection."""

    def __init__(self, source: apsw.Connection, folder: Path) -> None:
        self._into = CopyFolder(folder)
        try:
            self._target = self._into.connect()
            self._backup = self._target.backup("main", source, "main")
        except BaseException:
            self._into.close()
            raise

    def step(self) -> Progress | None:
        """Copy a few pages; return the progress, or None once the copy is complete and synced."""
        if not self._backup.done:
            try:
                self._backup.step(STEP_PAGES)
            except apsw.ConnectionClosedError as exc:
                problem = "the ledger failed and was opened anew meanwhile; repeat the backup"
                raise LedgerUnavailable(problem, applied="no") from exc
            total = self._backup.page_count
            return Progress(total - self._backup.remaining, total, "copying", "page")
        self._finish()
        self._into.sync()
        return None

    def keep(self) -> None:
        """Rename the copy to the ledger's file, after verification."""
        self._into.keep()

    def close(self) -> None:
        """Close and unlock. Before ``keep``, this leaves only the part behind."""
        self._finish()
        self._into.close()

    def _finish(self) -> None:
        self._backup.close(force=True)
        self._target.close()


STEP_BLOCKS = 128
"""Some megabytes, copied within a few hundredths of a second."""

STEP_ROWS = 20_000
"""The same for keys and receipts."""

REST_SHARE = 0.5
"""Pause as a fraction of a step's time: about every third append then meets no reader."""

REST_SECONDS_MAX = 0.1

_FLAGS = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI
_HASH_LOW, _HASHES = -(1 << 63), 1 << 64


def transcribing(source: Path, into: CopyFolder) -> Iterator[Progress]:
    """Copy the ledger of a folder into another; yield the progress after each step."""
    with translated_errors():
        copy = into.connect(_FLAGS)
        try:
            migrate(copy)
            attach_read_only(copy, source, "original")
            yield from _rested(_steps(copy))
        finally:
            copy.close()
        into.sync()


def _rested(steps: Iterator[Progress]) -> Iterator[Progress]:
    begun = time.monotonic()
    for progress in steps:
        yield progress
        time.sleep(min(REST_SECONDS_MAX, REST_SHARE * (time.monotonic() - begun)))
        begun = time.monotonic()


def _steps(copy: apsw.Connection) -> Iterator[Progress]:
    head = _copy_what_changes(copy)
    yield Progress(0, head, "copying facts", "fact")
    while _copy(copy, QUERIES["copy_blocks"], head=head, limit=STEP_BLOCKS):
        ((last, _, _),) = fetch(copy, QUERIES["last_block"])
        yield Progress(last, head, "copying facts", "fact")
    yield from _copy_keys(copy, head)
    while _copy(copy, QUERIES["copy_receipts"], head=head, limit=STEP_ROWS):
        ((last,),) = fetch(copy, QUERIES["last_receipt"])
        yield Progress(last, head, "copying receipts", "fact")


def _copy_what_changes(copy: apsw.Connection) -> Position:
    """Copy the rows that may change later; return the head as of the same moment."""
    copy.execute("BEGIN")
    ((head,),) = fetch(copy, QUERIES["copied_head"])
    copy.execute(QUERIES["copy_players"])
    copy.execute(QUERIES["copy_recent_keys"])
    copy.execute("COMMIT")
    return Position(head)


def _copy_keys(copy: apsw.Connection, head: Position) -> Iterator[Progress]:
    hashed, position, count = _HASH_LOW, 0, 0
    bounds = {"head": head, "limit": STEP_ROWS}
    while copied := _copy(copy, QUERIES["copy_keys"], hash=hashed, position=position, **bounds):
        ((hashed, position),) = fetch(copy, QUERIES["last_key"])
        count += copied
        # Hashes are spread evenly, so the last one gives the fraction that is done.
        total = round(count * _HASHES / (hashed - _HASH_LOW + 1))
        yield Progress(count, max(count, total), "copying keys", "key")


def _copy(copy: apsw.Connection, query: str, **bindings: int) -> int:
    """Copy some rows; return their number."""
    copy.execute(query, bindings)
    return copy.changes()

"""Backup: copy of a ledger into a folder of its own, closed.

The process that has the ledger open copies it with the connection that writes, a few pages between
one append and the next: SQLite then carries each later append into the copy by itself, where a copy
made by any other connection would have to begin again with every append. So a backup holds all
facts appended before its last step. online_copy.py makes a copy from another process; a restore
copies a closed ledger (offline.py).

The file gets its final name only when it is complete and verified. Until then, and from the start,
the folder holds a part under another name, and cannot be opened as a ledger.
"""

import os
from pathlib import Path

import apsw

from rankd.adapters.sqlite.database import (
    COPYING,
    FILE,
    PART,
    content_of,
    listed,
    mark,
    prepare,
    sync_folder,
    translated_errors,
)
from rankd.errors import FieldError, InvalidRequest, LedgerUnavailable
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

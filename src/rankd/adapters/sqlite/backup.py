"""A second copy of a ledger, made by the process that has it open while it goes on.

The copy is made by the connection that writes, a few pages between one append and the next:
SQLite then carries each later append into the copy by itself, where a copy made by any other
connection would have to begin again with every append. So a backup holds all that was appended
before its last step. How another process makes one is in transcription.py.

A backup is a folder with a ledger in it, closed. To restore is to copy it into an empty folder.
Neither is called done before the copy was read from end to end and its chain found whole.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import apsw

from rankd.adapters.sqlite.database import (
    FILE,
    PRIVATE_FILE,
    prepare,
    refuse_if_unfinished,
    sync_folder,
    translated_errors,
)
from rankd.errors import FieldError, InvalidRequest, LedgerCorrupt
from rankd.ports import Progress

STEP_PAGES = 256
"""A megabyte: an append never waits longer than for that."""

PART = f"{FILE}.part"
"""The copy until it is whole: whoever finds it knows that something was cut short."""


class RunningBackup:
    """The copying of one database into a folder, in steps, on the thread of its connection."""

    def __init__(self, source: apsw.Connection, folder: Path) -> None:
        insist_on_empty(folder)
        self._folder = folder
        self._target = apsw.Connection(str(folder / PART))
        (folder / PART).chmod(PRIVATE_FILE)
        self._target.pragma("synchronous", "OFF")  # Synced once, when it is whole.
        self._backup = self._target.backup("main", source, "main")

    def step(self) -> Progress | None:
        """Copy a few pages; return how far it is, or None once the copy is whole and synced."""
        if not self._backup.done:
            self._backup.step(STEP_PAGES)
            total = self._backup.page_count
            return Progress(total - self._backup.remaining, total, "copying")
        self.close()
        keep(self._folder)
        return None

    def close(self) -> None:
        """Let go. Before the end, this leaves only the part behind."""
        self._backup.close(force=True)
        self._target.close()


def keep(folder: Path) -> None:
    """Make a finished copy durable and give it its name."""
    part = folder / PART
    with part.open("r+b") as copy:
        os.fsync(copy.fileno())
    part.rename(folder / FILE)
    sync_folder(folder)


def copying(source: Path, folder: Path) -> Iterator[Progress]:
    """Copy a closed ledger's file into a folder, and tell after each step how far it is."""
    with translated_errors():
        refuse_if_unfinished(source)
        if (source / f"{FILE}-wal").exists() or (source / PART).exists():
            raise LedgerCorrupt(f"{source} is not a finished backup")
        total = (source / FILE).stat().st_size
        insist_on_empty(folder)
        with (source / FILE).open("rb") as whole, (folder / PART).open("wb") as copy:
            (folder / PART).chmod(PRIVATE_FILE)
            while data := whole.read(STEP_PAGES * 4_096):
                copy.write(data)
                yield Progress(copy.tell(), total, "copying")
        keep(folder)


def insist_on_empty(folder: Path) -> None:
    """Make the folder if it is missing. Raises InvalidRequest if it holds a ledger already."""
    torn, taken = "what is left of a copy that was cut short", "a ledger already"
    for name, what in ((PART, torn), (FILE, taken), (f"{FILE}-wal", taken)):
        if (folder / name).exists():
            problem = f"{folder} holds {what} ({name}); name an empty one"
            raise InvalidRequest([FieldError("folder", problem)])
    prepare(folder).release()

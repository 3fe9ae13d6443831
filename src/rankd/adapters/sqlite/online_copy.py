"""Online copy of a ledger that another process writes, made row by row.

A copy of its pages needs one snapshot for the whole copy, which keeps the WAL from being emptied:
it would grow all the while, by a page for nearly every key. But a ledger only grows at its end. The
head at the start defines the rows of the copy, and these never change, so they are read a few at a
time. No read lasts long, and between two of them is a pause in which the writer can empty its WAL.

Only the players change in place, and recent keys move to their table; both are read together with
the head, in one transaction.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import apsw

from rankd.adapters.sqlite.backup import CopyFolder
from rankd.adapters.sqlite.database import attach_read_only, translated_errors
from rankd.adapters.sqlite.migration import migrate
from rankd.adapters.sqlite.queries import QUERIES, fetch
from rankd.model.facts import Position
from rankd.ports import Progress

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

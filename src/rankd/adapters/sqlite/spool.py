"""Submissions stored on this node's disk while a remote ledger is unreachable.

The spool is a file of its own, synced with every commit like a ledger. It is locked, because two
nodes with one spool would submit each other's facts.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import apsw

from rankd.adapters.sqlite.database import (
    PRIVATE_FILE,
    DatabaseThread,
    FolderLock,
    prepare,
    translated,
)
from rankd.errors import LedgerUnavailable
from rankd.model.facts import Fact, decode, encode

FOLDER = "spool"
FILE = "spool.db"

WAITING_FACTS_MAX = 1_000_000
"""Some hundred megabytes, and a minute to submit. Further ones are refused: the outage has gone
unnoticed."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS waiting (
    place INTEGER PRIMARY KEY,
    kind  TEXT NOT NULL,
    body  BLOB NOT NULL
) STRICT
"""


class SpoolFile:
    """Spool in a folder, for one process at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lane = DatabaseThread("spool")
        self._lock: FolderLock | None = None
        self._waiting = 0

    @classmethod
    @asynccontextmanager
    async def open(cls, folder: Path) -> AsyncIterator["SpoolFile"]:
        """Open the spool in a folder, or begin one there. Raises LedgerInUse."""
        spool = cls(folder)
        try:
            await spool._lane.open(spool._connect)
            spool._waiting = await spool._lane.run(_count)
            yield spool
        finally:
            await spool._lane.close()
            if spool._lock is not None:
                spool._lock.release()

    def _connect(self) -> apsw.Connection:
        self._lock = prepare(self._folder)
        database = apsw.Connection(str(self._folder / FILE))
        (self._folder / FILE).chmod(PRIVATE_FILE)
        database.pragma("journal_mode", "WAL")
        database.pragma("synchronous", "FULL")
        if database.pragma("synchronous") != 2:
            raise LedgerUnavailable("the spool cannot be synced", applied="no")
        database.execute(_SCHEMA)
        return database

    @property
    def waiting(self) -> int:
        return self._waiting

    async def put(self, facts: Sequence[Fact]) -> None:
        if self._waiting + len(facts) > WAITING_FACTS_MAX:
            raise LedgerUnavailable("the spool is full", applied="no")
        await self._lane.run(partial(_put, facts=facts))
        self._waiting += len(facts)

    async def first(self, limit: int) -> tuple[int, Sequence[Fact]]:
        rows = await self._lane.run(partial(_first, limit=limit))
        return (rows[-1][0] if rows else 0), [decode(kind, body) for _, kind, body in rows]

    async def drop(self, through: int) -> None:
        await self._lane.run(partial(_drop, through=through))
        self._waiting = await self._lane.run(_count)


def _count(database: apsw.Connection) -> int:
    return int(next(database.execute("SELECT count(*) FROM waiting"))[0])


def _put(database: apsw.Connection, facts: Sequence[Fact]) -> None:
    """Store all or none. After an error of COMMIT the outcome is unknown: they may be stored."""
    database.execute("BEGIN IMMEDIATE")
    try:
        rows = map(encode, facts)
        database.executemany("INSERT INTO waiting (kind, body) VALUES (?, ?)", rows)
    except BaseException:
        database.execute("ROLLBACK")
        raise
    try:
        database.execute("COMMIT")
    except apsw.Error as exc:
        raise translated(exc, applied="unknown") from exc


def _first(database: apsw.Connection, limit: int) -> list[tuple[int, str, bytes]]:
    query = "SELECT place, kind, body FROM waiting ORDER BY place LIMIT ?"
    return list(database.execute(query, (limit,)))


def _drop(database: apsw.Connection, through: int) -> None:
    database.execute("DELETE FROM waiting WHERE place <= ?", (through,))

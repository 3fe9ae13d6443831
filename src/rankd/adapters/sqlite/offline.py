"""Reader of a ledger that no process has open. It writes nothing.

The ledger may be a backup on a read-only disk. While it is read, other processes can read it too,
and none can open it for writing.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import apsw

from rankd.adapters.sqlite.database import (
    FILE,
    connect_closed,
    insist_on_ledger,
    lock_against_writers,
)
from rankd.adapters.sqlite.ledger import backing_up, verifying
from rankd.adapters.sqlite.read_only import ReadOnlyLedger
from rankd.ports import Progress


class OfflineLedger(ReadOnlyLedger):
    """LedgerReader of a folder that no process has open."""

    @classmethod
    @asynccontextmanager
    async def open(cls, folder: Path) -> AsyncIterator["OfflineLedger"]:
        """Open the ledger in a folder to read. Raises NoLedger, LedgerNotCopied, LedgerInUse."""
        insist_on_ledger(folder)
        ledger = cls(folder)
        with lock_against_writers(folder):
            await ledger._lane.open(ledger._connect)
            try:
                yield ledger
            finally:
                await ledger._players.close()
                await ledger._lane.close()

    def _connection(self) -> Callable[[], apsw.Connection]:
        return self._connect

    @property
    def _connect(self) -> partial[apsw.Connection]:
        return partial(connect_closed, self._folder / FILE)

    async def verify(self) -> AsyncIterator[Progress]:
        """Check everything, SQLite's own structures included."""
        async for progress in verifying(self._connect, None):
            yield progress

    async def backup(self, folder: Path) -> AsyncIterator[Progress]:
        """Copy the ledger into an empty folder, and verify the copy."""
        async for progress in backing_up(self._lane, folder):
            yield progress

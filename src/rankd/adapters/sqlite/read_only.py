"""Read-only ledger: reads a ledger that another process writes, or that none has open.

SQLite lets any number of processes read a file in WAL mode while one writes. Only the writer has
the folder's lock; readers need none, and see each commit once it is complete.

Long operations read a little at a time: during a read, the writer cannot empty its WAL.

A ledger that no process has open may be a backup on a read-only disk. While it is read, other
processes can read it too, and none can open it for writing.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

import apsw

from rankd.adapters.sqlite.backup import CopyFolder, transcribing
from rankd.adapters.sqlite.blocks import BlockReader, recorded_at
from rankd.adapters.sqlite.database import (
    FILE,
    DatabaseThread,
    connect_closed,
    connect_reader,
    insist_on_ledger,
    insist_on_our_version,
    lock_against_writers,
    stepwise,
)
from rankd.adapters.sqlite.ledger import (
    backing_up,
    lacking_receipts,
    last_position,
    look_for,
    used_before,
    verifying,
)
from rankd.adapters.sqlite.player_facts import PlayerFactsReader, question
from rankd.adapters.sqlite.queries import QUERIES, fetch
from rankd.adapters.sqlite.recent_keys import RecentKeys, hash_of
from rankd.model.facts import Identity, Position, Recorded
from rankd.ports import FirstUse, Progress

T = TypeVar("T")


class ReadOnlyLedger:
    """LedgerReader of a folder that another process has open."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lane = DatabaseThread("follower")
        self._in_order = BlockReader()
        self._players = PlayerFactsReader(folder, self._connection)

    @classmethod
    @asynccontextmanager
    async def open(cls, folder: Path) -> AsyncIterator["ReadOnlyLedger"]:
        """Open the ledger in a folder for reading."""
        insist_on_ledger(folder)
        followed = cls(folder)
        await followed._lane.open(partial(connect_reader, folder))
        try:
            await followed._run(partial(insist_on_our_version, folder))
            yield followed
        finally:
            await followed._players.close()
            await followed._lane.close()

    def _connection(self) -> Callable[[], apsw.Connection]:
        return partial(connect_reader, self._folder)

    async def read(self, *, after: Position, limit: int) -> Sequence[Recorded]:
        return await self._run(partial(self._in_order.read, after=after, limit=limit))

    async def read_at(self, positions: Sequence[Position]) -> Sequence[Recorded]:
        return await self._run(lambda database: list(recorded_at(database, positions)))

    async def facts_of(
        self,
        *,
        board: str | None,
        player: str,
        after: Position | None = None,
        before: Position | None,
        limit: int,
        newest_first: bool = True,
    ) -> Sequence[Recorded]:
        asked = question(player, board, after, before, newest_first=newest_first)
        return await self._players.find(asked, limit)

    async def head(self) -> Position:
        return await self._run(last_position)

    async def first_use(self, *, board: str, key: str) -> FirstUse | None:
        names = {Identity(board, key): hash_of(board, key)}
        head, recent = await self.head(), RecentKeys()
        found = await self._run(partial(used_before, recent=recent, head=head, names=names))
        return found.get(Identity(board, key))

    async def receipts_through(self) -> Position:
        ((last,),) = await self._run(partial(fetch, query=QUERIES["last_receipt"]))
        return Position(last)

    async def lacking_receipts(self, positions: Sequence[Position]) -> Sequence[Position]:
        return await self._run(partial(lacking_receipts, positions=positions))

    async def changed(self, *, after: Position, within_seconds: float) -> None:
        await look_for(self.head, after=after, within_seconds=within_seconds)

    async def link_at(self, position: Position) -> bytes | None:
        rows = await self._run(partial(fetch, query=QUERIES["read_link"], position=position))
        return rows[0][0] if rows else None

    # ---------------------------------------------------------------------------- care

    async def verify(self) -> AsyncIterator[Progress]:
        """Check everything up to the current head, except SQLite's own structures."""
        head = await self.head()
        connect = partial(connect_reader, self._folder)
        async for progress in verifying(connect, head, structures=False):
            yield progress

    async def backup(self, folder: Path) -> AsyncIterator[Progress]:
        """Copy everything up to the current head into an empty folder, and verify the copy."""
        into = CopyFolder(folder)
        try:
            async for progress in stepwise(transcribing(self._folder, into)):
                yield progress
            async for progress in verifying(partial(connect_closed, into.part), None):
                yield progress
            into.keep()
        finally:
            into.close()

    async def _run(self, work: Callable[[apsw.Connection], T]) -> T:
        return await self._lane.run(work)


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

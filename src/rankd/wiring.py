"""The only module that knows both core and adapters. It builds, and decides nothing."""

from collections.abc import AsyncIterator, Callable
from contextlib import (
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
)
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from rankd.adapters.memory.index import NativeIndex
from rankd.adapters.memory.ledger import MemoryLedger
from rankd.adapters.memory.snapshot import SnapshotFolder
from rankd.adapters.sqlite import SQLiteLedger
from rankd.adapters.sqlite.following import FollowedLedger
from rankd.core.follower import Follower, following
from rankd.core.recovery import Build, Home
from rankd.core.service import Rankd, running
from rankd.ports import Clock, Ledger, LedgerReader, Progress

INDEX = "index"
"""The folder of the saved index, beside the ledger. It can be removed: it is folded again."""

Folder = str | PathLike[str]


def building(saved: Path | None) -> Build:
    """Return what makes an empty index, and where it is kept if anywhere."""

    def build() -> Home:
        index = NativeIndex()
        return Home(index, None if saved is None else SnapshotFolder(saved, index))

    return build


@asynccontextmanager
async def followed(
    folder: Folder, *, clock: Clock, tell: Callable[[Progress], None]
) -> AsyncIterator[tuple[Follower, LedgerReader]]:
    """Follow the ledger that another process writes, with an index of one's own."""
    async with FollowedLedger.open(Path(folder)) as ledger:
        build = building(Path(folder) / INDEX)
        async with following(ledger=ledger, build=build, clock=clock, tell=tell) as follower:
            yield follower, ledger


@dataclass(frozen=True, slots=True)
class Engine:
    """A running engine, and what only its ledger can do."""

    rankd: Rankd
    ledger: Ledger
    durable: bool
    """Whether anything outlives the process."""
    backup: Callable[[Path], AsyncIterator[Progress]] | None
    """Copies the ledger into an empty folder while it goes on; None in memory."""


@asynccontextmanager
async def engine(
    folder: Folder | None,
    *,
    clock: Clock,
    reading: AbstractContextManager[Any],
    tell: Callable[[Progress], None],
) -> AsyncIterator[Engine]:
    """Build the engine of one process: SQLite in a folder, or memory, and the native index."""
    async with AsyncExitStack() as stack:
        ledger: Ledger
        saved: Path | None = None
        backup = None
        if folder is None:
            ledger = MemoryLedger()
        else:
            on_disk = await stack.enter_async_context(SQLiteLedger.open(Path(folder)))
            ledger, saved, backup = on_disk, Path(folder) / INDEX, on_disk.backup

        rankd = await stack.enter_async_context(
            running(ledger=ledger, build=building(saved), clock=clock, reading=reading, tell=tell)
        )
        yield Engine(rankd, ledger, ledger.durable, backup)


def restoration(backup: Folder, folder: Folder) -> AsyncIterator[Progress]:
    """Copy a backup into an empty folder, and verify the copy."""
    return SQLiteLedger.restore(Path(backup), Path(folder))

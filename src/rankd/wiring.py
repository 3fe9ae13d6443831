"""The only module that knows both core and adapters. It builds, and decides nothing."""

from collections.abc import AsyncIterator, Callable
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
)
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING, Any

from rankd.adapters.memory.index import NativeIndex
from rankd.adapters.memory.ledger import MemoryLedger
from rankd.adapters.memory.snapshot import SnapshotFolder
from rankd.adapters.sqlite import SQLiteLedger
from rankd.adapters.sqlite.following import FollowedLedger
from rankd.adapters.sqlite.spool import FOLDER as SPOOL
from rankd.adapters.sqlite.spool import SpoolFile
from rankd.core.follower import Follower, following
from rankd.core.recovery import Build, Home, Shared
from rankd.core.service import Rankd, running
from rankd.errors import InvalidSetting
from rankd.ports import Clock, Ledger, LedgerReader, Progress, SharedIndex
from rankd.settings import Settings

if TYPE_CHECKING:
    from rankd.adapters.postgres import PostgresLedger

INDEX = "index"
"""The folder of the saved index, beside the ledger. It can be removed: it is folded again."""

SQLITE, NATIVE = "sqlite", "native"
POSTGRESQL = ("postgresql://", "postgres://")
"""What the URL of a ledger in PostgreSQL begins with."""
REDIS = ("redis://", "rediss://", "redis+sentinel://", "redis+cluster://")
"""What the URL of an index in Redis or Valkey begins with."""

Folder = str | PathLike[str]


def building(saved: Path | None) -> Build:
    """Return what makes an empty index, and where it is kept if anywhere."""

    def build() -> Home:
        index = NativeIndex()
        return Home(index, None if saved is None else SnapshotFolder(saved, index))

    return build


@dataclass(frozen=True, slots=True)
class Place:
    """Where an engine keeps what."""

    folder: Path | None
    """Of the ledger, unless that is elsewhere, and of the saved index; None keeps nothing here."""
    ledger: str = SQLITE
    """How the ledger is reached: in the folder, or by a URL."""
    index: str = NATIVE
    """How the index is reached: in this process, or by a URL."""
    spare: bool = False
    """Whether a copy of an index elsewhere is kept in this process."""
    spool: bool = False
    """Whether submissions wait in the folder while a ledger elsewhere cannot be reached."""
    node: str = ""
    """Who appends here, in a ledger that several append to."""

    @classmethod
    def of(cls, named: Folder | None) -> "Place":
        """Return the place that a caller names: a folder, the URL of a ledger, or nothing."""
        if isinstance(named, str) and named.startswith(POSTGRESQL):
            return cls(None, named)
        return cls(None if named is None else Path(named))

    @classmethod
    def chosen(cls, settings: Settings) -> "Place":
        """Return the place that settings name. Raises InvalidSetting."""
        if settings.spool and settings.ledger == SQLITE:
            raise InvalidSetting(
                setting="spool",
                source="the settings",
                problem="a ledger on this disk has nothing to wait for",
            )
        if settings.ledger != SQLITE and not settings.ledger.startswith(POSTGRESQL):
            raise _unknown("ledger", f"{SQLITE}, or a URL that begins with {POSTGRESQL[0]}")
        if settings.index != NATIVE and not settings.index.startswith(REDIS):
            raise _unknown("index", f"{NATIVE}, or a URL of {', '.join(REDIS)}")
        node = settings.node or gethostname()
        data = Path(settings.data)
        return cls(
            data, settings.ledger, settings.index, settings.spare_index, settings.spool, node
        )

    @property
    def saved(self) -> Path | None:
        """Where the index is saved."""
        return None if self.folder is None else self.folder / INDEX


def _unknown(setting: str, accepted: str) -> InvalidSetting:
    return InvalidSetting(setting=setting, source="the settings", problem=f"must be {accepted}")


@asynccontextmanager
async def followed(
    place: Place, *, clock: Clock, tell: Callable[[Progress], None]
) -> AsyncIterator[tuple[Follower, LedgerReader]]:
    """Follow the ledger that another process writes, with an index of one's own."""
    async with AsyncExitStack() as stack:
        ledger: LedgerReader
        if place.ledger != SQLITE:
            ledger = await stack.enter_async_context(_postgres(place))
        else:
            assert place.folder is not None, "a ledger in memory is followed by nobody"
            ledger = await stack.enter_async_context(FollowedLedger.open(place.folder))
        build = building(place.saved)
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
    """Copies the ledger into an empty folder while it goes on; None where others see to that."""


@asynccontextmanager
async def engine(
    place: Place,
    *,
    clock: Clock,
    reading: AbstractContextManager[Any],
    tell: Callable[[Progress], None],
    manages: bool = True,
) -> AsyncIterator[Engine]:
    """Build the engine of one process over the ledger and the index at a place."""
    async with AsyncExitStack() as stack:
        ledger: Ledger
        backup = archive = None
        if place.ledger != SQLITE:
            ledger = archive = await stack.enter_async_context(_postgres(place))
        elif place.folder is None:
            ledger = MemoryLedger()
        else:
            ledger = on_disk = await stack.enter_async_context(SQLiteLedger.open(place.folder))
            backup = on_disk.backup
        shared = None
        if place.index != NATIVE:
            index = await stack.enter_async_context(_redis(place))
            shared = Shared(index, place.spare)
        spool = None
        if place.spool and place.folder is not None:
            spool = await stack.enter_async_context(SpoolFile.open(place.folder / SPOOL))
        rankd = await stack.enter_async_context(
            running(
                ledger=ledger,
                build=building(None if shared else place.saved),
                clock=clock,
                reading=reading,
                tell=tell,
                shared=shared,
                spool=spool,
                archive=archive,
                manages=manages,
            )
        )
        yield Engine(rankd, ledger, ledger.durable, backup)


def _postgres(place: Place) -> "AbstractAsyncContextManager[PostgresLedger]":
    """Open a ledger in PostgreSQL, whose driver is not everybody's."""
    try:
        from rankd.adapters.postgres import PostgresLedger
    except ImportError as exc:
        raise InvalidSetting(
            setting="ledger",
            source="the settings",
            problem="PostgreSQL needs its driver: pip install 'rankd[postgres]'",
        ) from exc
    return PostgresLedger.open(place.ledger, node=place.node)


def _redis(place: Place) -> AbstractAsyncContextManager[SharedIndex]:
    """Open an index in Redis, whose driver is not everybody's."""
    try:
        from rankd.adapters.redis import RedisIndex
    except ImportError as exc:
        raise InvalidSetting(
            setting="index",
            source="the settings",
            problem="Redis needs its driver: pip install 'rankd[redis]'",
        ) from exc
    return RedisIndex.open(place.index)


def restoration(backup: Folder, folder: Folder) -> AsyncIterator[Progress]:
    """Copy a backup into an empty folder, and verify the copy."""
    return SQLiteLedger.restore(Path(backup), Path(folder))

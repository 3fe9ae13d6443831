"""Build an engine from settings. The only module that knows both the core and the adapters."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    closing,
    contextmanager,
)
from dataclasses import dataclass, replace
from os import PathLike, getpid
from pathlib import Path
from shlex import quote
from shutil import rmtree
from socket import gethostname
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

from rankd.adapters.http_sender import HttpSender
from rankd.adapters.memory.archive_store import ArchiveStore
from rankd.adapters.memory.index import NativeIndex
from rankd.adapters.memory.index_archives import IndexArchives
from rankd.adapters.memory.ledger import MemoryLedger
from rankd.adapters.memory.snapshot_folder import SnapshotFolder
from rankd.adapters.sqlite import SQLiteLedger
from rankd.adapters.sqlite.database import FILE, holds_ledger
from rankd.adapters.sqlite.database import insist_on_ledger as insist_on_folder
from rankd.adapters.sqlite.read_only import OfflineLedger, ReadOnlyLedger
from rankd.adapters.sqlite.spool import FOLDER as SPOOL
from rankd.adapters.sqlite.spool import SpoolFile
from rankd.core.assembly import running
from rankd.core.certificates import Certificate, check_certificate
from rankd.core.cluster.recovery import FILLED_ENTRIES_MAX, SharedHome
from rankd.core.cluster.top_lists import TopListSettings
from rankd.core.engine import Engine, verify_saved
from rankd.core.follower import Follower, following
from rankd.core.movement import MOVEMENT_ENTRIES_MAX
from rankd.core.past import PAST_LIMITS, PastLimits
from rankd.core.recovery import Build, IndexHome, folded, restored, save
from rankd.core.segment_values import SEGMENT_VALUES_MAX
from rankd.core.steady_clock import LASTING_SECONDS
from rankd.core.supervisor import Supervisor
from rankd.core.transfer import Transfer, insist_on_copied
from rankd.errors import InvalidSetting, LedgerInUse
from rankd.model.facts import Position
from rankd.model.window import Instant
from rankd.ports import (
    Clock,
    CopyTarget,
    Finding,
    Ledger,
    LedgerReader,
    Progress,
    SharedIndex,
    Verifier,
)
from rankd.settings import Settings

if TYPE_CHECKING:
    from rankd.adapters.postgres import PostgresLedger
    from rankd.analytics.archive import ArchiveResult

ARCHIVES = "archives"
"""The folder of the archives of sealed windows, in that of the saved index."""

FOLLOWERS = "archives-of-workers"
"""Beside it, a folder for each process that follows the ledger: links to the same files."""

INDEX = "index"
"""The folder of the saved index, beside the ledger. If removed, it is folded again."""

SQLITE, NATIVE = "sqlite", "native"
POSTGRESQL = ("postgresql://", "postgres://")
"""The schemes of a ledger in PostgreSQL."""
REDIS = ("redis://", "rediss://", "redis+sentinel://", "redis+cluster://")
"""The schemes of an index in Redis or Valkey."""
REPLICATED = ("redis+sentinel://", "redis+cluster://")
"""Those of them under which there are replicas."""

COPY_SILENCE_SECONDS = 60.0
"""Seconds that a server may take for a batch of copied facts: no client waits for it."""

Folder = str | PathLike[str]


def building(saved: Path | None, archives: ArchiveStore | None = None) -> Build:
    """Return a function that makes an empty native index, saved in a folder if one is given."""
    store = archives or ArchiveStore()

    def build() -> IndexHome:
        index = NativeIndex(archives=store)
        snapshots = None if saved is None else SnapshotFolder(saved, index)
        return IndexHome(index, snapshots, IndexArchives(index))

    return build


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """The locations of an engine's ledger and index, and the settings that depend on them."""

    folder: Path | None
    """The folder of the saved index and of an SQLite ledger; None stores nothing on this disk."""
    ledger: str = SQLITE
    """SQLITE for the folder, or a URL."""
    index: str = NATIVE
    """NATIVE for this process, or a URL."""
    spare: bool = False
    """Whether this process keeps a native copy of a shared index."""
    spool: bool = False
    """Whether submissions wait in the folder while the ledger cannot be reached."""
    silence_seconds: float = 1.0
    """Seconds that a ledger on a server may leave an append unanswered until it counts as lost."""
    disk_silence_seconds: float | None = None
    """The same for a ledger on this disk; None to wait for as long as it takes."""
    node: str = ""
    """This node's name in a ledger that several nodes append to."""
    top_list_entries: int = 1_000
    """Entries of each ranking in its top list, which is stored beside the ledger; 0 for no lists.
    """
    top_list_seconds: float = 10.0
    """Refresh a top list after this many seconds."""
    replica_reads: tuple[str, ...] = ()
    """Boards that may be read from replicas of a shared index."""
    clock_step_seconds: float = LASTING_SECONDS
    """Seconds that a step of the clock must last before ledger time follows it."""
    segment_values_max: int = SEGMENT_VALUES_MAX
    """The maximum number of values of one segment of a board."""
    webhook_private_addresses: bool = False
    """Whether requests may be sent to private addresses."""
    filled_entries_max: int = FILLED_ENTRIES_MAX
    """The maximum number of entries of a shared index that this process rebuilds in memory."""
    past: PastLimits = PAST_LIMITS
    """The work and the memory that past standings may take."""
    movement_entries_max: int = MOVEMENT_ENTRIES_MAX
    """The maximum number of entries of the start of the day in memory, for movement."""

    @classmethod
    def of(cls, named: "Folder | EngineConfig | None") -> "EngineConfig":
        """Return the configuration for a folder, for the URL of a ledger, or for neither (None)."""
        if isinstance(named, EngineConfig):
            return named
        if isinstance(named, str) and named.startswith(POSTGRESQL):
            return cls(None, named)
        return cls(None if named is None else Path(named))

    @classmethod
    def chosen(cls, settings: Settings) -> "EngineConfig":
        """Return the configuration from settings. Raises InvalidSetting."""
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
        if settings.workers > 1 and settings.index != NATIVE:
            raise InvalidSetting(
                setting="workers",
                source="the settings",
                problem="each worker has an index of its own; over a shared one start several "
                "nodes instead, each with its own --node and --port",
            )
        if settings.replica_reads and not settings.index.startswith(REPLICATED):
            raise InvalidSetting(
                setting="replica_reads",
                source="the settings",
                problem=f"an index has replicas at a URL of {', '.join(REPLICATED)}",
            )
        return cls(
            folder=Path(settings.data),
            ledger=settings.ledger,
            index=settings.index,
            spare=settings.spare_index,
            spool=settings.spool,
            silence_seconds=settings.ledger_silence_seconds,
            disk_silence_seconds=settings.ledger_silence_seconds,
            node=settings.node or gethostname(),
            top_list_entries=settings.top_list_entries,
            top_list_seconds=settings.top_list_seconds,
            replica_reads=settings.replica_reads,
            filled_entries_max=settings.filled_entries_max,
            clock_step_seconds=settings.clock_step_seconds,
            segment_values_max=settings.segment_values_max,
            webhook_private_addresses=settings.webhook_private_addresses,
            past=PastLimits(settings.past_facts_max, settings.past_entries_max),
            movement_entries_max=settings.movement_entries_max,
        )

    @property
    def saved(self) -> Path | None:
        """The folder of the saved index."""
        return None if self.folder is None else self.folder / INDEX


def _unknown(setting: str, accepted: str) -> InvalidSetting:
    return InvalidSetting(setting=setting, source="the settings", problem=f"must be {accepted}")


@asynccontextmanager
async def followed(
    place: EngineConfig,
    *,
    clock: Clock,
    tell: Callable[[Progress], None],
    unwritten: bool = False,
) -> AsyncIterator[tuple[Follower, LedgerReader]]:
    """Follow the ledger that another process writes, with an index of this process.

    With ``unwritten``, there need not be such a process.
    """
    supervisor = Supervisor()
    async with AsyncExitStack() as stack:
        ledger: LedgerReader
        if place.ledger != SQLITE:
            ledger = await stack.enter_async_context(_postgres(place, supervisor))
        else:
            assert place.folder is not None, "a ledger in memory is followed by nobody"
            opening = alone(place.folder) if unwritten else ReadOnlyLedger.open(place.folder)
            ledger = await stack.enter_async_context(opening)
        archives = stack.enter_context(_follower_archives(place.saved, links=not unwritten))
        build = building(place.saved, archives)
        follower = await stack.enter_async_context(
            following(
                ledger=ledger,
                build=build,
                clock=clock,
                tell=tell,
                supervisor=supervisor,
                lasting_seconds=place.clock_step_seconds,
            )
        )
        follower.grant(place.past, place.movement_entries_max)
        yield follower, ledger


@contextmanager
def _own_archives(saved: Path | None) -> Iterator[ArchiveStore]:
    """Open the archives of the process that writes, and remove those that workers left."""
    folder = None if saved is None else saved / ARCHIVES
    if saved is not None:
        rmtree(saved / FOLLOWERS, ignore_errors=True)
    with closing(ArchiveStore(folder, own=folder)) as store:
        yield store


@contextmanager
def _follower_archives(saved: Path | None, *, links: bool) -> Iterator[ArchiveStore]:
    """Open the archives of a process that follows the ledger; with links in a folder of its own."""
    if saved is None or not links:
        with closing(ArchiveStore(None if saved is None else saved / ARCHIVES)) as store:
            yield store
        return
    own = saved / FOLLOWERS / str(getpid())
    try:
        with closing(ArchiveStore(saved / ARCHIVES, own=own)) as store:
            yield store
    finally:
        rmtree(own, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class RunningEngine:
    """A running engine with its ledger."""

    rankd: Engine
    ledger: Ledger
    durable: bool
    """Whether the ledger outlives the process."""
    backup: Callable[[Path], AsyncIterator[Progress]] | None
    """Copies the ledger into an empty folder while it is in use; None unless it is in SQLite."""


@asynccontextmanager
async def engine(
    place: EngineConfig,
    *,
    clock: Clock,
    reading: AbstractContextManager[Any],
    tell: Callable[[Progress], None],
    manages: bool = True,
    verifiers: Mapping[str, Verifier] | None = None,
) -> AsyncIterator[RunningEngine]:
    """Build the engine of one process over its ledger and its index."""
    supervisor = Supervisor()
    async with AsyncExitStack() as stack:
        ledger: Ledger
        backup = archive = copies = listing = None
        if place.ledger != SQLITE:
            ledger = archive = kept = await stack.enter_async_context(_postgres(place, supervisor))
            await _insist_on_facts_of_folder(place, ledger)
            copies = kept.copies
            if place.top_list_entries:
                listing = TopListSettings(kept, place.top_list_entries, place.top_list_seconds)
        elif place.folder is None:
            ledger = MemoryLedger()
        else:
            ledger = on_disk = await stack.enter_async_context(SQLiteLedger.open(place.folder))
            backup = on_disk.backup
        shared = None
        if place.index != NATIVE:
            index = await stack.enter_async_context(_redis(place))
            shared = SharedHome(
                index, place.spare, copies, place.replica_reads, place.filled_entries_max
            )
        spool = None
        if place.spool and place.folder is not None:
            spool = await stack.enter_async_context(SpoolFile.open(place.folder / SPOOL))
        saved = None if shared else place.saved
        archives = stack.enter_context(_own_archives(saved))
        rankd = await stack.enter_async_context(
            running(
                ledger=ledger,
                build=building(saved, archives),
                clock=clock,
                reading=reading,
                tell=tell,
                shared=shared,
                spool=spool,
                archive=archive,
                listing=listing,
                manages=manages,
                supervisor=supervisor,
                verifiers=verifiers,
                sender=HttpSender(private_addresses=place.webhook_private_addresses),
                lasting_seconds=place.clock_step_seconds,
                segment_values_max=place.segment_values_max,
                silence_seconds=place.disk_silence_seconds,
            )
        )
        rankd.grant(place.past, place.movement_entries_max)
        yield RunningEngine(rankd, ledger, ledger.durable, backup)


def _postgres(
    place: EngineConfig, supervisor: Supervisor, *, copying: bool = False
) -> "AbstractAsyncContextManager[PostgresLedger]":
    """Open a ledger in PostgreSQL. Its driver is optional, so it is imported here."""
    try:
        from rankd.adapters.postgres import PostgresLedger, Timeouts
    except ImportError as exc:
        raise InvalidSetting(
            setting="ledger",
            source="the settings",
            problem="PostgreSQL needs its driver: pip install asyncpg",
        ) from exc
    timeouts = Timeouts.of_silence(place.silence_seconds)
    return PostgresLedger.open(
        place.ledger,
        node=place.node,
        timeouts=timeouts,
        copying=copying,
        start=supervisor.start,
    )


def _redis(place: EngineConfig) -> AbstractAsyncContextManager[SharedIndex]:
    """Open an index in Redis. Its driver is optional, so it is imported here."""
    try:
        from rankd.adapters.redis import RedisIndex
    except ImportError as exc:
        raise InvalidSetting(
            setting="index",
            source="the settings",
            problem="Redis needs its driver: pip install 'redis[hiredis]'",
        ) from exc
    return RedisIndex.open(place.index, replica_reads=bool(place.replica_reads))


async def examined(place: EngineConfig) -> list[Finding]:
    """Check the servers of a configuration without changing anything. Raises RankdError."""
    findings: list[Finding] = []
    if place.ledger != SQLITE:
        _postgres(place, Supervisor())  # Raises if the driver is missing.
        from rankd.adapters.postgres import examine as examine_postgres

        findings += await examine_postgres(place.ledger)
    if place.index != NATIVE:
        _redis(place)
        from rankd.adapters.redis import examine as examine_redis

        findings += await examine_redis(place.index)
    return findings


class LedgerTimes(NamedTuple):
    """The times of a ledger."""

    recorded: Instant | None
    """The time of the last fact; None if there is none."""
    server: Instant | None
    """The time on its server; None for a ledger on this machine."""


async def times_of(place: EngineConfig) -> LedgerTimes:
    """Return the times of a ledger without changing anything. Raises RankdError."""
    if place.folder is None:
        _postgres(place, Supervisor())  # Raises if the driver is missing.
        from rankd.adapters.postgres import times

        return LedgerTimes(*await times(place.ledger))
    if not holds_ledger(place.folder):
        return LedgerTimes(None, None)
    async with alone(place.folder) as ledger:
        facts = await ledger.read(after=Position(max(await ledger.head() - 1, 0)), limit=1)
        return LedgerTimes(facts[-1].at if facts else None, None)


@asynccontextmanager
async def alone(folder: Folder) -> AsyncIterator[ReadOnlyLedger]:
    """Open a folder's ledger read-only, without an engine, even while another process writes it."""
    async with AsyncExitStack() as stack:
        opened: ReadOnlyLedger
        try:
            opened = await stack.enter_async_context(OfflineLedger.open(Path(folder)))
        except LedgerInUse:
            opened = await stack.enter_async_context(ReadOnlyLedger.open(Path(folder)))
        yield opened


class VerifyResult(NamedTuple):
    """The result of a check that found nothing wrong."""

    position: Position
    """The position up to which the ledger was checked."""
    compared: bool
    """Whether the saved index was compared with the ledger."""


async def verify_folder(folder: Path, tell: Callable[[Progress], None]) -> VerifyResult:
    """Check the ledger and the saved index of a folder, and write nothing. Raises Corrupt.

    While a service has the folder open, the index is not compared: it is in that service's memory.
    """
    async with alone(folder) as ledger:
        position, closed = await ledger.head(), isinstance(ledger, OfflineLedger)
        async for progress in ledger.verify():
            tell(progress)
        if closed:
            saved = folder / INDEX
            with closing(ArchiveStore(saved / ARCHIVES)) as archives:
                async for progress in verify_saved(ledger, building(saved, archives), tell):
                    tell(progress)
    return VerifyResult(position, compared=closed)


async def verify_certificate(
    place: EngineConfig | Folder, certificate: Certificate, tell: Callable[[Progress], None]
) -> None:
    """Check a ledger, and a certificate against it. Raises Corrupt."""
    config = EngineConfig.of(place)
    async with AsyncExitStack() as stack:
        ledger: ReadOnlyLedger | CopyTarget
        if config.folder is not None:
            ledger = await stack.enter_async_context(alone(config.folder))
        else:
            ledger = await stack.enter_async_context(_copied(config))
        async for progress in ledger.verify():
            tell(progress)
        await check_certificate(ledger, building(None), certificate, tell)


async def archive(
    place: EngineConfig | Folder,
    target: str,
    *,
    state: Path | None,
    tell: Callable[[Progress], None],
) -> "ArchiveResult":
    """Add to an archive in Parquet the facts of a ledger that it lacks. Raises RankdError.

    ``state`` is the folder where the fold is saved between two runs; without one it begins anew.
    """
    from rankd.analytics.archive import write_archive
    from rankd.analytics.files import ArchiveFiles
    from rankd.analytics.outcomes import OutcomeFold

    config, files = EngineConfig.of(place), ArchiveFiles(target)
    async with AsyncExitStack() as stack:
        ledger: LedgerReader
        if config.folder is not None and config.ledger == SQLITE:
            ledger = await stack.enter_async_context(alone(config.folder))
        else:
            ledger = await stack.enter_async_context(_postgres(config, Supervisor()))
        build = building(state, stack.enter_context(_own_archives(state)))
        home, projector = await restored(ledger, build, tell)
        if projector.checkpoint > files.position():
            home = build()
            projector = folded(ledger, home)
        result = await write_archive(ledger, OutcomeFold(ledger, projector), files, tell)
        if result.facts:
            await save(ledger, home, projector)
    return result


def examine_folder(folder: Path) -> None:
    """Raise NoLedger or LedgerNotCopied for a folder that no command works on."""
    holds_ledger(folder)


async def insist_on_ledger(place: EngineConfig) -> None:
    """Raise NoLedger if a PostgreSQL database has no ledger yet: opening it would create one."""
    _postgres(place, Supervisor())  # Raises if the driver is missing.
    from rankd.adapters.postgres import insist_on_begun

    await insist_on_begun(place.ledger)


async def restoration(backup: Folder, into: Folder | EngineConfig) -> AsyncIterator[Progress]:
    """Copy a backup or another ledger into an empty folder or ledger, and verify the copy."""
    source, target = EngineConfig.of(backup), EngineConfig.of(into)
    if source.folder is not None and target.folder is not None:
        async with OfflineLedger.open(source.folder) as closed:
            async for progress in closed.backup(target.folder):
                yield progress
        return
    async with AsyncExitStack() as stack:
        if source.folder is not None:
            insist_on_folder(source.folder)
        transfer = Transfer(
            await stack.enter_async_context(_copied(source)),
            await stack.enter_async_context(_copied(target, copying=_shown(source))),
            named=_shown(source),
            into=_shown(target),
        )
        async for progress in transfer.run():
            yield progress


def _copied(
    place: EngineConfig, *, copying: str | None = None
) -> AbstractAsyncContextManager[CopyTarget]:
    """Open a ledger as the source or the target of a copy."""
    if place.folder is not None:
        return SQLiteLedger.open(place.folder, copying=copying)
    patient = replace(place, node="restore", silence_seconds=COPY_SILENCE_SECONDS)
    return _postgres(patient, Supervisor(), copying=copying is not None)


async def _insist_on_facts_of_folder(place: EngineConfig, ledger: Ledger) -> None:
    """Refuse a ledger on a server that lacks facts of the SQLite ledger in the data folder."""
    if place.folder is None or not (place.folder / FILE).exists():
        return
    into = _without_password(place.ledger)
    command = f"rankd restore {quote(str(place.folder))} --data {quote(into)}"
    await insist_on_copied(
        alone(place.folder),
        ledger,
        named=str(place.folder),
        into=into,
        command=command,
    )


def _shown(place: EngineConfig) -> str:
    return _without_password(place.ledger) if place.folder is None else str(place.folder)


def _without_password(url: str) -> str:
    """Return the URL of a ledger without its password, to be printed."""
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    query = [one for one in parse_qsl(parts.query) if "password" not in one[0]]
    netloc = f"{user.partition(':')[0]}{at}{host}"
    return parts._replace(netloc=netloc, query=urlencode(query)).geturl()

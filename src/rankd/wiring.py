"""The only module that knows both core and adapters. It builds, and decides nothing."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    nullcontext,
)
from dataclasses import dataclass, replace
from ipaddress import ip_address
from os import PathLike
from pathlib import Path
from time import monotonic
from typing import Any

from rankd.adapters.memory.index import NativeIndex
from rankd.adapters.memory.ledger import MemoryLedger
from rankd.adapters.memory.snapshot import SnapshotFolder
from rankd.adapters.sqlite import SQLiteLedger
from rankd.adapters.sqlite.following import FollowedLedger
from rankd.api.access import Gate
from rankd.api.forwarding import forwarding
from rankd.api.limits import limits_of
from rankd.api.server import Ready, listen, serve
from rankd.api.service import Service
from rankd.api.table import ROUTES as API
from rankd.api.tokens import reading_tokens
from rankd.api.workers import workers
from rankd.core.follower import following
from rankd.core.recovery import Home
from rankd.core.service import Rankd, running
from rankd.dashboard import files as dashboard
from rankd.errors import InvalidSetting
from rankd.ports import Clock, Ledger, Progress
from rankd.settings import Settings

ROUTES = (*API, *dashboard.ROUTES)
"""Everything that is answered: the API, and the live page that uses it."""

INDEX = "index"
"""The folder of the saved index, beside the ledger. It can be removed: it is folded again."""

Folder = str | PathLike[str]


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

        def build() -> Home:
            index = NativeIndex()
            return Home(index, None if saved is None else SnapshotFolder(saved, index))

        rankd = await stack.enter_async_context(
            running(ledger=ledger, build=build, clock=clock, reading=reading, tell=tell)
        )
        yield Engine(rankd, ledger, ledger.durable, backup)


def restoration(backup: Folder, folder: Folder) -> AsyncIterator[Progress]:
    """Copy a backup into an empty folder, and verify the copy."""
    return SQLiteLedger.restore(Path(backup), Path(folder))


async def service(
    settings: Settings,
    *,
    clock: Clock,
    tell: Callable[[Progress], None],
    ready: Ready,
    stop: asyncio.Event | None = None,
    beside: Callable[[Rankd], AbstractAsyncContextManager[None]] | None = None,
) -> None:
    """Serve the API over an engine in a folder until told to stop.

    ``beside`` is entered once the engine runs and left before it stops.
    """
    async with AsyncExitStack() as stack:
        opened = await stack.enter_async_context(
            engine(settings.data, clock=clock, reading=nullcontext(), tell=tell)
        )
        rankd = opened.rankd
        loopback = is_loopback(settings.host)
        if not loopback and not rankd.book.keys:
            raise InvalidSetting(
                setting="host",
                source="the settings",
                problem=f"{settings.host} can be reached by others: create a key first "
                f"(rankd keys create --scope admin --data {settings.data})",
            )
        if beside is not None:
            await stack.enter_async_context(beside(rankd))
        gate = Gate(
            lambda: rankd.book,
            loopback=loopback,
            token=await stack.enter_async_context(reading_tokens(settings, now=monotonic)),
            limits=limits_of(settings, now=monotonic),
        )
        working = Service(rankd, opened.ledger, gate, clock, opened.durable, rankd)
        listener = listen(settings, share_port=settings.workers > 1)
        if settings.workers > 1:
            port = listener.getsockname()[1]
            beside_us = workers(working, replace(settings, port=port), settings.workers - 1)
            await stack.enter_async_context(beside_us)
        await serve(ROUTES, working, settings, ready=ready, stop=stop, listener=listener)


async def worker(settings: Settings, socket: str, *, clock: Clock) -> None:
    """Serve reads over an index of one's own, and hand writes on to the process at a socket."""
    folder = Path(settings.data)

    def build() -> Home:
        index = NativeIndex()
        return Home(index, SnapshotFolder(folder / INDEX, index))

    async with AsyncExitStack() as stack:
        ledger = await stack.enter_async_context(FollowedLedger.open(folder))
        follower = await stack.enter_async_context(
            following(ledger=ledger, build=build, clock=clock, tell=lambda _: None)
        )
        forwarder = await stack.enter_async_context(forwarding(socket, follower.wake))
        gate = Gate(
            lambda: follower.book,
            loopback=is_loopback(settings.host),
            token=await stack.enter_async_context(reading_tokens(settings, now=monotonic)),
            limits=limits_of(settings, now=monotonic),
        )
        working = Service(follower, ledger, gate, clock, durable=True)
        await serve(
            forwarder.routes(ROUTES),
            working,
            settings,
            ready=lambda _host, _port: forwarder.say_listening(),
            stop=forwarder.gone,
            listener=listen(settings, share_port=True),
        )


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False

"""A whole service: an engine, the doors in front of it, and further processes beside it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    nullcontext,
)
from dataclasses import replace
from ipaddress import ip_address
from time import monotonic

from rankd.api.access import Gate, ReadToken
from rankd.api.forwarding import forwarding
from rankd.api.limits import limits_of
from rankd.api.roles import MANAGING, ROLES, routes_of
from rankd.api.server import Ready, listen, serve
from rankd.api.service import Service
from rankd.api.table import ROUTES as API
from rankd.api.workers import workers
from rankd.core.service import Rankd
from rankd.dashboard import files as dashboard
from rankd.errors import InvalidSetting
from rankd.ports import Clock, Progress
from rankd.settings import TABLE, Settings
from rankd.wiring import Place, engine, followed

ROUTES = (*API, *dashboard.ROUTES)
"""Everything that is answered: the API, and the live page that uses it."""


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
    if settings.role not in ROLES:
        problem = f"must be one of {', '.join(ROLES)}"
        raise InvalidSetting(setting="role", source="the settings", problem=problem)
    async with AsyncExitStack() as stack:
        opened = await stack.enter_async_context(
            engine(
                Place.chosen(settings),
                clock=clock,
                reading=nullcontext(),
                tell=tell,
                manages=settings.role in MANAGING,
            )
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
            token=await _tokens(settings, stack),
            limits=limits_of(settings, now=monotonic),
        )
        working = Service(rankd, opened.ledger, gate, clock, opened.durable, rankd)
        listener = listen(settings, share_port=settings.workers > 1)
        if settings.workers > 1:
            port = listener.getsockname()[1]
            beside_us = workers(working, replace(settings, port=port), settings.workers - 1)
            await stack.enter_async_context(beside_us)
        routes = routes_of(settings.role, ROUTES)
        await serve(routes, working, settings, ready=ready, stop=stop, listener=listener)


async def worker(settings: Settings, socket: str, *, clock: Clock) -> None:
    """Serve reads over an index of one's own, and hand writes on to the process at a socket."""
    async with AsyncExitStack() as stack:
        follower, ledger = await stack.enter_async_context(
            followed(Place.chosen(settings), clock=clock, tell=lambda _: None)
        )
        forwarder = await stack.enter_async_context(forwarding(socket, follower.wake))
        gate = Gate(
            lambda: follower.book,
            loopback=is_loopback(settings.host),
            token=await _tokens(settings, stack),
            limits=limits_of(settings, now=monotonic),
        )
        working = Service(follower, ledger, gate, clock, durable=True)
        stop = await stack.enter_async_context(_any_of(forwarder.gone, follower.ended))
        await serve(
            forwarder.routes(routes_of(settings.role, ROUTES)),
            working,
            settings,
            ready=lambda _host, _port: forwarder.say_listening(),
            stop=stop,
            listener=listen(settings, share_port=True),
        )


@asynccontextmanager
async def _any_of(*events: asyncio.Event) -> AsyncIterator[asyncio.Event]:
    """Give an event that is set as soon as one of several is."""
    first = asyncio.Event()
    waits = [asyncio.create_task(event.wait()) for event in events]
    for wait in waits:
        wait.add_done_callback(lambda _: first.set())
    try:
        yield first
    finally:
        for wait in waits:
            wait.cancel()


async def _tokens(settings: Settings, stack: AsyncExitStack) -> ReadToken | None:
    """Return what reads players' tokens, if any are to be read.

    Only then is the cryptography for it imported: that takes longer than all else of a start.
    """
    named = (row.name for row in TABLE if row.name.startswith("jwt_"))
    if not any(getattr(settings, name) for name in named):
        return None
    from rankd.api.tokens import reading_tokens

    return await stack.enter_async_context(reading_tokens(settings, now=monotonic))


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False

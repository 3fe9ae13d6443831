"""A whole service: an engine, its HTTP server, and worker processes."""

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    nullcontext,
)
from dataclasses import replace
from functools import partial
from ipaddress import ip_address
from time import monotonic

from rankd import dashboard
from rankd.api.auth import Authenticator, ReadToken
from rankd.api.context import ServiceContext
from rankd.api.keys import hand_on_uses, record_uses
from rankd.api.metrics import collect
from rankd.api.rate_limits import limits_of, read_networks
from rankd.api.routes import ROUTES as API
from rankd.api.routing import MANAGER, MANAGING, QUERY, ROLES, routes_of
from rankd.api.server import Ready, fit_connections, listen, serve, watching_descriptors
from rankd.api.workers import forwarding, workers
from rankd.bootstrap import NATIVE, SQLITE, EngineConfig, engine, followed
from rankd.core.engine import Engine
from rankd.core.supervisor import Supervisor
from rankd.errors import InvalidSetting, RankdError, UnknownFact, count
from rankd.ports import Clock, Loop, Progress
from rankd.settings import TABLE, Settings, shown_place

ROUTES = (*API, *dashboard.ROUTES)
"""All routes: the API, and the dashboard that uses it."""


YOUNG_OBJECTS_MAX = 10_000
"""The garbage collector's threshold for young objects. Objects of a request are freed by reference
counting; few are in cycles."""

OPEN = "open to every process on this machine, for there is no key"

_log = logging.getLogger(__name__)


def settle_down() -> None:
    """Make garbage collection rare, and exempt the objects that exist now.

    The objects that exist once the service listens, about a hundred thousand, stay for its
    lifetime; the collector would otherwise traverse them again and again while requests wait.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS_MAX)


class ServiceLog:
    """The log messages about a service as a whole: its start and its end."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._begun = monotonic()
        self._rankd: Engine | None = None
        self._opened = ""
        self._listened = False

    def opened(self, rankd: Engine) -> None:
        """Record the position and how many facts had to be folded."""
        self._rankd = rankd
        position, folded = rankd.position, rankd.unsaved
        index = f"the index as it was saved at {position - folded:,} and {folded:,} folded"
        if self._settings.index != NATIVE:
            index = f"the index in {shown_place(self._settings.index)}"
        elif folded == position:
            index = "all folded into a new index"
        seconds = monotonic() - self._begun
        self._opened = f"{count(position, 'fact')}, {index}, in {seconds:.1f} s"

    def listening(self, host: str, port: int) -> None:
        """Log the opened ledger and index, the address, and whether keys are needed."""
        assert self._rankd is not None
        self._listened = True
        settings, keys = self._settings, len(self._rankd.state.keys)
        place = settings.data if settings.ledger == SQLITE else shown_place(settings.ledger)
        _log.info("opened %s: %s", place, self._opened)
        shown = f"[{host}]" if ":" in host else host
        who = f"keys are needed, {keys:,} in force" if keys else OPEN
        _log.info("listening on http://%s:%d; %s", shown, port, who)

    def stopped(self) -> None:
        """Log the work that is left for the next start, once everything is closed."""
        if self._rankd is None or not self._listened:
            return
        rankd, position = self._rankd, f"{self._rankd.position:,}"
        if rankd.ended:
            _log.warning("stopped at %s, after a failure: %s", position, rankd.failure)
            return
        left = "nothing is left to do"
        if rankd.spooled is not None and rankd.spooled.waiting:
            left = f"scores that wait in the spool: {rankd.spooled.waiting:,}"
        elif self._settings.index == NATIVE and rankd.unsaved:
            left = f"the next start folds the last {rankd.unsaved:,} again"
        facts = "the fact is" if rankd.position == 1 else f"all {position} facts are"
        _log.info("stopped: %s in the ledger; %s", facts, left)


async def service(
    settings: Settings,
    *,
    clock: Clock,
    tell: Callable[[Progress], None],
    ready: Ready,
    stop: asyncio.Event | None = None,
    beside: Callable[[Engine], AbstractAsyncContextManager[None]] | None = None,
) -> None:
    """Serve the API over an engine until ``stop`` is set or a signal arrives.

    ``beside`` is entered once the engine runs and left before it stops.
    """
    _check_role(settings)
    settings = fit_connections(settings)
    account = ServiceLog(settings)
    place = EngineConfig.chosen(settings)
    async with AsyncExitStack() as stack:
        stack.callback(account.stopped)
        opened = await stack.enter_async_context(
            engine(
                place,
                clock=clock,
                reading=nullcontext(),
                tell=tell,
                manages=settings.role in MANAGING,
            )
        )
        rankd = opened.rankd
        await stack.enter_async_context(watching_descriptors(rankd.supervisor))
        account.opened(rankd)
        loopback = is_loopback(settings.host)
        if not loopback and not rankd.state.keys:
            where = settings.data if settings.ledger == SQLITE else "postgresql://…"
            raise InvalidSetting(
                setting="host",
                source="the settings",
                problem=f"{settings.host} can be reached by others: create a key first "
                f"(rankd keys create --scope admin --data {where})",
            )
        if beside is not None:
            await stack.enter_async_context(beside(rankd))
        auth = Authenticator(
            lambda: rankd.state,
            loopback=loopback,
            token=await _tokens(settings, stack),
            limits=limits_of(settings, now=monotonic),
        )
        recording = partial(record_uses, auth, rankd, settings.key_use_seconds)
        await stack.enter_async_context(_running(rankd.supervisor, "key-uses", recording))
        working = ServiceContext(
            rankd,
            opened.ledger,
            auth,
            rankd.clock,
            opened.durable,
            rankd,
            public_pages=settings.public_pages,
            node=place.node,
            role=settings.role,
            proxies=read_networks(settings.trusted_proxies),
            audit_addresses=settings.audit_addresses,
            settings=settings,
        )
        listener = listen(settings, share_port=settings.workers > 1)
        if settings.workers > 1:
            port = listener.getsockname()[1]
            beside_us = workers(working, replace(settings, port=port), settings.workers - 1)
            await stack.enter_async_context(beside_us)

        def listening(host: str, port: int) -> None:
            ready(host, port)
            account.listening(host, port)

        routes = routes_of(settings.role, ROUTES)
        stop = stop or asyncio.Event()
        if settings.exit_on_ledger_failure:
            await stack.enter_async_context(_stopping_at_end(rankd, stop))
        await serve(routes, working, settings, ready=listening, stop=stop, listener=listener)
        if rankd.ended and settings.exit_on_ledger_failure:
            assert rankd.ledger_failure is not None, "it says why"
            if _restart_helps(rankd.ledger_failure):
                raise rankd.ledger_failure


def _restart_helps(failure: RankdError) -> bool:
    """Return whether a new start may make the service write again."""
    return not isinstance(failure, UnknownFact)


@asynccontextmanager
async def _stopping_at_end(rankd: Engine, stop: asyncio.Event) -> AsyncIterator[None]:
    """Stop serving once only a restart can make it write again.

    A node that met a fact of a newer version serves its standings before that fact instead: its
    restart would be refused.
    """

    async def wait() -> None:
        if _restart_helps(await rankd.end()):
            _log.critical("the service exits, to be started anew")
            stop.set()

    waiting = asyncio.create_task(wait(), name="exit")
    try:
        yield
    finally:
        waiting.cancel()


def _check_role(settings: Settings) -> None:
    """Refuse an unknown role, and a read-only one over a ledger that no other node can write."""
    problem = ""
    if settings.role not in ROLES:
        problem = f"must be one of {', '.join(ROLES)}"
    elif settings.role in (QUERY, MANAGER) and settings.ledger == SQLITE:
        problem = (
            f"{settings.role} takes no scores, and no other node can write to a data folder that "
            "this one has open: it is for nodes that share a ledger, --ledger postgresql://…"
        )
    if problem:
        raise InvalidSetting(setting="role", source="the settings", problem=problem)


async def worker(settings: Settings, socket: str, process: str, *, clock: Clock) -> None:
    """Serve reads from this process's own index, and forward writes over a socket."""
    place = EngineConfig.chosen(settings)
    async with AsyncExitStack() as stack:
        follower, ledger = await stack.enter_async_context(
            followed(place, clock=clock, tell=lambda _: None)
        )
        await stack.enter_async_context(watching_descriptors(follower.supervisor))
        auth = Authenticator(
            lambda: follower.state,
            loopback=is_loopback(settings.host),
            token=await _tokens(settings, stack),
            limits=limits_of(settings, now=monotonic),
        )
        working = ServiceContext(
            follower,
            ledger,
            auth,
            follower.clock,
            durable=True,
            public_pages=settings.public_pages,
            node=place.node,
            role=settings.role,
            proxies=read_networks(settings.trusted_proxies),
            audit_addresses=settings.audit_addresses,
            process=process,
            spools=settings.spool,
            settings=settings,
        )
        silence = settings.ledger_silence_seconds
        forwarder = await stack.enter_async_context(
            forwarding(socket, follower, silence, figures=lambda: collect(working))
        )
        working.hand_on_ticket = forwarder.use_ticket
        handing_on = partial(hand_on_uses, auth, forwarder.tell_uses)
        await stack.enter_async_context(_running(follower.supervisor, "key-uses", handing_on))
        stop = await stack.enter_async_context(_any_of(forwarder.gone, follower.finished))

        def ready(_host: str, _port: int) -> None:
            settle_down()
            forwarder.say_listening(process)

        await serve(
            forwarder.routes(routes_of(settings.role, ROUTES)),
            working,
            settings,
            ready=ready,
            stop=stop,
            listener=listen(settings, share_port=True),
        )


@asynccontextmanager
async def _any_of(*events: asyncio.Event) -> AsyncIterator[asyncio.Event]:
    """Return an event that is set as soon as one of several is."""
    first = asyncio.Event()
    waits = [asyncio.create_task(event.wait()) for event in events]
    for wait in waits:
        wait.add_done_callback(lambda _: first.set())
    try:
        yield first
    finally:
        for wait in waits:
            wait.cancel()


@asynccontextmanager
async def _running(supervisor: Supervisor, name: str, loop: Loop) -> AsyncIterator[None]:
    """Run a background loop for as long as the service runs."""
    task = supervisor.start(name, loop)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _tokens(settings: Settings, stack: AsyncExitStack) -> ReadToken | None:
    """Return the reader of players' tokens; None if the settings configure none.

    The cryptography is imported only then: that takes longer than the rest of the start.
    """
    named = (row.name for row in TABLE if row.name.startswith("jwt_"))
    if not any(getattr(settings, name) for name in named):
        return None
    from rankd.api.jwt import reading_tokens

    return await stack.enter_async_context(reading_tokens(settings, now=monotonic))


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False

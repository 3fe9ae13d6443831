"""The server: listen, serve, stop.

``serve`` covers everything between the routes and a socket. It listens, reports when it is ready,
and stops in an order that loses nothing: first it takes no new connections, then running requests
get time to finish, then remaining connections are aborted. The caller closes the service
afterwards, when no handler runs any more.

A process without a free file descriptor can accept no connection, and libuv then closes incoming
ones without an error. So connections are bounded below the limit of the process, where a connection
too many is refused and logged, and exhaustion by anything else is looked for every second.
"""

import asyncio
import contextlib
import errno
import functools
import logging
import os
import resource
import signal
import socket
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp

from rankd.api.app import App
from rankd.api.connection import BoundedConnection
from rankd.api.fast_lane import FastConnection, FastLaneState
from rankd.api.routing import Route, Router
from rankd.core.supervisor import Supervisor
from rankd.settings import Settings

FILES_RESERVED = 256
"""Descriptors reserved for the ledger, the index, snapshots, workers and the log."""

DESCRIPTORS_SECONDS = 1.0
"""The interval of the check for a free descriptor."""

_log = logging.getLogger(__name__)


def fit_connections(settings: Settings) -> Settings:
    """Return settings whose ``connections_max`` the process can open, after raising the soft limit.

    If the hard limit is too low as well, ``connections_max`` is lowered with a warning.
    """
    wanted = settings.connections_max + FILES_RESERVED
    limit = _raise_limit(wanted)
    if limit >= wanted:
        return settings
    fitting = min(settings.connections_max, max(limit - FILES_RESERVED, limit // 2))
    _log.warning(
        "only %d files may be open: %d connections are taken at once, not connections_max = %d; "
        "raise the limit (ulimit -n %d)",
        limit,
        fitting,
        settings.connections_max,
        wanted,
    )
    return replace(settings, connections_max=fitting)


def _raise_limit(wanted: int) -> int:
    """Raise the soft limit as far towards ``wanted`` as possible, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    with suppress(OSError, ValueError):  # Some systems have a lower, undisclosed limit.
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        return limit
    return soft


@asynccontextmanager
async def watching_descriptors(supervisor: Supervisor) -> AsyncIterator[None]:
    """Log when no descriptor is left, and when one is free again."""
    task = supervisor.start("descriptors", _watch_descriptors)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _watch_descriptors() -> None:
    last: OSError | None = None
    while True:
        found = _exhaustion()
        if found is not None and last is None:
            _log.error("no file descriptor is left: connections are lost (%s)", found.strerror)
        elif found is None and last is not None:
            _log.warning("there are file descriptors again")
        last = found
        await asyncio.sleep(DESCRIPTORS_SECONDS)


def _exhaustion() -> OSError | None:
    """Return the error if this process or the system has no free descriptor; else None."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as exc:
        return exc if exc.errno in (errno.EMFILE, errno.ENFILE) else None
    return None


STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)

LAST_WORDS_SECONDS_MAX = 1.0
"""Time for cancelled handlers to send their error response."""

_LOOK_AGAIN_SECONDS = 0.01

Ready = Callable[[str, int], None]


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return a new event loop: uvloop if installed, else asyncio's."""
    try:
        import uvloop
    except ImportError:  # Some systems have none; only speed depends on it.
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def listen(settings: Settings, *, share_port: bool = False) -> socket.socket:
    """Return a socket bound to the configured address. Raises OSError, which names it.

    With ``share_port`` several processes may listen on one port, and the kernel distributes
    connections. If a name has several addresses, the first of IPv4 is used.
    """
    host, port = settings.host, settings.port
    try:
        return _listen(host, port, share_port=share_port)
    except OSError as exc:
        named = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        raise OSError(exc.errno, exc.strerror, named) from exc


def _listen(host: str, port: int, *, share_port: bool) -> socket.socket:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, protocol, _, address = min(found, key=lambda row: row[0] != socket.AF_INET)
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if share_port:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(address)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


async def serve(  # noqa: PLR0913 - one door to everything between a table and a socket
    routes: Iterable[Route],
    service: Any,
    settings: Settings,
    *,
    ready: Ready | None = None,
    stop: asyncio.Event | None = None,
    fallback: ASGIApp | None = None,
    listener: socket.socket | None = None,
) -> None:
    """Serve until ``stop`` or a signal, and return when all requests are finished.

    ``ready`` is called with the address once connections are accepted. ``fallback`` gets the paths
    that no route matches. A given ``listener`` is closed here, too.
    """
    app = App(Router(routes), service, settings, fallback=fallback)
    server = Server(app, ready or (lambda _host, _port: None))
    listener = listener or listen(settings)
    waiting = asyncio.ensure_future(_stop_when_told(server, stop)) if stop else None
    try:
        await server.serve(sockets=[listener])
    finally:
        listener.close()
        if waiting is not None:
            waiting.cancel()


async def _stop_when_told(server: "Server", stop: asyncio.Event) -> None:
    await stop.wait()
    server.should_exit = True


class Server(uvicorn.Server):
    """uvicorn's server with our connections, signals and shutdown."""

    def __init__(self, app: App, ready: Ready) -> None:
        self._app = app
        self._ready = ready
        super().__init__(protocol_config(app))

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections, and call ``ready``."""
        await super().startup(sockets=sockets)
        assert sockets, "serve() listens itself"
        host, port = sockets[0].getsockname()[:2]
        self._ready(host, port)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more, let running requests finish in time, and abort remaining connections."""
        self.server_state.stopping = True  # type: ignore[attr-defined]
        if (stop_streams := getattr(self._app.service, "stop_streams", None)) is not None:
            await stop_streams()
        await super().shutdown(sockets=sockets)
        await self._until_closed(LAST_WORDS_SECONDS_MAX)
        for connection in list(self.server_state.connections):
            cast("BoundedConnection", connection).transport.abort()

    async def _until_closed(self, seconds: float) -> None:
        """Wait until cancelled handlers have sent their error responses."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                # uvicorn has sets, not events, and polls them itself.
                while self.server_state.connections or self.server_state.tasks:  # noqa: ASYNC110
                    await asyncio.sleep(_LOOK_AGAIN_SECONDS)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Stop on a signal and exit normally, instead of raising the signal again at the end."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in STOP_SIGNALS:
                loop.remove_signal_handler(number)


def protocol_config(app: App) -> uvicorn.Config:
    """Return uvicorn's configuration: our protocol, and no automatic detection."""
    protocol: Callable[..., BoundedConnection] = functools.partial(BoundedConnection, app)
    if app.settings.fast_lane:
        protocol = functools.partial(FastConnection, FastLaneState(app))
    return uvicorn.Config(
        app,
        http=cast("type[asyncio.Protocol]", protocol),
        interface="asgi3",
        lifespan="off",
        log_config=None,
        log_level="error",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=True,
        backlog=app.settings.backlog_max,
        ws_per_message_deflate=False,
        timeout_graceful_shutdown=cast("int", app.settings.stop_seconds_max),
    )

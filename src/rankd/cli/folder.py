"""A data folder behind the client's interface, as if it were a service.

The same routes answer, in this process and without a socket, so a command does and prints the same
for both. No key is needed: access to the folder is full access.
"""

import asyncio
import math
import os
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager, nullcontext
from getpass import getuser
from typing import Any
from urllib.parse import unquote

from rankd.api.app import App
from rankd.api.auth import Actor, Authenticator, Permit
from rankd.api.context import ServiceContext
from rankd.api.routes import ROUTES
from rankd.api.routing import Router
from rankd.bootstrap import EngineConfig, engine, followed
from rankd.core.past import PastLimits
from rankd.embedded import WallClock
from rankd.http_client import HttpRequest, HttpResponse
from rankd.progress import ProgressBar
from rankd.settings import Settings

OPERATOR = Actor(None, is_game=True)
"""The actor of commands on a folder."""


class NoAuthentication(Authenticator):
    """Permits every request."""

    def admit(self, request: Any, scope: Any, board: str | None = None) -> Actor:
        """Return the operator; with the user's name for changes that are audited."""
        del request, board
        if scope in {"submit", "read"}:
            return OPERATOR
        return Actor(f"cli:{_user()}", is_game=True)

    def admission(self, request: Any, scope: Any, board: str | None = None) -> Permit:
        """Return a permit of the operator."""
        del request, scope, board
        return Permit(OPERATOR, math.inf)

    def check_known(self, request: Any) -> None:
        """Accept any request."""


def _user() -> str:
    """Return the name of the user that runs this process; its number if it has none."""
    try:
        return getuser()
    except (KeyError, OSError):  # OSError from Python 3.13 on.
        return str(os.getuid())


class FolderTransport:
    """Passes requests to the routes."""

    def __init__(self, runner: asyncio.Runner, app: App) -> None:
        self._runner = runner
        self._app = app

    def send(self, request: HttpRequest) -> HttpResponse:
        """Return the response to one request."""
        return self._runner.run(_ask(self._app, request))

    def close(self) -> None:
        """Do nothing: ``opened`` closes the folder."""


async def _ask(app: App, request: HttpRequest) -> HttpResponse:
    """Return an ASGI application's response to one request."""
    path, _, query = request.path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode("ascii"),
        "query_string": query.encode("ascii"),
        "root_path": "",
        "headers": [
            (name.lower().encode("ascii"), value.encode("latin-1"))
            for name, value in {"host": "localhost", **request.headers}.items()
        ],
        "server": ("localhost", 80),
        "client": ("127.0.0.1", 0),
    }
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": request.body or b"", "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    start, *parts = sent
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in start["headers"]}
    return HttpResponse(start["status"], headers, b"".join(part.get("body", b"") for part in parts))


@contextmanager
def opened(folder: str) -> Iterator[FolderTransport]:
    """Open a folder, with a progress bar."""
    bar, clock = ProgressBar(), WallClock()
    with asyncio.Runner() as runner:
        opening = engine(EngineConfig.of(folder), clock=clock, reading=nullcontext(), tell=bar.tell)
        running = runner.run(opening.__aenter__())
        bar.tell(None)
        try:
            auth = NoAuthentication(lambda: running.rankd.state, loopback=True)
            service = ServiceContext(
                running.rankd,
                running.ledger,
                auth,
                running.rankd.clock,
                running.durable,
                running.rankd,
                audit_addresses=False,
            )
            app = App(Router(ROUTES), service, Settings())
            yield FolderTransport(runner, app)
        finally:
            runner.run(opening.__aexit__(None, None, None))


@contextmanager
def opened_past(place: str) -> Iterator[FolderTransport]:
    """Read a folder, or a ledger as postgresql://…, of which past standings are unlimited.

    Nothing is written, and a service may have it open. A progress bar shows how far it is.
    """
    bar, clock = ProgressBar(), WallClock()
    with asyncio.Runner() as runner:
        config = EngineConfig.of(place)
        opening = followed(config, clock=clock, tell=bar.tell, unwritten=True)
        follower, ledger = runner.run(opening.__aenter__())
        bar.tell(None)
        follower.past.limits = PastLimits(None, None)
        follower.past.pause_per_work, follower.past.tell = 0.0, bar.tell
        try:
            auth = NoAuthentication(lambda: follower.state, loopback=True)
            service = ServiceContext(follower, ledger, auth, follower.clock, durable=True)
            yield FolderTransport(runner, App(Router(ROUTES), service, Settings()))
        finally:
            bar.tell(None)
            runner.run(opening.__aexit__(None, None, None))

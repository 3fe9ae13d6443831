"""A data folder, spoken to as if it were a service.

The same routes answer, in this process and without a socket, so a command does the same and prints
the same whichever it was pointed at. Whoever can read the folder may do anything: no key is asked.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import httpx

from rankd.api.access import ANYBODY, Actor, Gate
from rankd.api.app import App
from rankd.api.routes import Router
from rankd.api.service import Service
from rankd.api.table import ROUTES
from rankd.embedded import WallClock
from rankd.settings import Settings
from rankd.terminal import ProgressBar
from rankd.wiring import Place, engine

Attributes = Callable[[str], Mapping[str, str | int | bool]]
"""Tells the attributes of a player."""


class OpenGate(Gate):
    """Lets everybody in."""

    def admit(self, request: Any, scope: Any, board: str | None = None) -> Actor:
        """Return nobody in particular."""
        del request, scope, board
        return ANYBODY

    def check_known(self, request: Any) -> None:
        """Know everybody."""


class FolderTransport(httpx.BaseTransport):
    """Carries requests to the routes."""

    def __init__(self, runner: asyncio.Runner, app: App, attributes: Attributes) -> None:
        self.attributes = attributes
        """What is known of a player: at hand here, where over HTTP each would be a request."""
        self._runner = runner
        self._door = httpx.ASGITransport(app=app)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Answer one request."""
        return self._runner.run(self._answer(request))

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        request.headers.pop("accept-encoding", None)  # Nobody is saved a byte here.
        response = await self._door.handle_async_request(request)
        return httpx.Response(
            response.status_code, headers=response.headers, content=await response.aread()
        )


@contextmanager
def opened(folder: str) -> Iterator[FolderTransport]:
    """Open a folder; show on a terminal how far that is."""
    bar, clock = ProgressBar(), WallClock()
    with asyncio.Runner() as runner:
        opening = engine(Place.of(folder), clock=clock, reading=nullcontext(), tell=bar.tell)
        running = runner.run(opening.__aenter__())
        bar.tell(None)
        try:
            gate = OpenGate(lambda: running.rankd.book, loopback=True)
            service = Service(
                running.rankd, running.ledger, gate, clock, running.durable, running.rankd
            )
            app = App(Router(ROUTES), service, Settings())
            yield FolderTransport(
                runner, app, lambda player: running.rankd.book.profile(player).attributes
            )
        finally:
            runner.run(opening.__aexit__(None, None, None))

"""The whole service on a real socket, over an engine in memory, and a client that speaks JSON."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import nullcontext
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar

import httpx

from rankd.api.auth import Authenticator, ReadToken
from rankd.api.context import ServiceContext
from rankd.api.rate_limits import limits_of
from rankd.api.routes import ROUTES
from rankd.api.server import new_event_loop, serve
from rankd.api.streams import StreamHub
from rankd.bootstrap import EngineConfig, engine
from rankd.core.engine import Engine
from rankd.model.window import Instant
from rankd.settings import Settings

T = TypeVar("T")

IN_MEMORY = EngineConfig(None)
PLACE: ContextVar[Callable[[], EngineConfig]] = ContextVar("PLACE", default=lambda: IN_MEMORY)
"""Where the next service keeps what it has; elsewhere only in tests of that place."""

PATIENCE_SECONDS = 550
"""A hang becomes a failure; a machine with much else to do does not."""


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run on the loop the service runs on."""

    async def within_reason() -> T:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await coroutine

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(within_reason())


NOON = Instant(1_794_830_400_000_000)
"""2026-11-16T12:00:00Z: no window of any calendar turns near it."""


class SetClock:
    """A clock that a test sets, for walls and for waiting alike."""

    def __init__(self) -> None:
        self.instant = NOON
        self.seconds = 0.0

    def now(self) -> Instant:
        return self.instant

    def monotonic(self) -> float:
        return self.seconds


class Whole(NamedTuple):
    """A running service, and a client of it."""

    rankd: Engine
    http: httpx.AsyncClient
    clock: SetClock
    address: str
    hub: StreamHub

    async def ask(
        self, method: str, path: str, body: Any = None, *, key: str | None = None, **headers: str
    ) -> httpx.Response:
        """Ask, with a body as JSON and a key as bearer."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if key is not None:
            sent["authorization"] = f"Bearer {key}"
        content = None
        if body is not None:
            content = json.dumps(body).encode()
            sent.setdefault("content-type", "application/json")
        return await self.http.request(method, path, content=content, headers=sent)

    async def told(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        """Return the JSON of an answer that must be a success."""
        answer = await self.ask(method, path, body, **more)
        assert answer.is_success, (method, path, answer.status_code, answer.text)
        return answer.json()

    async def new_key(self, *scopes: str, key: str | None = None, **more: Any) -> dict[str, Any]:
        """Create a key; return what the answer tells of it."""
        told: dict[str, Any] = await self.told(
            "POST", "/v1/keys", {"scopes": list(scopes), **more}, key=key
        )
        return told


@contextlib.asynccontextmanager
async def whole(
    *, token: ReadToken | None = None, loopback: bool = True, **given: Any
) -> AsyncIterator[Whole]:
    """Serve on a free port until the block ends."""
    settings, clock = Settings(port=0, **given), SetClock()
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[str] = loop.create_future()
    stop = asyncio.Event()
    place = PLACE.get()()
    async with engine(place, clock=clock, reading=nullcontext(), tell=lambda _: None) as opened:
        rankd = opened.rankd
        auth = Authenticator(
            lambda: rankd.state,
            loopback=loopback,
            token=token,
            limits=limits_of(settings, now=clock.monotonic),
        )
        service = ServiceContext(
            rankd,
            opened.ledger,
            auth,
            clock,
            opened.durable,
            rankd,
            public_pages=settings.public_pages,
            settings=settings,
        )

        def tell(host: str, port: int) -> None:
            ready.set_result(f"http://{host}:{port}")

        serving = asyncio.create_task(serve(ROUTES, service, settings, ready=tell, stop=stop))
        both: list[asyncio.Future[Any]] = [ready, serving]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        try:
            address = await ready
            async with httpx.AsyncClient(base_url=address, trust_env=False) as http:
                yield Whole(rankd, http, clock, address, service.streams)
        finally:
            stop.set()
            await serving

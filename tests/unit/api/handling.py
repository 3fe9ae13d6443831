"""Handlers without a server: over an engine in memory, given requests as a lane makes them."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
from tests.unit.core.doubles import FaultyLedger, SetClock, engine

from rankd import schemas
from rankd.api.auth import Authenticator
from rankd.api.context import ServiceContext
from rankd.api.messages import Request, Response
from rankd.api.routes import ROUTES

DECODER = msgspec.json.Decoder(float_hook=Decimal)
BY_OPERATION = {route.operation: route for route in ROUTES}


class Working(NamedTuple):
    """A service, and its clock and ledger."""

    service: ServiceContext
    clock: SetClock
    ledger: FaultyLedger

    async def ask(
        self,
        operation: str,
        params: Mapping[str, str] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        **query: Any,
    ) -> Response:
        """Ask as a lane does: every parameter of the query is there, or its default."""
        route = BY_OPERATION[operation]
        unknown = set(query) - {param.name for param in route.params}
        assert not unknown, unknown
        sent = {name.lower().encode(): value.encode() for name, value in (headers or {}).items()}
        content = b""
        if body is not None:
            content, sent[b"content-type"] = schemas.encode(body), b"application/json"
        asked = {param.name: query.get(param.name, param.default) for param in route.params}
        request = Request(route.method, "/", params or {}, asked, sent, content, "127.0.0.1")
        return await route.handler(self.service, request)

    async def told(self, operation: str, *given: Any, **query: Any) -> Any:
        """Return the body of an answer, numbers with a point as they are written."""
        return DECODER.decode((await self.ask(operation, *given, **query)).body)

    async def define(self, name: str = "b", **definition: Any) -> Any:
        return await self.told("put_board", {"board": name}, definition)

    async def submit(self, player: str, score: Any, board: str = "b", **more: Any) -> Any:
        body = {"player": player, "score": score, **more}
        return await self.told("submit_score", {"board": board}, body)


@asynccontextmanager
async def working() -> AsyncIterator[Working]:
    """Run an engine in memory, and the service before it; nobody needs a key."""
    clock, ledger = SetClock(), FaultyLedger()
    async with engine(ledger, clock) as rankd:
        auth = Authenticator(lambda: rankd.state, loopback=True)
        yield Working(ServiceContext(rankd, ledger, auth, clock, False, rankd), clock, ledger)

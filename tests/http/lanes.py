"""A service in memory and both lanes to it, without a socket: what is asked, and what is answered.

What was made ready for requests like an earlier one must answer as the handler would. So whoever
tests it asks the same more than once: first the handler answers, then what it prepared, and the
other lane says what is right. Answers are compared byte for byte; a count of the handlers' calls
tells which of them answered.
"""

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from tests.http.wire import DATE, Wire, from_the_loop, without_what_varies
from tests.unit.core.doubles import FaultyLedger, SetClock, engine
from uvicorn.server import ServerState

from rankd.api import plans
from rankd.api.app import App
from rankd.api.auth import Authenticator, ReadToken
from rankd.api.connection import BoundedConnection
from rankd.api.context import ServiceContext
from rankd.api.keys import NewKey, make_key
from rankd.api.rate_limits import limits_of
from rankd.api.routes import ROUTES
from rankd.api.routing import Route, Router
from rankd.api.server import protocol_config
from rankd.core.engine import Engine
from rankd.settings import Settings

ORIGIN = "https://game.example"
BOARD = "/v1/boards/b"
SCORES = f"{BOARD}/scores"
RICH = {"windows": ["all", "daily"], "segments": ["region"]}


# ---------------------------------------------------------------------------------- lanes


class Line(Wire):
    """A connection that waits for its answers."""

    def __init__(self, protocol: BoundedConnection) -> None:
        super().__init__(protocol)
        self._news = asyncio.Event()
        self._read = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        super().write(data)
        self._news.set()

    def _lose(self) -> None:
        super()._lose()
        self._news.set()

    async def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            await self.readable.wait()
            await from_the_loop(self.protocol.data_received, piece)

    async def answer(self) -> bytes:
        """Return the next answer, or what came of it before the connection was lost."""
        while (end := self._end()) is None and not self.lost.is_set():
            self._news.clear()
            await self._news.wait()
        begin, self._read = self._read, len(self.sent) if end is None else end
        return without_what_varies(bytes(self.sent[begin : self._read]))

    def _end(self) -> int | None:
        """Return where the next answer ends, if all of it is there."""
        head = self.sent.find(b"\r\n\r\n", self._read)
        length = re.search(rb"\r\ncontent-length: (\d+)", self.sent[self._read : head])
        end = head + 4 + (int(length[1]) if length is not None else 0)
        return end if head >= 0 and end <= len(self.sent) else None

    async def ask(self, *pieces: bytes) -> bytes:
        await self.send(*pieces)
        return await self.answer()

    async def rest(self) -> bytes:
        """End, and return everything that is still answered."""
        if not self.is_closing() and not await from_the_loop(self.protocol.eof_received):
            self.close()
        await self.lost.wait()
        return without_what_varies(bytes(self.sent[self._read :]))


class Lane:
    """One lane to a service, without a socket."""

    def __init__(
        self, service: ServiceContext, given: Settings, routes: Sequence[Route] = ROUTES
    ) -> None:
        self._config = protocol_config(App(Router(routes), service, given))
        self._config.load()
        self.state = ServerState()
        self.state.default_headers = [DATE]

    def connect(self) -> Line:
        make: Any = self._config.http_protocol_class
        protocol = make(config=self._config, server_state=self.state, app_state={})
        line = Line(protocol)
        protocol.connection_made(line)
        return line

    async def ask(self, *pieces: bytes) -> bytes:
        """Ask on a connection of its own."""
        return await self.connect().ask(*pieces)


class Served(NamedTuple):
    """A service with both lanes to it, and how often a handler was asked in the fast one."""

    rankd: Engine
    service: ServiceContext
    clock: SetClock
    ledger: FaultyLedger
    fast: Lane
    other: Lane
    looked: Counter[str]

    async def know(self, sent: bytes) -> Line:
        """Return a connection on which this was asked already."""
        line = self.fast.connect()
        await line.ask(sent)
        return line

    async def same(self, sent: bytes) -> bytes:
        """Ask both lanes; return what both say."""
        fast, other = await self.fast.ask(sent), await self.other.ask(sent)
        assert fast == other
        return fast

    async def at_once(self, sent: bytes) -> bool:
        """Whether the next answer to this comes without a handler; it must be right anyway."""
        before = self.looked.total()
        await self.same(sent)
        return self.looked.total() == before


def counted(routes: Sequence[Route], looked: Counter[str]) -> list[Route]:
    def watch(route: Route, call: Any) -> Any:
        def watched(*given: Any) -> Any:
            looked[route.operation] += 1
            return call(*given)

        return call and watched

    return [
        replace(route, handler=watch(route, route.handler), quick=watch(route, route.quick))
        for route in routes
    ]


@asynccontextmanager
async def served(
    definition: Mapping[str, object] | None = None, token: ReadToken | None = None, **given: Any
) -> AsyncIterator[Served]:
    """Run an engine in memory with a board ``b``, and both lanes to it."""
    clock, ledger, looked = SetClock(), FaultyLedger(), Counter[str]()
    own = Settings(cors_origins=(ORIGIN,), **given)
    async with engine(ledger, clock) as rankd:
        await rankd.define("b", definition or {})
        auth = Authenticator(
            lambda: rankd.state,
            loopback=True,
            token=token,
            limits=limits_of(own, now=lambda: 0.0),
        )
        service = ServiceContext(rankd, ledger, auth, clock, False, rankd, settings=own)
        fast = Lane(service, own, counted(ROUTES, looked))
        other = Lane(service, replace(own, fast_lane=False))
        yield Served(rankd, service, clock, ledger, fast, other, looked)


# -------------------------------------------------------------------------- what is asked

STANDING, AROUND = "{}", "{}/around"
PLAIN = {"player": "p1", "score": 5}
HEADERS: dict[str, dict[str, str]] = {
    "plain": {},
    "gzip": {"accept_encoding": "gzip, deflate", "user_agent": "game/1.0"},
    "known": {"if_none_match": '"an-etag"'},
    "origin": {"origin": ORIGIN},
    "foreign origin": {"origin": "https://elsewhere.example"},
    "large": {"accept": "a;" + "x" * plans.KEY_BYTES_MAX},
    "two lines": {"accept": "*/*", "connection": "keep-alive"},
}
NOT_AT_ONCE = {"origin", "foreign origin", "large"}


def request(method: str, path: str, body: bytes | None = None, /, **headers: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "host: localhost"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    if body is not None:
        lines.append(f"content-length: {len(body)}")
    return "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n" + (body or b"")


def get(player: str, ask: str = "{}", **headers: str) -> bytes:
    return request("GET", f"{BOARD}/standings/{ask.format(player)}", None, **headers)


def post(body: object, path: str = SCORES, **headers: str) -> bytes:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers.setdefault("content_type", "application/json")
    return request("POST", path, text, **headers)


def keyed(player: str, score: int, key: str = "k", **headers: str) -> bytes:
    return post({"player": player, "score": score, "key": key}, **headers)


# ----------------------------------------------------------------------- what is answered


def status(answer: bytes) -> int:
    return int(answer.split(b" ")[1])


def told(answer: bytes) -> Any:
    """Return the body of an answer, without the fields that vary: only dashes are left of them."""
    return json.loads(re.sub(rb",-{19,}", b"", answer.partition(b"\r\n\r\n")[2]))


async def alike(one: Served, twin: Served, *asked: bytes) -> list[int]:
    """Ask one in the fast lane and its twin in the other; return what both say, as statuses."""
    answers = [(await one.fast.ask(sent), await twin.other.ask(sent)) for sent in asked]
    for fast, other in answers:
        assert fast == other
    return [status(fast) for fast, _ in answers]


# --------------------------------------------------------------------------- who is there


async def new_key(rankd: Engine, *scopes: str) -> tuple[str, str]:
    """Create a key; return its id and what to show."""
    fact, secret = make_key(NewKey(scopes=list(scopes)), actor=None, now=0)
    await rankd.create_key(fact)
    return fact.id, f"Bearer {secret}"


async def fill(rankd: Engine, count: int = 12, **more: object) -> None:
    for number in range(count):
        regional = {"attributes": {"region": "eu"}} if number % 2 else {}
        beside = {"metadata": {"car": number}} if number % 3 == 0 else {}
        item = {"player": f"p{number}", "score": number // 2 * 10, **beside, **regional, **more}
        await rankd.submit("b", [item])
    await rankd.profile("p3", {"name": "Ann Ä", "attributes": {"region": "eu"}})


async def ranking(service: Served) -> list[tuple[object, ...]]:
    """Return who is where by now, and by which submission."""
    page = await service.rankd.reader.page("b", limit=1000)
    return [(page.as_of, one.rank, one.player, one.scores) for one in page.standings]

"""Every place to keep a ledger and an index, over real servers, for tests that speak HTTP.

    with Servers() as servers:
        kept = Backend(index="redis", nodes=3).keep(servers)

Servers are started when they are first needed, and shared: what is kept by one run lies in a schema
of its own and under a prefix of its own, so that no run meets another.
"""

import asyncio
import http.client
import threading
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

from tests.http.api_facade import Answer, Api, asked, connections
from tests.http.clocked import PATIENCE_SECONDS
from tests.http.test_workers import until
from tests.simulation.postgres_servers import new_ledger, postgres

from rankd.adapters.memory.index import NativeIndex
from rankd.adapters.postgres import PostgresLedger
from rankd.adapters.redis import RedisIndex
from rankd.api.server import new_event_loop
from rankd.app import service
from rankd.core.engine import Engine
from rankd.core.reader import Page, Reader
from rankd.core.recovery import IndexHome, folded
from rankd.embedded import WallClock
from rankd.model.facts import Position
from rankd.model.standing import PAGE_LIMIT_MAX
from rankd.ports import Clock
from rankd.settings import Settings
from rankd.testing.redis_servers import of_binary, redis_cluster, watched_redis
from rankd.testing.servers import redis_server, valkey_binary

T = TypeVar("T")

INDEXES = ("native", "redis", "cluster", "sentinel", "valkey")

PARTITIONS = 8
"""Over how many partitions every board lies in a cluster: more than it has masters."""

LOG_MEGABYTES_MAX = "256MB"
"""What PostgreSQL keeps of its own log: the folder is in memory."""

BYSTANDER = "bystander"
"""A player whom no model knows: what is recorded of it changes nothing that is compared."""

_prefixes = count(1)


class Servers(AbstractContextManager["Servers"]):
    """The servers that backends need. Each is started when it is first asked for."""

    def __init__(self) -> None:
        self._running = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    @cached_property
    def postgres(self) -> str:
        """The URL of a PostgreSQL."""
        server = self._running.enter_context(postgres({"max_wal_size": LOG_MEGABYTES_MAX}))
        return server.url

    @cached_property
    def redis(self) -> str:
        """The URL of a Redis."""
        return self._running.enter_context(redis_server()).url

    @cached_property
    def valkey(self) -> str:
        """The URL of a Valkey. Raises ServerMissing."""
        with of_binary(valkey_binary()):
            return self._running.enter_context(redis_server()).url

    @cached_property
    def cluster(self) -> str:
        """The URL of a cluster of three masters."""
        return self._running.enter_context(redis_cluster(masters=3)).url

    @cached_property
    def sentinel(self) -> str:
        """The URL of sentinels, and of the service that they watch."""
        return self._running.enter_context(watched_redis()).url


@dataclass(frozen=True, slots=True)
class Kept:
    """Where one run keeps what it has."""

    ledger: str
    index: str

    @property
    def settings(self) -> dict[str, Any]:
        """What a service is told. A slow machine is no ledger that is lost."""
        patient = {"ledger_silence_seconds": 60.0}
        return {"ledger": self.ledger, "index": self.index, **patient}


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """A ledger in PostgreSQL, an index, and how many serve from them."""

    index: str = "native"
    """One of INDEXES."""
    nodes: int = 1
    """How many services, each of which takes writes."""
    workers: int = 1
    """How many processes each service is of."""

    @property
    def name(self) -> str:
        """What it is called in a report."""
        nodes = f", {self.nodes} nodes" if self.nodes > 1 else ""
        workers = f", {self.workers} workers" if self.workers > 1 else ""
        return f"postgres+{self.index}{nodes}{workers}"

    def start(self, servers: Servers) -> None:
        """Have the servers run that it needs."""
        self.keep(servers)

    def keep(self, servers: Servers) -> Kept:
        """Return a place that nobody has used."""
        ledger = new_ledger(servers.postgres)
        if self.index == "native":
            return Kept(ledger, "native")
        url: str = getattr(servers, self.index)
        more = f"&partitions={PARTITIONS}" if self.index == "cluster" else ""
        more += f"&timeout={PATIENCE_SECONDS}"  # A slow machine is no index that is lost.
        return Kept(ledger, f"{url}?prefix=run{next(_prefixes)}{more}")


BACKENDS = (
    Backend(),
    Backend(index="redis"),
    Backend(index="cluster"),
    Backend(index="sentinel"),
    Backend(nodes=3),
    Backend(index="redis", nodes=3),
    Backend(workers=2),
    Backend(index="valkey"),
)


# ------------------------------------------------------------------------------- nodes


class Node(NamedTuple):
    """A service in a thread of this process."""

    port: int
    rankd: Engine
    loop: asyncio.AbstractEventLoop

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something where the node runs, and return what came of it."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE_SECONDS)


@contextmanager
def serving_node(data: Path, clock: Clock, **given: Any) -> Iterator[Node]:
    """Serve from a thread of this process, as the program does."""
    loop = new_event_loop()
    stop, ready = asyncio.Event(), threading.Event()
    ports: list[int] = []
    engines: list[Engine] = []

    def tell(_host: str, port: int) -> None:
        ports.append(port)
        ready.set()

    @asynccontextmanager
    async def beside(rankd: Engine) -> AsyncIterator[None]:
        engines.append(rankd)
        yield

    def run() -> None:
        wanted = Settings(data=str(data), port=0, **given)
        try:
            loop.run_until_complete(
                service(
                    wanted, clock=clock, tell=lambda _: None, ready=tell, stop=stop, beside=beside
                )
            )
        finally:
            ready.set()

    thread = threading.Thread(target=run, name=f"service {given.get('node', '')}")
    thread.start()
    try:
        assert ready.wait(PATIENCE_SECONDS)
        (port,), (rankd,) = ports, engines
        yield Node(port, rankd, loop)
    finally:
        if thread.is_alive():
            loop.call_soon_threadsafe(stop.set)
        thread.join(PATIENCE_SECONDS)
        loop.close()


@contextmanager
def serving_nodes(
    kept: Kept, folder: Path, clock: Clock, number: int, **given: Any
) -> Iterator[list[Node]]:
    """Serve from so many nodes over one ledger."""
    names = [f"n{place}" for place in range(1, number + 1)]
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                serving_node(folder / name, clock, node=name, **kept.settings, **given)
            )
            for name in names
        ]


# ----------------------------------------------------------------------------- digests


def digest_of(node: Node) -> bytes:
    """What a node's index has, as of the node's position."""
    index = node.rankd.projector.index

    async def digest() -> bytes:
        return index.digest() if isinstance(index, NativeIndex) else await index.digest()  # type: ignore[attr-defined]

    return node.run(digest())


def reach(node: Node, position: int) -> None:
    """Wait until a node, and the index it reads from, have folded all up to a position."""
    node.run(node.rankd.reached(position, within_seconds=PATIENCE_SECONDS))  # type: ignore[arg-type]
    until(lambda: node.run(node.rankd.projector.index.checkpoint()) >= position)


def digest_from_scratch(kept: Kept) -> tuple[int, bytes]:
    """The head of a ledger, and what folding all of it natively gives."""

    async def fold() -> tuple[int, bytes]:
        async with PostgresLedger.open(kept.ledger, node="judge") as ledger:
            index = NativeIndex()
            head = await ledger.head()
            await folded(ledger, IndexHome(index, None)).catch_up(through=head)
            return head, index.digest()

    return asyncio.run(fold())


def pages_from_scratch(
    kept: Kept, board: str, positions: Iterable[int], window: str | None = None
) -> dict[int, Page]:
    """What folding a ledger natively, up to each of some positions, gives for a board."""

    async def fold() -> dict[int, Page]:
        async with PostgresLedger.open(kept.ledger, node="judge") as ledger:
            projector = folded(ledger, IndexHome(NativeIndex(), None))
            reader, pages = Reader(projector=projector, clock=WallClock()), {}
            for position in sorted(set(positions)):
                await projector.catch_up(through=Position(position))
                pages[position] = await reader.page(board, window=window, limit=PAGE_LIMIT_MAX)
            return pages

    return asyncio.run(fold())


def head_of(kept: Kept) -> int:
    """The last position in a ledger."""

    async def head() -> int:
        async with PostgresLedger.open(kept.ledger, node="judge") as ledger:
            return await ledger.head()

    return asyncio.run(head())


def digest_in_redis(kept: Kept) -> bytes:
    """What an index in Redis has, for somebody who was no part of filling it."""

    async def digest() -> bytes:
        async with RedisIndex.open(kept.index) as index:
            return await index.digest()

    return asyncio.run(digest())


# -------------------------------------------------------------------------------- asking


class SpreadApi(Api):
    """Asks each node in turn, and reads as of the last write, whoever took it.

    Where nodes share an index, only the one that took a key knows its answer, until it hands it in
    with what it appends next. Whoever is ``patient`` lets it do so before any other is asked.
    """

    def __init__(
        self, ports: Sequence[int], *, figures: Counter[str], patient: bool = False
    ) -> None:
        super().__init__(ports[0], processes=1, figures=figures)
        self._connections += [each for port in ports[1:] for each in connections(port, 1)]
        self._known = {id(each): 0 for each in self._connections}
        self._last = 0
        self._patient = patient
        self._owing: int | None = None
        """Who took a key last, and may not have handed in its answer."""
        self._writers = set(range(len(self._connections)))
        """Who was asked for a write since it was last known how far they came; at first, all."""
        self._reached = 0

    def _next(self) -> http.client.HTTPConnection:
        self._last = (self._last + 1) % len(self._connections)
        return self._connections[self._last]

    def write(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Ask for a write of any node, and remember which."""
        if self._owing is not None:
            self._hand_in(self._owing)
        self._owing = None
        try:
            return super().write(method, path, body, **headers)
        finally:
            self._writers.add(self._last)
            if self._patient and (headers or _has_key(body)):
                self._owing = self._last

    def hand_in_receipts(self) -> None:
        """Have every node append something, and with it the answers that it owes."""
        for place in range(len(self._connections)):
            self._hand_in(place)

    def _hand_in(self, place: int) -> None:
        path = f"/v1/players/{BYSTANDER}/friends"
        assert asked(self._connections[place], "PUT", path, {"friends": []}).status == 200
        self._writers.add(place)
        self._position = None

    def level(self) -> None:
        """Wait until every node knows what all have written."""
        for place in range(len(self._connections)):
            self._wait(self._connections[place])

    def _wait(self, connection: http.client.HTTPConnection) -> None:
        waiting = f"/v1/players/nobody/standings?min_position={self.position}"
        assert asked(connection, "GET", waiting).status == 200

    @property
    def position(self) -> int:
        """The last position there is: those who wrote know it, and others may not yet."""
        if self._position is None:
            for place in self._writers:
                empty = {"scores": [{"board": ""}]}
                answer = asked(self._connections[place], "POST", "/v1/scores:batch", empty)
                assert answer.status == 200, answer
                self._reached = max(self._reached, answer.body["position"])
            self._writers.clear()
            self._position = self._reached
        return self._position

    def _ask_again(self) -> None:
        super()._ask_again()
        self._writers.update(range(len(self._connections)))  # Any node may have turned a window.


def _has_key(body: Any) -> bool:
    """Whether a submission has a key, or one of many has."""
    return isinstance(body, dict) and ("key" in body or any(map(_has_key, body.get("scores", ()))))

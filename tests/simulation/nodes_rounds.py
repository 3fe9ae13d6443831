"""A world of nodes that serve, round by round: it is struck, comes to rest, and is judged.

Most faults strike in one and the same world, and some have one of their own: see nodes_faults.py.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from tests.simulation.nodes_judge import Judge, Scratch
from tests.simulation.nodes_load import BOARDS, RANKINGS, Deed, Diary, Load
from tests.simulation.nodes_world import (
    CALL_SECONDS,
    SOURCE,
    Line,
    Node,
    RedisMachine,
    TooLate,
    called,
    health,
    redis_machine,
    spooled,
    until,
)
from tests.simulation.postgres_faults import Machine
from tests.simulation.power_loss import scratch_folder

from rankd.adapters.postgres import PostgresLedger
from rankd.adapters.redis import RedisIndex
from rankd.api.routing import ALL, INGEST, MANAGER, QUERY
from rankd.errors import IndexUnavailable
from rankd.testing.proxy import Proxy
from rankd.testing.redis_servers import ClusterOfRedis, WatchedRedis, redis_cluster, watched_redis
from rankd.testing.servers import HOST

SOME = 4
"""How many submissions each node acknowledges before a fault, while it lasts, and after it."""

REPEATED = 12
"""How many acknowledged submissions of a round are sent again, to every node."""

PLAIN, SENTINEL, CLUSTER, ROLES, SPOOL = "plain", "sentinel", "cluster", "roles", "spool"
"""Worlds."""

APART = (INGEST, QUERY, MANAGER)
"""Who is who, where roles are apart. Boards are defined at the first."""

PARTITIONS = 5
"""Of the index in a cluster: more than it has masters, so that some have several."""


@dataclass(frozen=True)
class Plan:
    """How a campaign is to be made."""

    source: Path = SOURCE
    hurried: bool = False
    """Whether receipts are waited for in the end only: nodes hand them in after seconds."""


@dataclass
class Findings:
    """What a campaign came to."""

    rounds: Counter[str] = field(default_factory=Counter)
    tally: Counter[str] = field(default_factory=Counter)
    refusals: list[float] = field(default_factory=list)
    """Seconds that refusals took, once a node had said that the ledger is gone."""
    firsts: list[float] = field(default_factory=list)
    """Seconds that the first refusals of each node took, from the crash at the earliest."""
    doubts: list[float] = field(default_factory=list)
    """Seconds until a node said that it does not know what became of a submission, likewise."""
    silences: list[float] = field(default_factory=list)
    """Seconds until every node said that the ledger is lost, from when PostgreSQL fell silent."""
    problems: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """Say it, a line for each figure."""
        told = [f"  fault {name:14} {many:5,} rounds" for name, many in sorted(self.rounds.items())]
        told += [f"  {name:20} {many:9,}" for name, many in sorted(self.tally.items())]
        timed = {
            "refusals": self.refusals,
            "first refusals": self.firsts,
            "unknown outcomes": self.doubts,
            "silence known": self.silences,
        }
        for name, taken in timed.items():
            some = sorted(1000 * one for one in taken)
            if some:
                middle, high = some[len(some) // 2], some[int(len(some) * 0.99)]
                told.append(
                    f"  {name} without PostgreSQL: {len(some):,}, median {middle:.1f} ms, "
                    f"99 % {high:.1f} ms, at most {some[-1]:.1f} ms"
                )
        return told


@dataclass(frozen=True)
class Fault:
    """What strikes, and whether writes are to go on all the while."""

    strike: Callable[["World"], Awaitable[None]]
    writes_go_on: bool = False
    world: str = PLAIN
    """Where it strikes."""
    once: bool = False
    """Whether its servers are not what they were any more."""


class World:
    """Servers, nodes, clients and their judge, for the life of one ledger."""

    def __init__(
        self,
        postgres: Machine,
        redis: RedisMachine | None,
        random: Random,
        findings: Findings,
        plan: Plan,
        kind: str = PLAIN,
    ) -> None:
        self.postgres, self.redis, self.random = postgres, redis, random
        self.findings, self.plan, self.kind = findings, plan, kind
        self.cluster: ClusterOfRedis | None = None
        self.watched: WatchedRedis | None = None
        self.to_redis: Proxy | None = None
        self.nodes: list[Node] = []
        self.schema = ""
        self.judge = Judge(findings.tally)
        self.load = Load([], random)
        self.number = 0
        self.repeated: list[Deed] = []
        """Sent again, and not yet known to be answered alike by all."""

    @property
    def sharing(self) -> list[Node]:
        return [node for node in self.nodes if node.shares]

    @property
    def index_url(self) -> str:
        """Where Redis is for whoever need not fear faults."""
        if self.watched is not None:
            return self.watched.url
        if self.cluster is not None:
            return _living_url(self.cluster)
        assert self.redis is not None
        return self.redis.server.url

    # -- set-up --

    async def set_up(self, stack: contextlib.AsyncExitStack, folder: Path) -> None:
        """Start the nodes and define the boards."""
        self.schema = f"world_{folder.name.replace('-', '_')}".lower()
        shared = await self._shared_index(stack)
        for number in range(3):
            wire = await stack.enter_async_context(Proxy.open(HOST, self.postgres.server.port))
            index = "native" if number == 2 and self.kind in (PLAIN, SPOOL) else shared
            node = Node(
                name=f"n{number}",
                folder=folder / f"n{number}",
                ledger=f"postgresql://rankd@{HOST}:{wire.port}/postgres?schema={self.schema}",
                index=index,
                spare=number == 1,
                role=APART[number] if self.kind == ROLES else ALL,
                spools=self.kind == SPOOL,
                source=self.plan.source,
                wire=wire,
            )
            stack.callback(node.kill)
            self.nodes.append(node)
        await asyncio.gather(*[node.start() for node in self.nodes])
        for name, definition in BOARDS.items():
            await until(partial(self._defined, name, definition), f"{name} was defined")
        for node in self.nodes:
            await until(partial(self._knows_boards, node), f"{node.name} knew of the boards")
        self.load = Load(self.nodes, self.random)

    async def _defined(self, name: str, definition: dict[str, Any]) -> bool:
        heard = await called(self.nodes[0], "PUT", f"/v1/boards/{name}", definition)
        return heard is not None and heard.status in {200, 201}

    async def _knows_boards(self, node: Node) -> bool:
        """Whether a node has read of them, or is asked for none: others are some moments behind."""
        for name in BOARDS if node.tells else ():
            heard = await called(node, "GET", f"/v1/boards/{name}/standings?limit=1")
            if heard is None or heard.status != 200:
                return False
        return True

    async def _shared_index(self, stack: contextlib.AsyncExitStack) -> str:
        if self.watched is not None:
            return f"{self.watched.url}?timeout={CALL_SECONDS}"
        if self.cluster is not None:
            return f"{self.cluster.url}?timeout={CALL_SECONDS}&partitions={PARTITIONS}"
        assert self.redis is not None
        proxy = await stack.enter_async_context(Proxy.open(HOST, self.redis.server.port))
        self.to_redis = proxy
        partitions = self.random.choice((1, 2, 3))
        return f"redis://{HOST}:{proxy.port}/0?timeout={CALL_SECONDS}&partitions={partitions}"

    @contextlib.asynccontextmanager
    async def witness(self) -> AsyncIterator[PostgresLedger]:
        """Open the ledger beside the nodes, past all proxies."""
        url = f"{self.postgres.server.url}?schema={self.schema}"
        async with PostgresLedger.open(url, node="witness") as ledger:
            yield ledger

    # -- a round --

    async def round(self, name: str, fault: Fault) -> None:
        """Let a fault strike while everybody is at work, and judge."""
        self.number += 1
        diary = self.load.begin()
        try:
            await self.load.more(SOME)
            await fault.strike(self)
            await self.load.more(SOME)
        except TooLate:
            await self._describe()
            self.load.hang_up()
            raise
        finally:
            await self.load.end()
        await self.settle()
        self.findings.rounds[name] += 1
        problems = await self._judged(diary, goes_on=fault.writes_go_on)
        self.findings.problems += [f"round {self.number}, {name}: {each}" for each in problems]

    async def _describe(self) -> None:
        for node in self.nodes:
            tail, status = node.log.read_text()[-1_500:], "silent"
            with contextlib.suppress(TooLate):
                status = await health(node)
            self.findings.problems.append(f"{node.name} says it is {status}: {tail}")

    async def settle(self) -> None:
        """Wait until every node is well and has everything."""
        for node in self.nodes:
            await until(partial(_is_drained, node), f"{node.name} handed in what it spooled")
        async with self.witness() as witness:
            head = await witness.head()
        for node in self.nodes:
            try:
                await until(partial(self._is_well, node, head), f"{node.name} has everything")
            except TooLate:
                await self._describe()
                raise

    async def _is_well(self, node: Node, head: int) -> bool:
        if await health(node) != "ready":
            return False
        if not node.tells:
            return True
        heard = await called(node, "GET", f"/v1/boards/sum/standings?min_position={head}")
        return (
            heard is not None
            and heard.status == 200
            and not heard.body["stale"]
            and heard.body["as_of"] >= head
        )

    # -- judging --

    async def _judged(self, diary: Diary, *, goes_on: bool) -> list[str]:
        judge, problems = self.judge, []
        async with self.witness() as witness:
            await judge.facts.follow(witness)
            problems += judge.presence(diary)
            judge.count(diary)
            if goes_on:
                problems += _interrupted(diary)
            if problems:
                return problems
            problems += await self._repeat(diary)
            problems += await self._read_everything()
            await judge.facts.follow(witness)
            problems += judge.presence(diary)
            wrong, scratch = await judge.answers(diary)
            problems += wrong
            async for _ in witness.verify():
                pass
            problems += await self._wrong_digest(scratch, witness)
        return problems

    async def _repeat(self, diary: Diary) -> list[str]:
        """Send keys again to every node: all say the same, and what was said before."""
        keyed = [deed for deed in diary.deeds if deed.key]
        unknown = [deed for deed in keyed if deed.applied == "unknown"]
        known = [deed for deed in keyed if deed.applied == "yes"]
        again = unknown + self.random.sample(known, min(len(known), REPEATED))
        self.findings.tally["sent again"] += len(again)
        self.findings.tally["of them unknown"] += len(unknown)
        self.repeated += again
        problems = []
        for deed in again:
            problems += await self._answered_alike(deed, wait=False)
        return problems if problems or self.plan.hurried else await self.converge()

    async def converge(self) -> list[str]:
        """Wait until every node answers alike for all that was sent again."""
        problems: list[str] = []
        for deed in self.repeated:
            problems += await self._answered_alike(deed, wait=True)
            if problems:
                break  # The others may have to be waited for just as long.
            self.findings.tally["without receipt"] += not _whole(deed)
        self.repeated = []
        return problems

    async def _answered_alike(self, deed: Deed, *, wait: bool) -> list[str]:
        """Send until every node answers and, if asked to wait, tells what it did, where any can."""
        # An index of one's own forgets nothing.
        nodes = [node for node in self.nodes if node.takes]
        known = wait and any(not node.shares for node in nodes)
        lines = {node.name: Line(node) for node in nodes}

        async def told() -> bool:
            sent = [await self.load.send(deed, node, lines[node.name]) for node in nodes]
            if any(one.applied != "yes" for one in sent):
                return False
            verdicts = {one.receipt["verdict"] for one in sent if one.receipt is not None}
            return "accepted" not in verdicts or not (known or (wait and len(verdicts) > 1))

        try:
            await until(told, f"every node answered for {deed.number}")
        except TooLate as exc:
            return [f"{exc}; the last answers: {[one.receipt for one in deed.told[-3:]]}"]
        finally:
            for line in lines.values():
                line.close()
        whole = _whole(deed)
        positions = {one["position"] for one in deed.receipts()} - {None}  # While it was spooled.
        if len(positions) > 1 or any(one != whole[0] for one in whole):
            return [f"{deed.number}: two answers: {deed.receipts()}"]
        return []

    async def _read_everything(self) -> list[str]:
        """Have every page of every ranking read from every node, into the diary."""
        head, problems = self.judge.facts.last, []
        for node in self.nodes:
            if not node.tells:
                continue
            line = Line(node)
            for board, window, segment in RANKINGS:
                offset, total = 0, 1
                while offset < total:
                    heard = await self.load.ask(
                        line, node, board, window, segment, None, offset, head
                    )
                    if heard is None or heard.status != 200 or heard.body["stale"]:
                        problems.append(f"{node.name} does not tell {board}/{window}: {heard}")
                        break
                    total, offset = heard.body["total"], offset + 20
            line.close()
        return problems

    async def _wrong_digest(self, scratch: Scratch, witness: PostgresLedger) -> list[str]:
        """Compare Redis with the fold; a window may turn meanwhile, so both may have to go on."""
        async with RedisIndex.open(self.index_url) as index:

            async def still() -> bool:
                with contextlib.suppress(IndexUnavailable):
                    before = await index.checkpoint()
                    found.append(await index.digest())
                    return before == await index.checkpoint() and before >= scratch.facts.last
                return False

            found: list[bytes] = []
            await until(still, "the index in Redis came to rest")
            position = await index.checkpoint()
        await scratch.facts.follow(witness)
        await scratch.go_to(position)
        if found[-1] != scratch.digest():
            return [f"the digest of Redis at {position} is not that of the fold"]
        return []


async def _is_drained(node: Node) -> bool:
    return await spooled(node) == 0


def _living_url(cluster: ClusterOfRedis) -> str:
    """Return how to reach a cluster of which a master may be gone."""
    servers = [*cluster.masters, *cluster.replicas]
    return "redis+cluster://" + ",".join(f"{one.host}:{one.port}" for one in servers)


def _whole(deed: Deed) -> list[dict[str, Any]]:
    """Return the receipts that tell what a submission did."""
    receipts = [dict(one, duplicate=None) for one in deed.receipts()]
    return [one for one in receipts if one["verdict"] != "accepted"]


def _interrupted(diary: Diary) -> list[str]:
    """Return which submissions were not acknowledged though the ledger was never lost."""
    return [
        f"{one.node} answered {one.status}, applied {one.applied}, though only Redis was lost"
        for deed in diary.deeds
        for one in deed.told
        if one.applied != "yes"
    ]


@contextlib.asynccontextmanager
async def world_of(
    postgres: Machine, findings: Findings, random: Random, plan: Plan, *, kind: str
) -> AsyncIterator[World]:
    """Set up a world for the length of the block."""
    async with contextlib.AsyncExitStack() as stack:
        single = kind not in (SENTINEL, CLUSTER)
        redis = stack.enter_context(redis_machine()) if single else None
        world = World(postgres, redis, random, findings, plan, kind)
        if kind == SENTINEL:
            world.watched = stack.enter_context(watched_redis())
        elif kind == CLUSTER:
            world.cluster = stack.enter_context(redis_cluster(masters=3, replicas=True))
        await world.set_up(stack, stack.enter_context(scratch_folder()))
        yield world

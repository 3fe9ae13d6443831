"""Redis, PostgreSQL, the network and nodes themselves fail under several nodes that serve.

    python -m tests.simulation.nodes_faults [--rounds N] [--seed S] [--fault NAME] [--source FOLDER]

Three nodes over one ledger in PostgreSQL: two share an index in Redis, one of them keeping a copy,
and the third has an index of its own. Clients submit, repeat and read all the time, and in each
round one fault strikes in the middle of it. Then, with no node started again but the one that
was killed, everything is judged (nodes_judge.py): acknowledged means there once, refused means
absent, unknown means either; a key that is sent again to every node gets one answer; every
answer was true as of the position it named; every node's standings, and the digest of what is
in Redis, are those of a fold from scratch; the hash chain holds.

Where a Redis behind sentinels falls back to a replica that lagged, three nodes that all share it
have a world of their own.

``--source`` has the nodes run another copy of the program: one with a planted bug, for instance.
A round is made from the seed; what is under way when its fault strikes depends on the machine too.
"""

import argparse
import asyncio
import contextlib
import os
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import asyncpg  # type: ignore[import-untyped]
from tests.simulation.nodes_judge import Judge, Scratch
from tests.simulation.nodes_load import BOARDS, RANKINGS, Deed, Diary, Load
from tests.simulation.nodes_world import (
    CALL_SECONDS,
    SOURCE,
    Line,
    Node,
    RedisMachine,
    TooLate,
    all_are,
    called,
    health,
    redis_machine,
    until,
)
from tests.simulation.postgres_faults import Machine, machine
from tests.simulation.power_loss import scratch_folder

from rankd.adapters.postgres import PostgresLedger
from rankd.adapters.redis import RedisIndex
from rankd.errors import IndexUnavailable, RankdError
from rankd.testing.proxy import Cut, Proxy
from rankd.testing.redis_servers import (
    WatchedRedis,
    catch_up,
    fail_over,
    say,
    watched_redis,
)
from rankd.testing.servers import HOST

SOME = 4
"""How many submissions each node acknowledges before a fault, while it lasts, and after it."""

REPEATED = 12
"""How many acknowledged submissions of a round are sent again, to every node."""

ASKED_AT_ONCE = 3
"""How many pages are asked of each node the moment that Redis was emptied."""

FACTS_MAX = 40_000
"""A ledger is begun anew when it has so many: else each round would take longer than the last."""

SENTINEL = "sentinel"
"""The fault that has a world of its own."""


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
    """Seconds until the first refusal of each node, from the crash."""
    problems: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """Say it, a line for each figure."""
        told = [f"  fault {name:14} {many:5,} rounds" for name, many in sorted(self.rounds.items())]
        told += [f"  {name:20} {many:9,}" for name, many in sorted(self.tally.items())]
        for name, taken in (("refusals", self.refusals), ("first refusals", self.firsts)):
            some = sorted(1000 * one for one in taken)
            if some:
                middle, high = some[len(some) // 2], some[int(len(some) * 0.99)]
                told.append(
                    f"  {name} without PostgreSQL: {len(some):,}, median {middle:.1f} ms, "
                    f"99 % {high:.1f} ms, at most {some[-1]:.1f} ms"
                )
        return told


class World:
    """Servers, nodes, clients and their judge, for the life of one ledger."""

    def __init__(
        self,
        postgres: Machine,
        redis: RedisMachine | None,
        random: Random,
        findings: Findings,
        plan: Plan,
    ) -> None:
        self.postgres, self.redis, self.random = postgres, redis, random
        self.findings, self.plan = findings, plan
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
        assert self.redis is not None
        return self.redis.server.url

    # -- set-up --

    async def set_up(self, stack: contextlib.AsyncExitStack, folder: Path) -> None:
        """Start the nodes and define the boards."""
        self.schema = f"world_{folder.name.replace('-', '_')}".lower()
        shared = await self._shared_index(stack)
        for number in range(3):
            wire = await stack.enter_async_context(Proxy.open(HOST, self.postgres.server.port))
            index = "native" if number == 2 and self.watched is None else shared
            node = Node(
                name=f"n{number}",
                folder=folder / f"n{number}",
                ledger=f"postgresql://rankd@{HOST}:{wire.port}/postgres?schema={self.schema}",
                index=index,
                spare=number == 1,
                source=self.plan.source,
                wire=wire,
            )
            stack.callback(node.kill)
            self.nodes.append(node)
        await asyncio.gather(*[node.start() for node in self.nodes])
        for name, definition in BOARDS.items():
            await until(partial(self._defined, name, definition), f"{name} was defined")
        self.load = Load(self.nodes, self.random)

    async def _defined(self, name: str, definition: dict[str, Any]) -> bool:
        heard = await called(self.nodes[0], "PUT", f"/v1/boards/{name}", definition)
        return heard is not None and heard.status in {200, 201}

    async def _shared_index(self, stack: contextlib.AsyncExitStack) -> str:
        if self.watched is not None:
            return f"{self.watched.url}?timeout={CALL_SECONDS}"
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

    async def round(self, fault: str) -> None:
        """Let a fault strike while everybody is at work, and judge."""
        self.number += 1
        diary = self.load.begin()
        try:
            await self.load.more(SOME)
            await FAULTS[fault].strike(self)
            await self.load.more(SOME)
        except TooLate:
            await self._describe()
            self.load.hang_up()
            raise
        finally:
            await self.load.end()
        await self.settle()
        self.findings.rounds[fault] += 1
        problems = await self._judged(diary, goes_on=FAULTS[fault].writes_go_on)
        self.findings.problems += [f"round {self.number}, {fault}: {each}" for each in problems]

    async def _describe(self) -> None:
        for node in self.nodes:
            tail, status = node.log.read_text()[-1_500:], "silent"
            with contextlib.suppress(TooLate):
                status = await health(node)
            self.findings.problems.append(f"{node.name} says it is {status}: {tail}")

    async def settle(self) -> None:
        """Wait until every node is well and has everything."""
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
        known = wait and any(not node.shares for node in self.nodes)
        lines = {node.name: Line(node) for node in self.nodes}

        async def told() -> bool:
            sent = [await self.load.send(deed, node, lines[node.name]) for node in self.nodes]
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
        positions = {one["position"] for one in deed.receipts()}
        if len(positions) > 1 or any(one != whole[0] for one in whole):
            return [f"{deed.number}: two answers: {deed.receipts()}"]
        return []

    async def _read_everything(self) -> list[str]:
        """Have every page of every ranking read from every node, into the diary."""
        head, problems = self.judge.facts.last, []
        for node in self.nodes:
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


# ---------------------------------------------------------------------------------- faults


@dataclass(frozen=True)
class Fault:
    """What strikes, and whether writes are to go on all the while."""

    strike: Callable[[World], Awaitable[None]]
    writes_go_on: bool = False


def _redis(world: World) -> tuple[RedisMachine, Proxy]:
    assert world.redis is not None and world.to_redis is not None
    return world.redis, world.to_redis


async def _without_redis(world: World) -> None:
    """Wait until every node that shares knows, and has gone on taking scores."""
    await until(partial(all_are, world.sharing, "degraded"), "Redis was missed")
    await world.load.more(SOME)


async def kill_redis(world: World) -> None:
    """Redis is killed, and started again empty."""
    redis, proxy = _redis(world)
    await asyncio.to_thread(redis.kill)
    await _without_redis(world)
    await asyncio.to_thread(redis.start)
    proxy.to = redis.server.port


async def pause_redis(world: World) -> None:
    """Redis stands still for a while."""
    redis, _ = _redis(world)
    redis.pause()
    try:
        await _without_redis(world)
    finally:
        redis.resume()


async def flush_redis(world: World) -> None:
    """Redis is emptied under everybody's hands, and is asked before anybody can have noticed."""
    redis, _ = _redis(world)
    lines = [(node, Line(node)) for node in world.sharing for _ in range(ASKED_AT_ONCE)]
    say(redis.server, "FLUSHALL")
    asked = [world.load.ask(line, node, "sum", "all", None, None, 0, None) for node, line in lines]
    await asyncio.gather(*asked)
    for _, line in lines:
        line.close()


async def flush_scripts(world: World) -> None:
    """Redis forgets the scripts."""
    redis, _ = _redis(world)
    say(redis.server, "SCRIPT", "FLUSH")


async def _fall_behind(world: World) -> None:
    """Wait until the index is further than any replica that does not follow any more."""
    node = world.nodes[0]
    before = await _index_position(node)

    async def moved() -> bool:
        return await _index_position(node) > before

    await until(moved, "the index moved on")
    await world.load.more(SOME)


async def _index_position(node: Node) -> int:
    """Return where the index in Redis is, as a node without a copy of it says; 0 if it cannot."""
    heard = await called(node, "GET", "/v1/boards/sum/standings?limit=1")
    return heard.body["as_of"] if heard is not None and heard.status == 200 else 0


async def promote_replica(world: World) -> None:
    """The master dies, and a replica that lagged takes its place."""
    redis, proxy = _redis(world)
    replica = await asyncio.to_thread(redis.start_replica)
    await asyncio.to_thread(catch_up, replica, with_master=redis.server)
    say(replica, "REPLICAOF", "NO", "ONE")
    await _fall_behind(world)
    await asyncio.to_thread(redis.promote, replica)
    proxy.to = replica.port


async def fail_over_lagging(world: World) -> None:
    """Sentinels promote a replica that lagged: it was not let to follow for a while."""
    watched = world.watched
    assert watched is not None
    say(watched.master, "ACL", "SETUSER", "default", "-psync", "-sync")
    say(watched.master, "CLIENT", "KILL", "TYPE", "replica")
    await _fall_behind(world)
    await asyncio.to_thread(fail_over, watched)
    os.kill(watched.master.pid, signal.SIGKILL)


async def crash_postgres(world: World) -> None:
    """PostgreSQL is stopped at once, and started again from what it left."""
    begun = time.monotonic()
    await asyncio.to_thread(world.postgres.crash)
    await world.load.refusals(world.nodes)
    await asyncio.to_thread(world.postgres.start)
    _time_refusals(world, begun, time.monotonic())
    _lead_to_postgres(world)


def _lead_to_postgres(world: World) -> None:
    for node in world.nodes:
        assert node.wire is not None
        node.wire.to = world.postgres.server.port


def _time_refusals(world: World, begun: float, ended: float) -> None:
    by_node: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for deed in world.load.diary.deeds:
        for one in deed.told:
            if one.status == 503 and one.applied == "no" and begun < one.ended < ended:
                by_node[one.node].append((one.began, one.ended))
    for some in by_node.values():
        known = min(end for _, end in some)
        world.findings.firsts.append(known - begun)
        world.findings.refusals += [end - start for start, end in some if start > known]


async def end_backends(world: World) -> None:
    """Every process of PostgreSQL that serves a node is ended."""
    database = await asyncpg.connect(world.postgres.server.url)
    try:
        await database.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name LIKE 'rankd n%'"
        )
    finally:
        await database.close()


async def cut_appends(world: World) -> None:
    """The wire between a node and PostgreSQL is cut around a commit, in every way."""
    for cut in Cut:
        node = world.random.choice(world.nodes)
        await _cut_one(world, node, cut)
        assert node.wire is not None
        node.wire.deliver()


async def lose_answer(world: World) -> None:
    """A node is cut off when a commit of its own is done, until it has said what it knows."""
    node = world.random.choice(world.nodes)
    assert node.wire is not None
    try:
        await _cut_one(world, node, Cut.ANSWERED, alone=True)
    finally:
        node.wire.accepting = True


async def _cut_one(world: World, node: Node, cut: Cut, *, alone: bool = False) -> None:
    """Cut at a submission that is made for it; with ``alone``, let nobody back in."""
    player = f"cut-{world.number}-{cut.name}"
    deed, line, wire = world.load.deed(player), Line(node), node.wire
    assert wire is not None
    broken = wire.cut_at(player.encode(), cut)
    sending = asyncio.create_task(world.load.send(deed, node, line))
    try:
        await until(_is_set(broken), f"{node.name} was cut {cut.name}")
        if alone:
            wire.accepting = False
            wire.cut()
        await sending
    finally:
        line.close()


def _is_set(event: asyncio.Event) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        return event.is_set()

    return look


async def kill_node(world: World) -> None:
    """A node is killed, and started again."""
    node = world.random.choice(world.nodes)
    await asyncio.to_thread(node.kill)
    await world.load.more(SOME, [other for other in world.nodes if other is not node])
    await node.start()


async def pause_node(world: World) -> None:
    """A node stands still; whoever waits for it goes elsewhere, and it comes back."""
    node = world.random.choice(world.nodes)
    node.send(signal.SIGSTOP)
    try:
        node.hung_up.set()
        await world.load.more(SOME, [other for other in world.nodes if other is not node])
    finally:
        node.send(signal.SIGCONT)
        node.hung_up.clear()


async def crash_both(world: World) -> None:
    """Redis and PostgreSQL are lost at once, and come back in any order."""
    redis, proxy = _redis(world)
    await asyncio.gather(asyncio.to_thread(redis.kill), asyncio.to_thread(world.postgres.crash))
    await world.load.refusals(world.nodes)
    back = [redis.start, world.postgres.start]
    world.random.shuffle(back)
    for start in back:
        await asyncio.to_thread(start)
        proxy.to = redis.server.port
        _lead_to_postgres(world)


FAULTS: dict[str, Fault] = {
    "redis-kill": Fault(kill_redis, writes_go_on=True),
    "redis-pause": Fault(pause_redis, writes_go_on=True),
    "redis-flush": Fault(flush_redis, writes_go_on=True),
    "redis-scripts": Fault(flush_scripts, writes_go_on=True),
    "redis-promote": Fault(promote_replica, writes_go_on=True),
    SENTINEL: Fault(fail_over_lagging, writes_go_on=True),
    "pg-crash": Fault(crash_postgres),
    "pg-backends": Fault(end_backends),
    "pg-cut": Fault(cut_appends),
    "pg-lost": Fault(lose_answer),
    "node-kill": Fault(kill_node),
    "node-pause": Fault(pause_node),
    "both": Fault(crash_both),
}


# -------------------------------------------------------------------------------- campaign


@contextlib.asynccontextmanager
async def world_of(
    postgres: Machine, findings: Findings, random: Random, plan: Plan, *, sentinels: bool
) -> AsyncIterator[World]:
    """Set up a world for the length of the block."""
    async with contextlib.AsyncExitStack() as stack:
        redis = None if sentinels else stack.enter_context(redis_machine())
        world = World(postgres, redis, random, findings, plan)
        if sentinels:
            world.watched = stack.enter_context(watched_redis())
        await world.set_up(stack, stack.enter_context(scratch_folder()))
        yield world


async def live(
    faults: Sequence[str],
    seed: int,
    plan: Plan,
    *,
    say: Callable[[str], None] = lambda _: None,
) -> Findings:
    """Live through these faults, one after another, until something is wrong."""
    findings, random, left = Findings(), Random(seed), list(faults)
    with machine() as postgres:
        while left and not findings.problems:
            try:
                async with world_of(
                    postgres, findings, random, plan, sentinels=left[0] == SENTINEL
                ) as world:
                    await _live_in(world, left, say)
                    findings.problems += await world.converge()
            except (TooLate, RankdError) as exc:
                findings.problems.append(f"{left[:1]}: {exc!r}")
    return findings


async def _live_in(world: World, left: list[str], say: Callable[[str], None]) -> None:
    """Go through faults as long as they are for this world, and take them from the list."""
    while left and not world.findings.problems:
        if (left[0] == SENTINEL) != (world.watched is not None):
            return
        begun = time.monotonic()
        await world.round(left[0])
        fault = left.pop(0)
        facts, taken = len(world.judge.facts.all), time.monotonic() - begun
        say(f"{sum(world.findings.rounds.values())} {fault}: {taken:.1f} s, {facts:,} facts")
        if fault == SENTINEL or facts > FACTS_MAX:
            return


def chosen(rounds: int, seed: int, fault: str | None) -> list[str]:
    """Return the faults of a campaign: each as often as every other, in any order."""
    random = Random(f"{seed}/order")
    faults: list[str] = []
    while len(faults) < rounds:
        some = list(FAULTS) if fault is None else [fault]
        random.shuffle(some)
        faults += some
    return faults[:rounds]


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(args: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=2 * len(FAULTS))
    parser.add_argument("--seed", type=int, default=time.time_ns() & 0xFFFF_FFFF)
    parser.add_argument("--fault", choices=sorted(FAULTS))
    parser.add_argument("--source", type=Path, default=SOURCE)
    given: Any = parser.parse_args(args)
    only = f" --fault {given.fault}" if given.fault else ""
    command = f"python -m tests.simulation.nodes_faults --rounds {given.rounds} --seed {given.seed}"
    _say(command + only)
    begun = time.monotonic()
    faults = chosen(given.rounds, given.seed, given.fault)
    plan = Plan(given.source)
    findings = asyncio.run(live(faults, given.seed, plan, say=_say))
    for line in findings.lines():
        _say(line)
    for problem in findings.problems[:20]:
        _say(f"  seed {given.seed}: {problem}")
    _say(
        f"{sum(findings.rounds.values())} rounds in {time.monotonic() - begun:.0f} s: "
        f"{len(findings.problems)} problems"
    )
    return 1 if findings.problems else 0


if __name__ == "__main__":
    sys.exit(main())

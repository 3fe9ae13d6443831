"""What strikes nodes that serve: servers, wires and nodes fail, and boards are defined anew.

Where PostgreSQL is lost, or only says nothing any more, a fault also looks at how soon nodes say so
and how long whoever is refused from then on has to wait for it.
"""

import asyncio
import contextlib
import os
import signal
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import asyncpg  # type: ignore[import-untyped]
from tests.simulation.nodes_load import BOARDS
from tests.simulation.nodes_rounds import CLUSTER, ROLES, SENTINEL, SOME, SPOOL, Fault, World
from tests.simulation.nodes_world import Line, Node, RedisMachine, all_are, called, until

from rankd.testing.proxy import Cut, Proxy
from rankd.testing.redis_servers import catch_up, fail_over, say
from rankd.testing.servers import RedisServer, ServerFailed

ASKED_AT_ONCE = 3
"""How many pages are asked of each node the moment that Redis was emptied."""

REDEFINITIONS = 3
"""How often a board is defined anew in a round."""

REFUSAL_SECONDS_MAX = 0.25
"""How long a refusal may take once a node has said that the ledger is gone: G9."""

KNOWN_SECONDS_MAX = 3.0
"""How long nodes may take to say that PostgreSQL is silent: half as long again as they bear
silence, and as much for a machine that does other things."""

SILENCES_SECONDS = (0.0, 0.0, 7.0)
"""How long PostgreSQL stays silent when everybody knows it: mostly answers come in the end, and now
and then nodes have given up by then."""

DOUBT_SECONDS_MAX = 12.0
"""How long an outcome may be looked for until it is called unknown: an append's own time, that of a
connection, and as much for the machine."""


# ---------------------------------------------------------------------------------- Redis


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
    telling = [node for node in world.sharing if node.tells]
    lines = [(node, Line(node)) for node in telling for _ in range(ASKED_AT_ONCE)]
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


# ----------------------------------------------------------------------------- PostgreSQL


async def crash_postgres(world: World) -> None:
    """PostgreSQL is stopped at once, and started again from what it left."""
    begun = time.monotonic()
    await asyncio.to_thread(world.postgres.crash)
    await world.load.refusals(world.nodes)
    ended = time.monotonic()
    await asyncio.to_thread(world.postgres.start)
    _time_refusals(world, begun, ended)
    _lead_to_postgres(world)


async def pause_postgres(world: World) -> None:
    """PostgreSQL stands still, all of it; no connection is lost, and nobody is answered."""
    world.postgres.pause()
    try:
        await _in_silence(world)
    finally:
        world.postgres.resume()


async def silence_postgres(world: World) -> None:
    """The network between nodes and PostgreSQL loses everything, and perhaps connections too."""
    wires = [node.wire for node in world.nodes if node.wire is not None]
    for wire in wires:
        wire.pause()
    try:
        await _in_silence(world)
    finally:
        for wire in wires:
            if world.random.random() < 0.5:
                wire.cut()
            wire.resume()


async def _in_silence(world: World) -> None:
    """Wait until every node has said that the ledger is lost, in answers too, and has refused."""
    begun = time.monotonic()
    await until(partial(all_are, world.nodes, "degraded"), "PostgreSQL was missed")
    world.findings.silences.append(time.monotonic() - begun)
    if world.findings.silences[-1] > KNOWN_SECONDS_MAX:
        world.load.diary.odd.append(f"it took {world.findings.silences[-1]:.1f} s to be missed")
    for node in world.nodes:
        heard = await called(node, "GET", "/v1/boards/sum/standings?limit=1")
        if heard is None or (heard.status == 200 and not heard.body["stale"]):
            world.load.diary.odd.append(f"{node.name} does not say that it may be stale: {heard}")
    await world.load.refusals(world.nodes)
    await asyncio.sleep(world.random.choice(SILENCES_SECONDS))
    _time_refusals(world, begun, time.monotonic())


async def kill_backend(world: World) -> None:
    """A process of PostgreSQL is killed; then the server ends all others and recovers."""
    database = await asyncpg.connect(world.postgres.server.url)
    try:
        pids = await database.fetch(
            "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'rankd n%' ORDER BY pid"
        )
        os.kill(world.random.choice(pids)["pid"], signal.SIGKILL)
    finally:
        database.terminate()


def _lead_to_postgres(world: World) -> None:
    for node in world.nodes:
        assert node.wire is not None
        node.wire.to = world.postgres.server.port


def _time_refusals(world: World, begun: float, ended: float) -> None:
    by_node: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for deed in world.load.diary.deeds:
        for one in deed.told:
            if one.status != 503 or not begun < one.ended < ended:
                continue
            if one.applied == "no":
                by_node[one.node].append((one.began, one.ended))
            else:
                world.findings.doubts.append(one.ended - max(one.began, begun))
    known: list[float] = []
    for some in by_node.values():
        first = min(end for _, end in some)
        known += [end - start for start, end in some if start > first]
        world.findings.firsts += [end - max(start, begun) for start, end in some if start <= first]
    world.findings.refusals += known
    late = [f"a refusal took {one:.3f} s" for one in known if one > REFUSAL_SECONDS_MAX]
    doubts = [one for one in world.findings.doubts if one > DOUBT_SECONDS_MAX]
    late += [f"that nobody knows was said after {one:.1f} s" for one in doubts]
    world.load.diary.odd += late


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


# ----------------------------------------------------------------------- nodes and boards


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


async def redefine(world: World) -> None:
    """Boards are defined anew under everybody's hands, at any node."""
    for _ in range(REDEFINITIONS):
        board = world.random.choice(("best", "low"))
        changed = {
            "rule": world.random.choice(("best", "latest")),
            "direction": world.random.choice(("higher", "lower")),
        }
        node = world.random.choice(world.nodes)
        path, definition = f"/v1/boards/{board}?apply=true", {**BOARDS[board], **changed}

        async def redefined(
            node: Node = node, path: str = path, definition: dict[str, Any] = definition
        ) -> bool:
            heard = await called(node, "PUT", path, definition)
            if heard is not None and heard.status not in {200, 201, 503}:
                world.load.diary.odd.append(f"{node.name} answered {heard} to PUT {path}")
            return heard is not None and heard.status != 503

        await until(redefined, f"{board} was defined anew")
        await world.load.more(SOME)


# -------------------------------------------------------------------- worlds of their own


def _shard(world: World) -> RedisServer:
    assert world.cluster is not None
    return world.random.choice(world.cluster.masters)


async def pause_shard(world: World) -> None:
    """A master of the cluster stands still for a while."""
    shard = _shard(world)
    os.kill(shard.pid, signal.SIGSTOP)
    try:
        await _without_redis(world)
    finally:
        os.kill(shard.pid, signal.SIGCONT)


async def flush_shard(world: World) -> None:
    """A master of the cluster is emptied: its partitions do not fit the others any more."""
    say(_shard(world), "FLUSHALL")


async def fail_over_shard(world: World) -> None:
    """A master of the cluster dies, and its replica takes its place."""
    assert world.cluster is not None
    number = world.random.randrange(len(world.cluster.masters))
    master, replica = world.cluster.masters[number], world.cluster.replicas[number]
    os.kill(master.pid, signal.SIGKILL)
    await _without_redis(world)
    with contextlib.suppress(ServerFailed):  # On a slow machine it has done so by itself.
        say(replica, "CLUSTER", "FAILOVER", "TAKEOVER")


async def kill_each(world: World) -> None:
    """Every node is killed and started again, one after another, whatever its role."""
    nodes = list(world.nodes)
    world.random.shuffle(nodes)
    for node in nodes:
        await asyncio.to_thread(node.kill)
        await world.load.more(SOME, [other for other in nodes if other is not node])
        await node.start()
        await world.load.more(SOME)


async def spool_scores(world: World) -> None:
    """PostgreSQL is away for a while; scores wait on disk, and one node is killed with them."""
    await asyncio.to_thread(world.postgres.crash)
    await world.load.more(SOME)
    node = world.random.choice(world.nodes)
    await asyncio.to_thread(node.kill)
    await asyncio.to_thread(world.postgres.start)
    _lead_to_postgres(world)
    await node.start()


FAULTS: dict[str, Fault] = {
    "redis-kill": Fault(kill_redis, writes_go_on=True),
    "redis-pause": Fault(pause_redis, writes_go_on=True),
    "redis-flush": Fault(flush_redis, writes_go_on=True),
    "redis-scripts": Fault(flush_scripts, writes_go_on=True),
    "redis-promote": Fault(promote_replica, writes_go_on=True),
    "sentinel": Fault(fail_over_lagging, writes_go_on=True, world=SENTINEL, once=True),
    "pg-crash": Fault(crash_postgres),
    "pg-pause": Fault(pause_postgres),
    "pg-silent": Fault(silence_postgres),
    "pg-backends": Fault(end_backends),
    "pg-kill": Fault(kill_backend),
    "pg-cut": Fault(cut_appends),
    "pg-lost": Fault(lose_answer),
    "node-kill": Fault(kill_node),
    "node-pause": Fault(pause_node),
    "both": Fault(crash_both),
    "redefine": Fault(redefine, writes_go_on=True),
    "cluster-pause": Fault(pause_shard, writes_go_on=True, world=CLUSTER),
    "cluster-flush": Fault(flush_shard, writes_go_on=True, world=CLUSTER),
    "cluster-failover": Fault(fail_over_shard, writes_go_on=True, world=CLUSTER, once=True),
    "roles-kill": Fault(kill_each, world=ROLES),
    "roles-flush": Fault(flush_redis, writes_go_on=True, world=ROLES),
    "spool": Fault(spool_scores, world=SPOOL),
}

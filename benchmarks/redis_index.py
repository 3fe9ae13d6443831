"""What does the index in Redis cost, and what does it reach?

A server is started for the run; it writes nothing to disk. A ranking is filled in two ways: by
applies, as folding the ledger does, and from a native index, as a rebuild may. Beside it stands
what one would write without rankd: a sorted set with a score, asked and changed by plain redis-py
calls. A rank is then three of them, for it comes with its score and the total; a submission is
five, for it is told its score and its rank before as well.

Beside the clock stands the processor time of both sides, which other work on the machine disturbs
less.

    python -m benchmarks.redis_index [PLAYERS]
"""

import asyncio
import datetime
import random
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import redis.asyncio
import uvloop

from benchmarks import machine
from benchmarks.figures import Goal, quotient
from benchmarks.progress import tell
from benchmarks.questions import Asked, answer, find, judged, row, shown, write
from rankd.adapters.memory.index import NativeIndex
from rankd.adapters.redis import RedisIndex
from rankd.model.facts import Position
from rankd.model.standing import Rank
from rankd.ports import Move, RankIndex, Ranking, RankingShape
from rankd.testing.servers import RedisServer, redis_server

NAME = "redis_index"
QUESTION = "What does the index in Redis cost, and what does it reach?"
BATCH = 8_192
SECONDS = 3.0
"""How long one measurement lasts."""
TASKS = 256
"""How many wait at once, as many connections of an API process would."""
_PLAIN_RANKS = f"plain ranks, {TASKS} waiting"
_PLAIN_SUBMISSIONS = f"plain submissions, {TASKS} waiting"
ARENA = Ranking("arena", "forever")
PLAIN = RankingShape(16, dense=False)


def run(asked: Asked) -> dict[str, Any]:
    """Measure, and judge by the goals."""
    with redis_server(options={"maxmemory": "0"}) as server:
        rows = uvloop.run(_measured(server, asked.players))
    result = answer(NAME, QUESTION, asked, rows)

    def figure(what: str) -> Callable[[], float | None]:
        return lambda: find(result, what)

    def ratio(what: str, plain: str) -> Callable[[], float | None]:
        return lambda: quotient(find(result, what), find(result, plain))

    ranks, moves = f"ranks, {TASKS} waiting", "moves in applies of 64"
    goals = [
        Goal("P11", "ranks of one process", "/s", "at least", 10_000, figure(ranks)),
        Goal("P11", "by plain calls", "x", "at least", 5, ratio(ranks, _PLAIN_RANKS)),
        Goal("P11", "submissions folded", "/s", "at least", 5_000, figure(moves)),
        Goal("P11", "by plain calls", "x", "at least", 5, ratio(moves, _PLAIN_SUBMISSIONS)),
        Goal("G7", "a million entries rebuilt", "s", "at most", 30, figure("a million copied")),
        Goal("", "bytes a player", "B", "at most", 190, figure("bytes a player")),
    ]
    return judged(result, goals)


async def _measured(server: RedisServer, players: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    client = redis.asyncio.Redis(host=server.host, port=server.port, max_connections=2 * TASKS)
    ids, dice = [f"player-{number:09d}" for number in range(players)], random.Random(1)
    tell(f"redis_index: plain sorted set of {players:,}")
    rows += await _plain(client, ids, dice)
    await client.flushall()
    judge = NativeIndex()
    async with RedisIndex.open(f"{server.url}?timeout=60") as index:
        empty = await _used(client)
        tell("redis_index: filled by applies")
        seconds = await _filled(index, ids, dice)
        rows.append(row("a million folded in", seconds * 1e6 / players, "s"))
        rows.append(row("bytes a player", (await _used(client) - empty) / players, "B"))
        tell("redis_index: ranks, applies, pages")
        rows += await _asked(index, ids, dice)
        rows += await _processor(server, index, ids, dice)
        await _filled(judge, ids, dice)
        tell("redis_index: copied from a native index")
        beside = await index.beside()
        started = time.perf_counter()
        async for _ in beside.fill(judge):
            pass
        seconds = time.perf_counter() - started
        rows.append(row("a million copied", seconds * 1e6 / players, "s"))
        started = time.perf_counter()
        await beside.take_over()
        rows.append(row("switched and the old one dropped", time.perf_counter() - started, "s"))
    await client.flushall()
    async with RedisIndex.open(f"{server.url}?timeout=60&partitions=4") as index:
        tell("redis_index: four partitions")
        beside = await index.beside()
        async for _ in beside.fill(judge):
            pass
        await beside.take_over()
        rows += await _asked(index, ids, dice, where=", 4 partitions")
    await client.aclose()
    return rows


async def _plain(client: Any, ids: list[str], dice: random.Random) -> list[dict[str, Any]]:
    """What is usual: a score beside a member, and one call for one thing."""
    empty = await _used(client)
    for first in range(0, len(ids), BATCH):
        some = {player: dice.randrange(10**9) for player in ids[first : first + BATCH]}
        await client.zadd("plain", some)
    rows = [row("bytes a player, plain", (await _used(client) - empty) / len(ids), "B")]

    async def rank() -> int:
        player = dice.choice(ids)
        await client.zrevrank("plain", player)
        await client.zscore("plain", player)
        await client.zcard("plain")
        return 1

    async def submit() -> int:
        player = dice.choice(ids)
        await client.zscore("plain", player)
        await client.zrevrank("plain", player)
        await client.zadd("plain", {player: dice.randrange(10**9)})
        await client.zrevrank("plain", player)
        await client.zcard("plain")
        return 1

    rows.append(row("plain ranks, alone", await _rate(rank), "/s"))
    rows.append(row(_PLAIN_RANKS, await _rate(rank, TASKS), "/s"))
    rows.append(row("plain submissions, alone", await _rate(submit), "/s"))
    rows.append(row(_PLAIN_SUBMISSIONS, await _rate(submit, TASKS), "/s"))
    return rows


async def _filled(index: RankIndex, ids: list[str], dice: random.Random) -> float:
    """Fold everybody in, and return how many seconds that took."""
    started = time.perf_counter()
    at = await index.checkpoint()
    await index.apply([], after=at, through=Position(at + 1), opened={ARENA: PLAIN})
    for first in range(0, len(ids), BATCH):
        await _apply(index, ids[first : first + BATCH], dice)
    return time.perf_counter() - started


async def _apply(index: RankIndex, players: list[str], dice: random.Random) -> None:
    """Look entries up and move them, as the fold does."""
    after = await index.checkpoint() if index.immediate else _at.setdefault(id(index), Position(1))
    through = Position(after + len(players))
    await index.order_keys([(ARENA, player) for player in players])
    moves = [
        Move(ARENA, player, _key(dice.randrange(10**9), after + number))
        for number, player in enumerate(players, start=1)
    ]
    assert await index.apply(moves, after=after, through=through) is not None
    _at[id(index)] = through


_at: dict[int, Position] = {}
"""How far each index is: asking would be one more call."""


def _key(score: int, position: int) -> bytes:
    return (2**63 - 1 - score).to_bytes(8, "big") + position.to_bytes(8, "big")


async def _asked(
    index: RedisIndex, ids: list[str], dice: random.Random, where: str = ""
) -> list[dict[str, Any]]:
    async def rank() -> int:
        assert await index.rank(ARENA, dice.choice(ids)) is not None
        return 1

    async def page() -> int:
        first = Rank(dice.randrange(len(ids)) + 1)
        assert (await index.read(ARENA, first=first, limit=100)).entries
        return 1

    def applying(count: int) -> Callable[[], Awaitable[int]]:
        async def apply() -> int:
            await _apply(index, [dice.choice(ids) for _ in range(count)], dice)
            return count

        return apply

    _at[id(index)] = await index.checkpoint()
    rows = [
        row(f"ranks, alone{where}", await _rate(rank), "/s"),
        row(f"ranks, 32 waiting{where}", await _rate(rank, 32), "/s"),
        row(f"ranks, {TASKS} waiting{where}", await _rate(rank, TASKS), "/s"),
        row(f"pages of 100 at random ranks{where}", await _rate(page), "/s"),
    ]
    for count in (1, 64, 256):
        moves = await _rate(applying(count))
        rows.append(row(f"applies of {count}{where}", moves / count, "/s"))
        rows.append(row(f"moves in applies of {count}{where}", moves, "/s"))
    return rows


async def _processor(
    server: RedisServer, index: RedisIndex, ids: list[str], dice: random.Random
) -> list[dict[str, Any]]:
    """Processor time of a rank and of a move, here and in Redis."""
    rows = []

    async def ranks() -> None:
        await asyncio.gather(*(index.rank(ARENA, dice.choice(ids)) for _ in range(TASKS)))

    async def moves() -> None:
        await _apply(index, [dice.choice(ids) for _ in range(TASKS)], dice)

    for what, act in (("rank", ranks), ("move", moves)):
        here, there = time.process_time(), machine.cpu_seconds(server.pid)
        for _ in range(100):
            await act()
        here, there = time.process_time() - here, machine.cpu_seconds(server.pid) - there
        rows.append(row(f"processor of a {what}, here", here / TASKS * 1e4, "us"))
        rows.append(row(f"processor of a {what}, in Redis", there / TASKS * 1e4, "us"))
    return rows


async def _rate(act: Callable[[], Awaitable[int]], tasks: int = 1) -> float:
    """Return how many are done in a second."""
    started = time.perf_counter()

    async def work() -> int:
        done = 0
        while time.perf_counter() - started < SECONDS:
            done += await act()
        return done

    done = sum(await asyncio.gather(*(work() for _ in range(tasks))))
    return done / (time.perf_counter() - started)


async def _used(client: Any) -> int:
    return int((await client.info("memory"))["used_memory"])


def main() -> None:
    """Measure with as many players as the command line says, print, and keep the result."""
    players = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    result = run(Asked(players, datetime.datetime.now(datetime.UTC).date().isoformat()))
    print(shown(result))
    print("\nWritten:", write(result, Path(__file__).with_name("results")))


if __name__ == "__main__":
    main()

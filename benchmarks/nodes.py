"""What does one API process reach on PostgreSQL and Redis, beside plain calls that do the same?

One process of rankd with its ledger in PostgreSQL and its index in Redis, both on this machine and
durable; wrk asks on the same two cores. Beside it, what a web application does without it: a row
inserted in PostgreSQL for each score, and in Redis the calls that find out the old rank, set the
score and find out the new rank, each awaited, from as many tasks as wrk has connections.
"""

import asyncio
import itertools
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import rankd
from benchmarks.figures import Goal, quotient
from benchmarks.http import ROUNDS, load
from benchmarks.progress import tell
from benchmarks.questions import Asked, answer, find, judged, row
from rankd.testing.servers import PostgresServer, RedisServer, postgres_server, redis_server

NAME = "nodes"
QUESTION = "What does one API process reach on PostgreSQL and Redis?"
PLAIN_SECONDS = 3.0
BATCH = 8_192


def run(asked: Asked) -> dict[str, Any]:
    """Measure, and judge by the goals."""
    if shutil.which("wrk") is None:
        sys.exit("wrk is not installed: apt-get install wrk")
    with ExitStack() as stack:
        postgres = stack.enter_context(postgres_server(durable=True))
        redis = stack.enter_context(redis_server())
        _fill(postgres, asked.players)
        rows = []
        for index in (redis.url, "native"):
            with _service(postgres, index) as port:
                rows += _measured(port, asked.players, "Redis" if index != "native" else "native")
        rows += _plain(postgres, redis, asked.players)
    result = answer(NAME, QUESTION, asked, rows)
    return judged(result, _goals(result))


def _goals(result: dict[str, Any]) -> list[Goal]:
    def plain(what: str) -> Any:
        return lambda: find(result, what)

    def times(what: str, of: str) -> Any:
        return lambda: quotient(find(result, what), find(result, of))

    submissions, ranks = "submissions, Redis, 256 connections", "ranks, Redis, 256 connections"
    return [
        Goal("P11", "durable submissions", "/s", "at least", 20_000, plain(submissions)),
        Goal("P11", "ranks", "/s", "at least", 50_000, plain(ranks)),
        Goal(
            "P11",
            "submissions, by plain calls",
            "x",
            "at least",
            5,
            times(submissions, "plain calls, a submission, 256 tasks"),
        ),
        Goal(
            "P11",
            "ranks, by plain calls",
            "x",
            "at least",
            5,
            times(ranks, "plain calls, a rank, 256 tasks"),
        ),
        Goal(
            "P11",
            "durable submissions, native index",
            "/s",
            "at least",
            35_000,
            plain("submissions, native, 256 connections"),
        ),
    ]


def _fill(postgres: PostgresServer, players: int) -> None:
    tell(f"nodes: filling {players:,} players")
    dice = random.Random(5)
    with rankd.open(postgres.url) as ranks:
        board = ranks.board("arena")
        ranks.board("windows", windows=["all", "daily", "weekly"])
        for first in range(0, players, BATCH):
            some = range(first, min(first + BATCH, players))
            board.submit_many([(f"player-{n:09d}", dice.randrange(10**9)) for n in some])


@contextmanager
def _service(postgres: PostgresServer, index: str) -> Iterator[int]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "rankd", "serve", "--port", "0", "--data", folder]
        command += ["--ledger", postgres.url, "--index", index]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                yield int(process.stdout.readline().rsplit(":", 1)[1])
            finally:
                process.terminate()


def _measured(port: int, players: int, index: str) -> Iterator[dict[str, Any]]:
    for what, script in (("submissions", "submit"), ("ranks", "rank"), ("around", "around")):
        tell(f"nodes: {what} with the {index} index")
        loads = [load(port, script, players, connections=256) for _ in range(ROUNDS)]
        rate = statistics.median(one.per_second for one in loads)
        p99 = statistics.median(one.p99_ms for one in loads)
        yield row(f"{what}, {index}, 256 connections", rate, "/s", p99_ms=p99)
    tell(f"nodes: batches with the {index} index")
    batches = [load(port, "batch", players, connections=4).per_second for _ in range(ROUNDS)]
    yield row(f"scores in batches of 1,000, {index}", statistics.median(batches) * 1000, "/s")


# --------------------------------------------------------------------------- plain calls


def _plain(postgres: PostgresServer, redis: RedisServer, players: int) -> list[dict[str, Any]]:
    tell("nodes: plain calls")
    return asyncio.run(_plain_calls(postgres, redis, players))


async def _plain_calls(
    postgres: PostgresServer, redis: RedisServer, players: int
) -> list[dict[str, Any]]:
    import asyncpg
    from redis.asyncio import Redis

    pool = await asyncpg.create_pool(postgres.url, min_size=10, max_size=10)
    await pool.execute("CREATE TABLE plain (id bigserial PRIMARY KEY, player text, score bigint)")
    client = Redis.from_url(redis.url, max_connections=300)
    dice = random.Random(7)
    for first in range(0, players, BATCH):
        some = range(first, min(first + BATCH, players))
        await client.zadd("plain", {f"player-{n:09d}": dice.randrange(10**9) for n in some})

    async def rank() -> None:
        player = f"player-{dice.randrange(players):09d}"
        await client.zrevrank("plain", player)
        await client.zscore("plain", player)
        await client.zcard("plain")

    async def submission() -> None:
        player, score = f"player-{dice.randrange(players):09d}", dice.randrange(10**9)
        await pool.execute("INSERT INTO plain (player, score) VALUES ($1, $2)", player, score)
        await client.zscore("plain", player)
        await client.zrevrank("plain", player)
        await client.zadd("plain", {player: score}, gt=True)
        await client.zrevrank("plain", player)
        await client.zcard("plain")

    rows = [
        row("plain calls, a submission, 256 tasks", await _rate(submission, 256), "/s"),
        row("plain calls, a rank, 256 tasks", await _rate(rank, 256), "/s"),
    ]
    await client.aclose()
    await pool.close()
    return rows


async def _rate(call: Callable[[], Awaitable[None]], tasks: int) -> float:
    """Return how often a second so many tasks make a call, each one after another."""
    until = time.perf_counter() + PLAIN_SECONDS
    done = itertools.count()

    async def repeat() -> None:
        while time.perf_counter() < until:
            await call()
            next(done)

    await asyncio.gather(*(repeat() for _ in range(tasks)))
    return next(done) / PLAIN_SECONDS


if __name__ == "__main__":
    sys.exit("python -m benchmarks --questions nodes")

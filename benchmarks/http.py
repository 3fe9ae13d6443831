"""What does the service reach over HTTP, beside what Python can do at all and beside Redis?

One process serves a million players; wrk asks, on the same two cores. In turns with it runs a
server that parses each request and answers a constant of the same size: the ceiling for Python. And
Redis, asked by redis-benchmark in its own protocol, one command a round trip as a web server would.

Writes are durable on both sides: rankd answers after its commit is synced, Redis logs with
appendfsync always. Reads beside the writes have their own connections, and their own p99.
"""

import asyncio
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import rankd
from benchmarks.figures import Aim, Goal, quotient
from benchmarks.http_ceiling import HEADERS, Ceiling
from benchmarks.http_load import (
    HOST,
    Load,
    read_wrk,
    require_wrk,
    started_service,
    started_wrk,
)
from benchmarks.machine import resident_bytes
from benchmarks.progress import tell
from benchmarks.questions import Asked, answer, find, judged, row
from rankd.testing.servers import redis_server

NAME = "http"
QUESTION = "What does the service reach over HTTP?"
ROUNDS = 3
BATCH = 8_192

NAKAMA = {"rank": 3_200, "top": 920, "around": 1_420, "write": 2_500}
"""What Nakama 3.40 reached on such a machine, requests a second."""

_PREAMBLE = """
PLAYERS = %d
math.randomseed(%d)
function player() return string.format("player-%%09d", math.random(0, PLAYERS - 1)) end
function score() return math.random(1, 1000000000) end
wrk.headers["content-type"] = "application/json"
"""

_LUA = {
    "rank": """
request = function()
  return wrk.format("GET", "/v1/boards/arena/standings/" .. player())
end""",
    "around": """
request = function()
  return wrk.format("GET", "/v1/boards/arena/standings/" .. player() .. "/around")
end""",
    "top": """
request = function() return wrk.format("GET", "/v1/boards/arena/standings?limit=100") end""",
    "submit": """
request = function()
  local body = string.format('{"player":"%s","score":%d}', player(), score())
  return wrk.format("POST", "/v1/boards/arena/scores", nil, body)
end""",
    "keyed": """
local turn, run = 0, os.time()
request = function()
  turn = turn + 1
  local one = '{"player":"%s","score":%d,"key":"%d-%d-%d"}'
  local body = string.format(one, player(), score(), run, math.random(1, 1000000000), turn)
  return wrk.format("POST", "/v1/boards/arena/scores", nil, body)
end""",
    "batch": """
local bodies, one = {}, '{"board":"windows","player":"%s","score":%d}'
for number = 1, 40 do
  local items = {}
  for item = 1, 1000 do items[item] = string.format(one, player(), score()) end
  bodies[number] = '{"scores":[' .. table.concat(items, ",") .. "]}"
end
local turn = 0
request = function()
  turn = turn % 40 + 1
  return wrk.format("POST", "/v1/scores:batch", nil, bodies[turn])
end""",
}


def run(asked: Asked) -> dict[str, Any]:
    """Measure, and judge by the goals."""
    require_wrk()
    rows = _idle()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        _fill(Path(folder), asked.players)
        port, _ = stack.enter_context(started_service(Path(folder)))
        rows += _reads(port, asked.players)
        rows += _writes(port, asked.players)
    if asked.redis:
        rows += _redis(asked.players)
    result = answer(NAME, QUESTION, asked, rows)
    return judged(result, _goals(result))


_SHARES = (
    ("P1", "one rank, 32 connections", "ceiling for it, 32 connections", 0.95),
    ("P1", "one rank, 256 connections", "ceiling for it, 256 connections", 0.95),
    ("P1", "one rank, 32 connections", "Redis ZREVRANK, 32 connections", 1.3),
    ("P2", "top 100, 32 connections", "ceiling for its size, 32 connections", 0.95),
    ("P2", "top 100, 32 connections", "Redis ZREVRANGE 0 99, 32 connections", 4),
    ("P3", "around a player, 32 connections", "one rank, 32 connections", 0.5),
    (
        "P4",
        "durable submissions, 256 connections",
        "Redis ZADD, durable, 256 connections",
        0.7,
    ),
    ("P4", "durable submissions, 32 connections", "Redis ZADD, durable, 32 connections", 1),
)
"""Goals of one figure as a share of another in the same run."""

_BOUNDS: tuple[tuple[str, str, str, Aim, float], ...] = (
    ("P4", "p99 of a submission", "ms", "at most", 25),
    ("P4", "p99 of a read beside", "ms", "at most", 10),
    ("P5", "durable scores in batches of 1,000", "/s", "at least", 200_000),
    ("P13", "memory, idle", "MB", "at most", 80),
    ("P13", "start of an empty service", "s", "at most", 1),
)


def _goals(result: dict[str, Any]) -> list[Goal]:
    def share(what: str, of: str) -> Callable[[], float | None]:
        return lambda: quotient(find(result, what), find(result, of))

    def figure(what: str) -> Callable[[], float | None]:
        return lambda: find(result, what)

    shares = [
        Goal(question, f"{what}, of {of}", "x", "at least", bound, share(what, of))
        for question, what, of, bound in _SHARES
    ]
    return shares + [
        Goal(question, what, unit, aim, bound, figure(what))
        for question, what, unit, aim, bound in _BOUNDS
    ]


# ------------------------------------------------------------------------------ servers


def _fill(folder: Path, players: int) -> None:
    tell(f"http: filling {players:,} players")
    dice = random.Random(5)
    with rankd.open(folder) as ranks:
        board = ranks.board("arena")
        ranks.board("windows", windows=["all", "daily", "weekly"])
        for first in range(0, players, BATCH):
            some = range(first, min(first + BATCH, players))
            board.submit_many([(f"player-{n:09d}", dice.randrange(10**9)) for n in some])
        ranks.save()


@contextmanager
def _constant(size: int) -> Iterator[int]:
    command = [sys.executable, "-m", "benchmarks.http", "--constant", str(size)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.kill()


def _idle() -> list[dict[str, Any]]:
    tell("http: an empty service")
    seconds, memory = [], []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            started = time.perf_counter()
            with started_service(Path(folder)) as (_, process):
                seconds.append(time.perf_counter() - started)
                time.sleep(1)
                memory.append((resident_bytes(process.pid) or 0) / 1e6)
    return [
        row("start of an empty service", min(seconds), "s"),
        row("memory, idle", statistics.median(memory), "MB"),
    ]


# --------------------------------------------------------------------------------- load


def load(port: int, name: str, players: int, *, connections: int) -> Load:
    with started_wrk(port, _script(port, name, players), connections=connections) as process:
        return read_wrk(process)


def _script(port: int, name: str, players: int) -> str:
    return _PREAMBLE % (players, port) + _LUA[name]


def _answer_bytes(port: int, path: str) -> int:
    import urllib.request

    with urllib.request.urlopen(f"{HOST}:{port}{path}") as response:
        return len(response.read())


def _reads(port: int, players: int) -> Iterator[dict[str, Any]]:
    one = "/v1/boards/arena/standings/player-000000007"
    asked = (
        ("one rank", "rank", one, 32, "ceiling for it"),
        ("one rank", "rank", one, 256, "ceiling for it"),
        ("top 100", "top", "/v1/boards/arena/standings?limit=100", 32, "ceiling for its size"),
        ("around a player", "around", f"{one}/around", 32, None),
    )
    for what, name, path, connections, beside in asked:
        tell(f"http: {what}, {connections} connections")
        ours, ceiling = [], []
        for _ in range(ROUNDS):
            ours.append(load(port, name, players, connections=connections))
            if beside is not None:
                with _constant(_answer_bytes(port, path)) as other:
                    ceiling.append(load(other, name, players, connections=connections))
        yield _median(f"{what}, {connections} connections", ours)
        if beside is not None:
            yield _median(f"{beside}, {connections} connections", ceiling)


def _median(what: str, loads: list[Load]) -> dict[str, Any]:
    rate = statistics.median(load.per_second for load in loads)
    return row(what, rate, "/s", p99_ms=statistics.median(load.p99_ms for load in loads))


def _writes(port: int, players: int) -> Iterator[dict[str, Any]]:
    tell("http: durable submissions, 256 connections, and reads beside them")
    loads, beside = [], []
    for _ in range(ROUNDS):
        loads.append(load(port, "submit", players, connections=256))
        with started_wrk(port, _script(port, "rank", players), connections=2) as reading:
            load(port, "submit", players, connections=256)
            beside.append(read_wrk(reading))
    yield _median("durable submissions, 256 connections", loads)
    tell("http: durable submissions, 32 connections")
    yield _median(
        "durable submissions, 32 connections",
        [load(port, "submit", players, connections=32) for _ in range(ROUNDS)],
    )
    tell("http: durable submissions, each with a key")
    yield _median(
        "durable submissions with a key, 256 connections",
        [load(port, "keyed", players, connections=256) for _ in range(ROUNDS)],
    )
    yield row("p99 of a submission", statistics.median(load.p99_ms for load in loads), "ms")
    yield row("p99 of a read beside", statistics.median(load.p99_ms for load in beside), "ms")
    tell("http: batches of 1,000")
    batches = [load(port, "batch", players, connections=4).per_second for _ in range(ROUNDS)]
    yield row("durable scores in batches of 1,000", statistics.median(batches) * 1000, "/s")


def _redis(players: int) -> list[dict[str, Any]]:
    program = shutil.which("redis-benchmark")
    if program is None:
        tell("http: no redis-benchmark on this machine (Debian: redis-tools)")
        return []
    rows = []
    member = "player-__rand_int__"
    with redis_server() as server:
        tell("http: Redis, reads")
        _ask_redis(program, server.port, players, 50, ["ZADD", "board", "__rand_int__", member], 16)
        for name, command in (
            ("Redis ZREVRANK", ["ZREVRANK", "board", member]),
            ("Redis ZREVRANGE 0 99", ["ZREVRANGE", "board", "0", "99", "WITHSCORES"]),
        ):
            rate = _ask_redis(program, server.port, players, 32, command)
            rows.append(row(f"{name}, 32 connections", rate, "/s"))
    with redis_server(durable=True) as server:
        tell("http: Redis, durable writes")
        command = ["ZADD", "board", "__rand_int__", member]
        for connections in (256, 32):
            rate = _ask_redis(program, server.port, players, connections, command)
            rows.append(row(f"Redis ZADD, durable, {connections} connections", rate, "/s"))
    return rows


def _ask_redis(
    program: str, port: int, players: int, connections: int, command: list[str], pipeline: int = 1
) -> float:
    count = str(players if pipeline > 1 else 150_000)
    words = [program, "-p", str(port), "--csv", "-n", count, "-c", str(connections)]
    words += ["-P", str(pipeline), "-r", str(players), *command]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return float(told.strip().splitlines()[-1].split(",")[1].strip('"'))


# ------------------------------------------------------------------------- the constant


async def _serve_constant(size: int) -> None:
    body = b"x" * size
    Ceiling.ANSWER = b"HTTP/1.1 200 OK\r\n%bcontent-length: %d\r\n\r\n%b" % (HEADERS, size, body)
    server = await asyncio.get_running_loop().create_server(Ceiling, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    from rankd.api.server import new_event_loop

    assert sys.argv[1] == "--constant", sys.argv
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_serve_constant(int(sys.argv[2])))

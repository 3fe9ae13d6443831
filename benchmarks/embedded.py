"""How many durable submissions, and how many ranks, does one thread of a program get?

The engine is opened in a folder, so every submission is on stable storage when submit_many returns.
Redis is measured in the same run, with redis-benchmark: ZADD in pipelines of 16, once as it usually
runs (what is acknowledged may be lost) and once with its log synced for every write, which is the
promise that rankd makes.

The stages of a submission are measured one by one on the same batch: reading what was asked,
appending the facts, folding them, and the answers.
"""

import asyncio
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import rankd
from benchmarks.figures import Goal, quotient
from benchmarks.progress import tell
from benchmarks.questions import Asked, answer, find, judged, row
from rankd.adapters.memory.index import NativeIndex
from rankd.adapters.sqlite import SQLiteLedger
from rankd.core.projector import Projector
from rankd.core.state import State
from rankd.core.window_schedule import windows_at
from rankd.embedded import WallClock
from rankd.model.board import Board
from rankd.model.facts import BoardDefined, Recorded
from rankd.model.submission import read_facts
from rankd.testing.servers import redis_server

NAME = "embedded"
QUESTION = "How many durable submissions, and how many ranks, does one thread get?"
BATCH = 8_192
ROUNDS = 3
SUBMITTED = 500_000
"""In each round."""
RANKS = 400_000
SINGLE = 100_000
KEYED = 50_000


def run(asked: Asked) -> dict[str, Any]:
    """Measure, and judge by the goals."""
    rows: list[dict[str, Any]] = []
    for windows in (["all"], ["all", "daily", "weekly"]):
        tell(f"embedded: {len(windows)} window(s), {asked.players:,} players")
        rows += _engine(asked.players, windows)
    rows += asyncio.run(_stages(min(asked.players, 200_000)))
    if asked.redis:
        rows += _redis_rows(asked.players)
    result = answer(NAME, QUESTION, asked, rows)
    submitted = find(result, "submissions, all")
    goals = [
        Goal("P8", "durable submissions", "/s", "at least", 220_000, lambda: submitted),
        Goal("P8", "ranks", "/s", "at least", 700_000, lambda: find(result, "ranks, by ranks()")),
        Goal(
            "P8",
            "standings, one by one",
            "/s",
            "at least",
            300_000,
            lambda: find(result, "ranks, by standing()"),
        ),
        Goal(
            "P8",
            "submissions, by those of Redis that are durable",
            "x",
            "at least",
            1,
            lambda: quotient(submitted, find(result, "Redis ZADD, durable, pipelines of 16")),
        ),
    ]
    return judged(result, goals)


def _engine(players: int, windows: list[str]) -> Iterator[dict[str, Any]]:
    dice = random.Random(1)
    named = "+".join(windows)
    with tempfile.TemporaryDirectory() as folder, rankd.open(folder) as ranks:
        board = ranks.board("arena", windows=windows)
        ids = [f"player-{number:09d}" for number in range(players)]
        for first in range(0, players, BATCH):
            board.submit_many([(id, dice.randrange(10**6)) for id in ids[first : first + BATCH]])
        best = 0.0
        for _ in range(ROUNDS):
            items: list[Any] = [
                (ids[dice.randrange(players)], dice.randrange(10**6)) for _ in range(SUBMITTED)
            ]
            best = max(best, _rate(SUBMITTED, lambda items=items: board.submit_many(items)))  # type: ignore[misc]
        yield row(f"submissions, {named}", best, "/s")
        if len(windows) > 1:
            return
        keyed: list[Any] = [
            {
                "player": dice.choice(ids),
                "score": dice.randrange(10**6),
                "key": f"{n}:{dice.random()}",
            }
            for n in range(KEYED)
        ]
        yield row("submissions with a key", _rate(KEYED, lambda: board.submit_many(keyed)), "/s")
        wanted = [dice.choice(ids) for _ in range(RANKS)]

        def many() -> None:
            for first in range(0, RANKS, 1000):
                board.ranks(wanted[first : first + 1000])

        def single() -> None:
            for player in wanted[:SINGLE]:
                board.standing(player)

        yield row("ranks, by ranks()", max(_rate(RANKS, many) for _ in range(ROUNDS)), "/s")
        yield row("ranks, by standing()", max(_rate(SINGLE, single) for _ in range(ROUNDS)), "/s")


def _rate(count: int, work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return count / (time.perf_counter() - started)


async def _stages(players: int) -> list[dict[str, Any]]:
    """Take the steps of a submission one by one, a batch at a time."""
    dice = random.Random(2)
    clock = WallClock()
    spent = {"reading": 0.0, "appending": 0.0, "folding": 0.0}
    index, state, definition = NativeIndex(), State(), Board.define("arena", {})
    with tempfile.TemporaryDirectory() as folder:
        async with SQLiteLedger.open(Path(folder)) as ledger:
            projector = Projector(ledger=ledger, index=index, state=state)
            windows = windows_at(None, definition, clock.now())
            first = [BoardDefined("arena", definition.definition(), None, windows)]
            done = await ledger.append(first, now=clock.now())
            await projector.fold([Recorded(done.positions[0], done.at, first[0])])
            board = state.page("arena").board
            for number in range(2 * players // BATCH + 1):
                if number == players // BATCH:
                    spent = dict.fromkeys(spent, 0.0)  # From here on everybody is known.
                items = [
                    (f"p{dice.randrange(players):09d}", dice.randrange(10**6)) for _ in range(BATCH)
                ]
                started = time.perf_counter()
                facts = read_facts(board, items)
                read = time.perf_counter()
                appended = await ledger.append(facts, now=clock.now())
                kept = time.perf_counter()
                await projector.fold(
                    [
                        Recorded(position, appended.at, fact)
                        for position, fact in zip(appended.positions, facts, strict=True)
                    ]
                )
                ended = time.perf_counter()
                spent["reading"] += read - started
                spent["appending"] += kept - read
                spent["folding"] += ended - kept
    batches = 2 * players // BATCH + 1 - players // BATCH
    return [
        row(f"stage: {stage}", seconds / batches / BATCH * 1e6, "us a submission")
        for stage, seconds in spent.items()
    ]


def _redis_rows(players: int) -> list[dict[str, Any]]:
    program = shutil.which("redis-benchmark")
    if program is None:
        tell("embedded: no redis-benchmark on this machine (Debian: redis-tools)")
        return []
    rows = []
    for durable in (False, True):
        name = "durable" if durable else "not durable"
        tell(f"embedded: Redis, {name}")
        with redis_server(durable=durable) as server:
            rate = _redis_benchmark(program, server.port, players)
        rows.append(row(f"Redis ZADD, {name}, pipelines of 16", rate, "/s"))
    return rows


def _redis_benchmark(program: str, port: int, players: int) -> float:
    command = [program, "-p", str(port), "-q", "--csv", "-n", "500000", "-P", "16", "-c", "50"]
    command += ["-r", str(players), "ZADD", "board", "__rand_int__", "player-__rand_int__"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return float(told.strip().splitlines()[-1].split(",")[1].strip('"'))

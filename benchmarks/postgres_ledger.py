"""How many facts does the ledger in PostgreSQL take?

A server is started for the run, with fsync, on this machine. One writer, and then several, each a
process with one append under way, append submissions by the batch, with keys and without. Beside
them, in the same run, stands what one would write without rankd: the same columns inserted into a
plain table by one statement a batch, a unique index over the keys, no order of commits, no hash
chain and nothing to settle a lost answer with. Then everything is read again in pages.

    python -m benchmarks.postgres_ledger [PLAYERS]
"""

import asyncio
import datetime
import multiprocessing
import random
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg
import uvloop

from benchmarks.figures import quotient
from benchmarks.progress import tell
from benchmarks.questions import Asked, answer, find, judged, row, shown, write
from rankd.adapters.postgres import PostgresLedger
from rankd.model.facts import Position, ScoreSubmitted
from rankd.model.window import Instant
from rankd.testing.servers import postgres_server

NAME = "postgres_ledger"
QUESTION = "How many facts does the ledger in PostgreSQL take?"
BATCHES = (1, 64, 256, 1_000)
WRITERS = 3
SECONDS = 1.0
"""How long one measurement lasts."""
PAGE = 8_192
"""Facts read at once, as folding does."""

_PLAIN_TABLE = """
CREATE TABLE plain (
    position bigserial PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT now(),
    board text NOT NULL,
    player text NOT NULL,
    score bigint NOT NULL,
    key text UNIQUE
)"""
_PLAIN_INSERT = """
INSERT INTO plain (board, player, score, key)
SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[]) ON CONFLICT DO NOTHING
"""

Append = Callable[[Sequence[ScoreSubmitted]], Awaitable[object]]

TOLD_SECONDS_MAX = 120.0
"""When a writer has said how far it came, unless it died."""


class Work(NamedTuple):
    """What a writer is to do."""

    url: str
    players: int
    batch: int
    keyed: bool
    plain: bool


def run(asked: Asked) -> dict[str, Any]:
    """Measure. Nothing here has a goal of its own: the service's has (nodes.py)."""
    rows: list[dict[str, Any]] = []
    with postgres_server(durable=True) as server:
        asyncio.run(_prepare(server.url))
        for keyed in (False, True):
            for batch in BATCHES:
                keys = " with keys" if keyed else ""
                tell(f"{NAME}: batches of {batch}{keys}")
                for who, writers, plain in (
                    ("plain inserts, one writer", 1, True),
                    ("one writer", 1, False),
                    (f"{WRITERS} writers", WRITERS, False),
                ):
                    rate = _rate(Work(server.url, asked.players, batch, keyed, plain), writers)
                    rows.append(row(f"facts{keys}, batches of {batch}, {who}", rate, "/s"))
        tell(f"{NAME}: reading")
        rows.append(row(f"facts read, pages of {PAGE}", asyncio.run(_read(server.url)), "/s"))
    result = answer(NAME, QUESTION, asked, rows)
    of, by = (f"facts, batches of {BATCHES[-1]}, {who}" for who in ("one writer", "plain inserts"))
    share = quotient(find(result, of), find(result, f"{by}, one writer"))
    result["rows"].append(row("one writer, by plain inserts", share or 0.0, "x"))
    return judged(result, [])


async def _prepare(url: str) -> None:
    async with PostgresLedger.open(url):
        connection = await asyncpg.connect(url)
        await connection.execute(_PLAIN_TABLE)
        await connection.close()


def _rate(work: Work, writers: int) -> float:
    """Return how many facts a second some processes append together."""
    spawn = multiprocessing.get_context("spawn")
    ready, told = spawn.Barrier(writers), spawn.Queue()
    given = (work, ready, told)
    processes = [spawn.Process(target=_write, args=given) for _ in range(writers)]
    for process in processes:
        process.start()
    rates = [told.get(timeout=TOLD_SECONDS_MAX) for _ in processes]
    for process in processes:
        process.join()
    return float(sum(rates))


def _write(work: Work, ready: Any, told: Any) -> None:
    told.put(uvloop.run((_insert if work.plain else _append)(work, ready)))


async def _append(work: Work, ready: Any) -> float:
    async with PostgresLedger.open(work.url, node=f"writer {random.getrandbits(32):x}") as ledger:

        async def append(facts: Sequence[ScoreSubmitted]) -> None:
            await ledger.append(facts, now=Instant(time.time_ns() // 1_000))

        return await _done(append, work, ready)


async def _insert(work: Work, ready: Any) -> float:
    connection = await asyncpg.connect(work.url)

    async def insert(facts: Sequence[ScoreSubmitted]) -> None:
        rows = [(one.board, one.player, (one.scores or (0,))[0], one.key) for one in facts]
        await connection.execute(_PLAIN_INSERT, *zip(*rows, strict=True))

    try:
        return await _done(insert, work, ready)
    finally:
        await connection.close()


async def _done(append: Append, work: Work, ready: Any) -> float:
    """Append one batch after another, begun together with the other writers; facts a second."""
    dice, numbers = random.Random(), count()

    def facts() -> list[ScoreSubmitted]:
        return [
            ScoreSubmitted(
                "arena",
                f"player-{dice.randrange(work.players):09d}",
                scores=(next(numbers),),
                key=f"{dice.getrandbits(128):032x}" if work.keyed else None,
            )
            for _ in range(work.batch)
        ]

    await append(facts())  # So that statements are prepared.
    await asyncio.to_thread(ready.wait)
    started, done = time.perf_counter(), 0
    while time.perf_counter() - started < SECONDS:
        await append(facts())
        done += work.batch
    return done / (time.perf_counter() - started)


async def _read(url: str) -> float:
    async with PostgresLedger.open(url) as ledger:
        started, after, done = time.perf_counter(), Position(0), 0
        while time.perf_counter() - started < SECONDS:
            facts = await ledger.read(after=after, limit=PAGE)
            after = facts[-1].position if facts else Position(0)
            done += len(facts)
        return done / (time.perf_counter() - started)


def main() -> None:
    """Measure with as many players as the command line says, print, and keep the result."""
    players = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    result = run(Asked(players, datetime.datetime.now(datetime.UTC).date().isoformat()))
    print(shown(result))
    print("\nWritten:", write(result, Path(__file__).with_name("results")))


if __name__ == "__main__":
    main()

"""What does it cost to find one player's facts, and to be able to?

    python -m benchmarks.player_facts [--facts N] [--commit F] [--folder F] [--postgres]

A ledger is filled twice, without runs of players and with them. Then facts of random players are
asked for, a page of a hundred; and the runs are deleted and built again. With ``--postgres`` the
same for PostgreSQL, without its index and with it. The disk is measured, too: give a folder on the
disk that matters.
"""

import argparse
import asyncio
import random
import tempfile
import time
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import asyncpg  # type: ignore[import-untyped]

from rankd.adapters.postgres import PostgresLedger
from rankd.adapters.sqlite import SQLiteLedger, player_runs
from rankd.adapters.sqlite.database import FILE, PLAYERS
from rankd.model.facts import ScoreSubmitted
from rankd.model.window import Instant
from rankd.ports import Ledger
from rankd.testing.servers import postgres_server

QUESTIONS = 200
FACTS_PER_PLAYER = 10
PAGE = 100
NEVER = 1 << 40


class Appends(NamedTuple):
    """Of all appends of one ledger."""

    microseconds: float
    """For one fact."""
    processor_microseconds: float
    median_ms: float
    worst_hundredth_ms: float

    def __str__(self) -> str:
        return (
            f"{self.microseconds:.2f} µs a fact, {self.processor_microseconds:.2f} µs of CPU; "
            f"an append {self.median_ms:.2f} ms, one in a hundred {self.worst_hundredth_ms:.1f} ms"
        )


async def fill(ledger: Ledger, many: int, commit: int) -> Appends:
    """Append submissions of random players; making them is not counted."""
    dice, times, processor = random.Random(1), list[float](), 0.0
    for start in range(0, many, commit):
        facts = [
            ScoreSubmitted("arena", player(dice, many), scores=(n,))
            for n in range(start, start + commit)
        ]
        begun, spent = time.perf_counter(), time.process_time()
        await ledger.append(facts, now=Instant(time.time_ns() // 1_000))
        times.append(time.perf_counter() - begun)
        processor += time.process_time() - spent
    ordered = sorted(times)
    return Appends(
        sum(times) / many * 1e6,
        processor / many * 1e6,
        ordered[len(ordered) // 2] * 1e3,
        ordered[int(len(ordered) * 0.99)] * 1e3,
    )


def player(dice: random.Random, many: int) -> str:
    """Return a random player's id."""
    return f"player-{dice.randrange(max(many // FACTS_PER_PLAYER, 1)):09d}"


async def ask(ledger: Ledger, many: int) -> str:
    """Return the time of a page of one player's facts."""
    dice, found = random.Random(2), 0
    begun = time.perf_counter()
    for _ in range(QUESTIONS):
        page = await ledger.facts_of(
            board="arena", player=player(dice, many), before=None, limit=PAGE
        )
        found += len(page)
    milliseconds = (time.perf_counter() - begun) / QUESTIONS * 1e3
    return f"{milliseconds:.2f} ms for {found / QUESTIONS:.0f} facts of a player"


async def built(ledger: SQLiteLedger) -> None:
    """Wait for the runs."""
    await asyncio.to_thread(ledger._runs.idle.wait)


async def sqlite(folder: Path, many: int, commit: int) -> None:
    """Print the figures of the ledger in SQLite."""
    with patch.object(player_runs, "RANGE_FACTS", NEVER):
        async with SQLiteLedger.open(folder / "without") as ledger:
            print("without runs:", await fill(ledger, many, commit))
    async with SQLiteLedger.open(folder / "with") as ledger:
        print("with runs:   ", await fill(ledger, many, commit))
        await built(ledger)
        print("             ", await ask(ledger, many))
    runs = list((folder / "with" / PLAYERS).iterdir())
    sizes = sum(run.stat().st_size for run in runs), (folder / "with" / FILE).stat().st_size
    print(f"{len(runs)} runs of {sizes[0] / many:.1f} bytes a fact; ledger {sizes[1] / many:.1f}")
    for run in runs:
        run.unlink()
    async with SQLiteLedger.open(folder / "with") as ledger:
        begun = time.perf_counter()
        await ledger.facts_of(board="arena", player="player-000000001", before=None, limit=PAGE)
        print(f"a page while runs are built: {time.perf_counter() - begun:.2f} s")
        await built(ledger)
        print(f"built again: {(time.perf_counter() - begun) / many * 1e6:.2f} µs a fact")


async def postgres(many: int, commit: int) -> None:
    """Print the figures of the ledger in PostgreSQL."""
    for indexed in (False, True):
        with postgres_server(durable=True) as server:
            async with PostgresLedger.open(server.url) as ledger:
                connection = await asyncpg.connect(server.url)
                if not indexed:
                    await connection.execute("DROP INDEX rankd.facts_of_players")
                name = "with the index:   " if indexed else "without the index:"
                print(name, await fill(ledger, many, commit))
                written = await connection.fetchval(
                    "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')"
                )
                print(f"{int(written) / many:.0f} bytes of WAL a fact")
                if indexed:
                    print(await ask(ledger, many))
                await connection.close()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--facts", type=int, default=1_000_000)
    parser.add_argument("--commit", type=int, default=1_000, help="facts in each append")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--postgres", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        if given.postgres:
            asyncio.run(postgres(given.facts, given.commit))
        else:
            asyncio.run(sqlite(Path(folder), given.facts, given.commit))


if __name__ == "__main__":
    main()

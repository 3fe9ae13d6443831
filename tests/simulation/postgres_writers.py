"""A process of its own that appends to a ledger in PostgreSQL, one of several.

    python -m tests.simulation.postgres_writers URL NODE APPENDS

It appends submissions of its own, and some under keys that every other process uses as well; then
it prints, one line for each append, the positions it was told.
"""

import asyncio
import sys

from rankd.adapters.postgres import PostgresLedger, Timeouts
from rankd.model.facts import Fact, Position, ScoreSubmitted
from rankd.model.window import Instant
from rankd.ports import StoredReceipt

NOW = Instant(1_763_000_000_000_000)
TASKS = 3
"""Appenders of one process, all on one ledger."""
PATIENT = Timeouts.of_silence(60.0)
"""A slow machine is no server that is lost."""


def facts_of(node: str, task: int, append: int) -> list[Fact]:
    """Return what an append brings: some of its own, one that all nodes try to bring."""
    own = [
        ScoreSubmitted("b", f"{node}.{task}.{append}/{place}", scores=(place,))
        for place in range(append % 4 + 1)
    ]
    shared = ScoreSubmitted("b", "everybody", scores=(append,), key=f"{task}.{append}")
    return [*own, shared]


async def write(url: str, node: str, appends: int) -> list[list[Position]]:
    """Append, hand in receipts for what was fresh, and return where everything went."""
    async with PostgresLedger.open(url, node=node, timeouts=PATIENT) as ledger:

        async def appender(task: int) -> list[list[Position]]:
            told: list[list[Position]] = []
            unstored: list[StoredReceipt] = []
            for append in range(appends):
                facts = facts_of(node, task, append)
                appended = await ledger.append(facts, now=NOW, receipts=unstored)
                told.append(list(appended.positions))
                fresh = len(facts) - 1 not in appended.first_uses
                unstored = [StoredReceipt(appended.positions[-1], node.encode())] if fresh else []
            await ledger.keep_receipts(unstored)
            return told

        return [
            told for each in await asyncio.gather(*map(appender, range(TASKS))) for told in each
        ]


if __name__ == "__main__":
    _, url, node, appends = sys.argv
    for positions in asyncio.run(write(url, node, int(appends))):
        sys.stdout.write(" ".join(map(str, positions)) + "\n")

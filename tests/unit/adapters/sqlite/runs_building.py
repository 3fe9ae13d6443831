"""Ledgers with small runs, and what is asked of them."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from rankd.adapters.sqlite import SQLiteLedger, player_facts, player_runs
from rankd.adapters.sqlite import ledger as adapter
from rankd.adapters.sqlite.database import PLAYERS
from rankd.model.facts import Position, Recorded, ScoreSubmitted
from rankd.model.window import Instant
from rankd.ports import LedgerReader

NOW = Instant(1_763_000_000_000_000)
RANGE_FACTS = 20


@contextmanager
def small_runs(*, merged: int = 3, level_max: int = 9, tail: int = 40) -> Iterator[None]:
    """Let runs be so small that a test has many."""
    with (
        patch.multiple(
            player_runs, RANGE_FACTS=RANGE_FACTS, MERGED_RUNS=merged, LEVEL_MAX=level_max
        ),
        patch.object(player_facts, "TAIL_FACTS_MAX", tail),
        patch.object(adapter, "BLOCK_FACTS_MAX", 7),
    ):
        yield


def facts(first: int, many: int) -> list[ScoreSubmitted]:
    """Return submissions of a few players, to two boards."""
    return [
        ScoreSubmitted("bc"[n % 2], f"p{n % 5}", scores=(n,)) for n in range(first, first + many)
    ]


async def fill(ledger: SQLiteLedger, many: int, *, each: int = 10) -> None:
    """Append so many facts, and wait for the runs."""
    head = await ledger.head()
    for start in range(head, head + many, each):
        await ledger.append(facts(start, min(each, head + many - start)), now=NOW)
        await built(ledger)


async def built(ledger: SQLiteLedger) -> None:
    """Wait until nothing is built any more."""
    assert await asyncio.to_thread(ledger._runs.idle.wait, 20)


def runs_in(folder: Path) -> list[str]:
    """Return the names of the runs, in order."""
    return sorted(path.name for path in (folder / PLAYERS).iterdir())


async def assert_complete(ledger: LedgerReader) -> None:
    """Compare what is found of each player with a scan."""
    everything: list[Recorded] = []
    while page := await ledger.read(
        after=everything[-1].position if everything else Position(0), limit=1_000
    ):
        everything += page
    for player in ("p0", "p3", "p9"):
        for board in (None, "b"):
            about = [one for one in everything if one.fact.is_about(player, board)]
            for limit, before in ((5, None), (10_000, None), (10_000, len(everything) // 2)):
                for newest_first in (True, False):
                    found = await ledger.facts_of(
                        board=board,
                        player=player,
                        before=None if before is None else Position(before),
                        limit=limit,
                        newest_first=newest_first,
                    )
                    wanted = [one for one in about if before is None or one.position < before]
                    assert list(found) == (wanted[::-1] if newest_first else wanted)[:limit]

"""Engines for the histories of past standings: a native index, one told of moves, and Redis."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from random import Random
from typing import Any

from tests.property.past_model import History
from tests.unit.core.doubles import MovesIndex, SetClock, SharedLedger, engine

from rankd.adapters.memory.ledger import MemoryLedger
from rankd.adapters.redis import RedisIndex
from rankd.core.cluster.recovery import SharedHome
from rankd.core.recovery import IndexHome
from rankd.testing.servers import RedisServer

KINDS = ("native", "moves", "redis")
_prefixes = count(1)


@asynccontextmanager
async def lived(
    kind: str,
    seed: int,
    redis: RedisServer,
    *,
    windows: Sequence[object],
    steps: int,
    corrected: bool = True,
) -> AsyncIterator[History]:
    """Let a history happen in an engine of a kind."""
    clock, parts = SetClock(), dict[str, Any]()
    ledger = SharedLedger() if kind == "redis" else MemoryLedger()
    async with AsyncExitStack() as stack:
        if kind == "redis":
            url = f"{redis.url}?prefix=past{next(_prefixes)}"
            index = await stack.enter_async_context(RedisIndex.open(url))
            parts["shared"] = SharedHome(index, spare=False)
        if kind == "moves":
            parts["build"] = lambda: IndexHome(MovesIndex(), None)
        rankd = await stack.enter_async_context(engine(ledger, clock=clock, **parts))
        rankd.past.pause_per_work = 0.0
        history = History(rankd, clock, Random(seed), windows)
        await history.begin()
        await history.live(steps, corrected=corrected)
        yield history


def made_by_copy(history: History) -> int:
    """Return how many past rankings were copied from the present."""
    boards = history.rankd.past._boards.values()
    return sum(len(past.copies) for past in boards if past.whole is None)

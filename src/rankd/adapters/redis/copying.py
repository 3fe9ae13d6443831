"""From an index in this process into Redis, entry by entry: how a lost index is filled again.

Folding a ledger into Redis asks and counts for every fact. An index in this process folds it in a
tenth of the time; what then counts is only where everybody ended, so nothing is looked up, counted
or remembered while it is copied. Nobody reads the copy before all of it is there.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping

from rankd.adapters.redis.applying import Applying, Work
from rankd.adapters.redis.filling import Filling
from rankd.model.facts import Position
from rankd.model.standing import Rank
from rankd.ports import Move, RankIndex, Ranking, Shape

COPIED_TOGETHER = 500
"""How many entries go in one script."""

COPY_CALLS_MAX = 3
"""How many such scripts are under way at once, so that Redis never waits for the next."""


async def copy(source: RankIndex, shapes: Mapping[Ranking, Shape], to: Filling) -> Position:
    """Copy rankings; return the position that they are true at.

    The source stands still meanwhile. Raises EpochGone, IndexUnavailable.
    """
    at = await source.checkpoint()
    under_way: set[asyncio.Task[None]] = set()
    try:
        async for work in _in_pages(source, shapes, at):
            filling = Applying(to, work, after=None, through=0).fill()
            under_way.add(asyncio.create_task(filling))
            if len(under_way) == COPY_CALLS_MAX:
                done, under_way = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
                for call in done:
                    call.result()
        for call in under_way:
            await call
    finally:
        for call in under_way:
            call.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
    return at


async def _in_pages(
    source: RankIndex, shapes: Mapping[Ranking, Shape], at: Position
) -> AsyncIterator[Work]:
    for ranking, shape in shapes.items():
        first, full = Rank(1), True
        while full:
            page = await source.read(ranking, first=first, limit=COPIED_TOGETHER)
            assert page.as_of == at, f"the index that is copied moved from {at} to {page.as_of}"
            yield Work([Move(ranking, *entry) for entry in page.entries], {ranking: shape}, (), {})
            full = len(page.entries) == COPIED_TOGETHER
            first = Rank(first + len(page.entries))

"""Verification of an index: the whole ledger is folded again and compared with it.

Writes go on meanwhile. Entries are compared some at a time, in the writer's turn and as of one
position. An index that other nodes fold into may have forgotten that position by the time it is
asked; then both sides go on to a later one, and the same entries are compared there.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Protocol

from rankd.core.projector import Projector
from rankd.errors import IndexDiffers, IndexForgot, IndexUnavailable
from rankd.model.facts import Position
from rankd.model.standing import Rank
from rankd.ports import Placed, Progress, RankIndex, Ranking

SHADOW_FACTS = 65_536
"""How many facts are folded between two words about progress."""

SHADOW_BEHIND_MAX = 1_000
"""How near a shadow comes to the head before the writer waits for it."""

COMPARED_TOGETHER = 4_096
"""How many entries are compared before others get their turn: some ten milliseconds."""

MOMENTS_MAX = 20
"""How often the same entries are looked at before an index counts as too busy to be compared."""


class WriterPart(Protocol):
    """The part of an writer that a comparison needs."""

    projector: Projector

    def turn(self) -> AbstractAsyncContextManager[None]:
        """Hold the writer between two batches."""

    async def catch_up_others(self) -> None:
        """Fold the facts that other nodes appended."""


class IdleProjector:
    """A projector that no writer writes to."""

    def __init__(self, projector: Projector) -> None:
        self.projector = projector

    def turn(self) -> AbstractAsyncContextManager[None]:
        """Wait for nothing."""
        return nullcontext()

    async def catch_up_others(self) -> None:
        """Do nothing: there are no other nodes."""


async def fold_shadow(shadow: Projector, writer: WriterPart) -> AsyncIterator[Progress]:
    """Fold the ledger into a shadow, nearly as far as the engine is."""
    while shadow.checkpoint < (here := writer.projector.checkpoint):
        through = min(here, Position(shadow.checkpoint + SHADOW_FACTS))
        await shadow.catch_up(through=through)
        yield Progress(shadow.checkpoint, here, "folding", "fact")
        await asyncio.sleep(0)
        if writer.projector.checkpoint - shadow.checkpoint <= SHADOW_BEHIND_MAX:
            break  # Writes go on meanwhile: who waits for the last of them waits for ever.


async def compare(shadow: Projector, writer: WriterPart) -> AsyncIterator[Progress]:
    """Compare every entry of the engine's index with a shadow's. Raises IndexDiffers."""
    rankings, done = await _rankings(shadow, writer), 0
    entries = await shadow.count_entries()
    for ranking in rankings:
        first, total = 1, 1
        while first <= total:  # Whoever comes behind the last one now is not waited for.
            count, total = await _compare_some(shadow, writer, ranking, Rank(first))
            done, first = done + count, first + count
            yield Progress(done, max(done, entries), "comparing", "standing")


async def _rankings(shadow: Projector, writer: WriterPart) -> list[Ranking]:
    """Return the rankings that either side has."""
    both: dict[Ranking, None] = {}
    async with writer.turn():
        await _meet(shadow, writer)
        for projector in (writer.projector, shadow):
            for name in projector.state.boards:
                both |= dict.fromkeys(await projector.index.rankings(name))
    return list(both)


async def _compare_some(
    shadow: Projector, writer: WriterPart, ranking: Ranking, first: Rank
) -> tuple[int, int]:
    for _ in range(MOMENTS_MAX):
        try:
            async with writer.turn():
                at = await _meet(shadow, writer)
                return await _compare_at(at, shadow, writer, ranking, first)
        except IndexForgot:
            await asyncio.sleep(0)
    raise IndexUnavailable("the index moves on too fast to be compared")


async def _meet(shadow: Projector, writer: WriterPart) -> Position:
    """Bring both to where the ledger is; return where that is."""
    await writer.catch_up_others()
    projector = writer.projector
    if projector.shown_to < projector.checkpoint:
        raise IndexUnavailable("the index lacks some of the ledger; wait until it is filled")
    await shadow.catch_up(through=projector.checkpoint)
    return projector.checkpoint


async def _compare_at(
    at: Position, shadow: Projector, writer: WriterPart, ranking: Ranking, first: Rank
) -> tuple[int, int]:
    index = writer.projector.index
    ours, theirs = [
        await side.read(ranking, first=first, limit=COMPARED_TOGETHER, at=at)
        for side in (index, shadow.index)
    ]
    if ours.total != theirs.total or list(ours.entries) != list(theirs.entries):
        pairs = enumerate(zip(ours.entries, theirs.entries, strict=False))
        place = next((at for at, (one, other) in pairs if one != other), len(ours.entries))
        raise IndexDiffers(ranking=str(ranking), rank=first + place)
    if index.shared:
        await _compare_by_player(at, index, ranking, first, ours.entries)
    return len(ours.entries), ours.total


async def _compare_by_player(
    at: Position, index: RankIndex, ranking: Ranking, first: Rank, entries: Sequence[Placed]
) -> None:
    """Compare entries found by rank with those found by player, where both are stored."""
    found = await index.order_keys([(ranking, placed.player) for placed in entries], at)
    for place, (placed, order_key) in enumerate(zip(entries, found, strict=True)):
        if placed.order_key != order_key:
            raise IndexDiffers(ranking=str(ranking), rank=first + place)

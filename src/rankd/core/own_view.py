"""Reads of a shadowed player: the standings as if it were ranked.

Its entry is in the unseen twin of a ranking. A read goes over an overlay that has it in its place,
and every other entry is that of the index. Rank, pages, totals and projections then agree, because
each of them is an ordinary read.

An index of this process cannot change meanwhile. A shared one can: the entry is looked up before
the read and after it, and the read is repeated if it differs. Each score has an order key of its
own, so an entry that is equal at both moments was there all the time between.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from rankd.core.overlay import EntryChange, Overlay
from rankd.core.reader import RankingView, Reader
from rankd.errors import IndexUnavailable
from rankd.ports import Placed

T = TypeVar("T")

TRIES_MAX = 5
"""How often a read is made while the player's entry in a shared index changes."""


async def read_as_ranked(
    reader: Reader, where: RankingView, player: str, read: Callable[[Reader], Awaitable[T]]
) -> T:
    """Return the result of a read over a ranking with a shadowed player in it.

    Raises IndexUnavailable where the index is out of reach: of its entry nothing is kept elsewhere.
    """
    entry = await _entry(reader, where, player)
    for _ in range(TRIES_MAX):
        view = reader
        if entry is not None:
            changes = {player: EntryChange(None, entry)}
            view = reader.over(Overlay(reader.index, where.ranking, changes))
        found, before = await read(view), entry
        if reader.immediate:
            return found
        entry = await _entry(reader, where, player)
        if entry == before:
            return found
    raise IndexUnavailable("the player's entry changes too fast to be read")


async def _entry(reader: Reader, where: RankingView, player: str) -> Placed | None:
    """Return a player's entry in the unseen twin of a ranking."""
    place = [(where.ranking.unseen, player)]
    (order_key,) = await reader.index.order_keys(place)
    if order_key is None:
        return None
    (metadata,) = await reader.index.metadata(place)
    return Placed(player, order_key, metadata)

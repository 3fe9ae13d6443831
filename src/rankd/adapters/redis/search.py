"""Search for the entry at a rank, in a ranking spread over several partitions.

Each partition returns evenly spaced samples of its entries between two places, with the number of
entries before each. The gaps between the samples of a partition are equally long, so the number of
entries before any sample, over all partitions, is known to within one gap per partition. The search
continues between the last sample that is certainly not after the rank and the first that certainly
is: 2 / (samples + 1) of the length, for any number of partitions. A hundred million entries are
narrowed down in five rounds to a range that is read with the page.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from rankd.adapters.redis.protocol import Sampled

SAMPLES = 48
"""Samples that each partition returns per round."""

NEAR_ENOUGH = 128
"""Entries before the wanted one that may be read with it, from each partition."""

TOP_ENTRIES = 512
"""Pages that end before this offset are read without a search."""

ROUNDS_MAX = 8
"""Enough for more than 2**32 entries. A search cut short is still exact: it reads more entries."""


class SearchBounds(NamedTuple):
    """Two places with the wanted entry between them."""

    low: bytes
    """At most as many entries come before it as before the wanted one."""
    high: bytes
    """More entries come before it than before the wanted one; empty for the end of the ranking."""


EVERYWHERE = SearchBounds(b"", b"")


def before(sampled: Sequence[Sampled]) -> int:
    """Return the number of entries before the low place, over all partitions."""
    return sum(each.before_low for each in sampled)


def narrowed(between: SearchBounds, sampled: Sequence[Sampled], offset: int) -> SearchBounds:
    """Return narrower bounds for the entry that has ``offset`` entries before it."""
    places = sorted({place for each in sampled for place in each.places})
    # Both bounds grow along the places, so each is found by halving.
    lows = bisect_right(places, offset, key=lambda place: _bounds(sampled, place)[1])
    highs = bisect_right(places, offset, key=lambda place: _bounds(sampled, place)[0])
    low = places[lows - 1] if lows else between.low
    high = places[highs] if highs < len(places) else between.high
    return SearchBounds(low, high)


def _bounds(sampled: Sequence[Sampled], place: bytes) -> tuple[int, int]:
    """Return the least and the greatest possible number of entries before a place."""
    at_least = at_most = 0
    for each in sampled:
        following = bisect_right(each.places, place)
        if following and each.places[following - 1] == place:
            at_least += each.counts[following - 1]
            at_most += each.counts[following - 1]
            continue
        at_least += each.counts[following - 1] if following else each.before_low
        at_most += each.counts[following] if following < len(each.places) else each.before_high
    return at_least, at_most

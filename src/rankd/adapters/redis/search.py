"""Who is at a rank, where the entries of a ranking are spread over several partitions.

Each partition is asked for some of its entries between two places, evenly spread, with how many
come before each. Between two samples of a partition lie as many entries as between any two, so for
every sample it is known, to within one such gap in each partition, how many come before it in all.
The search goes on between the last sample that certainly is not behind the rank and the first that
certainly is: a piece 2 / (samples + 1) as long, whatever the number of partitions. A hundred
million entries are narrowed down in five rounds to what is read with the page.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from rankd.adapters.redis.questions import Sampled

SAMPLES = 48
"""How many entries each partition picks in a round."""

NEAR_ENOUGH = 128
"""How many entries before the wanted one may be read with it, from each partition."""

TOP_ENTRIES = 512
"""Pages that end before this offset are read without a search."""

ROUNDS_MAX = 8
"""More than 2**32 entries need. A search that ends early is exact all the same: more is read."""


class Between(NamedTuple):
    """Where the wanted entry lies."""

    low: bytes
    """So that at most as many entries come before it as before the wanted one."""
    high: bytes
    """So that more do; empty for the end."""


EVERYWHERE = Between(b"", b"")


def before(sampled: Sequence[Sampled]) -> int:
    """Return how many entries come before the low place in all."""
    return sum(each.before_low for each in sampled)


def narrowed(between: Between, sampled: Sequence[Sampled], offset: int) -> Between:
    """Return a shorter piece in which the entry lies before which ``offset`` others come."""
    places = sorted({place for each in sampled for place in each.places})
    # Both bounds grow along the places, so each is found by halving.
    lows = bisect_right(places, offset, key=lambda place: _bounds(sampled, place)[1])
    highs = bisect_right(places, offset, key=lambda place: _bounds(sampled, place)[0])
    low = places[lows - 1] if lows else between.low
    high = places[highs] if highs < len(places) else between.high
    return Between(low, high)


def _bounds(sampled: Sequence[Sampled], place: bytes) -> tuple[int, int]:
    """Return how many entries come before a place, at least and at most."""
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

"""However entries are spread over partitions, the search ends where the rank is."""

import random
from bisect import bisect_left

import pytest

from rankd.adapters.redis import reads
from rankd.adapters.redis.protocol import Sampled
from rankd.adapters.redis.reads import EVERYWHERE, SearchBounds


def sampled(partition: list[bytes], between: SearchBounds, count: int) -> Sampled:
    """Pick entries as read.lua does."""
    low, high = between
    first = bisect_left(partition, low)
    beyond = len(partition) if not high else bisect_left(partition, high)
    some = min(count, max(0, beyond - first))
    at = [first + (beyond - first) * (2 * i - 1) // (2 * some) for i in range(1, some + 1)]
    return Sampled(first, beyond, [partition[n] for n in at], at)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("samples", [2, 5, reads.SAMPLES])
def test_the_search_ends_close_before_the_wanted_entry(seed: int, samples: int) -> None:
    dice = random.Random(seed)
    entries = sorted(b"%08d" % n for n in dice.sample(range(10**7), 5000))
    # From evenly spread to all in one place, and in runs.
    chances = [dice.choice([0, 1, 5, 100]) for _ in range(4)] + [1]
    partitions: list[list[bytes]] = [[] for _ in chances]
    for entry in entries:
        dice.choices(partitions, chances)[0].append(entry)
    for offset in (0, 1, 130, 2500, 4998, 4999):
        between, rounds = EVERYWHERE, 0
        while True:
            told = [sampled(partition, between, samples) for partition in partitions]
            before = reads.before(told)
            assert before == bisect_left(entries, between.low)
            assert before <= offset
            assert not between.high or bisect_left(entries, between.high) > offset
            closer = reads.narrowed(between, told, offset)
            if offset - before <= reads.NEAR_ENOUGH or closer == between:
                break
            between, rounds = closer, rounds + 1
        assert offset - before <= reads.NEAR_ENOUGH
        if samples == reads.SAMPLES:
            assert rounds <= 2

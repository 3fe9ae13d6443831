"""The distribution of the scores of a ranking: a histogram and quantiles, counted in the index.

A bucket is two counts of entries before a key, a quantile the entry at one rank: O(log n) each,
without a pass over the entries. Scores are those of the first column.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar

import msgspec

from rankd.errors import FieldError, InvalidPage
from rankd.model.board import Direction
from rankd.model.facts import Position
from rankd.model.order import Order
from rankd.model.standing import Rank
from rankd.model.window import Instant, WindowState
from rankd.ports import RankIndex, Ranking

T = TypeVar("T")

BUCKETS_DEFAULT = 20

BUCKETS_MAX = 200
"""More than a picture shows. Each is a search in the index."""

QUANTILES = ("0.01", "0.05", "0.1", "0.25", "0.5", "0.75", "0.9", "0.95", "0.99")
"""As text, since they are names in answers; the extremes are ``score_min`` and ``score_max``."""

_HUNDREDTHS = tuple(round(float(quantile) * 100) for quantile in QUANTILES)


class Bucket(NamedTuple):
    """A range of scores in smallest units, both ends inclusive, and its number of players."""

    score_min: int
    score_max: int
    players: int


class Histogram(NamedTuple):
    """The scores of a ranking that is not empty."""

    score_min: int
    score_max: int
    buckets: list[Bucket]
    """The lowest first."""
    quantiles: dict[str, int]
    """By each of QUANTILES the least score that so large a share of the players does not exceed."""


class ScoreDistribution(msgspec.Struct, frozen=True, gc=False):
    """The distribution of the scores of a ranking."""

    ranking: Ranking
    total: int
    as_of: Position
    histogram: Histogram | None
    """None for an empty ranking."""
    decimals: int
    stale: bool = False
    state: WindowState = WindowState.OPEN
    opens_at: Instant | None = None
    """When a scheduled window begins."""
    at: Instant | None = None
    """The instant whose scores are counted; None if they do not depend on time."""


def check_buckets(buckets: int) -> None:
    """Raise InvalidPage unless a histogram can have so many buckets."""
    if not 1 <= buckets <= BUCKETS_MAX:
        raise InvalidPage([FieldError("buckets", f"must be from 1 to {BUCKETS_MAX}")])


class ShownOrder(NamedTuple):
    """The order of a ranking, and the instant whose scores it shows under decay."""

    order: Order
    time: Instant

    def score(self, key: bytes) -> int:
        """Return the score that is shown of an entry."""
        return self.order.shown(self.order.scores(key), self.time)[0]

    def bound(self, low: int) -> bytes:
        """Return the key that separates the scores from ``low`` on from those below."""
        first, last = self.order.span(low, None, self.time)
        return last if self.order.directions[0] is Direction.HIGHER else first


async def histogram(
    index: RankIndex,
    ranking: Ranking,
    shown: ShownOrder,
    *,
    total: int,
    buckets: int,
    at: Position | None,
) -> Histogram | None:
    """Return the distribution of the scores of ``total`` entries; None if there are none."""
    order = shown.order
    if total == 0:
        return None
    ranks = [_rank_of(share, total, order) for share in (0, *_HUNDREDTHS, 100)]
    scores = dict(zip(ranks, await _scores_at(index, ranking, shown, ranks, at), strict=True))
    lowest, *middle, highest = [scores[rank] for rank in ranks]
    quantiles = dict(zip(QUANTILES, middle, strict=True))
    ranges = _ranges(lowest, highest, buckets)
    counts = await _counts(index, ranking, shown, ranges, total, at)
    found = [Bucket(low, high, count) for (low, high), count in zip(ranges, counts, strict=True)]
    return Histogram(lowest, highest, found, quantiles)


def _rank_of(hundredths: int, total: int, order: Order) -> Rank:
    """Return the rank of a quantile: the nearest one, counted from the lowest score."""
    number = max(1, -(-hundredths * total // 100))
    lowest_is_last = order.directions[0] is Direction.HIGHER
    return Rank(total + 1 - number if lowest_is_last else number)


def _ranges(lowest: int, highest: int, buckets: int) -> list[tuple[int, int]]:
    """Return ranges of equal width, as far as whole units allow; fewer if there are fewer units."""
    width = highest - lowest + 1
    count = min(buckets, width)
    starts = [lowest + width * number // count for number in range(count + 1)]
    return [(start, end - 1) for start, end in pairwise(starts)]


async def _scores_at(
    index: RankIndex,
    ranking: Ranking,
    shown: ShownOrder,
    ranks: Sequence[Rank],
    at: Position | None,
) -> list[int]:
    reads = [index.read(ranking, first=rank, limit=1, at=at) for rank in ranks]
    found = await _all(index, reads)
    return [shown.score(some.entries[0].order_key) for some in found]


async def _counts(
    index: RankIndex,
    ranking: Ranking,
    shown: ShownOrder,
    ranges: Sequence[tuple[int, int]],
    total: int,
    at: Position | None,
) -> list[int]:
    """Return how many entries each of adjoining ranges has, together all of them."""
    higher = shown.order.directions[0] is Direction.HIGHER
    bounds = [shown.bound(low) for low, _ in ranges]
    before = await _all(index, [index.count_below(ranking, key, at=at) for key in bounds[1:]])
    if higher:
        edges = [total, *before, 0]
        return [above - below for above, below in pairwise(edges)]
    edges = [0, *before, total]
    return [below - above for above, below in pairwise(edges)]


async def _all(index: RankIndex, calls: Sequence[Awaitable[T]]) -> list[T]:
    """Return the results of some calls; those that suspend are made together."""
    if index.immediate:
        return [await call for call in calls]
    return list(await asyncio.gather(*calls))

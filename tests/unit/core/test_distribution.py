"""Distributions of scores: every player is in one bucket, and quantiles are scores of players."""

import math
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rankd
from rankd.core.distribution import BUCKETS_MAX, QUANTILES, Bucket
from rankd.embedded.boards import Board, Ranks
from rankd.errors import InvalidPage
from rankd.model.board import SCORE_MAX, SCORE_MIN

pytestmark = pytest.mark.filterwarnings("ignore:rankd keeps everything in memory")

SCORES = st.lists(st.integers(-5, 5) | st.integers(SCORE_MIN, SCORE_MAX), min_size=1, max_size=40)


def board_of(ranks: Ranks, scores: list[int], **definition: Any) -> Board:
    board = ranks.board("b", **definition)
    board.submit_many([(f"p{number}", score) for number, score in enumerate(scores)])
    return board


@given(SCORES, st.integers(1, BUCKETS_MAX), st.sampled_from(["higher", "lower"]))
def test_a_histogram_counts_each_score_once(scores: list[int], buckets: int, way: str) -> None:
    with rankd.open() as ranks:
        found = board_of(ranks, scores, direction=way).distribution(buckets=buckets)
    assert found.histogram is not None
    assert (found.histogram.score_min, found.histogram.score_max) == (min(scores), max(scores))
    ranges = found.histogram.buckets
    assert len(ranges) == min(buckets, max(scores) - min(scores) + 1)
    assert (ranges[0].score_min, ranges[-1].score_max) == (min(scores), max(scores))
    for low, high, players in ranges:
        assert players == sum(low <= score <= high for score in scores)
    for one, following in pairwise(ranges):
        assert following.score_min == one.score_max + 1
    widths = {high - low for low, high, _ in ranges}
    assert max(widths) - min(widths) <= 1


@given(SCORES, st.sampled_from(["higher", "lower"]), st.sampled_from(["ordinal", "dense"]))
def test_a_quantile_is_the_least_score_that_enough_do_not_exceed(
    scores: list[int], way: str, ties: str
) -> None:
    with rankd.open() as ranks:
        found = board_of(ranks, scores, direction=way, ties=ties).distribution()
    assert found.histogram is not None
    assert list(found.histogram.quantiles) == list(QUANTILES)
    for quantile, score in found.histogram.quantiles.items():
        enough = max(1, math.ceil(round(float(quantile) * 100) * len(scores) / 100))
        assert score == sorted(scores)[enough - 1], quantile


def test_several_columns_are_distributed_by_the_first() -> None:
    columns = [{"name": "points"}, {"name": "time", "direction": "lower"}]
    with rankd.open() as ranks:
        board = ranks.board("b", columns=columns)
        board.submit("ann", columns={"points": 3, "time": 9})
        board.submit("bob", columns={"points": 3, "time": 7})
        board.submit("cyd", columns={"points": 4, "time": 8})
        found = board.distribution()
    assert found.histogram is not None
    assert found.histogram.buckets == [Bucket(3, 3, 2), Bucket(4, 4, 1)]


def test_an_empty_ranking_has_no_histogram() -> None:
    with rankd.open() as ranks:
        found = ranks.board("b").distribution()
    assert (found.total, found.histogram) == (0, None)


@pytest.mark.parametrize("buckets", [0, BUCKETS_MAX + 1])
def test_the_number_of_buckets_is_bounded(buckets: int) -> None:
    with rankd.open() as ranks, pytest.raises(InvalidPage, match="buckets"):
        ranks.board("b").distribution(buckets=buckets)

"""Judging in a list: each promise of judge_many, kept by both implementations.

What the verdicts mean is the model's affair, and tests/property/test_judging.py compares with it;
here are the edges, each by itself, and what is refused.
"""

from array import array
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import pytest

from rankd.rank.rules import BEST, DENSE, FIRST, LATEST, ORDINAL, STANDARD, SUM, Rules

COUNTED, NOT_BETTER, OUT_OF_BOUNDS, OVERFLOW = range(4)
LOWEST, HIGHEST = -(2**63), 2**63 - 1
HIGHER_WINS, LOWER_WINS, COMPLEMENTED = 2**63 - 1, 2**63, 2**64 - 1
BY_POSITION, BY_PLAYER = 1, 0


def rules(rule: int = BEST, *, low: int = LOWEST, high: int = HIGHEST) -> Rules:
    return Rules(rule, (HIGHER_WINS, 0), BY_POSITION, low, high)


def judge(
    ranks: Any,
    sent: Sequence[tuple[int, int]],
    by: Rules,
    *,
    deltas: bytes | None = None,
    first: int = 1,
) -> list[tuple[int, ...]]:
    """Judge pairs of player and score; return rows of all that is told."""
    players, scores = array("I", [p for p, _ in sent]), array("q", [s for _, s in sent])
    positions = array("Q", range(first, first + len(sent)))
    told = ranks.judge_many(players, scores, positions, deltas, rules=by)
    assert [getattr(column, "typecode", "bytes") for column in told] == ["bytes", *"qqIII"]
    return list(zip(*told, strict=True))


@pytest.fixture
def ranks(rank: ModuleType) -> Any:
    return rank.RankList()


# ---- Rules -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "score", "expected"),
    [
        (BEST, 11, (COUNTED, 11)),
        (BEST, 10, (NOT_BETTER, 10)),
        (BEST, 9, (NOT_BETTER, 10)),
        (LATEST, 9, (COUNTED, 9)),
        (SUM, 9, (COUNTED, 19)),
        (SUM, -30, (COUNTED, -20)),
        (FIRST, 11, (NOT_BETTER, 10)),
    ],
)
def test_a_rule_decides_between_new_and_old(
    ranks: Any, rule: int, score: int, expected: tuple[int, int]
) -> None:
    judge(ranks, [(7, 10)], rules(rule))
    ((verdict, after, before, now, was, total),) = judge(ranks, [(7, score)], rules(rule))
    assert (verdict, after) == expected
    assert (before, now, was, total) == (10, 1, 1, 1)


@pytest.mark.parametrize(
    ("ties", "expected"),
    [
        (ORDINAL, [(0, 1), (0, 1), (0, 3), (2, 2), (3, 1)]),
        (STANDARD, [(0, 1), (0, 1), (0, 2), (2, 2), (2, 1)]),
        (DENSE, [(0, 1), (0, 1), (0, 2), (2, 2), (2, 1)]),
    ],
)
def test_ranks_are_counted_as_equal_scores_share_them(
    rank: ModuleType, ties: int, expected: list[tuple[int, int]]
) -> None:
    ranks = rank.RankList(dense=ties == DENSE)
    sent = [(1, 10), (2, 20), (3, 10), (1, 5), (3, 30)]
    rows = judge(ranks, sent, rules(BEST)._replace(ties=ties))
    assert [(was, now) for *_, now, was, _ in rows] == expected


@pytest.mark.parametrize("rule", [BEST, LATEST, SUM])
def test_a_delta_is_added_whatever_the_rule(ranks: Any, rule: int) -> None:
    rows = judge(ranks, [(7, 10), (7, -4)], rules(rule), deltas=b"\0\1")
    assert [row[:3] for row in rows] == [(COUNTED, 10, 0), (COUNTED, 6, 10)]
    assert judge(ranks, [(8, 5)], rules(rule), deltas=b"\1")[0][:3] == (COUNTED, 5, 0)


def test_lower_wins_where_the_mask_says_so(ranks: Any) -> None:
    by = Rules(BEST, (LOWER_WINS, 0), BY_POSITION, LOWEST, HIGHEST)
    rows = judge(ranks, [(1, 10), (2, 5), (1, 4), (2, 6)], by)
    assert [row[0] for row in rows] == [COUNTED, COUNTED, COUNTED, NOT_BETTER]
    assert [player for _, player in ranks] == [1, 2]


@pytest.mark.parametrize(
    ("masks", "tie_factor", "order"),
    [
        ((HIGHER_WINS, 0), BY_POSITION, [2, 1, 3]),
        ((HIGHER_WINS, COMPLEMENTED), BY_POSITION, [3, 1, 2]),
        ((HIGHER_WINS, 0), BY_PLAYER, [1, 2, 3]),
    ],
)
def test_equals_are_ordered_by_position_or_by_player(
    ranks: Any, masks: tuple[int, int], tie_factor: int, order: list[int]
) -> None:
    judge(ranks, [(2, 0), (1, 0), (3, 0)], Rules(BEST, masks, tie_factor, LOWEST, HIGHEST))
    assert [player for _, player in ranks] == order


def test_all_columns_are_compared_as_one(rank: ModuleType) -> None:
    ranks = rank.RankList(24)
    by = Rules(BEST, (HIGHER_WINS, LOWER_WINS, 0), BY_POSITION, LOWEST, HIGHEST)
    scores = [(5, 9), (5, 8), (5, 8), (4, 1), (6, 99)]
    verdicts, after, *_ = ranks.judge_many(
        array("I", [1] * 5),
        array("q", [score for row in scores for score in row]),
        array("Q", range(1, 6)),
        rules=by,
    )
    assert list(verdicts) == [COUNTED, COUNTED, NOT_BETTER, NOT_BETTER, COUNTED]
    assert after.tolist() == [5, 9, 5, 8, 5, 8, 5, 8, 6, 99]


# ---- Bounds and overflow -----------------------------------------------------------------------


@pytest.mark.parametrize("rule", [BEST, LATEST, SUM, FIRST])
def test_bounds_are_included_in_what_counts(ranks: Any, rule: int) -> None:
    by = rules(rule, low=-2, high=2)
    rows = judge(ranks, [(1, -2), (2, 2), (3, -3), (4, 3)], by)
    assert [row[0] for row in rows] == [COUNTED, COUNTED, OUT_OF_BOUNDS, OUT_OF_BOUNDS]
    assert rows[2] == (OUT_OF_BOUNDS, 0, 0, 0, 0, 2)
    assert len(ranks) == 2


def test_a_sum_is_held_to_the_bounds_as_a_whole(ranks: Any) -> None:
    by = rules(SUM, low=-2, high=2)
    rows = judge(ranks, [(1, 2), (1, 1), (1, -4), (1, -5)], by)
    assert [row[:2] for row in rows] == [
        (COUNTED, 2),
        (OUT_OF_BOUNDS, 2),
        (COUNTED, -2),
        (OUT_OF_BOUNDS, -2),
    ]


@pytest.mark.parametrize("bounds", [(LOWEST, HIGHEST), (-2, 2)])
@pytest.mark.parametrize(("score", "step"), [(2, HIGHEST), (-2, LOWEST)])
def test_what_does_not_fit_is_told_before_bounds_are(
    ranks: Any, bounds: tuple[int, int], score: int, step: int
) -> None:
    by = rules(SUM, low=bounds[0], high=bounds[1])
    rows = judge(ranks, [(1, score), (1, step)], by)
    assert rows[1] == (OVERFLOW, score, score, 1, 1, 1)


def test_any_column_can_overflow(rank: ModuleType) -> None:
    ranks = rank.RankList(24)
    by = Rules(SUM, (HIGHER_WINS, HIGHER_WINS, 0), BY_POSITION, -2, 2)
    verdicts, after, *_ = ranks.judge_many(
        array("I", [1, 1]), array("q", [0, 1, 5, HIGHEST]), array("Q", [1, 2]), rules=by
    )
    assert list(verdicts) == [COUNTED, OVERFLOW]
    assert after.tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize("score", [LOWEST, LOWEST + 1, -1, 0, 1, HIGHEST - 1, HIGHEST])
@pytest.mark.parametrize("mask", [HIGHER_WINS, LOWER_WINS])
def test_a_score_comes_back_as_it_went_in(ranks: Any, score: int, mask: int) -> None:
    by = Rules(LATEST, (mask, 0), BY_POSITION, LOWEST, HIGHEST)
    assert judge(ranks, [(1, score)], by)[0][:3] == (COUNTED, score, 0)
    assert judge(ranks, [(1, score)], by)[0][:3] == (COUNTED, score, score)


# ---- Keys, ranks, moments ----------------------------------------------------------------------


@pytest.mark.parametrize(("rule", "score"), [(LATEST, 10), (SUM, 0)])
def test_the_same_scores_again_count_and_leave_the_key(ranks: Any, rule: int, score: int) -> None:
    """A place among equals is lost by scoring otherwise, not by scoring the same again."""
    judge(ranks, [(1, 10), (2, 10)], rules(rule))
    before = list(ranks)
    rows = judge(ranks, [(1, score)], rules(rule), first=3)
    assert rows == [(COUNTED, 10, 10, 1, 1, 2)]
    assert list(ranks) == before


def test_ranks_are_those_just_before_and_just_after_its_own_move(ranks: Any) -> None:
    rows = judge(ranks, [(1, 10), (2, 20), (1, 30), (3, 5), (1, 0), (2, 1)], rules())
    assert [row[3:] for row in rows] == [
        (1, 0, 1),
        (1, 0, 2),
        (1, 2, 2),
        (3, 0, 3),
        (1, 1, 3),
        (2, 2, 3),
    ]


@pytest.mark.parametrize("count", [31, 32, 33, 64, 1000])
def test_a_player_who_comes_again_sees_what_it_did(ranks: Any, count: int) -> None:
    """Also within the few dozen submissions whose searches go together."""
    rows = judge(ranks, [(7, 1)] * count, rules(SUM))
    assert [row[:3] for row in rows] == [(COUNTED, n + 1, n) for n in range(count)]
    assert ranks.key_of(7) == (HIGHER_WINS - count).to_bytes(8, "big") + count.to_bytes(8, "big")
    ranks.check()


def test_distinct_scores_are_counted_where_the_list_is_dense(rank: ModuleType) -> None:
    ranks = rank.RankList(dense=True)
    judge(ranks, [(player, player // 3) for player in range(90)], rules(LATEST))
    judge(ranks, [(player, 0) for player in range(60)], rules(LATEST), first=91)
    ranks.check()
    assert ranks.scores_below(b"\xff" * 16) == 11


def test_a_walk_through_the_list_notices(ranks: Any) -> None:
    judge(ranks, [(1, 1), (2, 2)], rules())
    walk = ranks.blocks(1)
    next(walk)
    judge(ranks, [(1, 9)], rules(), first=3)
    with pytest.raises(RuntimeError):
        next(walk)


def test_an_empty_run_does_nothing(ranks: Any) -> None:
    assert judge(ranks, [], rules()) == []
    assert judge(ranks, [], rules(), deltas=b"") == []


# ---- Players -----------------------------------------------------------------------------------


def test_a_run_stops_at_one_whom_the_table_lacks(rank: ModuleType) -> None:
    table = rank.PlayerTable()
    known = table.intern("known")
    ranks = rank.RankList(players=table)
    with pytest.raises(KeyError) as caught:
        judge(ranks, [(known, 1), (99, 1), (known, 5)], rules())
    assert caught.value.args == (99,)
    assert caught.value.__notes__ == ["1 entries of the batch were put"]
    assert judge(ranks, [(known, 1)], rules())[0][:3] == (NOT_BETTER, 1, 1)


def test_nobody_cannot_be_ranked(rank: ModuleType, ranks: Any) -> None:
    with pytest.raises(ValueError, match="a player's number"):
        judge(ranks, [(rank.NO_PLAYER, 1)], rules())
    assert len(ranks) == 0


def test_who_is_not_counted_need_not_be_in_the_table(rank: ModuleType) -> None:
    ranks = rank.RankList(players=rank.PlayerTable())
    sent = [(99, 5), (rank.NO_PLAYER, 5)]
    assert judge(ranks, sent, rules(high=1)) == [(OUT_OF_BOUNDS, 0, 0, 0, 0, 0)] * 2


# ---- What is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"rule": 4},
        {"rule": -1},
        {"masks": (HIGHER_WINS,)},
        {"masks": (HIGHER_WINS, HIGHER_WINS, 0)},
        {"tie_factor": 2},
        {"ties": 3},
        {"ties": DENSE},  # The list does not count distinct scores.
        {"low": LOWEST - 1},
        {"high": HIGHEST + 1},
    ],
)
def test_rules_that_make_no_sense_are_refused(ranks: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises((ValueError, OverflowError)):
        judge(ranks, [(1, 1)], rules()._replace(**wrong))
    assert len(ranks) == 0


def test_deltas_are_refused_where_the_first_scores_stay(ranks: Any) -> None:
    with pytest.raises(ValueError, match="no deltas"):
        judge(ranks, [(1, 1), (2, 2)], rules(FIRST), deltas=b"\0\1")
    assert len(ranks) == 0
    assert judge(ranks, [(1, 1)], rules(FIRST), deltas=b"\0")[0][0] == COUNTED


@pytest.mark.parametrize(("scores", "positions", "deltas"), [(1, 2, 2), (2, 1, 2), (2, 2, 1)])
def test_columns_of_different_lengths_are_refused(
    ranks: Any, scores: int, positions: int, deltas: int
) -> None:
    with pytest.raises(ValueError, match="2 players need"):
        ranks.judge_many(
            array("I", [1, 2]),
            array("q", [1] * scores),
            array("Q", range(1, positions + 1)),
            bytes(deltas),
            rules=rules(),
        )
    assert len(ranks) == 0

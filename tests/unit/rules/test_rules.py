"""Each rule at its boundaries, natively and in Python."""

from array import array
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.standins import PURE, native_part
from tests.unit.rules.conftest import SECOND, Declared, Make

from rankd.rules import oracle
from rankd.rules.conditions import SLOT_MICROSECONDS

if TYPE_CHECKING:
    from types import ModuleType

LARGEST = 2**63 - 1

# ---- Gain per minute ---------------------------------------------------------------------------

GAIN = ("gain_per_minute", "refuse", 100)


def test_the_first_score_is_no_gain_and_improvements_are(judging: Make) -> None:
    judge = judging(GAIN)
    assert judge(10**9, 10**9 + 100, 10**9 + 101) == ["fine", "fine", "refuse"]
    assert judge.observed(2) == [(0, 101, 100)]
    assert judge.observed(0) == judge.observed(1) == judge.observed(9) == []


def test_a_refused_gain_leaves_no_trace(judging: Make) -> None:
    judge = judging(GAIN)
    assert judge(0, 500, 100, 101) == ["fine", "refuse", "fine", "refuse"]
    assert judge.observed(3) == [(0, 101, 100)]


def test_a_flagged_gain_counts(judging: Make) -> None:
    judge = judging(("gain_per_minute", "flag", 100))
    assert judge(0, 500, 500, 501) == ["fine", "flag", "fine", "flag"]
    assert judge.observed(3) == [(0, 501, 100)]


@pytest.mark.parametrize(
    ("rule_of_board", "higher_wins", "scores", "broken"),
    [
        ("best", True, (50, 0, 151), "..x"),
        ("best", True, (50, 0, 150), "..."),
        ("best", False, (50, 99, -50, -51), "...x"),
        ("latest", True, (50, 0, 101), "..x"),
        ("latest", True, (50, 0, 60, 0, 40), "....."),
        ("latest", True, (50, 0, 60, 0, 41), "....x"),
        ("latest", False, (50, 90, -11), "..x"),
        ("sum", True, (100, 1), ".x"),
        ("sum", True, (101,), "x"),
        ("sum", True, (-500, 100, -500, 1), "...x"),
        ("sum", False, (-100, 500, -1), "..x"),
        ("first", True, (5, 10**9), ".."),
        ("best", True, (-(2**63), LARGEST), ".x"),
    ],
)
def test_a_gain_depends_on_the_score_rule(
    judging: Make, rule_of_board: str, higher_wins: bool, scores: tuple[int, ...], broken: str
) -> None:
    judge = judging(GAIN, rule_of_board=rule_of_board, higher_wins=higher_wins)
    assert "".join(".x"[verdict == "refuse"] for verdict in judge(*scores)) == broken


def test_a_delta_is_its_own_gain_and_moves_the_score_that_counts(judging: Make) -> None:
    judge = judging(GAIN)
    assert judge(101, delta=True) == ["refuse"]
    assert judge(90, delta=True) == ["fine"]
    assert judge(-80, delta=True) == ["fine"]
    assert judge(20) == ["fine"], "10 more than the 10 that are there"
    assert judge(21) == ["refuse"]


@pytest.mark.parametrize(("seconds", "broken"), [(0, True), (49, True), (50, True), (60, False)])
def test_a_minute_slides_by_slots_of_ten_seconds(judging: Make, seconds: int, broken: bool) -> None:
    judge = judging(GAIN, rule_of_board="sum")
    assert judge(100, at=1_000_000) == ["fine"]
    assert (judge(1, at=1_000_000 + seconds) == ["refuse"]) is broken


def test_each_slot_leaves_the_minute_by_itself(judging: Make) -> None:
    judge = judging(GAIN, rule_of_board="sum")
    for slot in range(5):
        assert judge(20, at=10 * slot) == ["fine"]
    assert judge(20, at=59) == ["refuse"], "the slots of 0 to 59 seconds hold 100"
    assert judge(20, at=60) == ["fine"]
    assert judge(1, at=69) == ["refuse"]
    assert judge(20, at=70) == ["fine"]
    assert judge(100, at=100_000) == ["fine"]


def test_a_time_that_goes_back_begins_a_minute_of_its_own(judging: Make) -> None:
    judge = judging(GAIN, ("seconds_between", "flag", SECOND), rule_of_board="sum")
    assert judge(100, at=5_000) == ["fine"]
    assert judge(100, at=4_999) == ["fine"]
    assert judge(1, at=5_000) == ["refuse"]


def test_times_before_1970_have_slots_too(judging: Make) -> None:
    judge = judging(GAIN, rule_of_board="sum")
    assert judge(60, at=-35) == ["fine"]
    assert judge(60, at=-1) == ["refuse"]
    assert judge(60, at=19.9) == ["refuse"]
    assert judge(60, at=20) == ["fine"]


@pytest.mark.parametrize("limit", [100, 2**16 - 2, 2**16 - 1, 2**32 - 2, 2**32 - 1, LARGEST - 1])
@pytest.mark.parametrize("then", ["flag", "refuse"])
def test_every_limit_is_exact_however_narrow_the_slots(
    judging: Make, limit: int, then: str
) -> None:
    judge = judging(("gain_per_minute", then, limit), rule_of_board="sum")
    assert judge(limit, 1) == ["fine", then]
    assert judge.observed(1) == [(0, limit + 1, limit)]
    assert judge(LARGEST, 1, at=2_000_000)[0] == then


# ---- Submissions per minute, seconds between ---------------------------------------------------


def test_every_submission_of_a_minute_is_counted_the_refused_too(judging: Make) -> None:
    judge = judging(("submissions_per_minute", "refuse", 3))
    assert judge(1, 1, 1, 1, at=1_000_000) == ["fine", "fine", "fine", "refuse"]
    assert judge.observed(3) == [(0, 4, 3)]
    assert judge(1, at=1_000_050) == ["refuse"]
    assert judge.observed() == [(0, 5, 3)]
    assert judge(1, at=1_000_060) == ["fine"], "only the one of 50 seconds is left"
    assert judge(1, player="bob") == ["fine"]


@pytest.mark.parametrize("then", ["flag", "hold", "refuse"])
def test_seconds_lie_between_a_submission_and_the_one_before(judging: Make, then: str) -> None:
    judge = judging(("seconds_between", then, 1_500_000))
    assert judge(1, at=10) == ["fine"]
    assert judge(1, at=11.499999) == [then]
    assert judge.observed() == [(0, 1_499_999, 1_500_000)]
    assert judge(1, at=12.999998) == [then]
    assert judge(1, at=14.499998) == ["fine"]
    assert judge(1, 1, at=20) == ["fine", then]


# ---- First score -------------------------------------------------------------------------------


def test_the_first_score_that_counts_has_a_ceiling(judging: Make) -> None:
    judge = judging(("first_score", "hold", 500))
    assert judge(501, 10**9, 500, 10**9) == ["hold", "hold", "fine", "fine"]
    assert judge.observed(1) == [(0, 10**9, 500)]
    assert judge(501, player="bob", delta=True) == ["hold"]


def test_where_lower_wins_the_ceiling_is_a_floor(judging: Make) -> None:
    judge = judging(("first_score", "refuse", 500), higher_wins=False)
    assert judge(499, 500, 1) == ["refuse", "fine", "fine"]


# ---- Outliers ----------------------------------------------------------------------------------


def test_a_gain_is_judged_by_the_players_own_once_some_were_seen(judging: Make) -> None:
    judge = judging(("outlier_self", "hold", 3_000, 0, 8), rule_of_board="sum")
    assert judge(*[1_000] * 7, 10**6) == ["fine"] * 8, "seven gains are not enough"
    judge = judging(("outlier_self", "hold", 3_000, 0, 8), rule_of_board="sum")
    assert judge(*[1_000] * 8, 3_100, 3_000, -5) == ["fine"] * 8 + ["hold", "fine", "fine"]
    ((rule, observed, limit),) = judge.observed(8)
    assert (rule, observed) == (0, 3_100)
    assert 3_000 <= limit <= 3_012, "at most 1/256 of a doubling too many"


@pytest.mark.parametrize("usual", [1, 2, 3, 5, 7, 1000, 12345, 2**40, 2**61 + 1])
def test_the_limit_never_accuses_too_early(judging: Make, usual: int) -> None:
    judge = judging(("outlier_self", "flag", 2_000, 0, 1), rule_of_board="sum")
    assert judge(usual, 2 * usual, at=0) == ["fine", "fine"]
    assert judge(player="bob", at=0) == []
    assert judge(usual, 2 * usual + usual // 64 + 1, player="cid") == ["fine", "flag"]


def test_the_usual_gain_is_robust(judging: Make) -> None:
    judge = judging(("outlier_self", "flag", 4_000, 0, 8), rule_of_board="sum")
    assert judge(10**12, *[100 + i for i in range(7)], 450) == ["fine"] * 8 + ["flag"]
    for _ in range(3):
        assert judge(10**9, 10**9) == ["flag", "flag"]
        judge(*[100] * 5)
    assert judge(600, 300) == ["flag", "fine"]


def test_one_small_gain_at_first_accuses_no_later_one(judging: Make) -> None:
    judge = judging(("outlier_self", "flag", 4_000, 0, 8), rule_of_board="sum")
    assert judge(1, *[10**6] * 20) == ["fine"] * 21


def test_the_usual_gain_follows_a_player_that_becomes_better(judging: Make) -> None:
    judge = judging(("outlier_self", "flag", 4_000, 0, 8), rule_of_board="sum")
    judge(*[100] * 50)
    assert judge(*[1_600] * 10) == ["flag"] * 5 + ["fine"] * 5
    assert judge(*[100] * 10, 1_600)[-1] == "flag"


def test_a_score_is_judged_by_the_field_once_some_were_seen(judging: Make) -> None:
    judge = judging(("outlier_field", "flag", 2_000, 9_500, 100))
    for number in range(98):
        assert judge(1_000, player=f"p{number}") == ["fine"]
    assert judge(10**9, player="early") == ["fine"], "98 scores are not enough"
    assert judge(10**9, player="late") == ["fine"], "99 scores are not enough"
    assert judge(2_200, player="far") == ["flag"]
    ((_, observed, limit),) = judge.observed()
    assert (observed, 2_000 <= limit <= 2_100) == (2_200, True)
    assert judge(2_000, player="near") == ["fine"]


def test_where_lower_wins_a_score_is_judged_by_the_other_end_of_the_field(judging: Make) -> None:
    judge = judging(("outlier_field", "hold", 2_000, 9_900, 100), higher_wins=False)
    for number in range(200):
        assert judge(1_000 + number, player=f"p{number}") == ["fine"]
    assert judge(1, 0, -5, player="far") == ["hold"] * 3
    assert judge(500, player="near") == ["fine"]


@pytest.mark.parametrize("higher_wins", [True, False])
def test_a_field_around_zero_judges_no_score(judging: Make, higher_wins: bool) -> None:
    judge = judging(("outlier_field", "hold", 2_000, 5_000, 10), higher_wins=higher_wins)
    for number in range(20):
        judge(-number, player=f"p{number}")
    assert judge(LARGEST, -LARGEST, 0) == ["fine"] * 3


def test_the_score_that_a_delta_makes_is_judged_by_the_field(judging: Make) -> None:
    judge = judging(("outlier_field", "refuse", 2_000, 9_000, 10))
    judge(*[1_000] * 10)
    assert judge(1_500, delta=True) == ["refuse"]
    assert judge.observed()[0][1] == 2_500
    assert judge(500, delta=True) == ["fine"]


def test_held_and_refused_scores_do_not_join_the_field(judging: Make) -> None:
    judge = judging(("outlier_field", "refuse", 1_000, 5_000, 4), ("first_score", "hold", 10))
    assert judge(10, *[9] * 3) == ["fine"] * 4
    assert judge(*[10**6] * 10) == ["refuse"] * 10
    assert judge(11, 9) == ["refuse", "fine"]


# ---- Runs --------------------------------------------------------------------------------------


def test_a_score_has_as_many_units_as_its_run_has_seconds_allows(judging: Make) -> None:
    judge = judging(("per_second_of_run", "refuse", 10))
    assert judge(10**9) == ["fine"], "no run"
    assert judge(100, 101, elapsed=10 * SECOND) == ["fine", "refuse"]
    assert judge.observed(1) == [(0, 11, 10)], "rounded up"
    assert judge(LARGEST, elapsed=1) == ["refuse"]
    assert judge.observed() == [(0, LARGEST, 10)]
    assert judge(-5, elapsed=1) == ["fine"]
    assert len(judge.state) == 0, "it needs no row"


def test_where_lower_wins_a_run_may_lose_so_much_a_second(judging: Make) -> None:
    judge = judging(("per_second_of_run", "flag", 10), rule_of_board="sum", higher_wins=False)
    assert judge(-10, -11, 99, elapsed=SECOND) == ["fine", "flag", "fine"]


# ---- Together ----------------------------------------------------------------------------------


def test_the_strictest_consequence_wins_and_every_reason_is_told(judging: Make) -> None:
    judge = judging(
        ("gain_per_minute", "flag", 10),
        ("gain_per_minute", "refuse", 100),
        ("gain_per_minute", "hold", 50),
        rule_of_board="sum",
    )
    assert judge(10, 1, 40, 50) == ["fine", "flag", "hold", "hold"]
    assert judge.observed(1) == [(0, 11, 10)]
    assert judge.observed(3) == [(0, 61, 10), (2, 61, 50)]
    assert judge(90) == ["refuse"]
    assert judge.observed() == [(0, 101, 10), (1, 101, 100), (2, 101, 50)]
    assert judge(1, at=3_000_000) == ["fine"]
    assert judge.observed() == []


def test_without_rules_everything_is_fine(judging: Make) -> None:
    judge = judging()
    assert judge(1, 2, 3) == ["fine"] * 3
    assert len(judge.state) == 0
    assert judge.state.judge([], array("q"), None, array("q")) is None


def test_players_are_told_apart_by_every_byte_of_their_ids(judging: Make) -> None:
    judge = judging(("first_score", "refuse", 5))
    names = ["a", "A", "ab", "é", "e\u0301", "x" * 256, "x" * 255 + "y", "p:1", "p:10"]
    for name in names:
        assert judge(6, 5, 6, player=name) == ["refuse", "fine", "fine"]
    assert len(judge.state) == len(names)


@pytest.mark.parametrize("player", ["", "x" * 257, "é" * 129, "\ud800"])
def test_an_id_that_is_none_is_refused_and_changes_nothing(judging: Make, player: str) -> None:
    state = judging(("first_score", "refuse", 5)).state
    with pytest.raises(ValueError):
        state.judge(["ann", player], array("q", [1, 1]), None, array("q", [1, 1]))
    with pytest.raises(ValueError):
        state.forget(player)
    assert len(state) == 0


@pytest.mark.parametrize("wrong", ["scores", "deltas", "times", "elapsed"])
def test_every_column_is_as_long_as_the_run(judging: Make, wrong: str) -> None:
    state = judging(("first_score", "refuse", 5)).state
    numbers = array("q", [1, 1])
    columns = {"scores": numbers, "deltas": b"\0\0", "times": numbers, "elapsed": numbers}
    with pytest.raises(ValueError, match="2 submissions"):
        state.judge(["a", "b"], *{**columns, wrong: columns[wrong][:1]}.values())
    assert len(state) == 0


# ---- Slots and minutes -------------------------------------------------------------------------

STEPS = st.lists(st.tuples(st.integers(0, 70_000_000), st.integers(0, 60)), max_size=30)


@given(st.integers(0, SLOT_MICROSECONDS), STEPS)
def test_slots_never_accuse_where_sixty_seconds_do_not(
    start: int, steps: list[tuple[int, int]]
) -> None:
    """Nor do they miss more than the true fifty seconds hold."""
    module: ModuleType = oracle if PURE else native_part("rankd.rules._native")
    limit = 100
    rules = [
        Declared("gain_per_minute", "flag", limit),
        Declared("submissions_per_minute", "flag", 4),
    ]
    state = module.RuleState(rules, "sum", True)
    now, seen = start, list[tuple[int, int]]()
    for wait, gain in steps:
        now += wait
        seen.append((now, gain))
        state.judge(["ann"], array("q", [gain]), None, array("q", [now]))
        broken = {number for number, _, _ in state.reasons(0)}
        for number, most, amounts in ((0, limit, [g for _, g in seen]), (1, 4, [1] * len(seen))):
            times = [at for at, _ in seen]
            true, least = (
                sum(one for at, one in zip(times, amounts, strict=True) if at > now - back)
                for back in (60 * SECOND, 50 * SECOND)
            )
            if true <= most:
                assert number not in broken
            elif least > most and (gain > 0 or number == 1):
                assert number in broken

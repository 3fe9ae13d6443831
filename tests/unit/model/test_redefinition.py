"""A changed definition changes rules, never what was recorded."""

from typing import Any

import pytest

from rankd.errors import InvalidBoard
from rankd.model.board import SCORE_MAX, SCORE_MIN, Board
from rankd.model.facts import ScoreSubmitted
from rankd.model.redefinition import Translation, changes_entries, check_redefinition

TWO = [{"name": "points"}, {"name": "ms", "direction": "lower"}]


def board(**definition: Any) -> Board:
    return Board.define("arena", definition)


def scored(*scores: int) -> ScoreSubmitted:
    return ScoreSubmitted("arena", "ann", scores, key="k", metadata=b"1", attributes={"a": 1})


def added(delta: int) -> ScoreSubmitted:
    return ScoreSubmitted("arena", "ann", None, delta)


# ------------------------------------------------------------------------------- allowed


def test_decimals_may_grow_and_never_shrink() -> None:
    check_redefinition(board(decimals=1), board(decimals=3))
    check_redefinition(board(decimals=1), board(decimals=1, rule="sum"))
    with pytest.raises(InvalidBoard, match="cannot be fewer than 3") as refusal:
        check_redefinition(board(decimals=3), board(decimals=2))
    assert [error.field for error in refusal.value.errors] == ["decimals"]


@pytest.mark.parametrize(
    "change",
    [
        {"rule": "sum"},
        {"direction": "lower"},
        {"decimals": 1},
        {"tie_break": "latest"},
        {"ties": "dense"},
        {"segments": ["region"]},
        {"limits": {"score_min": 0}},
        {"limits": {"score_max": 9}},
        {"columns": TWO},
    ],
    ids=str,
)
def test_what_decides_entries_has_them_folded_again(change: dict[str, Any]) -> None:
    assert changes_entries(board(), board(**change))
    assert changes_entries(board(**change), board())
    assert not changes_entries(board(**change), board(**change))


@pytest.mark.parametrize(
    "change",
    [
        {"title": "Arena"},
        {"ties": "standard"},
        {"windows": ["daily"]},
        {"windows": ["all", "daily"], "retention": {"daily": "2d"}},
        {"limits": {"score_min": SCORE_MIN, "score_max": SCORE_MAX}},
    ],
    ids=str,
)
def test_what_only_shows_them_does_not(change: dict[str, Any]) -> None:
    assert not changes_entries(board(), board(**change))


# --------------------------------------------------------------------------- translation


def test_a_fact_stays_itself_where_unit_and_columns_do() -> None:
    translate = Translation(board(), board(rule="sum", direction="lower", tie_break="latest"))
    fact = scored(5)
    assert translate(fact) is fact
    assert translate(added(-5)) == added(-5)


def test_scores_and_deltas_are_scaled_to_finer_units() -> None:
    translate = Translation(board(decimals=1), board(decimals=3))
    translated = translate(scored(-125))
    assert translated == ScoreSubmitted(
        "arena", "ann", (-12_500,), key="k", metadata=b"1", attributes={"a": 1}
    )
    assert translate(added(7)) == added(700)


def test_what_the_finer_unit_cannot_hold_cannot_be_said() -> None:
    translate = Translation(board(), board(decimals=1))
    assert translate(scored(SCORE_MAX // 10)) is not None
    assert translate(scored(SCORE_MAX // 10 + 1)) is None
    assert translate(scored(-((-SCORE_MIN) // 10) - 1)) is None
    assert translate(added(SCORE_MAX)) is None


def test_columns_are_found_again_by_their_names() -> None:
    swapped = Translation(board(columns=TWO), board(columns=[TWO[1], TWO[0]]))
    told = swapped(scored(5, 90))
    assert told is not None
    assert told.scores == (90, 5)
    assert swapped(added(1)) is None, "it was added to another column"


def test_a_column_left_out_is_forgotten_and_a_new_one_makes_old_scores_unsayable() -> None:
    without = Translation(board(columns=TWO), board(columns=TWO[:1]))
    told = without(scored(5, 90))
    assert told is not None
    assert told.scores == (5,)
    assert without(added(3)) == added(3)
    with_more = Translation(board(columns=TWO[:1]), board(columns=TWO))
    assert with_more(scored(5)) is None
    assert with_more(added(3)) == added(3)


def test_a_renamed_column_is_another() -> None:
    translate = Translation(board(), board(columns=[{"name": "points"}]))
    assert translate(scored(5)) is None
    assert translate(added(5)) is None


def test_unit_and_columns_may_change_together() -> None:
    after = board(columns=[{"name": "ms"}], decimals=2)
    told = Translation(board(columns=TWO), after)(scored(5, 90))
    assert told is not None
    assert told.scores == (9000,)

"""Requests for corrections: their fields, and everything that is wrong with them at once."""

from typing import Any

import pytest

from rankd.errors import InvalidProfile, InvalidRequest, InvalidSubmission
from rankd.model.board import Board
from rankd.model.correction import (
    RETRACTED_PLAYERS_MAX,
    RETRACTED_POSITIONS_MAX,
    STATE_BOARDS_MAX,
    Selection,
    StateRequest,
    read_adjustment,
    read_selection,
    read_state,
)

NOON = 1_794_830_400_000_000
"""2026-11-16T12:00:00Z."""


def wrong(body: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(InvalidRequest) as refused:
        read_selection(body)
    return {error.field: error.message for error in refused.value.errors}


def test_every_condition_of_a_retraction_is_read() -> None:
    body = {
        "positions": [9, 7, 9],
        "key": "k",
        "player": "ann",
        "build": "1.2",
        "since": "2026-11-16T12:00:00Z",
        "until": "2026-11-16T12:00:01Z",
        "reason": "a bot",
    }
    assert read_selection(body) == Selection(
        (7, 9),  # type: ignore[arg-type]
        "k",
        "ann",
        "1.2",
        NOON,
        NOON + 1_000_000,
    )
    assert read_selection({"position": 5}) == Selection((5,))  # type: ignore[arg-type]
    assert read_selection({"players": ["bob", "ann", "bob"]}) == Selection(players=("ann", "bob"))
    scores = read_selection({"score_min": 5, "window": "daily", "build": "x"})
    assert (scores.has_range, scores.score_min, scores.score_max) == (True, 5, None)
    assert scores.window == "daily"


def test_a_retraction_without_a_condition_selects_nothing_and_is_refused() -> None:
    assert "must have one of position" in wrong({})[""]
    assert "must have one of position" in wrong({"reason": "why"})[""]
    assert set(wrong({"position": None, "window": "daily"})) == {"window"}


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("position", "5", "must be the position"),
        ("position", 0, "must be the position"),
        ("position", True, "must be the position"),
        ("positions", [], "must be 1 to 1,000 positions"),
        ("positions", [1] * (RETRACTED_POSITIONS_MAX + 1), "must be 1 to 1,000 positions"),
        ("positions", [2**63], "must be 1 to 1,000 positions"),
        ("players", [], "must be 1 to 1,000 ids"),
        ("players", ["p"] * (RETRACTED_PLAYERS_MAX + 1), "must be 1 to 1,000 ids"),
        ("players", ["a\x00b"], "must be 1 to 1,000 ids"),
        ("player", 5, "must be the id of a player"),
        ("key", "", "must be text"),
        ("build", "b" * 1000, "must be text"),
        ("since", "yesterday", "must be"),
        ("until", 5, "must be"),
        ("scores", 5, "is unknown"),
        ("dry_run", True, "is unknown"),
    ],
)
def test_a_wrong_condition_is_named(field: str, value: object, message: str) -> None:
    found = wrong({"build": "x", field: value})
    assert message in found[field]


def test_conditions_that_contradict_each_other_are_refused() -> None:
    assert set(wrong({"score_min": 1, "player": "ann", "position": 3})) == {"player", "position"}
    assert set(wrong({"player": "ann", "players": ["bob"]})) == {"players"}


def test_an_adjustment_takes_a_difference_also_where_submissions_do_not() -> None:
    board = Board.define("b", {"rule": "first"})
    fact = read_adjustment(board, {"player": "ann", "delta": -3, "reason": "typo"}, actor="mod")
    assert (fact.delta, fact.reason, fact.actor, fact.overrides) == (-3, "typo", "mod", True)
    with pytest.raises(InvalidSubmission) as refused:
        read_adjustment(board, {"player": "ann", "score": 1, "build": "x"}, actor=None)
    assert [error.field for error in refused.value.errors] == ["build"]


def test_a_state_of_a_player_is_read() -> None:
    body = {"boards": ["b", "a", "b"], "until": "2026-11-16T12:00:01Z", "reason": "a bot"}
    assert read_state(body, NOON) == StateRequest(("a", "b"), NOON + 1_000_000, "a bot")
    assert read_state({}, NOON) == StateRequest(None, None, None)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("boards", []),
        ("boards", "b"),
        ("boards", ["a b"]),
        ("boards", ["b" * 65]),
        ("boards", ["b"] * (STATE_BOARDS_MAX + 1)),
        ("until", "2026-11-16T12:00:00Z"),
        ("until", "soon"),
        ("untill", "2026-11-17T12:00:00Z"),
    ],
)
def test_a_wrong_state_is_refused(field: str, value: object) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_state({field: value}, NOON)
    assert [error.field for error in refused.value.errors] == [field]


def test_a_reason_has_a_bound() -> None:
    with pytest.raises(InvalidProfile):
        read_state({"reason": "x" * 10_000}, NOON)

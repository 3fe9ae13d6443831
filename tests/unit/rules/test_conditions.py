"""Rules in plain numbers: the names agree with those of a board, and nonsense is refused."""

import pytest
from tests.unit.rules.conftest import Declared, Make

from rankd.model.board import Board, ScoreRule
from rankd.model.rules import Consequence, RuleName
from rankd.rules.conditions import (
    CONSEQUENCES,
    ROW_RULES_MAX,
    RULES,
    SCORE_RULES,
    RuleNumber,
    read_conditions,
)


def test_names_are_those_of_the_model() -> None:
    assert tuple(RuleName) == RULES
    assert [rule.name.lower() for rule in RuleNumber] == list(RULES)
    assert ("fine", *Consequence) == CONSEQUENCES
    assert tuple(ScoreRule) == SCORE_RULES


def test_the_rules_of_a_board_are_taken_as_they_are(judging: Make) -> None:
    board = Board.define(
        "b",
        {
            "rules": [{"rule": "outlier_field", "then": "flag"}],
            "limits": {"gain_per_minute_max": 5},
        },
    )
    assert read_conditions(board.rules_in_force) == ((5, 1, 2_000, 9_900, 100), (0, 3, 5, 0, 0))
    state = type(judging().state)(board.rules_in_force, board.rule, True)
    assert state.rules == board.rules_in_force


@pytest.mark.parametrize(
    "rule",
    [
        Declared("aimbot", "flag", 1),
        Declared("first_score", "ban", 1),
        Declared("first_score", "fine", 1),
        Declared("gain_per_minute", "flag", 0),
        Declared("outlier_self", "flag", 0),
        Declared("first_score", "flag", 2**63),
        Declared("outlier_field", "flag", 2_000, 0),
        Declared("outlier_field", "flag", 2_000, 10_000),
        Declared("outlier_self", "flag", 2_000, 0, -1),
    ],
)
def test_a_rule_that_cannot_be_judged_is_refused(judging: Make, rule: Declared) -> None:
    with pytest.raises(ValueError):
        judging(rule)


def test_there_are_at_most_so_many_rules(judging: Make) -> None:
    rule = Declared("first_score", "flag", 1)
    judging(*[rule] * ROW_RULES_MAX)
    with pytest.raises(ValueError, match="at most"):
        judging(*[rule] * (ROW_RULES_MAX + 1))


def test_a_board_has_one_of_four_score_rules(judging: Make) -> None:
    with pytest.raises(ValueError):
        judging(rule_of_board="worst")

"""Rules of a definition: what is read, what is refused, and that they come back as they were."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankd.errors import InvalidBoard
from rankd.model.board import SCORE_MAX, Board
from rankd.model.rules import (
    GAINS_SEEN_MAX,
    GAINS_SEEN_MIN,
    RULES_MAX,
    SCORES_SEEN_MAX,
    SCORES_SEEN_MIN,
    SECONDS_BETWEEN_MAX,
    SUBMISSIONS_PER_MINUTE_MAX,
    TIMES_MAX,
    Consequence,
    Rule,
    RuleName,
)


def rules(*given: object, **definition: object) -> tuple[Rule, ...]:
    return Board.define("b", {"rules": list(given), **definition}).rules


def rule(name: str, then: str = "hold", **parameters: object) -> dict[str, object]:
    return {"rule": name, **parameters, "then": then}


def faults(*given: object, **definition: object) -> dict[str, str]:
    with pytest.raises(InvalidBoard) as caught:
        Board.define("b", {"rules": list(given), **definition})
    return dict(caught.value.errors)


@pytest.mark.parametrize(
    ("given", "decimals", "limit", "quantile", "after"),
    [
        (rule("gain_per_minute", max=5000), 0, 5000, 0, 0),
        (rule("gain_per_minute", max=12.34), 2, 1234, 0, 0),
        (rule("gain_per_minute", max=str(SCORE_MAX)), 0, SCORE_MAX, 0, 0),
        (rule("submissions_per_minute", max=60), 2, 60, 0, 0),
        (rule("seconds_between", min=2), 0, 2_000_000, 0, 0),
        (rule("seconds_between", min=0.25), 0, 250_000, 0, 0),
        (rule("seconds_between", min="0.001"), 0, 1_000, 0, 0),
        (rule("seconds_between", min=SECONDS_BETWEEN_MAX), 0, 86_400_000_000, 0, 0),
        (rule("first_score", max=-3), 0, -3, 0, 0),
        (rule("first_score", max="0.5"), 1, 5, 0, 0),
        (rule("outlier_self", times=8), 0, 8_000, 0, GAINS_SEEN_MIN),
        (rule("outlier_self", times=1.001, after=20), 2, 1_001, 0, 20),
        (rule("outlier_field"), 0, 2_000, 9_900, SCORES_SEEN_MIN),
        (rule("outlier_field", quantile=0.5, times=1, after=1), 0, 1_000, 5_000, 1),
        (rule("outlier_field", quantile="0.9999", times=2.5), 3, 2_500, 9_999, 100),
        (rule("per_second_of_run", max=1.5), 1, 15, 0, 0),
    ],
)
def test_a_rule_is_read_in_whole_numbers(
    given: dict[str, object], decimals: int, limit: int, quantile: int, after: int
) -> None:
    (read,) = rules(given, decimals=decimals)
    expected = Rule(RuleName(str(given["rule"])), Consequence.HOLD, limit, quantile, after)
    assert read == expected


@pytest.mark.parametrize(
    ("given", "decimals", "shown"),
    [
        (rule("gain_per_minute", max=5000), 0, {"max": 5000}),
        (rule("gain_per_minute", max=12.3), 2, {"max": "12.30"}),
        (rule("submissions_per_minute", max=60), 2, {"max": 60}),
        (rule("seconds_between", min=0.25), 0, {"min": 0.25}),
        (rule("seconds_between", min="3.000"), 0, {"min": 3}),
        (rule("first_score", max=0), 0, {"max": 0}),
        (rule("outlier_self", times=2.5), 0, {"times": 2.5, "after": 8}),
        (rule("outlier_field"), 2, {"quantile": 0.99, "times": 2, "after": 100}),
        (rule("per_second_of_run", max=7), 0, {"max": 7}),
    ],
)
def test_a_canonical_rule_writes_every_default_out(
    given: dict[str, object], decimals: int, shown: dict[str, object]
) -> None:
    definition = Board.define("b", {"rules": [given], "decimals": decimals}).definition()
    assert definition["rules"] == [{"rule": given["rule"], **shown, "then": "hold"}]


@pytest.mark.parametrize(
    ("given", "field", "accepted"),
    [
        (5, "rules[0]", "object"),
        ({}, "rules[0].rule", "gain_per_minute, submissions_per_minute"),
        (rule("aimbot", max=1), "rules[0].rule", "outlier_self, outlier_field"),
        (rule("attempts", max=1), "rules[0].rule", "must be one of"),
        ({"rule": "first_score", "max": 1}, "rules[0].then", "flag, hold, refuse"),
        (rule("first_score", "ban", max=1), "rules[0].then", "flag, hold, refuse"),
        (rule("gain_per_minute"), "rules[0].max", "given"),
        (rule("gain_per_minute", max=None), "rules[0].max", "given"),
        (rule("gain_per_minute", max=0), "rules[0].max", "more than 0"),
        (rule("gain_per_minute", max=0.5), "rules[0].max", "no decimals"),
        (rule("gain_per_minute", max=2**63), "rules[0].max", "larger"),
        (rule("gain_per_minute", max=1, min=1), "rules[0].min", "known are rule, max, then"),
        (rule("submissions_per_minute"), "rules[0].max", "given"),
        (rule("submissions_per_minute", max=0), "rules[0].max", "1 to 1000000"),
        (rule("submissions_per_minute", max=1.5), "rules[0].max", "whole number"),
        (
            rule("submissions_per_minute", max=SUBMISSIONS_PER_MINUTE_MAX + 1),
            "rules[0].max",
            "1 to 1000000",
        ),
        (rule("seconds_between"), "rules[0].min", "given"),
        (rule("seconds_between", min=0), "rules[0].min", "0.001 to 86400"),
        (rule("seconds_between", min=0.0001), "rules[0].min", "3 digits"),
        (rule("seconds_between", min=SECONDS_BETWEEN_MAX + 1), "rules[0].min", "to 86400"),
        (rule("seconds_between", min="soon"), "rules[0].min", "digits"),
        (rule("first_score"), "rules[0].max", "given"),
        (rule("first_score", max="x"), "rules[0].max", "digits"),
        (rule("outlier_self"), "rules[0].times", "given"),
        (rule("outlier_self", times=1), "rules[0].times", "1.001 to 1000000"),
        (rule("outlier_self", times=TIMES_MAX + 1), "rules[0].times", "1.001 to 1000000"),
        (rule("outlier_self", times=2, after=0), "rules[0].after", "1 to 1000"),
        (rule("outlier_self", times=2, after=GAINS_SEEN_MAX + 1), "rules[0].after", "1 to 1000"),
        (rule("outlier_field", times=0.9), "rules[0].times", "1 to 1000000"),
        (rule("outlier_field", quantile=0.4), "rules[0].quantile", "0.5 to 0.9999"),
        (rule("outlier_field", quantile=1), "rules[0].quantile", "0.5 to 0.9999"),
        (rule("outlier_field", quantile=0.99999), "rules[0].quantile", "4 digits"),
        (rule("outlier_field", quantile=True), "rules[0].quantile", "number"),
        (rule("outlier_field", after=SCORES_SEEN_MAX + 1), "rules[0].after", "1 to 1000000"),
        (rule("per_second_of_run", max=-1), "rules[0].max", "more than 0"),
    ],
)
def test_a_refusal_says_which_parameter_and_what_it_accepts(
    given: object, field: str, accepted: str
) -> None:
    wrong = faults(given)
    assert field in wrong
    assert accepted in wrong[field]
    assert set(wrong) <= {field, "rules[0].then"}


def test_every_wrong_rule_is_named_at_once() -> None:
    wrong = faults(rule("first_score"), rule("gain_per_minute", "x", max=-1, level=3), "no")
    assert sorted(wrong) == [
        "rules[0].max",
        "rules[1].level",
        "rules[1].max",
        "rules[1].then",
        "rules[2]",
    ]


def test_a_rule_may_be_there_once_for_each_consequence() -> None:
    given = [rule("gain_per_minute", then, max=5) for then in ("flag", "hold", "refuse")]
    assert len(rules(*given)) == 3
    wrong = faults(*given, rule("gain_per_minute", "hold", max=6))
    assert wrong == {"rules[3]": "is there twice with then hold"}


def test_a_limit_and_a_rule_do_not_say_the_same_twice() -> None:
    limits = {"gain_per_minute_max": 5}
    wrong = faults(rule("gain_per_minute", "refuse", max=5), limits=limits)
    assert "limits.gain_per_minute_max" in wrong["rules[0]"]
    board = Board.define("b", {"rules": [rule("gain_per_minute", max=3)], "limits": limits})
    assert [(one.then, one.limit) for one in board.rules_in_force] == [("hold", 3), ("refuse", 5)]


def test_there_are_at_most_so_many_rules() -> None:
    thens = ("flag", "hold", "refuse")
    names: list[tuple[str, dict[str, object]]] = [
        ("gain_per_minute", {"max": 1}),
        ("submissions_per_minute", {"max": 1}),
        ("seconds_between", {"min": 1}),
        ("first_score", {"max": 1}),
        ("outlier_self", {"times": 2}),
        ("outlier_field", {}),
    ]
    many = [rule(name, then, **parameters) for name, parameters in names for then in thens]
    assert len(rules(*many[:RULES_MAX])) == RULES_MAX
    assert faults(*many[: RULES_MAX + 1]) == {"rules": "must be a list of 0 to 16"}


def test_a_score_per_second_is_for_boards_where_more_is_better() -> None:
    given = rule("per_second_of_run", max=5)
    assert "where higher wins" in faults(given, direction="lower")["rules[0]"]
    assert len(rules(given, direction="lower", rule="sum")) == 1


def test_no_rules_are_the_default() -> None:
    assert rules() == Board.define("b", {"rules": None}).rules == ()


PARAMETERS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "gain_per_minute": {"max": st.integers(1, 10**9)},
    "submissions_per_minute": {"max": st.integers(1, SUBMISSIONS_PER_MINUTE_MAX)},
    "seconds_between": {"min": st.integers(1, 86_400_000).map(lambda ms: ms / 1000)},
    "first_score": {"max": st.integers(-(10**9), 10**9)},
    "outlier_self": {"times": st.integers(1_001, 10**9).map(lambda times: times / 1000)},
    "outlier_field": {"quantile": st.integers(5_000, 9_999).map(lambda part: part / 10_000)},
    "per_second_of_run": {"max": st.integers(1, 10**9)},
}


@given(st.data(), st.integers(0, 9))
def test_rules_come_back_as_they_were(data: st.DataObject, decimals: int) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(PARAMETERS)), max_size=7, unique=True))
    drawn = [
        rule(name, **{key: data.draw(value) for key, value in PARAMETERS[name].items()})
        for name in names
    ]
    board = Board.define("b", {"rules": drawn, "decimals": decimals})
    again = Board.define("b", board.definition())
    assert again == board
    assert again.definition() == board.definition()

"""The bands of a definition: what is accepted, and how they are written back."""

from decimal import Decimal
from typing import Any

import pytest

from rankd.errors import InvalidBoard
from rankd.model.board import Board
from rankd.model.certificate import definition_digest
from rankd.model.json_values import JSON_DEPTH_MAX
from rankd.model.redefinition import refolded
from rankd.model.rewards import (
    BANDS_BYTES_MAX,
    GIVE_BYTES_MAX,
    REWARD_BANDS_MAX,
    REWARDS_MAX,
    RewardBand,
    show_amount,
)


def bands(*given: Any, **more: Any) -> tuple[RewardBand, ...]:
    return Board.define("b", {"rewards": list(given), **more}).rewards


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"ranks": [1, 1], "give": {"b": 1, "a": [True, None]}}, None),
        ({"top_percent": 1, "give": "x"}, None),
        ({"top_percent": 0.5, "give": 0}, None),
        ({"top_percent": "12.50", "give": 1}, {"top_percent": 12.5, "give": 1}),
        ({"ranks": [2, 10], "amount": "100.00", "share": True}, None),
        ({"ranks": [1, 1], "amount": 100}, {"ranks": [1, 1], "amount": "100"}),
        ({"ranks": [1, 1], "amount": 100.0}, {"ranks": [1, 1], "amount": "100"}),
        ({"ranks": [1, 1], "amount": 0.25}, {"ranks": [1, 1], "amount": "0.25"}),
        ({"ranks": [1, 1], "amount": Decimal("1.50")}, {"ranks": [1, 1], "amount": "1.50"}),
        ({"ranks": (1, REWARDS_MAX), "give": 1}, {"ranks": [1, REWARDS_MAX], "give": 1}),
        ({"ranks": [1, 1], "give": 1, "window": "daily"}, None),
        (
            {"ranks": [1, 1], "top_percent": None, "give": 1, "share": False, "window": None},
            {"ranks": [1, 1], "give": 1},
        ),
    ],
)
def test_a_band_is_read_back_as_it_is_written(
    given: dict[str, Any], shown: dict[str, Any] | None
) -> None:
    board = Board.define("b", {"windows": ["all", "daily"], "rewards": [given]})
    assert board.definition()["rewards"] == [given if shown is None else shown]
    assert Board.define("b", board.definition()) == board


ONE = {"ranks": [1, 1], "give": 1}


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ("x", "rewards"),
        ([ONE] * (REWARD_BANDS_MAX + 1), "rewards"),
        ([{**ONE, "give": "x" * 2000}] * 9, "rewards"),
        (["x"], "rewards[0]"),
        ([{"give": 1}], "rewards[0]"),
        ([{**ONE, "top_percent": 1}], "rewards[0]"),
        ([{"ranks": [1, 1]}], "rewards[0]"),
        ([{**ONE, "prize": 1}], "rewards[0].prize"),
        *(
            [[{**ONE, "ranks": ranks}], "rewards[0].ranks"]
            for ranks in (
                1,
                "1-2",
                [1],
                [0, 1],
                [2, 1],
                [1, REWARDS_MAX + 1],
                [1, 2, 3],
                [True, 1],
                [1.0, 2],
            )
        ),
        *(
            [[{"top_percent": percent, "give": 1}], "rewards[0].top_percent"]
            for percent in (
                0,
                -1,
                100.5,
                "x",
                True,
                "0.0000001",
                float("nan"),
                float("inf"),
                [1],
                "1e1",
                10**40,
            )
        ),
        *(
            [[{"ranks": [1, 1], "amount": amount}], "rewards[0].amount"]
            for amount in (
                0,
                -1,
                "x",
                "",
                True,
                "1.0000000001",
                float("nan"),
                2**63,
                "9" * 40,
                "1e400",
                "+1",
                Decimal("1e999999"),
                Decimal("NaN"),
                "\u0661",
            )
        ),
        ([{**ONE, "give": "x" * GIVE_BYTES_MAX}], "rewards[0].give"),
        ([{**ONE, "give": {1, 2}}], "rewards[0].give"),
        ([{**ONE, "give": 2**64}], "rewards[0].give"),
        ([{**ONE, "share": 1}], "rewards[0].share"),
        ([{**ONE, "share": True}], "rewards[0].share"),
        ([{**ONE, "window": "weekly"}], "rewards[0].window"),
        ([{**ONE, "window": ["all"]}], "rewards[0].window"),
    ],
)
def test_a_wrong_band_is_named(given: Any, field: str) -> None:
    with pytest.raises(InvalidBoard) as caught:
        Board.define("b", {"rewards": given})
    assert field in [error.field for error in caught.value.errors]


def test_every_limit_is_the_last_that_is_taken() -> None:
    assert len(bands(*[ONE] * REWARD_BANDS_MAX)) == REWARD_BANDS_MAX
    longest = {**ONE, "give": "x" * (GIVE_BYTES_MAX - 2)}
    assert bands(*[longest] * (BANDS_BYTES_MAX // GIVE_BYTES_MAX))
    deep: Any = 1
    for _ in range(JSON_DEPTH_MAX - 1):
        deep = [deep]
    assert bands({**ONE, "give": deep})


@pytest.mark.parametrize(
    ("percent", "total", "last"), [(1, 50, 1), (1, 100, 1), (1, 101, 2), (0.1, 10**7, 10**4)]
)
def test_the_best_percent_are_those_above_the_rest(percent: Any, total: int, last: int) -> None:
    (band,) = bands({"top_percent": percent, "give": 1})
    assert band.last_rank(total) == last


def test_other_rewards_fold_nothing_again_and_none_leave_the_digest_as_it_was() -> None:
    without, some = Board.define("b", {}), Board.define("b", {"rewards": [ONE]})
    assert not refolded(without, some)
    assert definition_digest(without) != definition_digest(some)


def test_an_amount_has_all_of_its_digits() -> None:
    assert [show_amount(1, 2), show_amount(2**63 - 1, 9)] == ["0.01", "9223372036.854775807"]

"""The player that overtook another, found by going back through the moves."""

import pytest

from rankd.core.changes import JudgedMove
from rankd.core.overtakers import _last_passer
from rankd.model.facts import Position

NEWEST_FIRST = (
    ("d", 2, 1),  # Drops by one rank, ahead of all of this.
    ("c", 1, 2),  # Rises, and was ahead already.
    ("b", 3, 9),  # Passes rank 4, which becomes 5.
    ("a", 2, None),  # Comes in, and passes rank 3, which becomes 4.
)
MOVES = [
    JudgedMove(Position(10 - number), player, rank, before)
    for number, (player, rank, before) in enumerate(NEWEST_FIRST)
]


@pytest.mark.parametrize(
    ("rank", "ahead", "since", "by"),
    [
        (5, {"a", "b", "c", "d"}, 0, "b"),
        (5, {"a", "c", "d"}, 0, "a"),  # The newer one is of another segment.
        (5, {"c", "d"}, 0, None),
        (5, {"a", "b", "c", "d"}, 8, None),  # It was looked up after both.
        (5, {"a"}, 7, None),
        (3, {"a", "c", "d"}, 0, "a"),  # It came in ahead of the third.
    ],
)
def test_the_newest_passer_is_found_and_nobody_that_was_ahead_already(
    rank: int, ahead: set[str], since: int, by: str | None
) -> None:
    assert _last_passer(MOVES, rank, Position(since), ahead, shared=False) == by


def test_a_rank_that_fell_behind_again_has_not_passed() -> None:
    moves = [JudgedMove(Position(2), "x", 6, 2), JudgedMove(Position(1), "y", 3, 8)]
    # Before "x" dropped the fourth was fifth; "y" had passed it as the fourth.
    assert _last_passer(moves, 4, Position(0), {"y"}, shared=False) == "y"
    assert _last_passer(moves, 4, Position(0), {"x"}, shared=False) is None

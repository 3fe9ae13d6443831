"""The bytes of an order key, pinned: every index and every archive holds them."""

import struct

import pytest

from rankd.model.board import Board, Direction, TieBreak
from rankd.model.facts import Position
from rankd.model.order import POSITION_MAX, Order, score_part

HIGHER, LOWER = Direction.HIGHER, Direction.LOWER
P = Position


@pytest.mark.parametrize(
    ("directions", "tie_break", "scores", "position", "expected"),
    [
        ((HIGHER,), TieBreak.FIRST, (0,), 1, "7fffffffffffffff 0000000000000001"),
        ((HIGHER,), TieBreak.FIRST, (2**63 - 1,), 2, "0000000000000000 0000000000000002"),
        ((HIGHER,), TieBreak.FIRST, (-(2**63),), 3, "ffffffffffffffff 0000000000000003"),
        ((LOWER,), TieBreak.FIRST, (0,), 1, "8000000000000000 0000000000000001"),
        ((LOWER,), TieBreak.FIRST, (-(2**63),), 1, "0000000000000000 0000000000000001"),
        ((HIGHER,), TieBreak.LATEST, (0,), 1, "7fffffffffffffff fffffffffffffffe"),
        ((HIGHER,), TieBreak.LATEST, (0,), POSITION_MAX, "7fffffffffffffff 0000000000000000"),
        ((HIGHER,), TieBreak.PLAYER, (0,), 7, "7fffffffffffffff 0000000000000000"),
        (
            (HIGHER, LOWER),
            TieBreak.FIRST,
            (1, -1),
            5,
            "7ffffffffffffffe 7fffffffffffffff 0000000000000005",
        ),
        (
            (LOWER, HIGHER),
            TieBreak.LATEST,
            (1, -1),
            5,
            "8000000000000001 8000000000000000 fffffffffffffffa",
        ),
        (
            (HIGHER, LOWER),
            TieBreak.PLAYER,
            (0, 0),
            5,
            "7fffffffffffffff 8000000000000000 0000000000000000",
        ),
    ],
)
def test_these_are_the_bytes_for_ever(
    directions: tuple[Direction, ...],
    tie_break: TieBreak,
    scores: tuple[int, ...],
    position: int,
    expected: str,
) -> None:
    key = Order(directions, tie_break).key(scores, P(position))
    assert key == bytes.fromhex(expected)


@pytest.mark.parametrize(("columns", "key_bytes"), [(1, 16), (2, 24), (3, 32), (4, 40)])
def test_a_key_is_eight_bytes_a_column_and_eight_more(columns: int, key_bytes: int) -> None:
    order = Order((HIGHER,) * columns, TieBreak.FIRST)
    assert order.key_bytes == key_bytes == len(order.key((0,) * columns, P(1)))


def test_where_the_player_decides_a_key_holds_no_position() -> None:
    order = Order((HIGHER,), TieBreak.PLAYER)
    assert order.position(order.key((4500,), P(9))) is None


def test_tied_entries_have_their_score_part_in_common() -> None:
    order = Order((HIGHER,), TieBreak.FIRST)
    assert score_part(order.key((7,), P(1))) == score_part(order.key((7,), P(2)))
    assert score_part(order.key((7,), P(1))) != score_part(order.key((8,), P(1)))


def test_boards_that_order_alike_share_one_order() -> None:
    one = Board.define("one", {"tie_break": "latest"})
    two = Board.define("two", {"tie_break": "latest", "rule": "sum"})
    assert Order.of(one) is Order.of(two)
    assert Order.of(one) == Order((HIGHER,), TieBreak.LATEST)
    assert Order.of(one) != Order.of(Board.define("three", {}))


@pytest.mark.parametrize("directions", [(HIGHER,), (HIGHER, LOWER)])
def test_no_fact_stands_at_position_zero(directions: tuple[Direction, ...]) -> None:
    with pytest.raises(AssertionError):
        Order(directions, TieBreak.PLAYER).key((0,) * len(directions), P(0))


@pytest.mark.parametrize("directions", [(HIGHER,), (LOWER,), (HIGHER, LOWER)])
@pytest.mark.parametrize("score", [2**63, -(2**63) - 1])
def test_what_does_not_fit_is_never_wrapped_around(
    directions: tuple[Direction, ...], score: int
) -> None:
    with pytest.raises(struct.error):
        Order(directions, TieBreak.FIRST).key((score,) + (0,) * (len(directions) - 1), P(1))


@pytest.mark.parametrize("scores", [(), (1, 2)])
def test_an_order_takes_as_many_scores_as_it_has_columns(scores: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="values to unpack"):
        Order((HIGHER,), TieBreak.FIRST).key(scores, P(1))


@pytest.mark.parametrize("tie_break", TieBreak)
@pytest.mark.parametrize("directions", [(HIGHER,), (LOWER,), (HIGHER, LOWER), (LOWER,) * 4])
def test_keys_that_lie_end_to_end_are_parted_and_read(
    directions: tuple[Direction, ...], tie_break: TieBreak
) -> None:
    order = Order(directions, tie_break)
    scores = [(score,) * len(directions) for score in (-(2**63), -1, 0, 7, 2**63 - 1)]
    keys = [order.key(each, P(place)) for place, each in enumerate(scores, start=1)]
    assert order.parted(b"".join(keys)) == keys
    assert order.scores_of(b"".join(keys)) == scores
    assert not order.parted(b"")
    assert not order.scores_of(b"")

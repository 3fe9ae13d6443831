"""Comparing the bytes of two keys is comparing the entries.

Method: random orders and entries, many of them equal in their leading columns, with the extreme
scores among them, because that is where sign and width mistakes live; the model compares tuples
of plain integers.
"""

from hypothesis import given
from hypothesis import strategies as st

from rankd.model.board import Direction, TieBreak
from rankd.model.facts import Position
from rankd.model.order import POSITION_MAX, Order, score_part

SCORE = (
    st.integers(-2, 2)
    | st.sampled_from([-(2**63), 2**63 - 1, 2**53, 2**53 + 1, -(2**53) - 1])
    | st.integers(-(2**63), 2**63 - 1)
)
POSITION = (st.integers(1, 3) | st.just(POSITION_MAX) | st.integers(1, POSITION_MAX)).map(Position)
ORDERS = st.builds(
    Order,
    st.lists(st.sampled_from(Direction), min_size=1, max_size=4).map(tuple),
    st.sampled_from(TieBreak),
)


@st.composite
def orders_with(
    draw: st.DrawFn, entries: int
) -> tuple[Order, list[tuple[tuple[int, ...], Position]]]:
    order = draw(ORDERS)
    scores = st.tuples(*[SCORE] * len(order.directions))
    return order, [(draw(scores), draw(POSITION)) for _ in range(entries)]


def meaning(order: Order, scores: tuple[int, ...], position: int) -> tuple[int, ...]:
    """What a key stands for, as numbers of which the smaller tuple is better."""
    columns = zip(order.directions, scores, strict=True)
    tie = {TieBreak.FIRST: position, TieBreak.LATEST: -position, TieBreak.PLAYER: 0}
    return (
        *(-score if direction is Direction.HIGHER else score for direction, score in columns),
        tie[order.tie_break],
    )


@given(orders_with(entries=2))
def test_the_order_of_bytes_is_the_order_of_entries(
    case: tuple[Order, list[tuple[tuple[int, ...], Position]]],
) -> None:
    order, (one, two) = case
    ours, theirs = order.key(*one), order.key(*two)
    assert (ours < theirs) == (meaning(order, *one) < meaning(order, *two))
    assert (ours == theirs) == (meaning(order, *one) == meaning(order, *two))


@given(orders_with(entries=1))
def test_a_key_gives_back_what_it_was_made_from(
    case: tuple[Order, list[tuple[tuple[int, ...], Position]]],
) -> None:
    order, [(scores, position)] = case
    key = order.key(scores, position)
    assert len(key) == order.key_bytes
    assert order.scores(key) == scores
    assert order.position(key) == (None if order.tie_break is TieBreak.PLAYER else position)


@given(orders_with(entries=2))
def test_floor_and_ceiling_part_the_better_from_the_equal_from_the_worse(
    case: tuple[Order, list[tuple[tuple[int, ...], Position]]],
) -> None:
    order, [(scores, _), (others, position)] = case
    key = order.key(others, position)
    better = meaning(order, others, 0)[:-1] < meaning(order, scores, 0)[:-1]
    worse = meaning(order, others, 0)[:-1] > meaning(order, scores, 0)[:-1]
    assert (key < order.floor(scores)) == better
    assert (key > order.ceiling(scores)) == worse
    assert (score_part(key) == score_part(order.floor(scores))) == (scores == others)


@given(orders_with(entries=3))
def test_the_scores_of_many_keys_are_those_of_each(
    case: tuple[Order, list[tuple[tuple[int, ...], Position]]],
) -> None:
    order, entries = case
    keys = [order.key(*entry) for entry in entries]
    assert order.parted(b"".join(keys)) == keys
    assert order.scores_of(b"".join(keys)) == [scores for scores, _ in entries]

"""Entrants: on which boards a player may have an entry, and no longer than a board lives."""

import pytest

from rankd.core import player_boards
from rankd.core.player_boards import SEARCHED_MAX, PlayerBoards
from rankd.model.facts import Position

MANY = [Position(number) for number in range(1, 2 * SEARCHED_MAX)]


def entered(player: str, boards: list[Position]) -> PlayerBoards:
    known = PlayerBoards()
    for board in boards * 2:
        known.add(player, board)
    return known


@pytest.mark.parametrize("count", [0, 1, 2, SEARCHED_MAX, SEARCHED_MAX + 1, len(MANY)])
def test_boards_of_a_player_are_noted_once_however_many(count: int) -> None:
    known = entered("ann", MANY[:count])
    assert sorted(known.boards_of("ann")) == MANY[:count]
    assert len(known) == (count > 0)


def test_copy_keeps_the_moment() -> None:
    known = entered("ann", MANY[:1])
    before = known.copy()
    known.add("ann", MANY[1])
    known.add("bob", MANY[0])
    assert dict(before) == {"ann": (1,)}


def test_update_leaves_retired_boards_out() -> None:
    known = PlayerBoards()
    known.update(
        [("ann", (Position(1), Position(2))), ("bob", (Position(1),))], living={Position(2)}
    )
    assert dict(known) == {"ann": (2,)}


def test_sweep_forgets_retired_boards_some_players_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(player_boards, "SWEPT_TOGETHER", 2)
    known = PlayerBoards()
    for player in ("ann", "bob", "cyd", "dee"):
        known.add(player, Position(1))
    known.add("ann", Position(2))
    assert not known.unswept
    known.retire(Position(1))
    known.sweep({Position(2)})
    assert (len(known), not known.unswept) == (2, False)
    known.add("cyd", Position(2))  # Whoever enters meanwhile is not forgotten.
    while known.unswept:
        known.sweep({Position(2)})
    assert set(dict(known)) >= {"ann"}
    assert all(boards == (2,) for _, boards in known)


def test_sweep_begins_again_for_a_board_retired_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(player_boards, "SWEPT_TOGETHER", 1)
    known, living = PlayerBoards(), {Position(1), Position(2)}
    for player in ("ann", "bob"):
        known.add(player, Position(1))
        known.add(player, Position(2))
    for retired in (Position(1), Position(2)):
        living.remove(retired)
        known.retire(retired)
        known.sweep(living)
    while known.unswept:
        known.sweep(living)
    assert not len(known)


def test_sweep_keeps_a_board_whose_retirement_was_taken_back() -> None:
    known = entered("ann", MANY[:2])
    known.retire(MANY[0])
    known.sweep(set(MANY))
    assert dict(known) == {"ann": (1, 2)}

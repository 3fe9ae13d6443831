"""What an apply is known by: nodes that make the same one must agree on it."""

from dataclasses import replace

import pytest

from rankd.adapters.redis import writes
from rankd.adapters.redis.writes import ApplyRequest
from rankd.ports import Move, Ranking, RankingShape

ALL, EU = Ranking("b", "all"), Ranking("b", "all", "region:eu")
YESTERDAY = Ranking("b", "daily:2026-11-14")
WORK = ApplyRequest(
    moves=[Move(ALL, "ann", bytes(16)), Move(EU, "ann", bytes(16)), Move(ALL, "bob", None)],
    opened={EU: RankingShape(16, dense=False)},
    dropped=[YESTERDAY],
    adopted={},
)


def test_a_node_of_another_version_knows_an_apply_by_the_same_mark() -> None:
    """What one of them began, the other must be able to end."""
    assert WORK.mark() == "d4bd59feafe9918a"


def test_what_does_something_else_has_another_mark() -> None:
    others = [
        replace(WORK, moves=WORK.moves[:2]),
        replace(WORK, moves=[*WORK.moves[:2], Move(EU, "bob", None)]),
        replace(WORK, opened={ALL: RankingShape(16, dense=False)}),
        replace(WORK, dropped=[ALL]),
        replace(WORK, adopted={YESTERDAY: ALL}),
    ]
    assert len({WORK.mark(), *(other.mark() for other in others)}) == 6


@pytest.mark.parametrize("before", range(6))
def test_an_entry_that_comes_and_leaves_does_so_within_a_piece(
    before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writes, "MOVES_TOGETHER_MAX", 4)
    others = [Move(ALL, f"p{number}", bytes([number + 9]) * 16) for number in range(9)]
    visit = [Move(ALL, "eve", one) for one in (bytes(16), bytes([1]) * 16, None)]
    moves = [*others[:before], *visit, *others[before:]]
    pieces = list(writes._cut(moves))
    assert [move for piece in pieces for move in piece] == moves
    assert all(4 <= len(piece) <= 6 for piece in pieces[:-1])
    (whole,) = [piece for piece in pieces if visit[-1] in piece]
    assert set(visit) <= set(whole)


def test_an_apply_without_moves_is_one_piece() -> None:
    assert list(writes._cut([])) == [[]]

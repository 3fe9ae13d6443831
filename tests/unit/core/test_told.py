"""Told: a row of columns says what a receipt says, and as a mapping behaves like one."""

from array import array

import pytest
from tests.unit.core.doubles import FaultyLedger, bare, bare_in_moves, engine

from rankd.core.book import Open, Terms
from rankd.core.told import ReceiptsOf, Told
from rankd.model.board import Board
from rankd.model.facts import Position
from rankd.model.receipt import Receipt
from rankd.model.window import Window
from rankd.ports import OUT_OF_BOUNDS, Ranking, Run, Verdicts

BOUNDED = {"rule": "sum", "windows": ["all", "daily"], "limits": {"score_max": 10}}


async def receipts(build: object) -> list[Receipt]:
    async with engine(FaultyLedger(), build=build) as rankd:  # type: ignore[arg-type]
        await rankd.define("b", BOUNDED)
        items = [
            {"player": "p", "score": 4},
            {"player": "q", "score": 5},
            {"player": "p", "score": 4},
            {"player": "p", "score": 4},
            {"player": "r", "score": 11},
        ]
        answers = [answer for item in items for answer in await rankd.submit("b", [item])]
        return [answer.receipt for answer in answers if answer.receipt is not None]


@pytest.mark.anyio
async def test_a_receipt_of_columns_says_what_one_of_moves_says() -> None:
    in_place, in_moves = await receipts(bare), await receipts(bare_in_moves)
    assert len(in_place) == 5
    for one, other in zip(in_place, in_moves, strict=True):
        assert (one, one.encode()) == (other, other.encode())
        assert dict(one.windows) == dict(other.windows)
        assert (len(one.windows), list(one.windows)) == (2, ["all", "daily"])
        assert one.rejected == other.rejected == (one.verdict == "rejected")
        assert Receipt.decode(one.encode()) == one
    assert [one.rank for one in in_place] == [1, 1, 1, 1, None]
    assert in_place[3].verdict == "rejected"
    assert in_place[3].score == 8


@pytest.mark.anyio
async def test_a_receipt_of_columns_is_printed_like_one_of_moves() -> None:
    in_place, in_moves = await receipts(bare), await receipts(bare_in_moves)
    assert list(map(repr, in_place)) == list(map(repr, in_moves))
    assert repr(in_place[2].windows) == repr(dict(in_place[2].windows))
    assert "score=8, previous_score=4, rank=1, previous_rank=2" in repr(in_place[2])


@pytest.mark.anyio
async def test_a_window_that_a_receipt_does_not_tell_of_is_not_in_it() -> None:
    (first, *_) = await receipts(bare)
    with pytest.raises(KeyError):
        first.windows["weekly"]
    assert "weekly" not in first.windows


class TestReceiptsOf:
    """Receipts of a run, found by their positions though they are made only when asked for."""

    @staticmethod
    def receipts(positions: list[int]) -> ReceiptsOf:
        board = Board.define("b", {})
        players = [f"p{position}" for position in positions]
        many = len(positions)
        ones, scores = array("I", [1] * many), array("q", [5] * many)
        run = Run(board, [], players, scores, None, array("Q", positions), None)
        opened = Open(Window("all", "all", 0, None), Ranking("b", "all"), Terms(board))
        verdicts = bytes([0] * (many - 1) + [OUT_OF_BOUNDS])
        told = Verdicts(verdicts, scores, scores, ones, ones, ones)
        return ReceiptsOf(Told({"all": opened}, run, [told]))

    @pytest.mark.parametrize("positions", [[7], [7, 8, 9], [3, 4, 9, 11], [1, 5, 6, 7, 90]])
    def test_each_is_found_at_its_position_and_nowhere_else(self, positions: list[int]) -> None:
        receipts = self.receipts(positions)
        assert (list(receipts), len(receipts)) == (positions, len(positions))
        for position in range(100):
            found = receipts.get(Position(position))
            if position not in positions:
                assert found is None and position not in receipts
                continue
            assert found is not None
            assert (found.position, found.player) == (position, f"p{position}")
            assert found.rejected is (position == positions[-1])

"""Told: a row of columns says what a receipt says, and as a mapping behaves like one."""

from array import array
from itertools import product

import pytest
from tests.unit.core.doubles import FaultyLedger, bare, bare_in_moves, engine

from rankd.core.board_state import OpenedWindow, Terms
from rankd.core.receipts import JudgedRun, ReceiptView, RunReceipts, encoded, joined
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
@pytest.mark.parametrize(
    "definition",
    [
        BOUNDED,
        {"rule": "best", "decimals": 2, "windows": ["all"], "direction": "lower"},
        {"rule": "latest", "columns": [{"name": "a"}, {"name": "b", "direction": "lower"}]},
    ],
)
async def test_what_is_kept_of_columns_says_what_is_kept_of_objects(
    definition: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of what is rejected, of who is new, and past the rows that are written at once."""
    monkeypatch.setattr("rankd.core.receipts.ENCODED_TOGETHER", 4)
    others = {"b": 2} if "columns" in definition else None
    items = [
        {"player": player, "score": score, "columns": others}
        for player, score in [("p", 4), ('"ü\\', -5), ("p", 4), ("p", 9), ("r", 11), ("p", 3)] * 3
    ]
    async with engine(FaultyLedger(), build=bare) as rankd:
        await rankd.define("b", definition)
        told = [answer.receipt for answer in await rankd.submit("b", items)]
        receipts = {receipt.position: receipt for receipt in told if receipt is not None}
    assert len(receipts) == len(items)
    assert {type(receipt.windows) for receipt in receipts.values()} == {ReceiptView}
    sources = [one.windows.source[0] for one in receipts.values()]  # type: ignore[attr-defined]
    (columns,) = {id(source): source for source in sources}.values()
    every = list(receipts)
    for mapping, some in product((receipts, RunReceipts(columns)), (every[3:15:2], every)):
        kept = encoded(mapping, some)
        assert list(kept) == some
        for position, body in kept.items():
            one = receipts[position]
            assert Receipt.decode(body) == Receipt.decode(one.encode()) == one
            assert Receipt.decode(body).rejected == one.rejected
    assert encoded(receipts, []) == {}


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
    def receipts(positions: list[int]) -> RunReceipts:
        board = Board.define("b", {})
        players = [f"p{position}" for position in positions]
        many = len(positions)
        ones, scores = array("I", [1] * many), array("q", [5] * many)
        run = Run(board, [], players, scores, None, array("Q", positions), None)
        opened = OpenedWindow(Window("all", "all", 0, None), Ranking("b", "all"), Terms(board))
        verdicts = bytes([0] * (many - 1) + [OUT_OF_BOUNDS])
        told = Verdicts(verdicts, scores, scores, ones, ones, ones)
        return RunReceipts(JudgedRun({"all": opened}, run, [told]))

    @pytest.mark.parametrize("positions", [[7], [7, 8, 9], [3, 4, 9, 11], [1, 5, 6, 7, 90]])
    def test_each_is_found_at_its_position_and_nowhere_else(self, positions: list[int]) -> None:
        receipts = self.receipts(positions)
        assert (list(receipts), len(receipts)) == (positions, len(positions))
        for position in range(100):
            found = receipts.get(Position(position))
            if position not in positions:
                assert found is None and position not in receipts
                continue
            assert found is not None and position in receipts
            assert (found.position, found.player) == (position, f"p{position}")
            assert found.rejected is (position == positions[-1])

    def test_those_of_several_runs_are_found_as_one(self) -> None:
        some, others = self.receipts([3, 9]), self.receipts([4, 11])
        whole = joined([{}, some, others])
        assert (sorted(whole), len(whole)) == ([3, 4, 9, 11], 4)
        assert whole[Position(4)].player == "p4"
        assert whole.get(Position(5)) is None
        assert joined([{}, some]) is some
        assert joined([]) == {}

"""Told: a row of columns says what a receipt says, and as a mapping behaves like one."""

import pytest
from tests.unit.core.doubles import FaultyLedger, bare, bare_in_moves, engine

from rankd.model.receipt import Receipt

pytestmark = pytest.mark.anyio
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


async def test_a_window_that_a_receipt_does_not_tell_of_is_not_in_it() -> None:
    (first, *_) = await receipts(bare)
    with pytest.raises(KeyError):
        first.windows["weekly"]
    assert "weekly" not in first.windows

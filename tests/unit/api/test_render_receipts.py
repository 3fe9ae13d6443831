"""What submissions did, as the wire shows it: straight from columns, or put together, the same."""

from array import array
from collections.abc import Sequence
from decimal import Decimal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankd.api import render
from rankd.core.board_state import BoardState, OpenedWindow, Terms
from rankd.core.receipts import JudgedRun, ReceiptView, RunReceipts
from rankd.core.writer import WriteResult, WriteResults
from rankd.model.board import Board
from rankd.model.facts import Position
from rankd.model.receipt import InWindow, Receipt
from rankd.model.standing import Rank
from rankd.model.window import Window
from rankd.ports import NOT_BETTER, OUT_OF_BOUNDS, OVERFLOW, Ranking, Run, Verdicts
from rankd.schemas import encode

WINDOWS = (("daily", "all"), ("all",), ("daily", "weekly"), ("weekly", "daily", "all"))
COLUMNS = [{"name": f"c{number}"} for number in range(4)]
SCORE = st.integers(-2, 2) | st.sampled_from([-(2**63), 2**63 - 1])
EACH_TIME_ALIKE = settings(derandomize=True, max_examples=60)


def test_a_receipt_speaks_for_all_time_where_it_can_and_says_if_it_was_given_before() -> None:
    windows = {
        "daily": InWindow("daily:2026-11-14", "counted", (5,), None, Rank(1), None, 1),
        "all": InWindow("all", "not_better", (90,), (90,), Rank(2), Rank(2), 4),
    }
    told = render.receipt(Receipt("b", "p", Position(9), 1, windows))
    assert (told.verdict, told.score, told.previous_score) == (
        "not_better",
        Decimal("9.0"),
        Decimal("9.0"),
    )
    assert (told.rank, told.rank_change, told.total, told.percentile) == (2, 0, 4, 75.0)
    assert list(told.windows) == ["daily", "all"]
    assert told.windows["daily"].rank_change is None
    assert b"duplicate" not in encode(told)
    again = render.receipt(Receipt("b", "p", Position(9), 1, windows, duplicate=True))
    assert encode(again) == encode(told)[:-1] + b',"duplicate":true}'


def test_a_receipt_shows_every_column_where_there_are_several() -> None:
    windows = {
        "daily": InWindow("daily:2026-11-14", "rejected"),
        "all": InWindow("all", "counted", (905, -3), None, Rank(1), None, 1),
    }
    several = Receipt("b", "p", Position(9), 2, windows)
    told = render.receipt(several, board_of(2))
    assert encode(told.columns) == encode(told.windows["all"].columns) == b'{"c0":9.05,"c1":-0.03}'
    assert encode(told.windows["daily"].columns) == b'{"c0":null,"c1":null}'
    assert list(msgspec.json.decode(encode(told)))[-1] == "columns"
    one = {"all": InWindow("all", "counted", (905,), None, Rank(1), None, 1)}
    single = encode(render.receipt(Receipt("b", "p", Position(9), 2, one), board_of(1)))
    assert b"columns" not in single
    assert b"columns" not in encode(render.receipt(several)), "nobody knows what they are called"


def test_a_receipt_that_was_kept_has_the_columns_of_its_time() -> None:
    page = BoardState(board_of(2), Position(1))
    page.earlier.append((page.defined_at, page.board))
    page.adopt(Board.define("b", {"columns": [{"name": "c1"}, {"name": "c0"}]}), Position(10))
    windows = {"all": InWindow("all", "counted", (7, 60), None, Rank(1), None, 1)}
    for position, columns in ((9, {"c0": 7, "c1": 60}), (11, {"c1": 7, "c0": 60})):
        kept = Receipt("b", "p", Position(position), 0, windows, duplicate=True)
        told = msgspec.json.decode(render.as_json(kept, {"b": page}))
        assert told["columns"] == told["windows"]["all"]["columns"] == columns


# ------------------------------------------------------------------------------ columns


def board_of(width: int) -> Board:
    return Board.define("b", {"columns": COLUMNS[:width]} if width > 1 else {})


def told_of(
    names: Sequence[str],
    verdicts: Sequence[Verdicts],
    players: Sequence[str],
    *,
    width: int = 1,
    first: int = 1,
    step: int = 1,
) -> JudgedRun:
    """Put columns together as a fold does."""
    board = board_of(width)
    terms = Terms(board)
    windows = {
        name: OpenedWindow(Window(name, f"{name}:1", 0, None), Ranking("b", f"{name}:1"), terms)
        for name in names
    }
    positions = array("Q", [first + step * row for row in range(len(players))])
    scores = array("q", bytes(8 * width * len(players)))
    rankings = [opened.ranking for opened in windows.values()]
    run = Run(board, rankings, list(players), scores, None, positions, None)
    return JudgedRun(windows, run, verdicts)


@st.composite
def columns(draw: st.DrawFn, rows: int, width: int, worst: int = OVERFLOW) -> Verdicts:
    """What an index might answer of one window: any verdicts, any ranks that there can be."""

    def many(one: st.SearchStrategy[int], count: int = rows) -> list[int]:
        return draw(st.lists(one, min_size=count, max_size=count))

    totals = many(st.integers(1, 5))
    return Verdicts(
        bytes(many(st.integers(0, worst))),
        array("q", many(SCORE, rows * width)),
        array("q", many(SCORE, rows * width)),
        array("Q", [draw(st.integers(0, total)) for total in totals]),
        array("Q", many(st.integers(0, 9))),
        array("Q", totals),
    )


@st.composite
def runs(draw: st.DrawFn, worst: int = OVERFLOW, first: int = 1) -> JudgedRun:
    names = draw(st.sampled_from(WINDOWS))
    rows, width = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    verdicts = [draw(columns(rows, width, worst)) for _ in names]
    return told_of(names, verdicts, [f"p{row}" for row in range(rows)], width=width, first=first)


def put_together(receipt: Receipt) -> Receipt:
    """Return the receipt with an object for each window, which is shown in the general way."""
    return msgspec.structs.replace(receipt, windows=dict(receipt.windows))


def answers_of(*some: JudgedRun) -> list[WriteResult]:
    return [WriteResult(*item) for told in some for item in RunReceipts(told).items()]


def in_general(answers: Sequence[WriteResult]) -> list[bytes]:
    found = [answer.receipt for answer in answers if answer.receipt is not None]
    return [encode(render.receipt(put_together(one), board_told_of(one))) for one in found]


def board_told_of(receipt: Receipt) -> Board:
    assert type(receipt.windows) is ReceiptView
    told, _ = receipt.windows.source
    return told.run.board


@EACH_TIME_ALIKE
@given(runs())
def test_a_receipt_of_columns_is_shown_as_one_of_objects(told: JudgedRun) -> None:
    answers = answers_of(told)
    shown = [render.as_json(one.receipt, {}) for one in answers if one.receipt is not None]
    assert shown == in_general(answers)


def test_rows_are_shown_alike_whichever_is_asked_for_first() -> None:
    """They are shown some at a time, and the last lot is mostly not full."""
    count = 2 * render.SHOWN_TOGETHER + 3
    for row in (0, render.SHOWN_TOGETHER - 1, render.SHOWN_TOGETHER, count - 1):
        answers = answers_of(plain_run(count))
        first = answers[row].receipt
        assert first is not None
        assert render.as_json(first, {}) == in_general(answers)[row]
        shown = [render.as_json(one.receipt, {}) for one in answers if one.receipt is not None]
        assert shown == in_general(answers)


@EACH_TIME_ALIKE
@given(runs(NOT_BETTER), runs(NOT_BETTER, first=10), st.data())
def test_answers_are_shown_run_by_run_wherever_they_begin(
    one: JudgedRun, other: JudgedRun, data: st.DataObject
) -> None:
    """A request's facts may lie anywhere in the runs of a batch that it shares with others."""
    answers = answers_of(one, other)
    start = data.draw(st.integers(0, len(answers) - 1))
    end = data.draw(st.integers(start + 1, len(answers)))
    shown = render.all_as_json(answers[start:end], {})
    assert shown == b",".join(in_general(answers)[start:end])


@EACH_TIME_ALIKE
@given(runs(), st.data())
def test_answers_that_nobody_made_are_shown_as_those_that_were(
    told: JudgedRun, data: st.DataObject
) -> None:
    """Whole or in part: a request shares its commit with others."""
    receipts_of, rows = RunReceipts(told), len(told.run.players)
    lazy = WriteResults([Position(at) for at in told.run.positions], receipts_of)
    start = data.draw(st.integers(0, rows - 1))
    end = data.draw(st.integers(start + 1, rows))
    made = [WriteResult(*item) for item in receipts_of.items()][start:end]
    assert (list(lazy[start:end]), len(lazy[start:end])) == (made, end - start)
    assert render.all_as_json(lazy[start:end], {}) == render.all_as_json(made, {})
    others = WriteResults([*lazy.positions[start:end], Position(10**9)], receipts_of)
    assert others[-1].receipt is None
    assert render.all_as_json(others, {}) is None
    assert render.all_as_json(WriteResults([Position(10**9)], receipts_of), {}) is None


def plain_run(
    count: int, *, first: int = 1, step: int = 1, verdicts: bytes | None = None
) -> JudgedRun:
    ones = array("Q", [1] * count)
    scores = array("q", [5] * count)
    told = Verdicts(verdicts or bytes(count), scores, scores, ones, ones, ones)
    return told_of(("all",), [told], [f"p{row}" for row in range(count)], first=first, step=step)


def test_many_are_shown_together_only_where_each_would_be_shown_alone() -> None:
    answers = answers_of(plain_run(3))
    assert render.all_as_json(answers, {}) is not None
    assert render.all_as_json([], {}) == b""
    for place in range(3):
        for other in (
            msgspec.structs.replace(answers[place], duplicate=True),
            msgspec.structs.replace(answers[place], receipt=None),
        ):
            assert render.all_as_json([*answers[:place], other, *answers[place + 1 :]], {}) is None


@pytest.mark.parametrize("verdict", [OUT_OF_BOUNDS, OVERFLOW])
def test_a_run_with_one_that_counts_nowhere_is_told_one_by_one(verdict: int) -> None:
    assert render.all_as_json(answers_of(plain_run(2, verdicts=bytes([0, verdict]))), {}) is None


def test_only_rows_that_follow_one_another_are_told_together() -> None:
    """Scores to two boards in turn: each board has a run, and no run has the answers in a row."""
    one, other = answers_of(plain_run(2, step=2)), answers_of(plain_run(2, first=2, step=2))
    assert render.all_as_json([*one, *other], {}) is not None
    assert render.all_as_json([one[0], other[0], one[1], other[1]], {}) is None
    backwards = render.all_as_json([one[1], one[0]], {})
    assert backwards == b",".join(in_general([one[1], one[0]]))


def test_what_no_column_says_as_it_is_shown_is_put_together() -> None:
    (answer,) = answers_of(plain_run(1))
    assert answer.receipt is not None
    assert type(answer.receipt.windows) is ReceiptView
    told = render.receipt(msgspec.structs.replace(answer.receipt, decimals=2))
    assert encode(told.score) == b"0.05"
    assert encode(told.windows["all"].score) == b"0.05"
    again = render.receipt(msgspec.structs.replace(answer.receipt, duplicate=True))
    assert again.duplicate is True
    kept = msgspec.structs.replace(answer, receipt=put_together(answer.receipt))
    scaled = msgspec.structs.replace(
        answer, receipt=msgspec.structs.replace(answer.receipt, decimals=2)
    )
    for one in (kept, scaled):
        assert one.receipt is not None
        shown = render.as_json(one.receipt, {})
        assert render.all_as_json([one], {}) == shown
        assert render.all_as_json([answer, one, answer], {}) == b",".join(
            [render.as_json(answer.receipt, {}), shown, render.as_json(answer.receipt, {})]
        )

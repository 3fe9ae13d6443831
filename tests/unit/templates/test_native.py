"""Native forms say what the plain ones say, byte for byte, and read nothing that is not theirs."""

from array import array
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.standins import NO_NATIVE_PART, PURE

from rankd.model.standing import Rank, percentile
from rankd.templates import pure_python
from rankd.templates.placeholders import Placeholder, PlaceholderKind

if PURE:
    pytest.skip(NO_NATIVE_PART, allow_module_level=True)

from rankd.templates import _native

ROWS = 5
INT64 = st.integers(-(2**63), 2**63 - 1)
EACH_TIME_ALIKE = settings(derandomize=True, max_examples=200)
ANY_TEXT = st.text(st.characters(codec="utf-8"), max_size=40)
SIZES = {"Q": st.integers(0, 2**63 - 1), "I": st.integers(0, 2**32 - 1), "q": INT64}


def many(one: st.SearchStrategy[Any], count: int) -> st.SearchStrategy[list[Any]]:
    return st.lists(one, min_size=count, max_size=count)


def numbers(every: int = 1) -> st.SearchStrategy[Any]:
    """Every layout in which a column of numbers may lie."""
    count = ROWS * every
    arrays = [many(one, count).map(partial(array, kind)) for kind, one in SIZES.items()]
    return st.one_of(*arrays, many(INT64, count), st.binary(min_size=count, max_size=count))


@st.composite
def filled(draw: st.DrawFn) -> tuple[list[Any], list[Any]]:
    """Any form, and columns it can be filled in from."""
    parts: list[Any] = []
    columns: list[Any] = []

    def add(column: Any) -> int:
        columns.append(column)
        return len(columns) - 1

    for kind in draw(st.lists(st.sampled_from(PlaceholderKind), max_size=8)):
        parts.append(draw(st.binary(max_size=6)))
        every = draw(st.integers(1, 3))
        match kind:
            case PlaceholderKind.TEXT:
                parts.append(Placeholder(kind, add(draw(many(st.none() | ANY_TEXT, ROWS)))))
            case PlaceholderKind.RAW:
                parts.append(Placeholder(kind, add(draw(many(st.none() | st.binary(), ROWS)))))
            case PlaceholderKind.COUNT:
                parts.append(Placeholder(kind, add(draw(st.integers(-(2**62), 2**62)))))
            case PlaceholderKind.MASKED:
                wide = 8 * every
                keys = draw(st.binary(min_size=wide * ROWS, max_size=wide * ROWS))
                mask = draw(st.integers(0, 2**64 - 1))
                parts.append(Placeholder(kind, add(keys), every=wide, mask=mask))
            case PlaceholderKind.CHOICE:
                texts = draw(st.lists(st.binary(max_size=4), min_size=1, max_size=4))
                chosen = draw(many(st.integers(0, len(texts) - 1), ROWS))
                parts.append(Placeholder(kind, add(bytes(chosen)), texts=texts))
            case PlaceholderKind.SHARE:
                totals = draw(many(st.integers(1, 2**32 - 1), ROWS))
                ranks = [draw(st.integers(0, total)) for total in totals]
                rank, total = add(array("I", ranks)), add(array("Q", totals))
                parts.append(Placeholder(kind, rank, other=total))
            case PlaceholderKind.CHANGE:
                few = many(st.integers(0, 2**32 - 1), ROWS).map(lambda n: array("I", n))
                parts.append(Placeholder(kind, add(draw(few)), other=add(draw(few))))
            case _:
                other = add(draw(numbers()))
                parts.append(Placeholder(kind, add(draw(numbers(every))), other=other, every=every))
    return [*parts, draw(st.binary(max_size=6))], columns


@EACH_TIME_ALIKE
@given(filled(), st.integers(0, ROWS), st.integers(0, ROWS))
def test_any_form_is_filled_in_as_the_plain_one(
    what: tuple[list[Any], list[Any]], start: int, end: int
) -> None:
    parts, columns = what
    start, end = min(start, end), max(start, end)
    native, judge = _native.Form(parts), pure_python.Form(parts)
    assert native.fill_each(columns, start, end) == judge.fill_each(columns, start, end)
    assert native.fill(columns, start, end) == judge.fill(columns, start, end)


@EACH_TIME_ALIKE
@given(filled(), st.lists(st.integers(0, ROWS - 1), max_size=2 * ROWS))
def test_some_rows_are_filled_in_as_the_plain_ones(
    what: tuple[list[Any], list[Any]], rows: list[int]
) -> None:
    parts, columns = what
    native, judge = _native.Form(parts), pure_python.Form(parts)
    assert native.fill_rows(columns, rows) == judge.fill_rows(columns, rows)


@pytest.mark.parametrize("form", [_native.Form, pure_python.Form])
def test_rows_are_counted_by_their_order_and_begin_at_0(form: type) -> None:
    count = form(
        [Placeholder(PlaceholderKind.COUNT, 0), b":", Placeholder(PlaceholderKind.NUMBER, 1)]
    )
    columns = 1, [10, 11, 12]
    assert count.fill_rows(columns, [2, 0, 2]) == b"1:12,2:10,3:12"
    assert count.fill_rows(columns, []) == b""
    with pytest.raises(ValueError, match="from 0"):
        count.fill_rows(columns, [0, -1])
    with pytest.raises(IndexError):
        count.fill_rows(columns, [3])


@EACH_TIME_ALIKE
@given(filled())
def test_one_value_for_each_column_is_one_row(what: tuple[list[Any], list[Any]]) -> None:
    parts, columns = what
    masked = {
        part.column
        for part in parts
        if isinstance(part, Placeholder) and part.kind == PlaceholderKind.MASKED
    }
    values = [
        column if isinstance(column, int) or number in masked else column[0]
        for number, column in enumerate(columns)
    ]
    expected = pure_python.Form(parts).fill_each(columns, 0, 1)[0]
    assert _native.Form(parts).fill_one(values) == expected
    assert pure_python.Form(parts).fill_one(values) == expected


def test_a_share_is_the_percentile_for_every_rank_of_every_small_ranking() -> None:
    """Numbers halfway between two hundredths are where rounding goes wrong: 1/8, 3/16, 1/800..."""
    share = _native.Form([Placeholder(PlaceholderKind.SHARE, 0, other=1)])
    totals = [*range(1, 330), 400, 800, 1600, 3200, 6400, 16_000, 80_000]
    for total in totals:
        step = max(1, total // 3000)
        ranks = array("Q", range(1, total + 1, step))
        told = share.fill([ranks, array("Q", [total] * len(ranks))], 0, len(ranks)).split(b",")
        assert [float(one) for one in told] == [percentile(Rank(r), total) for r in ranks], total


def test_a_column_that_is_too_short_is_not_read_past_its_end(form: type) -> None:
    for kind, column, short in [
        (PlaceholderKind.NUMBER, array("q", [1, 2]), 3),
        (PlaceholderKind.NUMBER, array("I", [1, 2]), 3),
        (PlaceholderKind.NUMBER, b"12", 3),
        (PlaceholderKind.TEXT, ["a", "b"], 3),
        (PlaceholderKind.MASKED, bytes(15), 2),
    ]:
        every = 8 if kind == PlaceholderKind.MASKED else 1
        filling = form([Placeholder(kind, 0, every=every)])
        assert filling.fill([column], 0, short - 1)
        with pytest.raises(IndexError):
            filling.fill([column], 0, short)
    with pytest.raises(IndexError):
        form([Placeholder(PlaceholderKind.NUMBER, 1)]).fill([[1]], 0, 1)
    with pytest.raises(IndexError):
        form([Placeholder(PlaceholderKind.CHOICE, 0, texts=[b"a"])]).fill([b"\1"], 0, 1)
    with pytest.raises(ValueError, match="rows count from 0"):
        form([]).fill([], 3, 2)


def test_what_is_no_value_of_its_kind_is_refused() -> None:
    for kind, column in [
        (PlaceholderKind.TEXT, [3]),
        (PlaceholderKind.TEXT, ["\ud800"]),
        (PlaceholderKind.RAW, ["text"]),
        (PlaceholderKind.NUMBER, ["1"]),
        (PlaceholderKind.NUMBER, [2**63]),
        (PlaceholderKind.NUMBER, range(3)),
        (PlaceholderKind.MASKED, array("q", [1])),
    ]:
        with pytest.raises((TypeError, ValueError, OverflowError)):
            _native.Form([Placeholder(kind, 0)]).fill([column], 0, 1)
    with pytest.raises(ValueError, match="beyond the total"):
        _native.Form([Placeholder(PlaceholderKind.SHARE, 0, other=1)]).fill([[3], [2]], 0, 1)
    with pytest.raises(ValueError, match="no such blank"):
        _native.Form([Placeholder(PlaceholderKind.NUMBER, -1)])
    with pytest.raises(TypeError):
        _native.Form(["text"])  # type: ignore[list-item]


def test_a_long_answer_is_whole_and_its_memory_is_let_go() -> None:
    """Whatever one answer took, the next begins with little."""
    form = _native.Form([b"<", Placeholder(PlaceholderKind.TEXT, 0), b">"])
    long = "\x01" * 400_000
    assert form.fill([[long]], 0, 1) == b'<"' + b"\\u0001" * 400_000 + b'">'
    assert form.fill([["a"] * 3], 0, 3) == b'<"a">,<"a">,<"a">'


# -------------------------------------------------------------------------------- answers


@EACH_TIME_ALIKE
@given(st.binary(max_size=5), st.lists(st.none() | st.text() | st.binary(max_size=9)))
def test_letters_are_what_the_plain_ones_are(head: bytes, bodies: list[Any]) -> None:
    letters = _native.enclose(head, bodies, 6)
    assert letters == pure_python.enclose(head, bodies, 6)
    for letter, body in zip(letters, bodies, strict=True):
        assert (letter is not None) == (type(body) is bytes and len(body) <= 6)
        assert letter is None or letter == head + str(len(body)).encode() + b"\r\n\r\n" + body


def test_a_number_or_none_stands_for_itself_in_every_row(form: type) -> None:
    parts = [
        Placeholder(PlaceholderKind.NUMBER, 0),
        b"/",
        Placeholder(PlaceholderKind.TEXT, 1),
        b"/",
        Placeholder(PlaceholderKind.SHARE, 2, other=0),
    ]
    assert form(parts).fill([4, None, [1, 4]], 0, 2) == b"4/null/100.0,4/null/25.0"

"""Decay in integers: the same bits by any algorithm, pinned, and judged by them."""

import random
from datetime import timedelta
from decimal import ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal, localcontext
from typing import Any

import pytest

from rankd.model import decay
from rankd.model.board import SCORE_MAX, SCORE_MIN, Board
from rankd.model.decay import LOG_BITS, Amount, HalfLife, LinearDecay, log2_floor
from rankd.model.facts import Position, ScoreSubmitted
from rankd.model.order import Order, score_part
from rankd.model.submission import OUT_OF_BOUNDS, OVERFLOW, Counted, NotBetter, judge

DAY = 86_400_000_000
NOON = 1_794_830_400_000_000
"""2026-11-16T12:00:00Z."""
ENOUGH = Context(prec=150)
WEEKLY = HalfLife(timedelta(days=7))
DAILY = LinearDecay(10, timedelta(days=1), 0)


def decimal_log2(number: int) -> int:
    """Return floor(log2(number) * 2**LOG_BITS) by another algorithm, in another base."""
    with localcontext(ENOUGH):
        exact = Decimal(number).ln() / Decimal(2).ln() * 2**LOG_BITS
        return int(exact.to_integral_value(ROUND_FLOOR))


def decimal_value(amount: int, elapsed: int, half_life: HalfLife) -> Decimal:
    """Return a value in smallest units to 150 digits."""
    with localcontext(ENOUGH):
        whole, part = divmod(elapsed, half_life.span)
        value = Decimal(amount) / half_life.scale
        if part:
            value *= (-Decimal(2).ln() * part / half_life.span).exp()
        return value / Decimal(2) ** whole


# ------------------------------------------------------------------------------ numbers


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (1, 0),
        (2, 1 << LOG_BITS),
        (2**127, 127 << LOG_BITS),
        (3, 0x1_95C01A39FBD6879FA00B12),
        (10, 0x3_5269E12F346E2BF924AFDB),
    ],
)
def test_logarithms_are_the_same_bits_for_ever(number: int, expected: int) -> None:
    assert log2_floor(number) == expected


def test_logarithms_are_those_of_decimals() -> None:
    dice = random.Random(5)
    for _ in range(300):
        number = dice.getrandbits(dice.randrange(2, 129)) | 1
        if number > 1:
            assert log2_floor(number) == decimal_log2(number), number


def test_more_digits_are_taken_where_the_first_do_not_tell(monkeypatch: Any) -> None:
    entry, at = Amount(12345 << 64, 0), DAY * 3 + 1
    expected = log2_floor(12345), WEEKLY.amount(entry, at), WEEKLY.score(entry, at)
    log2_floor.cache_clear()
    monkeypatch.setattr(decay, "DIGITS", 96)
    monkeypatch.setattr(decay, "_score_by_float", lambda *_: None)
    assert (log2_floor(12345), WEEKLY.amount(entry, at), WEEKLY.score(entry, at)) == expected
    log2_floor.cache_clear()


def test_words_tell_all_scores_of_an_instant_apart() -> None:
    for score in (1, 2, 2**53, 2**62, SCORE_MAX - 1, SCORE_MIN, SCORE_MIN + 1, -2, -1, 0):
        one, next_one = (WEEKLY.entry((score + more) << 64, NOON) for more in (0, 1))
        assert WEEKLY.word(one) < WEEKLY.word(next_one), score
        assert abs(WEEKLY.word(one)) < 2**126


@pytest.mark.parametrize("half_life", [WEEKLY, HalfLife(timedelta(seconds=1))])
def test_values_are_rounded_half_to_even_with_and_without_floats(
    half_life: HalfLife, monkeypatch: Any
) -> None:
    dice = random.Random(6)
    told = []
    for _ in range(300):
        score = dice.choice([dice.randrange(-99, 99), dice.randrange(SCORE_MIN, SCORE_MAX)])
        elapsed = dice.choice([half_life.span * dice.randrange(9), dice.randrange(9 * DAY)])
        exact = decimal_value(score << 64, elapsed, half_life)
        expected = int(exact.to_integral_value(ROUND_HALF_EVEN, ENOUGH))
        told.append((Amount(score << 64, NOON), NOON + elapsed, expected))
    assert [half_life.score(entry, at) for entry, at, _ in told] == [one for *_, one in told]
    monkeypatch.setattr(decay, "_score_by_float", lambda *_: None)
    assert [half_life.score(entry, at) for entry, at, _ in told] == [one for *_, one in told]


@pytest.mark.parametrize(
    ("score", "halvings", "expected"),
    [(1, 1, 0), (3, 1, 2), (5, 1, 2), (7, 2, 2), (6, 2, 2), (10, 2, 2), (-1, 1, 0), (-3, 1, -2)],
)
def test_halves_go_to_the_even_neighbour(score: int, halvings: int, expected: int) -> None:
    entry = WEEKLY.entry(score << 64, NOON)
    assert WEEKLY.score(entry, NOON + halvings * WEEKLY.span) == expected


def test_an_inexact_amount_is_odd_and_so_never_taken_for_a_half() -> None:
    tiny = WEEKLY.amount(WEEKLY.entry(1 << 64, NOON), NOON + 200 * WEEKLY.span)
    assert tiny == 1
    after = WEEKLY.entry((1 << 64) + tiny, NOON)
    assert WEEKLY.score(after, NOON + WEEKLY.span) == 1  # A half and a little more.


def test_linear_decay_is_exact_and_stops_at_its_floor() -> None:
    entry = DAILY.entry(25 * DAILY.scale, NOON)
    days = [0, 0.45, 0.5, 0.55, 1, 2, 2.5, 2.6, 9]
    values = [DAILY.score(entry, NOON + int(day * DAY)) for day in days]
    assert values == [25, 20, 20, 20, 15, 5, 0, 0, 0]
    unbounded = LinearDecay(10, timedelta(days=1))
    assert unbounded.score(entry, NOON + 9 * DAY) == -65
    lowest = LinearDecay(SCORE_MAX, timedelta(seconds=1))
    assert lowest.score(lowest.entry(0, NOON), NOON + DAY) == SCORE_MIN


def test_no_value_is_more_than_what_was_recorded() -> None:
    for rules in (WEEKLY, DAILY):
        entry = rules.entry(40 * rules.scale, NOON)
        assert rules.score(entry, NOON - DAY) == 40
        assert rules.amount(entry, NOON - DAY) == 40 * rules.scale


# --------------------------------------------------------------------------------- keys


@pytest.mark.parametrize(
    ("rules", "tie_break", "score", "expected"),
    [
        (
            {"half_life": "7d"},
            "first",
            100,
            (
                "7ffffff421b699f47d04da837b6d7bb5 00066063846c9000 "
                "7fffffffffffff9bffffffffffffffff 0000000000000005"
            ),
        ),
        (
            {"half_life": "7d"},
            "latest",
            0,
            (
                "7fffffffffffffffffffffffffffffff ffffffffffffffff "
                "7fffffffffffffffffffffffffffffff fffffffffffffffa"
            ),
        ),
        (
            {"linear": {"points": 10, "per": "1d"}, "floor": 0},
            "player",
            100,
            "5fffffffffffffffffc034412ba0dfff 00066063846c9000 0000000000000000",
        ),
        (
            {"linear": {"points": 10, "per": "1d"}, "floor": 0},
            "first",
            -1,
            "a000000000000000000000141dd75fff 0000000000000000 0000000000000005",
        ),
    ],
)
def test_these_are_the_bytes_for_ever(
    rules: dict[str, Any], tie_break: str, score: int, expected: str
) -> None:
    order = Order.of(Board.define("b", {"decay": rules, "tie_break": tie_break}))
    entry = order.entry((score,), NOON)
    key = order.key(entry, Position(5))
    assert key == bytes.fromhex(expected)
    assert len(key) == order.key_bytes
    assert order.scores(key) == entry
    assert order.position(key) == (None if tie_break == "player" else 5)
    assert (order.shown(entry, NOON), order.recorded(entry)) == ((score,), score)
    assert order.floor(entry) == order.floor_of(key) == score_part(key) + bytes(8)


# ------------------------------------------------------------------------------ judging


def submit(board: Board, score: int, current: Any, at: int, *, delta: bool = False) -> Any:
    scores, added = (None, score) if delta else ((score,), None)
    return judge(board, ScoreSubmitted("b", "p", scores, added), current, at)


def held(board: Board, score: int, at: int = NOON) -> Any:
    return Order.of(board).entry((score,), at)


@pytest.mark.parametrize(
    ("rule", "later", "score", "expected"),
    [
        ("best", 7, 51, Counted),
        ("best", 7, 50, NotBetter),
        ("best", 0, 100, NotBetter),
        ("latest", 7, 1, Counted),
        ("sum", 7, 1, Counted),
    ],
)
def test_scores_are_judged_by_values_of_their_instant(
    rule: str, later: int, score: int, expected: Any
) -> None:
    board = Board.define("b", {"rule": rule, "decay": {"half_life": "7d"}})
    at = NOON + later * DAY
    verdict = submit(board, score, held(board, 100), at)
    assert type(verdict) is expected
    if expected is Counted:
        value = score + 50 * (rule == "sum")
        assert verdict == Counted(held(board, value, at), True)


def test_the_same_value_again_moves_nothing() -> None:
    board = Board.define("b", {"rule": "latest", "decay": {"half_life": "7d"}})
    before = held(board, 100)
    assert submit(board, 100, before, NOON) == Counted(before, False)
    assert submit(board, 50, before, NOON + 7 * DAY) == Counted(before, False)
    assert submit(board, 0, before, NOON + DAY, delta=True) == Counted(before, False)
    assert submit(board, 0, held(board, 0), NOON + DAY) == Counted(held(board, 0), False)


def test_limits_bound_what_is_recorded_and_not_what_it_decays_to() -> None:
    limits = {"score_min": 10, "score_max": 100}
    board = Board.define("b", {"rule": "sum", "limits": limits, "decay": {"half_life": "7d"}})
    assert submit(board, 101, None, NOON) == OUT_OF_BOUNDS
    assert submit(board, 9, None, NOON) == OUT_OF_BOUNDS
    assert submit(board, 60, held(board, 100), NOON) == OUT_OF_BOUNDS
    assert submit(board, 50, held(board, 100), NOON + 7 * DAY) == Counted(
        held(board, 100, NOON + 7 * DAY), True
    )
    assert submit(board, -95, held(board, 100), NOON + 7 * DAY, delta=True) == OUT_OF_BOUNDS
    unlimited = Board.define("b", {"rule": "sum", "decay": {"half_life": "7d"}})
    assert submit(unlimited, 1, held(unlimited, SCORE_MAX), NOON) == OVERFLOW
    assert type(submit(unlimited, 1, held(unlimited, SCORE_MAX), NOON + 1)) is Counted


def test_an_earlier_instant_than_that_of_the_entry_is_its_own() -> None:
    board = Board.define("b", {"rule": "sum", "decay": {"half_life": "7d"}})
    verdict = submit(board, 1, held(board, 100), NOON - DAY)
    assert verdict == Counted(held(board, 101), True)

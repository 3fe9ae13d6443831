"""What an append sends, and what the server's answer comes to."""

from collections.abc import Sequence

import msgspec
import pytest

from rankd.adapters.postgres.batch import (
    append_id,
    appended,
    as_instant,
    as_time,
    prepared,
    receipt_columns,
)
from rankd.model.facts import Fact, Position, ScoreSubmitted
from rankd.model.window import Instant
from rankd.ports import FirstUse, StoredReceipt


def fact(player: str, key: str | None = None) -> ScoreSubmitted:
    return ScoreSubmitted("b", player, scores=(1,), key=key)


def answer(first: int, last: int, uses: Sequence[object] = ()) -> str:
    told = {"first": first, "last": last, "at": 7, "link": b"l", "uses": uses}
    return msgspec.json.encode(told).decode()


def test_of_two_with_one_key_the_first_is_sent() -> None:
    a, b, c, d = fact("a", "k"), fact("b"), fact("c", "k"), fact("d", "j")
    batch = prepared([a, b, c, d])
    assert batch.columns[4] == ["a", "b", "d"]
    assert batch.keys == ["k", None, "j"]

    told = appended(batch, answer(5, 7))
    assert list(told.positions) == [5, 6, 5, 7]
    assert told.first_uses == {2: FirstUse(Position(5), a.fingerprint(), None)}


def test_those_that_were_left_out_are_told_who_was_first() -> None:
    facts: list[Fact] = [fact("a", "k"), fact("b"), fact("c", "k"), fact("d", "j")]
    use = FirstUse(Position(2), b"other", b"receipt")
    told = appended(prepared(facts), answer(5, 6, [(0, 2, b"other", b"receipt")]))
    assert list(told.positions) == [2, 5, 2, 6]
    assert told.first_uses == {0: use, 2: use}
    assert (told.at, told.link) == (7, b"l")


def test_an_answer_that_does_not_fit_is_a_mistake() -> None:
    for facts in ([fact("a")], [fact("a", "k"), fact("b", "k")]):
        with pytest.raises(AssertionError):
            appended(prepared(facts), answer(5, 9))


def test_nothing_has_columns_too() -> None:
    batch = prepared([])
    assert list(appended(batch, answer(5, 4)).positions) == []
    assert receipt_columns([]) == (None, None, None)


def test_a_score_that_has_no_place_in_64_bits_is_a_mistake() -> None:
    for broken in (
        ScoreSubmitted("b", "p", scores=(2**63,)),
        ScoreSubmitted("b", "p", delta=2**63),
    ):
        with pytest.raises(AssertionError):
            prepared([broken])


def test_receipts_go_with_their_checksums() -> None:
    positions, bodies, sums = receipt_columns(
        [StoredReceipt(Position(1), b"a"), StoredReceipt(Position(2), b"a")]
    )
    assert (positions, bodies) == ([1, 2], [b"a", b"a"])
    assert len(set(sums)) == 2


@pytest.mark.parametrize("at", [0, 1, 1_763_000_000_123_457, 4_102_444_800_000_001])
def test_an_instant_is_the_same_to_the_microsecond(at: int) -> None:
    assert as_instant(as_time(Instant(at))) == at


def test_no_two_appends_have_one_id() -> None:
    assert len({append_id() for _ in range(1_000)}) == 1_000

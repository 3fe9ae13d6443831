"""The native state of rules: savepoints, copies and saved bytes, beside the one in Python."""

import zlib
from array import array
from typing import Any

import pytest
from tests.unit.rules.conftest import SECOND, Declared, Make

from rankd.rules.state_format import unseal

ALL = (
    ("gain_per_minute", "refuse", 5_000),
    ("submissions_per_minute", "flag", 60),
    ("seconds_between", "flag", SECOND),
    ("first_score", "hold", 1_000),
    ("outlier_self", "hold", 8_000, 0, 8),
    ("outlier_field", "flag", 2_000, 9_900, 100),
    ("per_second_of_run", "refuse", 100),
)


def content(state: Any) -> tuple[dict[bytes, bytes], list[tuple[int, int]]]:
    """Return rows by id, and the histogram, from the saved bytes of a state."""
    players, body, buckets = unseal(state, state.save())
    rows, at, size = {}, 0, state.layout.row_bytes
    for _ in range(players):
        begin = at + 2 + int.from_bytes(body[at : at + 2], "little")
        rows[body[at + 2 : begin]] = body[begin : begin + size]
        at = begin + size
    assert at == len(body)
    return rows, buckets


def submit(state: Any, first: int, count: int, score: int = 500) -> None:
    players = [f"p{number}" for number in range(first, first + count)]
    scores = array("q", range(score, score + count))
    state.judge(players, scores, None, array("q", range(count)))
    state.check()


def test_a_rollback_undoes_all_since_the_savepoint(judging: Make) -> None:
    state = judging(*ALL).state
    submit(state, 0, 50)
    before = content(state)
    state.savepoint()
    submit(state, 25, 50, 700)
    assert state.forget("p3")
    assert state.forget("p60")
    submit(state, 3, 1)
    submit(state, 60, 100)
    state.check()
    assert len(state) == 160
    state.rollback()
    state.check()
    assert content(state) == before
    assert len(state) == 50


def test_a_release_keeps_all_since_the_savepoint(judging: Make) -> None:
    state, twin = judging(*ALL).state, judging(*ALL).state
    submit(state, 0, 50)
    submit(twin, 0, 50)
    state.savepoint()
    for one in (state, twin):
        submit(one, 25, 50)
        assert one.forget("p3")
        assert one.forget("p60")
        assert not one.forget("p60")
        submit(one, 3, 1)
    state.release()
    state.check()
    assert content(state) == content(twin)
    with pytest.raises(RuntimeError, match="no savepoint"):
        state.rollback()
    state.release()


def test_another_savepoint_releases_the_first(judging: Make) -> None:
    state = judging(*ALL).state
    state.savepoint()
    submit(state, 0, 5)
    state.forget("p1")
    state.savepoint()
    state.check()
    submit(state, 5, 5)
    state.rollback()
    state.check()
    assert len(state) == 4


def test_a_copy_is_another_state(judging: Make) -> None:
    judge = judging(*ALL)
    submit(judge.state, 0, 300)
    judge.state.savepoint()
    judge.state.forget("p7")
    made = judge.state.copy()
    made.check()
    assert content(made) == content(judge.state)
    submit(made, 300, 5)
    judge.state.rollback()
    assert (len(made), len(judge.state)) == (304, 300)
    with pytest.raises(RuntimeError):
        made.rollback()


def test_saved_bytes_come_back(judging: Make) -> None:
    state, again = judging(*ALL).state, judging(*ALL).state
    submit(state, 0, 300)
    again.load(state.save())
    again.check()
    assert content(again) == content(state)
    with pytest.raises(ValueError, match="without submissions"):
        again.load(state.save())


def test_damaged_bytes_are_found(judging: Make) -> None:
    state = judging(*ALL).state
    submit(state, 0, 3)
    data = state.save()
    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 1
        with pytest.raises(ValueError):
            judging(*ALL).state.load(bytes(damaged))
    for size in range(len(data)):
        with pytest.raises(ValueError):
            judging(*ALL).state.load(data[:size])


def sealed(data: bytes) -> bytes:
    return data + zlib.crc32(data).to_bytes(4, "little")


def test_bytes_that_no_state_saved_are_refused_though_their_checksum_is_right(
    judging: Make,
) -> None:
    state = judging(*ALL).state
    submit(state, 0, 2)
    whole = state.save()[:-4]
    row = state.layout.row_bytes
    first = 24  # bytes of the heading
    flags = first + 2 + 2
    usual = flags + row - 6
    wrong = {
        "a version to come": whole[:4] + b"\2" + whole[5:],
        "a player more": whole[:12] + b"\3" + whole[13:],
        "a player less": whole[:12] + b"\1" + whole[13:],
        "a bucket more": whole[:20] + b"\x09" + whole[21:],
        "an id without end": whole[:first] + b"\xff\xff" + whole[first + 2 :],
        "an empty id": whole[:first] + b"\0\0" + whole[first + 2 :],
        "an id that is no text": whole[: first + 2] + b"\xff" + whole[first + 3 :],
        "the same player twice": whole[: first + 2] + b"p1" + whole[first + 4 :],
        "an unknown flag": whole[:flags] + b"\x09" + whole[flags + 1 :],
        "no submission": whole[:flags] + b"\0" + whole[flags + 1 :],
        "an impossible gain": whole[:usual] + b"\0\xff" + whole[usual + 2 :],
        "an impossible step": whole[: usual + 2] + b"\0\x80" + whole[usual + 4 :],
        "an empty bucket": whole[:-8] + bytes(8),
        "too many scores": whole[:-1] + b"\xff",
        "a bucket beyond all": whole[:-10] + b"\xff\xff" + whole[-8:],
    }
    for name, data in wrong.items():
        fresh = judging(*ALL).state
        with pytest.raises(ValueError):
            fresh.load(sealed(data))
            raise AssertionError(name)
        assert len(fresh) == 0
    judging(*ALL).state.load(sealed(whole))


@pytest.mark.parametrize(
    ("rules", "rule_of_board", "higher_wins"),
    [
        (ALL[:6], "sum", True),
        (ALL[:5], "best", True),
        (ALL, "best", False),
        ((*ALL, ("gain_per_minute", "flag", 2**40)), "best", True),
        ((), "best", True),
    ],
)
def test_the_state_of_other_rules_is_not_loaded(
    judging: Make, rules: tuple[Any, ...], rule_of_board: str, higher_wins: bool
) -> None:
    state = judging(*ALL).state
    submit(state, 0, 3)
    other = judging(*rules, rule_of_board=rule_of_board, higher_wins=higher_wins).state
    with pytest.raises(ValueError, match="other rules"):
        other.load(state.save())


def test_new_rules_keep_who_counts_and_the_score(judging: Make) -> None:
    judge = judging(("gain_per_minute", "refuse", 100), ("first_score", "hold", 50))
    judge(40, player="ann")
    judge(60, player="bob")
    rules = [Declared("gain_per_minute", "refuse", 1_000), Declared("first_score", "hold", 50)]
    judge.state = judge.state.redefined(rules, 10)
    judge.state.check()
    assert len(judge.state) == 1, "of the player that was held nothing is left"
    assert judge(60, player="bob") == ["hold"]
    assert judge(1_400, 1_401, player="ann") == ["fine", "refuse"]
    assert judge.observed(1) == [(0, 1_001, 1_000)]
    judge.state = judge.state.redefined([])
    assert len(judge.state) == 0


def test_new_rules_that_need_a_score_learn_it_from_the_next(judging: Make) -> None:
    judge = judging(("first_score", "hold", 50))
    judge(40)
    judge.state = judge.state.redefined(
        [
            Declared("gain_per_minute", "refuse", 100),
            Declared("first_score", "hold", 50),
            Declared("seconds_between", "flag", SECOND),
        ]
    )
    assert judge(10**6) == ["fine"], "neither the first score nor a gain"
    assert judge(10**6 + 101) == ["refuse"]


def test_new_rules_keep_the_field(judging: Make) -> None:
    judge = judging(("outlier_field", "flag", 2_000, 9_000, 10))
    judge(*[100] * 10)
    rules = [Declared("outlier_field", "refuse", 4_000, 9_000, 10)]
    judge.state = judge.state.redefined(rules)
    judge.state.check()
    assert judge(450) == ["refuse"]
    judge.state = judge.state.redefined(rules, 10)
    assert judge(10**6) == ["fine"]


def test_a_row_has_the_fields_that_the_rules_need(judging: Make) -> None:
    sizes = [judging(rule).state.layout.row_bytes for rule in ALL]
    assert sizes == [29, 21, 9, 1, 15, 9, 0]
    assert judging(*ALL).state.layout.row_bytes == 47
    assert judging(*ALL, rule_of_board="sum").state.layout.row_bytes == 39
    wide = judging(("gain_per_minute", "flag", 2**40)).state.layout
    assert (wide.gain_bytes, wide.row_bytes) == (8, 65)


def test_memory_is_given_back(judging: Make, kind: Any) -> None:
    if not hasattr(kind, "bytes_in_use"):
        return
    before = kind.bytes_in_use()
    state = judging(*ALL).state
    state.savepoint()
    submit(state, 0, 70_000)
    assert kind.bytes_in_use() - before >= state.memory > 70_000 * state.layout.row_bytes
    state.rollback()
    submit(state, 0, 10)
    del state
    assert kind.bytes_in_use() == before

"""The index of the audit trail: few facts by kind, board and actor."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

from rankd.core import audit_index
from rankd.core.audit_index import AuditIndex
from rankd.core.state import Savepoint, State
from rankd.core.state_codec import VERSION, Heading, read_notes, take_notes
from rankd.model.facts import (
    BoardRetired,
    Fact,
    KeyRevoked,
    NameSet,
    PlayerStateSet,
    Position,
    Recorded,
    ScoreAdjusted,
    ScoreSubmitted,
)

ACTORS = some.sampled_from([None, "k1", "k2", "k3"])
BOARDS = some.sampled_from(["a", "b", "c"])
FACTS = some.one_of(
    some.builds(BoardRetired, BOARDS, ACTORS),
    some.builds(ScoreAdjusted, BOARDS, some.just("ann"), delta=some.just(1), actor=ACTORS),
    some.builds(PlayerStateSet, some.just("ann"), some.just("active"), actor=ACTORS),
    some.builds(KeyRevoked, some.just("x"), ACTORS),
)
HEADING = Heading(VERSION, Position(70), 5, b"link", Position(3), {})


def recorded(facts: list[Fact]) -> list[Recorded]:
    return [Recorded(Position(3 * place), 0, fact) for place, fact in enumerate(facts, 1)]


def indexed(facts: list[Recorded]) -> AuditIndex:
    index = AuditIndex()
    for one in facts:
        index.add(one)
        index.add(one)  # It may be told of a fact twice.
    return index


@given(some.lists(FACTS), some.integers(0, 100), ACTORS, BOARDS)
def test_it_finds_what_a_scan_finds(
    facts: list[Fact], after: int, actor: str | None, board: str
) -> None:
    ledger = recorded(facts)
    index = indexed(ledger)
    kinds = {"player_state_set", "score_adjusted"}
    for boards in (None, {board}, {board, None}):
        for only in (None, kinds):
            assert list(
                index.find(after=Position(after), kinds=only, boards=boards, actor=actor)
            ) == [
                one.position
                for one in ledger
                if one.position > after
                and (only is None or one.fact.kind.partition(".")[0] in only)
                and (boards is None or getattr(one.fact, "board", None) in boards)
                and (actor is None or getattr(one.fact, "actor", None) == actor)
            ]


@given(some.lists(FACTS), some.lists(FACTS))
def test_what_is_taken_back_leaves_nothing(before: list[Fact], after: list[Fact]) -> None:
    ledger = recorded([*before, *after])
    index = indexed(ledger)
    index.truncate(len(before))
    assert [*index.pieces()] == [*indexed(ledger[: len(before)]).pieces()]
    for one in ledger[len(before) :]:
        index.add(one)
    assert [*index.pieces()] == [*indexed(ledger).pieces()]


def test_a_state_indexes_few_kinds_and_takes_them_back() -> None:
    state = State()
    state.note(Recorded(Position(1), 0, KeyRevoked("x", "k1")))
    state.note(Recorded(Position(2), 0, NameSet("ann", "Ann", "k1")))
    state.index_fact(Recorded(Position(3), 0, ScoreSubmitted("b", "ann", (1,), actor="k1")))
    assert list(state.audit.find(after=Position(0))) == [1]
    copied, savepoint = state.copy(), Savepoint(state)
    state.note(Recorded(Position(4), 0, PlayerStateSet("ann", "banned", actor="k2")))
    assert list(state.audit.find(after=Position(0), actor="k2")) == [4]
    savepoint.go_back()
    assert (
        list(state.audit.find(after=Position(0)))
        == [1]
        == list(copied.audit.find(after=Position(0)))
    )


def test_a_snapshot_has_it_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_index, "ROWS_PER_PIECE", 3)
    state = State()
    for number in range(1, 11):
        state.note(Recorded(Position(number), 0, KeyRevoked("x", f"k{number % 4}")))
    frames = list(take_notes(state, HEADING))
    again = read_notes(frames).state.audit
    assert [*again.pieces()] == [*state.audit.pieces()]
    assert again.since == 0
    assert list(again.find(after=Position(4), actor="k1")) == [5, 9]


def test_before_a_snapshot_of_an_older_version_nothing_is_indexed() -> None:
    state = State()
    state.note(Recorded(Position(1), 0, KeyRevoked("x", "k1")))
    frames = map(msgspec.msgpack.decode, take_notes(state, HEADING))
    older = [frame[:3] if frame[0] == "profiles" else frame for frame in frames]
    index = read_notes(map(msgspec.msgpack.encode, older)).state.audit
    assert (index.since, len(index)) == (HEADING.checkpoint, 0)
    index.add(Recorded(Position(71), 0, KeyRevoked("y")))
    assert list(index.find(after=Position(0))) == [71]

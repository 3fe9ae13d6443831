"""Notes: a state read back is the state that was noted, of that moment and no later one."""

import asyncio
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given, settings
from tests.unit.core.doubles import FaultyLedger, SetClock, engine, page_of
from tests.unit.core.histories import STEPS, History, Step

from rankd.core import state_codec
from rankd.core.state import State
from rankd.core.state_codec import VERSION, Heading, read_notes, take_notes
from rankd.errors import SnapshotDamaged
from rankd.model.facts import (
    Attributes,
    BoardDefined,
    ExpiringKeyCreated,
    KeyCreated,
    KeyRevoked,
    KeysUsed,
    Position,
    Profile,
    Recorded,
)

DEFINITION = {"rule": "best", "windows": ["all"], "segments": ["region"]}
HEADING = Heading(VERSION, Position(7), 5, b"link", Position(3), {4: b"receipt"})


def said(state: State) -> dict[str, object]:
    return {
        "boards": {name: page_of(page) for name, page in state.boards.items()},
        "earlier": {
            name: [(at, board.definition()) for at, board in page.earlier]
            for name, page in state.boards.items()
        },
        "profiles": dict(state.profiles),
        "keys": (dict(state.keys), state.locked),
        "player_boards": dict(state.player_boards),
        "audit": [*state.audit.pieces()],
        "traced": {name: page.traced for name, page in state.boards.items()},
        "visibility": dict(state.visibility),
    }


async def noted(steps: Sequence[Sequence[Step]]) -> None:
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        history = History(rankd, clock)
        half = len(steps) // 2
        await history.live(steps[:half])
        before, frames = said(rankd.state), take_notes(rankd.state, HEADING)
        await history.live(steps[half:])
        assert said(read_notes(frames).state) == before


@settings(max_examples=40)
@given(STEPS)
def test_a_book_is_read_back_as_it_was_when_notes_were_taken(
    steps: Sequence[Sequence[Step]],
) -> None:
    asyncio.run(noted(steps))


def test_a_heading_is_read_back() -> None:
    assert read_notes(take_notes(State(), HEADING)).heading == HEADING


def test_attributes_are_noted_however_many_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_codec, "SHARED_ATTRIBUTES_MAX", 2)
    shared: list[Attributes] = [{"level": number, "pro": number > 1} for number in range(4)]
    state = State()
    state.profiles = {f"p{n}": Profile(f"P {n}", shared[n % 4]) for n in range(12)}
    again = read_notes(take_notes(state, HEADING)).state
    assert again.profiles == state.profiles


def test_players_are_noted_however_many_frames_they_fill(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_codec, "PLAYERS_PER_FRAME", 3)
    state = State()
    for number in range(10):
        state.profiles[f"p{number}"] = Profile(None, {"region": "eu"}, ("ann",))
        state.player_boards.add(f"p{number}", Position(1))
        state.visibility[f"p{number}"] = "friends" if number % 2 else "anonymous"
    state.note(Recorded(Position(1), 0, BoardDefined("b", DEFINITION)))
    again = read_notes(take_notes(state, HEADING)).state
    assert said(again) == said(state)


@pytest.mark.parametrize("frames", [[], [b"\xc1"], [b"\x90"]])
def test_what_cannot_be_read_is_damage(frames: list[bytes]) -> None:
    with pytest.raises(SnapshotDamaged):
        read_notes(frames)


def test_notes_of_another_version_are_left_aside() -> None:
    other = Heading(VERSION + 1, Position(7), 5, b"", Position(3), {})
    with pytest.raises(SnapshotDamaged):
        read_notes(take_notes(State(), other))


def test_that_there_was_a_key_is_noted_though_there_is_none_now() -> None:
    state = State()
    state.note(Recorded(Position(1), 0, KeyCreated("k", b"digest", ("admin",))))
    kept = read_notes(take_notes(state, HEADING)).state
    assert (list(kept.keys), kept.locked) == ([b"digest"], True)
    state.note(Recorded(Position(2), 0, KeyRevoked("k")))
    kept = read_notes(take_notes(state, HEADING)).state
    assert (list(kept.keys), kept.locked) == ([], True)
    assert not read_notes(take_notes(State(), HEADING)).state.locked


def test_keys_are_noted_with_their_times() -> None:
    state = State()
    for place, fact in enumerate(
        (
            ExpiringKeyCreated("k", b"digest", ("admin",), expires=9),
            KeyCreated("l", b"other", ("read",)),
            KeysUsed({"l": 7}),
        ),
        start=1,
    ):
        state.note(Recorded(Position(place), 10 * place, fact))
    kept = read_notes(take_notes(state, HEADING)).state
    assert kept.keys == state.keys
    assert (kept.keys_created, kept.keys_used) == ({"k": 10, "l": 20}, {"l": 7})


class OlderKeys(msgspec.Struct, tag="keys", array_like=True):
    """A frame as versions wrote it that kept no times."""

    keys: list[KeyCreated]
    locked: bool


def test_keys_of_older_notes_have_no_times() -> None:
    key = KeyCreated("k", b"digest", ("admin",))
    heading, *_ = take_notes(State(), HEADING)
    again = read_notes([heading, msgspec.msgpack.encode(OlderKeys([key], True))]).state
    assert (again.keys, again.locked) == ({b"digest": key}, True)
    assert (again.keys_created, again.keys_used) == ({}, {})


def test_an_older_version_does_not_read_past_keys_that_expire() -> None:
    """It would let them in after their time."""
    state = State()
    key = ExpiringKeyCreated("k", b"digest", ("admin",), expires=9)
    state.note(Recorded(Position(1), 0, key))
    older = msgspec.msgpack.Decoder(Heading | OlderKeys)
    _, keys, expiring, _ = take_notes(state, HEADING)
    assert older.decode(keys).keys == []
    with pytest.raises(msgspec.ValidationError):
        older.decode(expiring)


class OlderProfiles(msgspec.Struct, tag="profiles", array_like=True):
    """A frame as versions wrote it that noted no player_boards."""

    profiles: list[tuple[str, str | None, dict[str, str | int | bool]]]


class OlderFriends(msgspec.Struct, tag="friends", array_like=True):
    """A frame as versions wrote it that noted no profile of a player with friends alone."""

    friends: list[tuple[str, tuple[str, ...]]]


def test_friends_are_read_with_and_without_a_profile() -> None:
    heading, keys, _ = take_notes(State(), HEADING)
    profiles = msgspec.msgpack.encode(OlderProfiles([("ann", "Ann", {})]))
    friends = msgspec.msgpack.encode(OlderFriends([("ann", ("bob",)), ("bob", ("ann",))]))
    again = read_notes([heading, keys, profiles, friends]).state
    known = {"ann": Profile("Ann", {}, ("bob",)), "bob": Profile(None, {}, ("ann",))}
    assert again.profiles == known
    *_, last = take_notes(again, HEADING)
    assert dict(msgspec.msgpack.decode(last, type=OlderFriends).friends) == {
        "ann": ("bob",),
        "bob": ("ann",),
    }


def test_notes_without_entrants_leave_boards_untraced() -> None:
    state = State()
    state.note(Recorded(Position(1), 0, BoardDefined("b", DEFINITION)))
    heading, keys, board, _ = take_notes(state, HEADING)
    older = msgspec.msgpack.encode(msgspec.msgpack.decode(board)[:-3])
    profiles = msgspec.msgpack.encode(OlderProfiles([("ann", None, {"region": "eu"})]))
    again = read_notes([heading, keys, older, profiles]).state
    assert (again.boards["b"].traced, len(again.player_boards)) == (False, 0)
    assert again.profile("ann").attributes == {"region": "eu"}


def test_frames_with_entrants_are_read_by_versions_that_know_none() -> None:
    state = State()
    state.note(Recorded(Position(1), 0, BoardDefined("b", DEFINITION)))
    state.player_boards.add("ann", Position(1))
    *_, last = take_notes(state, HEADING)
    assert msgspec.msgpack.decode(last, type=OlderProfiles).profiles == []

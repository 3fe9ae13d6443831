"""Notes: a book read back is the book that was noted, of that moment and no later one."""

import asyncio
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given, settings
from tests.unit.core.doubles import FaultyLedger, SetClock, engine, page_of
from tests.unit.core.histories import STEPS, History, Step

from rankd.core import notes
from rankd.core.book import Book
from rankd.core.notes import VERSION, Heading, read_notes, take_notes
from rankd.errors import SnapshotDamaged
from rankd.model.facts import (
    BoardDefined,
    ExpiringKeyCreated,
    KeyCreated,
    KeyRevoked,
    KeysUsed,
    Position,
    Recorded,
)

DEFINITION = {"rule": "best", "windows": ["all"], "segments": ["region"]}
HEADING = Heading(VERSION, Position(7), 5, b"link", Position(3), {4: b"receipt"})


def said(book: Book) -> dict[str, object]:
    return {
        "boards": {name: page_of(page) for name, page in book.boards.items()},
        "earlier": {
            name: [(at, board.definition()) for at, board in page.earlier]
            for name, page in book.boards.items()
        },
        "profiles": dict(book.profiles),
        "friends": dict(book.friends),
        "keys": (dict(book.keys), book.locked),
        "entrants": dict(book.entrants),
        "traced": {name: page.traced for name, page in book.boards.items()},
    }


async def noted(steps: Sequence[Sequence[Step]]) -> None:
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        history = History(rankd, clock)
        half = len(steps) // 2
        await history.live(steps[:half])
        before, frames = said(rankd.book), take_notes(rankd.book, HEADING)
        await history.live(steps[half:])
        assert said(read_notes(frames).book) == before


@settings(max_examples=40)
@given(STEPS)
def test_a_book_is_read_back_as_it_was_when_notes_were_taken(
    steps: Sequence[Sequence[Step]],
) -> None:
    asyncio.run(noted(steps))


def test_a_heading_is_read_back() -> None:
    assert read_notes(take_notes(Book(), HEADING)).heading == HEADING


def test_players_are_noted_however_many_frames_they_fill(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes, "PLAYERS_PER_FRAME", 3)
    book = Book()
    for number in range(10):
        book.note_attributes(f"p{number}", {"region": "eu"})
        book.friends[f"p{number}"] = ("ann",)
        book.entrants.add(f"p{number}", Position(1))
    book.note(Recorded(Position(1), 0, BoardDefined("b", DEFINITION)))
    again = read_notes(take_notes(book, HEADING)).book
    assert said(again) == said(book)


@pytest.mark.parametrize("frames", [[], [b"\xc1"], [b"\x90"]])
def test_what_cannot_be_read_is_damage(frames: list[bytes]) -> None:
    with pytest.raises(SnapshotDamaged):
        read_notes(frames)


def test_notes_of_another_version_are_left_aside() -> None:
    other = Heading(VERSION + 1, Position(7), 5, b"", Position(3), {})
    with pytest.raises(SnapshotDamaged):
        read_notes(take_notes(Book(), other))


def test_that_there_was_a_key_is_noted_though_there_is_none_now() -> None:
    book = Book()
    book.note(Recorded(Position(1), 0, KeyCreated("k", b"digest", ("admin",))))
    kept = read_notes(take_notes(book, HEADING)).book
    assert (list(kept.keys), kept.locked) == ([b"digest"], True)
    book.note(Recorded(Position(2), 0, KeyRevoked("k")))
    kept = read_notes(take_notes(book, HEADING)).book
    assert (list(kept.keys), kept.locked) == ([], True)
    assert not read_notes(take_notes(Book(), HEADING)).book.locked


def test_keys_are_noted_with_their_times() -> None:
    book = Book()
    for place, fact in enumerate(
        (
            ExpiringKeyCreated("k", b"digest", ("admin",), expires=9),
            KeyCreated("l", b"other", ("read",)),
            KeysUsed({"l": 7}),
        ),
        start=1,
    ):
        book.note(Recorded(Position(place), 10 * place, fact))
    kept = read_notes(take_notes(book, HEADING)).book
    assert kept.keys == book.keys
    assert (kept.keys_created, kept.keys_used) == ({"k": 10, "l": 20}, {"l": 7})


class OlderKeys(msgspec.Struct, tag="keys", array_like=True):
    """A frame as versions wrote it that kept no times."""

    keys: list[KeyCreated]
    locked: bool


def test_keys_of_older_notes_have_no_times() -> None:
    key = KeyCreated("k", b"digest", ("admin",))
    heading, *_ = take_notes(Book(), HEADING)
    again = read_notes([heading, msgspec.msgpack.encode(OlderKeys([key], True))]).book
    assert (again.keys, again.locked) == ({b"digest": key}, True)
    assert (again.keys_created, again.keys_used) == ({}, {})


def test_an_older_version_does_not_read_past_keys_that_expire() -> None:
    """It would let them in after their time."""
    book = Book()
    key = ExpiringKeyCreated("k", b"digest", ("admin",), expires=9)
    book.note(Recorded(Position(1), 0, key))
    older = msgspec.msgpack.Decoder(Heading | OlderKeys)
    _, keys, expiring = take_notes(book, HEADING)
    assert older.decode(keys).keys == []
    with pytest.raises(msgspec.ValidationError):
        older.decode(expiring)


class OlderProfiles(msgspec.Struct, tag="profiles", array_like=True):
    """A frame as versions wrote it that noted no entrants."""

    profiles: list[tuple[str, str | None, dict[str, str | int | bool]]]


def test_notes_without_entrants_leave_boards_untraced() -> None:
    book = Book()
    book.note(Recorded(Position(1), 0, BoardDefined("b", DEFINITION)))
    heading, keys, board = take_notes(book, HEADING)
    older = msgspec.msgpack.encode(msgspec.msgpack.decode(board)[:-2])
    profiles = msgspec.msgpack.encode(OlderProfiles([("ann", None, {"region": "eu"})]))
    again = read_notes([heading, keys, older, profiles]).book
    assert (again.boards["b"].traced, len(again.entrants)) == (False, 0)
    assert again.profile("ann").attributes == {"region": "eu"}


def test_frames_with_entrants_are_read_by_versions_that_know_none() -> None:
    book = Book()
    book.note(Recorded(Position(1), 0, BoardDefined("b", DEFINITION)))
    book.entrants.add("ann", Position(1))
    *_, last = take_notes(book, HEADING)
    assert msgspec.msgpack.decode(last, type=OlderProfiles).profiles == []

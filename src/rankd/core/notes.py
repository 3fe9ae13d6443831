"""The codec of the state, which a snapshot stores beside the index.

The state is taken between two batches and written while work goes on, so it is copied first, and
the copy never changes: boards are few, and of players a copy of the dictionary is enough, for
profiles are replaced, never changed.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import msgspec

from rankd.core.book import BoardPage, Book, Open, Profile, Sealed, Terms
from rankd.core.entrants import Entrants
from rankd.errors import SnapshotDamaged
from rankd.model.board import Board
from rankd.model.facts import (
    ExpiringKeyCreated,
    KeyCreated,
    OpenWindow,
    Position,
    WrongTime,
)
from rankd.model.window import Instant, Window
from rankd.ports import Ranking

VERSION = 1

PLAYERS_PER_FRAME = 4_096
"""Encoding so many holds the interpreter for about a millisecond."""


class Heading(msgspec.Struct, tag="heading", array_like=True):
    """Which moment of which ledger is noted."""

    version: int
    checkpoint: Position
    at: Instant
    link: bytes
    """The ledger's hash chain there: a snapshot of another ledger is told by it."""
    profiled_at: Position
    owed: dict[int, bytes]


class NotedKeys(msgspec.Struct, tag="keys", array_like=True):
    """The keys."""

    keys: list[KeyCreated]
    locked: bool
    created: dict[str, Instant] = {}
    used: dict[str, Instant] = {}


class NotedExpiringKeys(msgspec.Struct, tag="expiring_keys", array_like=True):
    """Keys that expire.

    A frame of its own, and only where there are any: a version that knows no expiry must not read
    past it.
    """

    keys: list[ExpiringKeyCreated]


class NotedSealed(msgspec.Struct, array_like=True):
    """A closed window."""

    window: str
    name: str
    start: Instant | None
    end: Instant | None
    definition: dict[str, Any]
    through: Position
    at: Instant


class NotedBoard(msgspec.Struct, tag="board", array_like=True):
    """A page of the book."""

    name: str
    definition: dict[str, Any]
    since: Position
    defined_at: Position
    windows: list[OpenWindow]
    sealed: list[NotedSealed]
    earlier: list[tuple[Position, dict[str, Any]]]
    traced: bool = False
    corrected_at: Position = Position(0)


class NotedWrongTimes(msgspec.Struct, tag="wrong_times", array_like=True):
    """The stretches of the ledger whose times were corrected."""

    stretches: tuple[WrongTime, ...]


class NotedProfiles(msgspec.Struct, tag="profiles", array_like=True):
    """Some players' profiles, or some players and the boards with segments they submitted to.

    The two share a frame so that an older version, which knows no entrants, reads past them.
    """

    profiles: list[tuple[str, str | None, dict[str, str | int | bool]]]
    entrants: list[tuple[str, tuple[Position, ...]]] = []


class NotedFriends(msgspec.Struct, tag="friends", array_like=True):
    """Some players' friends."""

    friends: list[tuple[str, tuple[str, ...]]]


Frame = (
    Heading
    | NotedKeys
    | NotedExpiringKeys
    | NotedBoard
    | NotedWrongTimes
    | NotedProfiles
    | NotedFriends
)
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Frame).decode


class Noted(msgspec.Struct):
    """A decoded state, and its heading."""

    heading: Heading
    book: Book


def blank() -> Noted:
    """Return an empty book, before the first fact."""
    return Noted(Heading(VERSION, Position(0), Instant(0), b"", Position(0), {}), Book())


def take_notes(book: Book, heading: Heading) -> Iterator[bytes]:
    """Return the frames of a state as it is now. They are encoded lazily, from copies."""
    few: list[Frame] = [
        *_note_keys(book),
        *map(_note_page, book.boards.values()),
    ]
    if book.wrong_times:
        few.append(NotedWrongTimes(book.wrong_times))
    return _frames(heading, few, dict(book.profiles), dict(book.friends), book.entrants.copy())


def _frames(
    heading: Heading,
    few: Sequence[Frame],
    profiles: dict[str, Profile],
    friends: dict[str, tuple[str, ...]],
    entrants: Entrants,
) -> Iterator[bytes]:
    yield _encode(heading)
    yield from map(_encode, few)
    known = iter(profiles.items())
    while some := list(islice(known, PLAYERS_PER_FRAME)):
        yield _encode(NotedProfiles([(id, one.name, dict(one.attributes)) for id, one in some]))
    circles = iter(friends.items())
    while several := list(islice(circles, PLAYERS_PER_FRAME)):
        yield _encode(NotedFriends(several))
    entered = iter(entrants)
    while players := list(islice(entered, PLAYERS_PER_FRAME)):
        yield _encode(NotedProfiles([], players))


def _note_keys(book: Book) -> list[Frame]:
    expiring = [key for key in book.keys.values() if isinstance(key, ExpiringKeyCreated)]
    others = [key for key in book.keys.values() if not isinstance(key, ExpiringKeyCreated)]
    noted = NotedKeys(others, book.locked, dict(book.keys_created), dict(book.keys_used))
    return [noted, NotedExpiringKeys(expiring)] if expiring else [noted]


def _note_page(page: BoardPage) -> NotedBoard:
    return NotedBoard(
        page.board.name,
        page.board.definition(),
        page.since,
        page.defined_at,
        [OpenWindow(window.id, window.start, window.end) for window, *_ in page.windows.values()],
        [_note_sealed(sealed) for sealed in page.sealed.values()],
        [(position, board.definition()) for position, board in page.earlier],
        page.traced,
        page.corrected_at,
    )


def _note_sealed(sealed: Sealed) -> NotedSealed:
    window = sealed.window
    return NotedSealed(
        window.id,
        window.name,
        window.start,
        window.end,
        sealed.terms.board.definition(),
        sealed.through,
        sealed.at,
    )


def read_notes(frames: Iterable[bytes]) -> Noted:
    """Return the book that was noted. Raises SnapshotDamaged."""
    heading: Heading | None = None
    book = Book()
    try:
        for frame in map(_decode, frames):
            match frame:
                case Heading():
                    heading = frame
                case NotedKeys(keys, locked, created, used):
                    book.keys |= {key.digest: key for key in keys}
                    book.locked, book.keys_created, book.keys_used = locked, created, used
                case NotedExpiringKeys(keys):
                    book.keys |= {key.digest: key for key in keys}
                case NotedBoard():
                    book.boards[frame.name] = _read_page(frame)
                case NotedWrongTimes(stretches):
                    book.wrong_times = stretches
                case NotedProfiles(profiles, entrants):
                    book.profiles |= {id: Profile(name, known) for id, name, known in profiles}
                    living = {page.since for page in book.boards.values()} if entrants else ()
                    book.entrants.update(entrants, living)
                case NotedFriends(friends):
                    book.friends |= dict(friends)
    except msgspec.MsgspecError as exc:
        raise SnapshotDamaged(f"the notes beside the index cannot be read: {exc}") from exc
    if heading is None or heading.version != VERSION:
        raise SnapshotDamaged("the notes beside the index are of another version")
    book.profiled_at = heading.profiled_at
    return Noted(heading, book)


def _read_page(noted: NotedBoard) -> BoardPage:
    page = BoardPage(Board.define(noted.name, noted.definition), noted.since)
    page.defined_at, page.traced = noted.defined_at, noted.traced
    page.corrected_at = noted.corrected_at
    page.earlier = [(at, Board.define(noted.name, before)) for at, before in noted.earlier]
    windows: list[Open] = [page.opened(window) for window in noted.windows]
    page.windows = {opened.window.name: opened for opened in windows}
    for one in noted.sealed:
        window = Window(one.name, one.window, one.start, one.end)
        terms = page.terms
        if one.definition != noted.definition:
            terms = Terms(Board.define(noted.name, one.definition))
        ranking = Ranking(noted.name, one.window)
        page.sealed[one.window] = Sealed(window, ranking, terms, one.through, one.at)
    return page

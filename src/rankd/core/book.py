"""What the facts so far say of boards, windows and players: the small half of the fold's state.

The large half, who is where in which ranking, is the index. The two are folded from the same facts
in the same order, but the book is small enough to be kept by every process, and quick enough to
be asked for every submission.

Nothing here is decided: the book only remembers what a fact says happened.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from rankd.errors import UnknownBoard, UnknownWindow
from rankd.model.board import Board, Scores
from rankd.model.facts import (
    Attributes,
    BoardDefined,
    BoardRetired,
    Fact,
    FriendsSet,
    PlayerErased,
    PlayerProfiled,
    Position,
    Recorded,
    WindowOpened,
    WindowSealed,
)
from rankd.model.order import Order
from rankd.model.standing import TieRule
from rankd.model.window import Instant, Window
from rankd.ports import Ranking, Shape


class Sealed(NamedTuple):
    """A closed window, readable as long as it is kept."""

    window: Window
    through: Position
    """Where it was sealed: no later fact is in it."""


class BoardPage:
    """One board's page of the book."""

    __slots__ = ("board", "defined_at", "order", "sealed", "shape", "windows")

    def __init__(self, board: Board, defined_at: Position) -> None:
        self.board = board
        self.defined_at = defined_at
        self.order = Order.of(board)
        self.shape = Shape(self.order.key_bytes, dense=board.ties is TieRule.DENSE)
        self.windows: dict[str, Window] = {}
        """The open ones, by the name of their recurrence, in the order of the definition."""
        self.sealed: dict[str, Sealed] = {}
        """The closed ones, by id, oldest first."""

    def ranking(self, window: Window, segment: str | None = None) -> Ranking:
        """Return the name of a ranking of this board."""
        return Ranking(self.board.name, window.id, segment)

    def key(self, scores: Scores, position: Position) -> bytes:
        """Return the order key of an entry that reached these scores at this position."""
        return self.order.key(scores, position)

    def scores(self, order_key: bytes | None) -> Scores | None:
        """Return the scores of an entry, None where there is none."""
        return None if order_key is None else self.order.scores(order_key)

    def recurrence_ends(self, now: Instant) -> Iterator[Window]:
        """Yield the open windows whose time is over."""
        for window in self.windows.values():
            if window.end is not None and window.end <= now:
                yield window

    def find_window(self, text: str | None, now: Instant) -> Window:
        """Return the window a reader means: ``daily``, ``daily:-1``, ``daily:2026-11-14``.

        None is ``all`` or, on a board without it, the first window of its definition.
        """
        if text is None:
            names = [recurrence.name for recurrence in self.board.windows]
            text = "all" if "all" in names else names[0]
        name = text.partition(":")[0]
        if (current := self.windows.get(text)) is not None:
            return current
        for recurrence in self.board.windows:
            if recurrence.name == name:
                try:
                    return self._known(recurrence.resolve(text, now), text)
                except ValueError as exc:  # Not an id of this recurrence, or of any time.
                    raise UnknownWindow(board=self.board.name, window=text) from exc
        raise UnknownWindow(board=self.board.name, window=text)

    def _known(self, window: Window, text: str) -> Window:
        if window.id in self.sealed or self.windows.get(window.name) == window:
            return window
        raise UnknownWindow(board=self.board.name, window=text)


class Profile(NamedTuple):
    """What is known of a player."""

    name: str | None
    attributes: Mapping[str, str | int | bool]


_NOBODY = Profile(None, {})


class Book:
    """Every board, and every player of whom more is known than an id."""

    def __init__(self) -> None:
        self.boards: dict[str, BoardPage] = {}
        self.profiles: dict[str, Profile] = {}
        self.friends: dict[str, tuple[str, ...]] = {}

    def page(self, board: str) -> BoardPage:
        """Return a board's page. Raises UnknownBoard."""
        page = self.boards.get(board)
        if page is None:
            raise UnknownBoard(board)
        return page

    def profile(self, player: str) -> Profile:
        """Return what is known of a player; of most, nothing."""
        return self.profiles.get(player, _NOBODY)

    def segments(self, page: BoardPage, player: str) -> list[str]:
        """Return the segments of a board that a player is in."""
        if not page.board.segments or player not in self.profiles:
            return []
        return segments_of(page.board, self.profiles[player].attributes)

    def note_attributes(self, player: str, attributes: Attributes) -> None:
        """Take over what a submission says of a player, beside what was known."""
        known = self.profile(player)
        self.profiles[player] = Profile(known.name, {**known.attributes, **attributes})

    def note(self, recorded: Recorded) -> None:
        """Remember what a fact says. Submissions say nothing to the book."""
        self._note(recorded.fact, recorded.position)

    def _note(self, fact: Fact, position: Position) -> None:
        match fact:
            case BoardDefined():
                self._define(fact, position)
            case BoardRetired():
                self.boards.pop(fact.board, None)
            case WindowOpened():
                self._open(fact)
            case WindowSealed():
                self._seal(fact, position)
            case PlayerProfiled():
                self.profiles[fact.player] = Profile(fact.name, fact.attributes or {})
            case FriendsSet():
                self.friends[fact.player] = fact.friends
            case PlayerErased():
                self.profiles.pop(fact.player, None)
                self.friends.pop(fact.player, None)
            case _:
                pass

    def _define(self, fact: BoardDefined, position: Position) -> None:
        page = BoardPage(Board.define(fact.board, fact.definition), position)
        if (before := self.boards.get(fact.board)) is not None:
            page.windows, page.sealed = before.windows, before.sealed
        self.boards[fact.board] = page

    def _open(self, fact: WindowOpened) -> None:
        page = self.boards[fact.board]
        name = fact.window.partition(":")[0]
        opened = {**page.windows, name: Window(name, fact.window, fact.start, fact.end)}
        names = [recurrence.name for recurrence in page.board.windows]
        page.windows = {name: opened[name] for name in names if name in opened}

    def _seal(self, fact: WindowSealed, position: Position) -> None:
        page = self.boards[fact.board]
        name = fact.window.partition(":")[0]
        window = page.windows.get(name)
        if window is not None and window.id == fact.window:
            del page.windows[name]
            page.sealed[fact.window] = Sealed(window, position)


def segments_of(board: Board, attributes: Mapping[str, str | int | bool]) -> list[str]:
    """Return the segments of a board that a player with these attributes is in."""
    return [f"{name}:{_shown(attributes[name])}" for name in board.segments if name in attributes]


def _shown(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

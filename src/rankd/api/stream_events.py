"""Events of streams, encoded once for all subscribers that see the same.

A ``Version`` is the content of a view at one position: its rows, each as the JSON of a page. The
event for a subscriber is the difference between the version that it has and the newest one;
subscribers with the same version get the same bytes.
"""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType

from rankd import schemas
from rankd.model.facts import Position
from rankd.model.window import WindowState

EventName = Literal["state", "change", "overtaken", "window", "error"]

MESSAGES_MAX = 64
"""Cached messages of one event, by the subscription's id."""

RowKey = str | int
"""The player of a row; the ordinal rank of one that is hidden to the reader."""

KEEP_ALIVE = b"2\r\n:\n\r\n"
"""A comment, as a chunk."""

LAST_CHUNK = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    """Return a chunk of a response without a length."""
    return b"%x\r\n%b\r\n" % (len(data), data)


class StreamEvent:
    """One event, with its encodings."""

    __slots__ = ("_chunk", "_messages", "data", "name", "position")

    def __init__(self, name: EventName, position: Position, data: bytes) -> None:
        self.name = name
        self.position = position
        self.data = data
        """A JSON object that begins with its position."""
        self._chunk = b""
        self._messages: dict[bytes, bytes] = {}

    @property
    def text(self) -> bytes:
        """The event as server-sent text."""
        return b"id: %d\nevent: %b\ndata: %b\n\n" % (
            self.position,
            self.name.encode(),
            self.data,
        )

    @property
    def chunk(self) -> bytes:
        """The same as a chunk of a response."""
        if not self._chunk:
            self._chunk = chunk(self.text)
        return self._chunk

    def message(self, id: bytes) -> bytes:
        """Return the event as a message for a subscription, whose id is JSON."""
        known = self._messages.get(id)
        if known is None:
            if len(self._messages) >= MESSAGES_MAX:
                self._messages.clear()
            begin = b'{"id":%b,"event":"%b",' % (id, self.name.encode())
            known = self._messages[id] = begin + self.data[1:]
        return known


class ViewHead(NamedTuple):
    """The part of a state that is no row."""

    board: str
    window: str
    segment: str | None
    top: int
    player: str | None
    around: int | None
    window_state: WindowState
    opens_at: str | None


class Version:
    """A view at one position. Immutable but for the position up to which it held."""

    __slots__ = ("_changes", "_state", "head", "position", "rows", "stale", "through", "total")

    def __init__(
        self,
        position: Position,
        head: ViewHead,
        total: int,
        rows: dict[RowKey, bytes],
        *,
        stale: bool,
    ) -> None:
        self.position = self.through = position
        self.head = head
        self.total = total
        self.stale = stale
        self.rows = rows
        """The JSON of each row, in order."""
        self._state: StreamEvent | None = None
        self._changes: dict[Version, StreamEvent] = {}

    def equals(self, other: "Version") -> bool:
        """Whether a reader could not tell the two apart but by their positions."""
        same = self.total == other.total and self.stale == other.stale and self.head == other.head
        return same and self.rows == other.rows

    def holds_at(self, position: Position) -> bool:
        """Whether it is the content of the view at a position."""
        return self.position <= position <= self.through

    @property
    def state(self) -> StreamEvent:
        """The event with all of it, at the last position at which it is known to hold."""
        if self._state is None or self._state.position != self.through:
            self._state = StreamEvent("state", self.through, self._full())
        return self._state

    def event_since(self, before: "Version | None") -> StreamEvent | None:
        """Return the event for a subscriber that has another version; None if it is this one."""
        if before is self:
            return None
        if before is None or not _is_same_view(before.head, self.head):
            return self.state
        known = self._changes.get(before)
        if known is None or known.position != self.through:
            known = StreamEvent("change", self.through, self._change(before))
            self._changes[before] = known
        return known

    def forget_changes(self) -> None:
        """Drop the cached differences, and with them the versions before."""
        self._changes = {}

    def _full(self) -> bytes:
        head = self.head
        return schemas.encode(
            schemas.StreamState(
                position=self.through,
                resumed=False,
                board=head.board,
                window=head.window,
                segment=head.segment,
                top=head.top,
                player=UNSET if head.player is None else head.player,
                around=UNSET if head.around is None else head.around,
                total=self.total,
                as_of=self.through,
                stale=self.stale,
                standings=[Raw(row) for row in self.rows.values()],  # type: ignore[misc]
                state=head.window_state,
                opens_at=_or_unset(head.opens_at),
            )
        )

    def _change(self, before: "Version") -> bytes:
        known = before.rows
        hidden = any(type(key) is int for key in (*known, *self.rows))
        rows = [
            row
            for key, row in self.rows.items()
            if known.get(key) != row or (hidden and type(key) is int)
        ]
        left = [key for key in known if key not in self.rows and type(key) is str]
        parts = (
            b'{"position":%d,"total":%d,"stale":' % (self.through, self.total),
            b"true" if self.stale else b"false",
            b',"rows":[',
            b",".join(rows),
            b'],"left":',
            schemas.encode(left),
            b"}",
        )
        return b"".join(parts)


def _or_unset(text: str | None) -> str | UnsetType:
    return UNSET if text is None else text


def _is_same_view(one: ViewHead, other: ViewHead) -> bool:
    """Whether a change leads from one to the other: neither the window nor its state differs."""
    return one == other


_rows = msgspec.json.Decoder(list[Raw]).decode


def split_rows(rows: bytes) -> list[bytes]:
    """Return the rows of a JSON array, each as it is."""
    return [bytes(row) for row in _rows(rows)]


def keyed_rows(
    players: Sequence[str], places: Iterable[int], rows: Sequence[bytes]
) -> dict[RowKey, bytes]:
    """Return rows by player; those without one by their place."""
    each = zip(players, places, rows, strict=True)
    return {player or place: row for player, place, row in each}

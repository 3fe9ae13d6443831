"""Streams in the client: typed events, and a board that is put together from them.

A lost connection is opened again from the last event on. The service answers with the
change since or, if it does not know that, with a new state.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal

import msgspec

from rankd import schemas
from rankd.client.calls import Call
from rankd.client.serialization import body_of, path_of, reader_of
from rankd.http_client import HttpResponse

Event = schemas.StreamState | schemas.StreamChange | schemas.Overtaken | schemas.WindowChanged
"""An event of a stream."""

SILENCE_SECONDS = 60.0
"""Without a byte for so long, a connection counts as lost: the service sends comments more often.
"""

EVENT_BYTES_MAX = 64 << 20
"""Of one event."""


_read_ticket = reader_of(schemas.TicketBody)


def _decoder(kind: type[Event]) -> Callable[[str], Event]:
    return msgspec.json.Decoder(kind, float_hook=Decimal).decode


_DECODERS: dict[str, Callable[[str], Event]] = {
    "state": _decoder(schemas.StreamState),
    "change": _decoder(schemas.StreamChange),
    "overtaken": _decoder(schemas.Overtaken),
    "window": _decoder(schemas.WindowChanged),
}


class EventParser:
    """Reads events from server-sent text as it arrives."""

    def __init__(self) -> None:
        self._data = b""

    def feed(self, data: bytes) -> Iterator[Event]:
        """Yield the events that these bytes complete. Raises msgspec.MsgspecError."""
        *blocks, self._data = (self._data + data).split(b"\n\n")
        for block in blocks:
            fields = dict(_fields(block.decode()))
            decode = _DECODERS.get(fields.get("event", ""))
            if decode is not None and "data" in fields:
                yield decode(fields["data"])


def read_events(parts: Iterable[bytes]) -> Iterator[Event]:
    """Yield the events of a response as its parts arrive."""
    reader = EventParser()
    for part in parts:
        yield from reader.feed(part)


def _fields(block: str) -> Iterator[tuple[str, str]]:
    for line in block.split("\n"):
        name, _, value = line.partition(":")
        if name:  # A comment begins with a colon.
            yield name, value.removeprefix(" ")


def ticket(board: str | None = None) -> Call[schemas.TicketBody]:
    """Return a ticket for one stream, for a browser. A key that is for some boards names one."""
    return Call(
        method="POST", path="/v1/tickets", read=_read_ticket, body=body_of(board=board), names={}
    )


def stream(  # noqa: PLR0913 - which part of which ranking
    board: str,
    *,
    top: int | None = None,
    player: str | None = None,
    around: int | None = None,
    window: str | None = None,
    segment: str | None = None,
    ticket: str | None = None,
) -> Call[HttpResponse]:
    """Yield the state of the top of a board, and then each change, without end.

    With ``player`` the stream has that player too, with ``around`` neighbours either side, and
    tells when it is overtaken. Once it has begun, a lost connection is opened again and resumed,
    however long that takes; only a refusal ends it. ``LiveBoard`` puts the events together.
    """
    path = path_of(
        "/v1/boards/{}/stream",
        board,
        top=top,
        player=player,
        around=around,
        window=window,
        segment=segment,
        ticket=ticket,
    )
    names = {"board": board, "window": window, "player": player}
    return Call(
        method="GET",
        path=path,
        read=lambda answer: answer,
        headers={"accept": "text/event-stream"},
        names=names,
    )


def resumed(call: Call[HttpResponse], position: int | None) -> Call[HttpResponse]:
    """Return a call that goes on after a position."""
    if position is None:
        return call
    headers = {**call.headers, "last-event-id": str(position)}
    return Call(
        method=call.method, path=call.path, read=call.read, headers=headers, names=call.names
    )


class LiveBoard:
    """A part of a board as it is now, put together from the events of a stream."""

    def __init__(self) -> None:
        self.position: int | None = None
        """Where it is true; None before the first event."""
        self.total = 0
        self.window = ""
        self.segment: str | None = None
        self.state = "open"
        """Of the window."""
        self.stale = False
        self.top = 0
        """How many of the best it has; behind them is the followed player with its neighbours."""
        self._rows: dict[str, schemas.Row] = {}
        self._hidden: list[schemas.Row] = []

    def apply(self, event: Event) -> bool:
        """Take an event; return whether the board differs."""
        self.position = event.position
        if isinstance(event, schemas.StreamState):
            self.total, self.stale, self.top = event.total, event.stale, event.top
            self.window, self.segment, self.state = event.window, event.segment, event.state
            self._rows.clear()
            self._put(event.standings)
            return True
        if isinstance(event, schemas.StreamChange):
            self.total, self.stale = event.total, event.stale
            for player in event.left:
                self._rows.pop(player, None)
            self._put(event.rows)
            return True
        return False

    def _put(self, rows: Sequence[schemas.Row]) -> None:
        """Take rows. Those of hidden players, which have no id, are always all of them."""
        self._hidden = [row for row in rows if row.player is None]
        self._rows.update({row.player: row for row in rows if row.player is not None})

    @property
    def rows(self) -> list[schemas.Row]:
        """All standings, best first."""
        return sorted([*self._rows.values(), *self._hidden], key=place_of)

    @property
    def standings(self) -> list[schemas.Row]:
        """The best ``top``."""
        return [row for row in self.rows if place_of(row) <= self.top]


def place_of(row: schemas.Row) -> int:
    """Return the unique place of a row."""
    return row.rank if isinstance(row.ordinal, msgspec.UnsetType) else row.ordinal

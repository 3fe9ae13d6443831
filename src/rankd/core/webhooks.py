"""Webhooks in the state: where events are posted to, and up to which position each got its own."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from rankd.model.facts import (
    BoardDefined,
    BoardRedefined,
    DeliveryRecord,
    Fact,
    OpenWindow,
    Position,
    WebhookProgress,
    WebhookSet,
    WindowOpened,
    WindowSealed,
    WindowSettled,
)
from rankd.model.window import Instant

WINDOW_EVENTS: dict[type[Fact], str] = {
    WindowOpened: "window.opened",
    WindowSealed: "window.sealed",
    WindowSettled: "window.final",
}
HELD_EVENT = "review.held"
EVENTS = (*WINDOW_EVENTS.values(), "reward.given", "reward.withdrawn", HELD_EVENT)
"""The names of all events."""

DEFINITION = "definition"
PLACES = {DEFINITION: ("window.sealed", "window.opened")}
"""The events of places in the state that may have several kinds of them."""

EVENTS_KEPT_MAX = 100_000
"""Places of events of windows in the state, some ten megabytes. Older events are looked for in the
ledger again, for webhooks that are so far behind."""

DELIVERIES_KEPT_MAX = 100
"""Deliveries of each webhook that are listed."""

EVENTS_DROPPED = EVENTS_KEPT_MAX // 10
"""So many are dropped at once."""


class Event(NamedTuple):
    """An event: its name, and the position of the fact that it is about."""

    position: Position
    name: str
    board: str
    row: int | None = None
    """Its place among the events of its fact, counted from 0; None if that has no other."""

    @property
    def id(self) -> str:
        """Its id, the same at each delivery."""
        return f"evt_{self.position}" if self.row is None else f"evt_{self.position}_{self.row}"


class Webhook(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An address that events are posted to, in the order of the ledger."""

    name: str
    url: str
    events: tuple[str, ...]
    boards: tuple[str, ...] | None
    """None for all boards."""
    secret: bytes
    created: Position
    changed: Position
    """Where it was set or rewound last: progress from before that no longer counts."""
    cursor: Position
    """Every event up to here was delivered, as far as that is recorded."""
    failing_since: Instant | None = None
    """When the first of the failed tries was, after which none succeeded."""
    stopped: bool = False
    """Whether it was given up, until it is set or rewound again."""
    part: tuple[Position, int] = (Position(0), 0)
    """A position behind the cursor, and how many of its events were delivered."""

    def wants(self, event: str, board: str) -> bool:
        """Whether an event of a board is for it."""
        return event in self.events and (self.boards is None or board in self.boards)

    @classmethod
    def of(cls, fact: WebhookSet, before: "Webhook | None", at: Position) -> "Webhook":
        """Return a webhook as it was set. One that is there keeps its secret and its place."""
        boards = None if fact.boards is None else tuple(fact.boards)
        if before is None:
            secret = fact.secret or b""
            return cls(fact.name, fact.url, fact.events, boards, secret, at, at, at)
        kept = (before.secret, before.created, at, before.cursor)
        return cls(fact.name, fact.url, fact.events, boards, *kept, part=before.part)

    def rewound(self, after: Position, at: Position) -> "Webhook":
        """Return the webhook before the events that follow a position."""
        fresh = {"failing_since": None, "stopped": False, "part": (Position(0), 0)}
        return msgspec.structs.replace(self, changed=at, cursor=after, **fresh)

    def advanced(self, progress: WebhookProgress) -> "Webhook":
        """Return the webhook as far as it got."""
        return msgspec.structs.replace(
            self,
            cursor=progress.cursor,
            failing_since=progress.failing_since,
            stopped=progress.stopped,
            part=progress.part,
        )


class Lease(NamedTuple):
    """The node that delivers for all, and until when no other one may begin to."""

    node: str
    until: Instant


def deliveries_after(
    before: Sequence[DeliveryRecord], later: Sequence[DeliveryRecord]
) -> tuple[DeliveryRecord, ...]:
    """Return the last deliveries of a webhook once some were tried, or tried again."""
    tried = {(one.position, one.row) for one in later}
    known = (
        one for one in before if one.state == "delivered" or (one.position, one.row) not in tried
    )
    return (*known, *later)[-DELIVERIES_KEPT_MAX:]


def turned_by(fact: BoardDefined) -> tuple[Sequence[str], Sequence[OpenWindow]]:
    """Return the ids of the windows that a definition closes, and the windows it opens."""
    if not isinstance(fact, BoardRedefined):
        return (), fact.windows
    return fact.closed, [one for one in fact.windows if one.window in fact.opened]


def place_of(fact: BoardDefined, *, first: bool) -> str | None:
    """Return the name under which the state notes the place of a definition's events, if any."""
    if first or isinstance(fact, BoardRedefined):
        return DEFINITION if any(turned_by(fact)) else None
    return None

"""Webhooks in the state: where events are posted to, and up to which position each got its own."""

from typing import NamedTuple

import msgspec

from rankd.model.facts import (
    Fact,
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
EVENTS = (*WINDOW_EVENTS.values(), HELD_EVENT)
"""The names of all events."""

EVENTS_KEPT_MAX = 100_000
"""Places of events of windows in the state, some ten megabytes. Older events are looked for in the
ledger again, for webhooks that are so far behind."""

EVENTS_DROPPED = EVENTS_KEPT_MAX // 10
"""So many are dropped at once."""


class Event(NamedTuple):
    """An event: its name, and the position of the fact that it is about."""

    position: Position
    name: str
    board: str


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
        return cls(fact.name, fact.url, fact.events, boards, *kept)

    def rewound(self, after: Position, at: Position) -> "Webhook":
        """Return the webhook before the events that follow a position."""
        fresh = {"failing_since": None, "stopped": False}
        return msgspec.structs.replace(self, changed=at, cursor=after, **fresh)

    def advanced(self, progress: WebhookProgress) -> "Webhook":
        """Return the webhook as far as it got."""
        return msgspec.structs.replace(
            self,
            cursor=progress.cursor,
            failing_since=progress.failing_since,
            stopped=progress.stopped,
        )


class Lease(NamedTuple):
    """The node that delivers for all, and until when no other one may begin to."""

    node: str
    until: Instant

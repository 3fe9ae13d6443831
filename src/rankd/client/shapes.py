"""The shapes of the wire as they are read.

Most are those of ``rankd.wire``. Here are the ones with ``metadata``, which is read as the plain
value it is, and the few that the service keeps to itself.
"""

from typing import Any

import msgspec

from rankd import wire


class Row(wire.Row, gc=False, kw_only=True):
    """A standing in a list."""

    metadata: Any


class Page(wire.Page, gc=False, kw_only=True):
    """Consecutive standings of one ranking."""

    standings: list[Row]  # type: ignore[assignment]


class Standing(wire.Standing, gc=False, kw_only=True):
    """One player's standing."""

    metadata: Any


class Found(wire.Found, gc=False, kw_only=True):
    """Some players' standings, ranked among themselves."""

    standings: list[Row]  # type: ignore[assignment]


class HistoryItem(wire.HistoryItem, kw_only=True, omit_defaults=True):
    """One of a player's facts on a board."""

    metadata: Any = None


class History(wire.History, gc=False, kw_only=True):
    """A player's facts on a board, newest first."""

    facts: list[HistoryItem]  # type: ignore[assignment]


class WindowPreview(wire.WindowPreview, kw_only=True):
    """One window as it is and as it would be."""

    top: list[Row]  # type: ignore[assignment]
    top_after: list[Row]  # type: ignore[assignment]


class Preview(wire.Preview, kw_only=True):
    """What redefining a board would change, or did."""

    windows: list[WindowPreview]  # type: ignore[assignment]


class Key(msgspec.Struct, omit_defaults=True):
    """A key as it is listed."""

    id: str
    scopes: list[str]
    boards: list[str] | None
    title: str | None
    key: str | None = None
    """The key itself: told once, when it is made."""


class Keys(msgspec.Struct):
    """Every key there is."""

    keys: list[Key]


class Problem(msgspec.Struct):
    """What the service answers instead of what was asked for."""

    status: int
    detail: str
    code: str
    request_id: str | None = None
    applied: str | None = None
    errors: list[wire.WrongField] | None = None


class Polled(msgspec.Struct):
    """A page that was asked for again and again."""

    page: Page | None
    """None if it is the one that is known already."""
    etag: str | None
    """Give it with the next call."""

"""The few shapes of the wire that ``rankd.wire`` does not have: those that only clients read."""

import msgspec

from rankd import wire


class Key(msgspec.Struct, omit_defaults=True):
    """A key as it is listed."""

    id: str
    scopes: list[str]
    boards: list[str] | None
    title: str | None
    created: str | None = None
    last_used: str | None = None
    expires: str | None = None
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

    page: wire.Page | None
    """None if it is the one that is known already."""
    etag: str | None
    """Give it with the next call."""

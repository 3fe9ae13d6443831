"""JSON schemas that only clients read, in addition to ``rankd.schemas``."""

import msgspec

from rankd import schemas


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
    """The secret: returned once, when the key is created."""


class Keys(msgspec.Struct):
    """All keys."""

    keys: list[Key]


class Problem(msgspec.Struct):
    """The body of an error response."""

    status: int
    detail: str
    code: str
    request_id: str | None = None
    applied: str | None = None
    errors: list[schemas.WrongField] | None = None


class PolledPage(msgspec.Struct):
    """The result of polling a page."""

    page: schemas.Page | None
    """None if it has not changed."""
    etag: str | None
    """Pass it to the next call."""

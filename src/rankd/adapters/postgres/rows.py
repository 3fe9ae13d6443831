"""Row of a fact: readable columns for SQL, exact bytes for the ledger, the change of its player.

The ledger reads only the bytes; the columns repeat them for SQL, and ``verify`` checks that they
agree. Fields that many kinds share are columns of their own. The rest is JSON in ``details``:
without absent and default values, and with U+0000, which PostgreSQL's text cannot hold, replaced.

No node knows the latest profile of a player while others append. So each sends changes, as JSON,
and the server merges them into its table under the head's lock (``rankd.change_players``), without
knowing the kinds of facts.

The hash chain covers the bytes alone. Each link is the SHA-256 of the link before, the first and
the last position and the time of an append, and the digest of its facts, for which each kind and
each body is put behind its length. ``sql/migrations/0002_append.sql`` computes the same.
"""

import struct
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b, sha256
from typing import Any, NamedTuple

import msgspec

from rankd.model.facts import Fact, ProfileChange, ScoreSubmitted

GENESIS = bytes(32)
"""Link before the first append."""

CHECKSUM_BYTES = 8
"""Bytes of a receipt's checksum: enough to detect damage, not to prevent forgery."""

SCORE_RANGE = range(-(2**63), 2**63)
"""Range of a bigint."""

_PLACE = struct.Struct(">qqq")
_LENGTH = struct.Struct(">i")
_NUL, _SHOWN_NUL = b"\\u0000", b"\\ufffd"
_json = msgspec.json.Encoder(order="deterministic").encode
_change = msgspec.json.Decoder(ProfileChange).decode


class FactRow(NamedTuple):
    """Readable columns of a fact."""

    board: str | None = None
    player: str | None = None
    key: str | None = None
    scores: tuple[int, ...] | None = None
    delta: int | None = None
    window: str | None = None
    actor: str | None = None
    details: str | None = None


_NAMES = frozenset(FactRow._fields) - {"details"}
_UNSHOWN = frozenset({"defined"})
"""Fields without a column: every submission has them, and they are not queried. The bytes hold
them."""


def row_of(fact: Fact) -> FactRow:
    """Return the readable columns of a fact."""
    columns: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    defaults = _defaults(type(fact))
    for name in fact.__struct_fields__:
        value = getattr(fact, name)
        if name in _NAMES:
            columns[name] = value
        elif name in _UNSHOWN:
            pass
        elif value is not None and (name not in defaults or value != defaults[name]):
            rest[name] = value
    shown = _shown(fact, rest)
    return FactRow(
        **columns, details=_json(shown).replace(_NUL, _SHOWN_NUL).decode() if shown else None
    )


def is_plain(fact: Fact) -> bool:
    """Whether a fact is a submission without optional fields, so that its details are empty."""
    return (
        type(fact) is ScoreSubmitted
        and fact.attributes is None
        and fact.metadata is None
        and fact.build is None
        and fact.at is None
        and fact.run is None
    )


def _defaults(kind: type[Fact]) -> dict[str, Any]:
    optional = kind.__struct_fields__[-len(kind.__struct_defaults__) or None :]
    return dict(zip(optional, kind.__struct_defaults__, strict=False))


def _shown(fact: Fact, rest: dict[str, Any]) -> dict[str, Any]:
    for name in _JSON.intersection(rest):
        rest[name] = _opened(rest[name])
    for name, value in rest.items():
        if isinstance(value, msgspec.Struct):
            rest[name] = msgspec.structs.asdict(value)
        elif isinstance(value, tuple) and value and isinstance(value[0], msgspec.Struct):
            rest[name] = [msgspec.structs.asdict(each) for each in value]
    return {name: value for name, value in rest.items() if not isinstance(value, bytes | None)}


_JSON = frozenset(("metadata", "give"))
"""Fields that hold JSON as bytes."""


def _opened(metadata: bytes) -> Any:
    """Decode a client's JSON; None if it cannot be shown."""
    try:
        value = msgspec.json.decode(metadata)
        _json(value)  # Fails on a lone surrogate.
    except (ValueError, RecursionError):
        return None
    return value


# ------------------------------------------------------------------------------- hashes


def checksum(position: int, body: bytes) -> bytes:
    """Return the checksum of a receipt at a position."""
    return blake2b(position.to_bytes(8, "big") + body, digest_size=CHECKSUM_BYTES).digest()


class AppendDigest:
    """Incremental digest of the facts of one append."""

    def __init__(self) -> None:
        self._hash = sha256()

    def add(self, kind: str, body: bytes) -> None:
        """Add the next fact."""
        self._hash.update(_framed(kind.encode(), body))

    def digest(self) -> bytes:
        """Return the digest."""
        return self._hash.digest()


def digest(kinds: Iterable[str], bodies: Iterable[bytes]) -> bytes:
    """Return the digest of facts."""
    frames = [_framed(kind.encode(), body) for kind, body in zip(kinds, bodies, strict=True)]
    return sha256(b"".join(frames)).digest()


def _framed(kind: bytes, body: bytes, length: Callable[[int], bytes] = _LENGTH.pack) -> bytes:
    return length(len(kind)) + kind + length(len(body)) + body


def link(previous: bytes, *, first: int, last: int, at: int, facts: bytes) -> bytes:
    """Return the link of an append; ``facts`` is the digest of its facts."""
    return sha256(previous + _PLACE.pack(first, last, at) + facts).digest()


def without_nul(texts: Sequence[str | None]) -> Sequence[str | None]:
    """Return texts unchanged. Raises UnicodeError for U+0000, which PostgreSQL cannot store."""
    if "\0" in "".join(filter(None, texts)):
        raise UnicodeError("PostgreSQL keeps no text with U+0000 in it")
    return texts


# ---------------------------------------------------------------------- changes of players


def change_text(change: ProfileChange | None) -> str | None:
    """Return a change as JSON, without the fields that stay; None for no change."""
    if change is None:
        return None
    fields: dict[str, Any] = {}
    if change.erases:
        fields["erased"] = True
    if change.names:
        fields["name"] = change.name
    if change.attributes is not None:
        fields["merged" if change.merges else "attributes"] = change.attributes
    if change.friends is not None:
        fields["friends"] = change.friends
    return _json(fields).replace(_NUL, _SHOWN_NUL).decode()


def as_stored(change: ProfileChange) -> ProfileChange:
    """Return a change as the table shows it: PostgreSQL's text cannot hold U+0000."""
    text = _json(change)
    return _change(text.replace(_NUL, _SHOWN_NUL)) if _NUL in text else change

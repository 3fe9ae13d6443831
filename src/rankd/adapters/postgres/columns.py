"""A fact as a row: for people its fields in columns, for the ledger its exact bytes.

What is read back is the bytes; the columns say the same to whoever asks with SQL, and ``verify``
holds them to it. A few fields that many kinds have are columns of their own. The rest is JSON in
``details``: without what is absent or has its default, and with what PostgreSQL's text cannot hold
(U+0000) replaced.

The hash chain is made over the bytes alone. Each link is the SHA-256 of the link before, the first
and the last position and the time of an append, and the digest of its facts, for which each kind
and each body is put behind its length. ``sql/migrations/0002_append.sql`` computes the same.
"""

import struct
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b, sha256
from typing import Any, NamedTuple

import msgspec

from rankd.model.facts import (
    BoardDefined,
    Fact,
    FriendsSet,
    NameSet,
    PlayerErased,
    PlayerProfiled,
    ScoreSubmitted,
    WindowDropped,
    WindowOpened,
    WindowSealed,
    fingerprint,
    fingerprints,
    key_of,
)

GENESIS = bytes(32)
"""The link before the first append."""

CHECKSUM_BYTES = 8
"""Of a receipt: to find one that was changed, not to keep anybody from changing it."""

SCORE_RANGE = range(-(2**63), 2**63)
"""What a bigint holds."""

_PLACE = struct.Struct(">qqq")
_LENGTH = struct.Struct(">i")
_NUL, _SHOWN_NUL = b"\\u0000", b"\\ufffd"
_json = msgspec.json.Encoder(order="deterministic").encode
_TELLING = (PlayerProfiled, NameSet, FriendsSet, PlayerErased)


class Row(NamedTuple):
    """A fact's readable columns."""

    board: str | None = None
    player: str | None = None
    key: str | None = None
    scores: tuple[int, ...] | None = None
    delta: int | None = None
    window: str | None = None
    actor: str | None = None
    details: str | None = None


_NAMES = frozenset(Row._fields) - {"details"}
_UNSHOWN = frozenset({"defined"})
"""Every submission has it and nobody asks for it: the bytes tell."""


def row_of(fact: Fact) -> Row:
    """Return what the row of a fact shows beside its bytes."""
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
    return Row(
        **columns, details=_json(shown).replace(_NUL, _SHOWN_NUL).decode() if shown else None
    )


def is_plain(fact: Fact) -> bool:
    """Return whether this is a submission with nothing to say beside its columns."""
    return (
        type(fact) is ScoreSubmitted
        and fact.attributes is None
        and fact.metadata is None
        and fact.build is None
        and fact.at is None
        and fact.run is None
    )


def tells_of_player(fact: Fact) -> bool:
    """Return whether the table of players may change by it."""
    if type(fact) is ScoreSubmitted:
        return bool(fact.attributes)
    return isinstance(fact, _TELLING)


def name_of(fact: Fact) -> tuple[str, str] | None:
    """Return the board and the key under which a fact counts once, or None if it may repeat."""
    if type(fact) is ScoreSubmitted:
        return None if fact.key is None else (fact.board, fact.key)
    key = key_of(fact)
    if key is None:
        return None
    assert isinstance(fact, WindowOpened | WindowSealed | WindowDropped)
    return fact.board, key


def fingerprint_of(fact: Fact) -> bytes:
    """Return what tells two facts of one name apart: nothing, but for submissions."""
    return fingerprint(fact) if isinstance(fact, ScoreSubmitted) else b""


def fingerprints_of(fact: Fact) -> tuple[bytes, ...]:
    """Return all that the table of keys may say of a fact instead of it."""
    return fingerprints(fact) if isinstance(fact, ScoreSubmitted) else (b"",)


def _defaults(kind: type[Fact]) -> dict[str, Any]:
    optional = kind.__struct_fields__[-len(kind.__struct_defaults__) or None :]
    return dict(zip(optional, kind.__struct_defaults__, strict=False))


def _shown(fact: Fact, rest: dict[str, Any]) -> dict[str, Any]:
    if "metadata" in rest:
        rest["metadata"] = _opened(rest["metadata"])
    if isinstance(fact, BoardDefined) and fact.windows:
        rest["windows"] = [
            {"window": each.window, "start": each.start, "end": each.end} for each in fact.windows
        ]
    return {name: value for name, value in rest.items() if not isinstance(value, bytes | None)}


def _opened(metadata: bytes) -> Any:
    """Return what a client's JSON says, None if it cannot be shown."""
    try:
        value = msgspec.json.decode(metadata)
        _json(value)  # It may hold half a character.
    except (ValueError, RecursionError):
        return None
    return value


# ------------------------------------------------------------------------------- hashes


def checksum(position: int, body: bytes) -> bytes:
    """Return what a receipt at a position is checked by."""
    return blake2b(position.to_bytes(8, "big") + body, digest_size=CHECKSUM_BYTES).digest()


class Digest:
    """The digest of the facts of one append, taken one after another."""

    def __init__(self) -> None:
        self._hash = sha256()

    def add(self, kind: str, body: bytes) -> None:
        """Take the next fact."""
        self._hash.update(_framed(kind.encode(), body))

    def digest(self) -> bytes:
        """Return it."""
        return self._hash.digest()


def digest(kinds: Iterable[str], bodies: Iterable[bytes]) -> bytes:
    """Return the digest of facts."""
    frames = [_framed(kind.encode(), body) for kind, body in zip(kinds, bodies, strict=True)]
    return sha256(b"".join(frames)).digest()


def _framed(kind: bytes, body: bytes, length: Callable[[int], bytes] = _LENGTH.pack) -> bytes:
    return length(len(kind)) + kind + length(len(body)) + body


def link(previous: bytes, *, first: int, last: int, at: int, facts: bytes) -> bytes:
    """Return the link of an append; ``facts`` is their digest."""
    return sha256(previous + _PLACE.pack(first, last, at) + facts).digest()


def without_nul(texts: Sequence[str | None]) -> Sequence[str | None]:
    """Return texts that PostgreSQL can keep. Raises UnicodeError if one is none of these."""
    if "\0" in "".join(filter(None, texts)):
        raise UnicodeError("PostgreSQL keeps no text with U+0000 in it")
    return texts

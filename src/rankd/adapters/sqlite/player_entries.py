"""Entries of players: which fact is about which player, twelve bytes for each fact.

An entry is the first five bytes of the player's hash, five bytes of the fact's position, and the
first two of its board's hash: the board's tag, zero for a fact without a board. All numbers are big
endian, so entries that are sorted as bytes are in the order of player and position.

The hash is SipHash-1-3 under a random seed, so players' ids cannot be chosen to share one. With ten
million players, one question in a hundred thousand still meets another player's entry: a fact that
is found is read, and compared, before it is returned.

The native functions (_player_entries.pyx) are used if they were built. Otherwise, or with
RANKD_PURE=1, those below are; tests compare the two.
"""

import os
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from rankd.adapters.sqlite.blocks import Block, runs_of
from rankd.errors import LedgerCorrupt
from rankd.model.facts import FACTS, Position, decode

ENTRY_BYTES = 12
HASH_BYTES = 5
TAG_BYTES = 2
SEED_BYTES = 16

POSITION_MAX = (1 << 40) - 1
"""Last position that an entry can hold. A file of SQLite ends at 17.6 TB, which is reached before:
a fact takes some thirty bytes."""

_HASHED_MAX = 65_536
_WORD = (1 << 64) - 1
_NO_TAG = bytes(TAG_BYTES)

Buffer = bytes | bytearray | memoryview


class PlayerHash(NamedTuple):
    """The part of an entry by which a question finds it."""

    player: bytes
    board: bytes | None
    """The board's tag; None for all boards."""


class PlayerQuestion(NamedTuple):
    """A player's facts between two positions, in one direction."""

    player: str
    board: str | None
    after: Position
    before: Position
    newest_first: bool


def hash_of_player(seed: bytes, player: str, board: str | None) -> PlayerHash:
    """Return the hash and the tag of a player's entries."""
    tag = None if board is None else _tag(seed, board)
    return PlayerHash(_hash(seed, player), tag)


def bounds(wanted: PlayerHash, after: Position, before: Position) -> tuple[bytes, bytes]:
    """Return an entry that is below all of a player's between two positions, and one above."""
    low, high = min(after + 1, POSITION_MAX), min(before, POSITION_MAX)
    return wanted.player + low.to_bytes(5, "big"), wanted.player + high.to_bytes(5, "big")


class _Fields(NamedTuple):
    """Places of the board and the player in the bodies of a kind; -1 for none."""

    board: int
    player: int


def _place(fields: Sequence[str], name: str) -> int:
    return fields.index(name) if name in fields else -1


_FIELDS = {
    fact.kind: _Fields(
        _place(fact.__struct_fields__, "board"), _place(fact.__struct_fields__, "player")
    )
    for fact in FACTS
}


def entries_of(block: Block, seed: bytes) -> bytes:
    """Return the entries of a block, by position. Raises LedgerCorrupt if it cannot be read."""
    parts: list[bytes] = []
    first = block.first
    for kind, bodies in runs_of(block):
        fields = _FIELDS.get(kind)
        try:
            if fields is None:
                part, count = _entries_of_decoded(kind, bodies, first, seed)
                parts.append(part)
            else:
                count = _count(bodies)
                if fields.player >= 0:
                    parts.append(scan(bodies, *fields, first, seed))
        except (ValueError, msgspec.DecodeError) as exc:
            raise LedgerCorrupt(f"the block cannot be read: {exc}", position=first) from exc
        first = Position(first + count)
    if first != block.last + 1:
        raise LedgerCorrupt("the block has not as many facts as positions", position=block.first)
    return b"".join(parts)


def _count(bodies: msgspec.Raw) -> int:
    """Return the length of a MessagePack array."""
    head = bytes(memoryview(bodies)[:5])
    if head and head[0] & 0xF0 == 0x90:
        return head[0] & 0x0F
    if not head or head[0] not in (0xDC, 0xDD):
        raise ValueError("these are no bodies of facts")
    return int.from_bytes(head[1 : 3 if head[0] == 0xDC else 5], "big")


def _entries_of_decoded(
    kind: str, bodies: msgspec.Raw, first: Position, seed: bytes
) -> tuple[bytes, int]:
    """Decode facts of other kinds: of older versions, and those that a program has added."""
    singly = msgspec.msgpack.decode(bodies, type=list[msgspec.Raw])
    facts = [decode(kind, body) for body in singly]
    named = [(getattr(fact, "player", None), getattr(fact, "board", None)) for fact in facts]
    entries = [
        _entry(seed, player, board, position)
        for position, (player, board) in enumerate(named, first)
        if player is not None
    ]
    return b"".join(entries), len(singly)


def _entry(seed: bytes, player: str, board: str | None, position: int) -> bytes:
    tag = _NO_TAG if board is None else _tag(seed, board)
    return _hash(seed, player) + position.to_bytes(5, "big") + tag


@lru_cache(_HASHED_MAX)
def _hash(seed: bytes, player: str) -> bytes:
    return siphash(seed, player.encode()).to_bytes(8, "big")[:HASH_BYTES]


@lru_cache(_HASHED_MAX)
def _tag(seed: bytes, board: str) -> bytes:
    return siphash(seed, board.encode()).to_bytes(8, "big")[:TAG_BYTES]


# ----------------------------------------------------------------- the same in Python


def scan_plain(
    bodies: Buffer | msgspec.Raw, board_field: int, player_field: int, first: int, seed: bytes
) -> bytes:
    """Return the entries of a MessagePack array of bodies, by the places of their fields."""
    entries = []
    for position, body in enumerate(msgspec.msgpack.decode(bodies, type=list[list[object]]), first):
        player, board = _at(body, player_field), _at(body, board_field)
        if player is not None:
            entries.append(_entry(seed, player, board, position))
    return b"".join(entries)


def _at(body: list[object], field: int) -> str | None:
    value = body[field] if 0 <= field < len(body) else None
    if value is not None and not isinstance(value, str):
        raise ValueError("these are no bodies of facts")
    return value


def sort_plain(entries: Buffer) -> bytes:
    """Return entries in order; those of one player must be in the order of positions already."""
    return b"".join(sorted(_split(entries)))


def find_plain(entries: Buffer, wanted: bytes, tag: bytes | None) -> list[int]:
    """Return the positions of entries with a hash and, if one is given, a board's tag."""
    return [
        int.from_bytes(entry[5:10], "big")
        for entry in _split(entries)
        if entry[:5] == wanted and tag in (None, entry[10:])
    ]


def _split(entries: Buffer) -> list[bytes]:
    data = bytes(entries)
    return [data[start : start + ENTRY_BYTES] for start in range(0, len(data), ENTRY_BYTES)]


def siphash_plain(seed: bytes, data: bytes) -> int:
    """Return SipHash-1-3 of some bytes under a seed of 16."""
    low, high = int.from_bytes(seed[:8], "little"), int.from_bytes(seed[8:], "little")
    v = [
        low ^ 0x736F6D6570736575,
        high ^ 0x646F72616E646F6D,
        low ^ 0x6C7967656E657261,
        high ^ 0x7465646279746573,
    ]
    whole = len(data) - len(data) % 8
    rest = data[whole:] + bytes(7 - len(data) % 8) + bytes([len(data) & 0xFF])
    for start in range(0, whole + 8, 8):
        word = int.from_bytes((data[:whole] + rest)[start : start + 8], "little")
        v[3] ^= word
        _round(v)
        v[0] ^= word
    v[2] ^= 0xFF
    for _ in range(3):
        _round(v)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def _round(v: list[int]) -> None:
    a, b, c, d = v
    a = (a + b) & _WORD
    b = _rotated(b, 13) ^ a
    a = _rotated(a, 32)
    c = (c + d) & _WORD
    d = _rotated(d, 16) ^ c
    a = (a + d) & _WORD
    d = _rotated(d, 21) ^ a
    c = (c + b) & _WORD
    b = _rotated(b, 17) ^ c
    v[:] = a, b, _rotated(c, 32), d


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> (64 - bits)) & _WORD


if TYPE_CHECKING or os.environ.get("RANKD_PURE", "") not in ("", "0"):
    scan, sort, find, siphash = scan_plain, sort_plain, find_plain, siphash_plain
else:
    try:
        from rankd.adapters.sqlite._player_entries import find, scan, siphash, sort
    except ImportError:
        scan, sort, find, siphash = scan_plain, sort_plain, find_plain, siphash_plain

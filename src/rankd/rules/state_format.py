"""The bytes of a saved state of rules: heading, players, histogram, checksum; little-endian.

======================  ==========================================================================
heading                 magic, version, score rule, direction, fields, bytes of a slot of gains and
                        of counts, number of players, number of buckets
each player             length of the id (2 bytes), id, row as in ``conditions``
each bucket with scores number (2 bytes), scores in it (8 bytes); in ascending order
checksum                CRC-32 of all before it
======================  ==========================================================================
"""

import zlib
from collections.abc import Sequence
from struct import Struct
from typing import Protocol

from rankd.rules.conditions import SCORE_RULES, Field, Layout

VERSION = 1

BUCKETS = 1_009
"""One for scores of 0 or less, then sixteen for every doubling up to 2**63."""

_MAGIC = b"RKRS"
_HEADING = Struct("<4sBBBBBBxxQI")
_CHECKSUM = Struct("<I")
BUCKET = Struct("<HQ")


class Saved(Protocol):
    """A state of rules: the parts that its bytes depend on."""

    @property
    def rule_of_board(self) -> str:
        """The board's score rule."""

    @property
    def higher_wins(self) -> bool:
        """Whether higher scores are better."""

    @property
    def layout(self) -> Layout:
        """The fields of a row."""


def seal(state: Saved, players: int, body: bytes, buckets: Sequence[tuple[int, int]]) -> bytes:
    """Return the bytes of a state from those of its players and its histogram."""
    heading = _HEADING.pack(_MAGIC, VERSION, *_kind(state), players, len(buckets))
    data = b"".join((heading, body, *(BUCKET.pack(*bucket) for bucket in buckets)))
    return data + _CHECKSUM.pack(zlib.crc32(data))


def unseal(state: Saved, data: bytes) -> tuple[int, bytes, list[tuple[int, int]]]:
    """Return the number of players, their bytes, and the histogram.

    Raises ValueError if the bytes are damaged, or are those of a state with other fields.
    """
    if len(data) < _HEADING.size + _CHECKSUM.size or data[:4] != _MAGIC:
        raise ValueError("these are not the bytes of a state of rules")
    end = len(data) - _CHECKSUM.size
    if _CHECKSUM.unpack_from(data, end) != (zlib.crc32(data[:end]),):
        raise ValueError("the saved state of rules is damaged: its checksum differs")
    _, version, *kind, players, buckets = _HEADING.unpack_from(data)
    if version != VERSION:
        raise ValueError(f"the saved state of rules has version {version}, not {VERSION}")
    if tuple(kind) != _kind(state):
        raise ValueError("the saved state is that of other rules")
    start = end - buckets * BUCKET.size
    if start < _HEADING.size:
        raise ValueError("the saved state of rules ends early")
    return players, data[_HEADING.size : start], _read_buckets(state, data[start:end])


def _kind(state: Saved) -> tuple[int, ...]:
    layout = state.layout
    rule = SCORE_RULES.index(state.rule_of_board)
    return rule, int(state.higher_wins), layout.fields, layout.gain_bytes, layout.count_bytes


def _read_buckets(state: Saved, data: bytes) -> list[tuple[int, int]]:
    buckets = [(int(number), int(count)) for number, count in BUCKET.iter_unpack(data)]
    numbers = [number for number, _ in buckets]
    if buckets and not state.layout.fields & Field.HISTOGRAM:
        raise ValueError("the saved state of rules has a histogram that its rules do not need")
    if sorted(set(numbers)) != numbers or not all(number < BUCKETS for number in numbers):
        raise ValueError("the saved histogram is not in order")
    if not all(count > 0 for _, count in buckets) or sum(dict(buckets).values()) >= 2**63:
        raise ValueError("the saved histogram has no scores in a bucket, or too many")
    return buckets

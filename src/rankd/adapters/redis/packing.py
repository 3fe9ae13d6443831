"""What goes to a script and what comes back, few arguments each: every one costs redis-py time.

Numbers and text go as MessagePack. Its decoder in Redis knows no bytes, so those lie end to end in
one argument of their own, beside a list of their lengths.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

_encode = msgspec.msgpack.Encoder().encode
_numbers = msgspec.msgpack.Decoder(list[int]).decode

ABSENT = -1
"""The length of a string that is not there."""


class Packed(NamedTuple):
    """The arguments of a script."""

    head: bytes
    strings: bytes


def pack(head: Sequence[Any], strings: Sequence[bytes] = ()) -> Packed:
    """Return a script's arguments."""
    return Packed(_encode([*head, [*map(len, strings)]]), b"".join(strings))


class Answer(NamedTuple):
    """What a script answered, to be read in the order in which it was said."""

    status: str
    at: int
    """The position of the partition."""
    pending: int | None
    """Where an apply leads of which some pieces are taken."""
    numbers: Iterator[int]
    strings: Iterator[bytes | None]
    reason: str = ""


def unpack(reply: Sequence[Any]) -> Answer:
    """Read a reply."""
    status = reply[0].decode()
    at = int(reply[1]) if len(reply) > 1 else 0
    if status not in ("ok", "again"):
        reason = reply[2].decode() if len(reply) > 2 else ""
        return Answer(status, at, None, iter(()), iter(()), reason)
    pending = int(reply[5]) if len(reply) > 5 and reply[5] else None
    strings = _parted(reply[4], _numbers(reply[3]))
    return Answer(status, at, pending, iter(_numbers(reply[2])), strings)


def _parted(joined: bytes, lengths: Sequence[int]) -> Iterator[bytes | None]:
    start = 0
    for length in lengths:
        if length == ABSENT:
            yield None
        else:
            yield joined[start : start + length]
            start += length

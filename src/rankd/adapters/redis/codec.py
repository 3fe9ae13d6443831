"""Arguments and replies of the scripts, in few values: redis-py spends time on each of them.

Numbers and text are sent as MessagePack. Its decoder in Redis has no type for bytes, so byte
strings are concatenated in one argument of their own, with a list of their lengths.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

_encode = msgspec.msgpack.Encoder().encode
_numbers = msgspec.msgpack.Decoder(list[int]).decode

ABSENT = -1
"""Length that stands for an absent string."""


class ScriptArgs(NamedTuple):
    """The arguments of a script."""

    head: bytes
    strings: bytes


def pack(head: Sequence[Any], strings: Sequence[bytes] = ()) -> ScriptArgs:
    """Encode a script's arguments."""
    return ScriptArgs(_encode([*head, [*map(len, strings)]]), b"".join(strings))


class ScriptReply(NamedTuple):
    """Reply of a script. Its numbers and strings are consumed in the order of the query."""

    status: str
    at: int
    """Position of the partition."""
    pending: int | None
    """Target position of an apply that is partly taken; None if there is none."""
    numbers: Iterator[int]
    strings: Iterator[bytes | None]
    reason: str = ""


def unpack(reply: Sequence[Any]) -> ScriptReply:
    """Decode a reply."""
    status = reply[0].decode()
    at = int(reply[1]) if len(reply) > 1 else 0
    if status not in ("ok", "again"):
        reason = reply[2].decode() if len(reply) > 2 else ""
        return ScriptReply(status, at, None, iter(()), iter(()), reason)
    pending = int(reply[5]) if len(reply) > 5 and reply[5] else None
    strings = _parted(reply[4], _numbers(reply[3]))
    return ScriptReply(status, at, pending, iter(_numbers(reply[2])), strings)


def _parted(joined: bytes, lengths: Sequence[int]) -> Iterator[bytes | None]:
    start = 0
    for length in lengths:
        if length == ABSENT:
            yield None
        else:
            yield joined[start : start + length]
            start += length

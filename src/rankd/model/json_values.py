"""JSON that is kept as bytes: the metadata of a submission, the gift of a reward."""

from decimal import Decimal
from math import isfinite

import msgspec

JSON_INTEGER_MIN, JSON_INTEGER_MAX = -(2**63), 2**64 - 1
"""The 64-bit range, signed or unsigned: JSON readers round larger numbers, each in its own way."""

JSON_DEPTH_MAX = 32
"""Deeper than any honest table, and far from overflowing a JSON reader's stack."""

# Decimals are written as numbers: a JSON reader that loses no digits returns these.
_encode = msgspec.json.Encoder(order="deterministic", decimal_format="number").encode


def encode_json(value: object, *, bytes_max: int) -> bytes | None:
    """Return a value as JSON with sorted keys; None if it is too long or has no one meaning."""
    try:
        encoded = _encode(value)
    except (TypeError, ValueError, RecursionError):
        return None
    return encoded if len(encoded) <= bytes_max and _is_json(value) else None


def json_form(bytes_max: int) -> str:
    """Return the message of an error that tells which JSON is accepted."""
    accepted = f"at most {bytes_max} bytes and {JSON_DEPTH_MAX} levels"
    return f"must be JSON of {accepted}, whole numbers of 64 bits at most, no U+0000"


def _is_json(value: object) -> bool:
    """Whether this has one meaning in JSON for every reader, and every store can hold it.

    An encoder is more obliging: it turns NaN into null. PostgreSQL keeps no U+0000.
    """
    level: list[object] = [value]
    for _ in range(JSON_DEPTH_MAX):
        below: list[object] = []
        for item in level:
            match item:
                case dict() if all(isinstance(name, str) for name in item):
                    below += item.keys()
                    below += item.values()
                case list():
                    below += item
                case float() | Decimal() if isfinite(item):
                    pass
                case None | bool():
                    pass
                case int() if JSON_INTEGER_MIN <= item <= JSON_INTEGER_MAX:
                    pass
                case str() if "\x00" not in item:
                    pass
                case _:
                    return False
        if not below:
            return True
        level = below
    return False

"""Answers of a version that only hid the erased, as they are where erasures redact facts.

A redaction is a fact of its own behind the erasure, so that every later position is greater. Facts
that were redacted, and entries of the erased player, have no personal data any more.
"""

import re
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Any, NamedTuple
from zlib import crc32

POSITIONS = ("as_of", "defined", "next_after", "next_before", "position", "since")
"""Fields that have a position, in answers and in the bodies of facts."""

CURSORS = ("next_cursor", "prev_cursor")

PERSONAL = {
    "score_submitted": ("at", "attributes", "metadata"),
    "player_profiled": ("attributes", "name"),
    "attributes_set": ("attributes", "name"),
    "name_set": ("name",),
    "friends_set": ("friends",),
}
"""Of the facts about a player, the fields that a redaction empties."""

_HEAD = struct.Struct(">BI")
"""Of a cursor: its version, and the checksum of the rest."""

_INVERTED = 2**63
"""The last word of an order key is a position, or 0; from here on the bits are turned."""


class Erasures(NamedTuple):
    """The erasures that redacted facts."""

    redactions: tuple[int, ...] = ()
    """The positions of the facts that other versions do not have, in order."""
    erased: Mapping[str, int] = {}
    """Of the erased players, the position up to which their facts are redacted."""

    @classmethod
    def of(cls, facts: list[dict[str, Any]]) -> "Erasures":
        """Return the erasures whose redactions are in an audit trail.

        The redactions of an erasure stand right behind it: elsewhere other facts would differ.
        """
        last: dict[int, int] = {}
        for fact in facts:
            through = fact["body"]["through"]
            assert fact["position"] == last.get(through, through) + 1, fact
            last[through] = fact["position"]
        redactions = tuple(fact["position"] for fact in facts)
        return cls(redactions, {fact["player"]: fact["body"]["through"] for fact in facts})

    def position(self, old: int) -> int:
        """Return the position today of the fact that had this one."""
        for redaction in self.redactions:
            old += redaction <= old
        return old

    def cursor(self, old: str) -> str:
        """Return the cursor that leads on from the same entry."""
        raw = urlsafe_b64decode(old + "=" * (-len(old) % 4))
        version, _ = _HEAD.unpack_from(raw)
        end = _HEAD.size + 10 + raw[_HEAD.size + 9]  # Behind the order key, whose length is told.
        word = int.from_bytes(raw[end - 8 : end])
        flip = 2**64 - 1 if word >= _INVERTED else 0
        word = word and self.position(word ^ flip) ^ flip
        body = raw[_HEAD.size : end - 8] + word.to_bytes(8) + raw[end:]
        return urlsafe_b64encode(_HEAD.pack(version, crc32(body)) + body).decode().rstrip("=")

    def path(self, old: str) -> str:
        """Return the path that asks for the same."""
        return re.sub(r"(?<=[?&]cursor=)[\w-]+", lambda found: self.cursor(found[0]), old)

    def body(self, old: Any) -> Any:
        """Return the body of the same answer."""
        if isinstance(old, list):
            return [self.body(one) for one in old]
        if not isinstance(old, dict):
            return old
        body = {name: self._field(name, value) for name, value in old.items()}
        if body.get("player") in self.erased and "metadata" in body and "rank" in body:
            body["metadata"] = None
        return self._fact(body) if "kind" in body and "body" in body else body

    def _field(self, name: str, value: Any) -> Any:
        if value is None or name == "metadata":
            return value
        if name in POSITIONS and isinstance(value, int):
            return self.position(value)
        return self.cursor(value) if name in CURSORS else self.body(value)

    def _fact(self, fact: dict[str, Any]) -> dict[str, Any]:
        """Return a fact of the audit trail without personal data, if it was redacted."""
        if fact["position"] > self.erased.get(fact["player"], 0):
            return fact
        emptied = PERSONAL.get(fact["kind"], ())
        left = {name: value for name, value in fact["body"].items() if name not in emptied}
        return {**fact, "body": left}

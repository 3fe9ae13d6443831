"""Player table as the facts define it, for ``verify`` to compare.

The server maintains the table in the transaction of the facts (``rankd.project``). This is the same
fold in Python.
"""

from typing import NamedTuple

import msgspec

from rankd.model.facts import Attributes, Position, ProfileChange


class PostgresPlayerRow(NamedTuple):
    """Row of a player. Its JSON is compared as text, because in Python ``True`` equals 1."""

    name: str | None
    attributes: str
    friends: str
    position: Position
    """Position of the last fact that changed it."""


_load = msgspec.json.Decoder(Attributes).decode
_dump = msgspec.json.Encoder(order="deterministic").encode


def fold(
    players: dict[str, PostgresPlayerRow], position: Position, change: ProfileChange | None
) -> None:
    """Apply the next change to the players."""
    if change is None:
        return
    if change.erases:
        players.pop(change.player, None)
        return
    before = players.get(change.player)
    known = before or PostgresPlayerRow(None, "{}", "[]", position)
    after = _after(known, change)
    if before is None or after[:3] != known[:3]:
        players[change.player] = after._replace(position=position)


def _after(known: PostgresPlayerRow, change: ProfileChange) -> PostgresPlayerRow:
    """Return a row after a change, with the position that it had."""
    name, attributes, friends, position = known
    if change.attributes is not None:
        attributes = _text(change.attributes_after(_load(attributes)))
    if change.friends is not None:
        friends = _text(change.friends)
    return PostgresPlayerRow(change.name_after(name), attributes, friends, position)


def _text(value: object) -> str:
    """Return JSON as the server shows it, which cannot hold U+0000."""
    return _dump(value).decode().replace("\\u0000", "\ufffd")

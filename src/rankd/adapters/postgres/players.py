"""Player table as the facts define it, for ``verify`` to compare.

The server maintains the table in the transaction of the facts (``rankd.project``). This is the same
fold in Python.
"""

from typing import Any, NamedTuple

import msgspec

from rankd.adapters.postgres.rows import row_of, tells_of_player
from rankd.model.facts import (
    AttributesSet,
    Fact,
    FriendsSet,
    NameSet,
    PlayerErased,
    PlayerProfiled,
    Position,
    ScoreSubmitted,
)


class PostgresPlayerRow(NamedTuple):
    """Row of a player. Its JSON is compared as text, because in Python ``True`` equals 1."""

    name: str | None
    attributes: str
    friends: str
    position: Position
    """Position of the last fact that changed it."""


class ProfileRowChange(NamedTuple):
    """Change of a player made by a fact, as its row shows it."""

    fact: Fact
    player: str
    details: dict[str, Any]


_load = msgspec.json.Decoder(dict[str, Any]).decode
_dump = msgspec.json.Encoder(order="deterministic").encode


def told_by(fact: Fact) -> ProfileRowChange | None:
    """Return the change that a fact makes to its player; None if it makes none."""
    if not tells_of_player(fact):
        return None
    row = row_of(fact)
    assert row.player is not None
    return ProfileRowChange(fact, row.player, _load(row.details or "{}"))


def fold(
    players: dict[str, PostgresPlayerRow], position: Position, told: ProfileRowChange | None
) -> None:
    """Apply the next change to the players."""
    if told is None:
        return
    if isinstance(told.fact, PlayerErased):
        players.pop(told.player, None)
        return
    before = players.get(told.player)
    known = before or PostgresPlayerRow(None, "{}", "[]", position)
    after = _after(known, told)
    if before is None or after[:3] != known[:3]:
        players[told.player] = after._replace(position=position)


def _after(known: PostgresPlayerRow, told: ProfileRowChange) -> PostgresPlayerRow:
    details = told.details
    if isinstance(told.fact, ScoreSubmitted):
        return known._replace(attributes=_text(_load(known.attributes) | details["attributes"]))
    if isinstance(told.fact, NameSet):
        return known._replace(name=details.get("name"))
    if isinstance(told.fact, PlayerProfiled):
        after = known._replace(attributes=_text(details.get("attributes", {})))
        kept = isinstance(told.fact, AttributesSet)
        return after if kept else after._replace(name=details.get("name"))
    assert isinstance(told.fact, FriendsSet)
    return known._replace(friends=_text(details["friends"]))


def _text(value: object) -> str:
    return _dump(value).decode()

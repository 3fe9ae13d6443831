"""Rows of the tables of players: names, attributes and friends, folded from changes of profiles.

The tables in SQLite and PostgreSQL have the same columns. Changes that leave a profile as it is do
not touch its row: a game may send a player's region with every score, and the row is written only
when the region differs.
"""

from collections.abc import Sequence
from typing import NamedTuple, Self, TypeAlias

import msgspec

from rankd.model.facts import Attributes, Position, Profile, ProfileChange

Changes: TypeAlias = Sequence[tuple[Position, ProfileChange]]

_attributes = msgspec.json.Decoder(Attributes).decode
_friends = msgspec.json.Decoder(tuple[str, ...]).decode
_json = msgspec.json.Encoder(order="deterministic").encode


class StoredPlayer(NamedTuple):
    """Row of a player. Its JSON is compared as text, because in Python ``True`` equals 1."""

    player: str
    name: str | None
    attributes: str
    friends: str
    position: Position
    """Position of the last fact that changed it."""

    def profile(self) -> Profile:
        """Return the profile of a row."""
        friends = () if self.friends == "[]" else _friends(self.friends)
        return Profile(self.name, _attributes(self.attributes), friends)

    def changed(self, change: ProfileChange, position: Position) -> Self | None:
        """Return the row after a change at a position; None for none."""
        before = self.profile()
        after = change.applied(before)
        if after is None:
            return None
        attributes, friends = self.attributes, self.friends
        if after.attributes is not before.attributes:
            attributes = _json(after.attributes).decode()
        if after.friends is not before.friends:
            friends = _json(after.friends).decode()
        return type(self)(self.player, after.name, attributes, friends, position)


def fold(players: dict[str, StoredPlayer], changes: Changes) -> None:
    """Apply the changes to the players, in order."""
    for position, change in changes:
        before = players.get(change.player)
        known = before or StoredPlayer(change.player, None, "{}", "[]", position)
        after = known.changed(change, position)
        if after is None:
            players.pop(change.player, None)
        elif before is None or after[:4] != before[:4]:
            players[change.player] = after

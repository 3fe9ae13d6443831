"""Player table: names, attributes and friends, folded from the facts.

The table ``players`` is a projection of the facts, for queries with SQLite. It is written in the
transaction of the facts, so it is never behind them nor ahead, and ``verify`` folds the facts again
and compares.

Facts that change nothing do not touch a row: a game may send a player's region with every score,
and the row is written only when the region differs.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

import apsw
import msgspec

from rankd.adapters.sqlite.queries import QUERIES, fetch
from rankd.model.facts import (
    Attributes,
    AttributesSet,
    Fact,
    FriendsSet,
    NameSet,
    PlayerErased,
    PlayerProfiled,
    Position,
    ScoreSubmitted,
)

PlayerFact: TypeAlias = ScoreSubmitted | PlayerProfiled | NameSet | FriendsSet | PlayerErased
Changes: TypeAlias = Sequence[tuple[Position, PlayerFact]]


class SQLitePlayerRow(NamedTuple):
    """Row of a player. Its JSON is compared as text, because in Python ``True`` equals 1."""

    player: str
    name: str | None
    attributes: str
    friends: str
    position: Position
    """Position of the last fact that changed it."""


_TELLING = (ScoreSubmitted, PlayerProfiled, NameSet, FriendsSet, PlayerErased)
_attributes = msgspec.json.Decoder(Attributes).decode
_as_json = msgspec.json.Encoder(order="deterministic").encode


def changes(facts: Sequence[Fact], *, first: Position) -> Changes:
    """Return the facts that may change a player, with their positions."""
    return [
        (Position(position), fact)
        for position, fact in enumerate(facts, first)
        if (type(fact) is not ScoreSubmitted or fact.attributes) and isinstance(fact, _TELLING)
    ]


def fold(players: dict[str, SQLitePlayerRow], changes: Changes) -> None:
    """Apply the changes to the players, in order."""
    for position, fact in changes:
        if isinstance(fact, PlayerErased):
            players.pop(fact.player, None)
            continue
        before = players.get(fact.player)
        known = before or SQLitePlayerRow(fact.player, None, "{}", "[]", position)
        told = _told(known, fact)
        if before is None or told != known[1:4]:
            players[fact.player] = SQLitePlayerRow(fact.player, *told, position)


def _told(
    known: SQLitePlayerRow, fact: ScoreSubmitted | PlayerProfiled | NameSet | FriendsSet
) -> tuple[str | None, str, str]:
    """Return name, attributes and friends after a fact."""
    _, name, attributes, friends, _ = known
    if type(fact) is ScoreSubmitted:
        return name, _merged(attributes, fact.attributes or {}), friends
    if type(fact) is NameSet:
        return fact.name, attributes, friends
    if type(fact) is AttributesSet:
        return name, _text(fact.attributes or {}), friends
    if type(fact) is PlayerProfiled:
        return fact.name, _text(fact.attributes or {}), friends
    assert type(fact) is FriendsSet
    return name, attributes, _text(fact.friends)


def _merged(known: str, told: Attributes) -> str:
    return _text(_attributes(known) | told)


def _text(value: object) -> str:
    return _as_json(value).decode()


def project(database: apsw.Connection, changes: Changes) -> None:
    """Update the table, within the transaction of the facts."""
    if not changes:
        return
    touched = {fact.player for _, fact in changes}
    before = _rows_of(database, touched)
    after = dict(before)
    fold(after, changes)
    written = [row for player, row in after.items() if before.get(player) is not row]
    database.executemany(QUERIES["put_player"], [row._asdict() for row in written])
    gone = before.keys() - after.keys()
    database.executemany(QUERIES["remove_player"], [{"player": player} for player in gone])


def _rows_of(database: apsw.Connection, players: Iterable[str]) -> dict[str, SQLitePlayerRow]:
    rows = fetch(database, QUERIES["find_players"], players=_text(sorted(players)))
    return {row[0]: SQLitePlayerRow(*row) for row in rows}

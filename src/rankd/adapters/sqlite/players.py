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
from rankd.model.facts import Attributes, Fact, Position, ProfileChange

Changes: TypeAlias = Sequence[tuple[Position, ProfileChange]]


class SQLitePlayerRow(NamedTuple):
    """Row of a player. Its JSON is compared as text, because in Python ``True`` equals 1."""

    player: str
    name: str | None
    attributes: str
    friends: str
    position: Position
    """Position of the last fact that changed it."""


_attributes = msgspec.json.Decoder(Attributes).decode
_as_json = msgspec.json.Encoder(order="deterministic").encode


def changes(facts: Sequence[Fact], *, first: Position) -> Changes:
    """Return the changes that facts make to players, with their positions."""
    return [
        (Position(position), change)
        for position, fact in enumerate(facts, first)
        if (change := fact.profile_change()) is not None
    ]


def fold(players: dict[str, SQLitePlayerRow], changes: Changes) -> None:
    """Apply the changes to the players, in order."""
    for position, change in changes:
        if change.erases:
            players.pop(change.player, None)
            continue
        before = players.get(change.player)
        known = before or SQLitePlayerRow(change.player, None, "{}", "[]", position)
        after = _after(known, change)
        if before is None or after[:4] != known[:4]:
            players[change.player] = after._replace(position=position)


def _after(known: SQLitePlayerRow, change: ProfileChange) -> SQLitePlayerRow:
    """Return a row after a change, with the position that it had."""
    attributes, friends = known.attributes, known.friends
    if change.attributes is not None:
        attributes = _text(change.attributes_after(_attributes(attributes)))
    if change.friends is not None:
        friends = _text(change.friends)
    name = change.name_after(known.name)
    return known._replace(name=name, attributes=attributes, friends=friends)


def _text(value: object) -> str:
    return _as_json(value).decode()


def project(database: apsw.Connection, changes: Changes) -> None:
    """Update the table, within the transaction of the facts."""
    touched = {change.player for _, change in changes}
    before = _rows_of(database, touched)
    news = {
        change.player for _, change in changes if not _repeats(before.get(change.player), change)
    }
    after = dict(before)
    fold(after, [change for change in changes if change[1].player in news])
    written = [row for player, row in after.items() if before.get(player) is not row]
    database.executemany(QUERIES["put_player"], [row._asdict() for row in written])
    gone = before.keys() - after.keys()
    database.executemany(QUERIES["remove_player"], [{"player": player} for player in gone])


def _repeats(known: SQLitePlayerRow | None, change: ProfileChange) -> bool:
    """Whether a submission brings the attributes that its player has, as most do."""
    return (
        known is not None
        and change.merges
        and not change.names
        and change.friends is None
        and known.attributes == _text(change.attributes)
    )


def _rows_of(database: apsw.Connection, players: Iterable[str]) -> dict[str, SQLitePlayerRow]:
    rows = fetch(database, QUERIES["find_players"], players=_text(sorted(players)))
    return {row[0]: SQLitePlayerRow(*row) for row in rows}

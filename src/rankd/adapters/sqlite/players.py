"""Player table: names, attributes and friends, folded from the facts.

The table ``players`` is a projection of the facts, for queries with SQLite. It is written in the
transaction of the facts, so it is never behind them nor ahead, and ``verify`` folds the facts again
and compares.
"""

from collections.abc import Iterable, Sequence, Set

import apsw
import msgspec

from rankd.adapters.player_rows import Changes, StoredPlayer, fold
from rankd.adapters.sqlite.queries import QUERIES, fetch
from rankd.model.facts import Fact, Position, ProfileChange
from rankd.ports import PlayersWithNews

_as_json = msgspec.json.Encoder(order="deterministic").encode


def changes(
    facts: Sequence[Fact], *, first: Position, news_in: PlayersWithNews | None = None
) -> Changes:
    """Return the changes that facts make to players, with their positions.

    Those of players without ``news_in`` the facts are left out: to look into the table for each
    costs 3 us.
    """
    if news_in is None:
        return _changes_of(facts, first, None)
    touched = news_in(facts)
    return _changes_of(facts, first, touched) if touched else ()


def _changes_of(facts: Sequence[Fact], first: Position, players: Set[str] | None) -> Changes:
    return [
        (Position(position), change)
        for position, fact in enumerate(facts, first)
        if (players is None or getattr(fact, "player", None) in players)
        and (change := fact.profile_change()) is not None
    ]


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


def _repeats(known: StoredPlayer | None, change: ProfileChange) -> bool:
    """Whether a submission brings the attributes that its player has, as most do."""
    return (
        known is not None
        and change.merges
        and not change.names
        and change.friends is None
        and known.attributes == _as_json(change.attributes).decode()
    )


def _rows_of(database: apsw.Connection, players: Iterable[str]) -> dict[str, StoredPlayer]:
    rows = fetch(database, QUERIES["find_players"], players=_as_json(sorted(players)).decode())
    return {row[0]: StoredPlayer(*row) for row in rows}

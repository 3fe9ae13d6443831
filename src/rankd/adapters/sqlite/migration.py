"""Schema upgrade from the file's version to this program's, one version at a time.

A step is its SQL (``sql/migrations``) and, if rows have to be derived from the facts, a function
here. Both run in one transaction, with the version number, so that an interrupted step leaves no
trace.
"""

from collections.abc import Callable

import apsw

from rankd.adapters.sqlite.blocks import blocks_after, unpack
from rankd.adapters.sqlite.players import changes, project
from rankd.adapters.sqlite.queries import MIGRATIONS, QUERIES, SCHEMA_VERSION
from rankd.adapters.sqlite.recent_keys import hash_of
from rankd.model.facts import Position, is_submission

APPLICATION_ID = 0x72616E6B
"""``rank`` in ASCII: marks an SQLite file as a ledger of rankd."""


def migrate(database: apsw.Connection) -> None:
    """Upgrade the schema to the newest version, each step completely or not at all."""
    for version in range(database.pragma("user_version") + 1, SCHEMA_VERSION + 1):
        database.execute("BEGIN IMMEDIATE")
        try:
            database.execute(MIGRATIONS[version])
            _FILLED.get(version, _nothing)(database)
            database.pragma("user_version", version)
            database.pragma("application_id", APPLICATION_ID)
            database.execute("COMMIT")
        except BaseException:
            if database.in_transaction:
                database.execute("ROLLBACK")
            raise


def _nothing(_database: apsw.Connection) -> None:
    pass


def _fill_players(database: apsw.Connection) -> None:
    """Fill the player table from the facts, and rehash the keys of windows, which have grown."""
    for block in blocks_after(database, Position(0)):
        facts = unpack(block)
        if changed := changes(facts, first=block.first):
            project(database, changed)
        for position, fact in enumerate(facts, block.first):
            name = None if is_submission(fact) else fact.identity()
            if name is not None:
                board, key = name
                old = hash_of(board, key.rpartition(":")[0])
                new = hash_of(board, key)
                row = {"old": old, "new": new, "position": position}
                database.execute(QUERIES["rename_key"], row)


_FILLED: dict[int, Callable[[apsw.Connection], None]] = {2: _fill_players}

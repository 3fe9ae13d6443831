"""The ledger in one file: SQLite, with nothing else to install or to run.

In the order in which they are best read:

    block.py         facts as bytes, many at a time, and the links of the hash chain
    keys.py          the name under which a fact counts once
    players.py       who the players are, as a table
    ledger.py        the port's promises: one lane that writes, one that reads
    lane.py          a thread with a connection of its own
    verification.py  proof that the file holds what was written to it
    backup.py        a second copy, made while the first goes on
    following.py     the ledger as another process writes it
    transcription.py a second copy of that
    closed.py        the ledger while no process has it open, read without a write
    database.py      the file and its folder: lock, pragmas, schema, and the vendor's errors
    migration.py     from an older schema to this one
    statements.py    the queries of sql/queries.sql by their names, and how to ask them
"""

from rankd.adapters.sqlite.ledger import SQLiteLedger

__all__ = ["SQLiteLedger"]

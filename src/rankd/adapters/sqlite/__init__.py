"""Ledger in one SQLite file, for a single process, with no server.

Suggested reading order:

    blocks.py        facts as bytes, many per row, and the links of the hash chain
    recent_keys.py   keys on their way into the key table
    players.py       player table, folded from the facts
    ledger.py        the Ledger port: one database thread that writes, one that reads
    verification.py  check of the file against the hash chain and the facts
    backup.py        copy made by the writing process, while it appends, or by a reader
    read_only.py     reader of a ledger that another process writes, or none
    spool.py         submissions on disk while a remote ledger is unreachable
    database.py      file and folder: lock, pragmas, connections, their threads, and errors
    migration.py     schema upgrade
    queries.py       queries of sql/queries.sql by name, and the migrations
"""

from rankd.adapters.sqlite.ledger import SQLiteLedger

__all__ = ["SQLiteLedger"]

"""Ledger in PostgreSQL, for several processes that append concurrently.

Suggested reading order:

    sql/migrations      tables and views, and the append as the server executes it
    rows.py             a fact as readable columns, and the bytes that are hashed
    players.py          player table, folded from the facts
    batch.py            arguments and reply of an append
    bulk_append.py      bulk copy from another ledger
    ledger.py           the Ledger port, and recovery of an append whose reply was lost
    connection.py       connection that reopens itself, used by one task at a time
    health.py           server health, shared by all connections
    notifications.py    notifications of other processes' appends
    history.py          check that a server has the ledger seen so far
    archive.py          archived windows and top lists
    state_snapshots.py  snapshots of the state for nodes that start
    verification.py     check of all tables against the hash chain and the facts
    database.py         address, durability checks, and connecting
    migration.py        schema upgrade, with other processes doing the same
    doctor.py           server checks for ``rankd doctor``
    errors.py           translation of PostgreSQL's and the driver's errors
    queries.py          queries of sql/queries.sql by name, and the migrations
"""

from rankd.adapters.postgres.connection import Timeouts
from rankd.adapters.postgres.doctor import examine, insist_on_begun, times
from rankd.adapters.postgres.ledger import PostgresLedger

__all__ = ["PostgresLedger", "Timeouts", "examine", "insist_on_begun", "times"]

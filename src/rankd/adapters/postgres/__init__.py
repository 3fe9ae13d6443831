"""Ledger in PostgreSQL, for several processes that append concurrently.

Suggested reading order:

    sql/migrations      tables and views, and the append as the server executes it
    rows.py             a fact as readable columns, and the bytes that are hashed
    players.py          player table, folded from the facts
    batch.py            arguments and reply of an append
    bulk_append.py      bulk copy from another ledger
    ledger.py           the Ledger port, and recovery of an append whose reply was lost
    connection.py       connection that reopens itself; the server's health and history
    notifications.py    notifications of other processes' appends
    archive.py          archived windows, top lists, and snapshots of the state
    verification.py     check of all tables against the hash chain and the facts
    database.py         address, connecting, durability checks, queries, schema upgrade, errors
    doctor.py           server checks for ``rankd doctor``
"""

from rankd.adapters.postgres.connection import Timeouts
from rankd.adapters.postgres.doctor import examine, insist_on_begun, times
from rankd.adapters.postgres.ledger import PostgresLedger

__all__ = ["PostgresLedger", "Timeouts", "examine", "insist_on_begun", "times"]

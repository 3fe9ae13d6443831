"""The ledger in PostgreSQL: for several processes that append at once.

In the order in which they are best read:

    sql/migrations   the tables, for whoever asks with SQL, and an append as the server does it
    columns.py       a fact as a row that can be read, and as bytes that are hashed
    players.py       who the players are, as the facts tell
    batch.py         what an append sends, and what its answer means
    copying.py       facts of another ledger, taken over as they are
    ledger.py        the port's promises, and what becomes of an append whose answer is lost
    line.py          a connection that comes back by itself, used by one after another
    listening.py     being told of what others append
    verification.py  proof that the tables hold what was written to them
    database.py      where the database is, what it must promise, and a connection to it
    migration.py     from an older schema to this one, while others do the same
    examination.py   what a server is like, for the doctor
    failures.py      what the vendor's errors mean
    statements.py    the queries of sql/queries.sql by their names, and the schema's history
"""

from rankd.adapters.postgres.examination import examine, insist_on_begun, times
from rankd.adapters.postgres.ledger import PostgresLedger
from rankd.adapters.postgres.line import Patience

__all__ = ["Patience", "PostgresLedger", "examine", "insist_on_begun", "times"]

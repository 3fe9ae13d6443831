"""Real PostgreSQL for the tests of the ledger on it: durable as it must be, and quick all the same.

The data lies in a folder in memory, where a sync costs nothing, so that fsync can be on, as the
ledger insists. Each test has a schema of its own.
"""

import contextlib
from collections.abc import Iterator, Mapping
from itertools import count

from tests.not_tested import not_tested
from tests.simulation.power_loss import scratch_folder

from rankd.testing.servers import (
    Pooler,
    PostgresServer,
    ServerMissing,
    pgbouncer,
    pgbouncer_binary,
    postgres_server,
)

_schemas = count(1)


@contextlib.contextmanager
def postgres(options: Mapping[str, str] | None = None) -> Iterator[PostgresServer]:
    """Run a durable PostgreSQL in memory."""
    settings = {"max_connections": "200", **(options or {})}
    with (
        scratch_folder() as folder,
        postgres_server(durable=True, folder=folder, options=settings) as server,
    ):
        yield server


@contextlib.contextmanager
def pooled(server: PostgresServer) -> Iterator[Pooler]:
    """Run a PgBouncer before it. Where there is none, the test is skipped, and says so."""
    try:
        pgbouncer_binary()
    except ServerMissing as missing:
        not_tested("the ledger behind a pooler", missing)
    with pgbouncer(server) as pooler:
        yield pooler


def new_ledger(url: str) -> str:
    """Return the URL of a ledger that nobody has opened yet."""
    return f"{url}?schema=ledger_{next(_schemas)}"

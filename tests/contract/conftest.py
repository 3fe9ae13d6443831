"""Ledgers in the PostgreSQL that all tests of a process share, directly and behind a pooler."""

from collections.abc import Iterator

import pytest
from tests.simulation.postgres_servers import pooled

from rankd.testing.servers import Pooler, PostgresServer


@pytest.fixture
def server(shared_postgres: PostgresServer) -> PostgresServer:
    return shared_postgres


@pytest.fixture(scope="session")
def pooler(shared_postgres: PostgresServer) -> Iterator[Pooler]:
    with pooled(shared_postgres) as pooler:
        yield pooler

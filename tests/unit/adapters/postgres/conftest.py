"""Ledgers in the PostgreSQL that all tests of a process share."""

import pytest

from rankd.testing.servers import PostgresServer


@pytest.fixture
def server(shared_postgres: PostgresServer) -> PostgresServer:
    return shared_postgres

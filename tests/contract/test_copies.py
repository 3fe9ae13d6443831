"""Copies of the state keep their promises, in memory and in PostgreSQL."""

from collections.abc import AsyncIterator

import pytest
from tests.simulation.postgres_servers import new_ledger

from rankd.adapters.memory.archive import MemoryStateSnapshots
from rankd.adapters.postgres import PostgresLedger
from rankd.adapters.postgres.archive import PostgresStateSnapshots
from rankd.ports import StateSnapshots
from rankd.testing.contracts import CopiesContract
from rankd.testing.servers import PostgresServer

_: tuple[type[StateSnapshots], ...] = (
    MemoryStateSnapshots,
    PostgresStateSnapshots,
)  # mypy sees whether they are.


class TestMemoryCopies(CopiesContract):
    @pytest.fixture
    def copies(self) -> StateSnapshots:
        return MemoryStateSnapshots()


class TestPostgresCopies(CopiesContract):
    @pytest.fixture
    async def copies(self, server: PostgresServer) -> AsyncIterator[StateSnapshots]:
        async with PostgresLedger.open(new_ledger(server.url)) as ledger:
            yield ledger.copies

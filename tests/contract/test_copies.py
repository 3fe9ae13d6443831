"""Copies of the book keep their promises, in memory and in PostgreSQL."""

from collections.abc import AsyncIterator, Iterator

import pytest
from tests.simulation.postgres_servers import new_ledger, postgres

from rankd.adapters.memory.copies import MemoryCopies
from rankd.adapters.postgres import PostgresLedger
from rankd.adapters.postgres.books import PostgresCopies
from rankd.ports import Copies
from rankd.testing.contracts import CopiesContract
from rankd.testing.servers import PostgresServer

_: tuple[type[Copies], ...] = (MemoryCopies, PostgresCopies)  # mypy sees whether they are.


class TestMemoryCopies(CopiesContract):
    @pytest.fixture
    def copies(self) -> Copies:
        return MemoryCopies()


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres() as server:
        yield server


class TestPostgresCopies(CopiesContract):
    @pytest.fixture
    async def copies(self, server: PostgresServer) -> AsyncIterator[Copies]:
        async with PostgresLedger.open(new_ledger(server.url)) as ledger:
            yield ledger.copies

"""What is kept of standings beside the ledger, in memory and in PostgreSQL, keeps its promises."""

from collections.abc import AsyncIterator

import pytest
from tests.simulation.postgres_servers import new_ledger

from rankd.adapters.memory.archive import MemoryArchive
from rankd.adapters.postgres import PostgresLedger
from rankd.ports import Archive, TopLists
from rankd.testing.contracts import StandingsContract
from rankd.testing.servers import Pooler, PostgresServer

_: list[type[Archive]] = [MemoryArchive, PostgresLedger]  # mypy sees whether they fit.
__: list[type[TopLists]] = [MemoryArchive, PostgresLedger]


class TestMemoryStandings(StandingsContract):
    @pytest.fixture
    def kept(self) -> MemoryArchive:
        return MemoryArchive()


class TestPostgresStandings(StandingsContract):
    @pytest.fixture
    async def kept(self, server: PostgresServer) -> AsyncIterator[PostgresLedger]:
        async with PostgresLedger.open(new_ledger(server.url)) as ledger:
            yield ledger


class TestPooledPostgresStandings(StandingsContract):
    @pytest.fixture
    async def kept(self, pooler: Pooler) -> AsyncIterator[PostgresLedger]:
        async with PostgresLedger.open(new_ledger(pooler.url)) as ledger:
            yield ledger

"""The PostgreSQL ledger keeps the promises of a ledger, directly and behind a pooler."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest
from tests.simulation.postgres_servers import new_ledger

from rankd.adapters.postgres import PostgresLedger
from rankd.ports import CopyTarget
from rankd.testing.contracts import CopyTargetContract, LedgerContract
from rankd.testing.servers import Pooler, PostgresServer

_: type[CopyTarget] = PostgresLedger  # mypy sees whether the methods are those of the port.


class TestPostgresLedger(LedgerContract):
    @pytest.fixture
    def url(self, server: PostgresServer) -> str:
        return new_ledger(server.url)

    @pytest.fixture
    async def stack(self) -> AsyncIterator[AsyncExitStack]:
        async with AsyncExitStack() as stack:
            yield stack

    @pytest.fixture
    async def ledger(self, stack: AsyncExitStack, url: str) -> PostgresLedger:
        return await stack.enter_async_context(PostgresLedger.open(url))

    @pytest.fixture
    def reopen(
        self, stack: AsyncExitStack, ledger: PostgresLedger, url: str
    ) -> Callable[[], Awaitable[PostgresLedger]]:
        async def reopened() -> PostgresLedger:
            await ledger.close()
            return await stack.enter_async_context(PostgresLedger.open(url))

        return reopened

    async def test_nobody_stands_between(self, ledger: PostgresLedger) -> None:
        assert not ledger.durability.pooled


class TestPostgresCopyTarget(CopyTargetContract):
    @pytest.fixture
    def url(self, server: PostgresServer) -> str:
        return new_ledger(server.url)

    @pytest.fixture
    async def stack(self) -> AsyncIterator[AsyncExitStack]:
        async with AsyncExitStack() as stack:
            yield stack

    @pytest.fixture
    async def ledger(self, stack: AsyncExitStack, url: str) -> PostgresLedger:
        return await stack.enter_async_context(PostgresLedger.open(url, copying=True))

    @pytest.fixture
    def reopen(
        self, stack: AsyncExitStack, url: str
    ) -> Callable[[bool], Awaitable[PostgresLedger]]:
        async def reopened(copying: bool) -> PostgresLedger:
            opening = PostgresLedger.open(url, copying=copying)
            return await stack.enter_async_context(opening)

        return reopened


class TestPooledPostgresCopyTarget(TestPostgresCopyTarget):
    """The same through a PgBouncer that gives each transaction another connection."""

    @pytest.fixture
    def url(self, pooler: Pooler) -> str:
        return new_ledger(pooler.url)


class TestPooledPostgresLedger(TestPostgresLedger):
    """The same through a PgBouncer that gives each transaction another connection."""

    @pytest.fixture
    def url(self, pooler: Pooler) -> str:
        return new_ledger(pooler.url)

    async def test_nobody_stands_between(self, ledger: PostgresLedger) -> None:
        assert ledger.durability.pooled, "PgBouncer should have been noticed"

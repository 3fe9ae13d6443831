"""The SQLite ledger keeps the promises of a ledger."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from rankd.adapters.sqlite import SQLiteLedger
from rankd.ports import Ledger
from rankd.testing.contracts import LedgerContract

_: type[Ledger] = SQLiteLedger  # mypy sees whether the methods are those of the port.


class TestSQLiteLedger(LedgerContract):
    @pytest.fixture
    async def stack(self) -> AsyncIterator[AsyncExitStack]:
        async with AsyncExitStack() as stack:
            yield stack

    @pytest.fixture
    async def ledger(self, stack: AsyncExitStack, tmp_path: Path) -> SQLiteLedger:
        return await stack.enter_async_context(SQLiteLedger.open(tmp_path))

    @pytest.fixture
    def reopen(
        self, stack: AsyncExitStack, ledger: SQLiteLedger
    ) -> Callable[[], Awaitable[SQLiteLedger]]:
        async def reopened() -> SQLiteLedger:
            await ledger.close()
            return await stack.enter_async_context(SQLiteLedger.open(ledger.folder))

        return reopened

"""The SQLite ledger keeps the promises of a ledger."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from rankd.adapters.sqlite import SQLiteLedger
from rankd.bootstrap import restoration
from rankd.errors import LedgerNotCopied
from rankd.ports import CopyTarget
from rankd.testing.contracts import CopyTargetContract, LedgerContract

_: type[CopyTarget] = SQLiteLedger  # mypy sees whether the methods are those of the port.

SOURCE = "another ledger"


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


class TestSQLiteCopyTarget(CopyTargetContract):
    @pytest.fixture
    async def stack(self) -> AsyncIterator[AsyncExitStack]:
        async with AsyncExitStack() as stack:
            yield stack

    @pytest.fixture
    async def ledger(self, stack: AsyncExitStack, tmp_path: Path) -> SQLiteLedger:
        return await stack.enter_async_context(SQLiteLedger.open(tmp_path, copying=SOURCE))

    @pytest.fixture
    def reopen(
        self, stack: AsyncExitStack, ledger: SQLiteLedger
    ) -> Callable[[bool], Awaitable[SQLiteLedger]]:
        opened = [ledger]

        async def reopened(copying: bool) -> SQLiteLedger:
            await opened[-1].close()
            source = SOURCE if copying else None
            opening = SQLiteLedger.open(ledger.folder, copying=source)
            opened.append(await stack.enter_async_context(opening))
            return opened[-1]

        return reopened

    async def test_a_copy_that_was_not_finished_is_no_backup(
        self, ledger: SQLiteLedger, tmp_path: Path
    ) -> None:
        await ledger.begin_copy("the old ledger")
        await ledger.close()
        with pytest.raises(LedgerNotCopied, match="the old ledger"):
            async for _ in restoration(tmp_path, tmp_path / "restored"):
                pass
        assert not (tmp_path / "restored").exists()

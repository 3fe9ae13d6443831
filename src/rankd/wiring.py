"""The only module that knows both core and adapters. It builds, and decides nothing."""

from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from os import PathLike
from pathlib import Path
from typing import Any

from rankd.adapters.memory.index import NativeIndex
from rankd.adapters.memory.ledger import MemoryLedger
from rankd.adapters.sqlite import SQLiteLedger
from rankd.core.service import Rankd, running
from rankd.ports import Clock, Ledger


@asynccontextmanager
async def engine(
    folder: str | PathLike[str] | None, *, clock: Clock, turn: AbstractContextManager[Any]
) -> AsyncIterator[Rankd]:
    """Build the engine of one process: SQLite in a folder, or memory, and the native index."""
    async with AsyncExitStack() as stack:
        ledger: Ledger
        if folder is None:
            ledger = MemoryLedger()
        else:
            ledger = await stack.enter_async_context(SQLiteLedger.open(Path(folder)))
        yield await stack.enter_async_context(
            running(ledger=ledger, index=NativeIndex(), clock=clock, turn=turn)
        )

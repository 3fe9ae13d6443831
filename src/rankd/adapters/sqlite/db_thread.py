"""Database thread: a thread with a connection of its own.

SQLite blocks its caller, so the event loop never calls it: it submits work to a thread and awaits
the result. Work on one thread runs in the order of submission. Submitted work runs even if the
waiting task is cancelled.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import apsw

from rankd.adapters.sqlite.database import translated_errors
from rankd.errors import LedgerUnavailable

T = TypeVar("T")


class DatabaseThread:
    """One connection, used on one thread."""

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"ledger-{name}")
        self._database: apsw.Connection | None = None
        self._ended = False

    async def open(self, connect: Callable[[], apsw.Connection]) -> None:
        """Open the connection. On failure the thread ends and nothing stays open."""
        try:
            await self.reopen(connect)
        except BaseException:
            self._end()
            self._close(None)  # It may have been opened while the caller was cancelled.
            raise

    async def run(self, work: Callable[[apsw.Connection], T]) -> T:
        """Run a function with the connection, and return its result."""
        return await self._do(partial(self._with_database, work))

    def later(self, work: Callable[[apsw.Connection], object]) -> None:
        """Submit work without waiting for it; it runs after the work submitted before."""
        self._thread.submit(self._with_database, work)

    async def reopen(
        self,
        connect: Callable[[], apsw.Connection],
        last: Callable[[apsw.Connection], object] | None = None,
    ) -> None:
        """Close the connection as ``close`` does, and open another; there is none if that fails."""
        await self._do(partial(self._reopen, connect, last))

    async def close(self, last: Callable[[apsw.Connection], object] | None = None) -> None:
        """Run a last function, close the connection and end the thread."""
        if self._ended:
            return
        try:
            if self._database is not None:
                await self._do(partial(self._close, last))
        finally:
            self._end()

    def _end(self) -> None:
        self._ended = True
        self._thread.shutdown()

    async def _do(self, work: Callable[[], T]) -> T:
        if self._ended:
            raise _closed()
        loop = asyncio.get_running_loop()
        doing = loop.run_in_executor(self._thread, _translated, work)
        try:
            return await asyncio.shield(doing)
        except asyncio.CancelledError:
            doing.add_done_callback(_retrieve)
            raise

    def _with_database(self, work: Callable[[apsw.Connection], T]) -> T:
        if self._database is None:
            raise _closed()
        return work(self._database)

    def _reopen(
        self,
        connect: Callable[[], apsw.Connection],
        last: Callable[[apsw.Connection], object] | None,
    ) -> None:
        self._close(last)
        self._database = connect()

    def _close(self, last: Callable[[apsw.Connection], object] | None) -> None:
        database, self._database = self._database, None
        if database is None:
            return
        try:
            if last is not None:
                last(database)
        finally:
            database.close()


async def stepwise(steps: Iterator[T]) -> AsyncIterator[T]:
    """Take each step of long work on a thread of its own."""
    lane = DatabaseThread("steps")
    try:
        while (step := await lane._do(partial(next, steps, None))) is not None:
            yield step
    finally:
        lane._end()


def _retrieve(done: "asyncio.Future[T]") -> None:
    """Retrieve the error of a cancelled wait, so that asyncio does not log it."""
    if not done.cancelled():
        done.exception()


def _translated(work: Callable[[], T]) -> T:
    with translated_errors():
        return work()


def _closed() -> LedgerUnavailable:
    return LedgerUnavailable("the ledger is closed", applied="no")

"""The engine inside another program: ``rankd.open()`` and ``rankd.aopen()``.

``aopen`` runs in the caller's event loop. ``open`` is for programs without one: a thread of its own
runs the loop, writes are handed to it, and reads are answered where they are asked, under a lock
that the fold holds while it moves entries. So a reader never sees half of a change, and a read
costs no hop between threads.
"""

import asyncio
import threading
import time
import warnings
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    nullcontext,
    suppress,
)
from typing import Any

from rankd.embedded.asynchronous import AsyncBoard, AsyncRanks
from rankd.embedded.synchronous import Board, Ranks
from rankd.model.window import Instant
from rankd.ports import Clock
from rankd.terminal import Show, showing
from rankd.wiring import Folder, Place, engine, restoration

__all__ = ["AsyncBoard", "AsyncRanks", "Board", "Ranks", "aopen", "open", "restore"]


class WallClock:
    """The machine's own clock."""

    def now(self) -> Instant:
        """Return the time in microseconds since 1970."""
        return time.time_ns() // 1000


def aopen(
    folder: Folder | None = None, *, clock: Clock | None = None, progress: Show = None
) -> AbstractAsyncContextManager[AsyncRanks]:
    """Open the engine in a folder; without one, in memory, where nothing outlives it.

    ``progress`` is told how far opening has come; True draws a bar.
    """
    _warn_if_in_memory(folder)
    return _opened(folder, clock, progress, nullcontext())


@asynccontextmanager
async def _opened(
    folder: Folder | None,
    clock: Clock | None,
    progress: Show,
    reading: AbstractContextManager[Any],
) -> AsyncIterator[AsyncRanks]:
    with showing(progress) as tell:
        async with engine(
            Place.of(folder), clock=clock or WallClock(), reading=reading, tell=tell
        ) as opened:
            tell(None)
            yield AsyncRanks(opened)


def _warn_if_in_memory(folder: Folder | None) -> None:
    if folder is None:
        warnings.warn(
            "rankd keeps everything in memory: give open() a folder to keep it",
            RuntimeWarning,
            stacklevel=4,
        )


@contextmanager
def open(
    folder: Folder | None = None, *, clock: Clock | None = None, progress: Show = None
) -> Iterator[Ranks]:
    """Open the engine in a folder; without one, in memory, where nothing outlives it.

    ``progress`` is told how far opening has come; True draws a bar.
    """
    _warn_if_in_memory(folder)
    reading = threading.RLock()
    begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[None]]] = Future()
    opened: Future[AsyncRanks] = Future()

    async def serve() -> None:
        task = asyncio.current_task()
        assert task is not None
        begun.set_result((asyncio.get_running_loop(), task))
        async with _opened(folder, clock, progress, reading) as ranks:
            opened.set_result(ranks)
            with suppress(asyncio.CancelledError):  # How it is told to close.
                await asyncio.Event().wait()

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as exc:
            if opened.done():
                raise
            opened.set_exception(exc)

    thread = threading.Thread(target=run, name="rankd", daemon=True)
    thread.start()
    loop, task = begun.result()
    ranks: Ranks | None = None
    try:
        ranks = Ranks(opened.result(), loop, reading)
        yield ranks
    finally:  # Also when opening was interrupted: the folder must not stay locked.
        if ranks is not None:
            ranks.closed = True
        if thread.is_alive():
            loop.call_soon_threadsafe(task.cancel)
        thread.join()


def restore(backup: Folder, folder: Folder, *, progress: Show = None) -> None:
    """Copy a backup into an empty folder, and verify the copy."""

    async def copy() -> None:
        with showing(progress) as tell:
            async for step in restoration(backup, folder):
                tell(step)

    asyncio.run(copy())

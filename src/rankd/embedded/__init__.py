"""The engine inside another program: ``rankd.open()`` and ``rankd.aopen()``.

``aopen`` runs in the caller's event loop. Writes are awaited; reads are answered at once, because
an index in this process makes nobody wait. ``open`` is for programs without a loop: a thread of its
own runs one, writes are handed to it, and reads are answered where they are asked, under a lock
that the fold holds while it moves entries. So a reader never sees half of a change, and a read
costs no hop between threads.

Only an index across a network has to be waited for: there ``aopen`` has reads awaited too, and
``open`` hands them to its loop.
"""

import asyncio
import threading
import time
import warnings
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import (
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    nullcontext,
    suppress,
)
from typing import Any, overload

from rankd.embedded.asynchronous import AsyncBoard, AsyncRanks
from rankd.embedded.awaited import AwaitedBoard, AwaitedRanks
from rankd.embedded.opening import AsyncOpening, Opened, Opening
from rankd.embedded.synchronous import Board, Ranks
from rankd.model.window import Instant
from rankd.ports import Clock
from rankd.terminal import Show, showing
from rankd.wiring import Folder, Place, engine, restoration

__all__ = [
    "AsyncBoard",
    "AsyncRanks",
    "AwaitedBoard",
    "AwaitedRanks",
    "Board",
    "Ranks",
    "aopen",
    "open",
    "restore",
]


class WallClock:
    """The machine's own clock."""

    def now(self) -> Instant:
        """Return the time in microseconds since 1970."""
        return time.time_ns() // 1000


@overload
def aopen(
    folder: Folder | None = None, *, clock: Clock | None = None, progress: Show = None
) -> AsyncOpening[AsyncRanks]: ...
@overload
def aopen(
    folder: Place, *, clock: Clock | None = None, progress: Show = None
) -> AsyncOpening[AsyncRanks | AwaitedRanks]: ...
def aopen(
    folder: Folder | Place | None = None, *, clock: Clock | None = None, progress: Show = None
) -> AsyncOpening[AsyncRanks | AwaitedRanks]:
    """Open the engine in a folder; without one, in memory, where nothing outlives it.

    Writes are awaited. Reads answer at once, unless the place that is named has its index across a
    network: there they are the same, and awaited too.

    ``progress`` is told how far opening has come; True draws a bar.
    """
    _warn_if_in_memory(folder)
    return AsyncOpening(_awaited(folder, clock, progress))


@asynccontextmanager
async def _awaited(
    folder: Folder | Place | None, clock: Clock | None, progress: Show
) -> AsyncIterator[AsyncRanks | AwaitedRanks]:
    async with _opened(folder, clock, progress, nullcontext()) as opened:
        yield AsyncRanks(opened) if opened.immediate else AwaitedRanks(opened)


@asynccontextmanager
async def _opened(
    folder: Folder | Place | None,
    clock: Clock | None,
    progress: Show,
    reading: AbstractContextManager[Any],
) -> AsyncIterator[Opened]:
    with showing(progress) as tell:
        async with engine(
            Place.of(folder), clock=clock or WallClock(), reading=reading, tell=tell
        ) as running:
            tell(None)
            opened = Opened(running)
            try:
                yield opened
            finally:
                opened.closed = True


def _warn_if_in_memory(folder: Folder | Place | None) -> None:
    if folder is None:
        warnings.warn(
            "rankd keeps everything in memory: give open() a folder to keep it",
            RuntimeWarning,
            stacklevel=3,
        )


def open(
    folder: Folder | Place | None = None, *, clock: Clock | None = None, progress: Show = None
) -> Opening[Ranks]:
    """Open the engine in a folder; without one, in memory, where nothing outlives it.

    ``progress`` is told how far opening has come; True draws a bar.
    """
    _warn_if_in_memory(folder)
    return Opening(_threaded(folder, clock, progress))


@contextmanager
def _threaded(
    folder: Folder | Place | None, clock: Clock | None, progress: Show
) -> Iterator[Ranks]:
    reading = threading.RLock()
    begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[None]]] = Future()
    opening: Future[Opened] = Future()

    async def serve() -> None:
        task = asyncio.current_task()
        assert task is not None
        begun.set_result((asyncio.get_running_loop(), task))
        async with _opened(folder, clock, progress, reading) as opened:
            opening.set_result(opened)
            with suppress(asyncio.CancelledError):  # How it is told to close.
                await asyncio.Event().wait()

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as exc:
            if opening.done():
                raise
            opening.set_exception(exc)

    thread = threading.Thread(target=run, name="rankd", daemon=True)
    thread.start()
    loop, task = begun.result()
    opened: Opened | None = None
    try:
        opened = opening.result()
        yield Ranks(opened, loop, reading)
    finally:  # Also when opening was interrupted: the folder must not stay locked.
        if opened is not None:
            opened.closed = True
        if thread.is_alive():
            loop.call_soon_threadsafe(task.cancel)
        thread.join()


def restore(backup: Folder, folder: Folder | Place, *, progress: Show = None) -> None:
    """Copy a backup into an empty folder, and verify it; either may be at postgresql://… too."""

    async def copy() -> None:
        with showing(progress) as tell:
            async for step in restoration(backup, folder):
                tell(step)

    asyncio.run(copy())

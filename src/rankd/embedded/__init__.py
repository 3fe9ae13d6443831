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
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    nullcontext,
    suppress,
)
from typing import Any, overload

from rankd.embedded.asynchronous import AsyncBoard, AsyncRanks
from rankd.embedded.awaited import AwaitedBoard, AwaitedRanks
from rankd.embedded.opening import AsyncOpening, Opened, Origin, Running, serve
from rankd.embedded.synchronous import Board, EngineThread, Ranks
from rankd.model.window import Instant
from rankd.ports import Clock
from rankd.terminal import Show, showing
from rankd.wiring import Engine, Folder, Place, engine, restoration

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
    """The machine's own clock, and its counter."""

    def now(self) -> Instant:
        """Return the time in microseconds since 1970."""
        return time.time_ns() // 1000

    def elapsed(self) -> int:
        """Return the microseconds since the machine started, those of its sleep included."""
        return time.clock_gettime_ns(_COUNTER) // 1000


_COUNTER = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Linux stops the monotonic clock while it sleeps; elsewhere that one goes on."""


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

    ``await`` it and call ``close()`` in the end, or use it with ``async with``.

    Writes are awaited. Reads answer at once, unless the place that is named has its index across a
    network: there they are the same, and awaited too.

    ``progress`` is told how far opening has come; True draws a bar.
    """
    _warn_if_in_memory(folder)
    origin = Origin.of_caller()

    async def opening() -> AsyncRanks | AwaitedRanks:
        running = await _served_in_task(_engine(folder, clock, progress, nullcontext()))
        opened = Opened(running, origin)
        return AsyncRanks(opened) if opened.immediate else AwaitedRanks(opened)

    return AsyncOpening(opening)


async def _served_in_task(engine: AbstractAsyncContextManager[Engine]) -> Running:
    """Start a task that serves an engine; return once it is open."""
    started: asyncio.Future[Running] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(serve(engine, started.set_result), name="rankd")
    try:
        await asyncio.wait((task, started), return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:  # The folder must not stay locked.
        task.cancel()
        await asyncio.wait((task,))
        raise
    if not started.done():
        task.result()  # Raises why it could not be opened.
    return started.result()


@asynccontextmanager
async def _engine(
    folder: Folder | Place | None,
    clock: Clock | None,
    progress: Show,
    reading: AbstractContextManager[Any],
) -> AsyncIterator[Engine]:
    with showing(progress) as tell:
        async with engine(
            Place.of(folder), clock=clock or WallClock(), reading=reading, tell=tell
        ) as running:
            tell(None)
            yield running


def _warn_if_in_memory(folder: Folder | Place | None) -> None:
    if folder is None:
        warnings.warn(
            "rankd keeps everything in memory: give open() a folder to keep it",
            RuntimeWarning,
            stacklevel=3,
        )


def open(
    folder: Folder | Place | None = None, *, clock: Clock | None = None, progress: Show = None
) -> Ranks:
    """Open the engine in a folder; without one, in memory, where nothing outlives it.

    Call ``close()`` in the end, or use it with ``with``.

    ``progress`` is told how far opening has come; True draws a bar.
    """
    _warn_if_in_memory(folder)
    origin = Origin.of_caller()
    reading = threading.RLock()
    thread, running = _served_in_thread(_engine(folder, clock, progress, reading))
    return Ranks(EngineThread(Opened(running, origin), thread, reading))


def _served_in_thread(
    engine: AbstractAsyncContextManager[Engine],
) -> tuple[threading.Thread, Running]:
    """Start a thread that serves an engine; return once it is open."""
    begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[None]]] = Future()
    started: Future[Running] = Future()

    async def begin() -> None:
        task = asyncio.current_task()
        assert task is not None
        begun.set_result((asyncio.get_running_loop(), task))
        await serve(engine, started.set_result)

    def run() -> None:
        try:
            asyncio.run(begin())
        except BaseException as exc:
            if started.done():
                raise
            started.set_exception(exc)

    thread = threading.Thread(target=run, name="rankd", daemon=True)
    thread.start()
    loop, task = begun.result()
    try:
        return thread, started.result()
    except BaseException:  # Also an interruption: the folder must not stay locked.
        with suppress(RuntimeError):  # The loop is closed: it could not be opened.
            loop.call_soon_threadsafe(task.cancel)
        thread.join()
        raise


def restore(backup: Folder, folder: Folder | Place, *, progress: Show = None) -> None:
    """Copy a backup into an empty folder, and verify it; either may be at postgresql://… too."""

    async def copy() -> None:
        with showing(progress) as tell:
            async for step in restoration(backup, folder):
                tell(step)

    asyncio.run(copy())

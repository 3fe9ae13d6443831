"""The engine inside another program: ``rankd.open()`` and ``rankd.aopen()``.

``aopen`` runs in the caller's event loop. Writes are awaited; reads are plain calls, because an
index in this process never waits. ``open`` is for programs without an event loop: a thread of its
own runs one and does the writes. Reads run on the caller's thread, under a lock that the fold holds
while it moves entries: a reader never sees half of a change, and a read costs no switch of threads.

Only an index across a network has to be waited for: then ``aopen`` returns handles whose reads are
awaited, too, and ``open`` passes reads to its loop.
"""

import asyncio
import threading
import time
import warnings
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import Future
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    nullcontext,
    suppress,
)
from typing import Any, overload

from rankd.bootstrap import EngineConfig, Folder, RunningEngine, engine, restoration
from rankd.core.verifiers import CallableVerifier, VerifierFunction
from rankd.embedded.async_api import RemoteBoard, RemoteRanks
from rankd.embedded.boards import AsyncBoard, AsyncRanks, Board, EngineThread, Ranks
from rankd.embedded.handles import AsyncOpening, CallSite, OpenEngine, ServedEngine, serve
from rankd.model.window import Instant
from rankd.ports import Clock
from rankd.progress import Show, showing

__all__ = [
    "AsyncBoard",
    "AsyncRanks",
    "Board",
    "Ranks",
    "RemoteBoard",
    "RemoteRanks",
    "aopen",
    "open",
    "restore",
]


class WallClock:
    """The machine's clock and its counter of elapsed time."""

    def now(self) -> Instant:
        """Return the time in microseconds since 1970."""
        return time.time_ns() // 1000

    def elapsed(self) -> int:
        """Return microseconds since the machine started, including the time it slept."""
        return time.clock_gettime_ns(_COUNTER) // 1000


_COUNTER = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Linux stops CLOCK_MONOTONIC while the machine sleeps; other systems do not."""


@overload
def aopen(
    folder: Folder | None = None,
    *,
    clock: Clock | None = None,
    progress: Show = None,
    verifiers: Mapping[str, VerifierFunction] | None = None,
) -> AsyncOpening[AsyncRanks]: ...
@overload
def aopen(
    folder: EngineConfig,
    *,
    clock: Clock | None = None,
    progress: Show = None,
    verifiers: Mapping[str, VerifierFunction] | None = None,
) -> AsyncOpening[AsyncRanks | RemoteRanks]: ...
def aopen(
    folder: Folder | EngineConfig | None = None,
    *,
    clock: Clock | None = None,
    progress: Show = None,
    verifiers: Mapping[str, VerifierFunction] | None = None,
) -> AsyncOpening[AsyncRanks | RemoteRanks]:
    """Open the engine in a folder; without one, in memory, where nothing outlives the process.

    ``await`` the result and call ``close()`` in the end, or use it with ``async with``.

    Writes are awaited. Reads are plain calls, unless the index is across a network: then they have
    the same signatures and are awaited, too.

    ``progress`` is called with the progress of opening; True draws a bar. ``verifiers`` are
    functions that decide about submissions, by the names that boards have for them.
    """
    _warn_if_in_memory(folder)
    origin = CallSite.of_caller()

    async def opening() -> AsyncRanks | RemoteRanks:
        running = await _served_in_task(_engine(folder, clock, progress, nullcontext(), verifiers))
        opened = OpenEngine(running, origin)
        return AsyncRanks(opened) if opened.immediate else RemoteRanks(opened)

    return AsyncOpening(opening)


async def _served_in_task(engine: AbstractAsyncContextManager[RunningEngine]) -> ServedEngine:
    """Start a task that serves an engine; return once it is open."""
    started: asyncio.Future[ServedEngine] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(serve(engine, started.set_result), name="rankd")
    try:
        await asyncio.wait((task, started), return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:  # The folder must not stay locked.
        task.cancel()
        await asyncio.wait((task,))
        raise
    if not started.done():
        task.result()  # Raises the error of opening.
    return started.result()


@asynccontextmanager
async def _engine(
    folder: Folder | EngineConfig | None,
    clock: Clock | None,
    progress: Show,
    reading: AbstractContextManager[Any],
    verifiers: Mapping[str, VerifierFunction] | None,
) -> AsyncIterator[RunningEngine]:
    named = {name: CallableVerifier(function) for name, function in (verifiers or {}).items()}
    with showing(progress) as tell:
        async with engine(
            EngineConfig.of(folder),
            clock=clock or WallClock(),
            reading=reading,
            tell=tell,
            verifiers=named,
        ) as running:
            tell(None)
            yield running


def _warn_if_in_memory(folder: Folder | EngineConfig | None) -> None:
    if folder is None:
        warnings.warn(
            "rankd keeps everything in memory: give open() a folder to keep it",
            RuntimeWarning,
            stacklevel=3,
        )


def open(
    folder: Folder | EngineConfig | None = None,
    *,
    clock: Clock | None = None,
    progress: Show = None,
    verifiers: Mapping[str, VerifierFunction] | None = None,
) -> Ranks:
    """Open the engine in a folder; without one, in memory, where nothing outlives the process.

    Call ``close()`` in the end, or use it with ``with``.

    ``progress`` is called with the progress of opening; True draws a bar. ``verifiers`` are
    functions that decide about submissions, by the names that boards have for them.
    """
    _warn_if_in_memory(folder)
    origin = CallSite.of_caller()
    reading = threading.RLock()
    thread, running = _served_in_thread(_engine(folder, clock, progress, reading, verifiers))
    return Ranks(EngineThread(OpenEngine(running, origin), thread, reading))


def _served_in_thread(
    engine: AbstractAsyncContextManager[RunningEngine],
) -> tuple[threading.Thread, ServedEngine]:
    """Start a thread that serves an engine; return once it is open."""
    begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[None]]] = Future()
    started: Future[ServedEngine] = Future()

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
        with suppress(RuntimeError):  # The loop is closed: opening failed.
            loop.call_soon_threadsafe(task.cancel)
        thread.join()
        raise


def restore(backup: Folder, folder: Folder | EngineConfig, *, progress: Show = None) -> None:
    """Copy a backup into an empty folder and verify it; either may be a postgresql:// URL."""

    async def copy() -> None:
        with showing(progress) as tell:
            async for step in restoration(backup, folder):
                tell(step)

    asyncio.run(copy())

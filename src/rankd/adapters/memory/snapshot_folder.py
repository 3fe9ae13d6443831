"""An index kept in a folder between two lives, saved while it goes on.

The index is read on the event loop, a little at a time (saving.py), and written on a thread
meanwhile (writing.py). Loading happens on a thread as a whole, since the index is not in use before
(loading.py). How the files look: layout.py.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, TypeVar

from rankd.adapters.memory.index import NativeIndex
from rankd.adapters.memory.snapshot_load import load
from rankd.adapters.memory.snapshot_scan import Scan
from rankd.adapters.memory.snapshot_writer import SaveFolder
from rankd.ports import NOTHING_HELD, Progress

T = TypeVar("T")


class SnapshotFolder:
    """The Snapshots of a native index."""

    def __init__(self, folder: Path, index: NativeIndex) -> None:
        self._folder, self._index = folder, index
        self._busy = False

    async def save(
        self,
        notes: Callable[[], Iterable[bytes]],
        *,
        still: AbstractAsyncContextManager[Any] = NOTHING_HELD,
    ) -> AsyncIterator[Progress]:
        assert not self._busy, "a save goes on already"
        touched = self._index.begin_saving()
        self._busy = True
        home, thread = SaveFolder(self._folder), _Thread()
        try:
            await thread.do(home.begin)
            survey = Scan(lambda: self._index.state, touched)
            for step in survey.steps():
                await thread.do(partial(home.write, step))
                yield survey.progress
            async with still:
                for step in survey.last_pass():
                    await thread.do(partial(home.write, step))
                    yield survey.progress
                # Nothing waits between the last step and this: no apply can come between.
                ending = survey.ending(notes)
                self._index.end_saving(touched)
            total = survey.progress.total
            yield Progress(total, total, "writing", "standing")
            await thread.do(partial(home.finish, ending))
            yield Progress(total, total, "saved", "standing")
        finally:
            self._index.end_saving(touched)
            try:
                await thread.do(home.end)
            finally:
                thread.end()
                self._busy = False

    async def load(self, tell: Callable[[Progress], None]) -> Sequence[bytes] | None:
        loop, abandoned, thread = asyncio.get_running_loop(), Event(), _Thread()

        def told(progress: Progress) -> None:
            if abandoned.is_set():
                raise _Cancelled
            loop.call_soon_threadsafe(tell, progress)

        index = self._index
        work = partial(
            load,
            self._folder,
            make_players=index.make_players,
            make_list=index.make_list,
            tell=told,
        )
        try:
            loaded = await thread.do(work, abandoned.set)
        finally:
            thread.end()
        if loaded is None:
            return None
        state, notes = loaded
        index.fill(state)
        return notes


class _Cancelled(Exception):
    """The load was cancelled."""


class _Thread:
    """A thread for one thing after another.

    A started call is finished before the caller goes on, also if the caller is cancelled: removing
    files that are still being written would be a race, and the last call decides which save counts.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="snapshot")

    async def do(self, work: Callable[[], T], hurry: Callable[[], None] | None = None) -> T:
        """Do a piece of work; ``hurry`` is called if the caller is cancelled."""
        doing = asyncio.get_running_loop().run_in_executor(self._pool, work)
        try:
            return await asyncio.shield(doing)
        except asyncio.CancelledError:
            if hurry is not None:
                hurry()
            while not doing.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([doing])
            if not doing.cancelled():
                doing.exception()  # Whatever went wrong, nobody waits for it.
            raise

    def end(self) -> None:
        self._pool.shutdown()

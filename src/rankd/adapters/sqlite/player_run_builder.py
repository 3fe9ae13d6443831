"""Builder: makes and merges runs in the background, on a thread of its own.

Only facts that were acknowledged enter a run, so a run never has to be taken back. Appends do not
wait for it, nor does a request: reading, sorting and writing are done without the interpreter's
lock. A run that cannot be written is left out: questions read the facts instead, and it is
tried again later.
"""

import asyncio
import logging
import os
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import apsw

from rankd.adapters.sqlite import player_runs
from rankd.adapters.sqlite.block_reader import pages_after
from rankd.adapters.sqlite.database import PRIVATE_FOLDER
from rankd.adapters.sqlite.player_entries import ENTRY_BYTES, SEED_BYTES, entries_of, sort
from rankd.adapters.sqlite.player_run import PlayerRun, RunDamaged, RunRange, write_run
from rankd.adapters.sqlite.player_runs import PlayerRuns, due_for_merge, first_gap
from rankd.model.facts import Position

MERGED_PAGES = 32
"""Pages of each run that are held while runs are merged: a megabyte in all."""

_log = logging.getLogger(__name__)


class PlayerRunBuilder:
    """Keeps the runs of one ledger near its end. For the one process that appends."""

    def __init__(self, folder: Path, connect: Callable[[], apsw.Connection]) -> None:
        self._folder, self._connect = folder, connect
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ledger-runs")
        self._stop = threading.Event()
        self._work_done = Future[None]()
        self._waits_for = Position(player_runs.RANGE_FACTS)
        """Head from which there may be something to do."""
        self.idle = threading.Event()
        """Set while nothing is built."""
        self.idle.set()

    def wake(self, head: Position) -> None:
        """Build all runs that are due up to a head, unless the thread is busy. Returns at once."""
        if head >= self._waits_for and self.idle.is_set() and not self._stop.is_set():
            self.idle.clear()
            self._work_done = self._thread.submit(self._work, head)

    def repair(self, path: Path) -> None:
        """Delete a damaged run, which the next work builds anew. For any thread."""
        try:
            path.unlink(missing_ok=True)
        except OSError as exc:
            _log.warning("a damaged run of players could not be deleted: %s", exc)
        self._waits_for = Position(0)

    async def close(self) -> None:
        """Stop within a few hundredths of a second. An unfinished run is begun anew next time."""
        self._stop.set()
        try:
            if not self.idle.is_set():
                await asyncio.wrap_future(self._work_done)
        finally:
            self._thread.shutdown()

    def _work(self, head: Position) -> None:
        runs = PlayerRuns(self._folder)
        try:
            self._build(runs, head)
        except _Stopped:
            pass
        except RunDamaged as exc:
            _log.warning("a run of players is damaged, and is built anew: %s", exc)
            self.repair(exc.path)
        except Exception:
            _log.warning("runs of players are not built for now", exc_info=True)
            self._waits_for = Position(head + player_runs.RANGE_FACTS)
        finally:
            runs.close()
            self.idle.set()

    def _build(self, runs: PlayerRuns, head: Position) -> None:
        runs.folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        database = self._connect()
        try:
            while True:
                self._insist_on_going_on()
                found = _of_one_seed(runs.refresh(database))
                runs.delete_useless(found)
                first, last = first_gap(found, head)
                self._waits_for = Position(first - 1 + player_runs.RANGE_FACTS)
                at_end = not found or first > found[-1].range.last
                if due := due_for_merge(found):
                    self._merge(runs, due)
                elif last - first + 1 >= player_runs.RANGE_FACTS or not at_end:
                    self._seal(database, runs, found, first, last)
                else:
                    return
        finally:
            database.close()

    def _insist_on_going_on(self) -> None:
        if self._stop.is_set():
            raise _Stopped

    def _seal(
        self,
        database: apsw.Connection,
        runs: PlayerRuns,
        found: Sequence[PlayerRun],
        first: Position,
        last: Position,
    ) -> None:
        """Write a run of the next facts, which ends with a block."""
        seed = found[0].range.seed if found else os.urandom(SEED_BYTES)
        entries: list[bytes] = []
        for page in pages_after(database, Position(first - 1), last):
            self._insist_on_going_on()
            for block in page:
                entries.append(entries_of(block, seed))
                if block.last - first + 1 >= player_runs.RANGE_FACTS or block.last == last:
                    sealed = RunRange(first, block.last, seed, block.link)
                    write_run(runs.folder, sealed, [sort(b"".join(entries))])
                    return

    def _merge(self, runs: PlayerRuns, due: Sequence[PlayerRun]) -> None:
        """Write one run in place of several; they are deleted with the next look at the folder."""
        first, last = due[0].range, due[-1].range
        whole = RunRange(first.first, last.last, first.seed, last.link)
        write_run(runs.folder, whole, self._merged(due))

    def _merged(self, due: Sequence[PlayerRun]) -> Iterator[bytes]:
        """Yield the entries of neighbouring runs in order, some at a time."""
        feeds = [_Feed(run) for run in due]
        while feeds := [feed for feed in feeds if feed.fill()]:
            self._insist_on_going_on()
            # Entries that are still in the files are above these.
            bound = min((feed.highest for feed in feeds if feed.has_more), default=b"\xff" * 13)
            # By their runs, and so of each player in the order of positions.
            yield sort(b"".join([feed.take(bound) for feed in feeds]))


class _Stopped(Exception):
    """The ledger is being closed."""


class _Feed:
    """The entries of one run that is being merged."""

    def __init__(self, run: PlayerRun) -> None:
        self._run, self._next, self._held = run, 0, b""

    @property
    def has_more(self) -> bool:
        """Return whether some are still in the file."""
        return self._next < self._run.pages

    @property
    def highest(self) -> bytes:
        """Return the last entry that is held."""
        return self._held[-ENTRY_BYTES:]

    def fill(self) -> bool:
        """Hold some entries; return False if there are no more."""
        if not self._held and self.has_more:
            end = min(self._next + MERGED_PAGES, self._run.pages)
            self._held = b"".join([self._run.page(number) for number in range(self._next, end)])
            self._next = end
        return bool(self._held)

    def take(self, bound: bytes) -> bytes:
        """Take the entries up to a bound."""
        places = range(0, len(self._held), ENTRY_BYTES)
        count = bisect_right(places, bound, key=lambda at: self._held[at : at + ENTRY_BYTES])
        taken, self._held = self._held[: count * ENTRY_BYTES], self._held[count * ENTRY_BYTES :]
        return taken


def _of_one_seed(runs: Sequence[PlayerRun]) -> list[PlayerRun]:
    """Return the runs that can be merged with the first; a folder mixed from two has others."""
    return [run for run in runs if run.range.seed == runs[0].range.seed]

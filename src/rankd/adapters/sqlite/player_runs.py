"""Runs of a ledger: files with the sorted entries of its ranges, each written once.

A run is derived from facts that never change, so it is right for ever or damaged. It consists of
pages of 4,096 bytes, each with its own checksum; a fence, the first entry of each page; and a
trailer, with a checksum over fence and trailer. The trailer names the range and the hash-chain link
at its end: a run beside another ledger is recognised, and not used. A question reads one page of a
run, or as many as hold the player's entries: the fence is in memory, three thousandths of the run's
size.

The folder lies beside the ledger's file and can be deleted at any time: it is built again from the
facts. A run appears under its name when it is complete. The runs that were merged into another are
deleted after that one has its name, so each range is covered at every moment, or by two.

A builder makes and merges runs in the background, on a thread of its own. Only facts that were
acknowledged enter a run, so a run never has to be taken back. Appends do not wait for it, nor does
a request: reading, sorting and writing are done without the interpreter's lock. A run that cannot
be written is left out: questions read the facts instead, and it is tried again later.
"""

import asyncio
import logging
import os
import re
import struct
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import apsw

from rankd.adapters import sync_folder
from rankd.adapters.sqlite.blocks import pages_after
from rankd.adapters.sqlite.database import PLAYERS, PRIVATE_FILE, PRIVATE_FOLDER
from rankd.adapters.sqlite.player_entries import (
    ENTRY_BYTES,
    SEED_BYTES,
    PlayerQuestion,
    bounds,
    entries_of,
    find,
    hash_of_player,
    sort,
)
from rankd.adapters.sqlite.queries import QUERIES, fetch
from rankd.model.facts import Position

PAGE_BYTES = 4_096
PAGE_ENTRIES = (PAGE_BYTES - 4) // ENTRY_BYTES
SYNC_BYTES = 1 << 20
"""Bytes written between two syncs: a commit of the ledger never waits for more of them."""

SUFFIX, UNFINISHED = ".run", ".part"

_MAGIC = b"rankdpl1"
"""Also the version of the format: a run of another one is thrown away. It changes, too, when a kind
of fact that exists gets a board or a player."""

_TRAILER = struct.Struct(">8sQQQ16s32s")
_CHECK = struct.Struct(">I")
_END_BYTES = _TRAILER.size + _CHECK.size


class RunDamaged(Exception):
    """A run cannot be used: it is thrown away, and its range is read from the facts."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path.name}: {problem}")
        self.path = path


class RunRange(NamedTuple):
    """Range of facts of a run, with the seed of its hashes."""

    first: Position
    last: Position
    seed: bytes
    link: bytes
    """The hash-chain link after the last fact."""

    @property
    def name(self) -> str:
        """Return the name of the file."""
        return f"{self.first:013}-{self.last:013}{SUFFIX}"


class PlayerRun:
    """One run, open for reading."""

    def __init__(self, path: Path) -> None:
        """Open a run. Raises RunDamaged, and FileNotFoundError if it is gone."""
        self.path = path
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.range, self._fence = self._read_end()
        except BaseException:
            self.close()
            raise

    def _read_end(self) -> tuple[RunRange, bytes]:
        size = os.fstat(self._file).st_size
        end = self._read(size - _END_BYTES, _END_BYTES)
        magic, first, last, count, seed, link = _TRAILER.unpack(end[: _TRAILER.size])
        fence_bytes = -(-count // PAGE_ENTRIES) * ENTRY_BYTES
        pages = fence_bytes // ENTRY_BYTES
        if magic != _MAGIC or size != pages * PAGE_BYTES + fence_bytes + _END_BYTES:
            raise RunDamaged(self.path, "it has another format or length")
        fence = self._read(pages * PAGE_BYTES, fence_bytes)
        if crc32(fence + end[: _TRAILER.size]) != _CHECK.unpack(end[_TRAILER.size :])[0]:
            raise RunDamaged(self.path, "its end has another checksum")
        found = RunRange(Position(first), Position(last), seed, link)
        if found.name != self.path.name:
            raise RunDamaged(self.path, f"it is {found.name}")
        self._count = count
        return found, fence

    def _read(self, offset: int, size: int) -> bytes:
        try:
            data = os.pread(self._file, size, offset) if offset >= 0 else b""
        except OSError as exc:
            raise RunDamaged(self.path, str(exc.strerror)) from exc
        if len(data) != size:
            raise RunDamaged(self.path, "it is too short")
        return data

    @property
    def pages(self) -> int:
        """Return the number of pages."""
        return len(self._fence) // ENTRY_BYTES

    def page(self, number: int) -> bytes:
        """Return the entries of a page. Raises RunDamaged."""
        data = self._read(number * PAGE_BYTES, PAGE_BYTES)
        if crc32(data[:-4]) != _CHECK.unpack(data[-4:])[0]:
            raise RunDamaged(self.path, f"page {number} has another checksum")
        return data[: min(self._count - number * PAGE_ENTRIES, PAGE_ENTRIES) * ENTRY_BYTES]

    def find(self, asked: PlayerQuestion) -> Iterator[list[int]]:
        """Yield the positions of a player's facts, a page at a time, oldest first within it."""
        wanted = hash_of_player(self.range.seed, asked.player, asked.board)
        low, high = bounds(wanted, asked.after, asked.before)
        start, end = max(self._pages_below(low) - 1, 0), self._pages_below(high)
        for number in range(end - 1, start - 1, -1) if asked.newest_first else range(start, end):
            found = find(self.page(number), *wanted)
            yield [position for position in found if asked.after < position < asked.before]

    def _pages_below(self, bound: bytes) -> int:
        """Return how many pages begin below an entry."""
        return bisect_left(range(self.pages), bound, key=self._first_of)

    def _first_of(self, number: int) -> bytes:
        return self._fence[number * ENTRY_BYTES : (number + 1) * ENTRY_BYTES]

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def write_run(folder: Path, range: RunRange, entries: Iterable[bytes]) -> None:
    """Write a run of sorted entries, given in parts, and give it its name when it is complete."""
    path = folder / range.name
    part = path.with_name(f".{range.name}{UNFINISHED}")
    try:
        with part.open("wb") as file:
            part.chmod(PRIVATE_FILE)
            unsynced, count, fence = 0, 0, bytearray()
            for page in _pages(entries):
                fence += page[:ENTRY_BYTES]
                count += len(page) // ENTRY_BYTES
                padded = page.ljust(PAGE_BYTES - 4, b"\0")
                file.write(padded + _CHECK.pack(crc32(padded)))
                unsynced += PAGE_BYTES
                if unsynced >= SYNC_BYTES:
                    file.flush()
                    os.fdatasync(file.fileno())
                    unsynced = 0
            end = _TRAILER.pack(_MAGIC, range.first, range.last, count, range.seed, range.link)
            file.write(fence + end + _CHECK.pack(crc32(fence + end)))
            file.flush()
            os.fsync(file.fileno())
        part.rename(path)
        sync_folder(folder)
    except BaseException:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise


def _pages(entries: Iterable[bytes]) -> Iterator[bytes]:
    """Cut parts of any length into pages; the last may be shorter."""
    size, rest = PAGE_ENTRIES * ENTRY_BYTES, b""
    for part in entries:
        data = rest + part
        whole = len(data) - len(data) % size
        for start in range(0, whole, size):
            yield data[start : start + size]
        rest = data[whole:]
    if rest:
        yield rest


RANGE_FACTS = 65_536
"""Facts of the smallest runs. Up to so many at the ledger's end are in no run."""

MERGED_RUNS = 8
"""Runs of one size that become one. So a fact is written once for each eightfold of the ledger, and
a question looks into seven runs of each size at most."""

LEVEL_MAX = 4
"""Largest runs: 268 million facts, 3.2 GB. Merging them takes as much free disk for a while."""

_LOOKS_MAX = 3

_NAME = re.compile(r"(\d{13,})-(\d{13,})" + re.escape(SUFFIX))


class PlayerRuns:
    """The usable runs of one ledger, open for reading. For one thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / PLAYERS
        self._open: dict[tuple[str, int], PlayerRun] = {}
        """By name and inode: a run that was damaged and rebuilt has the same name."""
        self._bad: set[tuple[str, int]] = set()

    def refresh(self, database: apsw.Connection) -> Sequence[PlayerRun]:
        """Return the runs that are there now and belong to this ledger, oldest first.

        No two of them overlap. There may be gaps, and the facts at the end are in none.
        """
        for _ in range(_LOOKS_MAX):
            with suppress(FileNotFoundError):  # It was merged meanwhile: look again.
                return self._chosen(database)
        return self._chosen(database, missing_is_gap=True)

    def _chosen(
        self, database: apsw.Connection, *, missing_is_gap: bool = False
    ) -> Sequence[PlayerRun]:
        found = self._listed()
        self._bad.intersection_update(found)
        for name in self._open.keys() - set(found):
            self._open.pop(name).close()
        chosen: list[PlayerRun] = []
        for name in found:
            if chosen and _range_of(name[0])[0] <= chosen[-1].range.last:
                continue  # It was merged into the one before.
            try:
                if (run := self._opened(database, name)) is not None:
                    chosen.append(run)
            except FileNotFoundError:
                if not missing_is_gap:
                    raise
        return chosen

    def _listed(self) -> list[tuple[str, int]]:
        """Return names and inodes by their first position, of two the longer one first."""
        try:
            with os.scandir(self.folder) as entries:
                names = [(one.name, one.inode()) for one in entries if _NAME.fullmatch(one.name)]
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(names, key=lambda name: (_range_of(name[0])[0], -_range_of(name[0])[1]))

    def _opened(self, database: apsw.Connection, name: tuple[str, int]) -> PlayerRun | None:
        if name in self._bad:
            return None
        if name not in self._open:
            try:
                self._open[name] = _opened(database, self.folder / name[0])
            except FileNotFoundError:
                raise
            except (RunDamaged, OSError):
                self._bad.add(name)
                return None
        return self._open[name]

    def discard(self, path: Path) -> None:
        """Use a damaged run no more."""
        for name in [name for name in self._open if name[0] == path.name]:
            self._open.pop(name).close()
            self._bad.add(name)

    def delete_useless(self, used: Sequence[PlayerRun]) -> None:
        """Delete all files that are no run in use: merged, damaged, unfinished, of others."""
        kept = {run.path.name for run in used}
        with suppress(FileNotFoundError), os.scandir(self.folder) as entries:
            for entry in entries:
                if entry.name not in kept:
                    Path(entry.path).unlink(missing_ok=True)

    def close(self) -> None:
        """Close all files."""
        for run in self._open.values():
            run.close()
        self._open.clear()


def _range_of(name: str) -> tuple[int, int]:
    first, last = name.removesuffix(SUFFIX).split("-")
    return int(first), int(last)


def _opened(database: apsw.Connection, path: Path) -> PlayerRun:
    run = PlayerRun(path)
    links = fetch(database, QUERIES["read_link"], position=run.range.last)
    if not links or links[0][0] != run.range.link:
        run.close()
        raise RunDamaged(path, "it belongs to another ledger")
    return run


def first_gap(runs: Sequence[PlayerRun], head: Position) -> tuple[Position, Position]:
    """Return the first range of facts that no run covers; its end is the head for the last one."""
    last = Position(0)
    for run in runs:
        if run.range.first > last + 1:
            return Position(last + 1), Position(run.range.first - 1)
        last = run.range.last
    return Position(last + 1), head


def level_of(run: PlayerRun) -> int:
    """Return how often the facts of a run were merged: 0 for the smallest."""
    ranges = (run.range.last + 1 - run.range.first) // RANGE_FACTS
    return next(level for level in count() if ranges < MERGED_RUNS ** (level + 1))


def due_for_merge(runs: Sequence[PlayerRun]) -> Sequence[PlayerRun]:
    """Return neighbouring runs to be merged into one; none if the runs are few enough.

    Enough of one size, and the smaller ones between them, which a run that was lost has left.
    """
    for start, end in _stretches(runs):
        return runs[start:end]
    return ()


def _stretches(runs: Sequence[PlayerRun]) -> Iterator[tuple[int, int]]:
    levels = [level_of(run) for run in runs]
    for start, level in enumerate(levels):
        alike = 0
        for place in range(start, len(runs)):
            adjoins = place == start or runs[place - 1].range.last + 1 == runs[place].range.first
            if level >= LEVEL_MAX or levels[place] > level or not adjoins:
                break
            alike += levels[place] == level
            if alike == MERGED_RUNS:
                yield start, place + 1
                break


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
        self.waits_for = Position(RANGE_FACTS)
        """Head from which there may be something to do, so from which to wake it."""
        self.idle = threading.Event()
        """Set while nothing is built."""
        self.idle.set()

    def wake(self, head: Position) -> None:
        """Build all runs that are due up to a head, unless the thread is busy. Returns at once."""
        if self.idle.is_set() and not self._stop.is_set():
            self.idle.clear()
            self._work_done = self._thread.submit(self._work, head)

    def repair(self, path: Path) -> None:
        """Delete a damaged run, which the next work builds anew. For any thread."""
        try:
            path.unlink(missing_ok=True)
        except OSError as exc:
            _log.warning("a damaged run of players could not be deleted: %s", exc)
        self.waits_for = Position(0)

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
            self.waits_for = Position(head + RANGE_FACTS)
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
                self.waits_for = Position(first - 1 + RANGE_FACTS)
                at_end = not found or first > found[-1].range.last
                if due := due_for_merge(found):
                    self._merge(runs, due)
                elif last - first + 1 >= RANGE_FACTS or not at_end:
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
                if block.last - first + 1 >= RANGE_FACTS or block.last == last:
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

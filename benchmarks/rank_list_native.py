"""The native list's side of the benchmark, in a process of its own so that its memory can be told.

An update is what ZADD does to a member that is there: from a player's id, a Python string, and a
new score to the entry moved. So it is `intern_many(ids)` and `put_many(numbers, keys)`, which also
returns the ranks before and after, as ZADD does not. A rank is `find_many` and `rank_many`; a page
is `read` and the ids of its players. Strings and keys are made before the clock starts.
"""

import gc
import multiprocessing
import time
import traceback
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from benchmarks import entries, machine
from benchmarks.figures import Sample
from benchmarks.progress import told
from rankd.rank import NATIVE, PlayerTable, RankList

SYSTEM = "rankd"
BATCH = 4096
PAGE_ENTRIES = 100

# What is prepared before each reading of the clock: long enough for it, short enough to bound
# memory, and the same on both sides.
CHUNK_ENTRIES = 1 << 17
CHUNK_PAGES = 1 << 11

_SEED = 1

Batches = list[Any]


class NativeSide:
    """A list of so many players, and how long things take on it."""

    def __init__(self, players: int) -> None:
        entries.confirm_keys()
        assert NATIVE, "the native list was not built"
        self._players = players
        self._rng = np.random.default_rng(_SEED)
        self._position = players + 1
        for _ in entries.best_first(np.random.default_rng(_SEED), 2 * entries.BLOCK_ENTRIES):
            pass  # What numpy keeps for itself must not be counted as the list's.
        self._table = PlayerTable()
        self._list = RankList(players=self._table)
        self._empty_bytes = machine.resident_bytes()

    # -- filling --

    def fill(self) -> dict[str, Any]:
        """Load every player, best first; return how long that took and how much memory it has."""
        interned = self._intern_all()
        prepared = 0.0

        def blocks() -> Iterator[tuple[Any, Any]]:
            nonlocal prepared
            drawn = entries.best_first(self._rng, self._players)
            source = told(drawn, "loading", self._players)
            while True:
                began = time.perf_counter()
                block = next(source, None)
                if block is None:
                    return
                numbers, scores = block
                keys = entries.keys(scores, numbers.astype(np.uint64) + np.uint64(1))
                prepared += time.perf_counter() - began
                yield keys, numbers

        began = time.perf_counter()
        self._list.load(blocks())
        loaded = time.perf_counter() - began - prepared
        return {
            "intern_us": interned / self._players * 1e6,
            "load_us": loaded / self._players * 1e6,
            "memory": self.memory(),
        }

    def _intern_all(self) -> float:
        seconds = 0.0
        for start in range(0, self._players, entries.BLOCK_ENTRIES):
            end = min(start + entries.BLOCK_ENTRIES, self._players)
            text: Any = entries.packed_ids(np.arange(start, end, dtype=np.uint32))
            lengths: Any = np.full(end - start, entries.ID_BYTES, dtype=np.uint16)
            began = time.perf_counter()
            self._table.intern_packed(text, lengths)
            seconds += time.perf_counter() - began
        return seconds

    def insert(self) -> dict[str, Any]:
        """Fill by inserting players in random order of score instead of loading them."""
        sample = self._insert_all()
        return {"us": sample.wall_seconds / sample.operations * 1e6, "memory": self.memory()}

    def _insert_all(self) -> Sample:
        sample = Sample(0, 0.0, 0.0)
        arriving = entries.arriving(self._rng, self._players)
        for numbers, scores in told(arriving, "inserting", self._players):
            batches = self._batches(numbers, scores, BATCH)
            sample += _timed(self._update_without_ranks, batches, len(numbers))
        return sample

    def mix(self, moves: int) -> dict[str, Any]:
        """Move entries at random, so that the list is no longer as neat as it was loaded."""
        self._move_all(moves)
        return {"memory": self.memory()}

    def _move_all(self, moves: int) -> None:
        moving = entries.moving(self._rng, self._players, moves)
        for numbers, scores in told(moving, "moving", moves):
            keys: Any = self._keys(scores)
            self._list.put_many(numbers, keys)

    def memory(self) -> dict[str, int | None]:
        """Return what the list and the ids occupy: by their own account, and by the system's."""
        now = machine.resident_bytes()
        grown = None if now is None or self._empty_bytes is None else now - self._empty_bytes
        return {"own": self._table.bytes_used + self._list.bytes_used, "resident": grown}

    # -- measuring --

    def measure(self, operation: str, batch: int, seconds: float) -> Sample:
        """Do one kind of thing until it has taken so long; preparing it is not counted."""
        prepare, work = {
            "update": (self._prepare_updates, self._update),
            "update without ranks": (self._prepare_updates, self._update_without_ranks),
            "rank": (self._prepare_ranks, self._rank),
            "update, one call each": (self._prepare_single_updates, self._update_each),
            "rank, one call each": (self._prepare_single_ranks, self._rank_each),
            "top 100": (self._prepare_top, self._read),
            "100 from a random rank": (self._prepare_pages, self._read),
        }[operation]
        total = Sample(0, 0.0, 0.0)
        while total.wall_seconds < seconds:
            batches, count = prepare(batch)
            total += _timed(work, batches, count)
        assert len(self._list) == self._players
        return total

    def _keys(self, scores: entries.Numbers) -> entries.Text:
        first = self._position
        self._position += len(scores)
        return entries.keys(scores, np.arange(first, self._position, dtype=np.uint64))

    def _batches(self, numbers: entries.Numbers, scores: entries.Numbers, batch: int) -> Batches:
        names, keys = entries.ids(numbers), self._keys(scores)
        return [
            (names[i : i + batch], keys[16 * i : 16 * (i + batch)])
            for i in range(0, len(names), batch)
        ]

    def _prepare_updates(self, batch: int) -> tuple[Batches, int]:
        count = max(CHUNK_ENTRIES // batch, 1) * batch
        drawn = entries.random_entries(self._rng, self._players, count)
        return self._batches(*drawn, batch), count

    def _update(self, batches: Batches) -> None:
        intern_many, put_many = self._table.intern_many, self._list.put_many
        for names, keys in batches:
            put_many(intern_many(names), keys, ranks=True)

    def _update_without_ranks(self, batches: Batches) -> None:
        intern_many, put_many = self._table.intern_many, self._list.put_many
        for names, keys in batches:
            put_many(intern_many(names), keys)

    def _prepare_ranks(self, batch: int) -> tuple[Batches, int]:
        count = max(CHUNK_ENTRIES // batch, 1) * batch
        names = entries.ids(entries.random_entries(self._rng, self._players, count)[0])
        return [names[i : i + batch] for i in range(0, count, batch)], count

    def _rank(self, batches: Batches) -> None:
        find_many, rank_many = self._table.find_many, self._list.rank_many
        for names in batches:
            rank_many(find_many(names))

    def _prepare_single_updates(self, _batch: int) -> tuple[Batches, int]:
        numbers, scores = entries.random_entries(self._rng, self._players, CHUNK_ENTRIES)
        keys = self._keys(scores).tobytes()
        single = [keys[i : i + 16] for i in range(0, len(keys), 16)]
        return list(zip(entries.ids(numbers), single, strict=True)), CHUNK_ENTRIES

    def _update_each(self, pairs: Batches) -> None:
        intern, put = self._table.intern, self._list.put
        for name, key in pairs:
            put(intern(name), key)

    def _prepare_single_ranks(self, _batch: int) -> tuple[Batches, int]:
        numbers, _ = entries.random_entries(self._rng, self._players, CHUNK_ENTRIES)
        return entries.ids(numbers), CHUNK_ENTRIES

    def _rank_each(self, names: Batches) -> None:
        find, rank_of = self._table.find, self._list.rank_of
        for name in names:
            rank_of(find(name))  # type: ignore[arg-type]  # every player is there

    def _prepare_top(self, _batch: int) -> tuple[Batches, int]:
        return [1] * CHUNK_PAGES, CHUNK_PAGES

    def _prepare_pages(self, _batch: int) -> tuple[Batches, int]:
        last = self._players - PAGE_ENTRIES + 1
        return self._rng.integers(1, last, CHUNK_PAGES).tolist(), CHUNK_PAGES

    def _read(self, first_ranks: Batches) -> None:
        read, ids_of = self._list.read, self._table.ids_of
        for rank in first_ranks:
            _keys, numbers = read(rank, PAGE_ENTRIES)
            ids_of(numbers)


def _timed(work: Callable[[Batches], None], batches: Batches, count: int) -> Sample:
    gc.disable()  # Its pauses would belong to the strings prepared, not to the list.
    try:
        cpu, wall = time.process_time(), time.perf_counter()
        work(batches)
        return Sample(count, time.perf_counter() - wall, time.process_time() - cpu)
    finally:
        gc.enable()


# ---------------------------------------------------------------------------------------------
# In a process of its own
# ---------------------------------------------------------------------------------------------


class NativeProcess:
    """A NativeSide in another process; call() runs one of its methods there."""

    def __init__(self, players: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._here, there = context.Pipe()
        self._process = context.Process(target=_serve, args=(there, players), daemon=True)
        self._process.start()
        there.close()

    def call(self, method: str, *arguments: Any) -> Any:
        """Return what the method returns; RuntimeError if it raised or the process has ended."""
        self._here.send((method, arguments))
        try:
            done, result = self._here.recv()
        except EOFError:
            self._process.join()
            code = self._process.exitcode
            raise RuntimeError(f"the list's process ended with code {code}: no memory?") from None
        if not done:
            raise RuntimeError(f"{method} failed in the list's process\n{result}")
        return result

    def close(self) -> None:
        """End the process and give its memory back."""
        self._here.close()
        self._process.join()


def _serve(connection: Connection, players: int) -> None:
    side: NativeSide | None = None
    while True:
        try:
            method, arguments = connection.recv()
        except EOFError:
            return
        try:
            side = side or NativeSide(players)
            answer = True, getattr(side, method)(*arguments)
        except Exception:
            answer = False, traceback.format_exc()
        connection.send(answer)

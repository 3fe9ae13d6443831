"""How fast and how small is the rank list, up to a hundred million players?

Everything rankd answers rests on one list per ranking. If that is slow or large, nothing above it
can be fast or cheap; so it is measured alone, from Python, beside the sorted set of a Redis started
here, which is what most leaderboards are made of.

For each number of players:
  (1) Both sides are filled with the same entries, best first. rankd loads them in bulk; Redis gets
      them in the order that is quickest for it, and is given time to finish growing its hash table.
  (2) Entries are moved at random, so that neither is as neat as a fresh copy: as many moves as
      there are players in rankd, a tenth of that in Redis, which they only slow down.
  (3) Updates, ranks and pages are timed in turn, rankd and Redis one right after the other, several
      times over: the machine may be busy now and idle later, and should be so for both. Where
      memory does not suffice for the two at once, one goes after the other.
  (4) Up to ten million players, another copy is filled by inserting in random order.

Medians are compared: with the pipelines of 16 that redis-benchmark sends, which is how the speed of
Redis is usually told, and with the fastest of all the ways tried here, which is the stricter.
Memory is what the system says the process has grown by, ids included, after (2); for less than a
million players it is each side's own count.
"""

import contextlib
import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import machine, rank_list_native, rank_list_redis
from benchmarks.figures import TIMES, Goal, Measurement, Sample, count, fastest, quotient
from benchmarks.progress import tell
from benchmarks.rank_list_native import BATCH, NativeProcess
from benchmarks.rank_list_redis import RedisSide, Way, own_tool_installed, redis_side
from rankd.testing.servers import ServerMissing, redis_binary

NAME = "rank_list"
SIZES = (100_000, 1_000_000, 10_000_000)
PLAYERS_MIN = 1000
PLAYERS_MAX = 1_000_000_000

INSERTED_PLAYERS_MAX = 10_000_000  # Beyond, Redis would insert for half an hour.
BATCH_SIZES = (1, 16, 256, 4096)
BATCH_SIZES_AT_PLAYERS = 1_000_000

# Below, a process has grown by too few pages to tell the list's from the interpreter's own.
RESIDENT_PLAYERS_MIN = 1_000_000

# What a player needs at most while filling, to tell beforehand whether memory suffices.
NATIVE_BYTES_PER_PLAYER = 110
REDIS_BYTES_PER_PLAYER = 160
SPARE_BYTES = 1_000_000_000

BATCHED = ("update", "update without ranks", "rank")
SINGLE = ("update, one call each", "rank, one call each")
PAGES = ("top 100", "100 from a random rank")
OPERATIONS = (*BATCHED, *SINGLE, *PAGES, "update by batch", "rank by batch")

ONE_BY_ONE = Way()
MANY_WAYS = (
    Way(pipeline=16),
    Way(pipeline=1000),
    Way(connections=4, pipeline=16),
    Way(connections=4, pipeline=1000),
)
MANY_MEMBERS = Way(pipeline=4, members=1000)
USUAL_WAY = Way(connections=50, pipeline=16, own_tool=True)
OWN_TOOL_WAYS = (USUAL_WAY, Way(connections=50, pipeline=256, own_tool=True))
PAGE_WAYS = (Way(pipeline=16), Way(connections=4, pipeline=16))


@dataclass(slots=True)
class Options:
    """What was asked for on the command line."""

    sizes: Sequence[int]
    seconds: float
    repetitions: int
    redis: bool
    date: str
    results: Path


@dataclass(slots=True)
class Results:
    """All that a run found out."""

    date: str
    machine: dict[str, Any]
    sizes: list[int]
    redis_version: str | None = None
    measurements: list[Measurement] = field(default_factory=list)
    fills: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def us(self, players: int, system: str, operation: str) -> float | None:
        """The median of the fastest way, in microseconds."""
        found = fastest(self.measurements, players=players, system=system, operation=operation)
        return None if found is None else found.median_us

    def filled(self, players: int, system: str, state: str) -> dict[str, Any] | None:
        """What was noted when a side had come to a state: loaded, mixed or inserted."""
        for fill in self.fills:
            if (fill["players"], fill["system"], fill["state"]) == (players, system, state):
                return fill
        return None

    def bytes(self, players: int, system: str, state: str) -> float | None:
        """Memory by the system's account; by the side's own where the system's tells nothing."""
        fill = self.filled(players, system, state)
        if fill is None:
            return None
        resident: int | None = fill["memory"]["resident"]
        own: int = fill["memory"]["own"]
        return own if resident is None or players < RESIDENT_PLAYERS_MIN else resident

    def goals(self) -> list[Goal]:
        """What must be reached."""
        ours, redis = rank_list_native.SYSTEM, rank_list_redis.SYSTEM
        small, large, huge = 100_000, 10_000_000, 100_000_000

        def faster() -> float | None:
            return quotient(self.us(large, redis, "update"), self.us(large, ours, "update"))

        def faster_than_usual() -> float | None:
            usual = [
                m.median_us
                for m in self.measurements
                if (m.players, m.operation, m.way) == (large, "update", str(USUAL_WAY))
            ]
            return quotient(usual[0] if usual else None, self.us(large, ours, "update"))

        def faster_at_the_same() -> float | None:
            """A ZADD tells no ranks either."""
            alike = self.us(large, ours, "update without ranks")
            return quotient(self.us(large, redis, "update"), alike)

        def growth(operation: str) -> float | None:
            return quotient(self.us(huge, ours, operation), self.us(small, ours, operation))

        def gigabytes() -> float | None:
            return quotient(self.bytes(huge, ours, "mixed"), 1e9)

        return [
            Goal("speed", "updates, 10 M players, against Redis in pipelines of 16", TIMES,
                 "at least", 8, faster_than_usual),
            Goal("speed", "... without ranks, as ZADD, against Redis's fastest way", TIMES,
                 "at least", 8, faster_at_the_same),
            Goal("speed", "... with both ranks, against Redis's fastest way", TIMES,
                 "at least", 8, faster),
            Goal("size", "memory, 100 M players with ids", "GB", "at most", 9, gigabytes),
            Goal("speed", "one rank, 100 M players", "µs", "at most", 3,
                 lambda: self.us(huge, ours, "rank")),
            Goal("speed", "one update, 100 M players", "µs", "at most", 5,
                 lambda: self.us(huge, ours, "update")),
            Goal("growth", "one rank, 100 M players against 100 K", TIMES, "at most", 4,
                 lambda: growth("rank, one call each")),
            Goal("growth", "... in batches", TIMES, "at most", 4, lambda: growth("rank")),
        ]  # fmt: skip

    def as_json(self) -> dict[str, Any]:
        """Return the whole as plain data, goals judged."""
        whole = dataclasses.asdict(self)
        whole["goals"] = [goal.judged() for goal in self.goals()]
        return whole

    @classmethod
    def read(cls, path: Path) -> "Results":
        """Return what an earlier run wrote."""
        whole = json.loads(path.read_text())
        del whole["goals"]
        whole["measurements"] = [Measurement(**one) for one in whole["measurements"]]
        return cls(**whole)


def run(options: Options) -> Results:
    """Measure every size, and write what is known after each."""
    results = Results(options.date, machine.facts(), list(options.sizes))
    redis = options.redis and _redis_found(results)
    if redis and not own_tool_installed():
        results.notes.append("redis-benchmark is not installed: only this client was used.")
    for players in options.sizes:
        _Size(results, options, players, redis=redis).run()
        _write(results, options.results / f"{NAME}.json")
    return results


def _redis_found(results: Results) -> bool:
    try:
        redis_binary()
    except ServerMissing as error:
        results.notes.append(f"Not compared with Redis: {error}.")
        tell(results.notes[-1])
        return False
    return True


def _write(results: Results, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rounded = _rounded(results.as_json())
    path.write_text(json.dumps(rounded, indent=1, ensure_ascii=False) + "\n")


def _rounded(value: Any) -> Any:
    """Four significant digits: more would be noise, and would change the file at every run."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    return value


class _Size:
    """The measurements at one number of players."""

    def __init__(self, results: Results, options: Options, players: int, *, redis: bool) -> None:
        self._results, self._options, self._players = results, options, players
        self._redis = redis
        nearest = min(options.sizes, key=lambda n: abs(n - BATCH_SIZES_AT_PLAYERS))
        self._batch_sizes = BATCH_SIZES if players == nearest else ()

    def run(self) -> None:
        both = self._players * (NATIVE_BYTES_PER_PLAYER + REDIS_BYTES_PER_PLAYER)
        if self._redis and self._fits(both):
            with self._native() as native, self._server() as server:
                self._repeat([self._native_turns(native), self._redis_turns(server)])
        else:
            self._one_after_the_other()
        if self._players <= INSERTED_PLAYERS_MAX:
            self._insert()

    def _one_after_the_other(self) -> None:
        if self._fits(self._players * NATIVE_BYTES_PER_PLAYER):
            with self._native() as native:
                self._repeat([self._native_turns(native)])
        else:
            self._leave_out(rank_list_native.SYSTEM, NATIVE_BYTES_PER_PLAYER)
        if not self._redis:
            return
        if self._fits(self._players * REDIS_BYTES_PER_PLAYER):
            with self._server() as server:
                self._repeat([self._redis_turns(server)])
        else:
            self._leave_out(rank_list_redis.SYSTEM, REDIS_BYTES_PER_PLAYER)

    def _fits(self, bytes_needed: int) -> bool:
        available = machine.available_bytes()
        return available is None or bytes_needed + SPARE_BYTES <= available

    def _leave_out(self, system: str, bytes_per_player: int) -> None:
        needed = (self._players * bytes_per_player + SPARE_BYTES) / 1e9
        free = (machine.available_bytes() or 0) / 1e9
        note = f"{system} was not measured at {count(self._players)} players: that may need "
        self._results.notes.append(note + f"{needed:.0f} GB, and {free:.0f} GB were free.")
        self._tell(self._results.notes[-1])

    # -- the two sides, filled --

    @contextlib.contextmanager
    def _native(self) -> Iterator[NativeProcess]:
        native = NativeProcess(self._players)
        try:
            self._tell("rankd: loading")
            loaded = native.call("fill")
            self._note(rank_list_native.SYSTEM, "loaded", loaded)
            self._tell(f"rankd: moving {count(self._players)} entries at random")
            mixed = native.call("mix", self._players)
            self._note(rank_list_native.SYSTEM, "mixed", mixed)
            yield native
        finally:
            native.close()

    @contextlib.contextmanager
    def _server(self) -> Iterator[RedisSide]:
        with redis_side(self._players) as server:
            self._results.redis_version = server.version()
            self._tell("Redis: filling")
            self._note(rank_list_redis.SYSTEM, "loaded", server.fill())
            self._tell(f"Redis: moving {count(self._players // 10)} entries at random")
            self._note(rank_list_redis.SYSTEM, "mixed", server.mix(self._players // 10))
            yield server

    def _insert(self) -> None:
        native = NativeProcess(self._players)
        try:
            self._tell("rankd: inserting in random order")
            self._note(rank_list_native.SYSTEM, "inserted", native.call("insert"))
        finally:
            native.close()
        if self._redis:
            with redis_side(self._players) as server:
                self._tell("Redis: inserting in random order")
                self._note(rank_list_redis.SYSTEM, "inserted", server.insert())

    def _note(self, system: str, state: str, found: dict[str, Any]) -> None:
        fill = {"players": self._players, "system": system, "state": state, **found}
        self._results.fills.append(fill)
        own = found["memory"]["own"] / self._players
        self._tell(f"{system}: {state}, {own:.1f} bytes a player by its own account")

    # -- what is measured, in turns --

    def _repeat(self, sides: "Sequence[list[_Turn]]") -> None:
        """Take all turns, again and again; those that are compared follow one another."""
        turns = sorted(
            (turn for side in sides for turn in side),
            key=lambda turn: OPERATIONS.index(turn.measurement.operation),
        )
        self._results.measurements += [turn.measurement for turn in turns]
        for repetition in range(1, self._options.repetitions + 1):
            of = f"{repetition} of {self._options.repetitions}"
            for before, turn in zip([None, *turns], turns, strict=False):
                operation = turn.measurement.operation
                if before is None or before.measurement.operation != operation:
                    self._tell(f"measuring, {of}: {operation}")
                turn.measurement.add(turn.measure(self._options.seconds))

    def _native_turns(self, native: NativeProcess) -> "list[_Turn]":
        def turn(label: str, way: str, operation: str, batch: int) -> _Turn:
            measurement = Measurement(self._players, rank_list_native.SYSTEM, label, way)
            return _Turn(measurement, partial(native.call, "measure", operation, batch))

        batched = [turn(name, f"batches of {BATCH}", name, BATCH) for name in BATCHED]
        single = [turn(name, "one by one", name, 1) for name in (*SINGLE, *PAGES)]
        by_batch = [
            turn(f"{operation} by batch", str(batch), operation, batch)
            for operation in ("update", "rank")
            for batch in self._batch_sizes
        ]
        return [*batched, *single, *by_batch]

    def _redis_turns(self, server: RedisSide) -> "list[_Turn]":
        def turn(label: str, operation: str, way: Way, name: str = "") -> _Turn:
            measurement = Measurement(
                self._players, rank_list_redis.SYSTEM, label, name or str(way)
            )
            return _Turn(measurement, partial(server.measure, operation, way))

        ways = (*MANY_WAYS, *(OWN_TOOL_WAYS if own_tool_installed() else ()))
        updates = [turn("update", "update", way) for way in (*ways, MANY_MEMBERS)]
        ranks = [turn("rank", "rank", way) for way in ways]
        single = [turn(name, name.partition(",")[0], ONE_BY_ONE) for name in SINGLE]
        pages = [turn(name, name, way) for name in PAGES for way in PAGE_WAYS]
        by_batch = [
            turn(f"{operation} by batch", operation, Way(pipeline=batch), str(batch))
            for operation in ("update", "rank")
            for batch in self._batch_sizes
        ]
        return [*updates, *ranks, *single, *pages, *by_batch]

    def _tell(self, stage: str) -> None:
        tell(f"{count(self._players)} players: {stage}")


@dataclass(frozen=True, slots=True)
class _Turn:
    measurement: Measurement
    measure: Callable[[float], Sample]

"""From players, scores and reads a second to memory, processes, disk and cost.

    python -m benchmarks.sizing --players 100M --scores 10K --reads 50K
    python -m benchmarks.sizing --measure [--players 4M]

The first is arithmetic over what was measured: it reads benchmarks/results/*.json, needs nothing
but Python, and says which figure it has not got. The second measures what nothing else does: the
bytes that a player takes in memory and a fact on disk, and what following a ledger in PostgreSQL
costs, with an index of one's own and over Redis. It needs PostgreSQL and Redis on the machine, and
a few minutes; `--only "Redis: "` measures the rows that begin so, and keeps the others.

The model in three sentences. A process is one core; a score that it takes, a read that it answers
and a fact that it follows each cost it the time that was measured, and it may be busy for a part of
its time only. Every node follows all facts; with a native index it folds them and holds all
players, while an index in Redis is held once and moved by one core, or by as many as a cluster has.
What is measured on one machine is taken to hold on another of its kind, and a sum of costs to be
the cost of the sum: so try it before you buy it.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

NAME = "sizing"
QUESTION = "What do a player and a fact take, and what does following cost?"
RESULTS = Path(__file__).with_name("results")

PROCESSES_MAX = 64
"""As `rankd serve --workers` has it; of nodes, more than anybody has tried."""

DAY_SECONDS = 86_400
GB = 1e9

MEASURED_FACTS = 200_000
BATCH = 1_000
FOLLOWED_FACTS = 50_000
GATHERED = 100
"""Of the scores that 256 connections send one by one, so many share a commit."""


class Source(NamedTuple):
    """Where a figure is, and what measures it anew."""

    file: str
    row: str
    command: str


_HTTP, _START = "make bench QUESTIONS=http", "make bench QUESTIONS=start"
_HERE, _NODES = "python -m benchmarks.sizing --measure", "make bench QUESTIONS=nodes"
_REDIS = "python -m benchmarks.redis_index"

SOURCES: Mapping[str, Source] = {
    "process bytes": Source("http", "memory, idle", _HTTP),
    "player bytes": Source(NAME, "native: a player, with its first ranking", _HERE),
    "ranking bytes": Source(NAME, "native: a further ranking of a player", _HERE),
    "score rate": Source("http", "durable submissions, 256 connections", _HTTP),
    "batched score rate": Source("http", "durable scores in batches of 1,000", _HTTP),
    "read rate": Source("http", "one rank, 256 connections", _HTTP),
    "replay seconds": Source("start", "ready from the ledger", _START),
    "fact bytes": Source(NAME, "SQLite: a fact", _HERE),
    "keyed fact bytes": Source(NAME, "SQLite: a fact with a key", _HERE),
    "PostgreSQL follow us": Source(NAME, "PostgreSQL: processor time to follow a fact", _HERE),
    "PostgreSQL fact bytes": Source(NAME, "PostgreSQL: a fact", _HERE),
    "PostgreSQL keyed fact bytes": Source(NAME, "PostgreSQL: a fact with a key", _HERE),
    "PostgreSQL score rate": Source("nodes", "submissions, native, 256 connections", _NODES),
    "PostgreSQL read rate": Source("nodes", "ranks, native, 256 connections", _NODES),
    "Redis score rate": Source("nodes", "submissions, Redis, 256 connections", _NODES),
    "Redis read rate": Source("nodes", "ranks, Redis, 256 connections", _NODES),
    "PostgreSQL batched score rate": Source("nodes", "scores in batches of 1,000, native", _NODES),
    "Redis batched score rate": Source("nodes", "scores in batches of 1,000, Redis", _NODES),
    "Redis player bytes": Source("redis_index", "bytes a player", _REDIS),
    "Redis follow us": Source(NAME, "Redis: processor time to follow a fact", _HERE),
    "Redis move rate": Source("redis_index", "moves in applies of 256", _REDIS),
}

_FACTOR = {"MB": 1e6}
_PLAYERS_OF = {"start": "replayed players"}


@dataclass(frozen=True)
class Figures:
    """What was measured; what was not is missing, and asking for it is noted."""

    known: Mapping[str, float]

    @staticmethod
    def read(folder: Path) -> "Figures":
        """Read what is there of the results."""
        known: dict[str, float] = {}
        for name, source in SOURCES.items():
            result = _result(folder / f"{source.file}.json")
            for row in result.get("rows", ()):
                if row["what"] == source.row:
                    known[name] = row["figure"] * _FACTOR.get(row["unit"], 1.0)
            if source.file in _PLAYERS_OF and name in known:
                known[_PLAYERS_OF[source.file]] = result["players"]
        return Figures(known)

    def get(self, name: str, notes: list[str], instead: str | None = None) -> float | None:
        """Return a figure, or another in its place; note what is missing."""
        if name in self.known:
            return self.known[name]
        source = SOURCES[name]
        stand_in = "" if instead is None else f"; {instead!r} stands in for it"
        note = f"{name!r} is not measured ({source.command}){stand_in}"
        if note not in notes:
            notes.append(note)
        return None if instead is None else self.get(instead, notes)


def _result(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text())) if path.exists() else {}


# ---------------------------------------------------------------------------- the model


@dataclass(frozen=True, kw_only=True)
class Load:
    """What is asked of a service."""

    players: int
    scores: float
    """A second, at the busiest time."""
    reads: float
    rankings: int = 1
    """How many each player is in: windows, and each of its segments in every window."""
    keyed: bool = True
    batched: bool = False
    average: float = 0.3
    """The scores of a whole day, as a part of what the busiest second would make of it."""
    days: int = 365
    """How long the disk has to last: a ledger keeps everything."""
    busy: float = 0.5
    """The part of its time for which a process may be busy."""


@dataclass(kw_only=True)
class Plan:
    """What one way of setting it up takes."""

    layout: str
    processes: int | None = None
    """With one to spare where there are several machines; None if no number is enough."""
    process_bytes: float | None = None
    redis_bytes: float | None = None
    redis_cores: int = 0
    """A server of Redis uses one; several are a cluster, over which a ranking is spread."""
    disk_bytes: float | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def memory_bytes(self) -> float | None:
        """All of it: of every process, and of Redis."""
        if self.processes is None or self.process_bytes is None:
            return None
        return self.processes * self.process_bytes + (self.redis_bytes or 0.0)


def plans(load: Load, figures: Figures) -> list[Plan]:
    """Return what each way of setting it up takes."""
    return [
        _one_machine(load, figures),
        _native_nodes(load, figures),
        _redis_nodes(load, figures),
    ]


def _one_machine(load: Load, figures: Figures) -> Plan:
    plan = Plan(layout="SQLite + native")
    score = _seconds(figures, _score_rate(load), plan.notes)
    read = _seconds(figures, "read rate", plan.notes)
    replay = figures.get("replay seconds", plan.notes)
    if score is None or read is None or replay is None:
        return plan
    follow = replay / figures.known["replayed players"]

    def busiest(processes: int) -> float:
        shared = load.reads * read / processes
        return max(load.scores * score, load.scores * follow) + shared

    plan.processes = _fewest(busiest, load.busy)
    _note_limit(plan, load, "one process takes all scores")
    plan.process_bytes = _native_bytes(load, figures, plan.notes)
    plan.disk_bytes = _disk(load, figures, "", plan.notes)
    return plan


def _native_nodes(load: Load, figures: Figures) -> Plan:
    plan = Plan(layout="PostgreSQL + native")
    score = _seconds(figures, f"PostgreSQL {_score_rate(load)}", plan.notes, _score_rate(load))
    read = _seconds(figures, "PostgreSQL read rate", plan.notes, "read rate")
    follow = figures.get("PostgreSQL follow us", plan.notes)
    if score is None or read is None or follow is None:
        return plan

    def busiest(nodes: int) -> float:
        own = (load.scores * score + load.reads * read) / nodes
        return load.scores * follow / 1e6 + own

    plan.processes = _with_spare(_fewest(busiest, load.busy))
    _note_limit(plan, load, "every node follows all scores")
    plan.process_bytes = _native_bytes(load, figures, plan.notes)
    plan.disk_bytes = _disk(load, figures, "PostgreSQL ", plan.notes)
    return plan


def _redis_nodes(load: Load, figures: Figures) -> Plan:
    plan = Plan(layout="PostgreSQL + Redis")
    score = _seconds(figures, f"Redis {_score_rate(load)}", plan.notes)
    read = _seconds(figures, "Redis read rate", plan.notes)
    follow = figures.get("Redis follow us", plan.notes)
    moves = figures.get("Redis move rate", plan.notes)
    entry = figures.get("Redis player bytes", plan.notes)
    if entry is not None:
        plan.redis_bytes = load.players * load.rankings * entry
    plan.process_bytes = figures.get("process bytes", plan.notes)
    plan.disk_bytes = _disk(load, figures, "PostgreSQL ", plan.notes)
    if score is None or read is None or follow is None or moves is None:
        return plan
    plan.redis_cores = max(1, math.ceil(load.scores * load.rankings / (moves * load.busy)))
    if plan.redis_cores > PROCESSES_MAX:
        each = f"{moves * load.busy:,.0f} moves/s"
        plan.notes.append(f"a server of Redis takes {each} at that load: {plan.redis_cores}")
        return plan

    def busiest(nodes: int) -> float:
        own = (load.scores * score + load.reads * read) / nodes
        return load.scores * follow / 1e6 + own

    plan.processes = _with_spare(_fewest(busiest, load.busy))
    _note_limit(plan, load, "every node follows all scores")
    return plan


def _score_rate(load: Load) -> str:
    return "batched score rate" if load.batched else "score rate"


def _seconds(
    figures: Figures, rate: str, notes: list[str], instead: str | None = None
) -> float | None:
    """Return what one of them costs a process."""
    found = figures.get(rate, notes, instead)
    return None if found is None else 1.0 / found


def _fewest(busiest: Any, busy: float) -> int | None:
    return next((n for n in range(1, PROCESSES_MAX + 1) if busiest(n) <= busy), None)


def _with_spare(nodes: int | None) -> int | None:
    return None if nodes is None else nodes + 1


def _note_limit(plan: Plan, load: Load, why: str) -> None:
    if plan.processes is None:
        plan.notes.append(f"no number of processes takes {load.scores:,.0f} scores/s: {why}")


def _native_bytes(load: Load, figures: Figures, notes: list[str]) -> float | None:
    idle = figures.get("process bytes", notes)
    first = figures.get("player bytes", notes)
    further = figures.get("ranking bytes", notes)
    if idle is None or first is None or further is None:
        return None
    return idle + load.players * (first + (load.rankings - 1) * further)


def _disk(load: Load, figures: Figures, where: str, notes: list[str]) -> float | None:
    fact = figures.get(f"{where}{'keyed fact' if load.keyed else 'fact'} bytes", notes)
    if fact is None:
        return None
    return facts(load) * fact


def facts(load: Load) -> float:
    """Return how many are in the ledger when the days are over."""
    return load.scores * load.average * DAY_SECONDS * load.days


def folding_seconds(load: Load, figures: Figures) -> float | None:
    """Return how long one core folds all of them, from PostgreSQL."""
    each = figures.get("PostgreSQL follow us", [])
    return None if each is None else facts(load) * each / 1e6


# ----------------------------------------------------------------------------- the cost


@dataclass(frozen=True, kw_only=True)
class Prices:
    """What a month costs: yours to say. The defaults are round numbers, and nobody's list."""

    core: float = 20.0
    memory_gb: float = 3.0
    disk_gb: float = 0.1
    database_cores: int = 4
    """Of PostgreSQL, where there is one."""
    database_gb: float = 16.0
    """Of memory, for the same."""


def cost(plan: Plan, prices: Prices) -> float | None:
    """Return what a month of a plan costs, the disk at its fullest; None if that is not known."""
    if plan.processes is None or plan.memory_bytes is None or plan.disk_bytes is None:
        return None
    cores, memory = plan.processes + plan.redis_cores, plan.memory_bytes / GB
    if plan.layout.startswith("PostgreSQL"):
        cores, memory = cores + prices.database_cores, memory + prices.database_gb
    return cores * prices.core + memory * prices.memory_gb + plan.disk_bytes / GB * prices.disk_gb


HEADS = ("processes", "GB each", "Redis", "Redis GB", "disk GB", "a month")
WIDTHS = (9, 8, 5, 8, 9, 8)


def shown(load: Load, figures: Figures, prices: Prices) -> str:
    """Return all plans as people read them."""
    asked = f"{load.scores:,.0f} scores/s, {load.reads:,.0f} reads/s"
    heads = zip(HEADS, WIDTHS, strict=True)
    lines = [
        f"{load.players:,} players in {load.rankings} rankings each, {asked}",
        "",
        "  ".join([" " * 20, *(f"{head:>{width}}" for head, width in heads)]),
    ]
    notes: dict[str, None] = {}
    for plan in plans(load, figures):
        cells = [
            _cell(plan.processes, 1),
            _cell(plan.process_bytes, GB),
            _cell(plan.redis_cores or None, 1) if "Redis" in plan.layout else "",
            _cell(plan.redis_bytes, GB) if "Redis" in plan.layout else "",
            _cell(plan.disk_bytes, GB),
            _cell(cost(plan, prices), 1),
        ]
        placed = (f"{cell:>{width}}" for cell, width in zip(cells, WIDTHS, strict=True))
        lines.append("  ".join([f"{plan.layout:<20}", *placed]))
        notes |= dict.fromkeys(f"{plan.layout}: {note}" for note in plan.notes)
    return "\n".join([*lines, *(["", *notes] if notes else [])])


def _cell(figure: float | None, unit: float) -> str:
    if figure is None:
        return "-"
    digits = 2 if unit == GB and figure < 10 * GB else 0
    return f"{figure / unit:,.{digits}f}"


# ------------------------------------------------------------------------- the measuring

_FILL = """
import sys
import rankd
from benchmarks.machine import resident_bytes
folder, players, windows = sys.argv[1], int(sys.argv[2]), sys.argv[3].split(",")
with rankd.open(folder) as ranks:
    board = ranks.board("arena", windows=windows)
    before = resident_bytes()
    for first in range(0, players, 1000):
        some = range(first, min(first + 1000, players))
        board.submit_many([(f"player-{n:09d}", n * 2654435761 % 10**9) for n in some])
    print(resident_bytes() - before)
"""

_FOLLOW = """
import sys, time
import rankd
began = time.process_time()
with rankd.open(sys.argv[1]) as ranks:
    print((time.process_time() - began) / ranks.position * 1e6)
"""


_FOLLOW_REDIS = """
import sys, time
import rankd
from rankd.bootstrap import Place
ledger, index, facts = sys.argv[1], sys.argv[2], int(sys.argv[3])
with rankd.open(Place(None, ledger, index)) as ranks:
    first = ranks.position
    print("ready", flush=True)
    began = time.process_time()
    while ranks.position < first + facts:
        time.sleep(0.02)
    print((time.process_time() - began) / facts * 1e6)
"""


def measure(players: int, only: str = "", old: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Measure the bytes and the following; return a result as the other benchmarks write it.

    With ``only``, rows that begin so; the rest stays as it is in an ``old`` result.
    """
    from datetime import UTC, datetime

    from benchmarks import machine, questions

    measures: Mapping[str, Callable[[], list[dict[str, Any]]]] = {
        "native: ": lambda: _memory(players),
        "SQLite: ": _sqlite_bytes,
        "PostgreSQL: ": _postgres,
        "Redis: ": _redis,
    }
    date = datetime.now(UTC).date().isoformat()
    if not only or not old:
        rows = [row for work in measures.values() for row in work()]
        return questions.answer(NAME, QUESTION, questions.Asked(players, date), rows)
    when = {"date": date, "commit": machine.facts()["commit"]}
    rows = []
    for first, work in measures.items():
        if first.startswith(only):
            rows += [row | when for row in work()]
        else:
            rows += [row for row in old["rows"] if row["what"].startswith(first)]
    return {**old, "rows": rows}


def _memory(players: int) -> list[dict[str, Any]]:
    from benchmarks.questions import row

    held = {}
    for windows in ("all", "all,daily,weekly"):
        with tempfile.TemporaryDirectory() as folder:
            held[windows] = _told(_FILL, folder, players, windows) / players
    further = (held["all,daily,weekly"] - held["all"]) / 2
    return [
        row("native: a player, with its first ranking", held["all"], "B"),
        row("native: a further ranking of a player", further, "B"),
    ]


def _sqlite_bytes() -> list[dict[str, Any]]:
    from benchmarks.questions import row

    rows = []
    for what, keyed in (("SQLite: a fact", False), ("SQLite: a fact with a key", True)):
        with tempfile.TemporaryDirectory() as folder:
            _submit(folder, keyed=keyed)
            files = (*Path(folder).glob("*.db"), *Path(folder).glob("ledger.players/*"))
            size = sum(path.stat().st_size for path in files)
        rows.append(row(what, size / MEASURED_FACTS, "B"))
    return rows


def _postgres() -> list[dict[str, Any]]:
    from benchmarks.questions import row
    from rankd.testing.servers import postgres_server

    rows = []
    for what, keyed in (("PostgreSQL: a fact", False), ("PostgreSQL: a fact with a key", True)):
        with postgres_server(durable=True) as server:
            _submit(server.url, keyed=keyed)
            rows.append(row(what, _relation_bytes(server.url) / MEASURED_FACTS, "B"))
            if not keyed:
                us = _told(_FOLLOW, server.url)
                rows.append(row("PostgreSQL: processor time to follow a fact", us, "us"))
    return rows


def _redis() -> list[dict[str, Any]]:
    """Let one node follow what another takes: a hundred at a time, as they gather under load."""
    import rankd
    from benchmarks.questions import row
    from rankd.bootstrap import EngineConfig
    from rankd.testing.servers import postgres_server, redis_server

    with postgres_server(durable=True) as ledger, redis_server() as redis:
        words = [ledger.url, redis.url, str(FOLLOWED_FACTS)]
        with rankd.open(EngineConfig(None, ledger.url, redis.url)) as ranks:
            board = ranks.board("arena")
            program = [sys.executable, "-c", _FOLLOW_REDIS, *words]
            with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as follower:
                assert follower.stdout is not None
                assert follower.stdout.readline() == "ready\n"
                for first in range(0, FOLLOWED_FACTS, GATHERED):
                    some = range(first, first + GATHERED)
                    scores = [(f"player-{n:09d}", n * 2654435761 % 10**9) for n in some]
                    board.submit_many(scores)
                us = float(follower.stdout.read())
    return [row("Redis: processor time to follow a fact", us, "us")]


def _submit(place: str, *, keyed: bool) -> None:
    from uuid import uuid4

    import rankd

    with rankd.open(place) as ranks:
        board = ranks.board("arena")
        for first in range(0, MEASURED_FACTS, BATCH):
            board.submit_many(
                [
                    {"player": f"player-{n:09d}", "score": n * 2654435761 % 10**9}
                    | ({"key": uuid4().hex} if keyed else {})
                    for n in range(first, first + BATCH)
                ]
            )


def _relation_bytes(url: str) -> int:
    import asyncio

    import asyncpg  # type: ignore[import-untyped]

    async def ask() -> int:
        connection = await asyncpg.connect(url)
        try:
            return int(
                await connection.fetchval(
                    "SELECT sum(pg_total_relation_size(oid)) FROM pg_class "
                    "WHERE relnamespace = 'rankd'::regnamespace AND relkind = 'r'"
                )
            )
        finally:
            await connection.close()

    return asyncio.run(ask())


def _told(program: str, *args: object) -> float:
    """Run a program by itself, so that it pays for nobody's memory but its own."""
    words = [sys.executable, "-c", program, *map(str, args)]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout)


# --------------------------------------------------------------------- the command line


def _number(text: str) -> float:
    """Read 100M, 10K, 1.5B or a plain number."""
    factors = {"K": 1e3, "M": 1e6, "B": 1e9}
    last = text[-1:].upper()
    number = float(text[:-1]) * factors[last] if last in factors else float(text)
    if not (math.isfinite(number) and number >= 0):
        raise ValueError
    return number


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sizing")
    add = parser.add_argument
    add("--players", type=_number, default=1e6, help="100M, 2.5M, 40000")
    add("--scores", type=_number, default=1e3, help="a second, at the busiest time")
    add("--reads", type=_number, default=1e4, help="a second, at the busiest time")
    add("--rankings", type=int, default=3, help="how many each player is in; windows and segments")
    add("--without-keys", action="store_true", help="submissions carry no key")
    add("--batched", action="store_true", help="scores come a thousand a request")
    add("--average", type=float, default=0.3, help="scores of a day, as a part of the peak's")
    add("--days", type=int, default=365, help="how long the disk has to last")
    add("--busy", type=float, default=0.5, help="for which part of its time a process may be busy")
    add("--price-core", type=float, default=20.0, help="a month")
    add("--price-memory", type=float, default=3.0, help="a GB and month")
    add("--price-disk", type=float, default=0.1, help="a GB and month")
    add("--database-cores", type=int, default=4, help="of PostgreSQL")
    add("--database-gb", type=float, default=16.0, help="of memory, of PostgreSQL")
    add("--results", type=Path, default=RESULTS, help="where the figures are")
    add("--measure", action="store_true", help="measure bytes and following, and write them there")
    add("--only", default="", help="of what is measured, the rows that begin so")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> None:
    """Read the command line; measure, or tell what is needed."""
    options = _options(words)
    if options.measure:
        from benchmarks import questions

        old = _result(options.results / f"{NAME}.json")
        result = measure(int(options.players), options.only, old)
        print(questions.shown(result))
        print("\nWritten:", questions.write(result, options.results))
        return
    load = Load(
        players=int(options.players),
        scores=options.scores,
        reads=options.reads,
        rankings=options.rankings,
        keyed=not options.without_keys,
        batched=options.batched,
        average=options.average,
        days=options.days,
        busy=options.busy,
    )
    prices = Prices(
        core=options.price_core,
        memory_gb=options.price_memory,
        disk_gb=options.price_disk,
        database_cores=options.database_cores,
        database_gb=options.database_gb,
    )
    print(shown(load, Figures.read(options.results), prices))


if __name__ == "__main__":
    main()

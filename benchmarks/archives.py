"""What do sealed windows cost: while they are archived, when they are read, and in memory?

First a year of days with a hundredth as many players each, as that many players come back day
after day: how much memory they take above an engine without any, and how long a rank, a page and a
lookup of fifty in one of them take. Then a board with all players is closed; a reader and a writer
go on while its ranking is archived, and their waits are told beside those of a quiet stretch.
"""

import os
import random
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import rankd
from benchmarks.closing import SetClock
from benchmarks.figures import Goal
from benchmarks.progress import tell
from benchmarks.questions import Asked, answer, find, judged, row
from rankd.embedded import Ranks

NAME = "archives"
QUESTION = "What do sealed windows cost, in time and in memory?"
BATCH = 8_192
DAY = 86_400_000_000
DAYS = 365
OF_ALL = 100
"""A day of the year has one of so many players."""

READS = 2_000
QUIET_SECONDS = 5.0
SETTLED_SECONDS = 10.0
"""Time to archive the last day, and to free its memory."""

ARCHIVED_SECONDS_MAX = 600.0
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def run(asked: Asked) -> dict[str, Any]:
    """Measure, and judge by the goals."""
    rows = [*_year(max(asked.players // OF_ALL, 1)), *_sealing(asked.players)]
    result = answer(NAME, QUESTION, asked, rows)
    goals = [
        Goal("P16", what, unit, "at most", bound, lambda what=what: find(result, what))  # type: ignore[misc]
        for what, unit, bound in (
            ("sealing: a read, 99 of 100", "ms", 10),
            ("a rank of a sealed day, 99 of 100", "ms", 1),
            ("memory of a year above an empty engine", "MB", 200),
        )
    ]
    return judged(result, goals)


def resident() -> int:
    """Return the bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


def _folder_bytes(folder: str) -> int:
    archives = Path(folder, "index", "archives")
    return sum(path.stat().st_size for path in archives.glob("??/*"))


# ------------------------------------------------------------------------------- a year


def _year(players: int) -> list[dict[str, Any]]:
    clock, rows = SetClock(), []
    with tempfile.TemporaryDirectory() as folder, rankd.open(folder, clock=clock) as ranks:
        board = ranks.board("arena", windows=["daily"])
        _fill(board, 10_000, 0)  # What an engine takes once it has been used.
        empty, dice = resident(), random.Random(6)
        for day in range(DAYS):
            clock.time += DAY
            _fill(board, players, day)
            if day % 10 == 0:
                tell(f"    a year: day {day} of {DAYS}, {resident() / 1e6:,.0f} MB")
        clock.time += DAY
        board.submit("the last one", 1)
        _wait_for_archives(folder, DAYS)
        time.sleep(SETTLED_SECONDS)
        rows.append(row("memory of a year above an empty engine", (resident() - empty) / 1e6, "MB"))
        rows.append(row("a sealed day on the disk", _folder_bytes(folder) / DAYS / 1e6, "MB"))
        rows += _reads(board, players, dice)
        rows.append(row("memory once all of it was read", (resident() - empty) / 1e6, "MB"))
    return rows


def _fill(board: Any, players: int, seed: int) -> None:
    dice = random.Random(seed)
    for first in range(0, players, BATCH):
        some = range(first, min(first + BATCH, players))
        board.submit_many([(f"player-{n:09d}", dice.randrange(10**9)) for n in some])


def _wait_for_archives(folder: str, count: int) -> None:
    ends = time.monotonic() + ARCHIVED_SECONDS_MAX
    while time.monotonic() < ends:
        if len(list(Path(folder, "index", "archives").glob("??/*"))) >= count:
            return
        time.sleep(0.05)
    raise SystemExit("the sealed windows were not archived in time")


def _reads(board: Any, players: int, dice: random.Random) -> list[dict[str, Any]]:
    """Read random players of random days."""
    days = sorted(one.id for one in board.windows() if one.state == "sealed")[1:]

    def player() -> str:
        return f"player-{dice.randrange(players):09d}"

    def rank() -> None:
        assert board.standing(player(), window=dice.choice(days)) is not None

    def page() -> None:
        board.page(offset=dice.randrange(players), limit=100, window=dice.choice(days))

    def lookup() -> None:
        board.lookup([player() for _ in range(50)], window=dice.choice(days))

    rows = []
    for what, read in (("a rank", rank), ("a page of 100", page), ("a lookup of 50", lookup)):
        used = time.process_time()
        waits = sorted(_timed(read) for _ in range(READS))
        used = (time.process_time() - used) / READS
        rows.append(row(f"{what} of a sealed day, median", waits[READS // 2] * 1e3, "ms"))
        rows.append(row(f"{what} of a sealed day, 99 of 100", waits[-READS // 100] * 1e3, "ms"))
        rows.append(row(f"{what} of a sealed day, processor time", used * 1e3, "ms"))
    return rows


def _timed(work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


# ------------------------------------------------------------------------------ sealing


def _sealing(players: int) -> list[dict[str, Any]]:
    clock = SetClock()
    with tempfile.TemporaryDirectory() as folder, rankd.open(folder, clock=clock) as ranks:
        board = ranks.board("arena", windows=["daily"])
        dice = random.Random(4)
        for first in range(0, players, BATCH):
            some = range(first, min(first + BATCH, players))
            board.submit_many([(f"player-{n:09d}", dice.randrange(10**9)) for n in some])
            if first % (BATCH * 128) == 0:
                tell(f"    filling: {first:,} of {players:,}")
        full = resident()
        tell("archives: quiet")
        rows = _watched("quiet", ranks, lambda: time.sleep(QUIET_SECONDS))
        tell("archives: sealing")
        clock.time += DAY
        started = time.monotonic()
        rows += _watched("sealing", ranks, lambda: _wait_for_archives(folder, 1))
        rows.append(row("sealing: until it is archived", time.monotonic() - started, "s"))
        time.sleep(2 * SETTLED_SECONDS)
        rows.append(row("memory that a sealed window gives back", (full - resident()) / 1e6, "MB"))
    return rows


def _watched(stage: str, ranks: Ranks, work: Callable[[], None]) -> list[dict[str, Any]]:
    """Read and write while something is done; return how long both had to wait."""
    waits: dict[str, list[float]] = {"a read": [], "a write": []}
    ended = threading.Event()

    def go_on(what: str, call: Callable[[str], object]) -> None:
        dice = random.Random(what)
        while not ended.is_set():
            player = f"player-{dice.randrange(100_000):09d}"
            waits[what].append(_timed(lambda: call(player)))  # noqa: B023 - it is called at once
            time.sleep(0.001)

    board = ranks.board("arena")
    threads = [
        threading.Thread(target=go_on, args=("a read", board.standing)),
        threading.Thread(target=go_on, args=("a write", lambda id: board.submit(id, 5))),
    ]
    for thread in threads:
        thread.start()
    try:
        work()
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    rows = []
    for what, seconds in waits.items():
        seconds.sort()
        rows.append(row(f"{stage}: {what}, 99 of 100", seconds[-len(seconds) // 100] * 1e3, "ms"))
        rows.append(row(f"{stage}: {what}, the longest", seconds[-1] * 1e3, "ms"))
    return rows

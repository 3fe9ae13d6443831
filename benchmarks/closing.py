"""Do readers or writers wait when a window with ten million entries closes, or is dropped?

A board has a daily window with all players in it, and keeps closed ones for a day. The clock is set
past midnight, and a day later again, while a reader and a writer go on; their longest waits around
each turn are told, beside those of a quiet stretch before it: what the machine itself takes.
"""

import random
import tempfile
import threading
import time
from typing import Any

import rankd
from benchmarks.figures import Goal
from benchmarks.progress import tell
from benchmarks.questions import Asked, answer, find, judged, row

NAME = "closing"
QUESTION = "Does anybody wait when a large window closes, or is dropped?"
BATCH = 8_192
DAY = 86_400_000_000
WATCHED_SECONDS = 5.0


class SetClock:
    """A clock that is set."""

    def __init__(self) -> None:
        self.time = 20_000 * DAY + DAY // 2

    def now(self) -> int:
        return self.time


def run(asked: Asked) -> dict[str, Any]:
    """Measure, and judge by the goals."""
    clock = SetClock()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder, rankd.open(folder, clock=clock) as ranks:
        board = ranks.board("arena", windows=["daily"], retention={"daily": "1d"})
        dice = random.Random(4)
        for first in range(0, asked.players, BATCH):
            some = range(first, min(first + BATCH, asked.players))
            board.submit_many([(f"player-{n:09d}", dice.randrange(10**9)) for n in some])
            if first % (BATCH * 128) == 0:
                tell(f"    filling: {first:,} of {asked.players:,}")
        for stage, days in (("quiet", 0), ("closing", 1), ("dropping", 2)):
            tell(f"closing: {stage}")
            waits = _watched(board, clock, days)
            for who, seconds in waits.items():
                rows.append(row(f"{stage}: {who}'s longest wait", seconds * 1e3, "ms"))
    result = answer(NAME, QUESTION, asked, rows)
    goals = [
        Goal("P12", what, "ms", "at most", 50, lambda what=what: find(result, what))  # type: ignore[misc]
        for what in (
            "closing: reader's longest wait",
            "closing: writer's longest wait",
            "dropping: reader's longest wait",
            "dropping: writer's longest wait",
        )
    ]
    return judged(result, goals)


def _watched(board: Any, clock: SetClock, days: int) -> dict[str, float]:
    """Go on reading and writing; after a second, set the clock."""
    waits = {"reader": 0.0, "writer": 0.0}
    ended = threading.Event()

    def go_on(who: str, work: Any) -> None:
        dice = random.Random(who)
        while not ended.is_set():
            player = f"player-{dice.randrange(100_000):09d}"
            started = time.perf_counter()
            work(player)
            waits[who] = max(waits[who], time.perf_counter() - started)
            time.sleep(0.001)

    threads = [
        threading.Thread(target=go_on, args=("reader", lambda id: board.standing(id))),
        threading.Thread(target=go_on, args=("writer", lambda id: board.submit(id, 5))),
    ]
    for thread in threads:
        thread.start()
    time.sleep(1.0)
    clock.time += days * DAY
    time.sleep(WATCHED_SECONDS)
    ended.set()
    for thread in threads:
        thread.join()
    return waits

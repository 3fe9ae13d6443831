"""How long until an engine with ten million players answers?

A folder is filled once. Then the engine is opened in a process of its own, once from its snapshot
and once from the ledger alone, and the time is taken from the start of the interpreter to the first
answer. While the snapshot is written, a reader and a writer go on: their longest waits are told.
"""

import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import rankd
from benchmarks.figures import Goal
from benchmarks.progress import tell
from benchmarks.questions import Asked, answer, find, judged, row

NAME = "start"
QUESTION = "How long until an engine answers, from a snapshot and from its ledger?"
BATCH = 8_192

_PROGRAM = """
import sys, time
import rankd
with rankd.open(sys.argv[1]) as ranks:
    standing = ranks.board("arena").standing("player-000000001")
    assert standing is not None and standing.total == int(sys.argv[2]), standing
    print("ready", flush=True)
    sys.stdin.read()
"""


def run(asked: Asked) -> dict[str, Any]:
    """Measure, and judge by the goals."""
    folder = Path(tempfile.mkdtemp())
    try:
        rows = _fill(folder, asked.players)
        tell("start: from the snapshot")
        rows.append(row("ready from the snapshot", _started(folder, asked.players), "s"))
        shutil.rmtree(folder / "index")
        tell("start: from the ledger")
        rows.append(row("ready from the ledger", _started(folder, asked.players), "s"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    result = answer(NAME, QUESTION, asked, rows)
    goals = [
        Goal("P9", text, unit, "at most", bound, lambda what=what: find(result, what))  # type: ignore[misc]
        for text, unit, bound, what in (
            ("ready from a snapshot", "s", 5, "ready from the snapshot"),
            ("ready by replaying the ledger", "s", 40, "ready from the ledger"),
            (
                "a reader's longest wait while saving",
                "ms",
                50,
                "reader's longest wait while saving",
            ),
            (
                "a writer's longest wait while saving",
                "ms",
                50,
                "writer's longest wait while saving",
            ),
        )
    ]
    return judged(result, goals)


def _fill(folder: Path, players: int) -> list[dict[str, Any]]:
    dice = random.Random(3)
    with rankd.open(folder) as ranks:
        board = ranks.board("arena")
        started = time.perf_counter()
        for first in range(0, players, BATCH):
            some = range(first, min(first + BATCH, players))
            board.submit_many([(f"player-{n:09d}", dice.randrange(10**9)) for n in some])
            if first % (BATCH * 128) == 0:
                tell(f"    filling: {first:,} of {players:,}")
        filled = time.perf_counter() - started
        tell("start: saving while a reader and a writer go on")
        waits, seconds = _save(ranks, board, players)
    return [
        row("filling", players / filled, "submissions/s"),
        row("saving", seconds, "s"),
        row("reader's longest wait while saving", waits["reader"] * 1e3, "ms"),
        row("writer's longest wait while saving", waits["writer"] * 1e3, "ms"),
    ]


def _save(ranks: Any, board: Any, players: int) -> tuple[dict[str, float], float]:
    waits = {"reader": 0.0, "writer": 0.0}
    ended = threading.Event()

    def go_on(who: str, work: Any) -> None:
        dice = random.Random(who)
        while not ended.is_set():
            started = time.perf_counter()
            work(f"player-{dice.randrange(players):09d}", dice.randrange(10**9))
            waits[who] = max(waits[who], time.perf_counter() - started)
            time.sleep(0.001)

    threads = [
        threading.Thread(target=go_on, args=("reader", lambda id, _: board.standing(id))),
        threading.Thread(target=go_on, args=("writer", board.submit)),
    ]
    for thread in threads:
        thread.start()
    started = time.perf_counter()
    ranks.save()
    seconds = time.perf_counter() - started
    ended.set()
    for thread in threads:
        thread.join()
    return waits, seconds


def _started(folder: Path, players: int) -> float:
    command = [sys.executable, "-c", _PROGRAM, str(folder), str(players)]
    started = time.perf_counter()
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        seconds = time.perf_counter() - started
        assert line.strip() == "ready", "the engine did not start"
        process.kill()  # So that it does not save what was folded.
    return seconds

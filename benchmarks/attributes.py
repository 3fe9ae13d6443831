"""What attributes cost: by the number of boards, in memory, and readers while a batch is folded.

Boards have a daily and a lasting window and a segment. A player is on one of them, and submits with
the attributes it had, and with another value each time. Then one on many takes ever new values;
and a batch of the largest size goes to a board of sixteen windows with dense ranks, while the
longest stretch without a turn of the event loop is taken, in processor time.
"""

import asyncio
import itertools
import tempfile
import time
from collections.abc import Awaitable, Callable
from typing import Any

import rankd
from benchmarks.machine import resident_bytes
from benchmarks.progress import tell
from benchmarks.questions import Asked, answer, row

NAME = "attributes"
QUESTION = "What do attributes cost, and does a large batch keep readers waiting?"
BOARDS = (1, 500, 2_000)
SUBMISSIONS = 1_000
NEW_VALUES = 3_000
BOARDS_OF_ONE = 50
BATCH = 8_192
WINDOWS = 16
SEGMENTED = {"windows": ["all", "daily"], "segments": ["region"]}


def run(asked: Asked) -> dict[str, Any]:
    """Measure each in a folder of its own."""
    rows: list[dict[str, Any]] = []
    for boards in BOARDS:
        tell(f"attributes: {boards:,} boards")
        rows += asyncio.run(_in_folder(lambda ranks, boards=boards: _submissions(ranks, boards)))
    tell("attributes: ever new values")
    rows += asyncio.run(_in_folder(_new_values))
    tell("attributes: a batch")
    rows += asyncio.run(_in_folder(_batch))
    return answer(NAME, QUESTION, asked, rows)


async def _in_folder(
    measure: Callable[[Any], Awaitable[list[dict[str, Any]]]],
) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        async with rankd.aopen(folder) as ranks:
            return await measure(ranks)


async def _submissions(ranks: Any, boards: int) -> list[dict[str, Any]]:
    """Return the loop's processor time a submission takes with no, known and other attributes."""
    for number in range(boards):
        board = await ranks.board(f"board-{number}", **SEGMENTED)
    values = itertools.count()
    await board.submit("ann", 1, attributes={"region": "eu"})
    ways: dict[str, Callable[[], dict[str, object]]] = {
        "none": dict,
        "unchanged": lambda: {"attributes": {"region": "eu"}},
        "changed": lambda: {"attributes": {"region": ("us", "eu")[next(values) % 2]}},
    }
    rows = []
    for way, said in ways.items():
        items = [("ann", number) for number in range(SUBMISSIONS)]
        started = time.thread_time()
        await board.submit_many([{"player": p, "score": s, **said()} for p, s in items])
        spent = (time.thread_time() - started) / SUBMISSIONS * 1e6
        rows.append(row(f"{boards:,} boards: a submission, attributes {way}", spent, "µs"))
    return rows


async def _new_values(ranks: Any) -> list[dict[str, Any]]:
    """Return the memory that a player on many boards takes with ever new values."""
    for number in range(BOARDS_OF_ONE):
        board = await ranks.board(f"board-{number}", **SEGMENTED)
        await board.submit("ann", 1, attributes={"region": "first"})
    before = _memory()
    for number in range(NEW_VALUES):
        await board.submit("ann", 1, attributes={"region": f"new-{number}"})
    return [row(f"memory taken by {NEW_VALUES:,} new values", _memory() - before, "MB")]


async def _batch(ranks: Any) -> list[dict[str, Any]]:
    """Return the longest stretch without a turn of the loop while a batch is folded."""
    windows = [
        {"name": f"every-{n}", "start": "2026-11-14T00:00:00Z", "every": f"{n}d"}
        for n in range(1, WINDOWS + 1)
    ]
    board = await ranks.board("arena", windows=windows, ties="dense")
    items = [(f"player-{number}", number % 1_000) for number in range(BATCH)]
    stretches, ended = [], False

    async def turn() -> None:
        while not ended:
            started = time.thread_time()
            await asyncio.sleep(0)
            stretches.append(time.thread_time() - started)

    turning = asyncio.create_task(turn())
    await board.submit_many(items)
    ended = True
    await turning
    return [row("longest stretch without a turn of the loop", max(stretches) * 1e3, "ms")]


def _memory() -> float:
    return (resident_bytes() or 0) / 1e6

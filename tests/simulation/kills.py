"""The process is killed at every operation of its disk, and no acknowledged fact is lost.

    python -m tests.simulation.kills [--kills N] [--seed S]

A child appends to a ledger and writes each acknowledgement to a pipe, which outlives it. It kills
itself at one chosen write, sync, truncation or deletion, before doing it or right after. Then its
parent opens what is left and judges it: what the pipe says is there, once; an append under way is
there whole or not at all; the chain holds; and the append sent again, with its keys, counts once.

Without ``--kills`` every operation of one life is taken in turn, both ways. With it, lives differ
and moments are random. The parent forks, so this is a program of its own, with a single thread.
"""

import argparse
import asyncio
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from random import Random

from tests.simulation.power_loss import scratch_folder

from rankd.adapters.sqlite import SQLiteLedger, recent_keys
from rankd.adapters.sqlite import ledger as adapter
from rankd.errors import RankdError
from rankd.model.facts import Attributes, Fact, Position, ScoreSubmitted
from rankd.model.window import Instant
from rankd.testing.faults import KillAt, watched_disk

NOW = Instant(1_763_000_000_000_000)
SIZES = (1, 3, 40, 1, 2, 30)
NEVER = -1


def facts_of(number: int, size: int) -> list[Fact]:
    told: Attributes = {"append": number}
    return [
        ScoreSubmitted("b", f"p{n}", scores=(n,), key=f"{number}/{n}", attributes=told)
        for n in range(size)
    ]


async def live(folder: Path, sizes: tuple[int, ...], killer: KillAt, pipe: int) -> None:
    """The child's life: an acknowledgement is one byte."""
    adapter.WAL_PAGES_MAX = 10
    recent_keys.GENERATION_KEYS = 8  # So that keys are on the move at all times.
    with watched_disk(killer) as disk:
        async with SQLiteLedger.open(folder, vfs=disk) as ledger:
            for number, size in enumerate(sizes):
                await ledger.append(facts_of(number, size), now=NOW)
                os.write(pipe, b".")


def fork(folder: Path, sizes: tuple[int, ...], killer: KillAt) -> tuple[int, bool]:
    """Return how many appends the child acknowledged, and whether it was killed."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ours)
        asyncio.run(live(folder, sizes, killer, theirs))
        os._exit(0)
    os.close(theirs)
    _, status = os.waitpid(child, 0)
    acknowledged = len(os.read(ours, 1 << 16))
    os.close(ours)
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    assert killed or status == 0, f"the child failed: {status}"
    return acknowledged, killed


async def judge(folder: Path, sizes: tuple[int, ...], acknowledged: int) -> str | None:
    try:
        async with SQLiteLedger.open(folder) as ledger:
            return await _judge_opened(ledger, sizes, acknowledged)
    except RankdError as exc:
        return f"{type(exc).__name__}: {exc}"


async def _judge_opened(
    ledger: SQLiteLedger, sizes: tuple[int, ...], acknowledged: int
) -> str | None:
    async for _ in ledger.verify():
        pass
    appends = [facts_of(number, size) for number, size in enumerate(sizes)]
    everything = [fact for facts in appends for fact in facts]
    found = [entry.fact for entry in await ledger.read(after=Position(0), limit=10_000)]
    allowed = {sum(sizes[:many]) for many in (acknowledged, acknowledged + 1)}
    if len(found) not in allowed:
        return f"{len(found)} facts, not one of {sorted(allowed)}"
    if found != everything[: len(found)]:
        return "facts changed, or changed places"
    for facts in appends:
        await ledger.append(facts, now=NOW)
    if await ledger.head() != len(everything):
        return "a repeated submission was counted again"
    return None


def kill_once(scratch: Path, sizes: tuple[int, ...], dies: int, *, done: bool) -> str | None:
    """Return what is wrong after a kill, or raise StopIteration if there was none."""
    folder = scratch / "killed"
    try:
        killer = KillAt(dies, done, armed=True)
        acknowledged, killed = fork(folder, sizes, killer)
        if not killed:
            raise LookupError(dies)
        return asyncio.run(judge(folder, sizes, acknowledged))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def every_operation(scratch: Path) -> tuple[int, list[str]]:
    """Kill at each operation of one life in turn, until a life ends by itself."""
    kills, problems = 0, []
    for done in (False, True):
        dies = 0
        while True:
            try:
                problem = kill_once(scratch, SIZES, dies, done=done)
            except LookupError:
                break
            kills, dies = kills + 1, dies + 1
            if problem:
                problems.append(f"operation {dies - 1}, done={done}: {problem}")
    return kills, problems


def at_random(scratch: Path, *, kills: int, seed: int) -> tuple[int, list[str]]:
    """Kill so many lives of different kinds at random moments."""
    random, made, problems = Random(seed), 0, []
    while made < kills:
        sizes = tuple(random.choice((1, 2, 5, 30, 200)) for _ in range(random.randint(2, 8)))
        dies, done = random.randint(0, 100), random.random() < 0.5
        try:
            problem = kill_once(scratch, sizes, dies, done=done)
        except LookupError:
            continue
        made += 1
        if problem:
            problems.append(f"seed {seed}, kill {made}, sizes {sizes}, at {dies}: {problem}")
        if made % 500 == 0:
            _say(f"{made:,} kills, {len(problems)} problems")
    return made, problems


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--seed", type=int, default=time.time_ns() & 0xFFFF_FFFF)
    given = parser.parse_args()
    with scratch_folder() as scratch:
        if given.kills:
            _say(f"python -m tests.simulation.kills --kills {given.kills} --seed {given.seed}")
            kills, problems = at_random(scratch, kills=given.kills, seed=given.seed)
        else:
            kills, problems = every_operation(scratch)
    for problem in problems[:20]:
        _say(problem)
    _say(f"{kills} kills, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

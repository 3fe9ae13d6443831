"""The process is killed, or its disk fails, at every step of building runs of players.

    python -m tests.simulation.player_run_kills

A child appends to a ledger with small runs. At one chosen step (a page written or read, a sync, a
rename, a deletion) it is killed, before the step or after it. The parent then compares what is
found of each player with a scan of the facts: through a reader of what is left, and through the
next writer, which builds the missing runs. With a disk that fails instead, the ledger lives on, and
must find everything at all times. The parent forks, so this is a program of its own.
"""

import asyncio
import errno
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch
from zlib import crc32

from tests.simulation.power_loss import scratch_folder
from tests.unit.adapters.sqlite.runs_building import (
    NOW,
    RANGE_FACTS,
    assert_complete,
    built,
    facts,
    runs_in,
    small_runs,
)

from rankd.adapters import sync_folder
from rankd.adapters.sqlite import SQLiteLedger
from rankd.adapters.sqlite.read_only import OfflineLedger

APPENDS, EACH = 8, 10

STRIDE = 5
"""Every so many steps fail: most are reads, of which one is like another."""

Strike = Callable[[], None]


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fail() -> None:
    raise OSError(errno.EIO, "the disk is broken")


class Steps:
    """Counts the steps, and strikes at one of them."""

    def __init__(self, strike: Strike, at: int, *, done: bool) -> None:
        self.strike, self.at, self.done, self.count = strike, at, done, 0

    def around(self, step: Callable[..., Any]) -> Callable[..., Any]:
        def struck(*given: Any, **named: Any) -> Any:
            number, self.count = self.count, self.count + 1
            if number == self.at and not self.done:
                self.strike()
            result = step(*given, **named)
            if number == self.at and self.done:
                self.strike()
            return result

        return struck


@contextmanager
def watched(steps: Steps) -> Iterator[None]:
    """Let the steps of building runs be counted."""
    # Before and after each page that is written or read a process may die; no disk fails there.
    kills = steps.strike is kill
    checksum = steps.around(crc32) if kills else crc32
    pread = os.pread if kills else steps.around(os.pread)
    with (
        patch("rankd.adapters.sqlite.player_runs.crc32", checksum),
        patch.object(os, "scandir", steps.around(os.scandir)),
        patch("rankd.adapters.sqlite.player_runs.sync_folder", steps.around(sync_folder)),
        patch.object(os, "fsync", steps.around(os.fsync)),
        patch.object(os, "pread", pread),
        patch.object(Path, "rename", steps.around(Path.rename)),
        patch.object(Path, "unlink", steps.around(Path.unlink)),
        patch.object(Path, "mkdir", steps.around(Path.mkdir)),
    ):
        yield


async def live(folder: Path, steps: Steps, *, check: bool) -> None:
    async with SQLiteLedger.open(folder) as ledger:
        with watched(steps):
            for number in range(APPENDS):
                await ledger.append(facts(number * EACH, EACH), now=NOW)
                await built(ledger)
                if check and number % 4 == 3:
                    await assert_complete(ledger)


def killed(folder: Path, steps: Steps) -> bool:
    child = os.fork()
    if child == 0:
        asyncio.run(live(folder, steps, check=False))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or status == 0, f"the child failed: {status}"
    return os.WIFSIGNALED(status)


async def judge(folder: Path) -> None:
    async with OfflineLedger.open(folder) as reader:
        await assert_complete(reader)
    async with SQLiteLedger.open(folder) as ledger:
        await assert_complete(ledger)
        for _ in range(3):
            await ledger.append(facts(await ledger.head(), EACH), now=NOW)
            await built(ledger)
            await assert_complete(ledger)
        head = await ledger.head()
    reached = 0
    for name in runs_in(folder) if head >= RANGE_FACTS else ():
        first, last = name.removesuffix(".run").split("-")
        assert int(first) == reached + 1, f"a gap or a leftover: {runs_in(folder)}"
        reached = int(last)
    assert head - reached < RANGE_FACTS, f"runs end at {reached} of {head}"


def every_step(scratch: Path, *, done: bool) -> int:
    at = 0
    while True:
        folder = scratch / "killed"
        if not killed(folder, Steps(kill, at, done=done)):
            shutil.rmtree(folder)
            return at
        asyncio.run(judge(folder))
        shutil.rmtree(folder)
        at += 1


def every_failure(scratch: Path) -> int:
    at = 0
    while True:
        folder, steps = scratch / "failing", Steps(fail, at, done=False)
        asyncio.run(live(folder, steps, check=True))
        asyncio.run(judge(folder))
        shutil.rmtree(folder)
        if steps.count <= at:
            return at // STRIDE
        at += STRIDE


def main() -> int:
    with scratch_folder() as scratch, small_runs():
        kills = sum(every_step(scratch, done=done) for done in (False, True))
        failures = every_failure(scratch)
    sys.stdout.write(f"{kills} kills, {failures} failures\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""A restore or backup is killed at every step, and leaves a folder that is refused or whole.

    python -m tests.simulation.copy_kills

A child copies a ledger and kills itself at one chosen step: before a file or folder is opened,
made, renamed, removed or locked by Python, or when it is told how far the copy is. Its parent
judges the folder: absent, refused by whoever opens it, or a whole copy; an empty folder only if
there was one before and nothing was written to it. Then the command is repeated, and must succeed.
All steps of each way to copy are taken in turn, until a copy ends by itself. The parent forks, so
this is a program of its own, with a single thread.
"""

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path

from tests.simulation.kills import facts_of
from tests.simulation.power_loss import scratch_folder

from rankd.adapters.sqlite import SQLiteLedger, backup
from rankd.adapters.sqlite.database import LOCK
from rankd.adapters.sqlite.read_only import OfflineLedger, ReadOnlyLedger
from rankd.core.transfer import Transfer
from rankd.errors import LedgerNotCopied, RankdError
from rankd.model.facts import Position
from rankd.model.window import Instant
from rankd.ports import Progress

NOW = Instant(1_763_000_000_000_000)
FACTS = (40, 300, 1, 200)

STEPS = frozenset({"open", "os.mkdir", "os.rename", "os.remove", "os.chmod", "fcntl.flock"})
"""Audit events of Python that count as a step of a copy."""

Copy = Callable[[Path, Path], AsyncIterator[Progress]]


async def restore(source: Path, target: Path) -> AsyncIterator[Progress]:
    async with OfflineLedger.open(source) as closed:
        async for progress in closed.backup(target):
            yield progress


async def back_up(source: Path, target: Path) -> AsyncIterator[Progress]:
    async with SQLiteLedger.open(source) as ledger:
        async for progress in ledger.backup(target):
            yield progress


async def back_up_beside(source: Path, target: Path) -> AsyncIterator[Progress]:
    async with SQLiteLedger.open(source), ReadOnlyLedger.open(source) as followed:
        async for progress in followed.backup(target):
            yield progress


async def transfer(source: Path, target: Path) -> AsyncIterator[Progress]:
    async with AsyncExitStack() as stack:
        whole = await stack.enter_async_context(SQLiteLedger.open(source))
        copy = await stack.enter_async_context(SQLiteLedger.open(target, copying=str(source)))
        async for progress in Transfer(whole, copy, named="source", into="target").run():
            yield progress


class Killer:
    """Ends this process at step number ``dies``, counted from 0."""

    def __init__(self, dies: int) -> None:
        self._left = dies
        self.armed = False

    def audit(self, event: str, _args: object) -> None:
        if self.armed and event in STEPS:
            self.step()

    def step(self) -> None:
        if not self._left:
            os.kill(os.getpid(), signal.SIGKILL)
        self._left -= 1


async def copy_until_killed(copy: Copy, source: Path, target: Path, dies: int) -> None:
    backup.STEP_PAGES = 4
    backup.STEP_BLOCKS = 1
    killer = Killer(dies)
    sys.addaudithook(killer.audit)
    killer.armed = True
    async for _ in copy(source, target):
        killer.step()
    killer.armed = False


def is_killed(copy: Copy, source: Path, target: Path, dies: int) -> bool:
    """Copy in a child that dies at a step; return whether it came so far."""
    child = os.fork()
    if child == 0:
        asyncio.run(copy_until_killed(copy, source, target, dies))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    assert killed or status == 0, f"the child failed: {status}"
    return killed


def content(folder: Path) -> set[str] | None:
    return {path.name for path in folder.iterdir()} if folder.exists() else None


async def judge(source: Path, target: Path, *, existed: bool) -> str | None:
    """Return why a folder is neither refused nor a whole copy, if that is so."""
    found = content(target)
    if found is None:
        return None if not existed else "the folder is gone"
    if not found - {LOCK}:
        return None if existed else "an empty folder, where a new ledger would be begun"
    try:
        async with OfflineLedger.open(target) as copy, OfflineLedger.open(source) as whole:
            async for _ in copy.verify():
                pass
            facts = await copy.read(after=Position(0), limit=10_000)
            if facts != await whole.read(after=Position(0), limit=10_000):
                return f"another ledger, of {len(facts)} facts, that counts as whole"
    except LedgerNotCopied:
        return None
    except RankdError as exc:
        return f"{type(exc).__name__}: {exc}"
    return None


async def repeat(copy: Copy, source: Path, target: Path) -> str | None:
    """Copy again, unless the copy is whole; return what is wrong with it then."""
    try:
        async with OfflineLedger.open(target):
            pass
    except RankdError:
        async for _ in copy(source, target):
            pass
    return await judge(source, target, existed=True)


def kill_every_step(copy: Copy, source: Path, target: Path, *, existed: bool) -> list[str | None]:
    """Kill at each step in turn, until a copy ends by itself; return what was wrong each time."""
    problems: list[str | None] = []
    for dies in count():
        if existed:
            target.mkdir()
        try:
            if not is_killed(copy, source, target, dies):
                return problems
            wrong = asyncio.run(judge(source, target, existed=existed))
            wrong = wrong or asyncio.run(repeat(copy, source, target))
            problems.append(wrong and f"{copy.__name__}, existed={existed}, step {dies}: {wrong}")
        finally:
            shutil.rmtree(target, ignore_errors=True)
    raise AssertionError("a copy has an end")


async def make_source(folder: Path) -> None:
    async with SQLiteLedger.open(folder) as ledger:
        for number, size in enumerate(FACTS):
            await ledger.append(facts_of(number, size), now=NOW)


def main() -> int:
    problems: list[str | None] = []
    with scratch_folder() as scratch:
        asyncio.run(make_source(scratch / "source"))
        for copy in (restore, back_up, back_up_beside, transfer):
            for existed in (False, True):
                source, target = scratch / "source", scratch / "target"
                problems += kill_every_step(copy, source, target, existed=existed)
    found = [problem for problem in problems if problem]
    for problem in found[:20]:
        sys.stdout.write(problem + "\n")
    sys.stdout.write(f"{len(problems)} kills, {len(found)} problems\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

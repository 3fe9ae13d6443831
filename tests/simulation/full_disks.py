"""A disk that fills and empties under load, again and again: the ledger goes on by itself.

    python -m tests.simulation.full_disks [--strikes N] [--seed S] [--injected]

Clients submit with keys, all at once, while the disk of the engine is filled and emptied at random
moments; now and then the engine is closed and opened on a disk that is full. One rule: what was
acknowledged counts once; what was refused does not count; what was answered ``unknown`` counts
once or not at all, and counts once when it is repeated with its key. While nothing is taken, reads
are answered and say that they may be stale. After each strike scores are taken again, without help.

The disk is a real one, which has to be mounted; ``--injected`` has SQLite told the same by a file
system of ours, also in the middle of what a real disk would do as a whole.
"""

import argparse
import asyncio
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Literal, Protocol

from tests.simulation.engine_power_loss import SetClock, engine_on
from tests.simulation.power_loss import scratch_folder

from rankd.adapters.sqlite import SQLiteLedger
from rankd.adapters.sqlite import ledger as adapter
from rankd.core import managers
from rankd.core.engine import Engine
from rankd.errors import LedgerUnavailable
from rankd.model.facts import Position
from rankd.testing import faults
from rankd.testing.faults import Kind, Operation, Perform, disk_full, io_error, watched_disk

CLIENTS = 4
DISK_BYTES = 16 << 20
PATIENCE_SECONDS = 60.0
RESTARTED = 0.2
"""The share of strikes in which the engine is closed and opened on the full disk."""

FAILING = {Kind.WRITE: 0.1, Kind.SYNC: 0.6}
"""The share of operations that fail while an injected disk is full: most commits are written, and
not confirmed."""

Outcome = Literal["yes", "no", "unknown"]


class Disk(Protocol):
    """A disk that can be filled."""

    folder: Path
    vfs: str | None

    def fill(self) -> None: ...
    def empty(self) -> None: ...


@dataclass
class MountedDisk:
    """A disk of a few megabytes."""

    folder: Path
    vfs: str | None = None

    def fill(self) -> None:
        faults.fill(self.folder)

    def empty(self) -> None:
        faults.empty(self.folder)


@dataclass
class InjectedDisk:
    """A disk that fails, while it is full, at random writes and syncs: before or after them."""

    folder: Path
    random: Random
    vfs: str | None = None
    full: bool = False

    def fill(self) -> None:
        self.full = True

    def empty(self) -> None:
        self.full = False

    def __call__(self, operation: Operation, perform: Perform) -> None:
        """Let an operation happen, or fail."""
        if not self.full or operation.kind not in (Kind.WRITE, Kind.SYNC):
            return perform()
        if self.random.random() > FAILING[operation.kind]:
            return perform()
        if self.random.random() < 0.5:
            perform()
        raise (disk_full if operation.kind is Kind.WRITE else io_error)()


@contextmanager
def mounted_disk(scratch: Path) -> Iterator[Disk]:
    with faults.small_disk(scratch / "disk", DISK_BYTES) as folder:
        yield MountedDisk(folder)


@contextmanager
def injected_disk(scratch: Path, random: Random) -> Iterator[Disk]:
    disk = InjectedDisk(scratch / "disk", random)
    disk.folder.mkdir()
    with watched_disk(disk) as disk.vfs:
        yield disk


@dataclass
class World:
    """An engine on a disk, its clients, and what each was told."""

    disk: Disk
    random: Random
    told: dict[str, Outcome] = field(default_factory=dict)
    """By the key of a submission."""
    rankd: Engine | None = None
    ended: bool = False

    async def run(self, strikes: int) -> None:
        """Let clients submit while the disk is struck, and the engine now and then restarted."""
        clients = [asyncio.create_task(self._submit_on(number)) for number in range(CLIENTS)]
        try:
            left = strikes
            while left:
                left -= await self._live(left)
        finally:
            self.ended = True
            await asyncio.gather(*clients)

    async def _live(self, strikes: int) -> int:
        """Serve until the engine is to be restarted; return how often the disk was struck."""
        struck = 0
        async with self._engine() as rankd:
            self.rankd = rankd
            if "b" not in rankd.state.boards:
                await rankd.define("b", {"rule": "sum"})
            while struck < strikes:
                struck += 1
                await self._recovered()
                await self._busy()
                self.disk.fill()
                await self._busy()
                await self._reads_go_on()
                if self.random.random() < RESTARTED:
                    break
                self.disk.empty()
            self.rankd = None
        await self._start_on_full_disk()
        self.disk.empty()
        return struck

    def _engine(self) -> "_Engine":
        return _Engine(self.disk)

    async def _start_on_full_disk(self) -> None:
        acknowledged = sum(told == "yes" for told in self.told.values())
        async with self._engine() as rankd:
            assert rankd.position > acknowledged, "what was acknowledged is not there"
            assert await rankd.reader.standing("b", "p0") is not None
            self.rankd = rankd
            await self._busy()
            self.disk.empty()
            await self._recovered()
            self.rankd = None

    async def _busy(self) -> None:
        await asyncio.sleep(self.random.uniform(0, 0.05))

    async def _recovered(self) -> None:
        """Wait until a score is taken."""
        before = sum(told == "yes" for told in self.told.values())
        await until(lambda: sum(told == "yes" for told in self.told.values()) > before)

    async def _reads_go_on(self) -> None:
        rankd = self.rankd
        assert rankd is not None
        assert (await rankd.reader.page("b")).players
        assert rankd.stale == (rankd.failure is not None)
        assert not rankd.ended, rankd.failure

    # ------------------------------------------------------------------------ clients

    async def _submit_on(self, number: int) -> None:
        count = 0
        while not self.ended:
            await asyncio.sleep(0.001)
            if self.rankd is not None and "b" in self.rankd.state.boards:
                count += 1
                await self._submit(self.rankd, f"{number}/{count}")

    async def _submit(self, rankd: Engine, key: str) -> None:
        """Submit; one in two that is unknown is repeated."""
        item = {"player": f"p{len(self.told) % 50}", "score": 1, "key": key, "metadata": BALLAST}
        self.told[key] = "unknown"
        self.told[key] = await told(rankd, item)
        while self.told[key] == "unknown" and key[-1] in "02468" and self.rankd is rankd:
            await asyncio.sleep(0.005)
            if await told(rankd, item) == "yes":
                self.told[key] = "yes"


BALLAST = {"replay": "x" * 400}
"""So that a disk of some megabytes is soon full."""


async def told(rankd: Engine, item: dict[str, object]) -> Outcome:
    try:
        await rankd.submit("b", [item])
    except LedgerUnavailable as exc:
        return exc.applied
    return "yes"


class _Engine:
    """An engine on a disk, opened and closed as one."""

    def __init__(self, disk: Disk) -> None:
        self._opening = SQLiteLedger.open(disk.folder / "d", vfs=disk.vfs)
        self._folder = disk.folder / "d"

    async def __aenter__(self) -> Engine:
        ledger = await self._opening.__aenter__()
        self._running = engine_on(ledger, self._folder, SetClock())
        rankd: Engine = await self._running.__aenter__()
        return rankd

    async def __aexit__(self, *exc: object) -> None:
        await self._running.__aexit__(None, None, None)
        await self._opening.__aexit__(None, None, None)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not holds():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.002)


async def judge(disk: Disk, world: World) -> list[str]:
    """Return which submissions are not as they were told."""
    problems = []
    async with (
        SQLiteLedger.open(disk.folder / "d") as ledger,
        engine_on(ledger, disk.folder / "d", SetClock()) as rankd,
    ):
        facts = await ledger.read(after=Position(0), limit=1_000_000)
        found = Counter(getattr(recorded.fact, "key", None) for recorded in facts)
        for key, outcome in world.told.items():
            allowed = {"yes": {1}, "no": {0}, "unknown": {0, 1}}[outcome]
            if found[key] not in allowed:
                problems.append(f"{key} was told {outcome} and is there {found[key]} times")
        async for _ in rankd.verify():
            pass
    return problems


async def simulate(disk: Disk, *, strikes: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Strike a disk so often; return how many were told what, and what was wrong."""
    world = World(disk, Random(seed))
    await world.run(strikes)
    return Counter(world.told.values()), await judge(disk, world)


@contextmanager
def hurried() -> Iterator[None]:
    """Have ledgers opened anew, and checkpointed, far more often than is needed otherwise."""
    before = managers.REOPEN_SECONDS_MIN, managers.REOPEN_SECONDS_MAX, adapter.WAL_PAGES_MAX
    managers.REOPEN_SECONDS_MIN, managers.REOPEN_SECONDS_MAX = 0.01, 0.02
    adapter.WAL_PAGES_MAX = 50
    try:
        yield
    finally:
        managers.REOPEN_SECONDS_MIN, managers.REOPEN_SECONDS_MAX, adapter.WAL_PAGES_MAX = before


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--strikes", type=int, default=100)
    parser.add_argument("--seed", type=int, default=time.time_ns() & 0xFFFF_FFFF)
    parser.add_argument("--injected", action="store_true")
    given = parser.parse_args()
    injected = " --injected" if given.injected else ""
    sys.stdout.write(
        f"python -m tests.simulation.full_disks --strikes {given.strikes} --seed {given.seed}"
        f"{injected}\n"
    )
    with scratch_folder() as scratch, hurried():
        made = (
            injected_disk(scratch, Random(given.seed)) if given.injected else mounted_disk(scratch)
        )
        with made as disk:
            told, problems = asyncio.run(simulate(disk, strikes=given.strikes, seed=given.seed))
    for problem in problems[:20]:
        sys.stdout.write(problem + "\n")
    counts = ", ".join(f"{told[each]:,} {each}" for each in ("yes", "no", "unknown"))
    sys.stdout.write(f"{given.strikes} strikes; {counts}; {len(problems)} problems\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

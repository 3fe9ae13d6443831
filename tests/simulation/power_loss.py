"""Power fails at every moment of a ledger's life, and no acknowledged fact is lost.

    python -m tests.simulation.power_loss [--images N] [--seed S]

One life of a ledger is recorded: it is begun, appended to in batches of many sizes, checkpointed,
closed and opened again. Then the power fails, again and again: at each moment of the record, so
that nothing but what was synced is left, and at random moments in a random manner
(rankd.testing.faults). Each time the files that are left are opened as a
ledger, and judged by one rule: what was acknowledged is there, once and in order; an append that
was under way is there whole or not at all; the hash chain holds; and whoever repeats the append
under way, with its keys, is counted once.
"""

import argparse
import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from unittest.mock import patch

import apsw

from rankd.adapters.sqlite import SQLiteLedger, recent_keys
from rankd.adapters.sqlite import ledger as adapter
from rankd.errors import RankdError
from rankd.model.facts import Fact, Position, ScoreSubmitted
from rankd.model.window import Instant
from rankd.ports import Ledger, StoredReceipt
from rankd.testing.faults import Acknowledged, Crash, Operation, Recorder, watched_disk

NOW = Instant(1_763_000_000_000_000)
SIZES = (1, 1, 3, 20, 1, 60, 2, 1, 5, 1)
"""Facts in each append."""
LIVES = 2
"""How often the ledger is opened, appended to and closed in one record."""
BLOCK_FACTS = 25
"""So few that some appends are of several blocks."""
WAL_PAGES = 12
"""So few that checkpoints happen among the appends."""

Append = Callable[[Ledger, list[Fact], Recorder, int], Awaitable[None]]


@dataclass(frozen=True)
class Life:
    """What was appended, and all that the disk was asked."""

    appends: list[list[Fact]]
    record: list[Operation | Acknowledged]

    def boundaries(self) -> list[int]:
        """How many facts there are before each append, and after the last."""
        sums = [0]
        for facts in self.appends:
            sums.append(sums[-1] + len(facts))
        return sums


@dataclass
class Findings:
    """What a campaign came to."""

    images: int = 0
    problems: list[str] = field(default_factory=list)

    def note(self, problem: str | None, image: str) -> None:
        self.images += 1
        if problem is not None:
            self.problems.append(f"{image}: {problem}")


async def append_then_acknowledge(
    ledger: Ledger, facts: list[Fact], recorder: Recorder, total: int
) -> None:
    """As it should be."""
    await ledger.append(facts, now=NOW, receipts=[StoredReceipt(Position(1), b"receipt")])
    recorder.acknowledge(total)


async def acknowledge_then_append(
    ledger: Ledger, facts: list[Fact], recorder: Recorder, total: int
) -> None:
    """The planted fault: the client hears of success before there is any."""
    recorder.acknowledge(total)
    await ledger.append(facts, now=NOW)


async def live(folder: Path, append: Append = append_then_acknowledge) -> Life:
    """Record the life of one ledger in an empty folder."""
    recorder, appends, total = Recorder(), [], 0
    with watched_disk(recorder) as disk, _small_measures():
        for turn in range(LIVES):
            async with SQLiteLedger.open(folder, vfs=disk) as ledger:
                checkpoints = _hold_checkpoints(ledger)
                for number, size in enumerate(SIZES):
                    facts = _facts(f"{turn}.{number}", size)
                    appends.append(facts)
                    total += size
                    await append(ledger, facts, recorder, total)
                    while checkpoints:
                        await ledger._writer.run(checkpoints.pop())
    return Life(appends, recorder.record)


def _hold_checkpoints(ledger: SQLiteLedger) -> list[Callable[[apsw.Connection], object]]:
    """Let checkpoints wait until their append is acknowledged.

    Else it is up to the threads which of the two comes first, and each run has another record.
    """
    held: list[Callable[[apsw.Connection], object]] = []
    ledger._writer.later = held.append  # type: ignore[assignment, method-assign]
    return held


def _facts(name: str, many: int) -> list[Fact]:
    """Return facts of one append: half of them have a key, some tell of their player."""
    return [
        ScoreSubmitted(
            "b",
            f"p{n}",
            scores=(n,),
            key=f"{name}/{n}" if n % 2 == 0 else None,
            attributes={"append": name} if n % 3 == 0 else None,
        )
        for n in range(many)
    ]


def _small_measures() -> AbstractContextManager[object]:
    return patch.multiple(adapter, WAL_PAGES_MAX=WAL_PAGES, BLOCK_FACTS_MAX=BLOCK_FACTS)


def _write(files: dict[str, bytes], folder: Path) -> None:
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)


async def judge(life: Life, crash: Crash, files: dict[str, bytes], folder: Path) -> str | None:
    """Open what a power cut left; return what is wrong with it, if anything is."""
    _write(files, folder)
    try:
        async with SQLiteLedger.open(folder) as ledger:
            return await _judge_opened(life, crash.acknowledged, ledger)
    except RankdError as exc:
        return f"{type(exc).__name__}: {exc}"
    finally:
        shutil.rmtree(folder)


async def _judge_opened(life: Life, acknowledged: int, ledger: SQLiteLedger) -> str | None:
    async for _ in ledger.verify():
        pass
    everything = [fact for facts in life.appends for fact in facts]
    recorded = await ledger.read(after=Position(0), limit=len(everything) + 1)
    found = [entry.fact for entry in recorded]
    if len(found) < acknowledged:
        return f"{acknowledged} facts were acknowledged, {len(found)} are left"
    if found != everything[: len(found)]:
        return "facts changed, or changed places"
    boundaries = life.boundaries()
    if len(found) not in boundaries:
        return f"an append was cut in two: {len(found)} facts"
    upto = boundaries.index(len(found))
    last, under_way = life.appends[:upto][-1:], life.appends[upto:][:1]
    for facts in [*last, *under_way]:
        if problem := await _judge_repeated(ledger, facts, known=facts in last):
            return problem
    return None


async def _judge_repeated(ledger: Ledger, facts: list[Fact], *, known: bool) -> str | None:
    """Send an append again, as a client would that never heard of its outcome."""
    keyed = [fact for fact in facts if isinstance(fact, ScoreSubmitted) and fact.key]
    first = await ledger.append(keyed, now=NOW)
    if len(first.first_uses) != (len(keyed) if known else 0):
        return "keys and facts do not agree"
    again = await ledger.append(keyed, now=NOW)
    if list(first.positions) != list(again.positions) or len(again.first_uses) != len(keyed):
        return "a repeated submission was counted again"
    return None


async def campaign(
    *, images: int, seed: int, append: Append = append_then_acknowledge, quiet: bool = True
) -> Findings:
    """Let the power fail so many times, and say what was found."""
    findings, random = Findings(), Random(seed)
    with scratch_folder() as scratch:
        life = await live(scratch / "life", append)
        began = time.monotonic()
        for number in range(images):
            crash = Crash(life.record, after=random.randint(0, len(life.record)))
            problem = await judge(life, crash, crash.files(random), scratch / "image")
            findings.note(problem, f"seed {seed}, image {number}")
            if not quiet and (number + 1) % 1000 == 0:
                rate = (number + 1) / (time.monotonic() - began)
                _say(f"{number + 1:,} images, {len(findings.problems)} problems, {rate:.0f}/s")
    return findings


async def every_moment(append: Append = append_then_acknowledge) -> Findings:
    """Let the power fail once at each moment, and nothing remain but what was synced."""
    findings = Findings()
    with scratch_folder() as scratch:
        life = await live(scratch / "life", append)
        for moment in range(len(life.record) + 1):
            crash = Crash(life.record, after=moment)
            problem = await judge(life, crash, crash.synced(), scratch / "image")
            findings.note(problem, f"moment {moment}")
    return findings


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yield a folder in memory where there is one: syncs cost nothing there, and prove nothing."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    recent_keys.GENERATION_KEYS = 8  # So that keys are on the move at all times.
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=time.time_ns() & 0xFFFF_FFFF)
    given = parser.parse_args()
    _say(f"python -m tests.simulation.power_loss --images {given.images} --seed {given.seed}")
    findings = asyncio.run(every_moment())
    at_random = asyncio.run(campaign(images=given.images, seed=given.seed, quiet=False))
    findings.images += at_random.images
    findings.problems += at_random.problems
    for problem in findings.problems[:20]:
        _say(problem)
    _say(f"{findings.images:,} power cuts, {len(findings.problems)} problems")
    return 1 if findings.problems else 0


if __name__ == "__main__":
    sys.exit(main())

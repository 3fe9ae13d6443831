"""A byte of a closed ledger is changed, and verify finds it.

    python -m tests.simulation.edits [--edits N] [--seed S]

The rule: an edit must be found, by opening the file or by ``verify``, unless everything that can be
read from the ledger is what it was: every fact with its place and time, every key, every receipt.
Bytes of the second sort exist: pages hold room that is not used, and headers hold counters and
hints that SQLite writes and does not need.
"""

import argparse
import asyncio
import shutil
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.simulation.power_loss import scratch_folder

from rankd.adapters.sqlite import SQLiteLedger
from rankd.adapters.sqlite.database import FILE
from rankd.errors import RankdError
from rankd.model.facts import Fact, Position, ScoreSubmitted, WindowOpened
from rankd.model.window import Instant
from rankd.ports import Kept

NOW = Instant(1_763_000_000_000_000)
KEYED: list[Fact] = [ScoreSubmitted("b", "p", scores=(1,), key=f"k{n}") for n in range(120)]


@dataclass
class Findings:
    """What became of so many edits."""

    found: int = 0
    harmless: int = 0
    missed: list[str] = field(default_factory=list)


async def write(folder: Path) -> None:
    """Make a ledger with facts, keys and receipts, on some tens of pages."""
    async with SQLiteLedger.open(folder) as ledger:
        await ledger.append([WindowOpened("b", "forever"), *KEYED[:80]], now=NOW)
        for number in range(40):
            fact = ScoreSubmitted("b", f"player-{number}", scores=(number,), metadata=b"x" * 99)
            await ledger.append([fact, KEYED[80 + number]], now=Instant(NOW + number))
        kept = [Kept(Position(number), b"receipt %d" % number) for number in range(2, 60)]
        await ledger.keep_receipts(kept)


async def readable(ledger: SQLiteLedger) -> list[object]:
    """Everything that can be read from a ledger."""
    facts = list(await ledger.read(after=Position(0), limit=1_000))
    again = await ledger.append(KEYED, now=NOW)  # All keys at once: none is new.
    return [*facts, again.first_uses]


async def judge(folder: Path, original: list[object]) -> str:
    """Open and verify a ledger; return "found", "harmless" or what was missed."""
    try:
        async with SQLiteLedger.open(folder) as ledger:
            async for _ in ledger.verify():
                pass
            return "harmless" if await readable(ledger) == original else "missed"
    except RankdError:
        return "found"


async def campaign(*, edits: int, seed: int, quiet: bool = True) -> Findings:
    """Change one random byte at a time, and say what became of it."""
    findings, random = Findings(), Random(seed)
    with scratch_folder() as scratch:
        await write(scratch / "original")
        async with SQLiteLedger.open(scratch / "original") as ledger:
            original = await readable(ledger)
        whole = (scratch / "original" / FILE).read_bytes()
        for number in range(edits):
            place, change = random.randrange(len(whole)), random.randrange(1, 256)
            edited = bytearray(whole)
            edited[place] ^= change
            folder = scratch / "edited"
            folder.mkdir()
            (folder / FILE).write_bytes(edited)
            match await judge(folder, original):
                case "found":
                    findings.found += 1
                case "harmless":
                    findings.harmless += 1
                case problem:
                    findings.missed.append(f"seed {seed}, byte {place} ^ {change}: {problem}")
            shutil.rmtree(folder)
            if not quiet and (number + 1) % 1000 == 0:
                _say(
                    f"{number + 1:,} edits: {findings.found:,} found, {len(findings.missed)} missed"
                )
    return findings


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--edits", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=time.time_ns() & 0xFFFF_FFFF)
    given = parser.parse_args()
    _say(f"python -m tests.simulation.edits --edits {given.edits} --seed {given.seed}")
    findings = asyncio.run(campaign(edits=given.edits, seed=given.seed, quiet=False))
    for missed in findings.missed[:20]:
        _say(missed)
    _say(
        f"{given.edits:,} edits: {findings.found:,} found, {findings.harmless:,} changed nothing "
        f"that can be read, {len(findings.missed)} missed"
    )
    return 1 if findings.missed else 0


if __name__ == "__main__":
    sys.exit(main())

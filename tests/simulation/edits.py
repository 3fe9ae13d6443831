"""A byte of a closed ledger is changed, and verify finds it.

    python -m tests.simulation.edits [--edits N] [--seed S]

The rule: an edit must be found, by opening the file or by ``verify``, unless everything that can be
read from the ledger is what it was: every fact with its place and time, every key, every receipt,
every player.
Bytes of the second sort exist: pages hold room that is not used, and headers hold counters and
hints that SQLite writes and does not need.
"""

import argparse
import asyncio
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import NamedTuple, TypeAlias

from tests.simulation.power_loss import scratch_folder

from rankd.adapters.sqlite import SQLiteLedger, recent_keys
from rankd.adapters.sqlite.database import FILE
from rankd.errors import RankdError
from rankd.model.facts import (
    Fact,
    FactsRedacted,
    PlayerErased,
    PlayerProfiled,
    Position,
    ScoreSubmitted,
    WindowOpened,
)
from rankd.model.window import Instant
from rankd.ports import StoredReceipt

NOW = Instant(1_763_000_000_000_000)
KEYED: list[Fact] = [ScoreSubmitted("b", "p", scores=(1,), key=f"k{n}") for n in range(124)]
PLAYERS: list[Fact] = [PlayerProfiled(f"player-{n}", f"Player {n}", {"n": n}) for n in range(60)]
METADATA = b"x" * 99


class Edit(NamedTuple):
    """A byte, and the bits of it that are turned around."""

    place: int
    change: int


Choose: TypeAlias = Callable[[bytes], Iterable[Edit]]
"""Which edits to try on a file of these bytes."""


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
        await ledger.append([*PLAYERS, PlayerErased("player-1")], now=NOW)
        for number in range(44):
            fact = ScoreSubmitted("b", f"player-{number}", scores=(number,), metadata=METADATA)
            await ledger.append([fact, KEYED[80 + number]], now=Instant(NOW + number))
        for erased in ("player-1", "player-7", "player-8"):
            await erase(ledger, erased)
        kept = [StoredReceipt(Position(number), b"receipt %d" % number) for number in range(2, 60)]
        await ledger.keep_receipts(kept)


async def erase(ledger: SQLiteLedger, player: str) -> None:
    """Erase a player, and redact its facts."""
    through = (await ledger.append([PlayerErased(player)], now=NOW)).positions[0]
    facts = await ledger.facts_of(board=None, player=player, before=through, limit=1_000)
    positions = [one.position for one in facts if one.fact.redacted() is not one.fact]
    parts = await ledger.redacted_parts(positions, player=player, through=through)
    await ledger.append([FactsRedacted(player, through, parts, complete=True)], now=NOW)


async def readable(ledger: SQLiteLedger) -> list[object]:
    """Everything that can be read from a ledger."""
    facts = list(await ledger.read(after=Position(0), limit=1_000))
    again = await ledger.append(KEYED, now=NOW)  # All keys at once: none is new.
    players = await ledger._reader.run(
        lambda database: database.execute("SELECT * FROM players").fetchall()
    )
    return [*facts, again.first_uses, *players]


async def judge(folder: Path, original: list[object]) -> str:
    """Open and verify a ledger; return "found", "harmless" or what was missed."""
    try:
        async with SQLiteLedger.open(folder) as ledger:
            async for _ in ledger.verify():
                pass
            return "harmless" if await readable(ledger) == original else "missed"
    except RankdError:
        return "found"


def at_random(*, edits: int, seed: int) -> Choose:
    """Choose so many edits anywhere in the file."""

    def chosen(whole: bytes) -> Iterator[Edit]:
        random = Random(seed)
        for _ in range(edits):
            yield Edit(random.randrange(len(whole)), random.randrange(1, 256))

    return chosen


def in_metadata(whole: bytes) -> Iterator[Edit]:
    """Choose edits that leave every fact readable, and each a different one from what it was."""
    for found in re.finditer(METADATA, whole):
        yield Edit(found.start() + len(METADATA) // 2, 1)


async def campaign(choose: Choose, *, quiet: bool = True) -> Findings:
    """Change one byte at a time, and say what became of it."""
    findings = Findings()
    with scratch_folder() as scratch:
        await write(scratch / "original")
        async with SQLiteLedger.open(scratch / "original") as ledger:
            original = await readable(ledger)
        whole = (scratch / "original" / FILE).read_bytes()
        for number, (place, change) in enumerate(choose(whole)):
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
                    findings.missed.append(f"byte {place} ^ {change}: {problem}")
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
    recent_keys.GENERATION_KEYS = 8  # So that keys are on the move at all times.
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--edits", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=time.time_ns() & 0xFFFF_FFFF)
    given = parser.parse_args()
    _say(f"python -m tests.simulation.edits --edits {given.edits} --seed {given.seed}")
    findings = asyncio.run(campaign(at_random(edits=given.edits, seed=given.seed), quiet=False))
    for missed in findings.missed[:20]:
        _say(missed)
    _say(
        f"{given.edits:,} edits: {findings.found:,} found, {findings.harmless:,} changed nothing "
        f"that can be read, {len(findings.missed)} missed"
    )
    return 1 if findings.missed else 0


if __name__ == "__main__":
    sys.exit(main())

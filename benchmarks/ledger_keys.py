"""What does a submission's key cost in a ledger that has many already?

    python -m benchmarks.ledger_keys [--keys N] [--commit F] [--folder F]

Submissions with random keys are appended, each commit synced, until the ledger has so many. Once by
the ledger itself, which writes keys as they come and moves them to their place by ranges of hashes;
once with each key put where it belongs at once. What is told is the time of a submission, and what
the system wrote for it, while the table grows. Making the submissions is not counted. The disk is:
give a folder on the disk that matters.
"""

import argparse
import asyncio
import tempfile
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import apsw
import msgspec

from rankd.adapters.sqlite import SQLiteLedger
from rankd.adapters.sqlite import ledger as adapter
from rankd.adapters.sqlite.queries import QUERIES
from rankd.adapters.sqlite.recent_keys import RecentKeys
from rankd.model.facts import Position, ScoreSubmitted
from rankd.model.window import Instant

NOW = Instant(1_763_000_000_000_000)
STAGES = 8


class AtOnce(RecentKeys):
    """What the key table would take if nothing waited."""

    def add(self, database: apsw.Connection, hashes: Sequence[int | None], first: Position) -> None:
        placed = sorted((hashed, first + place) for place, hashed in enumerate(hashes) if hashed)
        listed = msgspec.json.encode(placed).decode()
        database.execute(QUERIES["move_keys"], {"keys": listed})

    def move(self, database: apsw.Connection, count: int) -> None:
        """Nothing waits."""


class Stage(NamedTuple):
    """Of some of the appends."""

    keys: int
    microseconds: float
    written_bytes: float


async def fill(folder: Path, keys: int, commit: int) -> list[Stage]:
    """Append until there are so many keys, and measure each part of it."""
    stages: list[Stage] = []
    async with SQLiteLedger.open(folder) as ledger:
        for stage in range(1, STAGES + 1):
            seconds, count, before = 0.0, 0, _written_bytes()
            while count < keys // STAGES:
                facts = [
                    ScoreSubmitted("arena", f"p{n}", scores=(n,), key=uuid.uuid4().hex)
                    for n in range(count, count + commit)
                ]
                begun = time.perf_counter()
                await ledger.append(facts, now=NOW)
                seconds += time.perf_counter() - begun
                count += commit
            written = (_written_bytes() - before) / count
            stages.append(Stage(stage * count, seconds / count * 1e6, written))
    return stages


def _written_bytes() -> int:
    """Return what this process has had written so far, to any disk."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("write_bytes")))


def main() -> None:
    """Measure both, and print them side by side."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--keys", type=int, default=2_000_000)
    parser.add_argument("--commit", type=int, default=200, help="submissions in each")
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    found: dict[type[RecentKeys], list[Stage]] = {}
    for kind in (RecentKeys, AtOnce):
        with (
            tempfile.TemporaryDirectory(dir=given.folder) as folder,
            patch.object(adapter, "RecentKeys", kind),
        ):
            found[kind] = asyncio.run(fill(Path(folder), given.keys, given.commit))
    print(f"{given.commit} submissions a commit, each with a key")
    print("| keys so far | moved later, µs | at once, µs | moved later, bytes | at once, bytes |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    for later, once in zip(found[RecentKeys], found[AtOnce], strict=True):
        times = f"{later.microseconds:.1f} | {once.microseconds:.1f}"
        print(
            f"| {later.keys:,} | {times} | {later.written_bytes:,.0f} | {once.written_bytes:,.0f} |"
        )


if __name__ == "__main__":
    main()

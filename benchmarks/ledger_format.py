"""What does a fact cost in the ledger: a row for each, or a row for many?

    python -m benchmarks.ledger_format [--seconds S] [--folder F]

Submissions of some thirty bytes, with and without a key of 36 random characters, are appended one,
a hundred, a thousand and ten thousand to a commit, each commit synced. Once by the ledger itself,
which keeps blocks of facts and a table of hashed keys; once by the obvious alternative, a row for
each fact with a unique index on board and key, and the same chain. Then all is read back. A second
table varies how long the WAL may grow, and looks at the longest wait.

Making the submissions is not counted. The disk is: give a folder on the disk that matters.
"""

import argparse
import asyncio
import hashlib
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol
from unittest.mock import patch

import apsw

from rankd.adapters.sqlite import SQLiteLedger
from rankd.adapters.sqlite import ledger as adapter
from rankd.model.facts import Fact, Position, ScoreSubmitted, decode, encode
from rankd.model.window import Instant

SIZES = (1, 100, 1_000, 10_000)
WAL_PAGES = (1_000, 4_000, 16_000)
NOW = Instant(1_763_000_000_000_000)
PAGE = 5_000


@dataclass
class Figures:
    """One line of the table."""

    waits: list[float] = field(default_factory=list)
    facts: int = 0
    file_bytes: int = 0
    read_seconds: float = 0.0

    def __str__(self) -> str:
        waited, ordered = sum(self.waits), sorted(self.waits)
        return (
            f"{self.facts / waited:11,.0f} {waited / self.facts * 1e6:9.2f}"
            f" {ordered[len(ordered) // 2] * 1e3:8.2f} {ordered[-1] * 1e3:8.1f}"
            f" {self.file_bytes / self.facts:9.1f} {self.facts / self.read_seconds:11,.0f}"
        )


class Contender(Protocol):
    """One way to keep facts."""

    async def append(self, facts: list[Fact]) -> None: ...
    async def read_all(self) -> int: ...


class Blocks:
    """The ledger as it is."""

    def __init__(self, ledger: SQLiteLedger) -> None:
        self._ledger = ledger

    async def append(self, facts: list[Fact]) -> None:
        await self._ledger.append(facts, now=NOW)

    async def read_all(self) -> int:
        found, after = 0, Position(0)
        while page := await self._ledger.read(after=after, limit=PAGE):
            found, after = found + len(page), page[-1].position
        return found


class Rows:
    """A row for each fact."""

    SCHEMA = """
        CREATE TABLE fact (position INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL,
            kind TEXT NOT NULL, body BLOB NOT NULL, board TEXT, key TEXT, fingerprint BLOB) STRICT;
        CREATE UNIQUE INDEX fact_key ON fact (board, key) WHERE key IS NOT NULL;
    """
    INSERT = """INSERT INTO fact (at, kind, body, board, key, fingerprint)
        VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"""

    def __init__(self, file: Path) -> None:
        self.database = apsw.Connection(str(file))
        self.database.pragma("journal_mode", "WAL")
        self.database.pragma("synchronous", "FULL")
        self.database.pragma("cache_size", -65_536)
        self.database.execute(self.SCHEMA)
        self._link = b""

    async def append(self, facts: list[Fact]) -> None:
        await asyncio.to_thread(self._append, facts)

    def _append(self, facts: list[Fact]) -> None:
        link = hashlib.sha256(self._link)
        self.database.execute("BEGIN IMMEDIATE")
        self.database.executemany(self.INSERT, [self._row(fact, link.update) for fact in facts])
        self.database.execute("COMMIT")
        self._link = link.digest()

    @staticmethod
    def _row(fact: Fact, update: Callable[[bytes], None]) -> tuple[object, ...]:
        assert isinstance(fact, ScoreSubmitted)
        kind, body = encode(fact)
        update(body)
        key = fact.identity()
        if key is None:
            return NOW, kind, body, None, None, None
        return NOW, kind, body, fact.board, key, fact.fingerprint()

    async def read_all(self) -> int:
        rows = self.database.execute("SELECT position, at, kind, body FROM fact ORDER BY position")
        return len([(position, at, decode(kind, body)) for position, at, kind, body in rows])


def submissions(many: int, *, start: int, keyed: bool) -> list[Fact]:
    return [
        ScoreSubmitted(
            "weekly",
            f"player-{number * 7_919 % 1_000_003:07d}",
            scores=(number * 13 % 100_000,),
            key=str(uuid.uuid4()) if keyed else None,
        )
        for number in range(start, start + many)
    ]


async def measure(contender: Contender, *, size: int, keyed: bool, seconds: float) -> Figures:
    figures, end = Figures(), time.perf_counter() + seconds
    while time.perf_counter() < end:
        facts = submissions(size, start=figures.facts, keyed=keyed)
        began = time.perf_counter()
        await contender.append(facts)
        figures.waits.append(time.perf_counter() - began)
        figures.facts += size
    began = time.perf_counter()
    assert await contender.read_all() == figures.facts
    figures.read_seconds = time.perf_counter() - began
    return figures


async def blocks(folder: Path, *, size: int, keyed: bool, seconds: float) -> Figures:
    async with SQLiteLedger.open(folder) as ledger:
        figures = await measure(Blocks(ledger), size=size, keyed=keyed, seconds=seconds)
    figures.file_bytes = (folder / "ledger.db").stat().st_size
    return figures


async def rows(folder: Path, *, size: int, keyed: bool, seconds: float) -> Figures:
    contender = Rows(folder / "rows.db")
    figures = await measure(contender, size=size, keyed=keyed, seconds=seconds)
    contender.database.close()
    figures.file_bytes = (folder / "rows.db").stat().st_size
    return figures


async def main(folder: Path | None, seconds: float) -> None:
    header = "    facts/s   us/fact  p50 ms   max ms    B/fact      read/s"
    print(f"{'':8}{'a commit':>9} {'keys':>5} {header}")
    for keyed in (False, True):
        for size in SIZES:
            for name, contender in (("rows", rows), ("blocks", blocks)):
                with tempfile.TemporaryDirectory(dir=folder) as scratch:
                    line = await contender(Path(scratch), size=size, keyed=keyed, seconds=seconds)
                print(f"{name:8}{size:9,} {keyed!s:>5} {line}", flush=True)
    print(f"\n{'WAL pages':8}{'':8} {'keys':>5} {header}")
    for pages in WAL_PAGES:
        for keyed in (False, True):
            with (
                tempfile.TemporaryDirectory(dir=folder) as scratch,
                patch.object(adapter, "WAL_PAGES_MAX", pages),
            ):
                line = await blocks(Path(scratch), size=1_000, keyed=keyed, seconds=seconds * 2)
            print(f"{pages:<8,}{'':9} {keyed!s:>5} {line}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--folder", type=Path, default=None)
    given = parser.parse_args()
    asyncio.run(main(given.folder, given.seconds))

"""A ledger that another process writes is copied whole, and its writer is not held up."""

from collections.abc import AsyncIterator, Iterator
from itertools import count
from operator import itemgetter
from pathlib import Path

import apsw
import pytest

from rankd.adapters.sqlite import SQLiteLedger, backup
from rankd.adapters.sqlite.database import FILE
from rankd.adapters.sqlite.ledger import WAL_PAGES_MAX
from rankd.adapters.sqlite.read_only import ReadOnlyLedger
from rankd.errors import InvalidRequest, LedgerCorrupt, LedgerUnavailable
from rankd.model.facts import Fact, PlayerErased, PlayerProfiled, Position, ScoreSubmitted
from rankd.model.window import Instant
from rankd.ports import Progress, StoredReceipt

pytestmark = pytest.mark.anyio
NOW = Instant(1_763_000_000_000_000)
_numbers = count()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backup, "STEP_BLOCKS", 3)
    monkeypatch.setattr(backup, "STEP_ROWS", 100)
    monkeypatch.setattr(backup, "REST_SECONDS_MAX", 0.0)


def some(count: int) -> list[Fact]:
    """Facts of every sort that leave a trace outside of the blocks."""
    numbers = [next(_numbers) for _ in range(count)]
    facts: list[Fact] = [
        ScoreSubmitted("b", f"p{n % 40}", scores=(n,), key=f"k{n}", attributes={"level": n % 7})
        for n in numbers
    ]
    return [*facts, PlayerProfiled(f"q{count}", "Q", None), PlayerErased(f"p{numbers[0] % 40}")]


async def append(ledger: SQLiteLedger, facts: list[Fact]) -> None:
    appended = await ledger.append(facts, now=NOW)
    keyed = [at for at, fact in zip(appended.positions, facts, strict=True) if _has_key(fact)]
    await ledger.keep_receipts([StoredReceipt(at, b"receipt %d" % at) for at in keyed])


def _has_key(fact: Fact) -> bool:
    return isinstance(fact, ScoreSubmitted) and fact.key is not None


def rows(folder: Path, table: str) -> set[tuple[object, ...]]:
    file = apsw.Connection(str(folder / FILE))
    try:
        return set(file.execute(f"SELECT * FROM {table}"))
    finally:
        file.close()


def tables(folder: Path) -> Iterator[str]:
    file = apsw.Connection(str(folder / FILE))
    names = file.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    file.close()
    yield from (str(name) for (name,) in names)


async def test_a_copy_is_the_same_in_every_table(tmp_path: Path) -> None:
    async with SQLiteLedger.open(tmp_path / "ledger") as ledger:
        for _ in range(10):
            await append(ledger, some(70))
        async with ReadOnlyLedger.open(tmp_path / "ledger") as followed:
            told = [progress async for progress in followed.backup(tmp_path / "copy")]
    assert {"copying facts", "copying keys", "copying receipts"} < {each.stage for each in told}
    assert all(0 <= each.done <= each.total for each in told)
    for table in tables(tmp_path / "ledger"):
        found = rows(tmp_path / "copy", table)
        assert found == rows(tmp_path / "ledger", table), table
        assert found, f"the test puts nothing into {table}"


async def test_a_copy_made_among_appends_has_all_from_before_it_and_is_whole(
    tmp_path: Path,
) -> None:
    async with (
        SQLiteLedger.open(tmp_path / "ledger") as ledger,
        ReadOnlyLedger.open(tmp_path / "ledger") as followed,
    ):
        for _ in range(10):
            await append(ledger, some(70))
        before, steps = await ledger.head(), 0
        async for progress in followed.backup(tmp_path / "copy"):
            assert progress.done <= progress.total
            steps += 1
            await append(ledger, some(5))  # Behind the head, and the players change in place.
        assert steps > 20
        whole = await ledger.read(after=Position(0), limit=100_000)
    async with SQLiteLedger.open(tmp_path / "copy") as copy:
        found = await copy.read(after=Position(0), limit=100_000)
        assert len(found) >= before
        assert found == whole[: len(found)]
        assert await copy.receipts_through() == last_key(tmp_path / "copy")


def last_key(folder: Path) -> object:
    moved = {(position, hashed) for hashed, position in rows(folder, "key")}
    return max(moved | rows(folder, "recent_key"), key=itemgetter(0))[0]


async def test_a_copy_leaves_the_writer_its_checkpoints(tmp_path: Path) -> None:
    """A read that lasted for the whole copy would let the WAL grow for as long."""
    wal, longest, written = tmp_path / "ledger" / f"{FILE}-wal", 0, 0
    async with (
        SQLiteLedger.open(tmp_path / "ledger") as ledger,
        ReadOnlyLedger.open(tmp_path / "ledger") as followed,
    ):
        for _ in range(60):
            await append(ledger, some(200))
        async for progress in followed.backup(tmp_path / "copy"):
            if progress.stage.startswith("copying"):
                await append(ledger, some(200))
                written += 200
                longest = max(longest, wal.stat().st_size)
    assert written > 20_000
    assert longest < 3 * WAL_PAGES_MAX * 4096


async def test_nothing_is_copied_over_anything(tmp_path: Path) -> None:
    async with (
        SQLiteLedger.open(tmp_path / "ledger") as ledger,
        ReadOnlyLedger.open(tmp_path / "ledger") as followed,
    ):
        await append(ledger, some(3))
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "thesis.tex").touch()
        for name, found in (("ledger", "a ledger already"), ("other", "thesis.tex")):
            with pytest.raises(InvalidRequest, match=rf"^folder .*{name} holds .*{found}"):
                await _done(followed.backup(tmp_path / name))


async def test_what_is_damaged_is_found_from_outside(tmp_path: Path) -> None:
    async with (
        SQLiteLedger.open(tmp_path) as ledger,
        ReadOnlyLedger.open(tmp_path) as followed,
    ):
        for _ in range(3):
            await append(ledger, some(50))
        await _done(followed.verify())
        edit(tmp_path, "UPDATE block SET at = at + 1 WHERE last = (SELECT max(last) FROM block)")
        with pytest.raises(LedgerCorrupt, match="chain"):
            await _done(followed.verify())


async def test_a_writer_of_another_version_is_named(tmp_path: Path) -> None:
    async with SQLiteLedger.open(tmp_path):
        edit(tmp_path, "PRAGMA user_version = 1")
        with pytest.raises(LedgerUnavailable, match="schema 1"):
            async with ReadOnlyLedger.open(tmp_path):
                pass


async def test_a_ledger_is_opened_while_somebody_still_reads_it(tmp_path: Path) -> None:
    """A service that is started again must not wait for a backup of the one before."""
    async with SQLiteLedger.open(tmp_path) as ledger:
        await append(ledger, some(50))
        reading = apsw.Connection(str(tmp_path / FILE), flags=apsw.SQLITE_OPEN_READONLY)
        reading.execute("BEGIN")
        assert reading.execute("SELECT count(*) FROM block").get == 1
    try:
        async with SQLiteLedger.open(tmp_path) as again:
            await append(again, some(50))
            await _done(again.verify())
    finally:
        reading.close()


def edit(folder: Path, statement: str) -> None:
    file = apsw.Connection(str(folder / FILE))
    file.execute(statement)
    file.close()


async def _done(steps: AsyncIterator[Progress]) -> None:
    async for _ in steps:
        pass

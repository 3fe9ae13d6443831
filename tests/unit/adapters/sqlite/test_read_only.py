"""A ledger that no process has open is read, and others are kept from writing meanwhile."""

import shutil
from pathlib import Path

import apsw
import pytest

from rankd.adapters.sqlite import SQLiteLedger
from rankd.adapters.sqlite.database import FILE, LOCK, PART
from rankd.adapters.sqlite.migration import APPLICATION_ID
from rankd.adapters.sqlite.queries import MIGRATIONS, SCHEMA_VERSION
from rankd.adapters.sqlite.read_only import OfflineLedger, ReadOnlyLedger
from rankd.errors import InvalidRequest, LedgerCorrupt, LedgerInUse, LedgerTooNew, NoLedger
from rankd.model.facts import Position, ScoreSubmitted
from rankd.model.window import Instant
from rankd.ports import LedgerReader

pytestmark = pytest.mark.anyio
NOW = Instant(1_763_000_000_000_000)
_: type[LedgerReader] = OfflineLedger  # mypy sees whether the methods are those of the port.


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


async def make(folder: Path, facts: int = 3) -> None:
    async with SQLiteLedger.open(folder) as ledger:
        await append(ledger, facts)


async def append(ledger: SQLiteLedger, facts: int = 3) -> None:
    await ledger.append(
        [ScoreSubmitted("b", "ann", scores=(n,), key=f"{n}") for n in range(facts)], now=NOW
    )


async def verify(folder: Path) -> Position:
    async with OfflineLedger.open(folder) as ledger:
        async for _ in ledger.verify():
            pass
        return await ledger.head()


async def test_commits_that_are_only_in_the_wal_are_read(tmp_path: Path) -> None:
    async with SQLiteLedger.open(tmp_path / "d") as ledger:
        await append(ledger)
        shutil.copytree(tmp_path / "d", tmp_path / "killed")
    (tmp_path / "killed" / f"{FILE}-shm").unlink()
    assert await verify(tmp_path / "killed") == 3
    assert names(tmp_path / "killed") == {FILE, f"{FILE}-wal", LOCK}


async def test_readers_are_let_in_and_writers_kept_out(tmp_path: Path) -> None:
    await make(tmp_path)
    async with OfflineLedger.open(tmp_path), OfflineLedger.open(tmp_path):
        with pytest.raises(LedgerInUse):
            await make(tmp_path)
    async with SQLiteLedger.open(tmp_path):
        with pytest.raises(LedgerInUse):
            await verify(tmp_path)


async def test_an_older_schema_is_migrated_in_a_copy(tmp_path: Path) -> None:
    file = apsw.Connection(str(tmp_path / FILE))
    file.execute(MIGRATIONS[1])
    file.pragma("user_version", 1)
    file.pragma("application_id", APPLICATION_ID)
    file.close()
    before = (tmp_path / FILE).read_bytes()
    assert await verify(tmp_path) == 0
    assert (tmp_path / FILE).read_bytes() == before
    assert names(tmp_path) == {FILE}


async def test_a_newer_schema_is_named(tmp_path: Path) -> None:
    await make(tmp_path)
    file = apsw.Connection(str(tmp_path / FILE))
    file.pragma("user_version", SCHEMA_VERSION + 1)
    file.close()
    with pytest.raises(LedgerTooNew, match=f"has schema {SCHEMA_VERSION + 1}"):
        await verify(tmp_path)


async def test_a_ledger_whose_making_was_cut_short_is_none(tmp_path: Path) -> None:
    file = apsw.Connection(str(tmp_path / FILE))
    file.pragma("journal_mode", "WAL")
    file.close()
    assert (tmp_path / FILE).stat().st_size
    with pytest.raises(NoLedger, match="cut short"):
        await verify(tmp_path)
    await make(tmp_path)  # Whoever writes begins it.
    assert await verify(tmp_path) == 3


async def test_a_copy_that_goes_on_has_its_folder_alone(tmp_path: Path) -> None:
    await make(tmp_path / "d")
    async with OfflineLedger.open(tmp_path / "d") as ledger:
        copying = ledger.backup(tmp_path / "copy")
        await anext(copying)
        assert (tmp_path / "copy" / PART).exists()
        with pytest.raises(LedgerInUse):
            await anext(ledger.backup(tmp_path / "copy"))
        async for _ in copying:
            pass
    assert await verify(tmp_path / "copy") == 3


async def test_the_part_of_a_copy_that_was_cut_off_is_begun_anew(tmp_path: Path) -> None:
    await make(tmp_path / "d")
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / PART).write_bytes(b"the beginning of something else" * 1_000)
    (tmp_path / "copy" / f"{PART}-journal").write_bytes(b"and its journal")
    async with OfflineLedger.open(tmp_path / "d") as ledger:
        async for _ in ledger.backup(tmp_path / "copy"):
            pass
    assert await verify(tmp_path / "copy") == 3
    assert names(tmp_path / "copy") == {FILE, LOCK}


async def test_a_copy_has_no_name_until_it_is_verified(tmp_path: Path) -> None:
    await make(tmp_path / "d", 500)
    data = bytearray((tmp_path / "d" / FILE).read_bytes())
    data[-3_000] ^= 1
    (tmp_path / "d" / FILE).write_bytes(data)
    async with OfflineLedger.open(tmp_path / "d") as ledger:
        with pytest.raises(LedgerCorrupt):
            async for _ in ledger.backup(tmp_path / "copy"):
                pass
    assert not (tmp_path / "copy" / FILE).exists()
    assert (tmp_path / "copy" / PART).exists()


async def test_a_folder_with_an_unfinished_transfer_is_no_place_for_a_copy(tmp_path: Path) -> None:
    await make(tmp_path / "d")
    async with SQLiteLedger.open(tmp_path / "half", copying="another ledger"):
        pass
    async with SQLiteLedger.open(tmp_path / "d"), ReadOnlyLedger.open(tmp_path / "d") as ledger:
        with pytest.raises(InvalidRequest, match="half holds a ledger already"):
            await anext(ledger.backup(tmp_path / "half"))

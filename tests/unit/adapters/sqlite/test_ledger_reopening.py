"""A ledger whose disk fails is opened anew if it is the same; on a full disk it can be read."""

import asyncio
import shutil
from pathlib import Path

import pytest
from tests.disks import small_disk

from rankd.adapters.sqlite import SQLiteLedger
from rankd.adapters.sqlite.database import FILE, PROBE
from rankd.adapters.sqlite.read_only import ReadOnlyLedger
from rankd.errors import LedgerCorrupt, LedgerInUse, LedgerUnavailable, NoLedger
from rankd.model.facts import Position, ScoreSubmitted
from rankd.model.window import Instant
from rankd.ports import ReopenableLedger
from rankd.testing.faults import FailAt, empty, fill, make_read_only, watched_disk

pytestmark = pytest.mark.anyio
NOW = Instant(1_763_000_000_000_000)
DISK_BYTES = 8 << 20
NEVER = -1
_: type[ReopenableLedger] = SQLiteLedger


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def append(ledger: SQLiteLedger, *keys: str) -> None:
    facts = [ScoreSubmitted("b", "ann", scores=(1,), key=key) for key in keys]
    await ledger.append(facts, now=NOW)


async def fail(ledger: SQLiteLedger, fault: FailAt) -> None:
    """Have the next append end with an unknown outcome."""
    fault.fails, fault.failed = fault.seen, False
    with pytest.raises(LedgerUnavailable) as failed:
        await append(ledger, "failed")
    assert failed.value.applied == "unknown" and ledger.failure is failed.value


async def keys(ledger: SQLiteLedger) -> list[str | None]:
    facts = await ledger.read(after=Position(0), limit=100)
    return [one.fact.key for one in facts if isinstance(one.fact, ScoreSubmitted)]


async def test_a_ledger_goes_on_where_it_was(tmp_path: Path) -> None:
    fault = FailAt(NEVER)
    with watched_disk(fault) as disk:
        async with SQLiteLedger.open(tmp_path, vfs=disk) as ledger:
            for number in range(3):
                await append(ledger, f"{number}")
                await fail(ledger, fault)
                await ledger.reopen()
                assert ledger.failure is None
                assert await ledger.head() == number + 1
            await append(ledger, "1", "failed")
            assert await keys(ledger) == ["0", "1", "2", "failed"]
            async for _ in ledger.verify():
                pass


async def test_whoever_follows_it_goes_on_too(tmp_path: Path) -> None:
    fault = FailAt(NEVER)
    with watched_disk(fault) as disk:
        async with (
            SQLiteLedger.open(tmp_path, vfs=disk) as ledger,
            ReadOnlyLedger.open(tmp_path) as followed,
        ):
            await append(ledger, "first")
            await fail(ledger, fault)
            assert await followed.head() == 1
            await ledger.reopen()
            await append(ledger, "second")
            assert await followed.head() == 2


async def test_a_ledger_that_was_replaced_is_not_gone_on_with(tmp_path: Path) -> None:
    fault, folder = FailAt(NEVER), tmp_path / "d"
    with watched_disk(fault) as disk:
        async with SQLiteLedger.open(folder, vfs=disk) as ledger:
            await append(ledger, "first")
            async for _ in ledger.backup(tmp_path / "older"):
                pass
            await append(ledger, "second")
            await fail(ledger, fault)
            (folder / f"{FILE}-wal").unlink()
            (folder / f"{FILE}-shm").unlink()
            shutil.copy(tmp_path / "older" / FILE, folder / FILE)
            for _ in range(2):
                with pytest.raises(LedgerCorrupt, match=r"ends at 1.*up to 2 were acknowledged"):
                    await ledger.reopen()
            with pytest.raises(LedgerCorrupt):
                await append(ledger, "third")


async def test_a_ledger_that_is_gone_is_not_begun_anew(tmp_path: Path) -> None:
    fault = FailAt(NEVER)
    with watched_disk(fault) as disk:
        async with SQLiteLedger.open(tmp_path / "d", vfs=disk) as ledger:
            await append(ledger, "first")
            await fail(ledger, fault)
            for path in (tmp_path / "d").glob(f"{FILE}*"):
                path.unlink()
            with pytest.raises((LedgerCorrupt, NoLedger)):
                await ledger.reopen()
            assert not (tmp_path / "d" / FILE).exists()


async def test_a_backup_that_went_on_says_that_it_must_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rankd.adapters.sqlite.backup.STEP_PAGES", 1)
    fault = FailAt(NEVER)
    with watched_disk(fault) as disk:
        async with SQLiteLedger.open(tmp_path / "d", vfs=disk) as ledger:
            await append(ledger, "first")
            copying = ledger.backup(tmp_path / "copy")
            await anext(copying)
            await fail(ledger, fault)
            await ledger.reopen()
            with pytest.raises(LedgerUnavailable, match="repeat the backup"):
                await anext(copying)
            async for _ in ledger.backup(tmp_path / "copy"):
                pass


async def test_a_disk_that_stays_full_is_told_each_time(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", DISK_BYTES) as disk:
        async with SQLiteLedger.open(disk / "d") as ledger:
            await append(ledger, "first")
            fill(disk)
            with pytest.raises(LedgerUnavailable):
                await append(ledger, *map(str, range(10_000)))
            for _ in range(3):
                with pytest.raises(LedgerUnavailable, match="no space is left on the disk"):
                    await ledger.reopen()
            empty(disk)
            await ledger.reopen()
            await append(ledger, "second")
            assert await keys(ledger) == ["first", "second"]
            assert not (disk / "d" / PROBE).exists()


@pytest.mark.parametrize("read_only", [False, True], ids=["full", "read-only"])
async def test_a_disk_that_takes_no_writes_is_read(tmp_path: Path, read_only: bool) -> None:
    with small_disk(tmp_path / "disk", DISK_BYTES) as disk:
        async with SQLiteLedger.open(disk / "d") as ledger:
            await append(ledger, "first", "second")
        make_read_only(disk) if read_only else fill(disk)
        async with SQLiteLedger.open(disk / "d") as ledger:
            said = "can only be read" if read_only else "no space is left"
            assert said in str(ledger.failure)
            assert await ledger.head() == 2 and await keys(ledger) == ["first", "second"]
            assert await ledger.first_use(board="b", key="second")
            async for _ in ledger.verify():
                pass
            async for _ in ledger.backup(tmp_path / "copy"):
                pass
            for _ in range(2):
                with pytest.raises(LedgerUnavailable, match=said) as refused:
                    await append(ledger, "third")
                assert refused.value.applied == "no"
                with pytest.raises(LedgerUnavailable, match=said):
                    await ledger.reopen()
                assert await keys(ledger) == ["first", "second"]
            with pytest.raises(LedgerInUse):
                async with SQLiteLedger.open(disk / "d"):
                    pass
            make_read_only(disk, read_only=False) if read_only else empty(disk)
            await ledger.reopen()
            await append(ledger, "second", "third")
            assert await keys(ledger) == ["first", "second", "third"]


async def test_commits_of_a_process_that_died_are_read_from_a_full_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", DISK_BYTES) as disk:
        async with SQLiteLedger.open(tmp_path / "d") as ledger:
            await append(ledger, "first", "second")
            await asyncio.to_thread(shutil.copytree, tmp_path / "d", disk / "d")
        (disk / "d" / f"{FILE}-shm").unlink()
        fill(disk)
        async with SQLiteLedger.open(disk / "d") as ledger:
            assert ledger.failure is not None and await keys(ledger) == ["first", "second"]
            empty(disk)
            await ledger.reopen()
            await append(ledger, "third")
        async with SQLiteLedger.open(disk / "d") as ledger:
            assert await keys(ledger) == ["first", "second", "third"]


async def test_where_there_is_no_ledger_yet_a_full_disk_is_an_error(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", DISK_BYTES) as disk:
        (disk / "d").mkdir()
        fill(disk)
        with pytest.raises(LedgerUnavailable):
            async with SQLiteLedger.open(disk / "d"):
                pass


async def test_closing_on_a_disk_that_fails_leaves_the_wal_and_raises_nothing(
    tmp_path: Path,
) -> None:
    fault = FailAt(0, for_good=True, armed=False)
    with watched_disk(fault) as disk:
        async with SQLiteLedger.open(tmp_path, vfs=disk) as ledger:
            await append(ledger, "first")
            fault.armed = True
    assert fault.failed
    async with SQLiteLedger.open(tmp_path) as ledger:
        assert await keys(ledger) == ["first"]

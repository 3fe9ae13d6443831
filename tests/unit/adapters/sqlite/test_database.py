"""The file and its folder: who may open it, and what is refused."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest
from tests.disks import small_disk

import rankd
from rankd.adapters.sqlite import SQLiteLedger, database
from rankd.adapters.sqlite.database import SQLiteDurability, translated
from rankd.adapters.sqlite.migration import APPLICATION_ID
from rankd.adapters.sqlite.read_only import ReadOnlyLedger
from rankd.adapters.sqlite.spool import SpoolFile
from rankd.bootstrap import restoration
from rankd.errors import LedgerCorrupt, LedgerInUse, LedgerTooNew, LedgerUnavailable
from rankd.model.facts import ScoreSubmitted
from rankd.model.window import Instant
from rankd.testing.faults import disk_full, io_error

pytestmark = pytest.mark.anyio
NOW = Instant(1_763_000_000_000_000)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def opened(folder: Path) -> SQLiteDurability:
    async with SQLiteLedger.open(folder) as ledger:
        return ledger.durability


async def begun(folder: Path) -> None:
    async with SQLiteLedger.open(folder) as ledger:
        await ledger.append([ScoreSubmitted("b", "p", scores=(1,))], now=NOW)


def changed(folder: Path, pragma: str, value: int) -> None:
    file = apsw.Connection(str(folder / "ledger.db"))
    file.pragma(pragma, value)
    file.close()


async def test_the_durability_in_force_is_read_back(tmp_path: Path) -> None:
    found = await opened(tmp_path)
    assert found == SQLiteDurability(apsw.sqlite_lib_version(), "WAL", "FULL")


async def test_a_pragma_that_is_not_followed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "SYNCHRONOUS", "FULLER")  # Unknown words are ignored by SQLite.
    with pytest.raises(LedgerUnavailable, match="durability"):
        await opened(tmp_path)


async def test_an_sqlite_that_loses_commits_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.40.1")
    with pytest.raises(LedgerUnavailable, match=r"3\.40\.1 .* 3\.51\.3"):
        await opened(tmp_path)


async def test_a_folder_is_opened_once_in_this_process(tmp_path: Path) -> None:
    async with SQLiteLedger.open(tmp_path):
        with pytest.raises(LedgerInUse):
            await opened(tmp_path)
    await opened(tmp_path)


async def test_a_folder_is_opened_by_one_process(tmp_path: Path) -> None:
    program = (
        "import asyncio, pathlib, sys\n"
        "from rankd.adapters.sqlite import SQLiteLedger\n"
        "async def main():\n"
        "    async with SQLiteLedger.open(pathlib.Path(sys.argv[1])): pass\n"
        "asyncio.run(main())\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    async with SQLiteLedger.open(tmp_path):
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: ASYNC221
    assert "LedgerInUse" in done.stderr
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: ASYNC221
    assert done.returncode == 0, done.stderr


async def test_a_file_of_another_program_is_left_alone(tmp_path: Path) -> None:
    file = apsw.Connection(str(tmp_path / "ledger.db"))
    file.execute("CREATE TABLE theirs (a)")
    file.close()
    before = (tmp_path / "ledger.db").read_bytes()
    with pytest.raises(LedgerCorrupt, match="another program"):
        await opened(tmp_path)
    assert (tmp_path / "ledger.db").read_bytes() == before


async def test_a_newer_schema_is_named(tmp_path: Path) -> None:
    await begun(tmp_path)
    changed(tmp_path, "user_version", 99)
    with pytest.raises(LedgerTooNew, match="has schema 99"):
        await opened(tmp_path)


@pytest.mark.parametrize("version", [0, -1, -704_643_068])
async def test_a_schema_that_none_ever_was_is_corrupt(tmp_path: Path, version: int) -> None:
    await begun(tmp_path)
    changed(tmp_path, "user_version", version)
    with pytest.raises(LedgerCorrupt, match="none ever was"):
        await opened(tmp_path)


async def test_a_ledger_says_whose_it_is(tmp_path: Path) -> None:
    await begun(tmp_path)
    file = apsw.Connection(str(tmp_path / "ledger.db"))
    assert file.pragma("application_id") == APPLICATION_ID
    file.close()


async def test_a_file_that_is_no_database_is_corrupt(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").write_bytes(b"not a database, but long enough for one " * 100)
    with pytest.raises(LedgerCorrupt):
        await opened(tmp_path)


async def test_a_folder_that_cannot_be_made_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(LedgerUnavailable) as refusal:
        await opened(tmp_path / "file" / "folder")
    assert refusal.value.applied == "no"


async def test_closing_leaves_one_file_and_no_wal(tmp_path: Path) -> None:
    await begun(tmp_path / "new" / "folder")
    assert sorted(path.name for path in (tmp_path / "new" / "folder").iterdir()) == [
        "ledger.db",
        "ledger.lock",
    ]


def modes(folder: Path) -> dict[str, int]:
    return {
        str(path.relative_to(folder)): path.stat().st_mode & 0o777
        for path in (folder, *folder.rglob("*"))
    }


async def test_a_data_folder_is_its_owners_alone(tmp_path: Path) -> None:
    folder, copy, second = tmp_path / "d", tmp_path / "copy", tmp_path / "second"
    async with rankd.aopen(folder) as ranks:
        await (await ranks.board("b")).submit("ann", 1)
        await ranks.save()
        found = modes(folder)
        await ranks.backup(copy)
    async with SpoolFile.open(folder / "spool") as spool:
        await spool.put([ScoreSubmitted("b", "ann", scores=(1,), key="k")])
        found |= modes(folder)
    async for _ in restoration(copy, second):
        pass
    found |= {f"copy/{name}": mode for name, mode in modes(copy).items()}
    found |= {f"second/{name}": mode for name, mode in modes(second).items()}
    assert {"ledger.db", "ledger.db-wal", "ledger.db-shm", "ledger.lock"} < found.keys()
    assert {"spool/spool.db", "spool/spool.db-wal", "copy/ledger.db"} < found.keys()
    assert {name: oct(mode) for name, mode in found.items() if mode & 0o077} == {}


def test_a_folder_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    asyncio.run(begun(tmp_path))
    tmp_path.chmod(0o2755)
    (tmp_path / "ledger.db").chmod(0o644)
    (tmp_path / "ledger.lock").chmod(0o664)
    asyncio.run(opened(tmp_path))
    assert {mode & 0o077 for mode in modes(tmp_path).values()} == {0}
    assert tmp_path.stat().st_mode & 0o7777 == 0o2700


@pytest.mark.parametrize(
    ("error", "said"), [(disk_full, "no space is left"), (io_error, "reports an error")]
)
def test_an_error_of_the_disk_is_told_in_words(error: Callable[[], apsw.Error], said: str) -> None:
    told = str(translated(error()))
    assert said in told and "SQLITE_" in told and "injected" not in told


@pytest.mark.parametrize("beside", [False, True], ids=["by its writer", "beside it"])
async def test_a_backup_onto_a_full_disk_says_so(tmp_path: Path, beside: bool) -> None:
    facts = [ScoreSubmitted("b", f"p{n}", scores=(n,), key=f"{n}") for n in range(20_000)]
    with small_disk(tmp_path / "small", 1 << 20) as small:
        async with SQLiteLedger.open(tmp_path / "d") as ledger:
            await ledger.append(facts, now=NOW)
            async with ReadOnlyLedger.open(tmp_path / "d") as followed:
                with pytest.raises(LedgerUnavailable, match="no space is left on the disk"):
                    async for _ in (followed if beside else ledger).backup(small / "copy"):
                        pass
        with pytest.raises(LedgerUnavailable, match=r"no space is left|No space left"):
            async for _ in restoration(tmp_path / "d", small / "second"):
                pass

"""The file and its folder: who may open it, and what is refused."""

import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from rankd.adapters.sqlite import SQLiteLedger, database
from rankd.adapters.sqlite.database import Durability
from rankd.adapters.sqlite.migration import APPLICATION_ID
from rankd.errors import LedgerCorrupt, LedgerInUse, LedgerUnavailable
from rankd.model.facts import ScoreSubmitted
from rankd.model.window import Instant

pytestmark = pytest.mark.anyio
NOW = Instant(1_763_000_000_000_000)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def opened(folder: Path) -> Durability:
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
    assert found == Durability(apsw.sqlite_lib_version(), "WAL", "FULL")


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
    with pytest.raises(LedgerCorrupt, match="schema 99"):
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

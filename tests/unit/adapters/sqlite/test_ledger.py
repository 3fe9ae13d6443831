"""What the SQLite ledger does beyond its port: keys that collide, the WAL, links, refusals."""

import asyncio
import threading
from itertools import count
from pathlib import Path

import apsw
import pytest

from rankd.adapters.sqlite import SQLiteLedger
from rankd.adapters.sqlite import ledger as adapter
from rankd.bootstrap import restoration
from rankd.errors import InvalidRequest, LedgerCorrupt, LedgerUnavailable
from rankd.model.facts import Fact, PlayerErased, PlayerProfiled, Position, ScoreSubmitted
from rankd.model.window import Instant
from rankd.ports import StoredReceipt

pytestmark = pytest.mark.anyio
NOW = Instant(1_763_000_000_000_000)
_numbers = count()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def submitted(key: str | None = None) -> ScoreSubmitted:
    return ScoreSubmitted("b", "p", scores=(next(_numbers),), key=key)


async def verify(ledger: SQLiteLedger) -> None:
    async for _ in ledger.verify():
        pass


async def test_two_keys_that_share_a_hash_are_two_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("ledger", "verification"):
        monkeypatch.setattr(f"rankd.adapters.sqlite.{module}.hash_of", lambda *_: 7)
    async with SQLiteLedger.open(tmp_path) as ledger:
        facts: list[Fact] = [submitted("a"), submitted("b")]
        await ledger.append([facts[0]], now=NOW)
        appended = await ledger.append([facts[1], submitted("a"), submitted("c")], now=NOW)
        assert list(appended.positions) == [2, 1, 3]
        assert list(appended.first_uses) == [1]
        found = await ledger.first_use(board="b", key="b")
        assert found is not None
        assert found.position == 2
        assert await ledger.first_use(board="b", key="d") is None
        await verify(ledger)


async def test_receipts_are_written_however_many_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter, "RECEIPTS_TOGETHER_MAX", 4)
    async with SQLiteLedger.open(tmp_path) as ledger:
        await ledger.append([submitted(f"k{number}") for number in range(11)], now=NOW)
        kept = [StoredReceipt(Position(at), b"%d" % at if at % 3 else b"") for at in range(1, 12)]
        await ledger.keep_receipts(kept)
        assert list(await ledger.kept_receipts(after=Position(0), limit=20)) == kept
        await verify(ledger)


async def test_the_last_link_stands_for_the_whole_ledger(tmp_path: Path) -> None:
    facts = [submitted() for _ in range(3)]
    links = []
    for name in ("one", "two"):
        async with SQLiteLedger.open(tmp_path / name) as ledger:
            links.append((await ledger.append(facts, now=NOW)).link)
            assert (await ledger.append([], now=NOW)).link == links[-1]
    assert links[0] == links[1]
    async with SQLiteLedger.open(tmp_path / "one") as ledger:
        assert (await ledger.append([], now=NOW)).link == links[0]
        assert (await ledger.append([submitted()], now=NOW)).link != links[0]


async def test_the_wal_is_checkpointed_as_it_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter, "WAL_PAGES_MAX", 20)
    async with SQLiteLedger.open(tmp_path) as ledger:
        for _ in range(100):
            await ledger.append([submitted("x" * 100)], now=NOW)
            await ledger.append([submitted()], now=NOW)
        assert (tmp_path / "ledger.db-wal").stat().st_size < 60 * 4_200
        await verify(ledger)


async def test_nothing_blocks_the_event_loop(tmp_path: Path) -> None:
    """SQLite is only ever called on the ledger's own threads."""
    async with SQLiteLedger.open(tmp_path) as ledger:
        called: set[str] = set()

        def noted(database: apsw.Connection) -> None:
            called.add(threading.current_thread().name)

        await ledger._writer.run(noted)
        await ledger._reader.run(noted)
        assert len(called) == 2
        assert threading.current_thread().name not in called


async def test_a_cancelled_append_still_answers_its_keys_and_later_appends_follow_it(
    tmp_path: Path,
) -> None:
    async with SQLiteLedger.open(tmp_path) as ledger:
        tasks = [asyncio.create_task(ledger.append([submitted(f"{n}")], now=NOW)) for n in range(9)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await ledger.append([], now=NOW)  # Behind the last of them, for which nobody waits.
        uses = [await ledger.first_use(board="b", key=f"{n}") for n in range(9)]
        assert [use.position for use in uses if use] == list(range(1, 10))


async def test_a_closed_ledger_says_a_certain_no(tmp_path: Path) -> None:
    async with SQLiteLedger.open(tmp_path) as ledger:
        pass
    with pytest.raises(LedgerUnavailable) as refusal:
        await ledger.append([submitted()], now=NOW)
    assert refusal.value.applied == "no"


async def test_nothing_is_appended_to_a_file_found_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(*_: object) -> None:
        error = apsw.CorruptError("database disk image is malformed")
        error.extendedresult = apsw.SQLITE_CORRUPT_INDEX  # type: ignore[attr-defined]
        raise error

    async with SQLiteLedger.open(tmp_path) as ledger:
        await ledger.append([submitted("k")], now=NOW)
        with monkeypatch.context() as patched:
            patched.setattr(adapter, "used_before", damaged)
            with pytest.raises(LedgerCorrupt, match="SQLITE_CORRUPT_INDEX"):
                await ledger.append([submitted("l")], now=NOW)
        with pytest.raises(LedgerCorrupt):
            await ledger.append([submitted()], now=NOW)
    async with SQLiteLedger.open(tmp_path) as ledger:
        assert await ledger.head() == 1


# ------------------------------------------------------------------------------ verify


async def edited(folder: Path, statement: str) -> LedgerCorrupt:
    """Make a ledger, change it with SQL behind its back, and return what verify says."""
    async with SQLiteLedger.open(folder) as ledger:
        for number in range(4):
            await ledger.append([submitted(f"k{number}"), submitted()], now=Instant(NOW + number))
        await ledger.keep_receipts(
            [StoredReceipt(Position(1), b"one"), StoredReceipt(Position(3), b"three")]
        )
        await ledger.append([PlayerProfiled("p", "Ada"), PlayerProfiled("q", "Bob")], now=NOW)
        await ledger.append([PlayerErased("q")], now=NOW)
    file = apsw.Connection(str(folder / "ledger.db"))
    file.execute(statement)
    assert file.total_changes() == 1 or "TABLE" in statement or "INDEX" in statement
    file.close()
    async with SQLiteLedger.open(folder) as ledger:
        with pytest.raises(LedgerCorrupt) as corrupt:
            await verify(ledger)
    return corrupt.value


@pytest.mark.parametrize(
    ("statement", "position"),
    [
        ("UPDATE block SET at = at + 1 WHERE last = 4", 3),
        ("UPDATE block SET facts = CAST(replace(facts, 'k1', 'kX') AS BLOB) WHERE last = 4", 3),
        ("UPDATE block SET link = zeroblob(32) WHERE last = 4", 3),
        ("UPDATE block SET first = 4 WHERE last = 4", 3),
        ("UPDATE block SET last = 9 WHERE last = 8", 7),
        ("DELETE FROM block WHERE last = 4", 3),
        ("DELETE FROM block WHERE last = 2", 1),
        ("DELETE FROM recent_key WHERE position = 5", 5),
        ("UPDATE recent_key SET hash = hash + 1 WHERE position = 5", 5),
        ("UPDATE recent_key SET position = 6 WHERE position = 5", 5),
        ("INSERT INTO recent_key VALUES (2, 1)", None),
        ("INSERT INTO recent_key VALUES (99, 1)", 99),
        ("INSERT INTO key VALUES (1, 2)", None),
        ("INSERT INTO key VALUES (1, 99)", 99),
        ("DELETE FROM block WHERE last = 8", 7),
        ("UPDATE receipt SET body = x'00' WHERE position = 3", 3),
        ("UPDATE receipt SET position = 5 WHERE position = 3", 5),
        ("CREATE INDEX theirs ON block (at)", None),
        ("UPDATE players SET name = 'Eve'", 9),
        ("UPDATE players SET name = NULL", 9),
        ("UPDATE players SET attributes = '{ }'", 9),
        ("UPDATE players SET friends = '[\"q\"]'", 9),
        ("UPDATE players SET position = 8", 9),
        ("UPDATE players SET player = 'r'", 9),
        ("DELETE FROM players", 9),
        ("INSERT INTO players VALUES ('q', 'Bob', '{}', '[]', 10)", 10),
    ],
)
async def test_a_change_is_found_and_its_place_is_named(
    tmp_path: Path, statement: str, position: int | None
) -> None:
    found = await edited(tmp_path, statement)
    assert found.position == position


# ------------------------------------------------------------------------------ backup


async def test_a_backup_made_among_appends_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rankd.adapters.sqlite.backup.STEP_PAGES", 2)
    async with SQLiteLedger.open(tmp_path / "ledger") as ledger:
        await ledger.append([submitted(f"{n}") for n in range(2_000)], now=NOW)
        steps = 0
        async for progress in ledger.backup(tmp_path / "copy"):
            steps += 1
            assert progress.done <= progress.total
            await ledger.append([submitted(f"during {steps}")], now=NOW)
        assert steps > 10
        whole = await ledger.read(after=Position(0), limit=10_000)
    async with SQLiteLedger.open(tmp_path / "copy") as copy:
        found = await copy.read(after=Position(0), limit=10_000)
        assert len(found) > 2_000
        assert found == whole[: len(found)]
        assert await copy.first_use(board="b", key="during 1") is not None


async def test_a_restored_backup_goes_on(tmp_path: Path) -> None:
    async with SQLiteLedger.open(tmp_path / "ledger") as ledger:
        link = (await ledger.append([submitted("k")], now=NOW)).link
        async for _ in ledger.backup(tmp_path / "copy"):
            pass
    async for _ in restoration(tmp_path / "copy", tmp_path / "restored"):
        pass
    async with SQLiteLedger.open(tmp_path / "restored") as ledger:
        assert await ledger.link_at(Position(1)) == link
        assert (await ledger.append([submitted("k"), submitted()], now=NOW)).positions == [1, 2]


async def test_neither_backup_nor_restore_overwrites_a_ledger(tmp_path: Path) -> None:
    async with SQLiteLedger.open(tmp_path / "other") as ledger:
        await ledger.append([submitted()], now=NOW)
    async with SQLiteLedger.open(tmp_path / "ledger") as ledger:
        with pytest.raises(InvalidRequest, match="other holds a ledger already"):
            async for _ in ledger.backup(tmp_path / "other"):
                pass
    with pytest.raises(InvalidRequest, match="other holds a ledger already"):
        async for _ in restoration(tmp_path / "ledger", tmp_path / "other"):
            pass


async def test_a_damaged_backup_is_not_restored_in_silence(tmp_path: Path) -> None:
    async with SQLiteLedger.open(tmp_path / "ledger") as ledger:
        await ledger.append([submitted() for _ in range(500)], now=NOW)
        async for _ in ledger.backup(tmp_path / "copy"):
            pass
    file = tmp_path / "copy" / "ledger.db"
    data = bytearray(file.read_bytes())
    data[-3_000] ^= 1
    file.write_bytes(data)
    with pytest.raises(LedgerCorrupt):
        async for _ in restoration(tmp_path / "copy", tmp_path / "restored"):
            pass

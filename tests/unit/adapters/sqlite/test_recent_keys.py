"""Keys on the move between their two tables: found wherever they are, and never lost or doubled."""

import shutil
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from random import Random

import apsw
import pytest

from rankd.adapters.sqlite import SQLiteLedger, backup, recent_keys, verification
from rankd.adapters.sqlite import ledger as adapter
from rankd.adapters.sqlite.database import FILE
from rankd.adapters.sqlite.read_only import ReadOnlyLedger
from rankd.adapters.sqlite.recent_keys import hash_of
from rankd.errors import LedgerCorrupt, LedgerNotCopied, LedgerUnavailable
from rankd.model.facts import Identity, Position, Recorded, ScoreSubmitted
from rankd.model.window import Instant

pytestmark = pytest.mark.anyio
NOW = Instant(1_763_000_000_000_000)
_numbers = count()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def keyed(*keys: str) -> list[ScoreSubmitted]:
    return [ScoreSubmitted("b", "p", scores=(next(_numbers),), key=key) for key in keys]


def entries(folder: Path, table: str) -> set[tuple[int, int]]:
    """Return what a table has, each as a hash and a position."""
    file = apsw.Connection(str(folder / FILE), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return set(file.execute(f"SELECT hash, position FROM {table}"))
    finally:
        file.close()


async def verify(ledger: SQLiteLedger | ReadOnlyLedger) -> None:
    async for _ in ledger.verify():
        pass


async def assert_all_found(ledger: SQLiteLedger | ReadOnlyLedger, keys: Iterable[str]) -> None:
    for position, key in enumerate(keys, 1):
        use = await ledger.first_use(board="b", key=key)
        assert use is not None, key
        assert use.position == position
    assert await ledger.first_use(board="b", key="never") is None


async def filled(folder: Path, total: int = 60, *, size: int = 3) -> list[str]:
    """Make a ledger with so many keys, some of them in each table and some in both."""
    keys = [f"k{number}" for number in range(total)]
    async with SQLiteLedger.open(folder) as ledger:
        for start in range(0, total, size):
            await ledger.append(keyed(*keys[start : start + size]), now=NOW)
    return keys


@pytest.mark.parametrize("seed", range(6))
async def test_keys_are_found_wherever_they_are(tmp_path: Path, seed: int) -> None:
    dice, keys, states = Random(seed), list[str](), set[str]()
    async with ReadOnlyLedger.open(await _begun(tmp_path)) as followed:
        for life in range(5):
            async with SQLiteLedger.open(tmp_path) as ledger:
                for _ in range(12):
                    new = [f"{life}/{len(keys) + n}" for n in range(dice.choice((1, 1, 2, 9)))]
                    again = dice.sample(keys, min(len(keys), 3))
                    appended = await ledger.append(keyed(*again, *new), now=NOW)
                    expected = [keys.index(key) + 1 for key in again]
                    assert list(appended.positions[: len(again)]) == expected
                    assert list(appended.first_uses) == list(range(len(again)))
                    keys += new
                    states |= _states(tmp_path, keys)
                await assert_all_found(ledger, keys)
                await assert_all_found(followed, keys)
                await verify(ledger)
    assert states == {"recent", "moved", "both"}


async def _begun(folder: Path) -> Path:
    async with SQLiteLedger.open(folder):
        return folder


def _states(folder: Path, keys: list[str]) -> set[str]:
    """Return where keys are; each must be somewhere, and nothing else."""
    moved, waiting = entries(folder, "key"), entries(folder, "recent_key")
    expected = {(hash_of("b", key), position) for position, key in enumerate(keys, 1)}
    assert moved | waiting == expected
    names = {"moved": moved - waiting, "recent": waiting - moved, "both": moved & waiting}
    return {name for name, found in names.items() if found}


async def test_whatever_moment_a_crash_leaves_all_keys_are_found(tmp_path: Path) -> None:
    keys: list[str] = []
    async with SQLiteLedger.open(tmp_path / "ledger") as ledger:
        for number in range(40):
            keys += (f"{number}", f"{number}+")
            await ledger.append(keyed(*keys[-2:]), now=NOW)
            shutil.copytree(tmp_path / "ledger", tmp_path / f"{number}")
    for number in range(40):
        async with SQLiteLedger.open(tmp_path / f"{number}") as copy:
            await assert_all_found(copy, keys[: 2 * number + 2])
            await verify(copy)
            appended = await copy.append(keyed(*keys[: 2 * number + 2], "new"), now=NOW)
            assert len(appended.first_uses) == 2 * number + 2


async def test_however_often_it_is_stopped_what_waits_does_not_grow(tmp_path: Path) -> None:
    keys: list[str] = []
    for life in range(30):
        keys += [f"{life}/{number}" for number in range(3)]
        async with SQLiteLedger.open(tmp_path) as ledger:
            await ledger.append(keyed(*keys[-3:]), now=NOW)
        assert len(entries(tmp_path, "recent_key")) <= recent_keys.GENERATION_KEYS + 3
    async with SQLiteLedger.open(tmp_path) as ledger:
        await assert_all_found(ledger, keys)
        await verify(ledger)


async def test_each_append_moves_a_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_keys, "GENERATION_KEYS", 4_000)
    moved, kept, most = set[tuple[int, int]](), set[tuple[int, int]](), 0
    async with SQLiteLedger.open(tmp_path) as ledger:
        await ledger.append(keyed(*(f"k{n}" for n in range(3_999))), now=NOW)
        for number in range(3_000):
            await ledger.append(keyed(f"l{number}"), now=NOW)
            if number % 50 == 0:
                before, moved = moved, entries(tmp_path, "key")
                most = max(most, len(moved - before))
        kept = entries(tmp_path, "recent_key")
    assert len(moved) == 4_000
    assert kept == {entry for entry in kept if entry[1] > 4_000}, "what was moved is deleted"
    # A range has some four keys; the last one moved may have more than was asked for.
    assert most <= 50 * (recent_keys.MOVED_FOR_EACH + 4)


async def test_what_was_not_committed_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        error = apsw.FullError("no space")
        error.extendedresult = apsw.SQLITE_FULL  # type: ignore[attr-defined]
        raise error

    keys: list[str] = []
    async with SQLiteLedger.open(tmp_path) as ledger:
        for number in range(30):
            with monkeypatch.context() as patched:
                patched.setattr(adapter, "_keep", full)
                with pytest.raises(LedgerUnavailable) as refusal:
                    await ledger.append(keyed(f"{number}", "refused"), now=NOW)
                assert refusal.value.applied == "no"
            assert await ledger.first_use(board="b", key="refused") is None
            appended = await ledger.append(keyed(f"{number}"), now=NOW)
            assert not appended.first_uses
            keys.append(f"{number}")
            await assert_all_found(ledger, keys)
        await verify(ledger)


async def test_a_reader_is_not_told_of_what_is_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its writer has it in memory before it is committed, and no other connection sees the fact."""
    async with SQLiteLedger.open(tmp_path) as ledger:
        seen, keep = [], adapter._keep

        def looked(database: apsw.Connection, *rest: object) -> None:
            names = {Identity("b", "k"): hash_of("b", "k")}
            assert ledger._recent.find(database, list(names.values())) == [1]
            reader = apsw.Connection(str(tmp_path / FILE), flags=apsw.SQLITE_OPEN_READONLY)
            seen.append(adapter.used_before(reader, ledger._recent, ledger._tail.head, names))
            reader.close()
            keep(database, *rest)  # type: ignore[arg-type]

        monkeypatch.setattr(adapter, "_keep", looked)
        await ledger.append(keyed("k"), now=NOW)
        assert seen == [{}]


async def test_keys_that_share_a_hash_move_like_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("ledger", "verification", "read_only"):
        monkeypatch.setattr(f"rankd.adapters.sqlite.{module}.hash_of", lambda *_: 7)
    keys: list[str] = []
    async with SQLiteLedger.open(tmp_path) as ledger, ReadOnlyLedger.open(tmp_path) as followed:
        for number in range(40):
            keys.append(f"k{number}")
            await ledger.append(keyed(keys[-1]), now=NOW)
            await assert_all_found(ledger, keys)
        await assert_all_found(followed, keys)
        await verify(ledger)


async def test_a_copy_in_one_transaction_finds_a_key_that_is_there_twice(tmp_path: Path) -> None:
    facts = [
        Recorded(Position(position), Instant(NOW + position), fact)
        for position, fact in enumerate(keyed(*(f"{n}" for n in range(20)), "3"), 1)
    ]
    async with SQLiteLedger.open(tmp_path, copying="another") as ledger:
        with pytest.raises(LedgerNotCopied, match="was used before"):
            await ledger.take_over(facts)
        await ledger.take_over(facts[:-1])
        await assert_all_found(ledger, [f"{n}" for n in range(20)])
        await verify(ledger)


# --------------------------------------------------------------------- beside the writer


async def test_verify_counts_keys_that_move_meanwhile_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verification, "PAGE_ROWS", 3)
    await filled(tmp_path)
    async with SQLiteLedger.open(tmp_path) as ledger:
        steps = 0
        async for _ in ledger.verify():
            steps += 1
            await ledger.append(keyed(*(f"{steps}/{n}" for n in range(4))), now=NOW)
        assert steps > 15


async def test_a_copy_misses_no_key_that_moves_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup, "STEP_ROWS", 3)
    keys = await filled(tmp_path / "ledger")
    async with (
        SQLiteLedger.open(tmp_path / "ledger") as ledger,
        ReadOnlyLedger.open(tmp_path / "ledger") as followed,
    ):
        steps = 0
        async for _ in followed.backup(tmp_path / "copy"):
            steps += 1
            await ledger.append(keyed(*(f"{steps}/{n}" for n in range(4))), now=NOW)
        assert steps > 15
    async with SQLiteLedger.open(tmp_path / "copy") as copy:
        await assert_all_found(copy, keys)


# ---------------------------------------------------------------------------- tampering


def _first(found: set[tuple[int, int]]) -> tuple[int, int]:
    return min(found, key=lambda entry: entry[1])


@pytest.mark.parametrize("where", ["recent", "moved"])
@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM {} WHERE position = {}",
        "UPDATE {} SET hash = hash + 1 WHERE position = {}",
        "UPDATE {} SET position = 61 WHERE position = {}",
    ],
)
async def test_a_key_that_is_changed_is_found(tmp_path: Path, where: str, change: str) -> None:
    await filled(tmp_path)
    moved, waiting = entries(tmp_path, "key"), entries(tmp_path, "recent_key")
    table, only = ("key", moved - waiting) if where == "moved" else ("recent_key", waiting - moved)
    _, position = _first(only)
    found = await _edited(tmp_path, change.format(table, position))
    assert found.position == position


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE recent_key SET hash = hash + 1 WHERE position = {}",
        "UPDATE key SET hash = hash + 1 WHERE position = {}",
    ],
)
async def test_of_two_entries_for_a_key_both_must_be_right(tmp_path: Path, statement: str) -> None:
    for total in range(24, 60, 3):
        folder = tmp_path / f"{total}"
        await filled(folder, total)
        if both := entries(folder, "key") & entries(folder, "recent_key"):
            await _edited(folder, statement.format(_first(both)[1]))
            return
    pytest.fail("none was in both tables")


async def _edited(folder: Path, statement: str) -> LedgerCorrupt:
    file = apsw.Connection(str(folder / FILE))
    file.execute(statement)
    assert file.total_changes() == 1
    file.close()
    async with SQLiteLedger.open(folder) as ledger:
        with pytest.raises(LedgerCorrupt) as corrupt:
            await verify(ledger)
    return corrupt.value


async def test_a_key_used_twice_is_found_in_any_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unseen(*_: object) -> dict[object, object]:
        return {}

    for after, generation in ((0, 1_000), (1, 8), (4, 8), (12, 8), (30, 8)):
        folder = tmp_path / f"{after}"
        monkeypatch.setattr(recent_keys, "GENERATION_KEYS", generation)
        keys = await filled(folder, 30)
        with monkeypatch.context() as patched:
            patched.setattr(adapter, "used_before", unseen)
            async with SQLiteLedger.open(folder) as ledger:
                await ledger.append(keyed(keys[0]), now=NOW)
                for number in range(after):
                    await ledger.append(keyed(f"later {number}"), now=NOW)
        async with SQLiteLedger.open(folder) as ledger:
            with pytest.raises(LedgerCorrupt, match="was used at 1 already") as corrupt:
                await verify(ledger)
            assert corrupt.value.position == 31


async def test_a_key_without_a_hash_is_found_when_the_ledger_is_opened(tmp_path: Path) -> None:
    async with SQLiteLedger.open(tmp_path) as ledger:
        await ledger.append(keyed("a"), now=NOW)
    file = apsw.Connection(str(tmp_path / FILE))
    file.execute("PRAGMA writable_schema = ON")
    lax = "UPDATE sqlite_schema SET sql = replace(sql, 'hash     INTEGER NOT NULL', 'hash INTEGER')"
    file.execute(f"{lax} WHERE name = 'recent_key'")
    file.close()
    file = apsw.Connection(str(tmp_path / FILE))
    file.execute("UPDATE recent_key SET hash = NULL")
    file.close()
    with pytest.raises(LedgerCorrupt, match="no hash"):
        async with SQLiteLedger.open(tmp_path):
            pass

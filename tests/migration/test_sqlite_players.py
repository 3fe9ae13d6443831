"""A ledger from before the table of players gets it filled when it is opened."""

from pathlib import Path

import apsw
import pytest

from rankd.adapters.sqlite import SQLiteLedger, migration
from rankd.adapters.sqlite.blocks import GENESIS, seal
from rankd.adapters.sqlite.migration import APPLICATION_ID
from rankd.adapters.sqlite.queries import MIGRATIONS, QUERIES, SCHEMA_VERSION
from rankd.adapters.sqlite.recent_keys import hash_of
from rankd.errors import LedgerUnavailable
from rankd.model.facts import (
    Fact,
    FriendsSet,
    PlayerErased,
    PlayerProfiled,
    Position,
    ScoreSubmitted,
    WindowOpened,
    WindowSealed,
)
from rankd.model.window import Instant
from rankd.testing.faults import disk_full

pytestmark = pytest.mark.anyio
NOW = Instant(1_763_000_000_000_000)
BLOCKS: list[list[Fact]] = [
    [ScoreSubmitted("b", "p", scores=(1,), key="k", attributes={"region": "eu"})],
    [WindowOpened("b", "daily:1"), PlayerProfiled("q", "Bob"), PlayerProfiled("p", "Ada")],
    [FriendsSet("p", ("q",)), WindowSealed("b", "daily:1"), PlayerErased("q")],
]
KEYS = {1: "k", 2: "\x1fwindow_opened:daily:1", 6: "\x1fwindow_sealed:daily:1"}
"""As they were then: without where the board began."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A folder with a ledger of the first schema."""
    file = apsw.Connection(str(tmp_path / "ledger.db"))
    file.execute(MIGRATIONS[1])
    file.pragma("user_version", 1)
    file.pragma("application_id", APPLICATION_ID)
    first, link = 1, GENESIS
    for facts in BLOCKS:
        block = seal(facts, first=Position(first), at=NOW, previous_link=link)
        file.execute(QUERIES["add_block"], block._asdict())
        first, link = block.last + 1, block.link
    rows = [(hash_of("b", key), position) for position, key in KEYS.items()]
    file.executemany("INSERT INTO key VALUES (?, ?)", rows)
    file.close()
    return tmp_path


def version(folder: Path) -> int:
    file = apsw.Connection(str(folder / "ledger.db"))
    try:
        return int(file.pragma("user_version"))
    finally:
        file.close()


async def assert_is_whole(folder: Path) -> None:
    async with SQLiteLedger.open(folder) as ledger:
        async for _ in ledger.verify():
            pass
        found = await ledger._reader.run(
            lambda database: database.execute("SELECT * FROM players").fetchall()
        )
        assert found == [("p", "Ada", "{}", '["q"]', 5)]
        again = [BLOCKS[0][0], BLOCKS[1][0], BLOCKS[2][1]]
        assert list((await ledger.append(again, now=NOW)).positions) == [1, 2, 6]
    assert version(folder) == SCHEMA_VERSION


async def test_players_are_filled_from_the_facts_and_windows_are_known_by_their_new_keys(
    old: Path,
) -> None:
    await assert_is_whole(old)
    await assert_is_whole(old)


async def test_a_migration_that_the_disk_cut_short_was_not_taken(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def fails_later(*given: object) -> None:
        calls.append(given)
        if len(calls) == 2:
            raise disk_full()

    with monkeypatch.context() as patched:
        patched.setattr(migration, "project", fails_later)
        async with SQLiteLedger.open(old) as ledger:  # To be read, until the disk has room.
            assert isinstance(ledger.failure, LedgerUnavailable)
            assert await ledger.head() == sum(map(len, BLOCKS))
    assert version(old) == 1
    await assert_is_whole(old)

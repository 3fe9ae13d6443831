"""A player's facts, wherever they lie."""

from pathlib import Path

import pytest
from tests.unit.adapters.sqlite.runs_building import assert_complete, fill, small_runs

from rankd.adapters.sqlite import SQLiteLedger, player_entries, player_facts, player_runs
from rankd.adapters.sqlite.database import PLAYERS
from rankd.errors import LedgerUnavailable
from rankd.model.facts import Position

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_players_with_one_hash_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (player_entries, player_facts, player_runs):
        monkeypatch.setattr(module, "find", lambda entries, *_: everything(entries))
    with small_runs():
        async with SQLiteLedger.open(tmp_path) as ledger:
            await fill(ledger, 130)
            found = await ledger.facts_of(board=None, player="p2", before=Position(16), limit=3)
            assert [one.position for one in found] == [13, 8, 3]
            await assert_complete(ledger)


def everything(entries: bytes) -> list[int]:
    """As if all players had one hash."""
    return [int.from_bytes(entries[at + 5 : at + 10], "big") for at in range(0, len(entries), 12)]


async def test_a_gap_between_runs_is_scanned(tmp_path: Path) -> None:
    with small_runs(merged=99):
        async with SQLiteLedger.open(tmp_path) as ledger:
            await fill(ledger, 200)
            for path in sorted((tmp_path / PLAYERS).iterdir())[1::2]:
                path.unlink()
            await assert_complete(ledger)
            for path in (tmp_path / PLAYERS).iterdir():
                path.unlink()
            await assert_complete(ledger)


async def test_a_tail_longer_than_it_may_be_is_scanned(tmp_path: Path) -> None:
    async with SQLiteLedger.open(tmp_path) as ledger:
        await fill(ledger, 200)
        with small_runs(tail=15):
            await assert_complete(ledger)


async def test_what_must_not_be_read_is_not_found(tmp_path: Path) -> None:
    async with SQLiteLedger.open(tmp_path) as ledger:
        await fill(ledger, 20)
        assert await ledger.facts_of(board=None, player="p1", before=None, limit=0) == []
    with pytest.raises(LedgerUnavailable, match="closed"):
        await ledger.facts_of(board=None, player="p1", before=None, limit=1)

"""Reading in order decodes each block once, and gives each fact out once."""

from pathlib import Path

import pytest

from rankd.adapters.sqlite import SQLiteLedger, blocks
from rankd.adapters.sqlite import ledger as adapter
from rankd.adapters.sqlite.blocks import Block, unpack
from rankd.errors import LedgerCorrupt
from rankd.model.facts import BoardDefined, Fact, Position, Recorded
from rankd.model.window import Instant

pytestmark = pytest.mark.anyio
NOW = Instant(1_763_000_000_000_000)
FACTS: list[Fact] = [BoardDefined(f"b{number}", {"number": number}) for number in range(25)]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def unpacked(monkeypatch: pytest.MonkeyPatch) -> list[Position]:
    """Where each block began that was decoded."""
    firsts: list[Position] = []

    def noted(block: Block) -> list[Fact]:
        firsts.append(block.first)
        return unpack(block)

    monkeypatch.setattr(blocks, "unpack", noted)
    monkeypatch.setattr(adapter, "BLOCK_FACTS_MAX", 10)
    return firsts


@pytest.mark.parametrize("limit", [1, 3, 7, 10, 14, 25, 100])
async def test_whoever_reads_on_decodes_no_block_again(
    tmp_path: Path, unpacked: list[Position], limit: int
) -> None:
    async with SQLiteLedger.open(tmp_path) as ledger:
        await ledger.append(FACTS, now=NOW)
        found: list[Recorded] = []
        while page := await ledger.read(after=Position(len(found)), limit=limit):
            found += page
        assert [entry.fact for entry in found] == FACTS
        assert unpacked == [1, 11, 21]


async def test_what_one_reader_was_given_no_other_gets(
    tmp_path: Path, unpacked: list[Position]
) -> None:
    async with SQLiteLedger.open(tmp_path) as ledger:
        await ledger.append(FACTS, now=NOW)
        for after in (0, 3, 3, 0, 12, 15, 15):
            page = await ledger.read(after=Position(after), limit=3)
            assert [entry.fact for entry in page] == FACTS[after : after + 3]
            for entry in page:
                assert isinstance(entry.fact, BoardDefined)
                entry.fact.definition["spoilt"] = True
    assert unpacked == [1, 1, 1, 11, 11]


async def test_facts_appended_behind_a_rest_are_read_after_it(
    tmp_path: Path, unpacked: list[Position]
) -> None:
    async with SQLiteLedger.open(tmp_path) as ledger:
        await ledger.append(FACTS[:5], now=NOW)
        assert len(await ledger.read(after=Position(0), limit=3)) == 3
        await ledger.append(FACTS[5:], now=NOW)
        page = await ledger.read(after=Position(3), limit=100)
        assert [entry.fact for entry in page] == FACTS[3:]
        assert [entry.position for entry in page] == list(range(4, 26))
        assert not await ledger.read(after=Position(25), limit=100)


async def test_a_key_that_names_no_fact_is_corrupt(tmp_path: Path) -> None:
    async with SQLiteLedger.open(tmp_path) as ledger:
        await ledger.append(FACTS, now=NOW)
        with pytest.raises(LedgerCorrupt) as corrupt:
            await ledger._reader.run(lambda database: list(blocks.facts_at(database, (3, 26))))
        assert corrupt.value.position == 26
        found = await ledger._reader.run(lambda db: list(blocks.facts_at(db, (1, 1, 11, 25))))
        assert found == [FACTS[0], FACTS[0], FACTS[10], FACTS[24]]

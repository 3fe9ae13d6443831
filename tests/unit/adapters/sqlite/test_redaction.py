"""Blocks without personal data: in place, told by a later fact, and every other change found."""

import random
from pathlib import Path

import apsw
import pytest

from rankd.adapters.sqlite import SQLiteLedger
from rankd.adapters.sqlite.blocks import Block, bodies_of, seal, unpack
from rankd.adapters.sqlite.database import FILE, connect_writer
from rankd.adapters.sqlite.redaction import redacted, scrub_players
from rankd.errors import LedgerCorrupt
from rankd.model.facts import (
    Fact,
    FactsRedacted,
    NameSet,
    PlayerErased,
    PlayerProfiled,
    Position,
    ScoreSubmitted,
)
from rankd.model.window import Instant
from rankd.testing.contracts.redaction import personal_facts, redact

pytestmark = pytest.mark.anyio
NOW = Instant(1_763_000_000_000_000)


def block_of(*facts: Fact) -> Block:
    return seal(facts, first=Position(1), at=NOW, previous_link=bytes(32))


# ------------------------------------------------------------------------------- blocks


def test_a_redacted_block_has_its_size_and_the_other_facts_byte_for_byte() -> None:
    facts = personal_facts()
    before = block_of(*facts)
    after = redacted(before, "ann", Position(len(facts)))
    assert len(after.facts) == len(before.facts)
    assert unpack(after) == [one.redacted() if one.is_about("ann") else one for one in facts]
    assert bodies_of(after)[1] == bodies_of(before)[1]
    assert b"Secret" not in after.facts
    assert redacted(after, "ann", Position(len(facts))) == after


def test_a_block_too_small_for_padding_is_written_as_it_is() -> None:
    before = block_of(ScoreSubmitted("b", "ann", (1,), attributes={}))
    after = redacted(before, "ann", Position(1))
    assert unpack(after) == [ScoreSubmitted("b", "ann", (1,))]


def test_a_position_that_ends_like_padding_is_read(tmp_path: Path) -> None:
    """The last byte of position 193 is the byte that padded blocks begin with."""
    facts = [ScoreSubmitted("b", "ann", (1,), defined=Position(193))]
    assert unpack(block_of(*facts)) == facts


# ------------------------------------------------------------------------------ changes


async def erased(folder: Path) -> None:
    """Make a ledger of blocks that lie side by side, two of them redacted."""
    async with SQLiteLedger.open(folder) as ledger:
        for number in range(4):
            metadata = b'"Secret %d"' % number
            await ledger.append([ScoreSubmitted("b", "ann", (number,), metadata=metadata)], now=NOW)
        await ledger.append([PlayerErased("ann")], now=NOW)
        await redact(ledger, [Position(2), Position(3)], through=Position(5))


async def verified(folder: Path) -> None:
    async with SQLiteLedger.open(folder) as ledger:
        async for _ in ledger.verify():
            pass


def changed(folder: Path, last: int, **columns: object) -> None:
    """Change columns of a block behind the ledger's back."""
    database = apsw.Connection(str(folder / FILE))
    for name, value in columns.items():
        database.execute(f"UPDATE block SET {name} = ? WHERE last = ?", (value, last))
    database.close()


def column(folder: Path, name: str, last: int) -> bytes:
    database = apsw.Connection(str(folder / FILE))
    try:
        found = database.execute(f"SELECT {name} FROM block WHERE last = ?", (last,)).get
        assert isinstance(found, bytes)
        return found
    finally:
        database.close()


@pytest.mark.parametrize("last", [1, 2, 3, 4, 6])
async def test_a_changed_byte_is_found_in_redacted_blocks_and_others(
    tmp_path: Path, last: int
) -> None:
    await erased(tmp_path)
    await verified(tmp_path)
    whole = column(tmp_path, "facts", last)
    changed(tmp_path, last, facts=whole.replace(b"ann", b"eve"))
    with pytest.raises(LedgerCorrupt) as found:
        await verified(tmp_path)
    assert found.value.position == last


@pytest.mark.parametrize("last", [1, 2, 3, 4])
async def test_a_changed_link_is_found_also_between_redacted_blocks(
    tmp_path: Path, last: int
) -> None:
    await erased(tmp_path)
    changed(tmp_path, last, link=bytes(32))
    with pytest.raises(LedgerCorrupt):
        await verified(tmp_path)


async def test_a_redacted_block_with_a_new_link_of_its_own_is_found(tmp_path: Path) -> None:
    """The block after it is redacted, too, so no plain link is made over the changed one."""
    await erased(tmp_path)
    forged = seal(
        [ScoreSubmitted("b", "ann", (99,))],
        first=Position(2),
        at=NOW,
        previous_link=column(tmp_path, "link", 1),
    )
    changed(tmp_path, 2, facts=forged.facts, link=forged.link)
    with pytest.raises(LedgerCorrupt):
        await verified(tmp_path)


async def test_erased_data_that_is_put_back_is_found(tmp_path: Path) -> None:
    await erased(tmp_path)
    before = block_of(ScoreSubmitted("b", "ann", (1,), metadata=b'"Secret 1"'))
    changed(tmp_path, 2, facts=before.facts)
    with pytest.raises(LedgerCorrupt, match="erased data is back"):
        await verified(tmp_path)


async def test_a_redaction_that_is_itself_changed_is_found(tmp_path: Path) -> None:
    await erased(tmp_path)
    async with SQLiteLedger.open(tmp_path) as ledger:
        told = (await ledger.read(after=Position(5), limit=1))[0].fact
    assert isinstance(told, FactsRedacted)
    digest = told.parts[0].digest
    whole = column(tmp_path, "facts", 6)
    changed(tmp_path, 6, facts=whole.replace(digest, bytes(32)))
    with pytest.raises(LedgerCorrupt):
        await verified(tmp_path)


# ------------------------------------------------------------------------------ players


def test_no_copy_of_a_row_stays_in_unused_parts_of_pages(tmp_path: Path) -> None:
    """Rows move between pages when others grow: a deleted one may leave copies behind."""
    database, drawn = connect_writer(tmp_path), random.Random(3)
    ids = [f"p{drawn.randrange(10**9)}" for _ in range(1500)]
    statement = "INSERT OR REPLACE INTO players VALUES (?, ?, ?, ?, 1)"
    database.execute("BEGIN")
    for number in range(5500):
        player = ids[number] if number < len(ids) else drawn.choice(ids)
        name = f"SECRET-{player}" + "x" * drawn.randrange(80)
        rest = ["a" * drawn.randrange(200), "f" * drawn.randrange(300)]
        database.execute(statement, (player, name, *rest))
    gone = drawn.sample(ids, 200)
    for player in gone:
        database.execute("DELETE FROM players WHERE player = ?", (player,))
    database.execute("COMMIT")
    left = database.execute("SELECT * FROM players").fetchall()
    database.execute("BEGIN")
    scrub_players(database)
    database.execute("COMMIT")
    database.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    whole = (tmp_path / FILE).read_bytes()
    assert [player for player in gone if f"SECRET-{player}".encode() in whole] == []
    assert database.execute("SELECT * FROM players").fetchall() == left
    database.close()


def everything_in(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.glob("ledger.db*"))


async def test_a_name_that_was_replaced_before_is_gone_too(tmp_path: Path) -> None:
    async with SQLiteLedger.open(tmp_path) as ledger:
        first = PlayerProfiled("ann", "First Secret", {})
        await ledger.append([first, NameSet("ann", "Second Secret"), PlayerErased("ann")], now=NOW)
        await redact(ledger, [Position(1), Position(2)], through=Position(3))
        assert b"Secret" not in everything_in(tmp_path)

"""Copies of the state in PostgreSQL: damage is found, and nobody waits for who went away."""

from collections.abc import AsyncIterator, Sequence

import asyncpg  # type: ignore[import-untyped]
import pytest
from tests.simulation.postgres_servers import new_ledger

from rankd.adapters.postgres import PostgresLedger, archive
from rankd.adapters.postgres.archive import PostgresStateSnapshots
from rankd.adapters.postgres.database import PostgresAddress
from rankd.errors import SnapshotDamaged
from rankd.model.facts import Position
from rankd.testing.servers import PostgresServer

pytestmark = [pytest.mark.anyio, pytest.mark.servers]
HERE, BEFORE = Position(7), Position(0)

MOVED_BETWEEN_PARTS = """
    UPDATE rankd.book_parts
       SET body = CASE part WHEN 1 THEN 'ba' ELSE 'bc' END::bytea
     WHERE part IN (1, 2)
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def url(server: PostgresServer) -> str:
    return new_ledger(server.url)


@pytest.fixture
async def copies(url: str) -> AsyncIterator[PostgresStateSnapshots]:
    async with PostgresLedger.open(url, node="one") as ledger:
        yield ledger.copies


async def do(url: str, statement: str) -> str:
    address = PostgresAddress.parse(url)
    connection = await asyncpg.connect(address.url)
    try:
        return str(await connection.execute(address.sql(statement)))
    finally:
        await connection.close()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE rankd.book_parts SET body = 'x' WHERE part = 2",
        "DELETE FROM rankd.book_parts WHERE part = 2",
        "DELETE FROM rankd.book_parts WHERE part = 3",
        "INSERT INTO rankd.book_parts (position, part, body) VALUES (7, 4, 'x')",
        MOVED_BETWEEN_PARTS,
        "UPDATE rankd.books SET parts = 3",
        "UPDATE rankd.books SET digest = 'x'",
    ],
)
async def test_whatever_is_damaged_is_not_loaded(
    url: str, copies: PostgresStateSnapshots, damage: str
) -> None:
    await copies.keep(HERE, [b"a", b"b", b"abc", b"d"], unless_after=BEFORE)
    assert len(await copies.load(HERE)) == 4
    assert not (await do(url, damage)).endswith(" 0")
    with pytest.raises(SnapshotDamaged):
        await copies.load(HERE)


async def test_one_that_was_begun_lately_is_left_to_whoever_began_it(
    url: str, copies: PostgresStateSnapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    await do(url, "INSERT INTO rankd.books (position, node) VALUES (7, 'two')")
    assert not await copies.keep(Position(8), [b"a"], unless_after=BEFORE)
    assert not await copies.keep(HERE, [b"a"], unless_after=BEFORE)
    monkeypatch.setattr(archive, "BEGUN_SECONDS_MAX", 0.0)  # So long ago that it was given up.
    assert not await copies.keep(HERE, [b"a"], unless_after=BEFORE)
    assert await copies.keep(Position(8), [b"a"], unless_after=BEFORE)
    assert await do(url, "DELETE FROM rankd.books") == "DELETE 1", "what was left stays for ever"


async def test_who_is_overtaken_gives_up_and_leaves_nothing(
    url: str, copies: PostgresStateSnapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "BEGUN_SECONDS_MAX", 0.0)

    write = copies._write

    async def write_slowly(query: str, *given: object) -> Sequence[object]:
        told = await write(query, *given)
        if given[:2] == (HERE, 0):  # Its first part is written.
            copies._write = write
            assert await copies.keep(Position(9), [b"new"], unless_after=BEFORE)
        return told

    copies._write = write_slowly
    assert not await copies.keep(HERE, [b"a", b"b"], unless_after=BEFORE)
    assert list(await copies.kept()) == [9]
    assert await do(url, "DELETE FROM rankd.book_parts WHERE position = 7") == "DELETE 0"

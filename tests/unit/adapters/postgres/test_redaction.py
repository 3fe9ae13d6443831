"""Rows without personal data, and every other change of them found."""

from collections.abc import AsyncIterator
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest
from tests.simulation.postgres_servers import new_ledger

from rankd.adapters.postgres import PostgresLedger
from rankd.errors import LedgerCorrupt
from rankd.model.facts import PlayerErased, Position
from rankd.model.standing import Rank
from rankd.model.window import Instant
from rankd.ports import SealedRow
from rankd.testing.contracts.redaction import personal_facts, redact
from rankd.testing.servers import PostgresServer

pytestmark = [pytest.mark.anyio, pytest.mark.servers]
NOW = Instant(1_763_000_000_000_000)
TABLES = ("facts", "appends", "keys", "receipts", "players", "sealed_standings", "top_lists")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def ledger(server: PostgresServer) -> AsyncIterator[PostgresLedger]:
    """Facts of Ann, an archived window with her metadata, and her erasure."""
    async with PostgresLedger.open(new_ledger(server.url)) as ledger:
        for fact in personal_facts():
            await ledger.append([fact], now=NOW)
        row = SealedRow(Rank(1), Rank(1), "ann", b"\x01" * 16, (7,), b'{"note":"Secret"}')
        await ledger.keep_standings("b", "daily:1", [row], since=Position(7))
        await ledger.append([PlayerErased("ann")], now=NOW)
        yield ledger


async def asked(ledger: PostgresLedger, statement: str) -> list[Any]:
    connection = await asyncpg.connect(ledger._address.url)
    try:
        return list(await connection.fetch(ledger._address.sql(statement)))
    finally:
        await connection.close()


async def verify(ledger: PostgresLedger) -> None:
    async for _ in ledger.verify():
        pass


async def tables_with_secrets(ledger: PostgresLedger) -> list[str]:
    """Return the tables in whose rows a secret can be read."""
    found = []
    for table in TABLES:
        rows = await asked(ledger, f"SELECT row::text FROM rankd.{table} AS row")
        bodies = b"".join(
            value
            for row in await asked(ledger, f"SELECT * FROM rankd.{table}")
            for value in row.values()
            if isinstance(value, bytes)
        )
        if any("Secret" in row[0] for row in rows) or b"Secret" in bodies:
            found.append(table)
    return found


async def test_no_row_has_personal_data_after_a_redaction(ledger: PostgresLedger) -> None:
    assert await tables_with_secrets(ledger) == ["facts", "sealed_standings"]
    await redact(ledger, [Position(at) for at in range(1, 8)], through=Position(8))
    assert await tables_with_secrets(ledger) == []
    await verify(ledger)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE rankd.facts SET actor = 'eve' WHERE position = 3",
        "UPDATE rankd.facts SET scores = '{8}' WHERE position = 3",
        "UPDATE rankd.facts SET body = body || '\\x00' WHERE position = 3",
        "UPDATE rankd.appends SET link = sha256(link) WHERE last = 3",
        "UPDATE rankd.appends SET link = sha256(link) WHERE last = 4",
        """UPDATE rankd.facts SET body = (SELECT body FROM rankd.facts WHERE position = 7),
           scores = NULL, key = NULL, actor = NULL, delta = 3, details = NULL WHERE position = 3""",
        "UPDATE rankd.keys SET fingerprint = sha256(fingerprint) WHERE key = 'k'",
    ],
)
async def test_a_change_of_a_redacted_row_is_found(ledger: PostgresLedger, statement: str) -> None:
    await redact(ledger, [Position(at) for at in range(1, 8)], through=Position(8))
    await asked(ledger, statement)
    with pytest.raises(LedgerCorrupt):
        await verify(ledger)


async def test_erased_data_that_is_put_back_is_found(ledger: PostgresLedger) -> None:
    before = await asked(ledger, "SELECT body, details::text FROM rankd.facts WHERE position = 6")
    await redact(ledger, [Position(6)], through=Position(8))
    body, details = before[0]
    await asked(
        ledger,
        f"UPDATE rankd.facts SET body = '\\x{body.hex()}', details = '{details}'"
        " WHERE position = 6",
    )
    with pytest.raises(LedgerCorrupt, match="erased data is back"):
        await verify(ledger)

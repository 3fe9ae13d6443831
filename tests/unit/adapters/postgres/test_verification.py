"""Whatever is changed in the tables is found, and what was written is not complained of."""

from collections.abc import AsyncIterator

import asyncpg  # type: ignore[import-untyped]
import pytest
from msgspec.structs import replace
from tests.simulation.postgres_servers import new_ledger

from rankd.adapters.postgres import PostgresLedger, verification
from rankd.errors import LedgerCorrupt, RankdError
from rankd.model.facts import (
    BoardDefined,
    Fact,
    FriendsSet,
    PlayerErased,
    PlayerProfiled,
    Position,
    ScoreSubmitted,
    WindowOpened,
    encode,
)
from rankd.model.window import Instant
from rankd.ports import StoredReceipt
from rankd.testing.servers import PostgresServer

pytestmark = [pytest.mark.anyio, pytest.mark.servers]
NOW = Instant(1_763_000_000_000_000)
MONTH = 31 * 24 * 3_600_000_000
APPENDS: list[list[Fact]] = [
    [BoardDefined("b", {"name": "b"}), WindowOpened("b", "daily:1"), PlayerProfiled("ann", "Ann")],
    [ScoreSubmitted("b", "ann", scores=(1,), key="k1", attributes={"region": "eu", "level": 3})],
    [ScoreSubmitted("b", "bob", scores=(2,), key="k2"), ScoreSubmitted("b", "cyd", delta=5)],
    [FriendsSet("ann", ("bob",)), PlayerProfiled("dee"), PlayerErased("dee")],
    [ScoreSubmitted("b", "bob", scores=(4,), key="k3", metadata=b'{"seed":1}', actor="server")],
]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def ledger(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[PostgresLedger]:
    """Ten facts in five appends and two months, with receipts for two of three keys."""
    monkeypatch.setattr(verification, "PAGE_ROWS", 3)
    monkeypatch.setattr(verification, "PLAYERS_TOGETHER_MAX", 1)
    async with PostgresLedger.open(new_ledger(server.url)) as ledger:
        for number, facts in enumerate(APPENDS):
            await ledger.append(facts, now=Instant(NOW + number * MONTH // 3))
        await ledger.keep_receipts(
            [StoredReceipt(Position(4), b"four"), StoredReceipt(Position(5), b"five")]
        )
        yield ledger


async def edit(ledger: PostgresLedger, statement: str) -> None:
    address = ledger._address
    connection = await asyncpg.connect(address.url)
    try:
        await connection.execute(address.sql(statement))
    finally:
        await connection.close()


async def verified(ledger: PostgresLedger) -> None:
    async for progress in ledger.verify():
        assert 0 <= progress.done <= progress.total


async def test_what_was_written_is_as_it_was_written(ledger: PostgresLedger) -> None:
    await verified(ledger)
    again = [fact for facts in APPENDS for fact in facts]
    await ledger.append(again, now=NOW)
    await verified(ledger)
    steps = [progress.stage async for progress in ledger.verify()]
    assert list(dict.fromkeys(steps)) == ["facts", "keys", "receipts", "players"]


async def test_a_fingerprint_that_holds_the_clients_time_is_from_before(
    ledger: PostgresLedger,
) -> None:
    fact = ScoreSubmitted("b", "bob", scores=(4,), key="k4", at=Instant(5))
    await ledger.append([fact], now=Instant(NOW + 2 * MONTH))
    await verified(ledger)
    put = "UPDATE rankd.keys SET fingerprint = '\\x{}' WHERE key = 'k4'"
    await edit(ledger, put.format(fact.fingerprints()[1].hex()))
    await verified(ledger)
    await edit(ledger, put.format(replace(fact, at=Instant(6)).fingerprints()[1].hex()))
    with pytest.raises(LedgerCorrupt):
        await verified(ledger)


_, OTHER = encode(ScoreSubmitted("b", "bob", scores=(3,), key="k2"))
EDITS = {
    "a fact's bytes": f"UPDATE rankd.facts SET body = '\\x{OTHER.hex()}' WHERE position = 5",
    "a fact's bytes and columns": (
        f"UPDATE rankd.facts SET body = '\\x{OTHER.hex()}', scores = '{{3}}' WHERE position = 5"
    ),
    "bytes that are none": "UPDATE rankd.facts SET body = '\\xc1' WHERE position = 5",
    "a kind": "UPDATE rankd.facts SET kind = 'score_submitted.9' WHERE position = 5",
    "another kind": "UPDATE rankd.facts SET kind = 'player_erased.1' WHERE position = 5",
    "a time": "UPDATE rankd.facts SET at = at + interval '1 microsecond' WHERE position = 5",
    "a board": "UPDATE rankd.facts SET board = 'c' WHERE position = 5",
    "a player": "UPDATE rankd.facts SET player = 'ann' WHERE position = 5",
    "a key in a fact": "UPDATE rankd.facts SET key = NULL WHERE position = 5",
    "scores": "UPDATE rankd.facts SET scores = '{9}' WHERE position = 5",
    "more scores": "UPDATE rankd.facts SET scores = '{2,2}' WHERE position = 5",
    "a delta": "UPDATE rankd.facts SET delta = 6 WHERE position = 6",
    "a window": "UPDATE rankd.facts SET window_id = 'daily:2' WHERE position = 2",
    "an actor": "UPDATE rankd.facts SET actor = 'me' WHERE position = 10",
    "details": 'UPDATE rankd.facts SET details = \'{"metadata":{"seed":2}}\' WHERE position = 10',
    "details' layout": 'UPDATE rankd.facts SET details = \'{ "metadata":{"seed":1}}\''
    " WHERE position = 10",
    "a fact gone": "DELETE FROM rankd.facts WHERE position = 5",
    "the first fact gone": "DELETE FROM rankd.facts WHERE position = 1",
    "the last fact gone": "DELETE FROM rankd.facts WHERE position = 10",
    "a fact too many": "INSERT INTO rankd.facts SELECT 7, at + interval '1 second', kind, board,"
    " player, key, scores, delta, window_id, actor, details, body FROM rankd.facts"
    " WHERE position = 6",
    "two facts exchanged": "UPDATE rankd.facts SET position = position + 100 WHERE position = 5;"
    " UPDATE rankd.facts SET position = 5 WHERE position = 6;"
    " UPDATE rankd.facts SET position = 6 WHERE position = 105",
    "a link": "UPDATE rankd.appends SET link = sha256(link) WHERE last = 6",
    "the last link": "UPDATE rankd.appends SET link = sha256(link) WHERE last = 10",
    "the time of an append": "UPDATE rankd.appends SET at = at + interval '1 microsecond'"
    " WHERE last = 6",
    "the time of an append and its facts": "UPDATE rankd.appends"
    " SET at = at + interval '1 microsecond' WHERE last = 6; UPDATE rankd.facts"
    " SET at = at + interval '1 microsecond' WHERE position IN (5, 6)",
    "an append gone": "DELETE FROM rankd.appends WHERE last = 6",
    "an append and its facts gone": "DELETE FROM rankd.appends WHERE last = 6;"
    " DELETE FROM rankd.facts WHERE position IN (5, 6)",
    "an append in two": "UPDATE rankd.appends SET first = 6 WHERE last = 6;"
    " INSERT INTO rankd.appends SELECT 5, 5, at, link, gen_random_uuid(), node, 0"
    " FROM rankd.appends WHERE last = 6",
    "what is lacking": "UPDATE rankd.appends SET lacking = 1 WHERE last = 6",
    "a key gone": "DELETE FROM rankd.keys WHERE key = 'k2'",
    "a key too many": "INSERT INTO rankd.keys VALUES ('b', 'k9', 6, '')",
    "a key elsewhere": "UPDATE rankd.keys SET position = 6 WHERE key = 'k2'",
    "a window's key": "UPDATE rankd.keys SET key = key || 'x' WHERE position = 2",
    "another fingerprint": "UPDATE rankd.keys SET fingerprint = sha256(fingerprint)"
    " WHERE key = 'k2'",
    "a receipt": "UPDATE rankd.receipts SET body = 'x' WHERE position = 4",
    "a receipt elsewhere": "UPDATE rankd.receipts SET position = 10 WHERE position = 5",
    "a receipt gone": "DELETE FROM rankd.receipts WHERE position = 5",
    "a receipt of nothing": "INSERT INTO rankd.receipts SELECT 99, body, checksum"
    " FROM rankd.receipts WHERE position = 4",
    "a name": "UPDATE rankd.players SET name = 'Bob'",
    "an attribute": "UPDATE rankd.players SET attributes = attributes || '{\"level\": true}'",
    "a friend": "UPDATE rankd.players SET friends = '[]'",
    "when a player changed": "UPDATE rankd.players SET position = 1",
    "a player gone": "DELETE FROM rankd.players",
    "a player too many": "INSERT INTO rankd.players VALUES ('dee', NULL, '{}', '[]', 8)",
}


@pytest.mark.parametrize("name", EDITS)
async def test_an_edit_is_found(ledger: PostgresLedger, name: str) -> None:
    await edit(ledger, EDITS[name])
    with pytest.raises(LedgerCorrupt):
        await verified(ledger)


async def test_what_is_written_meanwhile_is_not_complained_of(ledger: PostgresLedger) -> None:
    """Facts, receipts and players come between one step and the next."""
    number = 0
    try:
        async for _ in ledger.verify():
            number += 1
            told: Fact = ScoreSubmitted("b", f"p{number}", scores=(1,), attributes={"n": number})
            keyed = ScoreSubmitted("b", "ann", scores=(1,), key=f"m{number}")
            appended = await ledger.append([told, keyed, PlayerErased("ann")], now=NOW)
            await ledger.keep_receipts([StoredReceipt(appended.positions[1], b"r")])
    except RankdError as exc:
        raise AssertionError(f"after {number} appends: {exc}") from exc
    assert number > 5

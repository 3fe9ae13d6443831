"""A schema in PostgreSQL is made once, whoever comes, and from whatever it was."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest
from tests.simulation.postgres_servers import new_ledger

from rankd.adapters.postgres import PostgresLedger
from rankd.adapters.postgres.batch import append_id, as_time, prepared
from rankd.adapters.postgres.database import MIGRATIONS, QUERIES, SCHEMA_VERSION, PostgresAddress
from rankd.errors import LedgerCorrupt, LedgerTooNew
from rankd.model.facts import (
    AttributesSet,
    Fact,
    FriendsSet,
    NameSet,
    PlayerErased,
    PlayerProfiled,
    Position,
    ScoreSubmitted,
)
from rankd.model.window import Instant
from rankd.testing.servers import PostgresServer

pytestmark = pytest.mark.anyio
NOW = Instant(1_763_000_000_000_000)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def url(shared_postgres: PostgresServer) -> str:
    return new_ledger(shared_postgres.url)


async def ask(url: str, query: str) -> list[Any]:
    connection = await asyncpg.connect(PostgresAddress.parse(url).url)
    try:
        return list(await connection.fetch(PostgresAddress.parse(url).sql(query)))
    finally:
        await connection.close()


async def do(url: str, script: str) -> None:
    connection = await asyncpg.connect(PostgresAddress.parse(url).url)
    try:
        await connection.execute(PostgresAddress.parse(url).sql(script))
    finally:
        await connection.close()


async def assert_it_works(url: str) -> None:
    async with PostgresLedger.open(url) as ledger:
        head = await ledger.head()
        facts = [ScoreSubmitted("b", "p", scores=(1,), attributes={"region": "eu"})]
        assert list((await ledger.append(facts, now=NOW)).positions) == [head + 1]
        assert await ledger.read(after=head, limit=9)
        async for _ in ledger.verify():
            pass
    versions = await ask(url, "SELECT version FROM rankd.schema_version ORDER BY version")
    assert [row[0] for row in versions] == list(range(1, SCHEMA_VERSION + 1))


async def test_of_several_who_begin_at_once_each_finds_a_ledger(url: str) -> None:
    async with AsyncExitStack() as stack:
        ledgers = await asyncio.gather(
            *(stack.enter_async_context(PostgresLedger.open(url, node=f"{n}")) for n in range(3))
        )
        for number, ledger in enumerate(ledgers):
            appended = await ledger.append([ScoreSubmitted("b", "p", scores=(1,))], now=NOW)
            assert list(appended.positions) == [number + 1]
    await assert_it_works(url)


@pytest.mark.parametrize("version", range(1, SCHEMA_VERSION + 1))
async def test_every_version_becomes_this_one(url: str, version: int) -> None:
    schema = PostgresAddress.parse(url).schema
    steps = [f"CREATE SCHEMA {schema}"]
    for number in range(1, version + 1):
        steps += [MIGRATIONS[number], f"INSERT INTO rankd.schema_version VALUES ({number})"]
    await do(url, ";\n".join(steps))
    await assert_it_works(url)
    await assert_it_works(url)


OLD_APPEND = (
    QUERIES["append"]
    .replace("rankd.append_facts(", "rankd.append(")
    .replace("$22::bigint = 0", "true OR $22::bigint = 0")
)


async def append_as_schema_11(url: str, facts: list[Fact]) -> None:
    """Append as nodes of schema 11 do: they send which facts tell of players."""
    address = PostgresAddress.parse(url)
    batch = prepared(facts)
    telling = [fact.profile_change() is not None for fact in facts]
    connection = await asyncpg.connect(address.url)
    try:
        head = await connection.fetchval(address.sql("SELECT max(last) FROM rankd.appends")) or 0
        columns = (*batch.columns[:-1], telling if True in telling else None)
        sent = (append_id(), "old", "4s", as_time(NOW), head, *columns, None, None, None, 0, b"")
        assert await connection.fetchval(address.sql(OLD_APPEND), *sent) is not None
    finally:
        await connection.close()


ABOUT_PLAYERS: list[Fact] = [
    ScoreSubmitted("b", "p", scores=(1,), attributes={"region": "eu", "level": 1}),
    ScoreSubmitted("b", "q", scores=(1,)),
    PlayerProfiled("q", "Ann", {"vip": True}),
    NameSet("p", "Eve"),
    FriendsSet("p", ("q",)),
    ScoreSubmitted("b", "p", scores=(2,), key="k", attributes={"level": 2}),
    AttributesSet("q", attributes={"vip": False}),
    AttributesSet("r"),
    PlayerProfiled("s"),
    PlayerProfiled("t", "Tom"),
    FriendsSet("t", ()),
    NameSet("t"),
    PlayerErased("s"),
    NameSet("s", "S"),
]


async def test_nodes_of_schema_11_go_on_beside_newer_ones(url: str) -> None:
    steps = [f"CREATE SCHEMA {PostgresAddress.parse(url).schema}"]
    for number in range(1, 12):
        steps += [MIGRATIONS[number], f"INSERT INTO rankd.schema_version VALUES ({number})"]
    await do(url, ";\n".join([*steps, "SELECT rankd.cover('2025-11-13')"]))
    await append_as_schema_11(url, ABOUT_PLAYERS[:6])
    async with PostgresLedger.open(url) as ledger:
        for facts in (ABOUT_PLAYERS, ABOUT_PLAYERS[::-1], [ABOUT_PLAYERS[1]]):
            await append_as_schema_11(url, [fact for fact in facts if fact.identity() is None])
            async for _ in ledger.verify():
                pass
            await ledger.append(facts, now=NOW)
        for fact in ABOUT_PLAYERS:
            await append_as_schema_11(url, [fact])
            async for _ in ledger.verify():
                pass
    rows = await ask(url, "SELECT player, name, friends FROM rankd.players ORDER BY player")
    assert [tuple(row) for row in rows] == [
        ("p", "Eve", '["q"]'),
        ("q", "Ann", "[]"),
        ("r", None, "[]"),
        ("s", "S", "[]"),
        ("t", None, "[]"),
    ]


async def test_an_index_that_was_built_beforehand_is_taken_over(url: str) -> None:
    schema = PostgresAddress.parse(url).schema
    steps = [f"CREATE SCHEMA {schema}"]
    for number in range(1, 11):
        steps += [MIGRATIONS[number], f"INSERT INTO rankd.schema_version VALUES ({number})"]
    steps += ["SELECT rankd.cover('2026-11-14')"]
    await do(url, ";\n".join(steps))
    await do(
        url, "CREATE INDEX CONCURRENTLY mine ON rankd.facts_2026_11 (hashtext(player), position)"
    )
    await assert_it_works(url)
    rows = await ask(
        url,
        "SELECT index.relname, parent.relname FROM pg_inherits"
        " JOIN pg_class AS index ON index.oid = inhrelid"
        " JOIN pg_class AS parent ON parent.oid = inhparent"
        " WHERE parent.oid = 'rankd.facts_of_players'::regclass ORDER BY 1",
    )
    names = [row[0] for row in rows]
    assert "mine" in names
    assert len([name for name in names if name.startswith("facts_2026_11")]) == 0
    partitions = await ask(
        url, "SELECT inhrelid FROM pg_inherits WHERE inhparent = 'rankd.facts'::regclass"
    )
    assert len(names) == len(partitions)


async def test_a_schema_from_the_future_is_left_alone(url: str) -> None:
    await assert_it_works(url)
    await do(url, f"INSERT INTO rankd.schema_version VALUES ({SCHEMA_VERSION + 1})")
    with pytest.raises(LedgerTooNew, match=f"has schema {SCHEMA_VERSION + 1}"):
        async with PostgresLedger.open(url):
            pass
    await do(url, f"DELETE FROM rankd.schema_version WHERE version > {SCHEMA_VERSION}")
    await assert_it_works(url)


async def test_a_schema_of_another_program_is_left_alone(url: str) -> None:
    schema = PostgresAddress.parse(url).schema
    await do(url, f"CREATE SCHEMA {schema}; CREATE TABLE rankd.facts (theirs integer)")
    with pytest.raises(LedgerCorrupt, match="another program"):
        async with PostgresLedger.open(url):
            pass
    tables = await ask(url, f"SELECT tablename FROM pg_tables WHERE schemaname = '{schema}'")
    assert [row[0] for row in tables] == ["facts"]


async def test_a_migration_that_is_cut_short_was_not_begun(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setitem(MIGRATIONS, SCHEMA_VERSION, "SELECT 1 / 0")
        with pytest.raises(LedgerCorrupt, match="division by zero"):
            async with PostgresLedger.open(url):
                pass
    assert await ask(url, f"SELECT to_regnamespace('{PostgresAddress.parse(url).schema}')") == [
        (None,)
    ]
    await assert_it_works(url)


async def test_everything_is_explained_to_whoever_looks_with_sql(url: str) -> None:
    async with PostgresLedger.open(url):
        pass
    rows = await ask(
        url,
        "SELECT relname, obj_description(oid) FROM pg_class"
        " WHERE relnamespace = 'rankd'::regnamespace AND relkind IN ('r', 'p', 'v')"
        " AND NOT relispartition",
    )
    assert {"facts", "appends", "keys", "players", "submissions", "boards", "windows"} <= {
        name for name, _ in rows
    }
    assert [name for name, said in rows if not said] == []


async def test_an_empty_ledger_has_its_schema_and_no_facts(url: str) -> None:
    async with PostgresLedger.open(url) as ledger:
        assert await ledger.head() == Position(0)
    (row,) = await ask(url, QUERIES["schema_exists"])
    assert tuple(row) == (True, True, True)


async def test_windows_that_were_archived_before_tell_where_they_were_closed(url: str) -> None:
    steps = [f"CREATE SCHEMA {PostgresAddress.parse(url).schema}"]
    for number in range(1, 9):
        steps += [MIGRATIONS[number], f"INSERT INTO rankd.schema_version VALUES ({number})"]
    steps.append("INSERT INTO rankd.sealed_windows VALUES ('b', 'daily:1', 7, 2)")
    await do(url, ";\n".join(steps))
    await assert_it_works(url)
    rows = await ask(url, "SELECT since, total, sealed_position FROM rankd.sealed_windows")
    assert [tuple(row) for row in rows] == [(7, 2, 7)]

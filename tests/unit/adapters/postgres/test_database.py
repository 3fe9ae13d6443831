"""A URL is understood or refused, and a server that cannot keep the promises is found out."""

from collections.abc import Iterator
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest
from tests.simulation.postgres_servers import new_ledger, postgres

from rankd.adapters.postgres import PostgresLedger
from rankd.adapters.postgres.database import VERSION_MIN, Address, _problems
from rankd.errors import InvalidSetting, LedgerUnavailable
from rankd.model.facts import ScoreSubmitted
from rankd.model.window import Instant
from rankd.testing.servers import PostgresServer, postgres_server

NOW = Instant(1_763_000_000_000_000)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres() as server:
        yield server


# ---------------------------------------------------------------------------------- URL


def test_the_schema_is_ours_and_everything_else_the_drivers() -> None:
    address = Address.parse("postgresql://u:p%40@h:5/d?sslmode=require&schema=games_1&x=y")
    assert address.url == "postgresql://u:p%40@h:5/d?sslmode=require&x=y"
    assert address.schema == "games_1"
    assert Address.parse("postgres:///d").schema == "rankd"


def test_a_password_is_not_shown() -> None:
    assert "secret" not in repr(Address.parse("postgresql://u:secret@h/d"))


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ledger.db",
        "mysql://h/d",
        "postgresql://h/d?schema=",
        "postgresql://h/d?schema=Rankd",
        'postgresql://h/d?schema=a"b',
        "postgresql://h/d?schema=a;drop",
        "postgresql://h/d?schema=1a",
        "postgresql://h/d?schema=pg_rankd",
        "postgresql://h/d?schema=a&schema=b",
        "postgresql://h/d?schema=" + "a" * 49,
        "postgresql://[h/d",
    ],
)
def test_a_url_that_cannot_be_used_is_refused(url: str) -> None:
    with pytest.raises(InvalidSetting):
        Address.parse(url)


@pytest.mark.anyio
@pytest.mark.parametrize("more", ["?sslmode=perhaps", "?schema=fine&sslmode=perhaps"])
async def test_so_is_one_that_the_driver_refuses(more: str) -> None:
    with pytest.raises(InvalidSetting, match="sslmode"):
        async with PostgresLedger.open(f"postgresql://127.0.0.1/d{more}"):
            pass


def test_another_schema_takes_the_place_of_ours() -> None:
    sql = "SELECT rankd.read(1), 'rankd', 'rankd.facts', notrankd.x FROM rankd.facts -- rankd. No"
    assert Address("", "other").sql(sql) == (
        "SELECT \"other\".read(1), 'other', '\"other\".facts', notrankd.x"
        ' FROM "other".facts -- rankd. No'
    )
    assert Address("").sql(sql) == sql


# --------------------------------------------------------------------------- the server

SOUND: dict[str, Any] = {
    "version": VERSION_MIN * 10_000,
    "name": "14.0",
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "isolation": "read committed",
    "read_only": "off",
    "encoding": "UTF8",
    "standby": False,
}


def test_a_sound_server_has_no_problem() -> None:
    assert _problems(SOUND) == []


@pytest.mark.parametrize(
    ("setting", "value", "told"),
    [
        ("version", 130_014, "too old"),
        ("fsync", "off", "fsync"),
        ("full_page_writes", "off", "full_page_writes"),
        ("isolation", "serializable", "SERIALIZABLE"),
        ("read_only", "on", "read-only"),
        ("encoding", "LATIN1", "LATIN1"),
        ("standby", True, "standby"),
    ],
)
def test_each_problem_is_named(setting: str, value: object, told: str) -> None:
    (problem,) = _problems(SOUND | {setting: value})
    assert told in problem


@pytest.mark.anyio
async def test_a_server_that_does_not_sync_is_refused() -> None:
    with postgres_server(durable=False) as careless:
        with pytest.raises(LedgerUnavailable, match="fsync") as caught:
            async with PostgresLedger.open(careless.url):
                pass
        assert caught.value.applied == "no"


@pytest.mark.anyio
async def test_nobody_there_is_told_as_that(server: PostgresServer) -> None:
    with pytest.raises(LedgerUnavailable, match="cannot be reached") as caught:
        async with PostgresLedger.open("postgresql://rankd@127.0.0.1:1/postgres"):
            pass
    assert caught.value.applied == "no"
    with pytest.raises(LedgerUnavailable, match="3D000"):
        async with PostgresLedger.open(server.url.replace("/postgres", "/nowhere")):
            pass


async def execute(server: PostgresServer, script: str) -> None:
    connection = await asyncpg.connect(server.url)
    try:
        await connection.execute(script)
    finally:
        await connection.close()


@pytest.mark.anyio
async def test_a_role_that_does_not_wait_for_the_disk_waits_for_ours(
    server: PostgresServer,
) -> None:
    """What is in force when the append commits is what counts: a deferred trigger sees that."""
    await execute(
        server, "CREATE ROLE hasty LOGIN SUPERUSER; ALTER ROLE hasty SET synchronous_commit = off"
    )
    url = new_ledger(server.url.replace("rankd@", "hasty@"))
    schema = Address.parse(url).schema
    async with PostgresLedger.open(url) as ledger:
        assert ledger.durability.synchronous_commit == "on"
        assert (ledger.durability.fsync, ledger.durability.full_page_writes) == ("on", "on")
        await execute(
            server,
            f"""
            CREATE TABLE {schema}.seen (level text);
            CREATE FUNCTION {schema}.see() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                INSERT INTO {schema}.seen VALUES (current_setting('synchronous_commit'));
                RETURN NULL;
            END $$;
            CREATE CONSTRAINT TRIGGER see AFTER INSERT ON {schema}.appends
               DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {schema}.see();
            """,
        )
        await ledger.append([ScoreSubmitted("b", "p", scores=(1,))], now=NOW)
        assert [row[0] for row in await ledger._rows(f"SELECT level FROM {schema}.seen")] == ["on"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("default_transaction_isolation = 'repeatable read'", "REPEATABLE READ"),
        ("default_transaction_read_only = on", "read-only"),
    ],
)
async def test_a_role_whose_transactions_are_others_is_refused(
    server: PostgresServer, setting: str, told: str
) -> None:
    name = setting.partition(" ")[0]
    await execute(server, f"CREATE ROLE {name} LOGIN SUPERUSER; ALTER ROLE {name} SET {setting}")
    with pytest.raises(LedgerUnavailable, match=told):
        async with PostgresLedger.open(new_ledger(server.url.replace("rankd@", f"{name}@"))):
            pass

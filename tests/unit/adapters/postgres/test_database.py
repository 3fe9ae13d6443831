"""A URL is understood or refused, and a server that cannot keep the promises is found out."""

import asyncio
from contextlib import ExitStack
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest
from tests.simulation.postgres_servers import new_ledger, postgres
from tests.simulation.power_loss import scratch_folder

from rankd.adapters.postgres import PostgresLedger, database
from rankd.adapters.postgres.database import VERSION_MIN, PostgresAddress, connect, problems
from rankd.errors import InvalidSetting, LedgerUnavailable
from rankd.model.facts import ScoreSubmitted
from rankd.model.window import Instant
from rankd.testing.proxy import Proxy
from rankd.testing.servers import HOST, PostgresServer, postgres_server

pytestmark = pytest.mark.servers

NOW = Instant(1_763_000_000_000_000)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


# ---------------------------------------------------------------------------------- URL


def test_the_schema_is_ours_and_everything_else_the_drivers() -> None:
    address = PostgresAddress.parse("postgresql://u:p%40@h:5/d?sslmode=require&schema=games_1&x=y")
    assert address.url == "postgresql://u:p%40@h:5/d?sslmode=require&x=y"
    assert address.schema == "games_1"
    assert PostgresAddress.parse("postgres:///d").schema == "rankd"


def test_a_password_is_not_shown() -> None:
    assert "secret" not in repr(PostgresAddress.parse("postgresql://u:secret@h/d"))


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
        PostgresAddress.parse(url)


@pytest.mark.anyio
@pytest.mark.parametrize("more", ["?sslmode=perhaps", "?schema=fine&sslmode=perhaps"])
async def test_so_is_one_that_the_driver_refuses(more: str) -> None:
    with pytest.raises(InvalidSetting, match="sslmode"):
        async with PostgresLedger.open(f"postgresql://127.0.0.1/d{more}"):
            pass


def test_another_schema_takes_the_place_of_ours() -> None:
    sql = "SELECT rankd.read(1), 'rankd', 'rankd.facts', notrankd.x FROM rankd.facts -- rankd. No"
    assert PostgresAddress("", "other").sql(sql) == (
        "SELECT \"other\".read(1), 'other', '\"other\".facts', notrankd.x"
        ' FROM "other".facts -- rankd. No'
    )
    assert PostgresAddress("").sql(sql) == sql


# --------------------------------------------------------------------------- the server

SOUND: dict[str, Any] = {
    "version": VERSION_MIN * 10_000,
    "name": "14.0",
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "standbys": "",
    "isolation": "read committed",
    "read_only": "off",
    "encoding": "UTF8",
    "standby": False,
}


def test_a_sound_server_has_no_problem() -> None:
    assert problems(SOUND) == []


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
    (problem,) = problems(SOUND | {setting: value})
    assert told in problem


def test_commits_that_do_not_wait_for_a_standby_are_refused_only_where_there_is_one() -> None:
    assert problems(SOUND | {"synchronous_commit": "local"}) == []
    assert problems(SOUND | {"standbys": "one"}) == []
    (problem,) = problems(SOUND | {"synchronous_commit": "local", "standbys": "one"})
    assert "synchronous_commit = on" in problem


@pytest.mark.anyio
async def test_a_role_whose_commits_wait_for_no_standby_is_named_and_refused_once_there_is_one(
    server: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    await execute(
        server, "CREATE ROLE local LOGIN SUPERUSER; ALTER ROLE local SET synchronous_commit = local"
    )
    url = new_ledger(server.url.replace("rankd@", "local@"))
    async with PostgresLedger.open(url) as ledger:
        assert ledger.durability.synchronous_commit == "local"
    assert "synchronous_commit = local" in caplog.text
    options = {"synchronous_commit": "local", "synchronous_standby_names": "other"}
    with postgres(options) as lone, pytest.raises(LedgerUnavailable, match="standby"):
        async with PostgresLedger.open(lone.url):
            pass


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("options", "standby", "told"),
    [
        ({"fsync": "off"}, False, "fsync"),
        ({"full_page_writes": "off"}, False, "full_page_writes"),
        ({"default_transaction_read_only": "on"}, False, "read-only"),
        ({}, True, "standby"),
    ],
)
async def test_a_server_that_took_over_is_looked_at_like_the_first(
    options: dict[str, str], standby: bool, told: str
) -> None:
    """The same ledger behind the same address, on a server that cannot keep the promises."""
    with scratch_folder() as folder, ExitStack() as first:
        sound = first.enter_context(postgres_server(durable=True, folder=folder))
        async with Proxy.open(HOST, sound.port) as proxy:
            url = f"postgresql://rankd@{HOST}:{proxy.port}/postgres"
            async with PostgresLedger.open(url) as ledger:
                await ledger.append([ScoreSubmitted("b", "p", scores=(1,))], now=NOW)
                await asyncio.to_thread(first.close)
                signal = folder / "data" / "standby.signal"
                if standby:
                    signal.touch()
                    signal.chmod(0o666)
                with postgres_server(durable=True, folder=folder, options=options) as other:
                    proxy.to = other.port
                    await until_refused(ledger, told)
                signal.unlink(missing_ok=True)
                with postgres_server(durable=True, folder=folder) as again:
                    proxy.to = again.port
                    async with asyncio.timeout(30):
                        await ledger.regained()
                    await ledger.append([ScoreSubmitted("b", "q", scores=(1,))], now=NOW)


async def until_refused(ledger: PostgresLedger, told: str) -> None:
    async with asyncio.timeout(30):
        while True:
            with pytest.raises(LedgerUnavailable) as caught:
                await ledger.append([ScoreSubmitted("b", "no", scores=(1,))], now=NOW)
            assert caught.value.applied == "no"
            if told in str(caught.value):
                return
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("url", "where"),
    [
        ("postgresql://rankd:a@b@db.example/games", "db.example:5432"),
        ("postgresql://rankd:hidden@db.example:6000/games?sslmode=require", "db.example:6000"),
        ("postgres://one,two:6000/games", "one:5432,two:6000"),
        ("postgresql:///games?host=/run/postgresql&port=6000", "/run/postgresql:6000"),
        ("postgresql://[::1]:6000/games", "[::1]:6000"),
        ("postgresql://[::1]/games", "[::1]:5432"),
        ("postgresql:///games", "localhost:5432"),
    ],
)
def test_an_error_names_host_and_port_and_no_secret(
    url: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PGHOST", "PGPORT"):
        monkeypatch.delenv(name, raising=False)
    assert PostgresAddress.parse(url).where == where
    monkeypatch.setenv("PGHOST", "by.environment")
    assert PostgresAddress.parse("postgresql:///games").where == "by.environment:5432"


@pytest.mark.anyio
async def test_a_server_that_does_not_sync_is_refused() -> None:
    with postgres_server(durable=False) as careless:
        with pytest.raises(LedgerUnavailable, match="fsync") as caught:
            async with PostgresLedger.open(careless.url):
                pass
        assert caught.value.applied == "no"


@pytest.mark.anyio
async def test_nobody_there_is_told_as_that(server: PostgresServer) -> None:
    with pytest.raises(LedgerUnavailable, match=r"at 127.0.0.1:1 cannot be reached") as caught:
        async with PostgresLedger.open("postgresql://rankd:hidden@127.0.0.1:1/postgres"):
            pass
    assert caught.value.applied == "no"
    assert "hidden" not in str(caught.value)
    with pytest.raises(LedgerUnavailable, match=f"{server.port} says 3D000"):
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
    schema = PostgresAddress.parse(url).schema
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


@pytest.mark.anyio
@pytest.mark.parametrize("pooled", [False, True])
async def test_a_connection_knows_our_types_before_anybody_waits_for_it(
    server: PostgresServer, pooled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To learn one takes the driver a second where the server compiles the question."""
    address = PostgresAddress.parse(server.url)
    connection = await connect(address, node="", pooled=pooled, seconds_max=20)
    try:

        def learn(*_: object) -> None:
            raise AssertionError("it had to learn a type")

        monkeypatch.setattr(asyncpg.Connection, "_introspect_types", learn)
        given = ([1], [True], [b"a"], ["a"])
        asked = "SELECT $1::bigint[], $2::boolean[], $3::bytea[], $4::text[]"
        assert tuple(await connection.fetchrow(asked, *given)) == given
        assert await connection.fetchval("SHOW jit") == "on", "others may use the session next"
    finally:
        await connection.close()


@pytest.mark.anyio
async def test_a_server_that_falls_silent_meanwhile_is_not_waited_for(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To roll back what nobody answers would take for ever."""
    learn = database._learn_types
    async with Proxy.open(HOST, server.port) as proxy:

        async def fall_silent(connection: Any, seconds_max: float) -> None:
            proxy.pause()
            await learn(connection, seconds_max)

        monkeypatch.setattr(database, "_learn_types", fall_silent)
        address = PostgresAddress.parse(server.url.replace(f":{server.port}/", f":{proxy.port}/"))
        async with asyncio.timeout(60) as timeouts:
            with pytest.raises(TimeoutError):
                await connect(address, node="", pooled=False, seconds_max=0.3)
        assert not timeouts.expired()

"""What the ledger in PostgreSQL has beside the promises of the port: months, views, players."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.simulation.postgres_servers import new_ledger

from rankd.adapters.postgres import PostgresLedger
from rankd.adapters.postgres.connection import SerialConnection
from rankd.adapters.postgres.notifications import Listener
from rankd.core import supervisor
from rankd.core.supervisor import Supervisor
from rankd.errors import LedgerCorrupt, LedgerUnavailable
from rankd.model.facts import (
    AttributesSet,
    BoardDefined,
    BoardRetired,
    FriendsSet,
    NameSet,
    OpenWindow,
    PlayerErased,
    PlayerProfiled,
    Position,
    ScoreSubmitted,
    WindowDropped,
    WindowOpened,
    WindowPrepared,
    WindowSealed,
)
from rankd.model.window import Instant
from rankd.ports import StoredReceipt, TimeServer
from rankd.testing.servers import PostgresServer

pytestmark = [pytest.mark.anyio, pytest.mark.servers]


def instant(year: int, month: int, day: int = 1, hour: int = 0) -> Instant:
    return Instant(int(datetime(year, month, day, hour, tzinfo=UTC).timestamp()) * 1_000_000)


NOW = instant(2025, 11, 13, 2)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def ledger(server: PostgresServer) -> AsyncIterator[PostgresLedger]:
    async with PostgresLedger.open(new_ledger(server.url), node="one") as ledger:
        yield ledger


def fact(player: str = "p", score: int = 1, key: str | None = None) -> ScoreSubmitted:
    return ScoreSubmitted("b", player, scores=(score,), key=key)


async def ask(ledger: PostgresLedger, query: str) -> list[Any]:
    return [tuple(row) for row in await ledger._rows(query)]


async def verified(ledger: PostgresLedger) -> None:
    async for _ in ledger.verify():
        pass


# ------------------------------------------------------------------------------- months


async def partitions(ledger: PostgresLedger) -> list[str]:
    rows = await ask(
        ledger,
        "SELECT relname FROM pg_class JOIN pg_inherits ON inhrelid = oid"
        " WHERE inhparent = 'rankd.facts'::regclass ORDER BY relname",
    )
    return [name for (name,) in rows]


async def test_server_time_is_an_instant(ledger: PostgresLedger) -> None:
    first, second = await ledger.server_time(), await ledger.server_time()
    assert instant(2025, 1) < first < second
    assert isinstance(ledger, TimeServer)


async def test_this_month_and_three_ahead_are_there_from_the_start(
    ledger: PostgresLedger,
) -> None:
    ((now,),) = await ask(ledger, "SELECT date_trunc('month', now() AT TIME ZONE 'UTC')")
    months = [divmod(now.year * 12 + now.month - 1 + ahead, 12) for ahead in range(4)]
    assert await partitions(ledger) == [f"facts_{year}_{month + 1:02}" for year, month in months]


async def test_a_month_that_has_no_partition_gets_one_when_it_is_needed(
    ledger: PostgresLedger,
) -> None:
    """Also when the clock jumps; and each fact lies in the month of its time, in UTC."""
    times = [
        NOW,
        instant(2025, 11, 30, 23),
        instant(2025, 12),
        instant(2026, 3) - 1,
        instant(2026, 3),
        instant(2031, 1, 15),
        instant(2031, 5),
    ]
    for at in times:
        await ledger.append([fact()], now=Instant(at))
    await ledger.append([fact()], now=NOW)  # The clock went back; the ledger's time does not.
    rows = await ask(ledger, "SELECT tableoid::regclass::text FROM rankd.facts ORDER BY position")
    lying = [name.rpartition(".")[2].strip('"') for (name,) in rows]
    assert lying == [
        f"facts_{month}"
        for month in (
            *("2025_11", "2025_11", "2025_12", "2026_02"),
            *("2026_03", "2031_01", "2031_05", "2031_05"),
        )
    ]
    found = await ledger.read(after=Position(0), limit=100)
    assert [each.at for each in found] == [*times, times[-1]]
    assert [each.position for each in found] == list(range(1, 9))
    await verified(ledger)


async def test_there_is_no_partition_for_whatever_else_comes(ledger: PostgresLedger) -> None:
    rows = await ask(
        ledger,
        "SELECT partdefid::int FROM pg_partitioned_table WHERE partrelid = 'rankd.facts'::regclass",
    )
    assert rows == [(0,)]


async def test_reading_on_touches_no_month_before(ledger: PostgresLedger) -> None:
    """The plan of what ``rankd.read`` asks, with what it finds out first."""
    for month in (11, 12):
        await ledger.append([fact()], now=instant(2025, month))
    await ledger.append([fact()], now=instant(2026, 1))
    rows = await ask(
        ledger,
        "EXPLAIN SELECT position FROM rankd.facts WHERE at >= '2025-12-01Z'"
        " AND (at, position) > ('2025-12-01Z', 1) ORDER BY at, position LIMIT 10",
    )
    plan = "\n".join(line for (line,) in rows)
    assert "facts_2025_11" not in plan
    assert "facts_2025_12" in plan
    assert [each.position for each in await ledger.read(after=Position(1), limit=9)] == [2, 3]


async def test_partitions_are_made_again_and_again_without_harm(ledger: PostgresLedger) -> None:
    before = await partitions(ledger)
    for _ in range(2):
        await ask(ledger, "SELECT rankd.cover(clock_timestamp())")
    assert await partitions(ledger) == before


# -------------------------------------------------------------------------------- views


async def test_submissions_can_be_asked_for(ledger: PostgresLedger) -> None:
    whole = ScoreSubmitted(
        *("b", "p"),
        scores=(1, 2),
        key="k",
        metadata=b'{"seed":5}',
        attributes={"region": "eu"},
        build="1.2",
        at=instant(2025, 10),
        run="r",
        actor="server",
    )
    await ledger.append([whole, ScoreSubmitted("b", "q", delta=-3), FriendsSet("p", ())], now=NOW)
    rows = await ask(
        ledger,
        "SELECT position, board, player, scores, delta, key, attributes ->> 'region',"
        " metadata ->> 'seed', build, run, client_at, actor FROM rankd.submissions ORDER BY 1",
    )
    october = datetime(2025, 10, 1, tzinfo=UTC)
    assert rows == [
        (1, "b", "p", [1, 2], None, "k", "eu", "5", "1.2", "r", october, "server"),
        (2, "b", "q", None, -3, None, None, None, None, None, None, None),
    ]


async def test_boards_are_as_they_were_defined_last(ledger: PostgresLedger) -> None:
    await ledger.append(
        [
            BoardDefined("b", {"title": "first"}),
            BoardDefined("c", {"title": "gone"}),
            BoardDefined("b", {"title": "second"}, "admin"),
            BoardRetired("c", "admin"),
        ],
        now=NOW,
    )
    rows = await ask(
        ledger,
        "SELECT board, definition ->> 'title', since, actor, retired FROM rankd.boards ORDER BY 1",
    )
    assert rows == [("b", "second", 3, "admin", False), ("c", None, 4, "admin", True)]


async def test_windows_tell_when_they_were_opened_and_closed(ledger: PostgresLedger) -> None:
    day, next_day = instant(2025, 11, 13), instant(2025, 11, 14)
    defined = BoardDefined(
        "b", {}, windows=(OpenWindow("forever"), OpenWindow("daily:1", day, next_day))
    )
    await ledger.append([defined], now=day)
    since = Position(1)
    await ledger.append(
        [
            WindowSealed("b", "daily:1", since=since),
            WindowOpened("b", "daily:2", next_day, since=since),
        ],
        now=next_day,
    )
    await ledger.append([WindowDropped("b", "daily:1", since=since)], now=instant(2025, 12))
    rows = await ask(
        ledger,
        "SELECT window_id, since, starts, ends, opened_at, sealed_at, sealed_position, dropped_at"
        " FROM rankd.windows ORDER BY 1",
    )
    d13, d14 = datetime(2025, 11, 13, tzinfo=UTC), datetime(2025, 11, 14, tzinfo=UTC)
    assert rows == [
        ("daily:1", 1, d13, d14, d13, d14, 2, datetime(2025, 12, 1, tzinfo=UTC)),
        ("daily:2", 1, d14, None, d14, None, None, None),
        ("forever", 1, None, None, d13, None, None, None),
    ]


async def test_a_prepared_window_is_shown_once_it_opens(ledger: PostgresLedger) -> None:
    defined = BoardDefined("b", {}, windows=(OpenWindow("last:1"),))
    await ledger.append([defined], now=NOW)
    prepared = [WindowPrepared("b", f"last:{day}", since=Position(1)) for day in (2, 3)]
    await ledger.append(prepared, now=NOW)
    shown = "SELECT window_id, opened_at FROM rankd.windows ORDER BY 1"
    at = datetime(2025, 11, 13, 2, tzinfo=UTC)
    assert await ask(ledger, shown) == [("last:1", at)]
    await ledger.append([WindowOpened("b", "last:3", since=Position(1))], now=NOW)
    assert await ask(ledger, shown) == [("last:1", at), ("last:3", at)]


async def test_a_window_that_a_definition_leaves_out_was_closed_by_it(
    ledger: PostgresLedger,
) -> None:
    def defined(*windows: str) -> BoardDefined:
        return BoardDefined("b", {}, windows=tuple(map(OpenWindow, windows)))

    await ledger.append([defined("all", "cup")], now=instant(2025, 11, 1))
    await ledger.append([defined("all")], now=instant(2025, 11, 2))
    await ledger.append([defined("all", "cup")], now=instant(2025, 11, 3))
    await ledger.append([BoardRetired("b")], now=instant(2025, 11, 4))
    await ledger.append([defined("all")], now=instant(2025, 11, 5))
    rows = await ask(
        ledger,
        "SELECT window_id, since, sealed_position, extract(day FROM sealed_at AT TIME ZONE 'UTC')"
        " FROM rankd.windows ORDER BY 1, 2",
    )
    assert rows == [
        ("all", 1, None, None),
        ("all", 2, None, None),
        ("all", 3, None, None),
        ("all", 5, None, None),
        ("cup", 1, 2, 2),
        ("cup", 3, None, None),
    ]


async def test_an_append_says_who_made_it(ledger: PostgresLedger) -> None:
    await ledger.append([fact(), fact()], now=NOW)
    assert await ask(ledger, "SELECT first, last, node FROM rankd.appends") == [(1, 2, "one")]


# ------------------------------------------------------------------------------ players


async def players(ledger: PostgresLedger) -> list[Any]:
    return await ask(
        ledger,
        "SELECT player, name, attributes::text, friends::text, position FROM rankd.players"
        " ORDER BY player",
    )


async def test_players_are_as_the_facts_tell(ledger: PostgresLedger) -> None:
    def scored(player: str, **attributes: str | int | bool) -> ScoreSubmitted:
        return ScoreSubmitted("b", player, scores=(1,), attributes=attributes)

    await ledger.append([scored("p", region="eu", level=1), fact("nobody")], now=NOW)
    assert await players(ledger) == [("p", None, '{"level": 1, "region": "eu"}', "[]", 1)]
    await ledger.append([scored("p", region="eu")], now=NOW)  # Nothing new.
    await ledger.append([scored("p", level=True)], now=NOW)  # True is not 1.
    assert await players(ledger) == [("p", None, '{"level": true, "region": "eu"}', "[]", 4)]
    await ledger.append([FriendsSet("p", ("q",)), PlayerProfiled("p", "Ada")], now=NOW)
    assert await players(ledger) == [("p", "Ada", "{}", '["q"]', 6)]
    await ledger.append([PlayerProfiled("q"), PlayerErased("p"), scored("p", x="y")], now=NOW)
    assert await players(ledger) == [
        ("p", None, '{"x": "y"}', "[]", 9),
        ("q", None, "{}", "[]", 7),
    ]
    await verified(ledger)
    await ledger.append([NameSet("p", "Ada"), AttributesSet("q", attributes={"a": 1})], now=NOW)
    assert await players(ledger) == [
        ("p", "Ada", '{"x": "y"}', "[]", 10),
        ("q", None, '{"a": 1}', "[]", 11),
    ]
    await ledger.append([AttributesSet("p", attributes={}), NameSet("q", "Bob")], now=NOW)
    assert await players(ledger) == [
        ("p", "Ada", "{}", "[]", 12),
        ("q", "Bob", '{"a": 1}', "[]", 13),
    ]
    await ledger.append(
        [NameSet("p"), NameSet("q", "Bob")], now=NOW
    )  # The second says nothing new.
    assert await players(ledger) == [
        ("p", None, "{}", "[]", 14),
        ("q", "Bob", '{"a": 1}', "[]", 13),
    ]
    await verified(ledger)


async def test_what_is_told_and_taken_back_in_one_append_is_not_lost(
    ledger: PostgresLedger,
) -> None:
    """The last of three says what the table says already, and must count all the same."""
    regions = ["eu", "us", "eu"]
    told = [
        ScoreSubmitted("b", "p", scores=(1,), attributes={"region": region}) for region in regions
    ]
    await ledger.append(told[:1], now=NOW)
    await ledger.append(told[1:], now=NOW)
    assert await players(ledger) == [("p", None, '{"region": "eu"}', "[]", 3)]
    await verified(ledger)


async def test_facts_that_are_left_out_tell_nothing_of_players(ledger: PostgresLedger) -> None:
    first = ScoreSubmitted("b", "p", scores=(1,), key="k", attributes={"region": "eu"})
    other = ScoreSubmitted("b", "p", scores=(1,), key="k", attributes={"region": "us"})
    last = ScoreSubmitted("b", "q", scores=(1,), key="j", attributes={"region": "us"})
    await ledger.append([first], now=NOW)
    await ledger.append([other, fact(), last], now=NOW)
    assert await players(ledger) == [
        ("p", None, '{"region": "eu"}', "[]", 1),
        ("q", None, '{"region": "us"}', "[]", 3),
    ]
    await verified(ledger)


async def test_text_that_cannot_be_kept_is_shown_as_something_else(
    ledger: PostgresLedger,
) -> None:
    odd = ScoreSubmitted(
        "b", "p", scores=(1,), metadata=b'"\\u0000"', attributes={"region": "e\0u"}
    )
    await ledger.append([odd], now=NOW)
    (found,) = await ledger.read(after=Position(0), limit=1)
    assert found.fact == odd
    assert await players(ledger) == [("p", None, '{"region": "e\ufffdu"}', "[]", 1)]
    with pytest.raises(UnicodeError):
        await ledger.append([fact("p\0")], now=NOW)
    assert await ledger.first_use(board="b", key="k\0") is None
    await verified(ledger)


# ------------------------------------------------------------------------------ receipts


async def test_receipts_reach_up_to_the_first_that_is_missing(ledger: PostgresLedger) -> None:
    """Whoever handed in a later one: with several nodes, the last kept one tells nothing."""
    for key in ("a", "b", "c"):
        await ledger.append([fact(key=key), fact()], now=NOW)
    await ledger.append([WindowOpened("b", "w")], now=NOW)  # Has a key, and never a receipt.
    await ledger.keep_receipts([StoredReceipt(Position(5), b"c")])
    assert await ledger.receipts_through() == 0
    await ledger.keep_receipts(
        [StoredReceipt(Position(1), b"a"), StoredReceipt(Position(1), b"again")]
    )
    assert await ledger.receipts_through() == 2
    await ledger.keep_receipts(
        [StoredReceipt(Position(3), b"b"), StoredReceipt(Position(5), b"again")]
    )
    assert await ledger.receipts_through() == 7
    await verified(ledger)


# ------------------------------------------------------------------------------- errors


async def test_a_closed_ledger_refuses(ledger: PostgresLedger) -> None:
    await ledger.close()
    for call in (ledger.append([fact()], now=NOW), ledger.head()):
        with pytest.raises(LedgerUnavailable, match="closed") as caught:
            await call
        assert caught.value.applied == "no"
    await ledger.changed(after=Position(0), within_seconds=60)


async def test_tables_that_are_not_ours_any_more_are_appended_to_no_longer(
    ledger: PostgresLedger,
) -> None:
    await ledger.append([fact()], now=NOW)
    await ask(ledger, "SELECT 1")
    await ledger._writer._connection.execute(  # type: ignore[union-attr]
        ledger._address.sql("ALTER TABLE rankd.keys RENAME TO theirs")
    )
    with pytest.raises(LedgerCorrupt, match="42P01"):
        await ledger.append([fact(key="k")], now=NOW)
    with pytest.raises(LedgerCorrupt, match="42P01"):
        await ledger.append([fact()], now=NOW)


async def test_a_transaction_of_another_kind_is_refused_by_the_server_too(
    ledger: PostgresLedger,
) -> None:
    """Were the role's default changed later: what committed meanwhile would not be seen."""
    connection = ledger._writer._connection
    assert connection is not None
    await connection.execute("SET default_transaction_isolation = 'repeatable read'")
    with pytest.raises(LedgerUnavailable, match="READ COMMITTED") as caught:
        await ledger.append([fact()], now=NOW)
    assert caught.value.applied == "no"
    await connection.execute("RESET default_transaction_isolation")
    assert list((await ledger.append([fact()], now=NOW)).positions) == [1]


# ------------------------------------------------------------------------ background loops


@pytest.fixture
def restarted_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "RESTART_SECONDS_MIN", 0.001)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():  # noqa: ASYNC110 - nothing signals it
            await asyncio.sleep(0.001)


def failing_once(monkeypatch: pytest.MonkeyPatch, where: type, method: str) -> None:
    original, failures = getattr(where, method), [ZeroDivisionError("planted")]

    async def fail(self: Any) -> Any:
        if failures:
            raise failures.pop()
        return await original(self)

    monkeypatch.setattr(where, method, fail)


@pytest.mark.usefixtures("restarted_at_once")
@pytest.mark.parametrize(
    ("name", "where", "method"),
    [
        ("postgres-listening", Listener, "run"),
        ("postgres-partitions", PostgresLedger, "_keep_house"),
    ],
)
async def test_background_loop_that_fails_is_restarted(
    server: PostgresServer,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    where: type,
    method: str,
) -> None:
    failing_once(monkeypatch, where, method)
    loops = Supervisor()
    async with PostgresLedger.open(new_ledger(server.url), start=loops.start) as ledger:
        assert {state.name for state in loops.states()} == {
            "postgres-listening",
            "postgres-partitions",
        }
        await until(lambda: (name, 1) in {(one.name, one.restarts) for one in loops.states()})
        await until(lambda: ledger._news.listening)
    assert not list(loops.states())


@pytest.mark.usefixtures("restarted_at_once")
async def test_lost_connection_comes_back_although_reconnecting_fails_in_an_unknown_way(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    loops = Supervisor()
    async with PostgresLedger.open(new_ledger(server.url), start=loops.start) as ledger:
        failing_once(monkeypatch, SerialConnection, "_proven")
        ledger._writer.drop()
        await until(ledger._writer._back.is_set)
        assert "postgres-writer-return failed; restart in" in caplog.text
        assert list((await ledger.append([fact()], now=NOW)).positions) == [1]

"""What is kept of standings in PostgreSQL, beside the promises: for people, and at which cost."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import nullcontext
from typing import Any

import pytest
from tests.simulation.postgres_servers import new_ledger
from tests.unit.core.doubles import DAY, SetClock, bare

from rankd.adapters.postgres import PostgresLedger
from rankd.adapters.postgres.database import QUERIES
from rankd.core import managers
from rankd.core.assembly import running
from rankd.errors import LedgerCorrupt, LedgerUnavailable
from rankd.model.facts import Position
from rankd.model.standing import Rank
from rankd.ports import Placed, Ranking, SealedRow, TopList
from rankd.testing.servers import PostgresServer

pytestmark = [pytest.mark.anyio, pytest.mark.servers]
NAME = ("b", "daily:1")
SINCE = Position(7)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def ledger(server: PostgresServer) -> AsyncIterator[PostgresLedger]:
    async with PostgresLedger.open(new_ledger(server.url), node="one") as ledger:
        yield ledger


async def ask(ledger: PostgresLedger, query: str, *given: Any) -> list[Any]:
    return [tuple(row) for row in await ledger._rows(query, *given)]


def rows(count: int) -> list[SealedRow]:
    return [
        SealedRow(place, place, f"p{place}", place.to_bytes(16, "big"), (-place,), None)
        for place in range(1, count + 1)
    ]


async def test_final_standings_can_be_read_with_sql(ledger: PostgresLedger) -> None:
    kept = [
        SealedRow(1, 1, "ann", b"1", (9, 1), b'{"seed":1}'),
        SealedRow(2, 2, "bob", b"2", (7, -1), None),
        SealedRow(3, 2, "cyd", b"3", (7, -1), None),
    ]
    await ledger.keep_standings(*NAME, kept, since=SINCE)
    found = await ask(
        ledger,
        "SELECT since, place, rank, player, scores, metadata::text FROM rankd.sealed_standings"
        " ORDER BY place",
    )
    assert found == [
        (7, 1, 1, "ann", [9, 1], '{"seed":1}'),
        (7, 2, 2, "bob", [7, -1], None),
        (7, 3, 2, "cyd", [7, -1], None),
    ]


async def test_rows_from_before_places_were_kept_get_them(ledger: PostgresLedger) -> None:
    """They count as not kept, so whoever archives comes by again."""
    await ask(
        ledger,
        "INSERT INTO rankd.sealed_standings (board, window_id, since, player, rank, scores)"
        " SELECT $1, $2, 7, 'p' || n, n, ARRAY[-n] FROM generate_series(1, 3) AS n",
        *NAME,
    )
    assert await ledger.kept_standings(*NAME, since=SINCE) == 0
    await ledger.keep_standings(*NAME, rows(4), since=SINCE)
    assert await ledger.kept_standings(*NAME, since=SINCE) == 4
    found = await ledger.sealed_rows(*NAME, since=SINCE, first=Rank(1), limit=9)
    assert list(found) == rows(4)


@pytest.mark.parametrize(
    ("query", "given", "index"),
    [
        ("sealed_rows", (5_000, 5_009), "sealed_standings_by_place"),
        ("sealed_players", (["p7", "p9"],), "sealed_standings_pkey"),
        ("sealed_behind", ((5_000).to_bytes(16, "big"), "p"), "sealed_standings_by_order"),
    ],
)
async def test_a_question_costs_as_much_as_its_answer(
    ledger: PostgresLedger, query: str, given: tuple[Any, ...], index: str
) -> None:
    await ledger.keep_standings(*NAME, rows(10_000), since=SINCE)
    await ledger._rows("ANALYZE rankd.sealed_standings")
    asked = f"EXPLAIN (ANALYZE, TIMING OFF, COSTS OFF, SUMMARY OFF) {QUERIES[query].split(';')[0]}"
    plan = "\n".join(row[0] for row in await ask(ledger, asked, *NAME, SINCE, *given))
    assert index in plan
    assert "Seq Scan" not in plan
    assert "Removed by" not in plan


async def test_top_lists_can_be_read_with_sql(ledger: PostgresLedger) -> None:
    entries = [Placed("ann", bytes(16), b'{"x": 1}'), Placed("bob", b"\1" * 16, None)]
    top = TopList(Ranking("b", "all", "region:eu"), entries, 9, Position(5))
    await ledger.keep_lists([top])
    found = await ask(
        ledger,
        "SELECT board, window_id, segment, position, total, player,"
        " metadata -> (n - 1)::int ->> 'x'"
        " FROM rankd.top_lists, json_array_elements_text(players) WITH ORDINALITY AS _ (player, n)"
        " ORDER BY n",
    )
    assert found == [
        ("b", "all", "region:eu", 5, 9, "ann", "1"),
        ("b", "all", "region:eu", 5, 9, "bob", None),
    ]


async def test_a_list_that_somebody_changed_is_found_out(ledger: PostgresLedger) -> None:
    top = TopList(Ranking("b", "all"), [Placed("ann", bytes(16), None)], 1, Position(5))
    await ledger.keep_lists([top])
    await ask(ledger, """UPDATE rankd.top_lists SET players = '["ann", "bob", "cyd"]'""")
    with pytest.raises(LedgerCorrupt, match="not one that was kept"):
        await ledger.list_of(top.ranking)


async def test_a_closed_ledger_keeps_nothing(ledger: PostgresLedger) -> None:
    await ledger.close()
    top = TopList(Ranking("b", "all"), [], 0, Position(5))
    for call in (
        ledger.keep_lists([top]),
        ledger.keep_standings(*NAME, rows(1), since=SINCE),
        ledger.list_of(top.ranking),
    ):
        with pytest.raises(LedgerUnavailable, match="closed"):
            await call


async def test_an_archived_window_is_joined_with_when_it_began_and_ended(
    ledger: PostgresLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it was closed in its time or by a definition that left it out."""
    monkeypatch.setattr(managers, "ARCHIVE_SECONDS", 0.02)
    clock = SetClock()
    async with running(
        ledger=ledger, build=bare, clock=clock, reading=nullcontext(), archive=ledger
    ) as rankd:
        await rankd.define("b", {"windows": ["all", "daily"]})
        await rankd.redefine("b", {"windows": ["all", "daily", "weekly"]})
        await rankd.submit("b", [{"player": "p", "score": 3}, {"player": "q", "score": 2}])
        clock.time += DAY
        await rankd.sealer.turn()
        await rankd.redefine("b", {"windows": ["all", "daily"]})
        joined = """
            SELECT sealed.window_id, sealed.total, windows.opened_at < windows.sealed_at,
                   windows.since < sealed.sealed_position, count(standings.player)
              FROM rankd.sealed_windows AS sealed
              JOIN rankd.windows AS windows USING (board, window_id, sealed_position)
              JOIN rankd.sealed_standings AS standings
                ON (standings.board, standings.window_id, standings.since)
                   = (sealed.board, sealed.window_id, sealed.since)
             GROUP BY 1, 2, 3, 4 ORDER BY 1"""
        async with asyncio.timeout(60):
            while len(await ledger._rows(joined)) < 2:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.02)
        assert [tuple(row) for row in await ledger._rows(joined)] == [
            ("daily:2026-11-14", 2, True, True, 2),
            ("weekly:2026-W46", 2, True, True, 2),
        ]
        assert len(await ledger.sealed_windows()) == 2, "each is joined with one"

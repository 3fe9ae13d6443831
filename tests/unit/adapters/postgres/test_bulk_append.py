"""Facts that are taken over while the server goes away, or is slow, or has others to serve."""

import asyncio

import asyncpg  # type: ignore[import-untyped]
import pytest
from tests.simulation.postgres_servers import new_ledger

from rankd.adapters.postgres import PostgresLedger
from rankd.adapters.postgres.bulk_append import takings_of
from rankd.adapters.postgres.database import PostgresAddress
from rankd.errors import LedgerNotCopied, LedgerUnavailable
from rankd.model.facts import Position, Recorded, ScoreSubmitted, TimeCorrected, WrongTime
from rankd.model.window import Instant
from rankd.ports import StoredReceipt
from rankd.testing.servers import PostgresServer

pytestmark = [pytest.mark.anyio, pytest.mark.servers]
NOW = Instant(1_763_000_000_000_000)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def url(server: PostgresServer) -> str:
    return new_ledger(server.url)


def recorded(times: list[int]) -> list[Recorded]:
    return [
        Recorded(Position(place), Instant(NOW + time), ScoreSubmitted("b", "p", scores=(place,)))
        for place, time in enumerate(times, 1)
    ]


def test_facts_of_one_time_are_one_append_and_receipts_go_with_the_last() -> None:
    takings = takings_of(recorded([0, 0, 1, 2, 2, 2]), [StoredReceipt(Position(1), b"r")])
    assert [(one.first, one.last, one.at - NOW) for one in takings] == [
        (1, 2, 0),
        (3, 3, 1),
        (4, 6, 2),
    ]
    assert [one.asked[-3] for one in takings] == [None, None, [1]]
    assert takings_of([], []) == []


def test_append_begins_where_the_time_was_corrected() -> None:
    facts = recorded([0, 0, 0])
    wrong = WrongTime(Position(1), Position(1), 1, 0, NOW)
    facts[1] = Recorded(Position(2), NOW, TimeCorrected(wrong))
    assert [(one.first, one.last) for one in takings_of(facts, [])] == [(1, 1), (2, 3)]


async def test_a_connection_that_is_lost_leaves_all_or_nothing(url: str) -> None:
    address, facts = PostgresAddress.parse(url), recorded([0, 1, 2])
    async with PostgresLedger.open(url, node="copier", copying=True) as ledger:
        other = await asyncpg.connect(address.url)
        try:
            async with other.transaction():
                await other.execute(address.sql("SELECT FROM rankd.head FOR UPDATE"))
                taking = asyncio.create_task(ledger.take_over(facts))
                waiting = (
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE application_name = 'rankd copier' AND wait_event_type = 'Lock'"
                )
                while not await other.fetch(waiting):  # noqa: ASYNC110 - only the server knows
                    await asyncio.sleep(0.01)
            with pytest.raises(LedgerUnavailable) as told:
                await taking
        finally:
            await other.close()
        assert told.value.applied == "unknown"
        assert "__aexit__" not in str(told.value)
        assert await ledger.head() == 0
        await ledger.take_over(facts)
        assert list(await ledger.read(after=Position(0), limit=9)) == facts


async def test_whoever_else_appends_is_told_of(url: str) -> None:
    async with PostgresLedger.open(url, copying=True) as ledger:
        await ledger.append([ScoreSubmitted("b", "p", scores=(1,))], now=NOW)
        with pytest.raises(LedgerNotCopied, match="somebody else appends"):
            await ledger.take_over(recorded([0, 1]))
        assert await ledger.head() == 1

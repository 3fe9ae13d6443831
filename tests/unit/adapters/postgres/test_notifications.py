"""What others append is heard of at once, and by nothing but the notification."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import NoReturn

import pytest
from tests.simulation.postgres_servers import new_ledger

from rankd.adapters.postgres import PostgresLedger, Timeouts, notifications
from rankd.model.facts import Position, ScoreSubmitted
from rankd.model.window import Instant
from rankd.testing.servers import PostgresServer

pytestmark = [pytest.mark.anyio, pytest.mark.servers]
NOW = Instant(1_763_000_000_000_000)
NEVER = 3_600.0
"""Seconds that no test waits."""
SOON = 30.0
"""When what must happen has happened, however slow the machine."""
A_WHILE = 0.5
"""Long enough to hear what is said at all: it is heard within milliseconds."""

SELDOM = Timeouts(pulse_seconds=NEVER)
FACT = ScoreSubmitted("b", "p", scores=(1,))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def two(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[PostgresLedger, PostgresLedger]]:
    """Two that share a ledger, and look for themselves so seldom that it helps nobody."""
    monkeypatch.setattr(notifications, "LOOK_SECONDS", NEVER)
    monkeypatch.setattr(notifications, "POLL_SECONDS", NEVER)
    url = new_ledger(server.url)
    async with AsyncExitStack() as stack:
        one, other = [
            await stack.enter_async_context(PostgresLedger.open(url, node=node, timeouts=SELDOM))
            for node in ("one", "other")
        ]
        async with asyncio.timeout(SOON):
            while not other._news.listening:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)
        await one.append([FACT], now=NOW)
        await other.changed(after=Position(0), within_seconds=SOON)
        yield one, other


async def waiting(ledger: PostgresLedger) -> "asyncio.Task[None]":
    """Wait for more than there is, and have looked already that there is no more."""
    waiting = asyncio.create_task(ledger.changed(after=Position(1), within_seconds=NEVER))
    await asyncio.sleep(A_WHILE)
    assert not waiting.done()
    return waiting


async def test_an_append_wakes_whoever_waits_elsewhere(
    two: tuple[PostgresLedger, PostgresLedger],
) -> None:
    one, other = two
    woken = await waiting(other)
    await one.append([FACT], now=NOW)
    async with asyncio.timeout(SOON):
        await woken
    assert other._news.newest == 2


async def test_without_a_notification_nobody_would_be_woken(
    two: tuple[PostgresLedger, PostgresLedger],
) -> None:
    """The control: it is the notification that wakes, and nothing else."""
    one, other = two
    schema = one._address.schema
    ((defined,),) = await one._rows(f"SELECT pg_get_functiondef('{schema}.append_facts'::regproc)")
    assert "pg_notify(" in defined
    await one._done(defined.replace("pg_notify(", "concat("))
    still = await waiting(other)
    await one.append([FACT], now=NOW)
    await asyncio.sleep(A_WHILE)
    assert not still.done()
    still.cancel()


async def test_the_log_says_once_why_nobody_listens(caplog: pytest.LogCaptureFixture) -> None:
    """Also of an error that says nothing of itself."""
    tries = 0
    enough = asyncio.Event()

    async def nobody() -> NoReturn:
        nonlocal tries
        tries += 1
        if tries == 10:
            enough.set()
        raise ConnectionError if tries < 8 else ConnectionRefusedError("no")

    class Deaf:
        seen = 0

        def silent(self, error: BaseException) -> None: ...

        def heard(self) -> None: ...

        def fallen_back(self) -> None: ...

    timeouts = Timeouts(retry_seconds_min=0.001, retry_seconds_max=0.001)
    listener = notifications.Listener(
        nobody, None, notifications.AppendSignal(), timeouts, Deaf(), head=""
    )
    with caplog.at_level("INFO", logger="rankd"):
        running = asyncio.create_task(listener.run())
        async with asyncio.timeout(SOON):
            await enough.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert [one.message for one in caplog.records] == [
        "nobody listens to PostgreSQL: ConnectionError",
        "nobody listens to PostgreSQL: no",
    ]

"""Behind the address of a ledger there is another PostgreSQL, which lacks what was seen already.

Method: two real servers behind a proxy. The older one has the first facts of the ledger, byte for
byte, as a standby that lagged or a restored backup has; or others in their place. The wire is led
to it and back, and nothing may be appended there.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.http.api_facade import asked
from tests.http.backends import serving_node
from tests.http.test_without_redis import proxied
from tests.http.test_workers import connect, submit, told, until
from tests.simulation.postgres_servers import new_ledger, pooled, postgres

from rankd.adapters.postgres import PostgresLedger, Timeouts
from rankd.embedded import WallClock
from rankd.errors import LedgerUnavailable
from rankd.model.facts import Position, ScoreSubmitted
from rankd.model.window import Instant
from rankd.testing.proxy import Proxy
from rankd.testing.servers import HOST, PostgresServer

NOW = Instant(1_763_000_000_000_000)
SOON = 60.0
"""When what must happen has happened, however slow the machine."""

PATIENCE = Timeouts(
    silence_seconds=30.0, statement_seconds=30.0, pulse_seconds=0.05, retry_seconds_max=0.05
)
"""A slow machine is no server that is lost."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Pair(NamedTuple):
    """The server that has everything, and one that does not."""

    current: PostgresServer
    older: PostgresServer


@pytest.fixture(scope="module")
def servers() -> Iterator[Pair]:
    with postgres() as current, postgres() as older:
        yield Pair(current, older)


def fact(player: str) -> ScoreSubmitted:
    return ScoreSubmitted("b", player, scores=(1,))


async def begin(url: str, players: Sequence[str]) -> None:
    """Append one fact for each, at times that are the same wherever this is done."""
    async with PostgresLedger.open(url, node="begun") as ledger:
        for place, player in enumerate(players):
            await ledger.append([fact(player)], now=Instant(NOW + place))


async def players_at(url: str) -> list[str]:
    """Return whose facts a server has."""
    async with PostgresLedger.open(url, node="judge") as ledger:
        facts = await ledger.read(after=Position(0), limit=1_000)
        return [one.fact.player for one in facts]  # type: ignore[attr-defined]


@asynccontextmanager
async def opened(url: str, port: int) -> AsyncIterator[PostgresLedger]:
    """Open the ledger of a URL at another port."""
    through = re.sub(r":\d+/", f":{port}/", url)
    async with PostgresLedger.open(through, node="node", timeouts=PATIENCE) as ledger:
        yield ledger


async def eventually(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(SOON):
        while not holds():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)


async def refused(ledger: PostgresLedger) -> LedgerUnavailable:
    """The refusal of an append. It is never made, also if it was sent on the wire that broke."""
    with pytest.raises(LedgerUnavailable) as refusal:
        await ledger.append([fact("never")], now=NOW)
    return refusal.value


LED_AWAY = [
    pytest.param(["a"], "ends at 1", id="lagging"),
    pytest.param([], "ends at 0", id="empty"),
    pytest.param(["a", "another", "more", "and", "more"], "another ledger", id="diverged"),
]


@pytest.mark.anyio
@pytest.mark.parametrize(("has", "said"), LED_AWAY)
async def test_nothing_is_appended_to_an_older_primary_and_the_right_one_is_gone_on_with(
    servers: Pair, has: list[str], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    url = new_ledger(servers.current.url)
    elsewhere = url.replace(f":{servers.current.port}/", f":{servers.older.port}/")
    await begin(url, ["a", "b"])
    await begin(elsewhere, has)
    async with Proxy.open(HOST, servers.current.port) as proxy, opened(url, proxy.port) as ledger:
        await ledger.append([fact("c")], now=NOW)
        proxy.to = servers.older.port
        proxy.cut()
        for _ in range(3):
            await refused(ledger)
        await eventually(lambda: said in str(ledger.loss))
        refusal = await refused(ledger)
        assert (said in str(refusal), refusal.applied) == (True, "no")
        with pytest.raises(LedgerUnavailable):
            await ledger.head()
        assert await players_at(elsewhere) == has
        proxy.to = servers.current.port
        proxy.cut()
        await eventually(lambda: ledger.loss is None)
        assert list((await ledger.append([fact("d")], now=NOW)).positions) == [4]
    assert await players_at(url) == ["a", "b", "c", "d"]
    assert await players_at(elsewhere) == has
    assert said in caplog.text


@pytest.mark.anyio
async def test_so_is_one_that_lacks_what_was_only_read(servers: Pair) -> None:
    url = new_ledger(servers.current.url)
    elsewhere = url.replace(f":{servers.current.port}/", f":{servers.older.port}/")
    await begin(url, ["a", "b", "c"])
    await begin(elsewhere, ["a", "b"])
    async with Proxy.open(HOST, servers.current.port) as proxy, opened(url, proxy.port) as ledger:
        assert len(await ledger.read(after=Position(0), limit=10)) == 3
        proxy.to = servers.older.port
        proxy.cut()
        await refused(ledger)
        assert await players_at(elsewhere) == ["a", "b"]


@pytest.mark.anyio
async def test_an_older_primary_behind_a_pooler_is_found_out_though_no_connection_was_lost(
    servers: Pair,
) -> None:
    """A pooler keeps its clients, and leads them to whoever is there now."""
    url = new_ledger(servers.current.url)
    elsewhere = url.replace(f":{servers.current.port}/", f":{servers.older.port}/")
    await begin(url, ["a", "b"])
    await begin(elsewhere, ["a"])
    async with Proxy.open(HOST, servers.current.port) as proxy:
        through = replace(servers.current, port=proxy.port)
        with pooled(through) as pooler:
            async with opened(url, pooler.port) as ledger:
                await ledger.append([fact("c")], now=NOW)
                proxy.to = servers.older.port
                proxy.cut()
                await eventually(lambda: ledger.loss is not None)
                await refused(ledger)
                proxy.to = servers.current.port
                proxy.cut()
                await eventually(lambda: ledger.loss is None)
                await ledger.append([fact("d")], now=NOW)
    assert await players_at(url) == ["a", "b", "c", "d"]
    assert await players_at(elsewhere) == ["a"]


def test_a_node_refuses_scores_says_why_and_goes_on_when_the_right_primary_is_back(
    servers: Pair, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = new_ledger(servers.current.url)
    elsewhere = url.replace(f":{servers.current.port}/", f":{servers.older.port}/")
    with proxied(servers.current.port) as proxy:
        through = url.replace(f":{servers.current.port}/", f":{proxy.port}/")
        patient = {"ledger": through, "ledger_silence_seconds": 30.0}
        with serving_node(tmp_path, WallClock(), **patient) as node:
            connection = connect(node.port)
            told(connection, "PUT", "/v1/boards/b", {"rule": "sum"})
            assert submit(connection, "ann", 1).status == 200
            asyncio.run(begin(elsewhere, []))

            def lead_to(port: int) -> None:
                proxy.to = port
                for task in list(proxy._pairs.values())[:1]:  # It runs in a thread of its own.
                    task.get_loop().call_soon_threadsafe(proxy.cut)

            lead_to(servers.older.port)
            until(lambda: submit(connection, "ann", 1).status == 503)
            refusal = submit(connection, "ann", 1)
            assert (refusal.status, refusal.body["applied"]) == (503, "no")
            until(lambda: "ends at 0" in str(asked(connection, "GET", "/readyz").body))
            assert asked(connection, "GET", "/readyz").body["status"] == "degraded"
            assert told(connection, "GET", "/v1/boards/b/standings/ann")["stale"] is True
            lead_to(servers.current.port)
            until(lambda: asked(connection, "GET", "/readyz").body["status"] == "ready")
            assert submit(connection, "ann", 1).body["score"] == 2
            assert told(connection, "GET", "/v1/boards/b/standings/ann")["stale"] is False
            connection.close()
    assert asyncio.run(players_at(elsewhere)) == []
    assert "ends at 0" in caplog.text

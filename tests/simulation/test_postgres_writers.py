"""Several nodes append to PostgreSQL at once, and every reader sees one order."""

import asyncio
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import asyncpg  # type: ignore[import-untyped]
import pytest
from tests.simulation.postgres_servers import new_ledger, pooled, postgres
from tests.simulation.postgres_writers import PATIENT, TASKS, write

from rankd.adapters.postgres import PostgresLedger
from rankd.model.facts import Position, Recorded, ScoreSubmitted
from rankd.model.window import Instant
from rankd.testing.servers import PostgresServer

pytestmark = pytest.mark.anyio
NOW = Instant(1_763_000_000_000_000)
ROOT = Path(__file__).parents[2]
NODES = 4
PROCESSES = 2
APPENDS = 12


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres() as server:
        yield server


def fact(player: str, key: str | None = None) -> ScoreSubmitted:
    return ScoreSubmitted("b", player, scores=(1,), key=key)


async def test_a_slow_writer_is_not_overtaken(server: PostgresServer) -> None:
    """One append has its position and has not committed; another that comes later waits for it.

    Were positions given by a sequence, the second would be there first, and whoever read it would
    never look for the first. Both bring the same key, which is looked for when the wait is over.
    """
    url = new_ledger(server.url)
    schema = url.rpartition("=")[2]
    async with AsyncExitStack() as stack:
        slow, quick = [
            await stack.enter_async_context(PostgresLedger.open(url, node=node, timeouts=PATIENT))
            for node in ("slow", "quick")
        ]
        database = await asyncpg.connect(server.url)
        stack.push_async_callback(database.close)
        looking = await asyncpg.connect(server.url)
        stack.push_async_callback(looking.close)
        await database.execute(f"""
            CREATE FUNCTION {schema}.hold() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                IF NEW.node = 'slow' THEN
                    PERFORM pg_advisory_xact_lock(7);
                END IF;
                RETURN NULL;
            END $$;
            CREATE CONSTRAINT TRIGGER hold AFTER INSERT ON {schema}.appends
               DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {schema}.hold();
        """)

        async def until_waiting(node: str) -> None:
            async with asyncio.timeout(30):
                while True:
                    if await looking.fetchval(
                        "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1"
                        " AND wait_event_type = 'Lock'",
                        f"rankd {node}",
                    ):
                        return
                    await asyncio.sleep(0.002)

        async with database.transaction():
            await database.execute("SELECT pg_advisory_xact_lock(7)")
            first = asyncio.create_task(slow.append([fact("slow", "same")], now=NOW))
            await until_waiting("slow")
            facts = [fact("quick", "same"), fact("quick")]
            second = asyncio.create_task(quick.append(facts, now=NOW))
            waiting = asyncio.create_task(until_waiting("quick"))
            await asyncio.wait([second, waiting], return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            assert not second.done(), "it went past an append that has not committed"
            assert not await quick.read(after=Position(0), limit=10)
        assert list((await first).positions) == [1]
        appended = await second
        assert list(appended.positions) == [1, 2]
        assert sorted(appended.first_uses) == [0]


@pytest.mark.parametrize("way", ["direct", "pooled"])
async def test_many_writers_and_a_reader_that_never_looks_back(
    server: PostgresServer, way: str
) -> None:
    """Nodes in this process and in others; those who bring what others brought are told where."""
    async with AsyncExitStack() as stack:
        through = server.url if way == "direct" else stack.enter_context(pooled(server)).url
        url = new_ledger(through)
        opened = PostgresLedger.open(url, node="reader", timeouts=PATIENT)
        reader = await stack.enter_async_context(opened)
        ended = asyncio.Event()
        following = asyncio.create_task(follow(reader, ended))
        processes = [await begin(url, f"process{number}") for number in range(PROCESSES)]
        told = [
            positions
            for node in await asyncio.gather(
                *(write(url, f"node{number}", APPENDS) for number in range(NODES))
            )
            for positions in node
        ]
        for process in processes:
            told += await finish(process)
        ended.set()
        seen = await following

        nodes = NODES + PROCESSES
        assert len(told) == nodes * TASKS * APPENDS
        facts = {found.position: found.fact for found in seen}
        assert [found.position for found in seen] == list(range(1, len(seen) + 1))
        players = Counter(f.player for f in facts.values() if isinstance(f, ScoreSubmitted))
        # A key that every node used counts once; everything else is there once as well.
        assert players.pop("everybody") == TASKS * APPENDS
        assert set(players.values()) == {1}
        own = nodes * TASKS * sum(append % 4 + 1 for append in range(APPENDS))
        assert len(players) == own
        # All were told of the same place for the same key, and of places of their own for others.
        counted = Counter(position for positions in told for position in positions)
        for position, times in counted.items():
            fact_there = facts[position]
            assert isinstance(fact_there, ScoreSubmitted)
            assert times == (nodes if fact_there.key else 1)
        assert set(counted) == set(facts)
        # Whoever was first handed in the receipt, and all are kept.
        assert await reader.receipts_through() == await reader.head()
        async for _ in reader.verify():
            pass


async def follow(reader: PostgresLedger, ended: asyncio.Event) -> list[Recorded]:
    """Read on and on, woken by what others append, until all have ended and nothing is left."""
    seen: list[Recorded] = []
    while True:
        last = ended.is_set()
        after = seen[-1].position if seen else Position(0)
        page = await reader.read(after=after, limit=17)
        seen += page
        if not page:
            if last:
                return seen
            await reader.changed(after=after, within_seconds=0.2)


async def begin(url: str, node: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.simulation.postgres_writers", url, node, str(APPENDS)),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )


async def finish(process: asyncio.subprocess.Process) -> list[list[Position]]:
    out, _ = await process.communicate()
    assert process.returncode == 0
    return [[Position(int(word)) for word in line.split()] for line in out.splitlines()]

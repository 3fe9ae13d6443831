"""An append to PostgreSQL is cut at every stage, and its outcome is known all the same.

Each test brings one fault about, at one moment, by a proxy that knows it or by holding a lock:
nothing here depends on who is quicker. The campaign (postgres_faults.py) looks for the moments
nobody thought of.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest
from tests.simulation.postgres_faults import machine
from tests.simulation.postgres_servers import new_ledger, postgres

from rankd.adapters.postgres import PostgresLedger
from rankd.adapters.postgres.connection import Timeouts
from rankd.adapters.postgres.ledger import TRIES_MAX
from rankd.errors import LedgerUnavailable
from rankd.model.facts import Position, ScoreSubmitted
from rankd.model.window import Instant
from rankd.ports import Appended, FirstUse, StoredReceipt
from rankd.testing.proxy import Cut, Proxy
from rankd.testing.servers import HOST, PostgresServer

pytestmark = pytest.mark.anyio
NOW = Instant(1_763_000_000_000_000)
NODE = "faulty"
SOON = 30.0
"""When what must happen has happened, however slow the machine."""
LONG = 3_600.0
"""Longer than any test waits: whoever is answered is answered for another reason."""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres() as server:
        yield server


class Stage:
    """A ledger behind a proxy, and a second one that sees what is really there."""

    def __init__(self, url: str, proxy: Proxy, stack: AsyncExitStack) -> None:
        self.url, self.proxy, self._stack = url, proxy, stack
        self.witness: PostgresLedger
        self.database: Any

    async def set(self) -> None:
        self.witness = await self._stack.enter_async_context(PostgresLedger.open(self.url))
        self.database = await asyncpg.connect(self.url.partition("?")[0])
        self._stack.push_async_callback(self.database.close)

    async def open(self, timeouts: Timeouts | None = None) -> PostgresLedger:
        host, _, schema = self.url.rpartition("/")
        url = f"{host.rpartition(':')[0]}:{self.proxy.port}/{schema}"
        opened = PostgresLedger.open(url, node=NODE, timeouts=timeouts or Timeouts())
        ledger = await self._stack.enter_async_context(opened)
        await ledger.append([fact("first")], now=NOW)  # So that statements are prepared.
        return ledger

    @property
    def schema(self) -> str:
        return self.url.rpartition("=")[2]

    async def players(self) -> list[str]:
        """All that is there, in order, and that it is sound."""
        async for _ in self.witness.verify():
            pass
        read = await self.witness.read(after=Position(0), limit=1000)
        return [found.fact.player for found in read if isinstance(found.fact, ScoreSubmitted)]

    async def tombstones(self) -> int:
        return int(await self.database.fetchval(f"SELECT count(*) FROM {self.schema}.tombstones"))

    async def conflicts(self, many: int, code: str) -> None:
        """Let so many appends fail, each at its end."""
        await self.database.execute(f"""
            CREATE SEQUENCE {self.schema}.tries;
            CREATE FUNCTION {self.schema}.fail() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                IF nextval('{self.schema}.tries') <= {many} THEN  -- No rollback takes that back.
                    RAISE EXCEPTION 'injected' USING ERRCODE = '{code}';
                END IF;
                RETURN NEW;
            END $$;
            CREATE TRIGGER fail BEFORE INSERT ON {self.schema}.appends
               FOR EACH ROW EXECUTE FUNCTION {self.schema}.fail();
        """)

    @asynccontextmanager
    async def head_locked(self) -> AsyncIterator[None]:
        async with self.database.transaction():
            await self.database.execute(f"SELECT FROM {self.schema}.head FOR UPDATE")
            yield

    async def holding_commits(self) -> None:
        """Let every append stop when it has done all but commit, while somebody has a lock."""
        await self.database.execute(f"""
            CREATE FUNCTION {self.schema}.hold() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                PERFORM pg_advisory_xact_lock(1);
                RETURN NULL;
            END $$;
            CREATE CONSTRAINT TRIGGER hold AFTER INSERT ON {self.schema}.appends
               DEFERRABLE INITIALLY DEFERRED
               FOR EACH ROW EXECUTE FUNCTION {self.schema}.hold();
        """)

    @asynccontextmanager
    async def commits_held(self) -> AsyncIterator[None]:
        await self.holding_commits()
        async with self.database.transaction():
            await self.database.execute("SELECT pg_advisory_xact_lock(1)")
            yield

    async def waiting(self, many: int) -> list[int]:
        """Wait until so many connections of ours wait for a lock; return whose."""
        # Another connection: within the transaction that holds the lock, nothing new is seen.
        looking = await asyncpg.connect(self.url.partition("?")[0])
        try:
            async with asyncio.timeout(SOON):
                while True:
                    rows = await looking.fetch(
                        "SELECT pid FROM pg_stat_activity WHERE application_name = $1"
                        " AND wait_event_type = 'Lock' ORDER BY query_start",
                        f"rankd {NODE}",
                    )
                    if len(rows) >= many:
                        return [row["pid"] for row in rows]
                    await asyncio.sleep(0.002)
        finally:
            await looking.close()


@pytest.fixture
async def stage(server: PostgresServer) -> AsyncIterator[Stage]:
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(Proxy.open(HOST, server.port))
        stage = Stage(new_ledger(server.url), proxy, stack)
        await stage.set()
        yield stage


def fact(player: str, key: str | None = None) -> ScoreSubmitted:
    return ScoreSubmitted("b", player, scores=(1,), key=key)


async def happens(event: asyncio.Event) -> None:
    async with asyncio.timeout(SOON):
        await event.wait()


async def until_it_works(ledger: PostgresLedger, *facts: ScoreSubmitted) -> Appended:
    """Append as soon as the server is back."""
    async with asyncio.timeout(SOON):
        while True:
            try:
                return await ledger.append(facts, now=NOW)
            except LedgerUnavailable as exc:
                assert exc.applied == "no"
            await asyncio.sleep(0.01)


# ------------------------------------------------------------- the connection is cut


@pytest.mark.parametrize("cut", [Cut.BEFORE, Cut.WITHIN])
async def test_what_was_not_received_whole_is_sent_again_and_there_once(
    stage: Stage, cut: Cut
) -> None:
    ledger = await stage.open()
    broken = stage.proxy.cut_at(b"second", cut)
    appended = await ledger.append([fact("second"), fact("third", "k")], now=NOW)
    assert broken.is_set()
    assert list(appended.positions) == [2, 3]
    assert await stage.players() == ["first", "second", "third"]
    assert await stage.tombstones() == 1


async def test_what_was_committed_is_answered_though_its_answer_was_lost(stage: Stage) -> None:
    ledger = await stage.open()
    used, again, fresh = fact("used", "u"), fact("again", "a"), fact("fresh")
    await ledger.append([used], now=NOW)
    await ledger.keep_receipts([StoredReceipt(Position(2), b"told")])
    use = await stage.witness.first_use(board="b", key="u")
    broken = stage.proxy.cut_at(b"fresh", Cut.ANSWERED)

    appended = await ledger.append([used, fresh, again, used, again], now=Instant(NOW + 7))

    assert broken.is_set()
    first = await stage.witness.first_use(board="b", key="a")
    assert isinstance(use, FirstUse) and use.receipt == b"told"
    assert list(appended.positions) == [2, 3, 4, 2, 4]
    assert appended.first_uses == {0: use, 3: use, 4: first}
    assert (appended.at, appended.link) == (NOW + 7, await stage.witness.link_at(Position(4)))
    assert await stage.players() == ["first", "used", "fresh", "again"]
    assert await stage.tombstones() == 0


async def test_what_comes_late_comes_never(stage: Stage) -> None:
    """It was given up, and sent again; then the first one arrives after all."""
    ledger = await stage.open()
    stage.proxy.cut_at(b"second", Cut.LATE)
    appended = await ledger.append([fact("second")], now=NOW)
    assert list(appended.positions) == [2]
    stage.proxy.deliver()
    await happens(stage.proxy.delivered)
    assert await stage.players() == ["first", "second"]
    assert await stage.tombstones() == 1


async def test_an_append_that_still_runs_is_waited_for(stage: Stage) -> None:
    ledger = await stage.open()
    async with stage.head_locked():
        appending = asyncio.create_task(ledger.append([fact("second")], now=NOW))
        await stage.waiting(1)
        stage.proxy.cut()
        await stage.waiting(2)  # The append itself, and whoever asks what became of it.
    assert list((await appending).positions) == [2]
    assert await stage.players() == ["first", "second"]
    assert await stage.tombstones() == 0


async def test_an_append_that_is_about_to_commit_is_waited_for(stage: Stage) -> None:
    """It has looked for a tombstone already, so none would stop it."""
    ledger = await stage.open()
    async with stage.commits_held():
        appending = asyncio.create_task(ledger.append([fact("second")], now=NOW))
        await stage.waiting(1)
        stage.proxy.cut()
        await stage.waiting(2)
    assert list((await appending).positions) == [2]
    assert await stage.players() == ["first", "second"]
    assert await stage.tombstones() == 0


async def test_an_append_whose_process_was_ended_is_made_again(stage: Stage) -> None:
    ledger = await stage.open()
    async with stage.head_locked():
        appending = asyncio.create_task(ledger.append([fact("second")], now=NOW))
        (pid,) = await stage.waiting(1)
        await stage.database.fetchval("SELECT pg_terminate_backend($1)", pid)
        await stage.waiting(1)  # Whoever asks what became of it.
    assert list((await appending).positions) == [2]
    assert await stage.players() == ["first", "second"]
    assert await stage.tombstones() == 1


async def test_one_that_only_insists_on_the_head_is_told_the_same_after_a_cut(
    stage: Stage,
) -> None:
    ledger = await stage.open()
    stage.proxy.cut_at(b"second", Cut.ANSWERED)
    appended = await ledger.append([fact("second")], now=NOW, after=Position(1))
    assert appended is not None and list(appended.positions) == [2]
    stage.proxy.cut_at(b"third", Cut.BEFORE)
    assert await ledger.append([fact("third")], now=NOW, after=Position(1)) is None
    assert await stage.players() == ["first", "second"]


async def test_receipts_are_kept_once_though_the_answer_was_lost(stage: Stage) -> None:
    ledger = await stage.open()
    await ledger.append([fact("second", "k")], now=NOW)
    stage.proxy.cut_at(b"what was told", Cut.ANSWERED)
    await ledger.keep_receipts([StoredReceipt(Position(2), b"what was told")])
    use = await ledger.first_use(board="b", key="k")
    assert use is not None and use.receipt == b"what was told"
    assert await ledger.receipts_through() == 2
    assert await stage.players() == ["first", "second"]


# --------------------------------------------------------------- nobody can be asked


async def test_what_nobody_can_be_asked_about_is_unknown_and_its_key_settles_it(
    stage: Stage,
) -> None:
    ledger = await stage.open(Timeouts(settle_seconds=LONG))
    broken = stage.proxy.cut_at(b"second", Cut.ANSWERED)
    appending = asyncio.create_task(ledger.append([fact("second", "k")], now=NOW))
    await happens(broken)
    stage.proxy.accepting = False
    with pytest.raises(LedgerUnavailable) as caught:
        await appending
    assert caught.value.applied == "unknown"
    for _ in range(3):  # Known to be gone: nobody waits.
        with pytest.raises(LedgerUnavailable) as refused:
            await ledger.append([fact("refused")], now=NOW)
        assert refused.value.applied == "no"

    stage.proxy.accepting = True
    again = await until_it_works(ledger, fact("second", "k"))
    assert list(again.first_uses) == [0]
    assert await stage.players() == ["first", "second"]


async def test_what_was_never_sent_is_refused_and_absent_and_the_ledger_goes_on(
    stage: Stage,
) -> None:
    ledger = await stage.open()
    stage.proxy.accepting = False
    stage.proxy.cut()
    await until_it_is_noticed(ledger)
    for name in ("second", "third"):
        with pytest.raises(LedgerUnavailable) as caught:
            await ledger.append([fact(name)], now=NOW)
        assert caught.value.applied == "no"
    with pytest.raises(LedgerUnavailable):
        await until_reading_fails(ledger)
    stage.proxy.accepting = True
    await until_it_works(ledger, fact("fourth"))
    assert await stage.players() == ["first", "fourth"]


async def until_it_is_noticed(ledger: PostgresLedger) -> None:
    """Wait until the ledger knows that its connection is gone: before, it would still send."""
    async with asyncio.timeout(SOON):
        while True:
            if ledger._writer._connection is None:
                return
            await asyncio.sleep(0)


async def until_reading_fails(ledger: PostgresLedger) -> None:
    async with asyncio.timeout(SOON):
        while True:
            await ledger.head()


async def test_those_who_wait_behind_a_lost_append_are_refused_and_absent(stage: Stage) -> None:
    """A server that is gone is not waited for, however long one that is there would be."""
    ledger = await stage.open(Timeouts(settle_seconds=LONG))
    async with stage.head_locked():
        appends = [
            asyncio.create_task(ledger.append([fact(f"p{number}")], now=NOW)) for number in range(5)
        ]
        await stage.waiting(1)
        stage.proxy.accepting = False
        stage.proxy.cut()
        outcomes = await asyncio.gather(*appends, return_exceptions=True)
    applied = [each.applied for each in outcomes if isinstance(each, LedgerUnavailable)]
    assert applied == ["unknown", "no", "no", "no", "no"]
    assert set(await stage.players()) <= {"first", "p0"}


async def test_what_was_acknowledged_before_a_crash_is_there_and_what_was_not_is_made_again() -> (
    None
):
    """The server is stopped at once while an append is about to commit, and started again."""
    with machine() as made:
        async with AsyncExitStack() as stack:
            proxy = await stack.enter_async_context(Proxy.open(HOST, made.server.port))
            url = new_ledger(made.server.url)
            stage = Stage(url, proxy, stack)
            await stage.set()
            ledger = await stage.open(Timeouts(settle_seconds=SOON, doubt_seconds=SOON))
            await ledger.append([fact("second")], now=NOW)
            await stage.holding_commits()
            await stage.database.execute("SELECT pg_advisory_lock(1)")  # Until the crash.
            appending = asyncio.create_task(ledger.append([fact("third")], now=NOW))
            await stage.waiting(1)

            await asyncio.to_thread(made.crash)
            proxy.cut()
            await asyncio.to_thread(made.start)
            proxy.to = made.server.port

            assert list((await appending).positions) == [3]
            again = Stage(url.replace(url.split(":")[2].split("/")[0], str(proxy.to)), proxy, stack)
            await again.set()
            assert await again.players() == ["first", "second", "third"]
            assert await again.tombstones() == 1


# -------------------------------------------------------------- the server says no


async def test_a_head_that_is_not_to_be_had_is_waited_for_no_longer_than_that(
    stage: Stage,
) -> None:
    ledger = await stage.open(Timeouts(lock_seconds=0.05))
    async with stage.head_locked():
        with pytest.raises(LedgerUnavailable) as caught:
            await ledger.append([fact("second")], now=NOW)
        assert caught.value.applied == "no"
        assert "55P03" in str(caught.value)
    assert list((await ledger.append([fact("third")], now=NOW)).positions) == [2]
    assert await stage.players() == ["first", "third"]


@pytest.mark.parametrize("code", ["40001", "40P01"])
async def test_a_conflict_that_passes_is_never_heard_of(stage: Stage, code: str) -> None:
    ledger = await stage.open()
    await stage.conflicts(TRIES_MAX - 1, code)
    assert list((await ledger.append([fact("second")], now=NOW)).positions) == [2]
    assert await stage.players() == ["first", "second"]


async def test_a_conflict_that_does_not_pass_is_refused_in_the_end(stage: Stage) -> None:
    ledger = await stage.open()
    await stage.conflicts(TRIES_MAX, "40001")
    with pytest.raises(LedgerUnavailable) as caught:
        await ledger.append([fact("second")], now=NOW)
    assert caught.value.applied == "no"
    assert list((await ledger.append([fact("third")], now=NOW)).positions) == [2]
    assert await stage.players() == ["first", "third"]


async def test_a_server_that_is_stuck_means_an_answer_all_the_same(stage: Stage) -> None:
    """The network stands still: nothing comes, and nothing says so."""
    ledger = await stage.open()
    timeouts = ledger._timeouts
    ledger._timeouts = replace(timeouts, statement_seconds=0.05, settle_seconds=0.1)
    stage.proxy.pause()
    with pytest.raises(LedgerUnavailable) as caught:
        await ledger.append([fact("second", "k")], now=NOW)
    assert caught.value.applied == "unknown"
    ledger._timeouts = timeouts
    stage.proxy.resume()
    await until_it_works(ledger, fact("second", "k"))
    assert (await stage.players()).count("second") == 1


# ------------------------------------------------------------- the server falls silent


async def lost(ledger: PostgresLedger) -> LedgerUnavailable:
    async with asyncio.timeout(SOON):
        return await ledger.lost()


async def regained(ledger: PostgresLedger) -> None:
    async with asyncio.timeout(SOON):
        await ledger.regained()


async def test_behind_an_append_without_an_answer_nobody_waits_and_its_own_may_yet_come(
    stage: Stage,
) -> None:
    ledger = await stage.open(Timeouts(silence_seconds=0.3, statement_seconds=LONG))
    stage.proxy.pause()
    first = asyncio.create_task(ledger.append([fact("second")], now=NOW))
    await asyncio.sleep(0)
    behind = [asyncio.create_task(ledger.append([fact("no")], now=NOW)) for _ in range(3)]
    loss = await lost(ledger)
    assert loss.applied == "no" and ledger.loss is not None
    refused = await asyncio.gather(*behind, return_exceptions=True)
    assert [getattr(each, "applied", None) for each in refused] == ["no"] * 3
    with pytest.raises(LedgerUnavailable) as caught:
        await ledger.append([fact("no")], now=NOW)
    assert caught.value.applied == "no"
    assert not first.done()

    stage.proxy.resume()
    assert list((await first).positions) == [2]
    await regained(ledger)
    await until_it_works(ledger, fact("third"))
    assert await stage.players() == ["first", "second", "third"]


async def test_a_silence_is_noticed_though_nobody_appends_and_ends_reads_that_wait(
    stage: Stage,
) -> None:
    ledger = await stage.open(
        Timeouts(silence_seconds=0.3, pulse_seconds=0.1, connect_seconds=0.3, read_seconds=LONG)
    )
    stage.proxy.pause()
    reading = asyncio.create_task(ledger.head())
    assert "PostgreSQL" in str(await lost(ledger))
    with pytest.raises(LedgerUnavailable):
        async with asyncio.timeout(SOON):
            await reading
    with pytest.raises(LedgerUnavailable) as caught:  # At once: it is known.
        await ledger.append([fact("no")], now=NOW)
    assert caught.value.applied == "no"
    stage.proxy.resume()
    await regained(ledger)
    async with asyncio.timeout(SOON):
        assert await ledger.head() == 1
    await until_it_works(ledger, fact("second"))
    assert await stage.players() == ["first", "second"]


async def test_an_append_whose_server_stays_silent_is_unknown_and_its_key_settles_it(
    stage: Stage,
) -> None:
    """The network loses everything for good: what was sent may have arrived, or not."""
    timeouts = Timeouts(silence_seconds=0.2, statement_seconds=0.4, connect_seconds=0.2)
    ledger = await stage.open(replace(timeouts, settle_seconds=0.5))
    stage.proxy.pause()
    with pytest.raises(LedgerUnavailable) as caught:
        async with asyncio.timeout(SOON):
            await ledger.append([fact("second", "k")], now=NOW)
    assert caught.value.applied == "unknown"
    assert (await lost(ledger)).applied == "no"
    stage.proxy.cut()
    stage.proxy.resume()
    await regained(ledger)
    await until_it_works(ledger, fact("second", "k"))
    assert (await stage.players()).count("second") == 1


async def test_a_server_that_is_there_but_appends_nothing_is_lost_until_it_does(
    stage: Stage,
) -> None:
    """A disk that hangs: connections are taken and reads are answered, but no commit ends."""
    timeouts = Timeouts(silence_seconds=0.2, statement_seconds=0.4, lock_seconds=LONG)
    ledger = await stage.open(replace(timeouts, settle_seconds=0.5))
    async with stage.commits_held():
        with pytest.raises(LedgerUnavailable) as caught:
            await ledger.append([fact("second", "k")], now=NOW)
        assert caught.value.applied == "unknown"
        opened = stage.proxy.accepted
        async with asyncio.timeout(SOON):
            while stage.proxy.accepted < opened + 3:  # It is tried, and tried again.
                assert ledger.loss is not None
                await asyncio.sleep(0.01)
    await regained(ledger)
    await until_it_works(ledger, fact("second", "k"))
    assert (await stage.players()).count("second") == 1


# ------------------------------------------------------------------- reading, waiting


async def test_a_read_whose_answer_was_lost_is_made_again(stage: Stage) -> None:
    ledger = await stage.open()
    await ledger.append([fact("second", "the key")], now=NOW)
    await ledger.first_use(board="b", key="another")
    broken = stage.proxy.cut_at(b"the key", Cut.ANSWERED)
    use = await ledger.first_use(board="b", key="the key")
    assert broken.is_set()
    assert use is not None and use.position == 2


async def test_whoever_waits_for_others_is_woken_though_the_connection_was_lost(
    stage: Stage,
) -> None:
    ledger = await stage.open()
    async with asyncio.timeout(SOON):
        for position in range(1, 6):
            waiting = asyncio.create_task(
                ledger.changed(after=Position(position), within_seconds=3_600)
            )
            await asyncio.sleep(0)
            stage.proxy.cut()
            await stage.witness.append([fact("another's")], now=NOW)
            await waiting


async def test_a_ledger_out_of_reach_wakes_nobody_and_fails_nobody(stage: Stage) -> None:
    ledger = await stage.open()
    stage.proxy.accepting = False
    stage.proxy.cut()
    await ledger.changed(after=Position(1), within_seconds=0.3)
    with pytest.raises(LedgerUnavailable):
        await until_reading_fails(ledger)

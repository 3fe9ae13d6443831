"""A line gives turns in order, comes back by itself, and refuses at once while nobody answers."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest

from rankd.adapters.postgres.connection import SerialConnection, ServerHealth, Timeouts
from rankd.errors import LedgerUnavailable

pytestmark = pytest.mark.anyio
NEVER = 3_600.0
"""Seconds that no test waits: whoever is refused is refused before."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Wire:
    """A connection that is there until it is lost."""

    def __init__(self) -> None:
        self.closed = False
        self._lost: Callable[[Any], None] = lambda _: None

    def add_termination_listener(self, callback: Callable[[Any], None]) -> None:
        self._lost = callback

    def is_closed(self) -> bool:
        return self.closed

    def lose(self) -> None:
        self.closed = True
        self._lost(self)

    def terminate(self) -> None:
        self.closed = True

    async def close(self, **_: object) -> None:
        self.closed = True


class Exchange:
    """Makes connections, as long as it is let."""

    def __init__(self) -> None:
        self.made: list[Wire] = []
        self.tried = asyncio.Semaphore(0)
        self.there = asyncio.Event()
        self.there.set()
        self.problem: Exception | None = None

    async def connect(self) -> Any:
        self.tried.release()
        await self.there.wait()
        if self.problem is not None:
            raise self.problem
        self.made.append(Wire())
        return self.made[-1]


@pytest.fixture
def exchange() -> Exchange:
    return Exchange()


@pytest.fixture
async def line(exchange: Exchange) -> AsyncIterator[SerialConnection]:
    timeouts = Timeouts(notice_seconds=NEVER, retry_seconds_min=0.001, retry_seconds_max=0.001)
    line = SerialConnection(exchange.connect, timeouts)
    await line.open()
    yield line
    await line.close()


async def test_turns_come_in_the_order_of_asking(line: SerialConnection) -> None:
    order: list[int] = []

    async def use(number: int) -> None:
        async with line.turn():
            await asyncio.sleep(0)
            order.append(number)

    tasks = [asyncio.create_task(use(number)) for number in range(5)]
    await asyncio.sleep(0)
    tasks[2].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert order == [0, 1, 3, 4]


async def test_a_turn_that_comes_to_one_who_has_gone_goes_to_the_next(
    line: SerialConnection,
) -> None:
    async def use() -> None:
        async with line.turn():
            pass

    async with line.turn():
        gone, next_one = asyncio.create_task(use()), asyncio.create_task(use())
        await asyncio.sleep(0)
    gone.cancel()  # It has its turn, and does not know yet.
    await next_one
    with suppress(asyncio.CancelledError):
        await gone
    async with line.turn():
        pass


async def test_a_connection_that_is_lost_is_replaced(
    line: SerialConnection, exchange: Exchange
) -> None:
    exchange.made[0].lose()
    async with line.turn():
        assert await line.connection() is exchange.made[1]  # type: ignore[comparison-overlap]
        line.drop()
        assert exchange.made[1].closed
        assert await line.connection() is exchange.made[2]  # type: ignore[comparison-overlap]


async def test_one_that_is_closed_and_did_not_say_so_is_replaced_too(
    line: SerialConnection, exchange: Exchange
) -> None:
    exchange.made[0].closed = True
    async with line.turn():
        assert await line.connection() is exchange.made[1]  # type: ignore[comparison-overlap]


async def test_while_nobody_answers_everybody_is_refused_at_once(
    line: SerialConnection, exchange: Exchange
) -> None:
    exchange.problem = ConnectionRefusedError("nobody")
    async with line.turn():
        waiting = [asyncio.create_task(line._wait_in_line()) for _ in range(3)]
        await asyncio.sleep(0)
        exchange.made[0].lose()
        async with asyncio.timeout(30):
            refused = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(each, LedgerUnavailable) for each in refused)
    with pytest.raises(LedgerUnavailable, match="nobody") as caught:
        async with line.turn():
            pass
    assert caught.value.applied == "no"

    exchange.problem = None
    assert await line.returned(NEVER, once_gone=NEVER) is exchange.made[1]  # type: ignore[comparison-overlap]
    async with line.turn():
        await line.connection()


async def test_whoever_waits_for_one_that_is_gone_waits_no_longer_than_for_that(
    line: SerialConnection, exchange: Exchange
) -> None:
    exchange.there.clear()
    exchange.made[0].lose()
    async with line.turn(), asyncio.timeout(30):
        waiting = asyncio.create_task(line.returned(NEVER, once_gone=0))
        await exchange.tried.acquire()  # The first connection.
        await exchange.tried.acquire()
        assert not waiting.done()  # It may be on its way.
        exchange.problem = ConnectionRefusedError("nobody")
        exchange.there.set()
        assert await waiting is None
        with pytest.raises(LedgerUnavailable, match="nobody"):
            await line.connection()
        exchange.problem = None
        assert await line.returned(NEVER, once_gone=NEVER) is not None
        exchange.there.clear()
        exchange.made[1].lose()
        again = asyncio.create_task(line.returned(NEVER, once_gone=0))
        await asyncio.sleep(0)
        exchange.there.set()  # It was only the connection: that it was gone once is forgotten.
        assert await again is exchange.made[2]  # type: ignore[comparison-overlap]


async def test_whoever_waits_for_a_connection_waits_no_longer_than_that(
    exchange: Exchange,
) -> None:
    line = SerialConnection(exchange.connect, Timeouts(notice_seconds=0.001))
    await line.open()
    exchange.there.clear()
    exchange.made[0].lose()
    async with line.turn():
        with pytest.raises(LedgerUnavailable):
            await line.connection()
    with pytest.raises(LedgerUnavailable):  # Now it is known.
        async with line.turn():
            pass
    await line.close()


async def test_a_closed_line_refuses_and_tries_no_longer(
    line: SerialConnection, exchange: Exchange
) -> None:
    exchange.problem = ConnectionRefusedError("nobody")
    exchange.made[0].lose()
    await exchange.tried.acquire()
    await line.close()
    with pytest.raises(LedgerUnavailable, match="closed"):
        async with line.turn():
            pass
    assert len(exchange.made) == 1


# ------------------------------------------------------------------------------ silence


class Silence:
    """A line whose server leaves questions unanswered, and whoever looks whether it is there."""

    def __init__(self, exchange: Exchange, **timeouts: float) -> None:
        self.proofs: list[asyncio.Future[None]] = []
        self.presence = ServerHealth()
        hurried = {"silence_seconds": 0.001, "retry_seconds_min": 0.001, "retry_seconds_max": 0.001}
        self.line = SerialConnection(
            exchange.connect,
            Timeouts(**{**hurried, **timeouts}),
            presence=self.presence,
            prove=self.prove,
            moved=lambda: self.moved_at,
        )
        self.moved_at = 0.0

    async def prove(self, _connection: object) -> None:
        proof = asyncio.get_running_loop().create_future()
        self.proofs.append(proof)
        await proof

    async def ask(self, answer: "asyncio.Future[str]") -> str:
        async with self.line.turn():
            return await self.line.answer(answer)

    async def lost(self) -> LedgerUnavailable:
        async with asyncio.timeout(30):
            return await self.presence.lost()

    async def asked_for_proof(self, times: int) -> None:
        async with asyncio.timeout(30):
            while len(self.proofs) < times:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0)


@pytest.fixture
async def silence(exchange: Exchange) -> AsyncIterator[Silence]:
    made = Silence(exchange)
    await made.line.open()
    yield made
    await made.line.close()


@pytest.mark.parametrize("answered", ["yes", asyncpg.LockNotAvailableError("no")])
async def test_who_is_not_answered_waits_alone_and_any_answer_ends_it(
    silence: Silence, answered: str | Exception
) -> None:
    answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    asking = asyncio.create_task(silence.ask(answer))
    await asyncio.sleep(0)
    behind = asyncio.create_task(silence.ask(answer))
    assert "no answer" in str(await silence.lost())
    for refused in (behind, asyncio.create_task(silence.ask(answer))):
        with pytest.raises(LedgerUnavailable) as caught:
            await refused
        assert caught.value.applied == "no"
    if isinstance(answered, str):
        answer.set_result(answered)
        assert await asking == answered
    else:
        answered.severity_en = "ERROR"  # type: ignore[attr-defined]
        answer.set_exception(answered)
        with pytest.raises(asyncpg.LockNotAvailableError):
            await asking
    assert silence.presence.loss is None
    async with silence.line.turn():
        await silence.line.connection()


async def test_while_others_are_answered_a_server_is_only_busy(silence: Silence) -> None:
    clock = asyncio.get_running_loop()
    silence.moved_at = clock.time() + 0.2  # As if they were seen to be until then.
    answer: asyncio.Future[str] = clock.create_future()
    asking = asyncio.create_task(silence.ask(answer))
    behind = asyncio.create_task(silence.ask(answer))
    await silence.lost()
    assert clock.time() > silence.moved_at
    with pytest.raises(LedgerUnavailable):
        await behind
    answer.set_result("yes")
    assert await asking == "yes"
    silence.moved_at = clock.time() + 3_600
    answer = clock.create_future()
    asking = asyncio.create_task(silence.ask(answer))
    await asyncio.sleep(0.05)
    assert silence.presence.loss is None
    answer.set_result("yes")
    assert await asking == "yes"


async def test_after_a_silence_a_connection_has_to_prove_that_it_is_answered(
    silence: Silence, exchange: Exchange
) -> None:
    answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    asking = asyncio.create_task(silence.ask(answer))
    await silence.lost()
    silence.line.drop()
    answer.set_exception(ConnectionResetError())
    with pytest.raises(ConnectionResetError):
        await asking
    await silence.asked_for_proof(1)
    assert silence.presence.loss is not None
    silence.proofs[0].set_exception(TimeoutError())
    await silence.asked_for_proof(2)
    assert exchange.made[1].closed
    assert "TimeoutError" in str(await silence.lost())
    silence.proofs[1].set_result(None)
    async with asyncio.timeout(30):
        await silence.presence.regained()
    async with silence.line.turn():
        assert await silence.line.connection() is exchange.made[2]  # type: ignore[comparison-overlap]


async def test_without_a_silence_no_proof_is_asked_for(
    silence: Silence, exchange: Exchange
) -> None:
    exchange.made[0].lose()
    async with silence.line.turn():
        await silence.line.connection()
    assert not silence.proofs


async def test_the_log_says_once_that_a_server_is_gone_and_that_it_is_back(
    exchange: Exchange, caplog: pytest.LogCaptureFixture
) -> None:
    """Where it is and what it was, also of an error that says nothing of itself."""
    timeouts = Timeouts(notice_seconds=NEVER, retry_seconds_min=0.001, retry_seconds_max=0.001)
    presence = ServerHealth()
    lines = [
        SerialConnection(exchange.connect, timeouts, presence=presence, where="db.example:5432")
        for _ in range(2)
    ]
    for line in lines:
        await line.open()
    exchange.problem = TimeoutError()
    with caplog.at_level("INFO", logger="rankd"):
        for wire in list(exchange.made):
            wire.lose()
        async with asyncio.timeout(30):
            await presence.lost()
            for _ in range(4):
                await exchange.tried.acquire()
            exchange.problem = None
            await presence.regained()
    gone, back = [one.message for one in caplog.records]
    assert gone == (
        "PostgreSQL is gone: PostgreSQL at db.example:5432 cannot be reached: TimeoutError"
    )
    assert back.startswith("PostgreSQL is there again, after ")
    for line in lines:
        await line.close()


async def test_a_server_is_lost_while_anybody_misses_it() -> None:
    presence, loss = ServerHealth(), LedgerUnavailable("gone", applied="no")
    presence.miss("one", loss)
    presence.miss("two", loss)
    presence.find("one")
    presence.find("three")
    assert str(await presence.lost()) == str(loss)
    presence.find("two")
    await presence.regained()
    assert presence.loss is None


def test_more_silence_is_borne_within_a_longer_statement() -> None:
    for seconds in (0.1, 1.0, 60.0):
        timeouts = Timeouts.of_silence(seconds)
        assert timeouts.silence_seconds == seconds
        assert timeouts.pulse_seconds < seconds
        assert max(seconds, timeouts.lock_seconds) < timeouts.statement_seconds

"""A line gives turns in order, comes back by itself, and refuses at once while nobody answers."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import pytest

from rankd.adapters.postgres.line import Line, Patience
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
async def line(exchange: Exchange) -> AsyncIterator[Line]:
    patience = Patience(notice_seconds=NEVER, retry_seconds_min=0.001, retry_seconds_max=0.001)
    line = Line(exchange.connect, patience)
    await line.open()
    yield line
    await line.close()


async def test_turns_come_in_the_order_of_asking(line: Line) -> None:
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


async def test_a_turn_that_comes_to_one_who_has_gone_goes_to_the_next(line: Line) -> None:
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


async def test_a_connection_that_is_lost_is_replaced(line: Line, exchange: Exchange) -> None:
    exchange.made[0].lose()
    async with line.turn():
        assert await line.connection() is exchange.made[1]  # type: ignore[comparison-overlap]
        line.drop()
        assert exchange.made[1].closed
        assert await line.connection() is exchange.made[2]  # type: ignore[comparison-overlap]


async def test_one_that_is_closed_and_did_not_say_so_is_replaced_too(
    line: Line, exchange: Exchange
) -> None:
    exchange.made[0].closed = True
    async with line.turn():
        assert await line.connection() is exchange.made[1]  # type: ignore[comparison-overlap]


async def test_while_nobody_answers_everybody_is_refused_at_once(
    line: Line, exchange: Exchange
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
    assert await line.returned(NEVER) is exchange.made[1]  # type: ignore[comparison-overlap]
    async with line.turn():
        await line.connection()


async def test_whoever_waits_for_a_connection_waits_no_longer_than_that(
    exchange: Exchange,
) -> None:
    line = Line(exchange.connect, Patience(notice_seconds=0.001))
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


async def test_a_closed_line_refuses_and_tries_no_longer(line: Line, exchange: Exchange) -> None:
    exchange.problem = ConnectionRefusedError("nobody")
    exchange.made[0].lose()
    await exchange.tried.acquire()
    await line.close()
    with pytest.raises(LedgerUnavailable, match="closed"):
        async with line.turn():
            pass
    assert len(exchange.made) == 1

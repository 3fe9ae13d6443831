"""The client with an event loop does as the other does."""

import asyncio

import httpx
import msgspec
import pytest

from rankd import wire
from rankd.client import AsyncClient, Policy, Unreachable

SOON = Policy(retries_max=2, backoff_seconds=0.001)
RECEIPT = wire.Receipt("b", "p", "counted", 1, None, 1, None, None, 1, 100.0, 9, {})


def test_a_retry_sends_the_same_key_again() -> None:
    keys: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        keys.append(msgspec.json.decode(request.content)["key"])
        if len(keys) < 3:
            raise httpx.ReadError("cut off")
        return httpx.Response(200, content=wire.encode(RECEIPT))

    async def submit() -> wire.Receipt:
        transport = httpx.MockTransport(answer)
        async with AsyncClient("http://rankd.test", policy=SOON, transport=transport) as ranks:
            return await ranks.submit("b", "p", delta=1)

    assert asyncio.run(submit()) == RECEIPT
    assert len(keys) == 3
    assert len(set(keys)) == 1


def test_walks_and_batches_go_on_to_the_end_and_failures_are_raised() -> None:
    rows = [wire.Row(n, f"p{n}", None, n, None, None) for n in range(1, 5)]
    page = wire.Page("b", "all", None, 4, 5, "exact", False, rows[:2], "c", None)

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            count = len(msgspec.json.decode(request.content)["scores"])
            return httpx.Response(200, content=wire.encode(wire.Results([RECEIPT] * count, 9)))
        if request.url.path == "/v1/boards":
            raise httpx.ConnectError("nobody there")
        shown = page
        if "cursor" in request.url.params:
            shown = msgspec.structs.replace(page, standings=rows[2:], next_cursor=None)
        return httpx.Response(200, content=wire.encode(shown))

    async def use() -> None:
        transport = httpx.MockTransport(answer)
        async with AsyncClient("http://rankd.test", policy=SOON, transport=transport) as ranks:
            assert [row.player async for row in ranks.walk("b")] == ["p1", "p2", "p3", "p4"]
            items = [("p", n) for n in range(5)]
            assert await ranks.submit_many(items, board="b", batch=2) == [RECEIPT] * 5
            with pytest.raises(Unreachable, match="nobody there"):
                await ranks.boards()

    asyncio.run(use())

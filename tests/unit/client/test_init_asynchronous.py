"""The client with an event loop does as the other does."""

import asyncio

import msgspec
import pytest
from tests.unit.client.stand_in import AsyncStandIn, ok, sent_json

from rankd import schemas
from rankd.client import AsyncClient, RetryPolicy, Unreachable
from rankd.http_client import HttpRequest, HttpResponse, TransportError

SOON = RetryPolicy(retries_max=2, backoff_seconds=0.001)
RECEIPT = schemas.Receipt("b", "p", "counted", 1, None, 1, None, None, 1, 100.0, 9, {})


def test_a_retry_sends_the_same_key_again() -> None:
    keys: list[str] = []

    def answer(request: HttpRequest) -> HttpResponse:
        keys.append(msgspec.json.decode(sent_json(request))["key"])
        if len(keys) < 3:
            raise TransportError("cut off", sent=True)
        return ok(schemas.encode(RECEIPT))

    async def submit() -> schemas.Receipt:
        transport = AsyncStandIn(answer)
        async with AsyncClient("http://rankd.test", policy=SOON, transport=transport) as ranks:
            return await ranks.submit("b", "p", delta=1)

    assert asyncio.run(submit()) == RECEIPT
    assert len(keys) == 3
    assert len(set(keys)) == 1


def test_walks_and_batches_go_on_to_the_end_and_failures_are_raised() -> None:
    rows = [schemas.Row(n, f"p{n}", None, n, None, None) for n in range(1, 5)]
    page = schemas.Page("b", "all", None, 4, 5, "exact", False, rows[:2], "c", None)

    def answer(request: HttpRequest) -> HttpResponse:
        if request.method == "POST":
            count = len(msgspec.json.decode(sent_json(request))["scores"])
            return ok(schemas.encode(schemas.Results([RECEIPT] * count, 9)))
        if request.path == "/v1/boards":
            raise TransportError("connection refused", sent=False)
        shown = page
        if "cursor=" in request.path:
            shown = msgspec.structs.replace(page, standings=rows[2:], next_cursor=None)
        return ok(schemas.encode(shown))

    async def use() -> None:
        transport = AsyncStandIn(answer)
        async with AsyncClient("http://rankd.test", policy=SOON, transport=transport) as ranks:
            assert [row.player async for row in ranks.walk("b")] == ["p1", "p2", "p3", "p4"]
            items = [("p", n) for n in range(5)]
            assert await ranks.submit_many(items, board="b", batch=2) == [RECEIPT] * 5
            with pytest.raises(Unreachable, match="connection refused"):
                await ranks.boards()

    asyncio.run(use())

"""Both lanes say the same, byte for byte, however a request is cut into reads."""

import asyncio
from collections.abc import Iterable

import pytest
from tests.http.corpus import CORPUS, GET, submit
from tests.http.running import run
from tests.http.wire import Side, from_the_loop, statuses, without_what_varies


async def answer(side: Side, pieces: Iterable[bytes]) -> bytes:
    return without_what_varies(await side.talk(pieces))


@pytest.mark.parametrize("name", CORPUS)
def test_both_lanes_answer_alike_and_as_expected(name: str) -> None:
    async def compare() -> None:
        entry = CORPUS[name]
        fast = await answer(Side(fast=True), [entry.sent])
        other = await answer(Side(fast=False), [entry.sent])
        assert fast == other
        assert statuses(fast, heads=entry.heads) == entry.statuses

    run(compare())


@pytest.mark.parametrize("name", CORPUS)
def test_an_answer_does_not_depend_on_how_the_request_was_cut(name: str) -> None:
    async def compare() -> None:
        entry = CORPUS[name]
        fast, other = Side(fast=True), Side(fast=False)
        whole = await answer(fast, [entry.sent])
        for side in (fast, other):
            for cut in range(1, len(entry.sent)):
                halves = [entry.sent[:cut], entry.sent[cut:]]
                assert await answer(side, halves) == whole, (side.settings.fast_lane, cut)
            assert await answer(side, [bytes([byte]) for byte in entry.sent]) == whole

    run(compare())


# Those the fast lane must not leave to the other: without this list it could leave all of them.
OWN = [
    *("standing", "two in turn", "page", "page encoded", "submit", "submit twice", "verb"),
    *("read behind a write", "encoded colon", "encoded slash", "headers reach", "keep-alive"),
    *("post without length", "waits by timeout", "large", "empty", "own headers", "origin"),
    *("unknown outcome", "broken", "not json", "missing field"),
]


@pytest.mark.parametrize("name", OWN)
def test_the_fast_lane_serves_what_it_is_for(name: str) -> None:
    async def watch() -> None:
        side = Side(fast=True)
        wire = side.connect()
        await from_the_loop(wire.protocol.data_received, CORPUS[name].sent)
        if not await from_the_loop(wire.protocol.eof_received):
            wire.close()
        await wire.lost.wait()
        assert statuses(bytes(wire.sent), heads=False) == CORPUS[name].statuses
        assert wire.protocol.cycle is None, "uvicorn was asked"
        assert side.state.total_requests == len(CORPUS[name].statuses)

    run(watch())


WRITES = [name for name in CORPUS if name.startswith(("write ", "delete "))]


@pytest.mark.parametrize("fast", [True, False], ids=["fast", "asgi"])
@pytest.mark.parametrize("name", [*WRITES, "body too large", "form", "key twice"])
def test_a_write_that_is_refused_anywhere_says_that_nothing_was_done(name: str, fast: bool) -> None:
    async def ask() -> None:
        last = (await answer(Side(fast=fast), [CORPUS[name].sent])).rpartition(b"HTTP/1.1 ")[2]
        assert b'"applied":"no"' in last

    run(ask())


@pytest.mark.parametrize("fast", [True, False], ids=["fast", "asgi"])
@pytest.mark.parametrize("name", ["no host", "bad percent", "head too large", "not http"])
def test_a_read_that_is_refused_says_nothing_of_it(name: str, fast: bool) -> None:
    async def ask() -> None:
        assert b'"applied"' not in await answer(Side(fast=fast), [CORPUS[name].sent])

    run(ask())


@pytest.mark.parametrize("fast", [True, False], ids=["fast", "asgi"])
def test_nothing_is_read_while_a_request_waits_behind_another(fast: bool) -> None:
    """Otherwise a client that asks without reading fills the memory with what it asked."""

    async def crowd() -> None:
        side = Side(fast=fast)
        side.service.auth = asyncio.Event()
        wire = side.connect()
        await from_the_loop(wire.protocol.data_received, submit() + GET)
        await side.service.entered.wait()
        assert not wire.readable.is_set()
        side.service.auth.set()
        await wire.readable.wait()
        assert not await from_the_loop(wire.protocol.eof_received)
        wire.close()
        await wire.lost.wait()
        assert statuses(bytes(wire.sent), heads=False) == (200, 200)

    run(crowd())


def test_the_date_of_an_answer_is_the_date() -> None:
    """What is kept of an answer's beginning is forgotten when uvicorn tells a new date."""

    async def ask_twice() -> None:
        side = Side(fast=True)
        assert b"\r\ndate: Mon, 16 Nov 2026" in await side.talk([GET])
        side.state.default_headers = [(b"date", b"Tue, 17 Nov 2026 00:00:00 GMT")]
        assert b"\r\ndate: Tue, 17 Nov 2026" in await side.talk([GET])

    run(ask_twice())


@pytest.mark.parametrize("fast", [True, False], ids=["fast", "asgi"])
@pytest.mark.parametrize("name", ["close", "http 1.0", "not http", "head too large", "version 2"])
def test_after_the_last_answer_the_rest_is_read_and_dropped(name: str, fast: bool) -> None:
    """A connection closed at once would take an answer with it that the client has not read."""

    async def go_on() -> None:
        wire = Side(fast=fast).connect()
        await from_the_loop(wire.protocol.data_received, CORPUS[name].sent)
        while not (wire.ended or wire.is_closing()):  # noqa: ASYNC110 - a transport has no event
            await asyncio.sleep(0)
        assert wire.ended and not wire.is_closing() and wire.readable.is_set()
        await from_the_loop(wire.protocol.data_received, GET)
        assert not await from_the_loop(wire.protocol.eof_received)
        wire.close()
        await wire.lost.wait()
        assert statuses(bytes(wire.sent), heads=False) == CORPUS[name].statuses

    run(go_on())

"""The proxy passes everything on, and breaks a connection exactly where it is told to."""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from rankd.testing.proxy import Cut, Proxy

pytestmark = pytest.mark.anyio
HOST = "127.0.0.1"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Echo:
    """A server that answers each line with itself, and remembers all it was sent."""

    def __init__(self) -> None:
        self.heard = b""
        self.ended = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1000):
                self.heard += data
                if data.endswith(b"\n"):
                    writer.write(data)
        except ConnectionError:
            pass
        finally:
            writer.transport.abort()
            self.ended.set()


@asynccontextmanager
async def echo_behind_proxy() -> AsyncIterator[tuple[Echo, Proxy]]:
    echo = Echo()
    server = await asyncio.start_server(echo.serve, HOST, 0)
    async with server, Proxy.open(HOST, server.sockets[0].getsockname()[1]) as proxy:
        yield echo, proxy


async def ask(proxy: Proxy, *lines: bytes) -> bytes:
    """Say lines, each behind the answer to the one before; return all that was answered."""
    answers = b""
    reader, writer = await asyncio.open_connection(HOST, proxy.port)
    try:
        for line in lines:
            writer.write(line)
            answer = await reader.readline()
            answers += answer
            if not answer:
                break
    except ConnectionError:
        pass
    finally:
        writer.transport.abort()
    return answers


async def until(holds: Callable[[], bool]) -> None:
    while True:
        if holds():
            return
        await asyncio.sleep(0.001)


async def test_it_passes_everything_on() -> None:
    async with echo_behind_proxy() as (echo, proxy):
        assert await ask(proxy, b"one\n", b"two\n") == b"one\ntwo\n"
        assert echo.heard == b"one\ntwo\n"
        assert proxy.accepted == 1


@pytest.mark.parametrize(
    ("cut", "heard"),
    [(Cut.BEFORE, b"one\n"), (Cut.WITHIN, b"one\nthis two"), (Cut.ANSWERED, b"one\nthis two?\n")],
)
async def test_it_cuts_where_it_is_told(cut: Cut, heard: bytes) -> None:
    async with echo_behind_proxy() as (echo, proxy):
        broken = proxy.cut_at(b"two", cut)
        assert await ask(proxy, b"one\n", b"this two?\n", b"three\n") == b"one\n"
        await broken.wait()
        await echo.ended.wait()
        assert echo.heard == heard
        assert await ask(proxy, b"two\n") == b"two\n", "a cut is made once"


async def test_what_comes_late_comes_when_it_is_let() -> None:
    async with echo_behind_proxy() as (echo, proxy):
        broken = proxy.cut_at(b"two", Cut.LATE)
        assert await ask(proxy, b"one\n", b"two\n") == b"one\n"
        await broken.wait()
        assert await ask(proxy, b"three\n") == b"three\n"
        assert echo.heard == b"one\nthree\n"
        proxy.deliver()
        await proxy.delivered.wait()
        assert echo.heard == b"one\nthree\ntwo\n"


async def test_bytes_that_arrive_in_pieces_are_recognised() -> None:
    async with echo_behind_proxy() as (echo, proxy):
        broken = proxy.cut_at(b"marked", Cut.WITHIN)
        _, writer = await asyncio.open_connection(HOST, proxy.port)
        writer.write(b"mar")
        await until(lambda: echo.heard == b"mar")
        writer.write(b"ked and more\n")
        await broken.wait()
        await echo.ended.wait()
        writer.transport.abort()
        assert echo.heard == b"marked"


async def test_it_counts_those_who_are_there_at_one_time() -> None:
    async with echo_behind_proxy() as (_, proxy):
        await ask(proxy, b"one\n")
        wires = [await asyncio.open_connection(HOST, proxy.port) for _ in range(3)]
        await until(lambda: proxy.accepted == 4)
        assert proxy.together_max == 3, "whoever went is not there any more"
        for _, writer in wires:
            writer.transport.abort()


@pytest.mark.skipif(
    sys.platform != "linux", reason="NOT TESTED, unheard ends: only Linux tells of them"
)
async def test_whoever_let_go_unheard_is_not_counted() -> None:
    async with echo_behind_proxy() as (_, proxy):
        first = socket.create_connection((HOST, proxy.port))
        await until(lambda: proxy.accepted == 1)
        first.close()  # And the next comes before the loop has had its turn to hear of it.
        second = socket.create_connection((HOST, proxy.port))
        await until(lambda: proxy.accepted == 2)
        second.close()
        assert proxy.together_max == 1


async def test_while_it_stands_still_nothing_arrives() -> None:
    async with echo_behind_proxy() as (echo, proxy):
        await ask(proxy, b"one\n")
        proxy.pause()
        asking = asyncio.create_task(ask(proxy, b"two\n"))
        await until(lambda: proxy.accepted == 2)
        assert echo.heard == b"one\n"
        proxy.resume()
        assert await asking == b"two\n"


async def test_it_drops_everybody_and_lets_nobody_in() -> None:
    async with echo_behind_proxy() as (echo, proxy):
        reader, writer = await asyncio.open_connection(HOST, proxy.port)
        writer.write(b"one\n")
        assert await reader.readline() == b"one\n"
        proxy.accepting = False
        proxy.cut()
        await echo.ended.wait()
        writer.transport.abort()
        assert await ask(proxy, b"two\n") == b""
        proxy.accepting = True
        assert await ask(proxy, b"three\n") == b"three\n"
        assert echo.heard == b"one\nthree\n"

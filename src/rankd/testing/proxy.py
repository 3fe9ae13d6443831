"""A proxy that loses connections at chosen moments.

A connection that is lost between a request and its answer is a matter of microseconds, which no
test hits by luck. So a test puts this proxy between client and server and chooses the moment:

    async with Proxy.open("127.0.0.1", server.port) as proxy:
        broken = proxy.cut_at(b"some player", Cut.ANSWERED)
        ...                       # The server gets the question whole; its answer goes nowhere.
        await broken.wait()

It passes on bytes and knows no protocol: a moment is named by bytes that the client sends. It can
also stand still, be slow, drop everything, and refuse connections, as a network and a host do.
"""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum, auto

CHUNK_BYTES = 65_536
"""Passed on at a time."""

_ESTABLISHED = b"\1"
"""The state of a connection that neither end has closed, the first byte of Linux's TCP_INFO."""


class Cut(Enum):
    """Where the wire breaks, once a client has sent certain bytes."""

    BEFORE = auto()
    """Nothing that was sent with them arrives."""
    WITHIN = auto()
    """The request arrives up to and including these bytes, and no more."""
    ANSWERED = auto()
    """All of it arrives; the first answer to it does not."""
    LATE = auto()
    """The client is cut off at once. Its request arrives, but only when ``deliver`` is called."""


@dataclass(slots=True)
class _Trap:
    seen: bytes
    cut: Cut
    sprung: asyncio.Event = field(default_factory=asyncio.Event)


class Proxy:
    """A port that leads to another, as long as it is let."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self.to = port
        """The port that connections are led to; a restarted server may have another one."""
        self._traps: list[_Trap] = []
        self._pairs: dict[_Pair, asyncio.Task[None]] = {}
        self._moving = asyncio.Event()
        self._moving.set()
        self.delay_seconds = 0.0
        """How long every answer is held back, as by a server that has too much to do."""
        self.accepting = True
        """Whether connections are accepted; otherwise they are closed at once."""
        self.accepted = 0
        """How many were let through so far."""
        self.together_max = 0
        """How many were held by their clients at one time, at most."""
        self.port = 0
        self._delivery = asyncio.Event()
        self.delivered = asyncio.Event()
        """Set when something that came late was answered."""

    @classmethod
    @asynccontextmanager
    async def open(cls, host: str, port: int) -> AsyncIterator["Proxy"]:
        """Listen on a free port for the length of the block."""
        proxy = cls(host, port)
        server = await asyncio.start_server(proxy._accept, host, 0)
        proxy.port = server.sockets[0].getsockname()[1]
        try:
            yield proxy
        finally:
            server.close()
            proxy.resume()
            tasks = list(proxy._pairs.values())
            proxy.cut()
            await asyncio.gather(*tasks, return_exceptions=True)
            await server.wait_closed()

    # ------------------------------------------------------------------------- faults

    def cut_at(self, seen: bytes, cut: Cut) -> asyncio.Event:
        """Break the connection on which a client sends these bytes; once. Tells when it is done."""
        trap = _Trap(seen, cut)
        self._traps.append(trap)
        return trap.sprung

    def forget(self) -> None:
        """Break nothing that was to be broken and has not been yet."""
        self._traps.clear()

    def cut(self) -> None:
        """Break all connections there are."""
        for pair in list(self._pairs):
            pair.abort()

    def deliver(self) -> None:
        """Deliver the requests that were held back."""
        self._delivery.set()

    def pause(self) -> None:
        """Pass nothing on any more, and say nothing."""
        self._moving.clear()

    def resume(self) -> None:
        """Pass on the gathered bytes, and go on."""
        self._moving.set()

    # ---------------------------------------------------------------------- connections

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        pair = _Pair(reader, writer)
        self._pairs[pair] = task
        held = sum(other.client.held() for other in self._pairs)
        self.together_max = max(self.together_max, held)
        try:
            if self.accepting:
                self.accepted += 1
                await self._carry(pair)
        except OSError:
            pass  # Nobody is there, or somebody went.
        finally:
            pair.abort()
            del self._pairs[pair]

    async def _carry(self, pair: "_Pair") -> None:
        await pair.reach(self._host, self.to)
        ways = [
            asyncio.create_task(self._to_server(pair)),
            asyncio.create_task(self._to_client(pair)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            pair.abort()
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _to_server(self, pair: "_Pair") -> None:
        assert pair.server is not None
        before = b""
        while data := await pair.client.reader.read(CHUNK_BYTES):
            await self._moving.wait()
            trap, end = self._sprung(before + data)
            if trap is not None and trap.cut is Cut.LATE:
                await self._hold(pair, trap)
            elif trap is not None and trap.cut is not Cut.ANSWERED:
                if trap.cut is Cut.WITHIN:
                    pair.server.writer.write(data[: max(end - len(before), 0)])
                    await pair.server.writer.drain()
                trap.sprung.set()
                return
            pair.armed = trap or pair.armed
            pair.server.writer.write(data)
            await pair.server.writer.drain()
            if trap is not None and trap.cut is Cut.LATE:
                await self.delivered.wait()
            longest = max((len(each.seen) for each in self._traps), default=1)
            before = (before + data)[-(longest - 1) :] if longest > 1 else b""

    async def _to_client(self, pair: "_Pair") -> None:
        assert pair.server is not None
        while data := await pair.server.reader.read(CHUNK_BYTES):
            await self._moving.wait()
            if pair.armed is not None:
                (self.delivered if pair.armed.cut is Cut.LATE else pair.armed.sprung).set()
                return
            if self.delay_seconds:
                await asyncio.sleep(self.delay_seconds)
            pair.client.writer.write(data)
            await pair.client.writer.drain()

    def _sprung(self, data: bytes) -> tuple[_Trap | None, int]:
        """Return the trap that these bytes spring, if any, and where its bytes end in them."""
        for trap in self._traps:
            start = data.find(trap.seen)
            if start >= 0:
                self._traps.remove(trap)
                return trap, start + len(trap.seen)
        return None, 0

    async def _hold(self, pair: "_Pair", trap: _Trap) -> None:
        pair.client.writer.transport.abort()
        trap.sprung.set()
        await self._delivery.wait()


@dataclass(slots=True)
class _End:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def held(self) -> bool:
        """Return whether the peer has not closed the connection.

        Asks the kernel, which knows at once: a busy event loop notices much later. (Outside Linux
        every listed connection counts as open.)
        """
        wire = self.writer.get_extra_info("socket")
        if wire is None or wire.fileno() < 0:
            return False
        if sys.platform != "linux":
            return True
        return bool(wire.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1) == _ESTABLISHED)


class _Pair:
    """The two connections that are one to those at their ends."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.client = _End(reader, writer)
        self.server: _End | None = None
        self.armed: _Trap | None = None
        """The trap that breaks the connection with the next answer."""

    async def reach(self, host: str, port: int) -> None:
        self.server = _End(*await asyncio.open_connection(host, port))

    def abort(self) -> None:
        for end in (self.client, self.server):
            if end is not None:
                with suppress(RuntimeError):  # The loop is gone already.
                    end.writer.transport.abort()

"""A pool of connections to one endpoint, for the tasks of one event loop."""

import asyncio
from collections import deque
from typing import cast

from rankd.http_client.endpoint import Endpoint
from rankd.http_client.message import (
    RESPONSE_BYTES_MAX,
    HttpRequest,
    HttpResponse,
    ResponseParser,
    TransportError,
)
from rankd.http_client.sync_transport import check_tunnel


class AsyncTransport:
    """Sends requests over persistent connections.

    ``timeout`` seconds bound the wait for a free connection, connecting, and the silence between
    any two bytes of a response.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        timeout: float,
        connections_max: int,
        response_bytes_max: int = RESPONSE_BYTES_MAX,
    ) -> None:
        self._endpoint = endpoint
        self._timeout = timeout
        self._response_bytes_max = response_bytes_max
        self._free = connections_max
        """Connections that may still be opened."""
        self._idle: list[_AsyncConnection] = []
        self._waiters: deque[asyncio.Future[_AsyncConnection | None]] = deque()
        """Requests without a connection, first come first served. None lets one open its own."""

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Return the response. Raises TransportError, and ValueError for an invalid header."""
        data = self._endpoint.encode(request)
        connection = self._idle_connection() or await self._acquire()
        try:
            return await connection.exchange(data, max(self._timeout, request.timeouts))
        except BaseException:
            connection.close()
            raise
        finally:
            self._release(connection)

    async def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().close()
        await asyncio.sleep(0)  # The loop closes their sockets in its next iteration.

    def _idle_connection(self) -> "_AsyncConnection | None":
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open:
                return connection
            self._free += 1
        return None

    async def _acquire(self) -> "_AsyncConnection":
        if self._free > 0:
            self._free -= 1
            return await self._connect()
        waiter: asyncio.Future[_AsyncConnection | None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            async with asyncio.timeout(self._timeout):
                granted = await waiter
        except BaseException as exc:
            self._give_back(waiter)
            if isinstance(exc, TimeoutError):
                raise TransportError("every connection is busy", sent=False) from None
            raise
        return granted if granted is not None else await self._connect()

    def _give_back(self, waiter: "asyncio.Future[_AsyncConnection | None]") -> None:
        """Pass on the connection that a waiter was granted in the moment it gave up."""
        if not waiter.done() or waiter.cancelled():
            waiter.cancel()
        elif (granted := waiter.result()) is not None:
            self._release(granted)
        else:
            self._grant(None)

    def _release(self, connection: "_AsyncConnection") -> None:
        """Give a connection, or the right to open one, to the request that waits longest."""
        self._grant(connection if connection.is_open else None)

    def _grant(self, connection: "_AsyncConnection | None") -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(connection)
                return
        if connection is not None:
            self._idle.append(connection)
        else:
            self._free += 1

    async def _connect(self) -> "_AsyncConnection":
        try:
            async with asyncio.timeout(self._timeout):
                return await self._open()
        except BaseException as exc:
            self._grant(None)
            if isinstance(exc, OSError | ValueError):  # TimeoutError is an OSError.
                raise TransportError(str(exc) or type(exc).__name__, sent=False) from exc
            raise

    async def _open(self) -> "_AsyncConnection":
        loop, endpoint = asyncio.get_running_loop(), self._endpoint
        tunnel = endpoint.encode_tunnel()
        host, port = endpoint.address
        secure = None if tunnel is not None else endpoint.ssl_context
        _, connection = await loop.create_connection(
            lambda: _AsyncConnection(loop, self._response_bytes_max),
            host,
            port,
            ssl=secure,
            server_hostname=endpoint.host if secure else None,
        )
        if tunnel is None:
            return connection
        try:
            await connection.open_tunnel(tunnel, endpoint, self._timeout)
        except BaseException:
            connection.close()
            raise
        return connection


class _AsyncConnection(asyncio.Protocol):
    """One connection, one exchange at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, response_bytes_max: int) -> None:
        self._loop = loop
        self._response_bytes_max = response_bytes_max
        self._parser = ResponseParser(response_bytes_max)
        self._transport: asyncio.Transport | None = None
        self._response: asyncio.Future[HttpResponse] | None = None
        self._heard_at = 0.0
        """The time of the last byte, by the loop's clock."""

    @property
    def is_open(self) -> bool:
        """Whether another request may be sent."""
        return self._transport is not None and self._parser.reusable

    async def exchange(self, data: bytes, silence_seconds: float) -> HttpResponse:
        """Send a request and return the response."""
        if self._transport is None:
            raise TransportError("the connection was closed", sent=False)
        response: asyncio.Future[HttpResponse] = self._loop.create_future()
        self._response = response
        self._heard_at = self._loop.time()
        timer = self._loop.call_later(
            silence_seconds, self._check_silence, response, silence_seconds
        )
        self._transport.write(data)
        try:
            return await response
        finally:
            timer.cancel()
            self._response = None
            if not self._parser.reusable:
                self.close()

    async def open_tunnel(self, data: bytes, endpoint: Endpoint, silence_seconds: float) -> None:
        """Make the proxy open a tunnel, and encrypt everything that follows."""
        self._parser = ResponseParser(tunnel=True)
        check_tunnel(await self.exchange(data, silence_seconds))
        assert self._transport is not None and endpoint.ssl_context is not None
        secured = await self._loop.start_tls(
            self._transport, self, endpoint.ssl_context, server_hostname=endpoint.host
        )
        self._transport = cast("asyncio.Transport", secured)
        self._parser = ResponseParser(self._response_bytes_max)

    def close(self) -> None:
        """Abort the connection."""
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    def _check_silence(
        self, response: "asyncio.Future[HttpResponse]", silence_seconds: float
    ) -> None:
        if response.done():
            return
        left = self._heard_at + silence_seconds - self._loop.time()
        if left > 0:
            self._loop.call_later(left, self._check_silence, response, silence_seconds)
        else:
            self._fail(f"no response for {silence_seconds:g} s")

    def _fail(self, problem: str) -> None:
        if self._response is not None and not self._response.done():
            self._response.set_exception(TransportError(problem, sent=True))

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._response is None:  # Bytes that no request asked for.
            self.close()
            return
        self._heard_at = self._loop.time()
        try:
            response = self._parser.feed(data)
        except TransportError as exc:
            self._fail(str(exc))
            return
        if response is not None and not self._response.done():
            self._response.set_result(response)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._response is None or self._response.done():
            return
        response = self._parser.end()
        if exc is None and response is not None:
            self._response.set_result(response)
        else:
            self._fail(str(exc) if exc else "the connection was closed")

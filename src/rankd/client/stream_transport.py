"""Responses that do not end: their head, and then their body as it arrives.

Each has a connection of its own. Silence for longer than ``silence_seconds`` counts as a lost
connection: the service sends a sign of life more often.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, Iterator
from contextlib import suppress

import httptools

from rankd.http_client import (
    READ_BYTES,
    Endpoint,
    HttpRequest,
    HttpResponse,
    ResponseParser,
    TransportError,
    check_tunnel,
    connect,
)

HEAD_AND_ERROR_BYTES_MAX = 1 << 20
"""The head of a response, and the body of one that is an error."""


class StreamParser:
    """Parses one response as it arrives."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._parts: list[bytes] = []
        self._size = 0
        self.head: HttpResponse | None = None
        """The response without its body, once the head has arrived."""
        self.is_complete = False

    def feed(self, data: bytes) -> None:
        """Parse bytes of the connection. Raises TransportError if they are not HTTP."""
        self._size += len(data)
        if self.head is None and self._size > HEAD_AND_ERROR_BYTES_MAX:
            raise TransportError("the head of the response is too long", sent=True)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, UnicodeDecodeError):
            raise TransportError("the response is not HTTP", sent=True) from None

    def take(self) -> bytes:
        """Return the part of the body that arrived since the last call."""
        data = b"".join(self._parts)
        self._parts.clear()
        return data

    # Called by httptools.

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header."""
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """Tell that the head is there."""
        self.head = HttpResponse(self._parser.get_status_code(), self._headers, b"")

    def on_body(self, data: bytes) -> None:
        """Store a part of the body."""
        self._parts.append(data)

    def on_message_complete(self) -> None:
        """Tell that it is over."""
        self.is_complete = True


class SyncStream:
    """A response for a thread. Raises TransportError."""

    def __init__(self, endpoint: Endpoint, request: HttpRequest, silence_seconds: float) -> None:
        try:
            self._socket = connect(endpoint, silence_seconds)
        except (OSError, ValueError) as exc:
            raise TransportError(str(exc) or type(exc).__name__, sent=False) from exc
        self._parser = StreamParser()
        try:
            self._socket.settimeout(silence_seconds)
            self._socket.sendall(endpoint.encode(request))
            while self._parser.head is None:
                self._receive()
        except BaseException as exc:
            self.close()
            if isinstance(exc, OSError):
                raise TransportError(str(exc), sent=True) from exc
            raise
        self.head = self._parser.head

    def _receive(self) -> None:
        data = self._socket.recv(READ_BYTES)
        if not data:
            raise TransportError("the connection was closed", sent=True)
        self._parser.feed(data)

    def parts(self) -> Iterator[bytes]:
        """Yield the parts of the body; a lost connection raises TransportError."""
        try:
            while not self._parser.is_complete:
                if part := self._parser.take():
                    yield part
                self._receive()
            yield self._parser.take()
        except OSError as exc:
            raise TransportError(str(exc) or type(exc).__name__, sent=True) from exc
        finally:
            self.close()

    def cut(self) -> None:
        """End the connection, so that a thread that reads from it goes on."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection."""
        with suppress(OSError):
            self._socket.close()


class AsyncStream:
    """A response for a task: ``open`` makes one."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, silence_seconds: float
    ) -> None:
        self._reader, self._writer = reader, writer
        self._silence_seconds = silence_seconds
        self._parser = StreamParser()
        self.head: HttpResponse

    @classmethod
    async def open(
        cls, endpoint: Endpoint, request: HttpRequest, silence_seconds: float
    ) -> "AsyncStream":
        """Send a request, and return its response once the head is there."""
        try:
            async with asyncio.timeout(silence_seconds):
                reader, writer = await _connect(endpoint)
        except (OSError, ValueError) as exc:  # TimeoutError is an OSError.
            raise TransportError(str(exc) or type(exc).__name__, sent=False) from exc
        stream = cls(reader, writer, silence_seconds)
        try:
            writer.write(endpoint.encode(request))
            while stream._parser.head is None:
                await stream._receive()
        except BaseException:
            await stream.close()
            raise
        stream.head = stream._parser.head
        return stream

    async def _receive(self) -> None:
        try:
            async with asyncio.timeout(self._silence_seconds):
                data = await self._reader.read(READ_BYTES)
        except OSError as exc:
            raise TransportError(str(exc) or type(exc).__name__, sent=True) from exc
        if not data:
            raise TransportError("the connection was closed", sent=True)
        self._parser.feed(data)

    async def parts(self) -> AsyncGenerator[bytes, None]:
        """Yield the parts of the body; a lost connection raises TransportError."""
        try:
            while not self._parser.is_complete:
                if part := self._parser.take():
                    yield part
                await self._receive()
            yield self._parser.take()
        finally:
            await self.close()

    async def close(self) -> None:
        """Close the connection."""
        self._writer.transport.abort()
        with suppress(OSError, ssl.SSLError):
            await self._writer.wait_closed()


async def _connect(endpoint: Endpoint) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    tunnel = endpoint.encode_tunnel()
    host, port = endpoint.address
    secure = None if tunnel is not None else endpoint.ssl_context
    reader, writer = await asyncio.open_connection(
        host, port, ssl=secure, server_hostname=endpoint.host if secure else None
    )
    if tunnel is not None:
        assert endpoint.ssl_context is not None
        try:
            writer.write(tunnel)
            check_tunnel(await _tunnel_answer(reader))
            await writer.start_tls(endpoint.ssl_context, server_hostname=endpoint.host)
        except BaseException:
            writer.transport.abort()
            raise
    return reader, writer


async def _tunnel_answer(reader: asyncio.StreamReader) -> HttpResponse:
    parser = ResponseParser(tunnel=True)
    while True:
        data = await reader.read(READ_BYTES)
        response = parser.feed(data) if data else parser.end()
        if response is not None:
            return response
        if not data:
            raise TransportError("the connection was closed", sent=False)

"""An HTTP/1.1 client: a codec, a transport for threads, and one for the tasks of an event loop.

It follows no redirects and stores no cookies. The Python client of the service uses it, and the
service itself, to fetch the keys that verify tokens.
"""

import asyncio
import os
import select
import socket
import ssl
import threading
from base64 import b64encode
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from ipaddress import ip_address
from typing import NamedTuple, Protocol, cast
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import httptools

RESPONSE_BYTES_MAX = 256 * 1024 * 1024
"""Head and body of one response. The longest page of the service is a few hundred kilobytes."""


class HttpRequest(NamedTuple):
    """A request to one endpoint."""

    method: str
    path: str
    """Percent-encoded, with its query."""
    headers: Mapping[str, str]
    body: bytes | None = None
    timeouts: float = 0.0
    """Seconds without a byte to wait for, if more than the transport's timeout."""


class HttpResponse(NamedTuple):
    """A complete response."""

    status: int
    headers: Mapping[str, str]
    """By name in lower case."""
    body: bytes


class TransportError(Exception):
    """There was no response: the connection failed, broke off or stayed silent."""

    def __init__(self, problem: str, *, sent: bool) -> None:
        super().__init__(problem)
        self.sent = sent
        """Whether the request may have arrived."""


class Transport(Protocol):
    """Sends requests for threads: ``SyncTransport``, or a fake without a network."""

    def send(self, request: HttpRequest) -> HttpResponse:
        """Return the response. Raises TransportError."""

    def close(self) -> None:
        """Close the idle connections."""


class AwaitableTransport(Protocol):
    """Sends requests for tasks: ``AsyncTransport``, or a fake without a network."""

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Return the response. Raises TransportError."""

    async def close(self) -> None:
        """Close the idle connections."""


def encode_request(request: HttpRequest, *, target: str, common: bytes) -> bytes:
    """Return the bytes of a request. ``common`` has the header lines of every request.

    Raises ValueError for a header value that is not printable text on one line.
    """
    lines = [f"{request.method} {target} HTTP/1.1\r\n".encode("ascii"), common]
    for name, value in request.headers.items():
        if not value.isprintable():
            raise ValueError(f"the header {name} must be printable text on one line")
        lines.append(f"{name}: {value}\r\n".encode("latin-1"))
    body = request.body
    if body is not None:
        lines.append(b"content-length: %d\r\n" % len(body))
    lines.append(b"\r\n")
    if body is not None:
        lines.append(body)
    return b"".join(lines)


class ResponseParser:
    """Parses the responses of one connection, one after another.

    The code refers to these rules by number:

    1. A response of status 1xx is skipped: another one follows.
    2. A response of status 304 has no body, even with a content-length.
    3. A response without a length ends with its connection.
    4. A proxy that opens a ``tunnel`` answers 200 without a body, even with a content-length.
    """

    def __init__(self, bytes_max: int = RESPONSE_BYTES_MAX, *, tunnel: bool = False) -> None:
        self._bytes_max = bytes_max
        self._tunnel = tunnel
        self.reusable = True
        """Whether another request may follow on this connection."""
        self._begin()

    def _begin(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._size = 0
        self._response: HttpResponse | None = None

    def feed(self, data: bytes) -> HttpResponse | None:
        """Parse bytes of the connection; return the response that they complete.

        Raises TransportError if they are not HTTP or exceed the limit.
        """
        self._size += len(data)
        if self._size > self._bytes_max:
            raise TransportError(f"a response of over {self._bytes_max:,} bytes", sent=True)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, UnicodeDecodeError):
            if self._response is None:
                raise TransportError("the response is not HTTP", sent=True) from None
            self.reusable = False
        return self._take()

    def end(self) -> HttpResponse | None:
        """Handle the end of the connection; return the response that it completes (3)."""
        self.reusable = False
        lengthless = not self._headers.keys() & {"content-length", "transfer-encoding"}
        if self._parser.get_status_code() >= 200 and self._headers and lengthless:
            self._complete()
        return self._take()

    def _take(self) -> HttpResponse | None:
        response = self._response
        if response is not None:
            self._begin()
        return response

    def _complete(self) -> None:
        status = self._parser.get_status_code()
        self._response = HttpResponse(status, self._headers, b"".join(self._body))

    # Called by httptools.

    def on_message_begin(self) -> None:
        """Do not reuse a connection that sends an unrequested response."""
        self.reusable = self.reusable and self._response is None

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header; the last one of a name counts."""
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """Complete a response without a body (2, 4)."""
        status = self._parser.get_status_code()
        opened = self._tunnel and status == 200
        self.reusable = opened or self._parser.should_keep_alive()
        if status == 304:
            self.reusable = self.reusable and "content-length" not in self._headers
        if status == 304 or opened:
            self._complete()

    def on_body(self, data: bytes) -> None:
        """Store a part of the body."""
        self._body.append(data)

    def on_message_complete(self) -> None:
        """Complete the response, or skip it (1)."""
        if self._parser.get_status_code() < 200:
            self._headers = {}
        elif self._response is None:
            self._complete()


PORTS = {"http": 80, "https": 443}


class HttpProxy(NamedTuple):
    """An HTTP proxy."""

    host: str
    port: int
    authorization: str | None


class Endpoint:
    """A scheme, host and port, with the headers of every request to it.

    ``connect_to`` is the address of the host where that is known already. Raises ValueError for an
    invalid address.
    """

    def __init__(
        self,
        url: str,
        headers: dict[str, str],
        *,
        ssl_context: ssl.SSLContext | None = None,
        use_environment: bool = True,
        connect_to: tuple[str, int] | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in PORTS or not parts.hostname:
            raise ValueError("the address must be like http://127.0.0.1:8700")
        if parts.username is not None or parts.query or parts.fragment:
            raise ValueError("the address must have no name, password, query or fragment")
        self.url = url.rstrip("/")
        self.host = parts.hostname
        self.port = parts.port or PORTS[parts.scheme]
        self.ssl_context: ssl.SSLContext | None = None
        if parts.scheme == "https":
            self.ssl_context = ssl_context or ssl.create_default_context()
        self.proxy = _proxy_to(parts) if use_environment else None
        """None for this machine's own addresses: no proxy leads there."""
        self._connect_to = connect_to
        self._prefix = parts.path.rstrip("/")
        if self.proxy is not None and self.ssl_context is None:
            self._prefix = f"http://{parts.netloc}{self._prefix}"
            if self.proxy.authorization is not None:
                headers = {**headers, "proxy-authorization": self.proxy.authorization}
        self._common = b"".join(
            f"{name}: {value}\r\n".encode("latin-1")
            for name, value in {"host": parts.netloc, **headers}.items()
        )

    def encode(self, request: HttpRequest) -> bytes:
        """Return the bytes of a request to this endpoint. Raises ValueError."""
        return encode_request(request, target=self._prefix + request.path, common=self._common)

    def encode_tunnel(self) -> bytes | None:
        """Return the request that opens a tunnel through the proxy; None if none is needed."""
        if self.proxy is None or self.ssl_context is None:
            return None
        host = f"[{self.host}]" if ":" in self.host else self.host
        target, headers = f"{host}:{self.port}", {}
        if self.proxy.authorization is not None:
            headers["proxy-authorization"] = self.proxy.authorization
        common = f"host: {target}\r\n".encode("ascii")
        return encode_request(HttpRequest("CONNECT", "", headers), target=target, common=common)

    @property
    def address(self) -> tuple[str, int]:
        """The host and port to connect to: the proxy's, if there is one."""
        if self._connect_to is not None:
            return self._connect_to
        if self.proxy is not None:
            return self.proxy.host, self.proxy.port
        return self.host, self.port


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _proxy_to(parts: SplitResult) -> HttpProxy | None:
    """Return the proxy that HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY name."""
    assert parts.hostname is not None
    if is_loopback(parts.hostname) or proxy_bypass(parts.hostname):
        return None
    named = getproxies()
    url = named.get(parts.scheme) or named.get("all")
    if not url:
        return None
    proxy = urlsplit(url if "://" in url else f"http://{url}")
    if proxy.scheme != "http" or not proxy.hostname:
        raise ValueError("the proxy that the environment names must be like http://HOST:PORT")
    return HttpProxy(proxy.hostname, proxy.port or PORTS["http"], basic_authorization(proxy))


def basic_authorization(parts: SplitResult) -> str | None:
    """Return the header for the name and password in an address; None without a name."""
    if parts.username is None:
        return None
    known = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return f"Basic {b64encode(known.encode()).decode('ascii')}"


READ_BYTES = 65_536


class SyncTransport:
    """Sends requests over persistent connections. Threads may share it.

    A process that was forked opens connections of its own. ``timeout`` seconds bound the wait for a
    free connection, connecting, sending, and the silence between any two bytes of a response.
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
        self._connections_max = connections_max
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._free = threading.BoundedSemaphore(self._connections_max)
        self._idle: deque[_SyncConnection] = deque()

    def send(self, request: HttpRequest) -> HttpResponse:
        """Return the response. Raises TransportError, and ValueError for an invalid header."""
        data = self._endpoint.encode(request)
        if self._process != os.getpid():
            self.close()  # Of the copies alone: the parent's connections stay open.
            self._begin()
        free = self._free
        if not free.acquire(timeout=self._timeout):
            raise TransportError("every connection is busy", sent=False)
        try:
            connection = self._idle_connection() or self._connect()
            try:
                response = connection.exchange(data, max(self._timeout, request.timeouts))
            except BaseException:
                connection.close()
                raise
            if connection.reusable:
                self._idle.append(connection)
            else:
                connection.close()
            return response
        finally:
            free.release()

    def _connect(self) -> "_SyncConnection":
        return _SyncConnection(self._endpoint, self._timeout, self._response_bytes_max)

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().close()

    def _idle_connection(self) -> "_SyncConnection | None":
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            if not connection.is_closed_by_peer():
                return connection
            connection.close()


class _SyncConnection:
    """One socket, connected by its constructor. Raises TransportError."""

    def __init__(self, endpoint: Endpoint, timeout: float, response_bytes_max: int) -> None:
        try:
            self._socket = connect(endpoint, timeout)
        except (OSError, ValueError) as exc:
            raise TransportError(str(exc) or type(exc).__name__, sent=False) from exc
        self._parser = ResponseParser(response_bytes_max)

    @property
    def reusable(self) -> bool:
        return self._parser.reusable

    def exchange(self, data: bytes, timeout: float) -> HttpResponse:
        try:
            self._socket.settimeout(timeout)
            self._socket.sendall(data)
            return _receive(self._socket, self._parser)
        except OSError as exc:
            raise TransportError(str(exc) or type(exc).__name__, sent=True) from exc

    def is_closed_by_peer(self) -> bool:
        """Whether there is unrequested data to read: most likely the end of the connection."""
        return bool(select.select([self._socket], [], [], 0)[0])

    def close(self) -> None:
        with suppress(OSError):
            self._socket.close()


def connect(endpoint: Endpoint, timeout: float) -> socket.socket:
    """Return a socket that is connected to an endpoint. Raises OSError and ValueError."""
    connection = socket.create_connection(endpoint.address, timeout)
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        tunnel = endpoint.encode_tunnel()
        if tunnel is not None:
            connection.sendall(tunnel)
            check_tunnel(_receive(connection, ResponseParser(tunnel=True)))
        if endpoint.ssl_context is not None:
            return endpoint.ssl_context.wrap_socket(connection, server_hostname=endpoint.host)
    except BaseException:
        connection.close()
        raise
    return connection


def _receive(connection: socket.socket, parser: ResponseParser) -> HttpResponse:
    while True:
        data = connection.recv(READ_BYTES)
        response = parser.feed(data) if data else parser.end()
        if response is not None:
            return response
        if not data:
            raise TransportError("the connection was closed", sent=True)


def check_tunnel(response: HttpResponse) -> None:
    """Raise TransportError unless a proxy opened a tunnel."""
    if response.status != 200:
        raise TransportError(f"the proxy answered {response.status}", sent=False)


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

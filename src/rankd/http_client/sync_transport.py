"""A pool of connections to one endpoint, for threads."""

import select
import socket
import threading
from collections import deque
from contextlib import suppress

from rankd.http_client.endpoint import Endpoint
from rankd.http_client.message import (
    RESPONSE_BYTES_MAX,
    HttpRequest,
    HttpResponse,
    ResponseParser,
    TransportError,
)

READ_BYTES = 65_536


class SyncTransport:
    """Sends requests over persistent connections. Threads may share it.

    ``timeout`` seconds bound the wait for a free connection, connecting, sending, and the silence
    between any two bytes of a response.
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
        self._free = threading.BoundedSemaphore(connections_max)
        self._idle: deque[_SyncConnection] = deque()

    def send(self, request: HttpRequest) -> HttpResponse:
        """Return the response. Raises TransportError, and ValueError for an invalid header."""
        data = self._endpoint.encode(request)
        if not self._free.acquire(timeout=self._timeout):
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
            self._free.release()

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
            self._socket = _connect(endpoint, timeout)
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


def _connect(endpoint: Endpoint, timeout: float) -> socket.socket:
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

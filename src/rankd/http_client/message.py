"""Requests and responses of HTTP/1.1 as bytes, independent of sockets."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

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

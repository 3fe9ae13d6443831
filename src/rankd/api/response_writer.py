"""Writing of responses: heads are rendered once a second, and responses are sent together."""

import asyncio
from collections.abc import Iterable
from typing import Protocol

from uvicorn.protocols.http.httptools_impl import STATUS_LINE
from uvicorn.server import ServerState

from rankd.api.app import App
from rankd.api.connection import DEAD, Phase
from rankd.api.messages import Header, Response

HEADS_MAX = 256
"""Cached heads, one for each combination of status, type, caching and headers."""


HeadKey = tuple[int, bytes, bytes, tuple[Header, ...]]
"""Status, type, caching and the response's own headers, without its ETag."""


class Recipient(Protocol):
    """The connection that a response is for."""

    phase: Phase
    transport: asyncio.Transport


class ResponseHeads:
    """Rendered response heads, cached until the date in them changes."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.settings = app.settings
        self._heads: dict[HeadKey, tuple[bytes, bytes]] = {}
        self._plain = b""
        """The head of nearly all responses: 200, JSON, ``no-store``."""
        self._default: list[Header] = []
        """uvicorn's headers, which precede ours. It makes a new list when the date changes."""

    def plain(self, state: ServerState) -> bytes:
        """Return the head of a plain 200, with the current date."""
        if self._default is not state.default_headers:
            self._renew(state.default_headers)
        return self._plain

    def encode(self, response: Response, state: ServerState) -> bytes:
        """Return a response's bytes, with the current date."""
        self.plain(state)
        headers, tag = response.headers, b""
        if headers and headers[0][0] == b"etag":  # It differs for each page, so it is not cached.
            tag, headers = b"etag: %b\r\n" % headers[0][1], headers[1:]
        key = response.status, response.content_type, response.cache_control, headers
        before, behind = self._heads.get(key) or self._render(key)
        body = response.body
        return b"".join((before, tag, behind, b"%d\r\n\r\n" % len(body), body))

    def _renew(self, default: list[Header]) -> None:
        self._default = default
        self._heads.clear()
        plain = Response()
        self._plain = b"".join(
            self._render((plain.status, plain.content_type, plain.cache_control, ()))
        )

    def _render(self, key: HeadKey) -> tuple[bytes, bytes]:
        """Return the head up to its own headers, and from there to the value of its length."""
        status, content_type, cache_control, own = key
        bare = Response(b"", status, content_type, cache_control)
        *common, length = self._app.headers_of(bare, 0)
        assert length == (b"content-length", b"0"), "an answer's length comes last"
        before = STATUS_LINE[status] + _lines(self._default) + _lines(common)
        head = before, _lines(own) + b"content-length: "
        if len(self._heads) >= HEADS_MAX:
            self._heads.clear()
        self._heads[key] = head
        return head


def _lines(headers: Iterable[Header]) -> bytes:
    return b"".join(b"%b: %b\r\n" % header for header in headers)


class ResponseWriter:
    """Writes responses together, at the end of the loop iteration.

    A client that waits for a response sleeps, and for the kernel waking it takes longer than
    copying the bytes: on a virtual machine such a write costs tens of microseconds. Of several
    responses in a row, only the first wakes the client.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._pending: list[tuple[Recipient, bytes]] = []

    def write(self, connection: Recipient, answer: bytes) -> None:
        """Write a response at the end of this iteration."""
        if not self._pending:
            self._loop.call_soon(self.flush)
        self._pending.append((connection, answer))

    def flush(self) -> None:
        """Write all pending responses now, because another write is about to follow."""
        pending, self._pending = self._pending, []
        for connection, answer in pending:
            if connection.phase is not DEAD:
                connection.transport.write(answer)

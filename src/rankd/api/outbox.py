"""Answers on their way out: their beginnings are kept, and they leave together."""

import asyncio
from typing import Protocol

from uvicorn.protocols.http.httptools_impl import STATUS_LINE
from uvicorn.server import ServerState

from rankd.api.app import App
from rankd.api.connection import DEAD, Phase
from rankd.api.exchange import Header, Response

HEADS_MAX = 256
"""Beginnings of answers kept, one for each status, type and caching that occurs."""


class Addressee(Protocol):
    """Whom an answer is for."""

    phase: Phase
    transport: asyncio.Transport


class Heads:
    """The beginnings of answers, kept for as long as the date in them is the date."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.settings = app.settings
        self.kept: dict[tuple[int, bytes, bytes, tuple[Header, ...]], bytes] = {}
        """By status and headers: an answer's bytes up to the value of its length."""
        self.plain = b""
        """That of nearly all answers: 200, JSON, not to be stored."""
        self.default: list[Header] = []
        """The headers uvicorn puts before ours, which it makes anew when the date changes."""

    def current(self, state: ServerState) -> bytes:
        """Return the beginning of nearly all answers, with the date as it is."""
        if self.default is not state.default_headers:
            self.renew(state.default_headers)
        return self.plain

    def letter(self, response: Response, state: ServerState) -> bytes:
        """Return an answer as it goes out, its head with the date as it is."""
        self.current(state)
        key = response.status, response.content_type, response.cache_control, response.headers
        head, body = self.kept.get(key) or self.make(response), response.body
        return b"".join((head, b"%d\r\n\r\n" % len(body), body))

    def renew(self, default: list[Header]) -> None:
        """Forget all, for the date has changed."""
        self.default = default
        self.kept.clear()
        self.plain = self.make(Response())

    def make(self, response: Response) -> bytes:
        """Return the beginning of an answer, and keep it."""
        headers = [*self.default, *self._app.headers_of(response, 0)]
        assert headers[-1] == (b"content-length", b"0"), "an answer's length comes last"
        lines = [b"%b: %b\r\n" % header for header in headers[:-1]]
        head = b"".join([STATUS_LINE[response.status], *lines, b"content-length: "])
        if len(self.kept) >= HEADS_MAX:
            self.kept.clear()
        key = response.status, response.content_type, response.cache_control, response.headers
        self.kept[key] = head
        return head


class Outbox:
    """Answers that go out together, once all that was read in this turn of the loop is answered.

    Whoever waits for an answer sleeps, and the system takes longer to wake it than to take the
    bytes: on a virtual machine a write to somebody asleep costs tens of microseconds. Of several
    answers in a row, only the first has to wake anybody.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: list[tuple[Addressee, bytes]] = []

    def post(self, connection: Addressee, answer: bytes) -> None:
        """Send an answer at the end of this turn."""
        if not self._waiting:
            self._loop.call_soon(self.send)
        self._waiting.append((connection, answer))

    def send(self) -> None:
        """Send what waits now: something else is about to be written."""
        waiting, self._waiting = self._waiting, []
        for connection, answer in waiting:
            if connection.phase is not DEAD:
                connection.transport.write(answer)

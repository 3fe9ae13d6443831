"""One connection: bounds on size and time, and one request at a time.

uvicorn parses HTTP and runs the application; this class is in front of it and adds bounds that
uvicorn lacks, because any client may connect:

* a bound on connections, on the head of a request and on the number of its headers;
* a deadline for a request to arrive whole, for a connection to be idle, for an answer to be read;
* refusals as problem documents (``problems``) that the client can read: after a refusal the
  connection is closed for writing, and further input is read and dropped for a while, because
  closing at once makes the kernel discard the data that the client has not read yet;
* one request at a time: bytes behind a request wait, unparsed, until its answer is written.
  Pipelining thus costs one buffer, not a parsed request for each twenty bytes;
* an answer for a client that half-closes after its request, as ``nc`` does.

Heads of responses are rendered once a second, and the responses of a loop iteration are written
together.

Invariants:
  (1) The parser is at the boundary between two requests exactly when the phase is IDLE or BLOCKED.
  (2) While bytes are held, nothing newer is fed before them, and reading is paused.
  (3) There is at most one unanswered request: in ``cycle``, or in the fast lane's EagerTask.
"""

import asyncio
import enum
from collections.abc import Iterable
from functools import partial
from typing import Any, Protocol, cast

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)
from uvicorn.server import ServerState

from rankd.api import messages
from rankd.api.app import WRITING, App
from rankd.api.messages import Header, Response, new_request_id
from rankd.api.stream_routes import SOCKET_PATH
from rankd.api.websocket_connection import WebSocketConnection
from rankd.errors import (
    HeadTooLarge,
    MalformedRequest,
    RankdError,
    RequestTimeout,
    Stopping,
    TooManyConnections,
)

PIECES_PER_TURN_MAX = 64
"""Pieces of a read parsed per loop iteration: many blank lines must not delay other connections."""

_HEAD_END = b"\r\n\r\n"
_TAIL = len(_HEAD_END) - 1
_METHOD_BYTES_MAX = max(map(len, WRITING)) + len(" ")
"""Bytes stored from the start of a request, enough for its method. The parser reports a method only
when it is complete, and a refusal must not depend on how the request was cut into reads."""


class Phase(enum.Enum):
    """The phase of a connection."""

    IDLE = enum.auto()
    """Between requests."""
    RECEIVING = enum.auto()
    """Part of a request has arrived."""
    ANSWERING = enum.auto()
    """A request has arrived whole and its answer is not written."""
    BLOCKED = enum.auto()
    """Between requests, and the client does not read: no further request is begun."""
    DEAD = enum.auto()
    """Refused or closed. Further input is dropped."""


IDLE, RECEIVING, ANSWERING = Phase.IDLE, Phase.RECEIVING, Phase.ANSWERING
BLOCKED, DEAD = Phase.BLOCKED, Phase.DEAD


class _Outlet:
    """The transport as uvicorn's cycle sees it, with a close that lingers."""

    def __init__(self, connection: "BoundedConnection") -> None:
        self._connection = connection
        self.write = connection.transport.write
        self.is_closing = connection.transport.is_closing

    def close(self) -> None:
        self._connection.close()


class _Flow(FlowControl):
    """uvicorn's flow control, except that it does not resume reading while bytes are held.

    An application that waits for its body makes uvicorn resume reading, even when the bytes that
    follow are the next ten thousand requests.
    """

    def __init__(self, connection: "BoundedConnection") -> None:
        super().__init__(connection.transport)
        self._connection = connection

    def resume_reading(self) -> None:
        if not self._connection.holds:
            super().resume_reading()


class BoundedConnection(HttpToolsProtocol):
    """uvicorn's protocol with bounds. Serves every route through the application."""

    def __init__(self, app: App, **uvicorns: Any) -> None:
        super().__init__(**uvicorns)
        self.rankd = app
        self.settings = app.settings
        self.client_address = ""
        self.phase = IDLE
        self._held = b""
        self._stopping = False
        self._at_eof = False
        self._deadline: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._outlet: _Outlet
        # State of the request that is being received:
        self._head_bytes = 0
        self._head_done = False
        self._begin = b""
        self._body_left: int | None = None  # None while the length is unknown.
        self._tail = b""
        self._refusal: RankdError | None = None
        self._early = b""

    @property
    def holds(self) -> bool:
        """Whether bytes of later requests are held."""
        return bool(self._held)

    @property
    def _open_cycle(self) -> RequestResponseCycle | None:
        """The application's unanswered request, if any."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return None if cycle is None or cycle.response_complete else cycle

    # ---------------------------------------------------------------- begin and end

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection; refuse it beyond ``connections_max`` or while stopping."""
        super().connection_made(transport)
        self._outlet, self.flow = _Outlet(self), _Flow(self)
        self.client_address = self.client[0] if self.client else ""
        self.set_deadline(self.settings.idle_seconds_max)
        if len(self.connections) > self.settings.connections_max:
            # No lingering: no request was read, and lingering connections would add to the excess.
            self.connections.discard(self)
            error = TooManyConnections(connections_max=self.settings.connections_max)
            self._refuse(error, linger=False)
        elif getattr(self.server_state, "stopping", False):
            self._refuse(Stopping(), linger=False)

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop all state. A running handler goes on: a lost connection undoes no write."""
        self.phase = DEAD
        self._held = b""
        self._forget_timer()
        super().connection_lost(exc)

    def eof_received(self) -> bool | None:  # type: ignore[override]
        """Keep the connection open for an answer that is not begun; otherwise let it close."""
        self._at_eof = True
        cycle = self._open_cycle
        if cycle is not None and cycle.response_started:
            return False  # A stream whose client has closed its side.
        if self.phase is RECEIVING and cycle is not None:
            # The request never arrives whole, but the application may still refuse it: let it run
            # first.
            self.loop.call_soon(self._close_if_over)
            return True
        return self.phase is ANSWERING or self.holds

    def shutdown(self) -> None:
        """Finish the current request and close. Called when the server stops."""
        self._stopping = True
        if self.phase in (IDLE, BLOCKED, DEAD):
            self.close()
        elif self._open_cycle is not None:
            self._open_cycle.keep_alive = False

    def close(self) -> None:
        """Close for good, in a way that lets the client read the last answer."""
        answered = self.phase in (RECEIVING, ANSWERING)
        self.phase, self._held = DEAD, b""
        if answered:  # More input may follow; closing at once would discard the answer.
            self._linger()
        else:
            self.transport.close()
            self.set_deadline(self.settings.send_seconds_max)

    def _linger(self) -> None:
        lingers = self.settings.linger_seconds_max and self.transport.can_write_eof()
        if lingers and not self._at_eof:
            self.transport.write_eof()
            self.flow.resume_reading()
            self.set_deadline(self.settings.linger_seconds_max)
        else:
            self.transport.close()
            self.set_deadline(self.settings.send_seconds_max)

    # -------------------------------------------------------------------- deadlines

    def set_deadline(self, seconds: float | None) -> None:
        """Set the phase's deadline; None for no limit. A later deadline keeps the timer."""
        if seconds is None:
            self._deadline = None
            return
        self._deadline = deadline = self.loop.time() + seconds
        if self._timer is not None and self._timer.when() > deadline:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = self.loop.call_at(deadline, self._on_timer)

    def _forget_timer(self) -> None:
        self._deadline = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timer(self) -> None:
        self._timer = None
        if self._deadline is None:
            return
        if self.loop.time() < self._deadline:
            self._timer = self.loop.call_at(self._deadline, self._on_timer)
        elif self.phase is DEAD or self.flow.write_paused:
            self.transport.abort()
        elif self.phase is RECEIVING:
            self._refuse(RequestTimeout(seconds_max=self.settings.request_seconds_max))
        elif self.phase is IDLE:
            self.close()

    # ---------------------------------------------------------------------- reading

    def data_received(self, data: bytes) -> None:
        """Process bytes in the order they arrived."""
        if self._held or self.phase is ANSWERING or self.phase is BLOCKED:
            self._hold(data)
        elif self.phase is not DEAD:
            self._take(data)

    def _take(self, data: bytes) -> None:
        """Serve the requests in these bytes, one at a time."""
        self._feed(data)

    def _hold(self, data: bytes) -> None:
        self._held += data
        self.flow.pause_reading()

    def _replay(self) -> None:
        """Process the held bytes, unless an answer is still pending."""
        if self.phase in (IDLE, RECEIVING) and self._held:
            data, self._held = self._held, b""
            self.flow.resume_reading()
            self._take(data)
        self.loop.call_soon(self._close_if_over)

    def _close_if_over(self) -> None:
        """Close if no further request can be served on this connection."""
        if self._held or self.phase not in (IDLE, RECEIVING):
            return
        if self._at_eof or (self._stopping and self.phase is IDLE):
            self.close()

    def _feed(self, data: bytes) -> None:
        """Feed the parser up to the end of one request, and hold the rest."""
        for _ in range(PIECES_PER_TURN_MAX):
            size = self._piece(data)
            if not self._head_done:
                room = self.settings.request_head_bytes_max - self._head_bytes
                self._head_bytes += size
                if len(self._begin) < _METHOD_BYTES_MAX:
                    begin = (self._begin + data[: min(size, room)]).lstrip(b"\r\n")
                    self._begin = begin[:_METHOD_BYTES_MAX]
                if size > room:  # An error before the bound is reported first, however it was cut.
                    super().data_received(data[:room])
                    if self.phase is not DEAD:
                        self._refuse(self._head_too_large())
                    return
            self._early = data[size:]
            super().data_received(data[:size])
            self._tail = data[max(0, size - _TAIL) : size]
            data = data[size:]
            if not data or self.phase in (ANSWERING, DEAD):
                break
        if self.phase is DEAD:
            return
        if data:
            self._hold(data)
            if self.phase is not ANSWERING:
                self.loop.call_soon(self._replay)

    def _piece(self, data: bytes) -> int:
        """Return how many bytes can be fed without reaching into the next request."""
        if self._body_left is not None:
            return min(self._body_left, len(data))
        # A head ends with a blank line, as does a chunked body. It may have begun in an earlier
        # read.
        begun = (self._tail + data[:_TAIL]).find(_HEAD_END)
        if begun >= 0:
            return max(1, begun + len(_HEAD_END) - len(self._tail))
        found = data.find(_HEAD_END)
        return len(data) if found < 0 else found + len(_HEAD_END)

    # ------------------------------------------------- callbacks of the parser, in order

    def on_message_begin(self) -> None:
        """Begin a request, and its deadline."""
        if self.phase is ANSWERING:
            raise MalformedRequest("a request begins inside another")
        super().on_message_begin()
        self.phase = RECEIVING
        self._head_done, self._body_left = False, None
        self.set_deadline(self.settings.request_seconds_max)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header. Raises HeadTooLarge at one too many. Trailers of the body are dropped."""
        if self._head_done:
            return
        super().on_header(name, value)
        if len(self.headers) > self.settings.request_headers_max:
            self._refusal = self._head_too_large()
            raise self._refusal

    def on_headers_complete(self) -> None:
        """Start the application, which waits for the body."""
        self._head_done = True
        for name, value in self.headers:
            if name == b"content-length":
                self._body_left = int(value)
        super().on_headers_complete()
        if self.parser.should_upgrade() and self._should_upgrade():
            return
        self.cycle.transport = cast("asyncio.Transport", self._outlet)
        if self._stopping:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """Pass on a part of the body."""
        if self._body_left is not None:
            self._body_left -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request. The deadline for its arrival no longer applies."""
        super().on_message_complete()
        self._head_bytes, self._head_done, self._body_left = 0, False, None
        self._begin = b""
        if self.phase is RECEIVING:
            self.phase = ANSWERING
            self.set_deadline(None)
            if self._open_cycle is None:
                self._ready_for_next()

    def on_response_complete(self) -> None:
        """Go on to the next request: the application has written its answer."""
        self.server_state.total_requests += 1
        if self.phase is ANSWERING:
            self._ready_for_next()

    def _ready_for_next(self) -> None:
        self.phase = BLOCKED if self.flow.write_paused else IDLE
        blocked = self.phase is BLOCKED
        self.set_deadline(
            self.settings.send_seconds_max if blocked else self.settings.idle_seconds_max
        )
        if self._held or self._at_eof or self._stopping:
            # Not now: the application's task may be running, and must not run the next request.
            self.loop.call_soon(self._replay)
        else:
            self.flow.resume_reading()

    def _should_upgrade(self) -> bool:
        path = self.url.partition(b"?")[0]
        return self._get_upgrade() == b"websocket" and path == SOCKET_PATH.encode()

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection to a WebSocketConnection, which has its own deadlines."""
        self._forget_timer()
        self.phase = DEAD
        self.connections.discard(self)
        socket = WebSocketConnection(
            self.rankd, self.transport, self.server_state, partial(self.encode, closing=True)
        )
        self.transport.set_protocol(socket)
        method, early = self.scope["method"], self._early
        socket.open(self.url, self.headers, self.client_address, method, early)

    def encode_head(self, response: Response) -> bytes:
        """Return the head of a response whose body is sent in chunks."""
        headers = [*self.server_state.default_headers]
        headers += self.rankd.headers_of(response, 0)[:-1]
        headers.append((b"transfer-encoding", b"chunked"))
        lines = [b"%b: %b\r\n" % header for header in headers]
        return b"".join([STATUS_LINE[response.status], *lines, b"\r\n"])

    def _unsupported_upgrade_warning(self) -> None:
        """Answer a request for an unsupported upgrade without the upgrade, then close."""
        if self._open_cycle is not None:
            self._open_cycle.keep_alive = False

    # ---------------------------------------------------------------------- writing

    def pause_writing(self) -> None:
        """Begin no further request while the client does not read."""
        super().pause_writing()
        self.set_deadline(self.settings.send_seconds_max)
        if self.phase is IDLE:
            self.phase = BLOCKED

    def resume_writing(self) -> None:
        """Go on with a client that reads again."""
        super().resume_writing()
        if self.phase is BLOCKED:
            self.phase = ANSWERING
            self._ready_for_next()
        elif self.phase is ANSWERING:
            self.set_deadline(None)
        elif self.phase is RECEIVING:
            self.set_deadline(self.settings.request_seconds_max)

    def encode(self, response: Response, *, closing: bool) -> bytes:
        """Return a response's bytes, as uvicorn would write them."""
        headers = [*self.server_state.default_headers]
        headers += self.rankd.headers_of(response, len(response.body))
        if closing:
            headers.append((b"connection", b"close"))
        lines = [b"%b: %b\r\n" % header for header in headers]
        return b"".join([STATUS_LINE[response.status], *lines, b"\r\n", response.body])

    def send_400_response(self, msg: str) -> None:
        """Refuse a request that the parser rejected."""
        error = self._refusal or MalformedRequest("this is not a request of HTTP/1.1")
        if self.phase is ANSWERING:
            # Malformed bytes behind an unanswered request: answer that request, then close.
            self._unsupported_upgrade_warning()
            self._held = b""
        elif self._head_done and self._open_cycle is not None:
            # The application may refuse it for what came before, however both were cut into reads:
            # a body beyond its bound, say. It decides that as soon as it runs.
            self.phase = ANSWERING
            self._unsupported_upgrade_warning()
            self.loop.call_soon(self._refuse_unanswered, error)
        else:
            self._refuse(error)

    def _refuse_unanswered(self, error: RankdError) -> None:
        if self.phase is not DEAD:
            self._refuse(error)

    def _refuse(self, error: RankdError, *, linger: bool = True) -> None:
        """Send a refusal for the connection rather than a request, and close it."""
        self.phase, self._held = DEAD, b""
        if (cycle := self._open_cycle) is not None:
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started:
                self.transport.abort()
                return
        request_id = new_request_id()
        response = messages.refusal(error, request_id=request_id, writes=self._writes)
        code, what = messages.code_of(error), "before it had arrived"
        self.rankd.log.refused(request_id, status=response.status, code=code, what=what)
        self.transport.write(self.encode(response, closing=True))
        if linger:
            self._linger()
        else:
            self.transport.close()
            self.set_deadline(self.settings.send_seconds_max)

    @property
    def _writes(self) -> bool:
        """Whether the request being received writes, as far as its method is known."""
        method, space, _ = self._begin.partition(b" ")
        return bool(space) and method.decode("latin-1") in WRITING

    def _head_too_large(self) -> HeadTooLarge:
        return HeadTooLarge(
            bytes_max=self.settings.request_head_bytes_max,
            headers_max=self.settings.request_headers_max,
        )


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

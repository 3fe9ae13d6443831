"""A WebSocket: one connection with many subscriptions.

It takes over the transport of a connection whose request asked for the upgrade. Messages are
handled one after another; while too many wait, nothing more is read.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET
from uvicorn.protocols.http.httptools_impl import STATUS_LINE
from uvicorn.server import ServerState

from rankd import schemas
from rankd.api import messages, websocket
from rankd.api.app import App, gather_headers, read_origin
from rankd.api.messages import Header, Request, Response, decode_json
from rankd.api.stream_events import StreamEvent
from rankd.api.stream_routes import SOCKET_PATH, credential_of, stream_request
from rankd.api.streams import Credential, StreamHub, Subscription
from rankd.api.websocket import ProtocolError, close_frame, frame
from rankd.errors import (
    FieldError,
    Forbidden,
    InvalidRequest,
    MalformedRequest,
    RankdError,
    TooManyStreams,
)
from rankd.model.standing import NEIGHBOURS_MAX, PAGE_LIMIT_DEFAULT, PAGE_LIMIT_MAX

if TYPE_CHECKING:
    from rankd.api.context import ServiceContext

WAITING_MAX = 64
"""Messages of one connection that wait; then its bytes are left to the kernel."""

ID_LENGTH_MAX = 64

UNANSWERED_MAX = 3
"""Pings without any sign of life after which a connection counts as dead."""

_PING = frame(websocket.PING, b"")


class WebSocketConnection(asyncio.Protocol):
    """The connection, and the sink of its subscriptions."""

    def __init__(
        self,
        app: App,
        transport: asyncio.Transport,
        server_state: ServerState,
        refuse: Callable[[Response], bytes],
    ) -> None:
        self._app = app
        self._service: ServiceContext = app.service
        self.transport = transport
        self._connections = server_state.connections
        self._default_headers = server_state.default_headers
        self._refuse = refuse
        self._loop = asyncio.get_running_loop()
        self._reader = websocket.FrameReader()
        self._subscriptions: dict[str, Subscription] = {}
        self._messages: deque[bytes] = deque()
        self._task: asyncio.Task[None] | None = None
        self._credential: Credential
        self._request: Request
        self._is_open = self._is_paused = self._is_lost = False
        self._unanswered = 0
        self._deadline: asyncio.TimerHandle | None = None
        self._connections.add(self)  # type: ignore[arg-type]  # It is told when the server stops.

    # ---------------------------------------------------------------------- handshake

    def open(
        self, target: bytes, pairs: list[Header], client: str, method: str, early: bytes
    ) -> None:
        """Answer the request for the upgrade. ``early`` are bytes that followed it."""
        self._task = self._loop.create_task(self._shake(target, pairs, client, method, early))

    async def _shake(
        self, target: bytes, pairs: list[Header], client: str, method: str, early: bytes
    ) -> None:
        request = Request(method, SOCKET_PATH, {}, {}, {}, b"", client)
        route = self._app.router.find("GET", SOCKET_PATH).route
        try:
            request.headers = headers = gather_headers(pairs)
            accept = websocket.accept_of(headers)
            if accept is None or method != "GET" or b"host" not in headers:
                raise MalformedRequest("this is not a handshake of WebSocket 13")
            request.query = route.read_query(target.partition(b"?")[2].decode("ascii"))
            if request.query["ticket"] is None:
                self._check_origin(headers)
            self._credential = await credential_of(
                self._service, request, request.query["ticket"], None
            )
        except Exception as exc:
            self._end_with(self._refuse(self._app.refuse(exc, request, route)))
            return
        self._request = request
        self._app.note(request, 101)
        self._accept(accept)
        if early:
            self.data_received(early)

    def _accept(self, accept: bytes) -> None:
        if self._is_lost:
            return
        lines = [b"%b: %b\r\n" % header for header in self._default_headers]
        lines += [b"upgrade: websocket\r\n", b"connection: Upgrade\r\n"]
        lines.append(b"sec-websocket-accept: %b\r\n\r\n" % accept)
        self.transport.set_write_buffer_limits(high=self._service.settings.stream_buffer_bytes)
        self.transport.write(STATUS_LINE[101] + b"".join(lines))
        self._is_open, self._task = True, None
        self._hub.add_sink(self)
        self.transport.resume_reading()

    def _check_origin(self, headers: Mapping[bytes, bytes]) -> None:
        """Raise Forbidden for a page of another origin: browsers let any page open a WebSocket."""
        origin, settings = headers.get(b"origin"), self._app.settings
        if origin is None or settings.cors_reads_anywhere:
            return
        own = origin.partition(b"://")[2] == headers[b"host"]
        if not own and origin not in {read_origin(text) for text in settings.cors_origins}:
            raise Forbidden("pages of this origin may not: see cors_origins, or use a ticket")

    def _end_with(self, data: bytes) -> None:
        if not self._is_lost:
            self.transport.write(data)
            self.transport.close()

    # ----------------------------------------------------------------------- transport

    @property
    def _hub(self) -> StreamHub:
        return self._service.streams

    def data_received(self, data: bytes) -> None:
        """Read frames."""
        self._unanswered = 0
        try:
            for kind, message in self._reader.feed(data):
                self._take(kind, message)
        except ProtocolError as exc:
            self._close(exc.code, exc.reason)

    def _take(self, kind: int, message: bytes) -> None:
        if kind == websocket.TEXT:
            self._messages.append(message)
            if len(self._messages) >= WAITING_MAX:
                self.transport.pause_reading()
            if self._task is None and self._is_open:
                self._task = self._loop.create_task(self._handle_messages())
        elif kind == websocket.PING and not self._is_paused:
            self.transport.write(frame(websocket.PONG, message))
        elif kind == websocket.CLOSE:
            self._close(websocket.closing_code(message))

    def eof_received(self) -> bool:
        """Close: the client has gone."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """End all subscriptions."""
        del exc
        self._is_lost = True
        self._connections.discard(self)
        if self._is_open:
            self._hub.dropped += self._is_paused
            self._hub.remove_sink(self)
        for subscription in self._subscriptions.values():
            subscription.cancel()
        self._subscriptions.clear()
        self._messages.clear()
        if self._deadline is not None:
            self._deadline.cancel()

    def pause_writing(self) -> None:
        """Send nothing while too much is unread; then close for good."""
        self._is_paused = True
        seconds = self._service.settings.send_seconds_max
        self._deadline = self._loop.call_later(seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Send the missing events, now that the client reads again."""
        self._is_paused = False
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        for subscription in list(self._subscriptions.values()):
            subscription.resume()

    def shutdown(self) -> None:
        """Close, because the server stops."""
        self._close(websocket.GOING_AWAY, "the service stops")

    def _close(self, code: int, reason: str = "") -> None:
        if not self.transport.is_closing():
            if self._is_open:
                self.transport.write(close_frame(code, reason))
            self.transport.close()
            self._deadline = self._deadline or self._loop.call_later(
                self._service.settings.send_seconds_max, self.transport.abort
            )

    # ------------------------------------------------------------------------ messages

    async def _handle_messages(self) -> None:
        try:
            while self._messages and not self._is_lost:
                await self._handle(self._messages.popleft())
                if len(self._messages) == WAITING_MAX // 2:
                    self.transport.resume_reading()
        finally:
            self._task = None

    async def _handle(self, message: bytes) -> None:
        id: str | None = None
        try:
            command = decode_json(message, schemas.StreamCommand)
            if (command.subscribe is UNSET) == (command.unsubscribe is UNSET):
                raise InvalidRequest([FieldError("", "must have subscribe or unsubscribe")])
            if command.unsubscribe is not UNSET:
                self._unsubscribe(command.unsubscribe)
            elif command.subscribe is not UNSET:
                id = command.subscribe.id
                await self._subscribe(command.subscribe)
        except Exception as exc:
            self._tell(id, self._app.refuse(exc, self._request, None))

    def _unsubscribe(self, id: str) -> None:
        subscription = self._subscriptions.pop(id, None)
        if subscription is not None:
            subscription.cancel()

    async def _subscribe(self, wanted: schemas.StreamSubscribe) -> None:
        per_connection_max = self._service.settings.stream_connection_subscriptions_max
        if not 0 < len(wanted.id) <= ID_LENGTH_MAX:
            message = f"must be 1 to {ID_LENGTH_MAX} characters"
            raise InvalidRequest([FieldError("subscribe.id", message)])
        if wanted.id in self._subscriptions:
            raise InvalidRequest([FieldError("subscribe.id", "is subscribed already")])
        if len(self._subscriptions) >= per_connection_max:
            raise TooManyStreams(streams_max=per_connection_max)
        self._count(wanted.board)
        given = _read_numbers(wanted)
        await self._service.wait_for_head(wanted.board)
        subscription = await self._hub.subscribe(
            stream_request(wanted.board, given), self._credential, since=wanted.last_event_id
        )
        if self._is_lost:
            subscription.cancel()
            return
        subscription.id = msgspec.json.encode(wanted.id)
        self._subscriptions[wanted.id] = subscription
        subscription.attach(self)

    def _count(self, board: str) -> None:
        """Count a subscription as a read. Raises RateLimited."""
        if self._request.query["ticket"] is None:
            self._service.auth.admit(msgspec.structs.replace(self._request), "read", board)

    def _tell(self, id: str | None, response: Response) -> None:
        problem = msgspec.json.decode(response.body, type=messages.Problem)
        self._write_error(id, problem.status, problem.code, problem.detail)

    def _write_error(self, id: str | None, status: int, code: str, detail: str) -> None:
        if self._is_lost or self.transport.is_closing():
            return
        self._hub.sent["error"] += 1
        body = schemas.encode(schemas.StreamError(None, status, code, detail))
        begin = b'{"id":%b,"event":"error",' % msgspec.json.encode(id)
        self.transport.write(frame(websocket.TEXT, begin + body[1:]))

    # ------------------------------------------------------------------ the sink's part

    @property
    def ready(self) -> bool:
        """Whether the client reads its events."""
        return not self._is_paused and not self._is_lost

    def send(self, subscription: Subscription, event: StreamEvent) -> None:
        """Write an event."""
        self.transport.write(frame(websocket.TEXT, event.message(subscription.id)))

    def confirm(self, subscription: Subscription) -> None:
        """Nothing is said: the next message has the next change."""

    def end(self, subscription: Subscription, error: RankdError) -> None:
        """Tell why a subscription has ended."""
        id: str = msgspec.json.decode(subscription.id)
        self._subscriptions.pop(id, None)
        kind = messages.kind_of(error)
        self._write_error(id, kind.status, messages.code_of(error), messages.detail_of(error))

    def keep_alive(self) -> None:
        """Ping; give a client up that has not answered for long."""
        self._unanswered += 1
        if self._unanswered > UNANSWERED_MAX:
            self.transport.abort()
        else:
            self.transport.write(_PING)

    def stop(self) -> None:
        """Close: the service stops."""
        self.shutdown()


_BOUNDS = {
    "top": (1, PAGE_LIMIT_MAX),
    "around": (0, NEIGHBOURS_MAX),
    "last_event_id": (0, 2**63 - 1),
}


def _read_numbers(wanted: schemas.StreamSubscribe) -> dict[str, Any]:
    """Return the fields of a subscription with their defaults. Raises InvalidRequest."""
    given: dict[str, Any] = msgspec.structs.asdict(wanted)
    errors = [
        FieldError(f"subscribe.{name}", f"must be a whole number from {low} to {high}")
        for name, (low, high) in _BOUNDS.items()
        if given[name] is not None and not low <= given[name] <= high
    ]
    if given["numbers"] not in (None, "number", "string"):
        errors.append(FieldError("subscribe.numbers", "must be one of number, string"))
    if errors:
        raise InvalidRequest(errors)
    return {**given, "top": PAGE_LIMIT_DEFAULT if given["top"] is None else given["top"]}

"""The fast lane: a hot request that is complete in one read is answered inside that read.

What costs in a Python server is not parsing and not the handler. It is the task, the scope and
the several sends of each request. So for the hot routes none of them is made: the bytes are
looked at, the handler is started in place, and the answer goes out in one write.

The rule that keeps it honest: *in any doubt, the other lane.* This lane reads only heads that are
so plain that there is one way to read them, and leaves everything else to uvicorn's parser,
untouched: other versions, chunks, ``Expect``, ``Upgrade``, any ``Connection`` but keep-alive, a
header that is there twice, a target with a character outside the plainest set, fragments, HEAD,
errors of the path. What it does read it must answer with the bytes the other lane would have
sent; ``tests/http`` compares them.

Two things make it quick. A client sends the same headers with every request, and few request
lines make most requests: a bounded number of both is kept together with what they mean.
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from rankd.api.app import GZIP_BYTES_MIN, NO_CONTENT, App
from rankd.api.connection import ANSWERING, DEAD, IDLE, Connection
from rankd.api.drive import Drive
from rankd.api.exchange import Header, Request, Response
from rankd.api.routes import Prepared, Route, Take
from rankd.errors import RankdError

LINES_MAX = 4096
"""Request lines kept with their meaning. Forgotten all at once when full: cheaper than an order."""

LINE_BYTES_MAX = 256
"""A longer line is not kept, so that the memory it takes has a bound too."""

BLOCKS_MAX = 1024
"""Blocks of headers kept with their meaning, and forgotten in the same way."""

BLOCK_BYTES_MAX = 1024
"""A larger block is not kept."""

QUESTIONS_MAX = 1024
"""Kinds of requests kept with what answers them, and forgotten in the same way."""

HEADS_MAX = 256
"""Beginnings of answers kept, one for each status, type and caching that occurs."""

BURST_MAX = 32
"""Pipelined requests answered in one go. Then others get their turn."""

_DIGITS_MAX = 9
"""A Content-Length with more digits is left to the other lane, which refuses it."""

_TARGET = (
    bytes(range(ord("0"), ord("9") + 1))
    + b"/-._~:@!$&'()*+,;=%?"
    + bytes([*range(ord("a"), ord("z") + 1), *range(ord("A"), ord("Z") + 1)])
)
_TOKEN = _TARGET.translate(None, b"/:@(),;=?") + b"#^`|"
_PLAIN = _TARGET.translate(None, b"/:@!$&'()*+,;=%?")
"""What stands for itself wherever it stands."""
_VERSION = b" HTTP/1.1"
_POST = ord("P")
_VALUE = bytes(range(0x20, 0x7F))

_LEFT_TO_THE_OTHER = frozenset(
    (b"transfer-encoding", b"expect", b"upgrade", b"http2-settings", b"te", b"trailer")
)


class Head(NamedTuple):
    """A block of headers that has only one reading."""

    headers: Mapping[bytes, bytes]
    length: int
    """Of the body that follows."""
    plain: bool
    """Whether an answer's headers cannot depend on these: there is no Origin among them."""


def read_head(block: bytes, headers_max: int) -> Head | None:
    """Return the headers of a block of complete lines, or None in any doubt."""
    headers: dict[bytes, bytes] = {}
    lines = block.split(b"\r\n")
    lines.pop()  # The nothing behind the last line's end.
    if len(lines) > headers_max:
        return None
    for line in lines:
        name, colon, value = line.partition(b":")
        if not name or not colon or name.translate(None, _TOKEN) or value.translate(None, _VALUE):
            return None
        name = name.lower()
        if name in headers or name in _LEFT_TO_THE_OTHER:
            return None
        headers[name] = value.strip(b" ")
    if b"host" not in headers or headers.get(b"connection", b"keep-alive").lower() != b"keep-alive":
        return None
    length = headers.get(b"content-length", b"0")
    if not length.isdigit() or len(length) > _DIGITS_MAX:
        return None
    return Head(headers, int(length), b"origin" not in headers)


class Blocks:
    """Blocks of headers and their meaning, the recent ones kept."""

    def __init__(self, headers_max: int) -> None:
        self._headers_max = headers_max
        self._kept: dict[bytes, Head] = {}
        self.get = self._kept.get

    def read(self, block: bytes) -> Head | None:
        """Return what a block says, if there is one way to read it."""
        head = read_head(block, self._headers_max)
        if head is not None and len(block) <= BLOCK_BYTES_MAX:
            if len(self._kept) >= BLOCKS_MAX:
                self._kept.clear()
            self._kept[block] = head
        return head


class Line(NamedTuple):
    """What a request line asks for."""

    method: str
    path: str
    route: Route
    params: Mapping[str, str]
    query: Mapping[str, Any]
    body_max: int


class Lines:
    """Request lines and their meaning, the recent ones kept.

    Lines that name a player are nearly all different, and there are few kinds of them: what stands
    before the player and what stands behind it. So for these the kinds are kept, and a line of
    a known kind is read by cutting the player out of it.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._kept: dict[bytes, Line] = {}
        self._kinds: dict[tuple[bytes, bytes], Line] = {}
        self._marks = _marks(app.router.routes)
        self.get = self._kept.get

    def read(self, text: bytes) -> Line | None:
        """Return what a line asks for, if it is certain and one of the hot routes."""
        for mark, name in self._marks:
            start = text.find(mark) + len(mark)
            if start >= len(mark):
                return self._read_kind(text, start, name)
        line = self._read(text)
        if line is not None and len(text) <= LINE_BYTES_MAX:
            if len(self._kept) >= LINES_MAX:
                self._kept.clear()
            self._kept[text] = line
        return line

    def _read_kind(self, text: bytes, start: int, name: str) -> Line | None:
        value = text[start : text.rfind(b" ")]
        if b"/" in value or b"?" in value:
            value = value.partition(b"?")[0].partition(b"/")[0]
        plain = value and not value.translate(None, _PLAIN)
        kind = text[:start], text[start + len(value) :]
        known = self._kinds.get(kind)
        if known is not None and plain:
            path = text[len(known.method) + 1 : -len(_VERSION)].decode("ascii")
            params = {**known.params, name: value.decode("ascii")}
            return Line(
                known.method,
                path.partition("?")[0],
                known.route,
                params,
                known.query,
                known.body_max,
            )
        line = self._read(text)
        if line is not None and plain and name in line.params and len(text) <= LINE_BYTES_MAX:
            if len(self._kinds) >= LINES_MAX:
                self._kinds.clear()
            self._kinds[kind] = line
        return line

    def _read(self, text: bytes) -> Line | None:
        parts = text.split(b" ")
        if len(parts) != 3 or parts[2] != b"HTTP/1.1" or parts[0] == b"HEAD":
            return None
        method, target = parts[0], parts[1]
        if target[:1] != b"/" or target.translate(None, _TARGET) or target.count(b"?") > 1:
            return None
        path, _, query = target.decode("ascii").partition("?")
        try:
            route, params = self._app.router.find(method.decode("latin-1"), path)
            if not route.hot:
                return None
            values = route.read_query(query)
        except RankdError:
            return None
        return Line(route.method, path, route, params, values, self._app.body_max(route))


def _marks(routes: Iterable[Route]) -> list[tuple[bytes, str]]:
    """Return what stands before the second parameter of hot routes, and that parameter."""
    marks: dict[bytes, str] = {}
    for route in routes:
        before, brace, rest = route.path.partition("}/")[2].partition("{")
        if route.hot and brace:
            marks[f"/{before}".encode()] = rest.partition("}")[0]
    return list(marks.items())


class Questions:
    """Requests that differ in nothing but their path's last parameter, and what answers them.

    Most requests are of this kind: the same client asks the same of one player after another. The
    bytes before and behind the player are looked up as they came, headers included, so nothing
    of such a request is read twice; what it means is known since the first one was.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._kept: dict[bytes, Prepared] = {}
        self._taken: dict[bytes, Taking] = {}
        self.get, self.taking = self._kept.get, self._taken.get
        self.cut = _cutting(app.router.routes)

    def prepare(self, kind: bytes, route: Route, request: Request) -> None:
        """Keep what answers requests like this one, which has just been answered."""
        assert route.prepare is not None
        self._kept.pop(kind, None)
        prepared = route.prepare(self._app.service, request)
        if prepared is not None and len(kind) <= BLOCK_BYTES_MAX:
            if len(self._kept) >= QUESTIONS_MAX:
                self._kept.clear()
            self._kept[kind] = prepared

    def prepare_taking(self, head: bytes, length: int, route: Route, request: Request) -> None:
        """Keep what takes the bodies of requests with this head, of which one was just begun."""
        assert route.prepare_taking is not None
        self._taken.pop(head, None)
        take = route.prepare_taking(self._app.service, request)
        if take is not None and len(head) <= BLOCK_BYTES_MAX:
            if len(self._taken) >= QUESTIONS_MAX:
                self._taken.clear()
            self._taken[head] = Taking(take, len(head) + length, route, request)


class Taking(NamedTuple):
    """What takes the bodies of requests that have the same head."""

    take: Take
    size: int
    """Of the head and the body."""
    route: Route
    request: Request
    """The first of them."""


def _cutting(routes: Iterable[Route]) -> Callable[[bytes], re.Match[bytes] | None]:
    """Return what finds the last parameter in the bytes of a request for such a route."""
    plain = rb"[%b]" % re.escape(_PLAIN)
    starts = {
        re.sub(rb"\\{\w+\\}", lambda _: plain + b"+", re.escape(_before_last(route)))
        for route in routes
        if route.prepare is not None
    }
    # What ends the parameter must end it for the router, too: ``a:b`` is not the player ``a``.
    return re.compile(rb"(?:%b)(%b+)(?=[ /?])" % (b"|".join(sorted(starts)), plain)).match


def _before_last(route: Route) -> bytes:
    return f"{route.method} {route.path[: route.path.rindex('{')]}".encode()


class Heads:
    """The beginnings of answers, kept for as long as the date in them is the date."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.kept: dict[tuple[int, bytes, bytes, tuple[Header, ...]], bytes] = {}
        """By status and headers: an answer's bytes up to the value of its length."""
        self.plain = b""
        """That of nearly all answers: 200, JSON, not to be stored."""
        self.default: list[Header] = []
        """The headers uvicorn puts before ours, which it makes anew when the date changes."""

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
        self._waiting: list[tuple[FastLane, bytes]] = []

    def post(self, connection: "FastLane", answer: bytes) -> None:
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


class Memory:
    """What the connections of one application keep together."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.lines = Lines(app)
        self.blocks = Blocks(app.settings.request_headers_max)
        self.heads = Heads(app)
        self.questions = Questions(app)
        self.outbox: Outbox | None = None


class FastLane(Connection):
    """A connection that answers hot requests itself and leaves the others to uvicorn."""

    def __init__(self, memory: Memory, **uvicorns: Any) -> None:
        super().__init__(memory.app, **uvicorns)
        self._lines, self._blocks, self._heads = memory.lines, memory.blocks, memory.heads
        self._questions = memory.questions
        self._cut, self._prepared = memory.questions.cut, memory.questions.get
        self._taking = memory.questions.taking
        self._head_max = self.settings.request_head_bytes_max - 4
        self._idle_seconds = self.settings.idle_seconds_max
        self._logs = self.settings.access_log
        self._drive = Drive(self.loop)
        self._service = memory.app.service
        if memory.outbox is None:
            memory.outbox = Outbox(self.loop)
        self._outbox = memory.outbox

    def data_received(self, data: bytes) -> None:
        """Answer on the spot if that is possible."""
        if self.phase is IDLE and not self._held:
            known = self._take_at_once if data[0] == _POST else self._answer_at_once
            if not known(data):
                self._take(data)
        else:
            super().data_received(data)

    def _answer_at_once(self, data: bytes) -> bool:
        """Answer a request of a kind that is known; False if that is in any doubt."""
        cut = self._cut(data)
        if cut is None or self._head_bytes:
            return False
        start, end = cut.span(1)
        answer = self._prepared(data[:start] + data[end:])
        if answer is None or self._stopping:
            return False
        try:
            body = answer(data[start:end].decode("ascii"))
        except Exception:
            return False  # The handler meets it, too, and is answered for.
        if body is None or len(body) >= GZIP_BYTES_MIN:
            return False
        self._post(body)
        self._deadline = self.loop.time() + self._idle_seconds
        return True

    def _post(self, body: bytes) -> None:
        """Answer with 200 and JSON that nobody stores."""
        state, heads = self.server_state, self._heads
        state.total_requests += 1
        if heads.default is not state.default_headers:
            heads.renew(state.default_headers)
        self._outbox.post(self, b"%b%d\r\n\r\n%b" % (heads.plain, len(body), body))

    def _take_at_once(self, data: bytes) -> bool:
        """Have a request answered whose head is known; False if that is in any doubt."""
        end = data.find(b"\r\n\r\n") + 4
        taking = self._taking(data[:end])
        if taking is None or len(data) != taking.size or self._head_bytes or self._stopping:
            return False

        def answered(response: Response | Exception | None) -> None:
            self._answer_taken(response, data, taking)

        if not taking.take(data[end:], answered):
            return False
        self.phase = ANSWERING
        self._deadline = None
        return True

    def _answer_taken(
        self, response: Response | Exception | None, data: bytes, taking: Taking
    ) -> None:
        if self.phase is DEAD:
            return
        if response is None:
            # Not now: whoever tells this is a task of its own, and a handler is another.
            self.loop.call_soon(self._look_again, data)
        elif self._stopping or not isinstance(response, Response) or response.status != 200:
            request = msgspec.structs.replace(taking.request, body=b"", _request_id="")
            if not isinstance(response, Response):
                response = self.rankd.refuse(response, request, taking.route)
            self._answer(response, request, plain=True)
        else:
            self._post(response.body)
            if self._held or self._at_eof or self._timer is None or _paused(self.flow):
                self._ready_for_next()
            else:
                self.phase, self._deadline = IDLE, self.loop.time() + self._idle_seconds

    def _look_again(self, data: bytes) -> None:
        """Have the handler look at a request that was taken too early."""
        if self.phase is DEAD:
            return
        self.phase = IDLE
        if self._serve(data) != len(data):
            self._feed(data)
        elif self.phase is IDLE:  # Answered on the spot; what came behind it waits.
            self._ready_for_next()

    # What is about to be written or closed comes after the answers that wait.

    def _feed(self, data: bytes) -> None:
        self._outbox.send()
        super()._feed(data)

    def _refuse(self, error: RankdError, *, linger: bool = True) -> None:
        self._outbox.send()
        super()._refuse(error, linger=linger)

    def eof_received(self) -> bool | None:  # type: ignore[override]
        """Answer first what was asked before the end."""
        self._outbox.send()
        return super().eof_received()

    def close(self) -> None:
        """Close for good, behind the last answer."""
        self._outbox.send()
        super().close()

    def _take(self, data: bytes) -> None:
        for _ in range(BURST_MAX):
            size = 0 if self._head_bytes else self._serve(data)
            if not size:
                self._feed(data)
                return
            if size == len(data):
                return
            data = data[size:]
            if self.phase is not IDLE:
                if self.phase is not DEAD:
                    self._hold(data)
                return
        self._hold(data)
        self.loop.call_soon(self._replay)

    def _serve(self, data: bytes) -> int:
        """Serve the request these bytes begin with; return its size, or 0 to leave it be."""
        end = data.find(b"\r\n\r\n")
        if end < 0 or end > self._head_max or self.phase is not IDLE:
            return 0
        line_end = data.find(b"\r\n")
        block = data[line_end + 2 : end + 2]
        head = self._blocks.get(block) or self._blocks.read(block)
        if head is None:
            return 0
        headers, length, plain = head
        text = data[:line_end]
        line = self._lines.get(text) or self._lines.read(text)
        size = end + 4 + length
        if line is None or length > line.body_max or size > len(data):
            return 0
        method, path, route, params, query, _ = line
        body = data[end + 4 : size] if length else b""
        request = Request(method, path, params, query, headers, body, self.client_address)
        if route.quick is not None:
            try:
                response = route.quick(self._service, request)
            except Exception as exc:
                response = self.rankd.refuse(exc, request, route)
            if response is not None:
                self._answer(response, request, plain)
                if route.prepare is not None and size == len(data):
                    self._prepare(data, route, request, response, plain)
                return size
        if route.prepare_taking is not None and plain and size == len(data) and not self._logs:
            self._questions.prepare_taking(data[: end + 4], length, route, request)
        drive = self._drive
        if drive.start(route.handler(self._service, request)):
            self._finish(drive, request, route, plain)
            if route.prepare is not None and size == len(data):
                self._prepare(data, route, request, drive.result, plain)
        else:
            self._drive = Drive(self.loop)
            self._wait(drive, request, route, plain)
        return size

    def _prepare(
        self, data: bytes, route: Route, request: Request, response: object, plain: bool
    ) -> None:
        """Be quicker with the next request like this one, which is answered."""
        if not isinstance(response, Response) or response.status != 200 or not plain:
            return
        cut = self._cut(data)
        if cut is not None and len(response.body) < GZIP_BYTES_MIN and not self._logs:
            start, end = cut.span(1)
            self._questions.prepare(data[:start] + data[end:], route, request)

    def _wait(self, drive: Drive, request: Request, route: Route, plain: bool) -> None:
        """Let the request go on when what it waits for is done."""
        self.phase = ANSWERING
        self.set_deadline(None)
        self.tasks.add(drive)  # type: ignore[arg-type]

        def done(drive: Drive) -> None:
            self.tasks.discard(drive)
            self._finish(drive, request, route, plain)

        drive.on_done = done

    def _finish(self, drive: Drive, request: Request, route: Route, plain: bool) -> None:
        """Answer with what the handler gave, or with what went wrong."""
        response: Response = drive.result
        if type(response) is not Response:
            error = drive.error or TypeError(f"{route.operation} answered no Response")
            response = self.rankd.refuse(error, request, route)
        self._answer(response, request, plain)

    def _answer(self, response: Response, request: Request, plain: bool) -> None:
        """Write the answer, and be ready for the next request."""
        body = response.body
        if not plain or len(body) >= GZIP_BYTES_MIN:
            response = self.rankd.finish(request, response)
            body = response.body
        if self._logs:
            self.rankd.note(request, response.status)
        state = self.server_state
        state.total_requests += 1
        if self.phase is DEAD:
            return
        if self._stopping or response.status in NO_CONTENT:
            self._outbox.send()
            self.transport.write(self.encode(response, closing=self._stopping))
        else:
            heads = self._heads
            if heads.default is not state.default_headers:
                heads.renew(state.default_headers)
            status, cache, headers = response.status, response.cache_control, response.headers
            head = heads.kept.get((status, response.content_type, cache, headers))
            answer = b"".join((head or heads.make(response), b"%d\r\n\r\n" % len(body), body))
            self._outbox.post(self, answer)
        if self.phase is IDLE and not self._stopping:
            self._deadline = self.loop.time() + self._idle_seconds
        elif self._stopping:
            self.close()
        elif self.phase is ANSWERING:
            self._ready_for_next()


def _paused(flow: Any) -> bool:
    return bool(flow.write_paused or flow.read_paused)

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

Two things make it quick. A client sends the same headers with every request, so a block of
headers equal to the connection's last one is not parsed again. And few request lines make most
requests, so a bounded number of them is kept together with what they mean.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from rankd.api.app import GZIP_BYTES_MIN, NO_CONTENT, App
from rankd.api.connection import ANSWERING, BLOCKED, DEAD, IDLE, Connection
from rankd.api.drive import Drive
from rankd.api.exchange import Request, Response
from rankd.api.routes import Route
from rankd.errors import RankdError

LINES_MAX = 4096
"""Request lines kept with their meaning. Forgotten all at once when full: cheaper than an order."""

LINE_BYTES_MAX = 256
"""A longer line is not kept, so that the memory it takes has a bound too."""

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


class Line(NamedTuple):
    """What a request line asks for."""

    method: str
    path: str
    route: Route
    params: Mapping[str, str]
    query: Mapping[str, Any]
    body_max: int


class Lines:
    """Request lines and their meaning, the recent ones kept."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._kept: dict[bytes, Line] = {}
        self.get = self._kept.get

    def read(self, text: bytes) -> Line | None:
        """Return what a line asks for, if it is certain and one of the hot routes."""
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
        line = Line(route.method, path, route, params, values, self._app.body_max(route))
        if len(text) <= LINE_BYTES_MAX:
            if len(self._kept) >= LINES_MAX:
                self._kept.clear()
            self._kept[text] = line
        return line


class Heads:
    """The beginnings of answers, kept for as long as the date in them is the date."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._kept: dict[tuple[int, bytes, bytes], bytes] = {}
        self._default: object = None

    def of(self, response: Response, default: list[tuple[bytes, bytes]]) -> bytes:
        """Return an answer's bytes up to the value of its length. It has no headers of its own."""
        if default is not self._default or len(self._kept) >= HEADS_MAX:
            self._kept.clear()
            self._default = default
        key = (response.status, response.content_type, response.cache_control)
        head = self._kept.get(key)
        if head is None:
            headers = [*default, *self._app.headers_of(response, 0)]
            assert headers[-1] == (b"content-length", b"0"), "an answer's length comes last"
            lines = [b"%b: %b\r\n" % header for header in headers[:-1]]
            head = b"".join([STATUS_LINE[response.status], *lines, b"content-length: "])
            self._kept[key] = head
        return head


class FastLane(Connection):
    """A connection that answers hot requests itself and leaves the others to uvicorn."""

    def __init__(self, app: App, lines: Lines, heads: Heads, **uvicorns: Any) -> None:
        super().__init__(app, **uvicorns)
        self._lines, self._heads = lines, heads
        self._block = b""
        self._head: Head | None = None
        self._head_max = self.settings.request_head_bytes_max - 4
        self._idle_seconds = self.settings.idle_seconds_max
        self._drive: Drive | None = None

    def data_received(self, data: bytes) -> None:
        """Answer on the spot if that is possible."""
        if self.phase is IDLE and not self._held:
            self._take(data)
        else:
            super().data_received(data)

    def _take(self, data: bytes) -> None:
        for _ in range(BURST_MAX):
            size = self._serve(data) if self.phase is IDLE and not self._head_bytes else 0
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
        if end < 0 or end > self._head_max:
            return 0
        line_end = data.find(b"\r\n")
        block = data[line_end + 2 : end + 2]
        if block != self._block:
            self._block = block
            self._head = read_head(block, self.settings.request_headers_max)
        head = self._head
        if head is None:
            return 0
        text = data[:line_end]
        line = self._lines.get(text) or self._lines.read(text)
        if line is None or head.length > line.body_max:
            return 0
        size = end + 4 + head.length
        if size > len(data):
            return 0
        request = Request(
            line.method,
            line.path,
            line.params,
            line.query,
            head.headers,
            data[end + 4 : size] if head.length else b"",
            self.client_address,
        )
        drive = Drive(self.loop, line.route.handler(self.rankd.service, request))  # type: ignore[arg-type]
        if drive.start():
            self._finish(drive, request, line.route, head.plain)
        else:
            self._wait(drive, request, line.route, head.plain)
        return size

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
        """Write the answer, and be ready for the next request."""
        response: Response = drive.result
        if type(response) is not Response:
            error = drive.error or TypeError(f"{route.operation} answered no Response")
            response = self.rankd.refuse(error, request, route)
        if not plain or len(response.body) >= GZIP_BYTES_MIN:
            response = self.rankd.finish(request, response)
        if self.settings.access_log:
            self.rankd.note(request, response.status)
        self.server_state.total_requests += 1
        if self.phase is DEAD:
            return
        body = response.body
        if self._stopping or response.headers or response.status in NO_CONTENT:
            self.transport.write(self.encode(response, closing=self._stopping))
        else:
            head = self._heads.of(response, self.server_state.default_headers)
            self.transport.write(b"%b%d\r\n\r\n%b" % (head, len(body), body))
        if self._stopping:
            self.close()
        elif self.phase is ANSWERING:
            self._ready_for_next()
        elif self.phase is not BLOCKED:
            self._deadline = self.loop.time() + self._idle_seconds

"""Heads of requests: what a request line and a block of headers say, where there is no doubt.

Only heads that are so plain that there is one way to read them are read here; of all others it is
said that they are not. A client sends the same headers with every request, and few request lines
make most requests: a bounded number of both is kept together with what they mean.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from rankd.api.app import App
from rankd.api.routes import Route
from rankd.errors import RankdError

LINES_MAX = 4096
"""Request lines kept with their meaning. Forgotten all at once when full: cheaper than an order."""

LINE_BYTES_MAX = 256
"""A longer line is not kept, so that the memory it takes has a bound too."""

BLOCKS_MAX = 1024
"""Blocks of headers kept with their meaning, and forgotten in the same way."""

BLOCK_BYTES_MAX = 1024
"""A larger block is not kept."""

_DIGITS_MAX = 9
"""A Content-Length with more digits is left to the other lane, which refuses it."""

_TARGET = (
    bytes(range(ord("0"), ord("9") + 1))
    + b"/-._~:@!$&'()*+,;=%?"
    + bytes([*range(ord("a"), ord("z") + 1), *range(ord("A"), ord("Z") + 1)])
)
_TOKEN = _TARGET.translate(None, b"/:@(),;=?") + b"#^`|"
PLAIN = _TARGET.translate(None, b"/:@!$&'()*+,;=%?")
"""What stands for itself wherever it stands."""
_VERSION = b" HTTP/1.1"
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
        plain = value and not value.translate(None, PLAIN)
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

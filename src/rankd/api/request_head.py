"""Request heads, parsed strictly and once.

``parse_head`` returns a head only if it allows one interpretation, otherwise None, and uvicorn's
parser decides: other HTTP versions, chunks, ``Expect``, ``Upgrade``, any ``Connection`` but
keep-alive, a repeated header of SIGNIFICANT, bytes outside printable ASCII, HEAD.

Only the headers of SIGNIFICANT are stored: no handler reads another one. All others are validated
and skipped, so a header that differs with every request costs nothing.

The native parser (_request_head.pyx) is used if it was built. Otherwise, or with RANKD_PURE=1, the
one below is; tests compare the two.
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

SIGNIFICANT = (
    b"host",
    b"content-type",
    b"content-encoding",
    b"accept",
    b"authorization",
    b"if-none-match",
    b"idempotency-key",
    b"rankd-signature",
    b"x-forwarded-for",
    b"forwarded",
    b"origin",
    b"accept-encoding",
    b"content-length",
    b"last-event-id",
)
"""The headers that handlers read."""

WORD_SEGMENT = 5
"""The number of the path segment that is the word, with 0 for the empty one before the first slash.
"""

WORD_BYTES_MAX = 768
"""The longest id, with every byte escaped."""

OFFSET_NAME = b"offset="
"""The query parameter whose number is cut out of the key of a request without a word."""

DIGITS_MAX = 9
"""A Content-Length with more digits is left to the other parser, which refuses it; an offset with
more stays in the key."""

LEFT_ALONE = frozenset(
    (b"transfer-encoding", b"expect", b"upgrade", b"http2-settings", b"te", b"trailer")
)
"""Headers that change the framing of a request: left to the other parser."""

TARGET = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-._~!$&'*+%" + b"/:@(),;=?"
"""The bytes allowed in a target."""
TOKEN = TARGET.translate(None, b"/:@(),;=?") + b"#^`|"
"""The bytes allowed in a header's name."""
VALUE = bytes(range(0x20, 0x7F))
"""The bytes allowed in a header's value."""
_METHOD = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_HEX = b"0123456789abcdefABCDEF"
_HEAD_END = b"\r\n\r\n"

_PRESENCE = (
    (b"authorization",),
    (b"if-none-match",),
    (b"idempotency-key",),
    (b"x-forwarded-for", b"forwarded"),
    (b"origin",),
    (b"rankd-signature",),
)
"""Headers whose presence, but not value, is in the key."""


class RequestHead:
    """A head with only one interpretation. Same behaviour as ``_request_head.RequestHead``."""

    __slots__ = (
        *("colon", "end", "headers", "key", "length", "method", "offset", "path", "query", "word"),
    )

    def __init__(
        self, line: tuple[bytes, bytes, bytes | None], headers: dict[bytes, bytes], end: int
    ) -> None:
        method, path, query = line
        self.method = method.decode("ascii")
        """The method as sent."""
        self.path = path.decode("ascii")
        """Without the query, percent-encoded."""
        self.query = "" if query is None else query.decode("ascii")
        self.headers: Mapping[bytes, bytes] = headers
        """Those of SIGNIFICANT, by name in lower case."""
        self.end = end
        """The offset of the body."""
        self.length = int(headers.get(b"content-length", b"0"))
        """The length of the body in bytes."""
        before, word, behind = _cut_word(path)
        self.colon = b":" in word
        """Whether a verb may follow the word."""
        self.word: str | None = unquote_to_bytes(word).decode() if word else None
        """The segment WORD_SEGMENT of the path, decoded."""
        self.offset = 0
        """The offset in the query, if it is 1 or more, short, and there is no word; else 0."""
        if word:
            path = before + b"\0" + behind
        elif query is not None:
            query, self.offset = _cut_offset(query)
        self.key = _key(method, path, query, headers)
        """Everything that decides how the request is answered except the word or the offset, the
        body, the address and the credential: equal for requests that differ in these alone."""

    @property
    def authorization(self) -> bytes | None:
        """The Authorization header."""
        return self.headers.get(b"authorization")

    @property
    def forwarded_for(self) -> bytes | None:
        """The X-Forwarded-For header."""
        return self.headers.get(b"x-forwarded-for")

    @property
    def plain(self) -> bool:
        """Whether response headers cannot depend on the request's: there is no Origin."""
        return b"origin" not in self.headers


def _cut_word(path: bytes) -> tuple[bytes, bytes, bytes]:
    segments = path.split(b"/", WORD_SEGMENT)
    if len(segments) <= WORD_SEGMENT:
        return path, b"", b""
    word, slash, rest = segments[WORD_SEGMENT].partition(b"/")
    return path[: len(path) - len(word + slash + rest)], word, slash + rest


def _cut_offset(query: bytes) -> tuple[bytes, int]:
    """Return the query without the number of the first offset, and the number; 0 if it stays."""
    before, name, behind = (b"&" + query).partition(b"&" + OFFSET_NAME)
    digits = behind.partition(b"&")[0]
    if not digits.isdigit() or digits[:1] == b"0" or len(digits) > DIGITS_MAX:
        return query, 0
    return (before + name + b"\0" + behind[len(digits) :])[1:], int(digits)


def _key(method: bytes, path: bytes, query: bytes | None, headers: Mapping[bytes, bytes]) -> bytes:
    accept = headers.get(b"accept", b"")
    flags = sum(
        1 << place
        for place, names in enumerate(_PRESENCE)
        if any(name in headers for name in names)
    )
    return b"\n".join(
        (
            method + b" " + path + (b"" if query is None else b"?" + query),
            headers.get(b"host", b""),
            headers.get(b"content-type", b""),
            headers.get(b"content-encoding", b""),
            accept if b";" in accept else b"",
            b"%c" % (ord("@") + flags),
        )
    )


def parse_head_plain(data: bytes, bytes_max: int, headers_max: int) -> RequestHead | None:
    """Return the head at the start of these bytes; None if it is incomplete or in doubt."""
    end = data.find(_HEAD_END)
    if end < 0 or end + len(_HEAD_END) > bytes_max:
        return None
    first, *lines = data[:end].split(b"\r\n")
    line = _read_line(first)
    if line is None or len(lines) > headers_max:
        return None
    headers = _read_headers(lines)
    if headers is None:
        return None
    return RequestHead(line, headers, end + len(_HEAD_END))


def _read_line(line: bytes) -> tuple[bytes, bytes, bytes | None] | None:
    parts = line.split(b" ")
    if len(parts) != 3 or parts[2] != b"HTTP/1.1":
        return None
    method, target, _ = parts
    if not method or method.translate(None, _METHOD) or method == b"HEAD":
        return None
    if target[:1] != b"/" or target.translate(None, TARGET) or target.count(b"?") > 1:
        return None
    path, mark, query = target.partition(b"?")
    word = _cut_word(path)[1]
    if len(word) > WORD_BYTES_MAX or not _is_decodable(word):
        return None
    return method, path, query if mark else None


def _is_decodable(word: bytes) -> bool:
    for escaped in word.split(b"%")[1:]:
        if len(escaped) < 2 or escaped[:2].translate(None, _HEX):
            return False
    try:
        unquote_to_bytes(word).decode()
    except UnicodeDecodeError:
        return False
    return True


def _read_headers(lines: list[bytes]) -> dict[bytes, bytes] | None:
    headers: dict[bytes, bytes] = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        if not name or not colon or name.translate(None, TOKEN) or value.translate(None, VALUE):
            return None
        name, value = name.lower(), value.strip(b" ")
        if name in LEFT_ALONE or name in headers:
            return None
        if name in SIGNIFICANT or name == b"connection":
            headers[name] = value
    if b"host" not in headers or headers.pop(b"connection", b"keep-alive").lower() != b"keep-alive":
        return None
    length = headers.get(b"content-length", b"0")
    return headers if length.isdigit() and len(length) <= DIGITS_MAX else None


if TYPE_CHECKING or os.environ.get("RANKD_PURE", "") not in ("", "0"):
    parse_head = parse_head_plain
else:
    try:
        from rankd.api._request_head import parse_head
    except ImportError:
        parse_head = parse_head_plain

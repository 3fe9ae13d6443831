"""Requests of every kind, each with the statuses it must be answered with.

``CORPUS`` is what both lanes are compared on, whole, split at every byte and byte by byte; the
fuzzer mutates it. An entry is what a client sends on one connection, possibly several requests.
"""

from typing import Any, NamedTuple

from tests.http.toys import SMALL

LIMITS: dict[str, Any] = {
    "request_body_bytes_max": 2048,
    "request_head_bytes_max": 1024,
    "request_headers_max": 8,
}
"""Small, so that the entries beyond them stay small too."""

NEVER = 3600.0
"""A time limit that must not strike, however long the machine pauses."""

PATIENT: dict[str, Any] = {
    "request_seconds_max": NEVER,
    "idle_seconds_max": NEVER,
    "send_seconds_max": NEVER,
    "linger_seconds_max": 60.0,
    "stop_seconds_max": NEVER,
}
"""For whatever compares answers: none of them may depend on time."""

GET = b"GET /v1/boards/g/standings/p1 HTTP/1.1\r\nHost: t\r\n\r\n"
SUBMISSION = b'{"player":"p1","score":5}'


class Entry(NamedTuple):
    """What is sent, and the statuses that come back."""

    sent: bytes
    statuses: tuple[int, ...]
    heads: bool = False
    """Whether the answers have no bodies, because HEAD was asked."""


def get(target: bytes, *headers: bytes, method: bytes = b"GET", version: bytes = b"1.1") -> bytes:
    lines = [b"%b %b HTTP/%b" % (method, target, version), b"Host: t", *headers, b"", b""]
    return b"\r\n".join(lines)


def post(
    target: bytes, body: bytes, *headers: bytes, method: bytes = b"POST", kind: bytes = b"json"
) -> bytes:
    own = (b"Content-Type: application/" + kind, b"Content-Length: %d" % len(body))
    return get(target, *own, *headers, method=method) + body


def submit(body: bytes = SUBMISSION, *headers: bytes) -> bytes:
    return post(b"/v1/boards/g/scores", body, *headers)


def chunked(target: bytes, *chunks: bytes, trailer: bytes = b"") -> bytes:
    head = get(
        target, b"Content-Type: application/json", b"Transfer-Encoding: chunked", method=b"POST"
    )
    coded = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    return head + coded + b"0\r\n" + trailer + b"\r\n"


EXPECT = b"Expect: 100-continue"
CLOSE = b"Connection: close"
AROUND = b"/v1/boards/g/standings"

CORPUS: dict[str, Entry] = {
    # Good ones, for the fast lane.
    "standing": Entry(GET, (200,)),
    "two in turn": Entry(GET + GET, (200, 200)),
    "page": Entry(get(AROUND + b"?limit=5&window=daily"), (200,)),
    "page encoded": Entry(get(AROUND + b"?window=daily%3A-1&limit=%31"), (200,)),
    "plus is a space": Entry(get(AROUND + b"?window=a+b"), (200,)),
    "submit": Entry(submit(), (200,)),
    "submit twice": Entry(submit() + submit(), (200, 200)),
    "read behind a write": Entry(submit() + GET + submit() + GET, (200,) * 4),
    "verb": Entry(post(b"/v1/players/p1:ban", b"{}"), (200,)),
    "encoded colon": Entry(post(b"/v1/players/a%3Aban:ban", b""), (200,)),
    "encoded slash": Entry(get(b"/v1/boards/a%2Fb/standings/p%C3%A9"), (200,)),
    "encoded literal": Entry(get(b"/v1/b%6Fards/g/standings/p"), (200,)),
    "decoded once": Entry(post(b"/v1/echo/%2541", b""), (200,)),
    "headers reach": Entry(
        post(b"/v1/echo/x?q=1", b"abc", b"Accept:  b ", b"If-None-Match:", b"X-A: 1"), (200,)
    ),
    "keep-alive": Entry(get(AROUND, b"Connection: keep-alive"), (200,)),
    "keep-alive in capitals": Entry(get(AROUND, b"CONNECTION: Keep-Alive"), (200,)),
    "post without length": Entry(get(b"/v1/echo/x", method=b"POST"), (200,)),
    "get with body": Entry(post(b"/v1/boards/g/standings/p", b"ignored", method=b"GET"), (200,)),
    "waits by timeout": Entry(get(b"/v1/patient"), (200,)),
    "large": Entry(get(b"/v1/large"), (200,)),
    "large squeezed": Entry(get(b"/v1/large", b"Accept-Encoding: br, gzip"), (200,)),
    "large declined": Entry(get(b"/v1/large", b"Accept-Encoding: gzip;q=0"), (200,)),
    "small never squeezed": Entry(get(AROUND, b"Accept-Encoding: gzip"), (200,)),
    "empty": Entry(get(b"/v1/empty") + GET, (204, 200)),
    "own headers": Entry(get(b"/v1/cached"), (200,)),
    "origin": Entry(get(AROUND, b"Origin: https://game.example"), (200,)),
    "other origin": Entry(get(AROUND, b"Origin: https://else.example"), (200,)),
    # Good ones, for the other lane.
    "head": Entry(get(AROUND, method=b"HEAD") * 2, (200, 200), heads=True),
    "http 1.0": Entry(get(AROUND, version=b"1.0"), (200,)),
    "http 1.0 without host": Entry(b"GET /v1/large HTTP/1.0\r\n\r\n", (200,)),
    "http 1.0 keep-alive": Entry(get(AROUND, b"Connection: keep-alive", version=b"1.0"), (200,)),
    "close": Entry(get(AROUND, CLOSE), (200,)),
    "behind close": Entry(get(AROUND, CLOSE) + GET, (200,)),
    "blank line before": Entry(b"\r\n" + GET + b"\r\n" + GET, (200, 200)),
    "chunked": Entry(chunked(b"/v1/boards/g/scores", SUBMISSION[:9], SUBMISSION[9:]), (200,)),
    "chunked and more": Entry(
        chunked(b"/v1/echo/x", b"\r\n\r\n" * 9, trailer=b"X-T: 1\r\n") + GET, (200, 200)
    ),
    "expect": Entry(submit(SUBMISSION, EXPECT), (100, 200)),
    "expect nowhere": Entry(post(b"/v1/nowhere", SUBMISSION, EXPECT), (404,)),
    "upgrade not offered": Entry(get(AROUND, b"Connection: Upgrade", b"Upgrade: h2c"), (200,)),
    "put": Entry(post(b"/v1/cold/x", b"abc", method=b"PUT"), (200,)),
    "options": Entry(get(AROUND, method=b"OPTIONS") + GET, (204, 200)),
    "preflight": Entry(
        get(
            b"/v1/boards/g/scores",
            b"Origin: https://game.example",
            b"Access-Control-Request-Method: POST",
            method=b"OPTIONS",
        ),
        (204,),
    ),
    "preflight of a stranger": Entry(
        get(
            b"/v1/boards/g/scores",
            b"Origin: https://else.example",
            b"Access-Control-Request-Method: POST",
            method=b"OPTIONS",
        ),
        (204,),
    ),
    "absolute target": Entry(get(b"http://t/v1/large"), (200,)),
    "repeated header": Entry(post(b"/v1/echo/x", b"", b"X-A: 1", b"X-A: 2"), (200,)),
    "repeated tag": Entry(
        post(b"/v1/echo/x", b"", b"If-None-Match: 1", b"If-None-Match: 2"), (200,)
    ),
    "high bytes in a header": Entry(post(b"/v1/echo/x", b"", b"X-A: \xe9"), (200,)),
    "quotes in a target": Entry(get(b'/v1/boards/g/standings/"<p>"'), (200,)),
    "fragment": Entry(get(AROUND + b"#top"), (200,)),
    # Refused, and the connection goes on.
    "not ranked": Entry(get(b"/v1/boards/g/standings/nobody") + GET, (404, 200)),
    "nowhere": Entry(get(b"/v1/nowhere") + GET, (404, 200)),
    "nowhere with body": Entry(post(b"/v1/nowhere", SUBMISSION) + GET, (404, 200)),
    "trailing slash": Entry(get(AROUND + b"/"), (404,)),
    "empty segment": Entry(get(b"/v1/boards//standings"), (404,)),
    "wrong method": Entry(get(AROUND, method=b"DELETE") + GET, (405, 200)),
    "unknown query": Entry(get(AROUND + b"?evil=1"), (422,)),
    "query twice": Entry(get(AROUND + b"?limit=1&limit=2"), (422,)),
    "query out of range": Entry(get(AROUND + b"?limit=0"), (422,)),
    "query not a number": Entry(get(AROUND + b"?limit=ten&window=%00"), (422,)),
    "not json": Entry(submit(b"{") + GET, (400, 200)),
    "not a number": Entry(submit(b'{"player":"p","score":NaN}'), (400,)),
    "key twice": Entry(submit(b'{"player":"p","player":"q","score":1}'), (400,)),
    "missing field": Entry(submit(b'{"player":"p"}'), (422,)),
    "unknown field": Entry(submit(b'{"player":"p","score":1,"evil":"<script>"}'), (422,)),
    "form": Entry(post(b"/v1/boards/g/scores", b"a=b", kind=b"x-www-form-urlencoded"), (415,)),
    "no content type": Entry(get(b"/v1/boards/g/scores", method=b"POST"), (415,)),
    "overloaded": Entry(post(b"/v1/overloaded", b"{}") + GET, (503, 200)),
    "unknown outcome": Entry(post(b"/v1/unknown", b"{}") + GET, (503, 200)),
    "broken": Entry(get(b"/v1/broken") + GET, (500, 200)),
    "broken later": Entry(post(b"/v1/broken", b"") + GET, (500, 200)),
    "answers nothing": Entry(get(b"/v1/nothing") + GET, (500, 200)),
    # Refused, and the connection is closed.
    "body too large": Entry(submit(b"x" * 2049), (413,)),
    "body too large for the route": Entry(post(b"/v1/cold/x", b"x" * 65, method=b"PUT"), (413,)),
    "chunks too large": Entry(chunked(b"/v1/echo/x", *[b"x" * 512] * 5), (413,)),
    "chunks too large and then malformed": Entry(
        chunked(b"/v1/echo/x", *[b"x" * 512] * 5)[: -len(b"0\r\n\r\n")] + b"zz\r\n", (413,)
    ),
    "get and chunks too large and then malformed": Entry(
        GET + chunked(b"/v1/echo/x", b"x" * 2049, b"y")[: -len(b"\r\n0\r\n\r\n")] + b"zz\r\n",
        (200, 413),
    ),
    "no host and then malformed": Entry(
        b"POST /v1/echo/x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", (400,)
    ),
    "too large and cut off": Entry(submit() + submit(b"x" * 2049)[:-50], (200, 413)),
    "expect too large": Entry(submit(b"x" * 2049, EXPECT), (413,)),
    "head too large": Entry(get(AROUND, b"X-A: " + b"a" * 1024), (431,)),
    "target too large": Entry(get(b"/" + b"a" * 1024), (431,)),
    "head just not too large": Entry(get(AROUND, b"X-A: " + b"a" * (1024 - 55)), (200,)),
    "head just too large": Entry(get(AROUND, b"X-A: " + b"a" * (1025 - 55)), (431,)),
    "malformed and too large": Entry(GET + b"GET /\nv1 HTTP/1.1\r\nX: " + b"a" * 1024, (200, 400)),
    "too large and malformed": Entry(get(AROUND, b"X-A: " + b"a" * 1024 + b"\0"), (431,)),
    "too many headers": Entry(get(AROUND, *[b"X-%d: 1" % n for n in range(8)]), (431,)),
    "as many headers as may be": Entry(get(AROUND, *[b"X-%d: 1" % n for n in range(7)]), (200,)),
    "bad percent": Entry(get(b"/v1/boards/%zz/standings"), (400,)),
    "percent cut off": Entry(get(b"/v1/boards/g%2/standings"), (400,)),
    "not utf-8": Entry(get(b"/v1/boards/%ff/standings"), (400,)),
    "surrogate": Entry(get(b"/v1/boards/%ED%A0%80/standings"), (400,)),
    "bad percent in query": Entry(get(AROUND + b"?window=%zz"), (400,)),
    "no host": Entry(b"GET /v1/large HTTP/1.1\r\n\r\n", (400,)),
    "two hosts": Entry(get(AROUND, b"Host: u"), (400,)),
    "two lengths": Entry(submit(SUBMISSION, b"Content-Length: 25"), (400,)),
    "two signatures": Entry(
        submit(SUBMISSION, b"Rankd-Signature: t=1", b"Rankd-Signature: t=1"), (400,)
    ),
    "two keys": Entry(submit(SUBMISSION, b"Idempotency-Key: a", b"Idempotency-Key: b"), (400,)),
    "length and chunks": Entry(submit(SUBMISSION, b"Transfer-Encoding: chunked"), (400,)),
    "negative length": Entry(get(AROUND, b"Content-Length: -1"), (400,)),
    "folded header": Entry(get(AROUND, b"X-A: b\r\n c"), (400,)),
    "space before colon": Entry(get(AROUND, b"X-A : b"), (400,)),
    "no colon": Entry(get(AROUND, b"X-A"), (400,)),
    "control in a header": Entry(get(AROUND, b"X-A: \x01"), (400,)),
    "bare newlines": Entry(b"GET /v1/large HTTP/1.1\nHost: t\n\n", (400,)),
    "wrong version": Entry(get(AROUND, version=b"1.2"), (400,)),
    "http 2": Entry(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", (400,)),
    "version 2": Entry(get(AROUND, version=b"2.0"), (400,)),
    "not http": Entry(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", (400,)),
    "garbage behind a request": Entry(GET + b"garbage\r\n\r\n", (200, 400)),
    "garbage behind a write": Entry(submit() + b"\x00\x00\r\n\r\n", (200, 400)),
    "bad chunk": Entry(
        get(b"/v1/echo/x", b"Transfer-Encoding: chunked", method=b"POST") + b"zz\r\n", (400,)
    ),
    "non-ascii target": Entry(get("/v1/é".encode()), (400,)),
    "options of all": Entry(get(b"*", method=b"OPTIONS"), (404,)),
    "connect": Entry(get(b"t:80", method=b"CONNECT"), (400,)),
    "lower-case method": Entry(get(AROUND, method=b"get"), (400,)),
    # The same, of writes: each says that nothing was done.
    "write nowhere": Entry(post(b"/v1/nowhere", SUBMISSION, method=b"PUT"), (404,)),
    "write to a page": Entry(post(AROUND, SUBMISSION), (405,)),
    "delete of a page": Entry(get(AROUND, method=b"DELETE"), (405,)),
    "write with a bad percent": Entry(post(b"/v1/boards/%zz/scores", SUBMISSION), (400,)),
    "write without a host": Entry(b"POST /v1/boards/g/scores HTTP/1.1\r\n\r\n", (400,)),
    "write to a non-ascii target": Entry(post("/v1/é".encode(), SUBMISSION), (400,)),
    "write behind blank lines": Entry(b"\r\n\r\n" + post("/v1/é".encode(), b""), (400,)),
    "write with too large a head": Entry(submit(SUBMISSION, b"X-A: " + b"a" * 1024), (431,)),
    "write with too many headers": Entry(
        submit(SUBMISSION, *[b"X-%d: 1" % n for n in range(8)]), (431,)
    ),
    "write of another version": Entry(
        get(b"/v1/boards/g/scores", method=b"DELETE", version=b"1.2"), (400,)
    ),
    "write with a bad chunk": Entry(
        get(b"/v1/boards/g/scores", b"Transfer-Encoding: chunked", method=b"POST") + b"zz\r\n",
        (400,),
    ),
    "write behind a write": Entry(submit() + post("/v1/é".encode(), b""), (200, 400)),
}

assert len(SMALL) == 98, "the answer that the benchmark measures has about 100 bytes"

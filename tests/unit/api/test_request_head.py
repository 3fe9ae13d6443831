"""The parser of request heads: what it reads, what it leaves, and the two of them side by side."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankd.api import request_head
from rankd.api.request_head import RequestHead, parse_head, parse_head_plain

FIELDS = (
    "key", "word", "offset", "colon", "end", "length", "method", "path", "query", "headers",
    "authorization", "forwarded_for", "plain",
)  # fmt: skip
BYTES_MAX, HEADERS_MAX = 2048, 12

PARSERS = [parse_head_plain, parse_head]


def told(head: RequestHead | None) -> dict[str, Any] | None:
    return None if head is None else {field: getattr(head, field) for field in FIELDS}


def head(target: str = "/v1/boards/b/standings/ann", *lines: str, method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {target} HTTP/1.1", "Host: h", *lines, "", ""]).encode("latin-1")


@pytest.fixture(params=PARSERS, ids=["plain", "native"])
def parse(request: pytest.FixtureRequest) -> Any:
    return lambda data: request.param(data, BYTES_MAX, HEADERS_MAX)


def test_word_is_cut_out_of_the_key_and_decoded(parse: Any) -> None:
    one = parse(head("/v1/boards/b/standings/steam:7@eu/around?above=2"))
    other = parse(head("/v1/boards/b/standings/%C3%A9%3A/around?above=2"))
    assert (one.word, other.word) == ("steam:7@eu", "é:")
    assert one.key == other.key == b"GET /v1/boards/b/standings/\0/around?above=2\nh\n\n\n\n@"
    assert (one.colon, other.colon) == (True, False)
    assert one.path == "/v1/boards/b/standings/steam:7@eu/around"


@pytest.mark.parametrize(
    ("query", "key", "offset"),
    [
        ("offset=7", "offset=\0", 7),
        ("limit=9&offset=999999999&window=day", "limit=9&offset=\0&window=day", 999_999_999),
        ("offset=1&offset=2", "offset=\0&offset=2", 1),
        ("offset=0", "offset=0", 0),
        ("offset=07", "offset=07", 0),
        ("offset=1000000000", "offset=1000000000", 0),
        ("offset=", "offset=", 0),
        ("offset=-1", "offset=-1", 0),
        ("offset=1x", "offset=1x", 0),
        ("Offset=1", "Offset=1", 0),
        ("xoffset=1", "xoffset=1", 0),
        ("", "", 0),
    ],
)
def test_offset_is_cut_out_of_the_key(parse: Any, query: str, key: str, offset: int) -> None:
    one = parse(head(f"/v1/boards/b/standings?{query}"))
    assert one.key == f"GET /v1/boards/b/standings?{key}\nh\n\n\n\n@".encode()
    assert (one.offset, one.query, one.word) == (offset, query, None)


def test_offset_beside_a_word_stays_in_the_key(parse: Any) -> None:
    one = parse(head("/v1/boards/b/standings/ann?offset=7"))
    assert (one.offset, one.word) == (0, "ann")
    assert one.key == b"GET /v1/boards/b/standings/\0?offset=7\nh\n\n\n\n@"


def test_headers_that_no_handler_reads_leave_the_key_alone(parse: Any) -> None:
    plain = parse(head())
    differing = parse(head("/v1/boards/b/standings/bob", "X-Request-ID: 1", "traceparent: 00-2"))
    assert plain.key == differing.key
    assert differing.headers == {b"host": b"h"}


@pytest.mark.parametrize(
    "line",
    [
        "Authorization: Bearer k",
        "If-None-Match: x",
        "Idempotency-Key: x",
        "Rankd-Signature: x",
        "X-Forwarded-For: 10.0.0.1",
        "Forwarded: for=1",
        "Origin: https://a",
        "Content-Type: text/plain",
        "Content-Encoding: gzip",
        "Accept: application/json; numbers=string",
    ],
)
def test_headers_that_decide_the_answer_are_in_the_key(parse: Any, line: str) -> None:
    assert parse(head("/", line)).key != parse(head("/")).key


def test_credentials_and_addresses_differ_without_another_key(parse: Any) -> None:
    one = parse(head("/", "Authorization: Bearer a", "X-Forwarded-For: 10.0.0.1"))
    other = parse(head("/", "Authorization: Bearer b", "X-Forwarded-For: 10.0.0.2"))
    assert one.key == other.key
    assert (one.authorization, other.forwarded_for) == (b"Bearer a", b"10.0.0.2")


@pytest.mark.parametrize(
    "data",
    [
        head()[:-1],
        head(method="HEAD"),
        head(method="get"),
        head().replace(b"HTTP/1.1", b"HTTP/1.0"),
        head().replace(b"Host: h\r\n", b""),
        head("http://h/"),
        head("/a b"),
        head("/?a?b"),
        head("/v1/boards/b/standings/%zz"),
        head("/v1/boards/b/standings/%ff"),
        head("/v1/boards/b/standings/%4"),
        head("/v1/boards/b/standings/" + "a" * (request_head.WORD_BYTES_MAX + 1)),
        head("/", "Host: again"),
        head("/", "Authorization: a", "authorization: b"),
        head("/", "Connection: close"),
        head("/", "Connection: keep-alive", "Connection: keep-alive"),
        head("/", "Transfer-Encoding: chunked"),
        head("/", "Expect: 100-continue"),
        head("/", "Upgrade: h2c"),
        head("/", "TE: trailers"),
        head("/", "Trailer: x"),
        head("/", "HTTP2-Settings: x"),
        head("/", "Content-Length: 1x"),
        head("/", "Content-Length: "),
        head("/", "Content-Length: 1234567890"),
        head("/", "Name : x"),
        head("/", ": x"),
        head("/", "No colon"),
        head("/", " folded: x"),
        head("/", "X: a\tb"),
        head("/", "X: \xe9"),
        head("/", "X: a\nb"),
        head("/", *(f"X{n}: a" for n in range(HEADERS_MAX))),
        head("/" + "a" * BYTES_MAX),
    ],
)
def test_heads_in_doubt_are_left_to_the_other_parser(parse: Any, data: bytes) -> None:
    assert parse(data) is None


def test_skipped_headers_may_come_twice(parse: Any) -> None:
    assert parse(head("/", "Cookie: a=1", "Cookie: b=2")) is not None


PIECES = [
    b"GET", b"POST", b"HEAD", b" ", b"/", b"/v1/boards/", b"/standings/", b"ann", b"a:b", b"%3A",
    b"%C3%A9", b"%", b"%ff", b"?", b"limit=1", b"offset=", b"&offset=", b"?offset=1", b"27",
    b"HTTP/1.1", b"\r\n", b"\r", b"\n", b":", b": ",
    b"Host", b"host: h", b"Accept: a;b", b"Accept-Encoding: gzip", b"Content-Length: 3",
    b"content-length", b"0", b"Connection: Keep-Alive", b"connection: close", b"Origin: o",
    b"Authorization: Bearer x", b"X-Forwarded-For: 1.2.3.4", b"Forwarded: a", b"TE: x", b"x: y",
    b"Idempotency-Key: 1", b"If-None-Match: 1", b"Content-Type: application/json",
    b"Rankd-Signature: 1",
    b"Content-Encoding: gzip", b"Transfer-Encoding: chunked", b"\t", b"\0", b"\x80", b"body",
]  # fmt: skip
GOOD = [
    head(),
    head(
        "/v1/boards/b/scores", "Content-Length: 2", "Content-Type: application/json", method="POST"
    ),
    head("/v1/boards/b/standings?limit=9&offset=1234567"),
    head("/v1/boards/b/standings?limit=9", "Accept: */*;q=1", "Authorization: Bearer k"),
    head("/v1/boards/b/standings/a:b%40/around", "X-Forwarded-For: 1.2.3.4, 5.6.7.8", "A: b"),
]


@given(st.lists(st.sampled_from(PIECES), max_size=30).map(b"".join))
def test_both_parsers_agree_on_pieces(text: bytes) -> None:
    for data in (text, b"GET " + text + b"\r\n\r\n", head("/")[:-2] + text + b"\r\n\r\n"):
        native = parse_head(data, BYTES_MAX, HEADERS_MAX)
        assert told(native) == told(parse_head_plain(data, BYTES_MAX, HEADERS_MAX)), data


def test_both_parsers_agree_on_mutations() -> None:
    dice = random.Random(3)
    for _ in range(20_000):
        data = bytearray(dice.choice(GOOD))
        for _ in range(dice.randrange(4)):
            place = dice.randrange(len(data))
            data[place : place + dice.randrange(3)] = dice.choice(
                [*PIECES, bytes([dice.randrange(256)])]
            )
        made = bytes(data)
        native = parse_head(made, BYTES_MAX, HEADERS_MAX)
        assert told(native) == told(parse_head_plain(made, BYTES_MAX, HEADERS_MAX)), made

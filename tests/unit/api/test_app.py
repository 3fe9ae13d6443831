"""What every answer carries, who may read it from another page, and what is left to others."""

import asyncio
import gzip
import json
import re
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from rankd.api.app import CSP, GZIP_BYTES_MIN, App
from rankd.api.messages import HTML, Request, Response
from rankd.api.routing import Route, Router
from rankd.errors import InvalidSetting
from rankd.settings import Settings

OURS = b"https://game.example"
LARGE = b"[" + b"1," * GZIP_BYTES_MIN + b"1]"


async def read(_service: object, _request: Request) -> Response:
    return Response(b"{}")


async def page(_service: object, _request: Request) -> Response:
    return Response(b"<p>", content_type=HTML, cache_control=b"max-age=60")


async def write(_service: object, _request: Request) -> Response:
    return Response(LARGE)


ROUTES = [
    Route(method="GET", path="/read", operation="read", handler=read),
    Route(method="GET", path="/page", operation="page", handler=page),
    Route(method="POST", path="/write", operation="write", handler=write, writes=True),
]


class Answer:
    """What an application sent: a status, its headers, its body."""

    def __init__(self, sent: list[Message]) -> None:
        self.status = sent[0]["status"]
        self.pairs = sent[0]["headers"]
        self.headers = dict(self.pairs)
        self.body = b"".join(message["body"] for message in sent[1:])


def ask(
    method: str,
    path: str,
    *headers: tuple[bytes, bytes],
    app: App | None = None,
    **settings: Any,
) -> Answer:
    app = app or App(Router(ROUTES), None, Settings(**settings))
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"host", b"t"), *headers],
        "client": ("192.0.2.1", 5),
    }
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    return Answer(sent)


def test_every_answer_forbids_guessing_referring_and_keeping() -> None:
    for answer in (ask("GET", "/read"), ask("GET", "/nowhere")):
        assert answer.headers[b"x-content-type-options"] == b"nosniff"
        assert answer.headers[b"referrer-policy"] == b"no-referrer"
        assert answer.headers[b"cache-control"] == b"no-store"
        assert b"content-security-policy" not in answer.headers
        assert b"server" not in answer.headers


def test_a_page_may_run_nothing_but_our_own_files_and_says_how_long_it_keeps() -> None:
    answer = ask("GET", "/page")
    assert answer.headers[b"content-security-policy"] == CSP
    assert answer.headers[b"cache-control"] == b"max-age=60"


def test_head_has_the_headers_of_get_and_no_body() -> None:
    got, head = ask("GET", "/read"), ask("HEAD", "/read")
    assert (head.status, head.pairs, head.body) == (got.status, got.pairs, b"")


def test_without_a_setting_no_other_page_may_read() -> None:
    answer = ask("GET", "/read", (b"origin", OURS))
    assert not [name for name in answer.headers if name.startswith(b"access-control")]
    assert b"vary" not in answer.headers


def test_an_origin_that_is_set_may_do_everything_and_no_other_may() -> None:
    given: dict[str, Any] = {"cors_origins": (OURS.decode(),)}
    answer = ask("POST", "/write", (b"origin", OURS), **given)
    assert answer.headers[b"access-control-allow-origin"] == OURS
    assert answer.headers[b"access-control-allow-credentials"] == b"true"
    assert answer.headers[b"access-control-expose-headers"] == b"etag, retry-after"
    for stranger in (b"https://game.example.evil", b"null", b"http://game.example", b"*"):
        answer = ask("POST", "/write", (b"origin", stranger), **given)
        assert b"access-control-allow-origin" not in answer.headers
        assert (b"vary", b"origin") in answer.pairs


@pytest.mark.parametrize(
    "text",
    [
        "*",
        "https://*.game.example",
        "https://game.example/",
        "game.example",
        "https://Game.example",
    ],
)
def test_an_origin_that_no_browser_sends_is_refused_at_the_start(text: str) -> None:
    """It would match nothing, and say so nowhere."""
    with pytest.raises(InvalidSetting, match="cors_origins") as told:
        ask("GET", "/read", cors_origins=(OURS.decode(), text))
    assert "https://game.example" in str(told.value)


@pytest.mark.parametrize("text", ["http://localhost:5173", "capacitor://localhost", "null"])
def test_origins_of_every_scheme_are_taken(text: str) -> None:
    answer = ask("GET", "/read", (b"origin", text.encode()), cors_origins=(text,))
    assert answer.headers[b"access-control-allow-origin"] == text.encode()


def test_reading_from_anywhere_is_reading_without_credentials() -> None:
    answer = ask("GET", "/read", (b"origin", b"https://any"), cors_reads_anywhere=True)
    assert answer.headers[b"access-control-allow-origin"] == b"*"
    assert b"access-control-allow-credentials" not in answer.headers
    assert answer.headers[b"access-control-expose-headers"] == b"etag, retry-after"
    answer = ask("POST", "/write", (b"origin", b"https://any"), cors_reads_anywhere=True)
    assert b"access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    ("origin", "method", "allowed"),
    [(OURS, b"POST", True), (OURS, b"GET", False), (b"https://x", b"POST", False)],
)
def test_a_preflight_is_told_yes_only_for_what_would_be_allowed(
    origin: bytes, method: bytes, allowed: bool
) -> None:
    asked = ((b"origin", origin), (b"access-control-request-method", method))
    answer = ask("OPTIONS", "/write", *asked, cors_origins=(OURS.decode(),))
    assert answer.status == 204
    assert answer.headers[b"allow"] == b"OPTIONS, POST"
    assert (b"access-control-allow-methods" in answer.headers) == allowed
    asking = answer.headers.get(b"access-control-allow-headers", b"")
    assert (b"if-none-match" in asking.split(b", ")) == allowed
    names = [name for name, _ in answer.pairs if name == b"access-control-allow-origin"]
    assert len(names) <= 1


@pytest.mark.parametrize(
    ("accepted", "squeezed"),
    [
        (b"gzip", True),
        (b"br;q=1.0, GZIP;q=0.5", True),
        (b"gzip;q=0", False),
        (b"gzip; q=0.0", False),
        (b"deflate", False),
        (b"", False),
    ],
)
def test_a_large_answer_is_squeezed_for_whoever_takes_it(accepted: bytes, squeezed: bool) -> None:
    answer = ask("POST", "/write", (b"accept-encoding", accepted))
    assert (answer.headers.get(b"content-encoding") == b"gzip") == squeezed
    assert (gzip.decompress(answer.body) if squeezed else answer.body) == LARGE
    assert answer.headers[b"content-length"] == b"%d" % len(answer.body)
    assert answer.headers[b"vary"] == b"accept-encoding"


def test_a_small_answer_is_never_squeezed() -> None:
    answer = ask("GET", "/read", (b"accept-encoding", b"gzip"))
    assert b"content-encoding" not in answer.headers


def test_paths_the_table_does_not_know_go_to_the_fallback_and_others_do_not() -> None:
    async def other(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 299, "headers": []})
        await send({"type": "http.response.body", "body": b"other"})

    app = App(Router(ROUTES), None, Settings(), fallback=other)
    assert ask("GET", "/elsewhere", app=app).status == 299
    assert ask("GET", "/read", app=app).status == 200
    assert ask("DELETE", "/read", app=app).status == 405


def test_a_request_is_logged_if_that_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    ask("GET", "/read")
    assert capsys.readouterr().err == ""
    ask("GET", "/read", access_log=True)
    line = capsys.readouterr().err
    assert re.search(r"rankd\.access: 192\.0\.2\.1 GET /read 200 [0-9a-f]{16}\n$", line)


def test_a_refusal_is_logged_under_the_id_that_its_answer_has(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    answer = ask("DELETE", "/read")
    name = json.loads(answer.body)["request_id"]
    assert caplog.messages == [f"request {name} refused: 405 method_not_allowed, DELETE"]

"""No key, token or password is ever in the log, wherever a client puts it."""

import asyncio
import json
import logging
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.http.test_authorisation import reader, token
from tests.http.whole import Whole, run, whole

from rankd.api import logs
from rankd.api.auth import Actor
from rankd.errors import Unauthenticated

PASSWORD = "correct-horse-battery"
TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.c2lnbmF0dXJl"
BAD_TOKEN = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJib2IifQ.bm90aGluZw"
BAD_KEY = "rk_nobody-ever-made-this-key-0123456789abcdefgh"
LANES = pytest.mark.parametrize("fast_lane", [True, False], ids=["fast", "asgi"])


def read_token(token: bytes) -> Actor:
    if token.decode() != TOKEN:
        raise Unauthenticated("the token is not signed with a key that is known")
    return Actor(None, player="ann")


async def fill(service: Whole) -> list[str]:
    """Ask with secrets in every place that people put them; return the secrets."""
    await service.told("PUT", "/v1/boards/b", {"writes": "client"})
    key = (await service.new_key("admin"))["key"]
    other = (await service.new_key("read", key=key))["key"]
    secrets = [key, other, BAD_KEY, TOKEN, BAD_TOKEN, PASSWORD]
    for shown in secrets:
        for method, path in [
            ("GET", "/v1/boards/b/standings"),
            ("GET", "/v1/boards/b/standings/ann"),
            ("POST", "/v1/boards/b/scores"),
            ("POST", "/v1/scores:batch"),
            ("GET", f"/v1/players/{shown}"),
            ("GET", f"/{shown}/nowhere"),
            ("DELETE", f"/v1/keys/{shown}"),
            ("GET", f"/v1/boards/b/standings?key={shown}"),
            ("GET", f"/v1/boards/b/standings?window={shown}"),
        ]:
            if shown == PASSWORD and shown in path and "?" not in path:
                path = path.replace(shown, f"postgresql://rankd:{shown}@db")
            body = {"player": "ann", "score": 1, "key": shown, "metadata": shown}
            await service.ask(method, path, body if method == "POST" else None, key=shown)
            await service.ask(method, path, body if method == "POST" else None, key=key)
        await service.ask("GET", "/healthz", authorization=f"Basic {shown}", cookie=shown)
    await at_once(service, f"GET http://rankd:{PASSWORD}@t/v1/boards HTTP/1.1\r\nHost: t\r\n\r\n")
    await at_once(service, f"GET /v1/boards HTTP/1.1\r\nAuthorization : Bearer {key}\r\n\r\n")
    await at_once(service, f"{key} / HTTP/1.1\r\n\r\n")
    return secrets


async def at_once(service: Whole, text: str) -> None:
    """Send what no client library would."""
    place = urlsplit(service.address)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    writer.write(text.encode())
    writer.write_eof()
    await reader.read()
    writer.close()


@LANES
@pytest.mark.parametrize("access_log", [True, False])
def test_no_secret_is_ever_logged(
    access_log: bool,
    fast_lane: bool,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(logs, "REFUSALS_PER_SECOND_MAX", 1_000_000)

    async def test() -> list[str]:
        async with whole(token=read_token, access_log=access_log, fast_lane=fast_lane) as service:
            return await fill(service)

    secrets = run(test())
    lines = [
        logging.Formatter().format(record)
        for record in caplog.records
        if not record.name.startswith(("httpx", "httpcore"))  # The test's own client.
    ]
    lines += capsys.readouterr().err.splitlines()
    assert any("refused" in line for line in lines)
    assert any(" GET /v1/boards/b/standings 200 " in line for line in lines) == access_log
    for secret in secrets:
        assert [line for line in lines if secret in line] == []


@LANES
def test_a_refusal_is_found_by_its_id(fast_lane: bool, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def test() -> None:
        async with whole(fast_lane=fast_lane) as service:
            for method, path, body in [
                ("GET", "/v1/boards/none", None),
                ("GET", "/v1/boards/none/standings/p", None),
                ("POST", "/v1/boards/none/scores", {"player": "p", "score": 1}),
                ("PATCH", "/v1/boards", None),
            ]:
                answer = await service.ask(method, path, body)
                told = json.loads(answer.text)
                named = [line for line in caplog.messages if told["request_id"] in line]
                assert len(named) == 1 and f"{told['status']} {told['code']}" in named[0]

    run(test())


@LANES
def test_the_log_says_why_nobody_was_let_in(
    fast_lane: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """All of them are answered alike, but for what only has expired."""
    caplog.set_level(logging.INFO)
    asked: list[tuple[dict[str, Any], str, str]] = [
        ({"exp": 1}, "the token has expired", "the token has expired"),
        ({"aud": "x"}, "the token is not valid here", "does not have jwt_audience in its aud"),
        ({"iss": "x"}, "the token is not valid here", "has another iss than jwt_issuer"),
        ({"sub": None}, "the token is not valid here", "the token has no sub"),
    ]

    async def test() -> None:
        async with whole(token=reader().read, fast_lane=fast_lane) as service:
            for changed, told, logged in asked:
                shown = token("ann", **changed)
                for method, path in (
                    ("GET", "/v1/boards/b/standings/ann"),
                    ("POST", "/v1/boards/b/scores"),
                ):
                    body = {"player": "ann", "score": 1} if method == "POST" else None
                    answer = await service.ask(method, path, body, key=shown)
                    problem = answer.json()
                    assert answer.status_code == 401
                    assert problem["detail"].startswith(told)
                    (line,) = [line for line in caplog.messages if problem["request_id"] in line]
                    assert "401 unauthenticated" in line and line.endswith(logged)

    run(test())

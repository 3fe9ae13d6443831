"""The log finds a request again, has a bound, and holds no secret."""

import asyncio
import re

import pytest

from rankd.api.logs import (
    PIPE_BYTES,
    REFUSALS_PER_SECOND_MAX,
    AccessLog,
    RequestLog,
    without_secrets,
)
from rankd.api.messages import Request
from rankd.api.rate_limits import read_networks


@pytest.mark.parametrize(
    ("path", "logged"),
    [
        ("/v1/boards/global/standings/p42", "/v1/boards/global/standings/p42"),
        ("/v1/keys/rk_A-b_c9", "/v1/keys/***"),
        ("/v1/keys/rk%5FA-b_c9", "/v1/keys/***"),
        ("/v1/players/eyJhbGci.eyJzdWIi.c2ln", "/v1/players/***"),
        ("/v1/players/eyJhbGci%2eeyJzdWIi%2Ec2ln", "/v1/players/***"),
        ("/postgresql://rankd:secret@db/x", "/postgresql://***@db/x"),
        ("/postgresql:%2F%2Frankd%3Asecret%40db/x", "/postgresql://***@db/x"),
        ("/v1/players/ann@example.org", "/v1/players/ann@example.org"),
        ("/v1/players/%0Aann", "/v1/players/%0Aann"),
    ],
)
def test_what_looks_like_a_secret_is_struck_out(path: str, logged: str) -> None:
    assert without_secrets(path) == logged


def test_only_so_many_refusals_are_logged_and_the_others_are_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    now = [5.0]
    noted = RequestLog(every=False, now=lambda: now[0])
    for number in range(REFUSALS_PER_SECOND_MAX + 3):
        noted.refused(f"r{number}", status=404, code="unknown_board", what="get_standing")
    assert len(caplog.messages) == REFUSALS_PER_SECOND_MAX
    assert caplog.messages[0] == "request r0 refused: 404 unknown_board, get_standing"
    now[0] += 1
    noted.refused("later", status=503, code="overloaded", what="submit_score")
    assert caplog.messages[-2:] == [
        "3 more requests were refused and not logged",
        "request later refused: 503 overloaded, submit_score",
    ]
    assert [record.levelname for record in caplog.records[-2:]] == ["INFO", "WARNING"]


def test_every_request_is_logged_only_where_that_is_wanted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    request = Request("GET", "/v1/keys/rk_x", {}, {}, {}, client="192.0.2.1")
    RequestLog(every=False).answered(request, 200)
    assert capsys.readouterr().err == ""
    RequestLog(every=True).answered(request, 404)
    line = capsys.readouterr().err
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} INFO rankd\.access: .*\n", line)
    message = line.partition("rankd.access: ")[2]
    assert message == f"192.0.2.1 GET /v1/keys/*** 404 {request.request_id}\n"


def test_lines_of_one_iteration_are_written_together_and_in_writes_that_stay_whole() -> None:
    writes: list[str] = []

    async def answer() -> None:
        access = AccessLog(writes.append)
        for number in range(200):
            access.add("192.0.2.1", "GET", f"/{number}", 200)
        assert writes == []
        await asyncio.sleep(0)

    asyncio.run(answer())
    assert 1 < len(writes) < 10
    assert max(map(len, writes)) <= PIPE_BYTES
    lines = "".join(writes).splitlines()
    assert [line.split()[6] for line in lines] == [f"/{number}" for number in range(200)]
    assert len({line.rpartition(" ")[2] for line in lines}) == 200, "each request has a name"


@pytest.mark.parametrize("code", ["not_ranked", "unknown_player"])
def test_ordinary_answers_stay_below_info_and_displace_no_refusal(
    code: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    noted = RequestLog(every=False, now=lambda: 5.0)
    for number in range(REFUSALS_PER_SECOND_MAX):
        noted.refused(f"r{number}", status=404, code=code, what="get_standing")
    noted.refused("other", status=404, code="unknown_board", what="get_standing")
    levels = [record.levelname for record in caplog.records]
    assert levels == ["DEBUG"] * REFUSALS_PER_SECOND_MAX + ["INFO"]


def test_address_behind_a_trusted_proxy_is_logged(capsys: pytest.CaptureFixture[str]) -> None:
    proxies = read_networks(["192.0.2.1"])
    for headers, client, logged in [
        ({b"x-forwarded-for": b"203.0.113.7"}, "192.0.2.1", "203.0.113.7"),
        ({b"x-forwarded-for": b"2001:db8::1"}, "192.0.2.1", "2001:db8::1"),
        ({b"x-forwarded-for": b"203.0.113.7"}, "192.0.2.9", "192.0.2.9"),
        ({}, "192.0.2.1", "192.0.2.1"),
        ({}, "a socket", "a socket"),
    ]:
        request = Request("GET", "/healthz", {}, {}, headers, client=client)
        RequestLog(every=True, proxies=proxies).answered(request, 200)
        line = capsys.readouterr().err
        assert line.endswith(f": {logged} GET /healthz 200 {request.request_id}\n")

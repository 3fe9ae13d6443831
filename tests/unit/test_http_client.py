"""Both transports carry requests over kept connections, and say whether a lost one was sent."""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.unit.scripted_server import certified, serving, tunnelling

from rankd.http_client import (
    AsyncTransport,
    Endpoint,
    HttpRequest,
    HttpResponse,
    SyncTransport,
    TransportError,
)

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
GET = HttpRequest("GET", "/v1/boards", {})

Send = Callable[[HttpRequest], HttpResponse]


@contextmanager
def sync_sender(endpoint: Endpoint, **options: Any) -> Iterator[Send]:
    transport = SyncTransport(endpoint, **{"timeout": 5.0, "connections_max": 4, **options})
    try:
        yield transport.send
    finally:
        transport.close()


@contextmanager
def async_sender(endpoint: Endpoint, **options: Any) -> Iterator[Send]:
    transport = AsyncTransport(endpoint, **{"timeout": 5.0, "connections_max": 4, **options})
    with asyncio.Runner() as runner:
        yield lambda request: runner.run(transport.send(request))
        runner.run(transport.close())


both = pytest.mark.parametrize("sender", [sync_sender, async_sender])


def endpoint(url: str, **options: Any) -> Endpoint:
    return Endpoint(url, {"user-agent": "test"}, **options)


@both
def test_requests_share_a_connection(sender: Any) -> None:
    with serving(lambda _: OK) as server, sender(endpoint(f"{server.url}/prefix/")) as send:
        for _ in range(3):
            assert send(GET) == HttpResponse(200, {"content-length": "2"}, b"hi")
        send(HttpRequest("POST", "/x?y=1", {"x-one": "1"}, b"{}"))
    assert server.connections == 1
    host = f"127.0.0.1:{server.port}".encode()
    assert server.requests[0] == (
        b"GET /prefix/v1/boards HTTP/1.1\r\nhost: " + host + b"\r\nuser-agent: test\r\n\r\n"
    )
    assert server.requests[-1].startswith(b"POST /prefix/x?y=1 HTTP/1.1\r\n")
    assert server.requests[-1].endswith(b"x-one: 1\r\ncontent-length: 2\r\n\r\n{}")


@both
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", b"hi"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, b"hi"),
        (b'HTTP/1.1 304 Not Modified\r\nETag: "x"\r\n\r\n', b""),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
    ],
)
def test_every_framing_is_read_and_keeps_the_connection(
    sender: Any, answer: bytes, expected: bytes
) -> None:
    with serving(lambda _: answer) as server, sender(endpoint(server.url)) as send:
        assert [send(GET).body for _ in range(3)] == [expected] * 3
    assert server.connections == 1


@both
@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi",
        OK + b"more than was asked for",
    ],
)
def test_a_connection_that_must_not_be_used_again_is_not(sender: Any, answer: bytes) -> None:
    with serving(lambda _: answer) as server, sender(endpoint(server.url)) as send:
        assert [send(GET).body for _ in range(2)] == [b"hi"] * 2
    assert server.connections == 2


@both
def test_a_response_without_a_length_ends_with_its_connection(sender: Any) -> None:
    answer = b"HTTP/1.1 200 OK\r\nx-a: 1\r\n\r\nall of it"
    with serving(lambda _: answer, once=True) as server, sender(endpoint(server.url)) as send:
        assert send(GET).body == b"all of it"


def test_a_connection_that_the_server_closed_meanwhile_is_not_used() -> None:
    with serving(lambda _: OK) as server, sync_sender(endpoint(server.url)) as send:
        send(GET)
        server.close_connections()
        time.sleep(0.05)
        assert send(GET).body == b"hi"
    assert server.connections == 2


def test_a_loop_hears_that_the_server_closed_a_connection() -> None:
    async def use(url: str) -> None:
        transport = AsyncTransport(endpoint(url), timeout=5.0, connections_max=1)
        await transport.send(GET)
        server.close_connections()
        await asyncio.sleep(0.05)
        assert (await transport.send(GET)).body == b"hi"
        await transport.close()

    with serving(lambda _: OK) as server:
        asyncio.run(use(server.url))
    assert server.connections == 2


@both
@pytest.mark.parametrize(
    ("script", "problem"),
    [
        (lambda _: None, "closed"),
        (lambda _: b"no HTTP at all\r\n\r\n", "not HTTP"),
        (lambda _: b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi", "no response|timed out"),
    ],
)
def test_a_lost_response_may_have_been_sent(sender: Any, script: Any, problem: str) -> None:
    with (
        serving(script) as server,
        sender(endpoint(server.url), timeout=0.3) as send,
        pytest.raises(TransportError, match=problem) as lost,
    ):
        send(GET)
    assert lost.value.sent


@both
def test_a_request_may_bear_a_longer_silence_than_others(sender: Any) -> None:
    hushed = threading.Event()

    def answer_late(request: bytes) -> bytes:
        hushed.wait(30.0 if b"/short" in request else 0.3)
        return OK

    with serving(answer_late) as server, sender(endpoint(server.url), timeout=0.1) as send:
        assert send(HttpRequest("PUT", "/long", {}, b"", 60.0)).status == 200
        with pytest.raises(TransportError, match=r"no response|timed out"):
            send(HttpRequest("PUT", "/short", {}, b""))
        hushed.set()


@both
def test_a_refused_connection_was_not_sent(sender: Any) -> None:
    with serving(lambda _: OK) as server:
        gone = server.url
    with sender(endpoint(gone)) as send, pytest.raises(TransportError) as lost:
        send(GET)
    assert not lost.value.sent


@both
def test_a_response_is_bounded(sender: Any) -> None:
    options = {"response_bytes_max": 50}
    big = b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n" + b"x" * 99
    with (
        serving(lambda _: big) as server,
        sender(endpoint(server.url), **options) as send,
        pytest.raises(TransportError, match="over 50 bytes"),
    ):
        send(GET)


@both
@pytest.mark.parametrize("value", ["a\r\nx-evil: 1", "a\nb", "\x00"])
def test_a_header_cannot_begin_another(sender: Any, value: str) -> None:
    with serving(lambda _: OK) as server, sender(endpoint(server.url)) as send:
        with pytest.raises(ValueError, match="the header if-none-match must"):
            send(HttpRequest("GET", "/", {"if-none-match": value}))
        assert server.requests == []


# -------------------------------------------------------------------------------- TLS, proxies


@both
def test_tls_is_checked(sender: Any, tmp_path: Path) -> None:
    theirs, ours = certified(tmp_path)
    with serving(lambda _: OK, secure=theirs) as server:
        with sender(endpoint(server.url, ssl_context=ours)) as send:
            assert [send(GET).body for _ in range(2)] == [b"hi"] * 2
        with sender(endpoint(server.url)) as send, pytest.raises(TransportError) as refused:
            send(GET)
        assert "CERTIFICATE_VERIFY_FAILED" in str(refused.value)
        assert not refused.value.sent
    assert len(server.requests) == 2


@both
def test_a_proxy_of_the_environment_carries_plain_requests(
    sender: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(lambda _: OK) as server:
        monkeypatch.setenv("http_proxy", f"http://me:secret@127.0.0.1:{server.port}")
        monkeypatch.setenv("no_proxy", "elsewhere.test")
        with sender(endpoint("http://rankd.test/p")) as send:
            assert send(GET).body == b"hi"
    (request,) = server.requests
    assert request.startswith(b"GET http://rankd.test/p/v1/boards HTTP/1.1\r\nhost: rankd.test\r\n")
    assert b"proxy-authorization: Basic bWU6c2VjcmV0\r\n" in request


@both
def test_a_proxy_of_the_environment_carries_a_tunnel(
    sender: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    theirs, ours = certified(tmp_path)
    with serving(lambda _: OK, secure=theirs) as server, tunnelling(server.port) as proxy:
        monkeypatch.setenv("https_proxy", f"http://me:secret@127.0.0.1:{proxy.port}")
        monkeypatch.setenv("no_proxy", "")
        with sender(endpoint("https://rankd.test", ssl_context=ours)) as send:
            assert [send(GET).body for _ in range(2)] == [b"hi"] * 2
    (request,) = proxy.requests
    assert request.startswith(b"CONNECT rankd.test:443 HTTP/1.1\r\nhost: rankd.test:443\r\n")
    assert b"proxy-authorization: Basic bWU6c2VjcmV0\r\n" in request
    assert server.requests[0].startswith(b"GET /v1/boards HTTP/1.1\r\n")
    assert b"proxy-authorization" not in server.requests[0]


@both
def test_a_proxy_that_opens_no_tunnel_is_named(
    sender: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(lambda _: b"HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n") as proxy:
        monkeypatch.setenv("https_proxy", proxy.url)
        monkeypatch.setenv("no_proxy", "")
        with (
            sender(endpoint("https://rankd.test")) as send,
            pytest.raises(TransportError, match="the proxy answered 407") as refused,
        ):
            send(GET)
    assert not refused.value.sent


def test_no_proxy_leads_to_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    for url in ("http://127.0.0.1:8700", "http://localhost:8700", "http://[::1]:8700"):
        assert endpoint(url).proxy is None
    assert endpoint("http://rankd.test").proxy is not None
    assert endpoint("http://rankd.test", use_environment=False).proxy is None


def test_a_proxy_of_another_kind_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    with pytest.raises(ValueError, match="the proxy that the environment names"):
        endpoint("http://rankd.test")


# ------------------------------------------------------------------------------------ the pool


def test_threads_wait_for_a_free_connection() -> None:
    with (
        serving(lambda _: OK) as server,
        sync_sender(endpoint(server.url), connections_max=2) as send,
    ):
        threads = [threading.Thread(target=send, args=(GET,)) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(server.requests) == 20
    assert server.connections <= 2


FORKED = """
import os, sys
from rankd.http_client import Endpoint, HttpRequest, SyncTransport

transport = SyncTransport(Endpoint(sys.argv[1], {}), timeout=5.0, connections_max=1)
get = HttpRequest("GET", "/", {})
transport.send(get)
transport._free.acquire()  # A thread that is not there after the fork has the only connection.
if (child := os.fork()) == 0:
    os._exit(transport.send(get).body != b"hi")
status = os.waitpid(child, 0)[1]
transport._free.release()
sys.exit(status or transport.send(get).body != b"hi")
"""


def test_a_forked_process_has_connections_of_its_own() -> None:
    """On one connection each process would read answers to the other."""
    with serving(lambda _: OK) as server:
        subprocess.run([sys.executable, "-c", FORKED, server.url], check=True, timeout=60)
    assert (len(server.requests), server.connections) == (3, 2)


def test_tasks_wait_for_a_free_connection_in_their_order() -> None:
    async def use(url: str) -> list[int]:
        transport, done = AsyncTransport(endpoint(url), timeout=5.0, connections_max=1), []

        async def ask(number: int) -> None:
            await transport.send(GET)
            done.append(number)

        await asyncio.gather(*(ask(number) for number in range(50)))
        await transport.close()
        return done

    with serving(lambda _: OK) as server:
        done = asyncio.run(use(server.url))
    assert server.connections == 1
    assert done == list(range(50))


def test_a_task_that_waits_too_long_has_sent_nothing() -> None:
    asked, release = threading.Event(), threading.Event()

    def script(_: bytes) -> bytes:
        asked.set()
        release.wait()
        return OK

    async def use(url: str) -> None:
        transport = AsyncTransport(endpoint(url), timeout=60.0, connections_max=1)
        first = asyncio.create_task(transport.send(GET))
        try:
            await asyncio.to_thread(asked.wait)
            transport._timeout = 0.05  # Of the second alone: the first holds the connection.
            with pytest.raises(TransportError, match="every connection is busy") as busy:
                await transport.send(GET)
            assert not busy.value.sent
        finally:
            release.set()
        assert (await first).body == b"hi"
        transport._timeout = 60.0
        assert (await transport.send(GET)).body == b"hi", "the slot was given back"
        await transport.close()

    with serving(script) as server:
        asyncio.run(use(server.url))


def test_cancelled_tasks_leave_no_connection_in_use() -> None:
    """Cancel in every state: connecting, waiting for a slot, waiting for a response."""

    async def use(url: str) -> None:
        transport = AsyncTransport(endpoint(url), timeout=5.0, connections_max=3)
        for delay in range(12):
            tasks = [asyncio.create_task(transport.send(GET)) for _ in range(9)]
            for _ in range(delay):
                await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        answers = await asyncio.gather(*(transport.send(GET) for _ in range(9)))
        assert [answer.body for answer in answers] == [b"hi"] * 9
        await transport.close()

    with serving(lambda _: OK) as server:
        asyncio.run(use(server.url))

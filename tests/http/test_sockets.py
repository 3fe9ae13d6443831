"""Over real sockets: the lanes agree, nobody holds the service up, and a stop cuts nothing off."""

import asyncio
import contextlib
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.http.corpus import CORPUS, GET, LIMITS, PATIENT, get, submit
from tests.http.running import Client, Running, run, running
from tests.http.wire import statuses, without_what_varies
from tests.not_tested import not_tested

from rankd.api.server import listen
from rankd.settings import Settings

ROOT = Path(__file__).parents[2]
LANES = pytest.mark.parametrize("fast_lane", [True, False], ids=["fast", "asgi"])
SOON = 0.05
"""A limit for tests that wait until it has passed."""


def status(answer: bytes) -> int:
    return int(answer.split(b" ")[1])


def test_both_lanes_answer_the_corpus_alike_over_real_connections() -> None:
    async def compare() -> None:
        more = {"cors_origins": ("https://game.example",), **LIMITS, **PATIENT}
        async with running(**more) as fast, running(fast_lane=False, **more) as other:
            for name, entry in CORPUS.items():
                answers = [without_what_varies(await one.ask(entry.sent)) for one in (fast, other)]
                assert answers[0] == answers[1], name
                assert statuses(answers[0], heads=entry.heads) == entry.statuses, name

    run(compare())


# ---------------------------------------------------------------- those who take their time


@LANES
@pytest.mark.parametrize(
    "begun",
    [
        GET[:10],
        GET[:-1],
        submit()[:-1],
        submit()[:-20],
        get(b"/v1/echo/x", b"Expect: 100-continue")[:-1],
    ],
    ids=["line", "head", "body", "most of a body", "expect"],
)
def test_a_request_that_does_not_arrive_whole_is_answered_408(
    begun: bytes, fast_lane: bool
) -> None:
    async def wait() -> None:
        limits = PATIENT | {"request_seconds_max": SOON}
        async with running(fast_lane=fast_lane, **limits) as server:
            async with await server.connect() as client:
                client.send(begun)
                answer = await client.rest()
                assert status(answer) == 408
                assert (b'"applied":"no"' in answer) == begun.startswith(b"POST")
            assert server.service.applied == []

    run(wait())


@LANES
def test_the_time_for_a_request_does_not_begin_anew_with_every_byte(fast_lane: bool) -> None:
    """One byte at a time for as long as the server listens: it must stop by itself."""

    async def drip() -> None:
        limits = PATIENT | {"request_seconds_max": SOON}
        async with (
            running(fast_lane=fast_lane, **limits) as server,
            await server.connect() as client,
        ):
            client.send(b"GET / HTTP/1.1\r\nX: ")
            answered = asyncio.create_task(client.rest())
            while not answered.done():
                client.send(b"a")
                await asyncio.sleep(SOON / 10)
            assert status(await answered) == 408

    run(drip())


@LANES
@pytest.mark.parametrize(
    "before", [b"", GET, submit(), b"\r\n"], ids=["new", "read", "write", "blank"]
)
def test_an_idle_connection_is_closed(before: bytes, fast_lane: bool) -> None:
    async def wait() -> None:
        limits = PATIENT | {"idle_seconds_max": SOON}
        async with (
            running(fast_lane=fast_lane, **limits) as server,
            await server.connect() as client,
        ):
            client.send(before)
            await client.rest()  # It comes back, so the server has closed.

    run(wait())


@LANES
def test_a_client_that_does_not_read_is_cut_off(fast_lane: bool) -> None:
    """It asks for large answers and reads none: its buffers fill, its time ends."""

    async def flood() -> None:
        limits = PATIENT | {"send_seconds_max": SOON}
        async with running(fast_lane=fast_lane, **limits) as server:
            client = await server.connect()
            with contextlib.suppress(OSError):
                while True:
                    client.send(get(b"/v1/large") * 100)
                    await client.writer.drain()
            client.writer.transport.abort()
            assert status(await server.ask(GET)) == 200

    run(flood())


@LANES
def test_a_client_that_reads_late_gets_every_answer(fast_lane: bool) -> None:
    async def read_late() -> None:
        async with (
            running(fast_lane=fast_lane, **PATIENT) as server,
            await server.connect() as client,
        ):
            client.send(get(b"/v1/large") * 400)
            client.end()
            await asyncio.sleep(SOON)  # Long enough for the buffers to fill, or it is no test.
            assert statuses(await client.rest(), heads=False) == (200,) * 400

    run(read_late())


# --------------------------------------------------------------------------- too many


@LANES
def test_a_connection_too_many_is_answered_503_at_once(fast_lane: bool) -> None:
    async def crowd() -> None:
        async with running(fast_lane=fast_lane, connections_max=2, **PATIENT) as server:
            async with await server.connect() as one, await server.connect() as two:
                for client in (one, two):
                    client.send(GET)
                    assert status(await client.answer()) == 200
                async with await server.connect() as three:
                    refused = await three.rest()
                    assert status(refused) == 503
                    assert b"too_many_connections" in refused
                    assert b"retry-after: 1" in refused
                two.send(GET)
                assert status(await two.answer()) == 200
            await _until_gone(server)
            assert status(await server.ask(GET)) == 200

    run(crowd())


async def _until_gone(server: Running) -> None:
    """Until the server, too, has seen that connections were closed."""
    while not (await server.ask(GET)).startswith(b"HTTP/1.1 200 OK"):
        pass


def test_a_healthy_client_is_served_beside_two_thousand_idle_ones() -> None:
    count = 2000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * count + 500
    if hard not in (resource.RLIM_INFINITY,) and hard < wanted:
        not_tested("two thousand clients", f"{hard} open files allowed, {wanted} needed")

    async def crowd() -> None:
        async with running(**PATIENT) as server:
            idle: list[Client] = []
            try:
                for number in range(count):
                    client = await server.connect()
                    idle.append(client)
                    if number % 2:
                        client.send(GET[: number % len(GET)])
                async with await server.connect() as healthy:
                    for _ in range(100):
                        healthy.send(GET)
                        assert status(await healthy.answer()) == 200
                        healthy.send(submit())
                        assert status(await healthy.answer()) == 200
            finally:
                for client in idle:
                    client.writer.transport.abort()

    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
        run(crowd())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# --------------------------------------------------------------------------- stopping


@LANES
def test_a_stop_waits_for_a_write_that_is_running_and_answers_it(fast_lane: bool) -> None:
    async def stop() -> None:
        async with running(fast_lane=fast_lane, **PATIENT) as server:
            service = server.service
            service.auth = asyncio.Event()
            async with await server.connect() as writing, await server.connect() as idle:
                writing.send(submit())
                await service.entered.wait()
                server.stop.set()
                assert await idle.rest() == b""  # Closed: the stop has begun.
                assert not server.serving.done()
                with pytest.raises(OSError):
                    await server.connect()
                service.auth.set()
                answered = await writing.rest()
                writing.end()
                assert status(answered) == 200
                assert b"\r\nconnection: close\r\n" in answered
                await server.serving
                assert service.applied == ["p1"]

    run(stop())


@LANES
def test_a_stop_lets_a_request_that_has_begun_arrive(fast_lane: bool) -> None:
    async def stop() -> None:
        async with running(fast_lane=fast_lane, **PATIENT) as server:
            async with await server.connect() as slow, await server.connect() as idle:
                slow.send(submit()[:-5])
                idle.send(GET)
                await idle.answer()  # The server has turned its loop, so it has read both.
                await _has_read(server, slow)
                server.stop.set()
                assert await idle.rest() == b""
                slow.send(submit()[-5:])
                answered = await slow.rest()
                slow.end()
                assert status(answered) == 200
                await server.serving
            assert server.service.applied == ["p1"]

    run(stop())


async def _has_read(server: Running, client: Client) -> None:
    """Until the bytes sent on this connection have left the system's hands."""
    for _ in range(10):
        assert status(await server.ask(GET)) == 200


@LANES
def test_a_stop_ends_a_handler_that_does_not_and_says_the_outcome_is_unknown(
    fast_lane: bool,
) -> None:
    async def stop() -> None:
        async with running(fast_lane=fast_lane, **PATIENT | {"stop_seconds_max": SOON}) as server:
            server.service.auth = asyncio.Event()
            async with await server.connect() as client:
                client.send(submit())
                await server.service.entered.wait()
                server.stop.set()
                answered = await client.rest()
                assert status(answered) == 503
                assert b'"code":"stopping"' in answered
                assert b'"applied":"unknown"' in answered
                await server.serving

    run(stop())


@LANES
def test_a_write_goes_on_when_its_client_is_gone(fast_lane: bool) -> None:
    async def leave() -> None:
        async with running(fast_lane=fast_lane, **PATIENT) as server:
            service = server.service
            service.auth = asyncio.Event()
            client = await server.connect()
            client.send(submit())
            await service.entered.wait()
            client.writer.transport.abort()
            server.stop.set()
            service.auth.set()
            await server.serving
            assert service.applied == ["p1"]

    run(leave())


@LANES
def test_a_client_that_half_closes_still_gets_its_answers(fast_lane: bool) -> None:
    async def ask() -> None:
        async with running(fast_lane=fast_lane, **PATIENT) as server:
            service = server.service
            service.auth = asyncio.Event()
            async with await server.connect() as client:
                client.send(submit() + GET)
                client.end()
                await service.entered.wait()
                service.auth.set()
                assert statuses(await client.rest(), heads=False) == (200, 200)

    run(ask())


def test_a_refusal_can_be_read_by_a_client_that_is_still_sending() -> None:
    """Closing at once would make the system drop the answer with the bytes nobody read."""

    async def insist() -> None:
        async with (
            running(**LIMITS, **PATIENT) as server,
            await server.connect() as client,
        ):
            client.send(submit(b"x" * 4_000_000))
            assert status(await client.rest()) == 413

    run(insist())


# ---------------------------------------------------------------------- the process


SCRIPT = """
import asyncio
from rankd.api.server import new_event_loop, serve
from rankd.settings import Settings
from tests.http.toys import ROUTES, Service

async def main():
    ready = lambda host, port: print(port, flush=True)
    await serve(ROUTES, Service(), Settings(port=0), ready=ready)
    print("stopped", flush=True)

with asyncio.Runner(loop_factory=new_event_loop) as runner:
    runner.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_process_in_good_order(number: signal.Signals) -> None:
    path = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(ROOT)])
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    ) as child:
        assert child.stdout is not None
        assert int(child.stdout.readline()) > 0
        child.send_signal(number)
        assert child.stdout.readline() == "stopped\n"
        assert child.wait(PATIENCE) == 0


PATIENCE = 60


def test_a_port_that_is_taken_is_told_and_nothing_is_left_open() -> None:
    with listen(Settings(port=0)) as first:
        first.listen()
        port = first.getsockname()[1]
        with pytest.raises(OSError) as refused:
            listen(Settings(port=port))
        assert refused.value.filename == f"127.0.0.1:{port}"


def test_several_may_share_a_port_if_all_of_them_say_so() -> None:
    with listen(Settings(port=0), share_port=True) as first:
        port = first.getsockname()[1]
        with listen(Settings(port=port), share_port=True) as second:
            assert second.getsockname()[1] == port

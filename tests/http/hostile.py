"""python -m tests.http.hostile --clients N: nobody who means ill keeps others from being served.

Method: the real program serves under short limits. Many clients at once are slow, endless, silent
or deaf, each in a way of its own, and come again as soon as they are shut out; a few healthy ones
submit scores and read ranks beside them. Every hostile connection must be ended by the server,
every healthy answer must be right, and the memory of the service must stay bounded. How long the
healthy ones waited is printed, not judged.
"""

import argparse
import asyncio
import json
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import msgspec
from tests.http.clocked import environment, serving
from tests.http.corpus import get, post
from tests.http.running import Client

from rankd.api.server import new_event_loop

LIMITS = {
    "request-seconds-max": "1",
    "idle-seconds-max": "1",
    "send-seconds-max": "1",
    "linger-seconds-max": "1",
}
HEALTHY = 4
SCORES = "/v1/boards/b/scores"
RSS_BYTES_MAX = 512 * 2**20
"""What a service may take, whoever asks for what."""

SHUT_OUT_SECONDS_MAX = 60
"""A connection that lasts so long is not bounded by limits of a second."""


def _head(method: bytes, target: bytes, *headers: bytes) -> bytes:
    return get(target, *headers, method=method).replace(b"Host: t", b"Host: localhost")


# ---------------------------------------------------------------------- ways to be hostile


async def _trickle(client: Client, data: bytes) -> None:
    for byte in data:
        client.send(bytes([byte]))
        await asyncio.sleep(0.05)


async def slow_head(client: Client) -> None:
    await _trickle(client, b"GET /v1/boards HTTP/1.1\r\nX: " + b"a" * 1000)


async def slow_body(client: Client) -> None:
    client.send(_head(b"POST", SCORES.encode(), b"Content-Length: 1000"))
    await _trickle(client, b" " * 1000)


async def slow_chunks(client: Client) -> None:
    client.send(_head(b"POST", SCORES.encode(), b"Transfer-Encoding: chunked"))
    await _trickle(client, b"1\r\n \r\n" * 200)


async def _flood(client: Client, piece: bytes) -> None:
    while True:
        client.send(piece)
        await client.writer.drain()


async def endless_head(client: Client) -> None:
    client.send(b"GET / HTTP/1.1\r\n")
    await _flood(client, b"X-A: " + b"a" * 2000 + b"\r\n")


async def huge_body(client: Client) -> None:
    client.send(_head(b"POST", b"/v1/scores:batch", b"Content-Length: 1000000000"))
    await _flood(client, b" " * 65536)


async def endless_chunks(client: Client) -> None:
    client.send(_head(b"POST", b"/v1/scores:batch", b"Transfer-Encoding: chunked"))
    await _flood(client, b"1000\r\n" + b" " * 4096 + b"\r\n")


async def silent(client: Client) -> None:
    await asyncio.sleep(SHUT_OUT_SECONDS_MAX)


async def deaf(client: Client) -> None:
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]
    await _flood(client, _head(b"GET", b"/openapi.json"))


WAYS: tuple[Callable[[Client], Awaitable[None]], ...] = (
    *(slow_head, slow_body, slow_chunks, endless_head, huge_body, endless_chunks, silent, deaf),
)


async def be_hostile(port: int, way: Callable[[Client], Awaitable[None]]) -> None:
    """Be hostile once, until the server ends it."""
    try:
        client = Client(*await asyncio.open_connection("127.0.0.1", port))
    except OSError:
        return  # Not even let in.
    tasks = [asyncio.ensure_future(way(client)), asyncio.ensure_future(client.rest())]
    try:
        done, _ = await asyncio.wait(
            tasks, timeout=SHUT_OUT_SECONDS_MAX, return_when=asyncio.FIRST_COMPLETED
        )
        assert done, f"{way.__name__} was not shut out"
    finally:
        client.writer.transport.abort()
        for task in tasks:
            task.cancel()
        # A connection that is ended under whoever writes to it is what we are here for.
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    for end in ends:  # RuntimeError: uvloop's word for a transport that is closed.
        fine = bytes | OSError | RuntimeError | asyncio.CancelledError
        assert end is None or isinstance(end, fine), repr(end)


# ------------------------------------------------------------------------------ the healthy


class Healthy(msgspec.Struct):
    """What clients met who did nothing wrong."""

    served: int = 0
    """Scores that were counted and read."""
    waits: list[float] = []
    """Seconds, for each answer."""


async def be_healthy(port: int, name: str, over: asyncio.Event, met: Healthy) -> None:
    """Submit and read, and expect every answer to be right."""
    score = 0
    client = Client(*await asyncio.open_connection("127.0.0.1", port))
    async with client:
        while not over.is_set():
            score += 1
            body = b'{"player":"%b","score":%d}' % (name.encode(), score)
            for sent in (
                post(SCORES.encode(), body),
                get(f"/v1/boards/b/standings/{name}".encode()),
            ):
                began = time.perf_counter()
                client.send(sent.replace(b"Host: t", b"Host: localhost"))
                head, _, told = (await client.answer()).partition(b"\r\n\r\n")
                met.waits.append(time.perf_counter() - began)
                assert head.startswith(b"HTTP/1.1 200 OK"), head
                assert json.loads(told)["score"] == score, told
            met.served += 1
            if met.served == 1:
                sys.stdout.write("\n")  # Healthy clients are served: others may begin.
                sys.stdout.flush()


async def all_healthy(port: int) -> Healthy:
    """Be healthy until the end of standard input."""
    over, met = asyncio.Event(), Healthy()
    async with asyncio.TaskGroup() as group:
        for number in range(HEALTHY):
            group.create_task(be_healthy(port, f"h{number}", over, met))
        await asyncio.to_thread(sys.stdin.buffer.read)
        over.set()
    return met


# ------------------------------------------------------------------------------- campaigns


class Found(NamedTuple):
    """What a campaign met."""

    shut_out: Counter[str]
    healthy: Healthy
    rss_bytes: int


async def campaign(port: int, pid: int, *, clients: int, rounds: int) -> Found:
    """Let so many be hostile, one after another in each place, beside a few who are not."""
    shut_out: Counter[str] = Counter()

    async def keep_on(way: Callable[[Client], Awaitable[None]]) -> None:
        for _ in range(rounds):
            await be_hostile(port, way)
            shut_out[way.__name__] += 1

    # In a process of their own: they must not be late because the hostile ones are busy.
    healthy = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.http.hostile", "--healthy", str(port)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=environment(),
    )
    try:
        assert healthy.stdout is not None
        assert await healthy.stdout.readline(), "no healthy client was served"
        await asyncio.gather(*(keep_on(WAYS[n % len(WAYS)]) for n in range(clients)))
        told, _ = await healthy.communicate(b"")  # Which ends its input.
        assert healthy.returncode == 0, "a healthy client was harmed"
    finally:
        if healthy.returncode is None:
            healthy.kill()
            await healthy.wait()
    return Found(shut_out, msgspec.json.decode(told, type=Healthy), _rss_peak_bytes(pid))


def _rss_peak_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the system does not tell")


def attack(home: Path, *, clients: int, rounds: int) -> Found:
    """Serve, be hostile, and judge."""
    options = [word for name, value in LIMITS.items() for word in (f"--{name}", value)]
    with serving(home, "--port", "0", *options) as served:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(_define(served.port))
            found = runner.run(
                campaign(served.port, served.process.pid, clients=clients, rounds=rounds)
            )
        assert served.stop() == 0
    assert found.rss_bytes <= RSS_BYTES_MAX, f"it took {found.rss_bytes / 2**20:.0f} MiB"
    return found


async def _define(port: int) -> None:
    client = Client(*await asyncio.open_connection("127.0.0.1", port))
    async with client:
        sent = post(b"/v1/boards/b", b"{}", method=b"PUT")
        client.send(sent.replace(b"Host: t", b"Host: localhost"))
        assert b" 201 " in await client.answer()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.http.hostile", description=__doc__)
    parser.add_argument("--clients", type=int, default=2000, help="who are hostile at once")
    parser.add_argument("--rounds", type=int, default=5, help="how often each comes again")
    parser.add_argument("--healthy", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.healthy:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            met = runner.run(all_healthy(options.healthy))
        sys.stdout.write(msgspec.json.encode(met).decode())
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 65_536)), hard))
    with tempfile.TemporaryDirectory() as home:
        found = attack(Path(home), clients=options.clients, rounds=options.rounds)
    waits = sorted(found.healthy.waits)
    told = ", ".join(f"{way}: {count}" for way, count in sorted(found.shut_out.items()))
    sys.stdout.write(
        f"{found.shut_out.total()} hostile connections shut out ({told});"
        f" {found.healthy.served} scores of healthy clients counted and read, each answer right,"
        f" p50 {waits[len(waits) // 2]:.4f} s, p99 {waits[len(waits) * 99 // 100]:.4f} s;"
        f" at most {found.rss_bytes / 2**20:.0f} MiB\n"
    )


if __name__ == "__main__":
    main()

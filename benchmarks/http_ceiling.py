"""python -m benchmarks.http_ceiling: how near does the fast lane come to what Python can do at all?

Question: of the requests a second that httptools and uvloop allow a protocol which answers a
constant, how many are left when the request is checked, routed, handled and answered properly?

Method: three servers, each in a process of its own, one after the other and in turns, under wrk
with 32 connections: the constant (``Ceiling``, below), the fast lane, and the same route through
uvicorn and ASGI. All send the same 98 bytes of JSON under the same headers. Beside requests a
second the processor time a request cost the server is shown: on a machine that has other work it
is the figure to compare, for it counts only our own work.

Needs wrk (Debian: apt-get install wrk).
"""

import argparse
import asyncio
import os
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple, cast

import httptools

from rankd.api.messages import Request, Response
from rankd.api.routing import Route
from rankd.api.server import new_event_loop, serve
from rankd.settings import Settings

ROUNDS = 5
SECONDS = 3
CONNECTIONS = 32
BODY = (
    b'{"board":"global","player":"p42","rank":42,"score":4500,'
    b'"total":1000000,"percentile":99.99,"ok":1}'
)
HEADERS = (
    b"date: Mon, 16 Nov 2026 00:00:00 GMT\r\ncontent-type: application/json\r\n"
    b"cache-control: no-store\r\nx-content-type-options: nosniff\r\n"
    b"referrer-policy: no-referrer\r\n"
)
LUA = Path(__file__).with_name("http_players.lua")
SERVERS = ("ceiling", "fast", "asgi")


class Ceiling(asyncio.Protocol):
    """Parses each request with httptools and answers always the same."""

    ANSWER = b"HTTP/1.1 200 OK\r\n%bcontent-length: %d\r\n\r\n%b" % (HEADERS, len(BODY), BODY)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.parser = httptools.HttpRequestParser(self)

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_message_complete(self) -> None:
        self.transport.write(self.ANSWER)


async def standing(_service: object, _request: Request) -> Response:
    return Response(BODY)


ROUTES = [
    Route(
        method="GET",
        path="/v1/boards/{board}/standings/{player}",
        operation="standing",
        handler=standing,
        hot=True,
    )
]


async def run_server(name: str) -> None:
    if name == "ceiling":
        server = await asyncio.get_running_loop().create_server(Ceiling, "127.0.0.1", 0)
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()
    settings = Settings(port=0, fast_lane=name == "fast")
    await serve(ROUTES, None, settings, ready=lambda _host, port: print(port, flush=True))


class Round(NamedTuple):
    per_second: float
    cpu_microseconds: float


def measure(name: str, seconds: int, *, many: bool) -> Round:
    child = [sys.executable, "-m", "benchmarks.http_ceiling", "--serve", name]
    with subprocess.Popen(child, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            url = f"http://127.0.0.1:{int(server.stdout.readline())}/v1/boards/global/standings/p42"
            before = cpu_seconds(server.pid)
            load = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}"]
            script = ["-s", str(LUA)] if many else []
            done = subprocess.run(
                [*load, *script, url], capture_output=True, text=True, check=True, timeout=60
            )
            spent = cpu_seconds(server.pid) - before
        finally:
            server.kill()
    assert "Non-2xx" not in done.stdout, done.stdout
    found = re.search(r"(\d+) requests in", done.stdout)
    rate = re.search(r"Requests/sec:\s+([\d.]+)", done.stdout)
    assert found and rate, done.stdout
    return Round(float(rate[1]), spent / int(found[1]) * 1e6)


def cpu_seconds(pid: int) -> float:
    """Processor time a process has used, in the system and for itself."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.http_ceiling", description=__doc__)
    parser.add_argument("--serve", choices=SERVERS, help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=int, default=SECONDS)
    parser.add_argument("--many", action="store_true", help="ask for 100,000 players in turn")
    options = parser.parse_args()
    if options.serve:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(run_server(options.serve))
        return
    if shutil.which("wrk") is None:
        sys.exit("wrk is not installed: apt-get install wrk")
    rounds = [
        {name: measure(name, options.seconds, many=options.many) for name in SERVERS}
        for _ in range(options.rounds)
    ]
    print("server    requests/s    of ceiling    CPU us/request    of ceiling")
    for name in SERVERS:
        rate = statistics.median(one[name].per_second for one in rounds)
        share = statistics.median(
            one[name].per_second / one["ceiling"].per_second for one in rounds
        )
        cpu = statistics.median(one[name].cpu_microseconds for one in rounds)
        lean = statistics.median(
            one["ceiling"].cpu_microseconds / one[name].cpu_microseconds for one in rounds
        )
        print(f"{name:<8}{rate:>12,.0f}{share:>14.2f}{cpu:>18.1f}{lean:>14.2f}")


if __name__ == "__main__":
    main()

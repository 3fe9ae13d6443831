"""What does the Python client cost, beside the HTTP library that one would use without it?

A real service with a key and a board of 10,000 players; each client asks for ranks and sends
submissions with keys. The synchronous client over one connection beside http.client, the one for
an event loop beside aiohttp with 1, 32 and 400 calls in flight. The libraries send the same
requests and decode the JSON of each answer with the standard library, as one would.
"""

import asyncio
import http.client
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import rankd
from benchmarks.figures import Goal, quotient
from benchmarks.progress import tell
from benchmarks.questions import Asked, answer, find, judged, row

NAME = "clients"
QUESTION = "What does the Python client cost, beside a plain HTTP library?"
SECONDS = 2.0
ROUNDS = 3
IN_FLIGHT = (1, 32, 400)
PLAYERS = 10_000
PATH = "/v1/boards/arena"


def run(asked: Asked) -> dict[str, Any]:
    """Measure, and judge by the goals."""
    rows: list[dict[str, Any]] = []
    with _service() as (port, key):
        for what in ("rank", "submission"):
            rows += _sync_rows(port, key, what)
            for in_flight in IN_FLIGHT:
                rows += _async_rows(port, key, what, in_flight)
    result = answer(NAME, QUESTION, asked, rows)
    return judged(result, list(_goals(result)))


def _goals(result: dict[str, Any]) -> Iterator[Goal]:
    pairs = [("Client", "http.client", "one connection")]
    pairs += [("AsyncClient", "aiohttp", f"{count} in flight") for count in IN_FLIGHT]
    for what in ("rank", "submission"):
        for ours, theirs, how in pairs:
            yield Goal(
                "P19",
                f"{what} by {ours}, {how}, of {theirs}",
                "",
                "at least",
                0.7,
                lambda ours=ours, theirs=theirs, how=how, what=what: quotient(  # type: ignore[misc]
                    find(result, f"{what}, {ours}, {how}"),
                    find(result, f"{what}, {theirs}, {how}"),
                ),
            )


@contextmanager
def _service() -> Iterator[tuple[int, str]]:
    with tempfile.TemporaryDirectory() as folder:
        with rankd.open(folder) as ranks:
            board = ranks.board("arena")
            board.submit_many([(f"user:{n}", n) for n in range(PLAYERS)])
        rankd_command = [sys.executable, "-m", "rankd"]
        made = subprocess.run(
            [*rankd_command, "keys", "create", "--scope", "admin", "--data", folder, "--json"],
            capture_output=True,
            text=True,
            check=True,
        )
        command = [*rankd_command, "serve", "--port", "0", "--data", folder]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                port = int(process.stdout.readline().rsplit(":", 1)[1])
                yield port, json.loads(made.stdout)["key"]
            finally:
                process.terminate()


# ------------------------------------------------------------------------------ synchronous


def _sync_rows(port: int, key: str, what: str) -> list[dict[str, Any]]:
    tell(f"clients: {what}, synchronous")
    with rankd.Client(f"http://127.0.0.1:{port}", key) as client:
        plain = http.client.HTTPConnection("127.0.0.1", port)
        ours = _client_call(client, what)
        theirs = _http_client_call(plain, key, what)
        figures: dict[str, list[float]] = {"Client": [], "http.client": []}
        for _ in range(ROUNDS):
            figures["Client"].append(_rate(ours))
            figures["http.client"].append(_rate(theirs))
        plain.close()
    return [
        row(f"{what}, {name}, one connection", statistics.median(rates), "/s")
        for name, rates in figures.items()
    ]


def _rate(call: Callable[[int], object]) -> float:
    done, end, started = 0, time.perf_counter() + SECONDS, time.perf_counter()
    while time.perf_counter() < end:
        call(done % PLAYERS)
        done += 1
    return done / (time.perf_counter() - started)


def _client_call(client: rankd.Client, what: str) -> Callable[[int], object]:
    if what == "rank":
        return lambda n: client.standing("arena", f"user:{n}")
    return lambda n: client.submit("arena", f"user:{n}", n)


def _http_client_call(
    plain: http.client.HTTPConnection, key: str, what: str
) -> Callable[[int], object]:
    headers = {"authorization": f"Bearer {key}", "accept": "application/json"}
    posted = {**headers, "content-type": "application/json"}

    def rank(n: int) -> object:
        plain.request("GET", f"{PATH}/standings/user%3A{n}", headers=headers)
        return json.loads(plain.getresponse().read())

    def submit(n: int) -> object:
        plain.request("POST", f"{PATH}/scores", body=_submission(n), headers=posted)
        return json.loads(plain.getresponse().read())

    return rank if what == "rank" else submit


def _submission(n: int) -> str:
    return json.dumps({"player": f"user:{n}", "score": n, "key": uuid.uuid4().hex})


# ----------------------------------------------------------------------------- event loop


def _async_rows(port: int, key: str, what: str, in_flight: int) -> list[dict[str, Any]]:
    tell(f"clients: {what}, {in_flight} in flight")
    figures: dict[str, list[float]] = {"AsyncClient": [], "aiohttp": []}
    for _ in range(ROUNDS):
        figures["AsyncClient"].append(asyncio.run(_async_client_rate(port, key, what, in_flight)))
        figures["aiohttp"].append(asyncio.run(_aiohttp_rate(port, key, what, in_flight)))
    return [
        row(f"{what}, {name}, {in_flight} in flight", statistics.median(rates), "/s")
        for name, rates in figures.items()
    ]


async def _loop_rate(call: Callable[[int], Awaitable[object]], in_flight: int) -> float:
    numbers, end = itertools.count(), time.perf_counter() + SECONDS
    started = time.perf_counter()

    async def go_on() -> None:
        while time.perf_counter() < end:
            await call(next(numbers) % PLAYERS)

    await asyncio.gather(*(go_on() for _ in range(in_flight)))
    return next(numbers) / (time.perf_counter() - started)


async def _async_client_rate(port: int, key: str, what: str, in_flight: int) -> float:
    async with rankd.AsyncClient(f"http://127.0.0.1:{port}", key) as client:
        if what == "rank":
            return await _loop_rate(lambda n: client.standing("arena", f"user:{n}"), in_flight)
        return await _loop_rate(lambda n: client.submit("arena", f"user:{n}", n), in_flight)


async def _aiohttp_rate(port: int, key: str, what: str, in_flight: int) -> float:
    import aiohttp

    headers = {"authorization": f"Bearer {key}", "accept": "application/json"}
    posted = {"content-type": "application/json"}
    url = f"http://127.0.0.1:{port}{PATH}"
    async with aiohttp.ClientSession(headers=headers) as session:

        async def rank(n: int) -> object:
            async with session.get(f"{url}/standings/user:{n}") as response:
                return await response.json()

        async def submit(n: int) -> object:
            body = _submission(n)
            async with session.post(f"{url}/scores", data=body, headers=posted) as response:
                return await response.json()

        return await _loop_rate(rank if what == "rank" else submit, in_flight)

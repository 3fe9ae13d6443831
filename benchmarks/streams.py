"""How soon does an update reach ten thousand subscribers of one board?

A service in a process of its own takes updates, a thousand a second; a client in this process holds
the subscribers and notes when each gets an event. The time counts from the answer to an update
until the event that has it has arrived. Then a tenth of the subscribers stop reading.
"""

import asyncio
import contextlib
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.figures import Goal
from benchmarks.progress import tell
from benchmarks.questions import Asked, answer, find, judged, row

NAME = "streams"
QUESTION = "How soon does an update reach the subscribers of a board?"

UPDATES_PER_SECOND = 1_000
SECONDS = 10
TOGETHER = 10
"""Updates that are sent in one batch."""
PLAYERS = 100_000
TOP = 10


class Subscriber(asyncio.Protocol):
    """One stream, which notes the position and the time of its events."""

    def __init__(self, watch: "Watch") -> None:
        self._watch = watch
        self._position = 0
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        path = f"/v1/boards/arena/stream?top={TOP}"
        self.transport.write(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())

    def data_received(self, data: bytes) -> None:
        begin = data.rfind(b"id: ")
        if begin >= 0:
            position = int(data[begin + 4 : data.index(b"\n", begin)])
            self._watch.note(self._position, position)
            self._position = position


class Watch:
    """What was committed when, and how late it arrived."""

    def __init__(self) -> None:
        self.committed: dict[int, float] = {}
        self.late: list[float] = []
        self.greeted = 0
        self.measures = False

    def note(self, before: int, position: int) -> None:
        """Note an event: it has all commits since the one before."""
        self.greeted += before == 0
        if not (before and self.measures):
            return
        now = time.perf_counter()
        for since, at in self.committed.items():
            if before < since <= position:
                self.late.append(now - at)  # The oldest of them has waited longest.
                break


def run(asked: Asked) -> dict[str, Any]:
    """Measure with as many subscribers as players are asked for, and judge by the goal."""
    with tempfile.TemporaryDirectory() as folder, _served(folder, asked.players) as (port, pid):
        rows = uvloop.run(_measured(port, pid, asked.players))
    result = answer(NAME, QUESTION, asked, rows)
    what = "p99 from commit to delivery"
    goal = Goal("P10", what, "ms", "at most", 250, lambda: find(result, what))
    return judged(result, [goal])


@contextlib.contextmanager
def _served(folder: str, subscribers: int) -> Any:
    command = [sys.executable, "-m", "rankd", "serve", "--port", "0", "--data", folder]
    more = ["--connections-max", str(subscribers + 100)]
    more += ["--stream-subscriptions-max", str(subscribers + 100)]
    with subprocess.Popen([*command, *more], stdout=subprocess.PIPE, text=True) as service:
        assert service.stdout is not None
        try:
            yield int(service.stdout.readline().rpartition(":")[2]), service.pid
        finally:
            service.terminate()


async def _measured(port: int, pid: int, subscribers: int) -> list[dict[str, Any]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    await _ask(reader, writer, "PUT", "/v1/boards/arena", {})
    dice, watch = random.Random(1), Watch()
    for _ in range(PLAYERS // 1000):
        await _submit(reader, writer, dice, 1000)
    before = _resident(pid)
    tell(f"streams: {subscribers:,} subscribers")
    made = await _subscribed(port, watch, subscribers)
    held = _resident(pid) - before
    rows = [row("memory of a subscriber in the service", held / subscribers / 1e3, "kB")]
    rows += await _updated(reader, writer, dice, watch, pid, "")
    for one in made[: subscribers // 10]:
        one.transport.pause_reading()
    tell("streams: a tenth does not read")
    rows += await _updated(reader, writer, dice, watch, pid, ", a tenth not reading")
    for one in made:
        one.transport.abort()
    writer.close()
    return rows


async def _subscribed(port: int, watch: Watch, subscribers: int) -> list[Subscriber]:
    loop, made = asyncio.get_running_loop(), []
    for _ in range(subscribers):
        _, one = await loop.create_connection(lambda: Subscriber(watch), "127.0.0.1", port)
        made.append(one)
    while watch.greeted < subscribers:  # noqa: ASYNC110 - subscribers note it
        await asyncio.sleep(0.01)
    return made


async def _updated(
    reader: Any, writer: Any, dice: random.Random, watch: Watch, pid: int, when: str
) -> list[dict[str, Any]]:
    """Update for some seconds; return how late the events came."""
    watch.committed.clear()
    watch.late.clear()
    watch.measures, spent, began = True, _processor_seconds(pid), time.perf_counter()
    for number in range(SECONDS * UPDATES_PER_SECOND // TOGETHER):
        due = began + number * TOGETHER / UPDATES_PER_SECOND
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        position = await _submit(reader, writer, dice, TOGETHER)
        watch.committed[position] = time.perf_counter()
    elapsed = time.perf_counter() - began
    await asyncio.sleep(1)
    watch.measures = False
    late = sorted(watch.late)
    busy = (_processor_seconds(pid) - spent) / elapsed
    return [
        row(f"updates{when}", SECONDS * UPDATES_PER_SECOND / elapsed, "updates/s"),
        row(f"events{when}", len(late) / elapsed, "events/s"),
        row(f"p50 from commit to delivery{when}", late[len(late) // 2] * 1e3, "ms"),
        row(f"p99 from commit to delivery{when}", late[int(len(late) * 0.99)] * 1e3, "ms"),
        row(f"processor time of the service{when}", busy * 100, "%"),
    ]


async def _submit(reader: Any, writer: Any, dice: random.Random, many: int) -> int:
    """Submit scores, the last of which changes the top; return its position."""
    scores = [
        {"board": "arena", "player": f"p{dice.randrange(PLAYERS)}", "score": dice.randrange(10**6)}
        for _ in range(many)
    ]
    top = {"board": "arena", "player": f"t{dice.randrange(20)}", "delta": dice.randrange(1, 10**6)}
    told = await _ask(reader, writer, "POST", "/v1/scores:batch", {"scores": [*scores[1:], top]})
    position: int = told["results"][-1]["position"]
    return position


async def _ask(reader: Any, writer: Any, method: str, path: str, body: Any) -> Any:
    sent = json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    writer.write(f"{head}content-length: {len(sent)}\r\n\r\n".encode() + sent)
    answered = await reader.readuntil(b"\r\n\r\n")
    length = int(answered.partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return json.loads(await reader.readexactly(length))


def _resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100

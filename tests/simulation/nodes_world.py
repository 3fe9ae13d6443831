"""What the campaign of several nodes is made of: real servers, real nodes, and wires between them.

PostgreSQL and Redis can be killed and started again; whoever is started again has another port, so
nodes reach both through proxies. Each node has its own to PostgreSQL, so that one can be cut off
alone. A node is the program itself, in a process of its own, and is spoken to over HTTP only.
"""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple

from tests.standins import fresh_environment

import rankd
from rankd.api.routing import ALL, INGEST, QUERY
from rankd.testing import servers
from rankd.testing.proxy import Proxy
from rankd.testing.redis_servers import say
from rankd.testing.servers import HOST, RedisServer, redis_server

READY = "rankd ready on http://"

PATIENCE_SECONDS = 60.0
"""When something must have happened that will, however slow the machine."""

LOOK_SECONDS = 0.02
"""How often to look whether it has."""

CALL_SECONDS = 1
"""How long the nodes wait for one answer of Redis: a Redis that stands still is noticed sooner."""

LIST_SECONDS = 0.3
"""How often nodes keep what they answer from without Redis, which comes and goes in a round."""

SOURCE = Path(rankd.__file__).parents[1]
"""Where nodes find the program, unless they are to run another copy of it."""


class TooLate(AssertionError):
    """Something that had to happen did not."""


async def until(happened: Callable[[], Awaitable[bool]], what: str) -> None:
    """Wait for something to happen. Raises TooLate."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await happened():  # noqa: ASYNC110 - it happens in another process
                await asyncio.sleep(LOOK_SECONDS)
    except TimeoutError:
        raise TooLate(f"it never happened that {what}") from None


# ----------------------------------------------------------------------------------- Redis


class RedisMachine:
    """A Redis that forgets everything when it dies, and the replica that may take its place."""

    def __init__(self) -> None:
        self._running = contextlib.ExitStack()
        self._following = contextlib.ExitStack()
        self.server: RedisServer

    def start(self) -> None:
        self.server = self._running.enter_context(redis_server())

    def kill(self) -> None:
        """End it without a farewell."""
        os.kill(self.server.pid, signal.SIGKILL)
        self._running.close()

    def pause(self) -> None:
        os.kill(self.server.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.server.pid, signal.SIGCONT)

    def start_replica(self) -> RedisServer:
        """Start a server that has all that the master has now."""
        options = {"repl-diskless-sync-delay": "0"}
        say(self.server, "CONFIG", "SET", "repl-diskless-sync-delay", "0")
        replica = self._following.enter_context(redis_server(options=options))
        say(replica, "REPLICAOF", HOST, self.server.port)
        return replica

    def promote(self, replica: RedisServer) -> None:
        """Kill the master and go on with the replica."""
        self.kill()
        self.server = replica
        self._running, self._following = self._following, contextlib.ExitStack()

    def stop(self) -> None:
        self._running.close()
        self._following.close()


@contextlib.contextmanager
def redis_machine() -> Iterator[RedisMachine]:
    made = RedisMachine()
    made.start()
    try:
        yield made
    finally:
        made.stop()


# ----------------------------------------------------------------------------------- nodes


@dataclass(eq=False)
class Node:
    """One node: the program in a process of its own."""

    name: str
    folder: Path
    ledger: str
    index: str
    spare: bool = False
    role: str = ALL
    spools: bool = False
    source: Path = SOURCE
    wire: Proxy | None = None
    """Its way to PostgreSQL."""
    port: int = 0
    process: subprocess.Popen[str] | None = None
    watchdog: subprocess.Popen[bytes] | None = None
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while clients do not wait for this node."""
    starts: int = 0

    @property
    def shares(self) -> bool:
        """Whether its index is the one in Redis."""
        return self.index != "native"

    @property
    def takes(self) -> bool:
        """Whether it takes scores."""
        return self.role in (ALL, INGEST)

    @property
    def tells(self) -> bool:
        """Whether it answers who is where."""
        return self.role in (ALL, QUERY)

    @property
    def log(self) -> Path:
        return self.folder / "log"

    async def start(self) -> None:
        """Start it, and wait until it answers. Raises TooLate."""
        self.folder.mkdir(exist_ok=True)
        starting = asyncio.create_task(asyncio.to_thread(self._started))
        done, _ = await asyncio.wait({starting}, timeout=PATIENCE_SECONDS)
        if not done and self.process is not None:
            self.process.kill()  # Then its line ends.
        line = await starting
        if not line.startswith(READY):
            raise TooLate(f"{self.name} did not start: {self.log.read_text()[-2000:]}")
        self.port = int(line.rpartition(":")[2])
        self.starts += 1

    def _started(self) -> str:
        command = [sys.executable, "-m", "rankd", "serve", "--data", str(self.folder / "data")]
        command += ["--port", "0", "--ledger", self.ledger, "--index", self.index]
        command += ["--node", self.name, "--spare-index" if self.spare else "--no-spare-index"]
        command += ["--top-list-seconds", str(LIST_SECONDS)]
        command += ["--role", self.role, "--spool" if self.spools else "--no-spool"]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                command,
                cwd=self.folder,
                env={**fresh_environment(), "PYTHONPATH": str(self.source)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        self._watch(self.process.pid)
        assert self.process.stdout is not None
        return _line_of(self.process.stdout)

    def _watch(self, pid: int) -> None:
        """See that it ends with this process, however that ends (rankd.testing.watchdog)."""
        self.watchdog = subprocess.Popen(
            [sys.executable, "-I", "-S", str(servers._WATCHDOG), ""],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        assert self.watchdog.stdin is not None
        self.watchdog.stdin.write(b"%d %d\n" % (pid, signal.SIGKILL))
        self.watchdog.stdin.flush()

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        """End it without a farewell, and wait until it is gone."""
        if self.process is None:
            return
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process = None
        assert self.watchdog is not None
        with self.watchdog:
            assert self.watchdog.stdin is not None
            self.watchdog.stdin.write(b"done\n")


def _line_of(stream: IO[str]) -> str:
    return stream.readline()


# -------------------------------------------------------------------------------- speaking


class Heard(NamedTuple):
    """An answer over HTTP."""

    status: int
    body: dict[str, Any]


class NotSent(Exception):
    """Nothing was sent: nobody was there."""


class Lost(Exception):
    """It was sent, or part of it, and no answer came."""


class Line:
    """One client's connection to one node, opened when it is needed."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._starts = 0

    async def ask(self, method: str, path: str, body: object = None) -> Heard:
        """Send a request and return its answer. Raises NotSent and Lost.

        Nobody waits for a node that clients have hung up on. Of any other an answer that never
        comes is a finding: TooLate.
        """
        reader, writer = await self._reach()
        asking = asyncio.ensure_future(_exchange(reader, writer, method, path, body))
        leaving = asyncio.ensure_future(self._node.hung_up.wait())
        try:
            first = asyncio.FIRST_COMPLETED
            await asyncio.wait({asking, leaving}, timeout=PATIENCE_SECONDS, return_when=first)
            if not asking.done() and not leaving.done():
                raise TooLate(f"{self._node.name} never answered {method} {path} {body or ''}")
            if not asking.done():
                raise Lost("the client hung up")
            return await asking
        except (OSError, EOFError, ValueError, Lost) as exc:
            self.close()
            raise Lost(repr(exc)) from exc
        except TooLate:
            self.close()
            raise
        finally:
            for task in (asking, leaving):
                task.cancel()
            await asyncio.gather(asking, leaving, return_exceptions=True)

    async def _reach(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._starts != self._node.starts:
            self.close()  # It is another process by now.
        if self._streams is not None and self._streams[0].at_eof():
            self.close()
        if self._node.hung_up.is_set():
            raise NotSent("clients do not call this node now")
        if self._streams is None:
            self._starts = self._node.starts
            try:
                self._streams = await asyncio.open_connection(HOST, self._node.port)
            except OSError as exc:
                raise NotSent(repr(exc)) from exc
        return self._streams

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None


async def _exchange(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    method: str,
    path: str,
    body: object,
) -> Heard:
    sent = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nhost: {HOST}\r\ncontent-length: {len(sent)}\r\n"
    head += "content-type: application/json\r\n\r\n"
    writer.write(head.encode() + sent)
    await writer.drain()
    lines = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
    length = next(line for line in lines if line.startswith("content-length:"))
    text = await reader.readexactly(int(length.partition(":")[2]))
    return Heard(int(lines[0].split()[1]), json.loads(text) if text else {})


async def called(node: Node, method: str, path: str, body: object = None) -> Heard | None:
    """Ask once over a connection of its own; None where there is no answer."""
    line = Line(node)
    try:
        return await line.ask(method, path, body)
    except (NotSent, Lost):
        return None
    finally:
        line.close()


async def health(node: Node) -> str:
    """Return what a node says of itself: ready, degraded, failed; or nothing."""
    heard = await called(node, "GET", "/readyz")
    return "" if heard is None else str(heard.body.get("status"))


async def spooled(node: Node) -> int:
    """Return how many scores wait on a node's disk; -1 if it does not say."""
    try:
        reader, writer = await asyncio.open_connection(HOST, node.port)
    except OSError:
        return -1
    try:
        writer.write(b"GET /metrics HTTP/1.1\r\nhost: rankd\r\nconnection: close\r\n\r\n")
        async with asyncio.timeout(PATIENCE_SECONDS):
            lines = (await reader.read(-1)).decode().splitlines()
    finally:
        writer.transport.abort()
    told = [line for line in lines if line.startswith("rankd_spooled_facts ")]
    return int(float(told[0].split()[1])) if told else -1


async def all_are(nodes: Sequence[Node], status: str) -> bool:
    return all([await health(node) == status for node in nodes])

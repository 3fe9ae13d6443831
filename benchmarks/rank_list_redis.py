"""Redis's side of the benchmark: one sorted set, and commands encoded before the clock starts.

The client must cost little, or it would be the client that is measured. So it is not a library: it
sends pipelines that are ready as bytes, over a Unix socket, and of the replies it only counts the
lines. Several ways of sending are tried and the fastest is the one compared with; redis-benchmark,
Redis's own, is one of them where it is installed. `cpu` is the server's processor time alone.
"""

import contextlib
import gc
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks import entries, machine
from benchmarks.figures import Sample
from benchmarks.progress import told
from benchmarks.rank_list_native import CHUNK_ENTRIES, CHUNK_PAGES, PAGE_ENTRIES
from rankd.testing.servers import RedisServer, redis_server

SYSTEM = "Redis"

_SOCKET = "redis.sock"  # In the server's folder.
_RECEIVE_BYTES = 1 << 20
_SEED = 1
_FILL_MEMBERS = 1000  # Members a command, when many are sent in one.

_ADD = b"*4\r\n$4\r\nZADD\r\n$5\r\nboard\r\n"
_RANK = b"*3\r\n$8\r\nZREVRANK\r\n$5\r\nboard\r\n"
_PAGE = b"*5\r\n$9\r\nZREVRANGE\r\n$5\r\nboard\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n$10\r\nWITHSCORES\r\n"
_SCORE = b"$%d\r\n" % entries.SCORE_DIGITS
_MEMBER = b"$%d\r\n%s" % (entries.ID_BYTES, entries.ID_PREFIX.encode())
_END = b"\r\n"
_PAGE_LINES = 1 + 2 * 2 * PAGE_ENTRIES  # A count, then a length and a text for member and score.


@dataclass(frozen=True, slots=True)
class Way:
    """How commands are sent."""

    connections: int = 1
    pipeline: int = 1  # Commands written before their replies are read.
    members: int = 1  # Members in one command.
    own_tool: bool = False  # By redis-benchmark.

    def __str__(self) -> str:
        several = f"{self.connections} connections, " if self.connections > 1 else ""
        if self.own_tool:
            return f"redis-benchmark, {several}pipelines of {self.pipeline}"
        if self.members > 1:
            return f"{several}{self.members} members a command, pipelines of {self.pipeline}"
        return f"{several}pipelines of {self.pipeline}" if self.pipeline > 1 else "one by one"


@dataclass(frozen=True, slots=True)
class _Work:
    pipelines: list[bytes]
    lines: int  # That answer one pipeline.
    operations: int


class RedisSide:
    """A sorted set of so many players, and how long things take on it."""

    def __init__(self, server: RedisServer, players: int) -> None:
        self._server = server
        self._players = players
        self._rng = np.random.default_rng(_SEED)
        self._buffer = bytearray(_RECEIVE_BYTES)
        self._sockets: list[socket.socket] = []
        self._empty = self._memory_now()

    # -- filling --

    def fill(self) -> dict[str, Any]:
        """Add every player, best first: the order in which Redis is fastest, and packs best."""
        return self._add(entries.best_first(self._rng, self._players), settle=True)

    def insert(self) -> dict[str, Any]:
        """Add every player in random order of score."""
        return self._add(entries.arriving(self._rng, self._players), settle=False)

    def _add(self, source: Iterator[tuple[Any, Any]], *, settle: bool) -> dict[str, Any]:
        way = Way(pipeline=4, members=_FILL_MEMBERS)
        sample = Sample(0, 0.0, 0.0)
        for players, scores in told(source, "filling", self._players):
            sample += self._timed(_adding(players, scores, way), way)
        stored = int(self._ask(b"*2\r\n$5\r\nZCARD\r\n$5\r\nboard\r\n")[1:])
        assert stored == self._players, f"Redis holds {stored} of {self._players} members"
        if settle:
            self._settle()
        return {"us": sample.wall_seconds / sample.operations * 1e6, "memory": self.memory()}

    def _settle(self) -> None:
        """Look members up until Redis has moved them all to the hash table it grew to.

        The table doubles when it is full and then moves one bucket with every member added or
        looked up; until all are moved, every look-up searches two tables.
        """
        buckets = 1 << (self._players - 1).bit_length() - 1
        to_move = 2 * buckets - self._players  # As many have moved as were added since it grew.
        head = b"*%d\r\n$7\r\nZMSCORE\r\n$5\r\nboard\r\n" % (2 + _FILL_MEMBERS)
        lookups = entries.moving(self._rng, self._players, to_move)
        for players, _ in told(lookups, "letting the hash table settle", to_move):
            asked = entries.rows(len(players), _MEMBER, entries.digits(players, 12), _END)
            pipelines = [
                head + asked[i : i + _FILL_MEMBERS].tobytes()
                for i in range(0, len(asked) - _FILL_MEMBERS + 1, _FILL_MEMBERS)
            ]
            self._timed(_Work(pipelines, 1 + 2 * _FILL_MEMBERS, len(players)), Way())

    def mix(self, moves: int) -> dict[str, Any]:
        """Move members at random."""
        way = Way(pipeline=4, members=_FILL_MEMBERS)
        moving = entries.moving(self._rng, self._players, moves)
        for players, scores in told(moving, "moving", moves):
            self._timed(_adding(players, scores, way), way)
        return {"memory": self.memory()}

    def memory(self) -> dict[str, int | None]:
        """Return what the sorted set occupies: by Redis's account, and by the system's."""
        now = self._memory_now()
        own, resident = now["own"] - self._empty["own"], None
        if now["resident"] is not None and self._empty["resident"] is not None:
            resident = now["resident"] - self._empty["resident"]
        return {"own": own, "resident": resident}

    def _memory_now(self) -> dict[str, Any]:
        self._hang_up()  # What it holds for a connection is not the sorted set's.
        self._ask(b"MEMORY PURGE\r\n")
        return {
            "own": int(self._info("memory", "used_memory")),
            "resident": machine.resident_bytes(self._server.pid),
        }

    # -- measuring --

    def measure(self, operation: str, way: Way, seconds: float) -> Sample:
        """Do one kind of thing until it has taken so long; encoding it is not counted."""
        if way.own_tool:
            return self._by_own_tool(operation, way, seconds)
        total = Sample(0, 0.0, 0.0)
        while total.wall_seconds < seconds:
            total += self._timed(self._prepare(operation, way), way)
        return total

    def _prepare(self, operation: str, way: Way) -> _Work:
        if operation in ("top 100", "100 from a random rank"):
            return self._pages(way, top=operation == "top 100")
        at_once = way.pipeline * way.members
        count = max(CHUNK_ENTRIES // at_once, 1) * at_once
        if way.pipeline == 1 and way.members == 1:
            count //= 8  # A round trip each: a chunk would last a second.
        players, scores = entries.random_entries(self._rng, self._players, count)
        if operation.startswith("update"):
            return _adding(players, scores, way)
        asked = entries.rows(count, _RANK, _MEMBER, entries.digits(players, 12), _END)
        return _in_pipelines(asked, way.pipeline, lines=1)

    def _pages(self, way: Way, *, top: bool) -> _Work:
        last = self._players - PAGE_ENTRIES
        offsets = [0] * CHUNK_PAGES if top else self._rng.integers(0, last, CHUNK_PAGES).tolist()
        commands = []
        for offset in offsets:
            first, end = b"%d" % offset, b"%d" % (offset + PAGE_ENTRIES - 1)
            commands.append(_PAGE % (len(first), first, len(end), end))
        pipelines = [
            b"".join(commands[i : i + way.pipeline]) for i in range(0, CHUNK_PAGES, way.pipeline)
        ]
        return _Work(pipelines, lines=_PAGE_LINES * way.pipeline, operations=CHUNK_PAGES)

    def _timed(self, work: _Work, way: Way) -> Sample:
        while len(self._sockets) < way.connections:
            self._sockets.append(self._connect())
        gc.disable()
        try:
            cpu, wall = machine.cpu_seconds(self._server.pid), time.perf_counter()
            self._send(work, self._sockets[: way.connections])
            wall = time.perf_counter() - wall
            return Sample(work.operations, wall, machine.cpu_seconds(self._server.pid) - cpu)
        finally:
            gc.enable()

    def _send(self, work: _Work, sockets: list[socket.socket]) -> None:
        """Send the pipelines in turn; each connection waits for the replies to its last one."""
        turns = len(sockets)
        for i, pipeline in enumerate(work.pipelines):
            if i >= turns:
                self._receive(sockets[i % turns], work.lines)
            sockets[i % turns].sendall(pipeline)
        for i in range(max(len(work.pipelines) - turns, 0), len(work.pipelines)):
            self._receive(sockets[i % turns], work.lines)

    def _receive(self, connection: socket.socket, lines: int) -> None:
        buffer = self._buffer
        while lines > 0:
            size = connection.recv_into(buffer)
            if size == 0:
                raise RuntimeError("Redis closed the connection: no memory?")
            if buffer[0] == ord("-"):
                raise RuntimeError(f"Redis refused: {bytes(buffer[:200])!r}")
            lines -= buffer.count(b"\n", 0, size)
        assert lines == 0

    def _by_own_tool(self, operation: str, way: Way, seconds: float) -> Sample:
        """Run redis-benchmark, first briefly to learn how many commands last so long.

        Its random numbers are below the number of players. As scores they would all lie at one end
        of the board, but a move must be able to lead anywhere on it: so they are scaled.
        """
        zeros = entries.SCORE_DIGITS - len(str(self._players - 1))
        score = f"__rand_int__e{max(zeros, 0)}"
        command = {
            "update": ["ZADD", "board", score, f"{entries.ID_PREFIX}__rand_int__"],
            "rank": ["ZREVRANK", "board", f"{entries.ID_PREFIX}__rand_int__"],
        }[operation]
        words = ["redis-benchmark", "-s", str(self._server.folder / _SOCKET), "--csv"]
        words += ["-c", str(way.connections), "-P", str(way.pipeline), "-r", str(self._players)]

        def run(requests: int) -> Sample:
            cpu = machine.cpu_seconds(self._server.pid)
            line = [*words, "-n", str(requests), *command]
            done = subprocess.run(line, capture_output=True, text=True, check=True)
            per_second = float(done.stdout.splitlines()[-1].split('","')[1].strip('"'))
            used = machine.cpu_seconds(self._server.pid) - cpu
            return Sample(requests, requests / per_second, used)

        trial = run(50_000)
        return run(max(int(seconds * trial.operations / trial.wall_seconds), trial.operations))

    # -- speaking --

    def _connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(self._server.folder / _SOCKET))
        return connection

    def _ask(self, command: bytes) -> bytes:
        with self._connect() as connection:
            connection.sendall(command)
            return connection.recv(_RECEIVE_BYTES)

    def _info(self, section: str, name: str) -> str:
        text = self._ask(f"INFO {section}\r\n".encode()).decode()
        return next(
            line.partition(":")[2] for line in text.splitlines() if line.startswith(f"{name}:")
        )

    def version(self) -> str:
        """Return the server's version."""
        return self._info("server", "redis_version")

    def close(self) -> None:
        """Close the connections; the server is ended by whoever started it."""
        self._hang_up()

    def _hang_up(self) -> None:
        while self._sockets:
            self._sockets.pop().close()


@contextlib.contextmanager
def redis_side(players: int) -> Iterator[RedisSide]:
    """Run a Redis that writes nothing to disk and has no bound of memory, for this block."""
    with redis_server(options={"unixsocket": _SOCKET, "maxmemory": "0"}) as server:
        side = RedisSide(server, players)
        try:
            yield side
        finally:
            side.close()


def own_tool_installed() -> bool:
    """Whether redis-benchmark is there."""
    return shutil.which("redis-benchmark") is not None


def _adding(players: Any, scores: Any, way: Way) -> _Work:
    count = len(players)
    pair = (
        *(_SCORE, entries.digits(scores, entries.SCORE_DIGITS), _END),
        *(_MEMBER, entries.digits(players, entries.ID_DIGITS), _END),
    )
    if way.members == 1:
        return _in_pipelines(entries.rows(count, _ADD, *pair), way.pipeline, lines=1)
    pairs = entries.rows(count, *pair)
    commands = []
    for start in range(0, count, way.members):
        some = pairs[start : start + way.members]
        head = b"*%d\r\n$4\r\nZADD\r\n$5\r\nboard\r\n" % (2 + 2 * len(some))
        commands.append(head + some.tobytes())
    while len(commands) % way.pipeline:
        commands.append(b"*1\r\n$4\r\nPING\r\n")  # Every pipeline has as many replies.
    pipelines = [
        b"".join(commands[i : i + way.pipeline]) for i in range(0, len(commands), way.pipeline)
    ]
    return _Work(pipelines, lines=way.pipeline, operations=count)


def _in_pipelines(commands: Any, pipeline: int, *, lines: int) -> _Work:
    count = len(commands)
    assert count % pipeline == 0
    pipelines = [commands[i : i + pipeline].tobytes() for i in range(0, count, pipeline)]
    return _Work(pipelines, lines=lines * pipeline, operations=count)

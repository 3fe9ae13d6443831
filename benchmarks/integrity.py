"""What does it cost to take cheats out: one player, a build with a million submissions, a ban?

A service with several processes has a board of ten million players; a million of them submitted
with one build. Single players are retracted over HTTP, one after the other. Then players are banned
one by one, and each process is asked until it ranks the player no longer. Then the build is
retracted, while a reader asks for one rank after the other. The reader's waits are shown beside
those of a quiet stretch before it: the share of the machine itself.
"""

import json
import random
import statistics
import tempfile
import threading
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import rankd
from benchmarks.figures import Goal
from benchmarks.http_load import started_service
from benchmarks.progress import tell
from benchmarks.questions import Asked, answer, find, judged, row

NAME = "integrity"
QUESTION = "What does it cost to take cheats out?"
BOARD = "arena"
BUILD = "modded-1.2"
BATCH = 8_192
BUILT_SHARE = 10
"""One player in so many submitted with the build."""
RETRACTED = 50
BANNED = 10
WORKERS = 2
CONNECTIONS = 24
"""Spread over the processes by the system: so many reach each of them, by all odds."""
QUIET_SECONDS = 5.0
ANSWER_SECONDS_MAX = 600


def run(asked: Asked) -> dict[str, Any]:
    """Measure, and judge by the goals."""
    with tempfile.TemporaryDirectory() as folder:
        _fill(Path(folder), asked.players)
        flags = ("--workers", str(WORKERS))
        with started_service(Path(folder), *flags) as (port, _):
            _until_ready(port)
            rows = [*_retractions(port, asked.players), *_bans(port), *_build(port, asked.players)]
    result = answer(NAME, QUESTION, asked, rows)
    goals = [
        Goal("P15", what, "ms", "at most", bound, lambda what=what: find(result, what))  # type: ignore[misc]
        for what, bound in (
            ("one player retracted, median", 50),
            ("one player retracted, longest", 50),
            ("a ban seen by every process, longest", 1_000),
            ("build retracted: reader's p99", 10),
        )
    ]
    return judged(result, goals)


def _player(number: int) -> str:
    return f"player-{number:09d}"


def _fill(folder: Path, players: int) -> None:
    dice = random.Random(15)
    with rankd.open(folder) as ranks:
        board = ranks.board(BOARD, windows=["all"])
        for first in range(0, players, BATCH):
            some = range(first, min(first + BATCH, players))
            board.submit_many([(_player(n), dice.randrange(10**9)) for n in some])
            built = [n for n in some if n % BUILT_SHARE == 0]
            board.submit_many(
                {"player": _player(n), "score": dice.randrange(10**9), "build": BUILD}
                for n in built
            )
            if first % (BATCH * 128) == 0:
                tell(f"    filling: {first:,} of {players:,}")


def _until_ready(port: int) -> None:
    tell("integrity: starting")
    while _ask(_connect(port), "GET", "/readyz")[0] != 200:
        time.sleep(0.1)


def _connect(port: int) -> HTTPConnection:
    return HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS_MAX)


def _ask(
    connection: HTTPConnection, method: str, path: str, body: object = None
) -> tuple[int, dict[str, Any]]:
    headers = {} if body is None else {"content-type": "application/json"}
    text = None if body is None else json.dumps(body)
    connection.request(method, path, text, headers)
    response = connection.getresponse()
    read = response.read()
    return response.status, json.loads(read) if read else {}


def _retractions(port: int, players: int) -> list[dict[str, Any]]:
    tell("integrity: single players")
    dice, connection = random.Random(1), _connect(port)
    waits = []
    for number in dice.sample(range(players), RETRACTED):
        body = {"player": _player(number), "reason": "measured"}
        started = time.perf_counter()
        status, told = _ask(connection, "POST", f"/v1/boards/{BOARD}/retractions", body)
        waits.append(time.perf_counter() - started)
        assert status == 200, told
        assert told["players"] == 1, told
    return [
        row("one player retracted, median", statistics.median(waits) * 1e3, "ms"),
        row("one player retracted, longest", max(waits) * 1e3, "ms"),
    ]


def _bans(port: int) -> list[dict[str, Any]]:
    tell("integrity: bans")
    connections = [_connect(port) for _ in range(CONNECTIONS)]
    waits = []
    for number in range(BANNED):
        player = _player(number)
        path = f"/v1/boards/{BOARD}/standings/{player}"
        started = time.perf_counter()
        status, told = _ask(
            connections[0], "POST", f"/v1/players/{player}:ban", {"reason": "measured"}
        )
        assert status == 200, told
        while any(_ask(connection, "GET", path)[0] != 404 for connection in connections):
            pass
        waits.append(time.perf_counter() - started)
    return [row("a ban seen by every process, longest", max(waits) * 1e3, "ms")]


def _build(port: int, players: int) -> list[dict[str, Any]]:
    tell("integrity: a quiet stretch")
    with _Reader(port, players) as reader:
        time.sleep(QUIET_SECONDS)
    rows = [row("quiet: reader's p99", _p99(reader.waits) * 1e3, "ms")]
    tell("integrity: a build")
    with _Reader(port, players) as reader:
        started = time.perf_counter()
        status, told = _ask(
            _connect(port),
            "POST",
            f"/v1/boards/{BOARD}/retractions",
            {"build": BUILD, "reason": "measured"},
        )
        seconds = time.perf_counter() - started
    assert status == 200, told
    return [
        *rows,
        row("build retracted: submissions", told["submissions"], ""),
        row("build retracted", seconds, "s"),
        row("build retracted: reader's p99", _p99(reader.waits) * 1e3, "ms"),
        row("build retracted: reader's longest wait", max(reader.waits) * 1e3, "ms"),
    ]


def _p99(waits: list[float]) -> float:
    return sorted(waits)[len(waits) * 99 // 100]


class _Reader:
    """A client that asks for one rank after the other, and keeps how long each took."""

    def __init__(self, port: int, players: int) -> None:
        self.waits: list[float] = []
        self._port, self._players = port, players
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._read)

    def __enter__(self) -> "_Reader":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _read(self) -> None:
        dice, connection = random.Random(2), _connect(self._port)
        while not self._ended.is_set():
            player = _player(dice.randrange(self._players))
            started = time.perf_counter()
            _ask(connection, "GET", f"/v1/boards/{BOARD}/standings/{player}")
            self.waits.append(time.perf_counter() - started)
            time.sleep(0.001)

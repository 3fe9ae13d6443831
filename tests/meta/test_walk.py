"""The walk of ARCHITECTURE.md, from socket to disk and back, against a service under a profiler."""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest
from tests.standins import NO_NATIVE_PART, PURE

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "rankd"
WALK = re.compile(r"^### A request from socket.*?(?=^### )", re.DOTALL | re.MULTILINE)

POST_MODULES_MAX = 20
GET_MODULES_MAX = 9
"""Modules in Python that one planned request enters; three of a GET tell the movement of a player.
The bounds may only fall."""


def walked() -> set[str]:
    """Return the modules that the walk names; a bare name is beside the one before it."""
    found = WALK.search((ROOT / "ARCHITECTURE.md").read_text())
    assert found is not None
    modules: set[str] = set()
    room = ""
    for name in re.findall(r"`([a-z_/]+)`", found[0]):
        if "/" in name:
            room = name.rpartition("/")[0]
        path = name if "/" in name else f"{room}/{name}"
        if (PACKAGE / f"{path}.py").exists():
            modules.add(path)
    return modules


class Traced:
    """A service under the profiler, with a board that has a plan for each request."""

    def __init__(self, process: subprocess.Popen[str], port: int, target: Path) -> None:
        self._process, self._target = process, target
        self._connection = HTTPConnection("127.0.0.1", port, timeout=60)

    def ask(self, method: str, path: str, body: object = None) -> None:
        headers = {} if body is None else {"content-type": "application/json"}
        data = None if body is None else json.dumps(body)
        self._connection.request(method, path, data, headers)
        response = self._connection.getresponse()
        response.read()
        assert response.status < 300, path

    def entered(self) -> set[str]:
        """Return the modules entered since the last call."""
        self._target.unlink(missing_ok=True)
        self._process.send_signal(signal.SIGUSR1)
        while not self._target.exists():
            time.sleep(0.01)
        return set(self._target.read_text().split())

    def entered_by(self, method: str, path: str, body: object = None) -> set[str]:
        """Return the modules that a request enters each time; background loops tick between."""
        found: list[set[str]] = []
        for _ in range(8):
            self.entered()
            self.ask(method, path, body)
            found.append(self.entered())
        return set.intersection(*found)

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def traced(tmp_path: Path) -> Iterator[Traced]:
    target = tmp_path / "entered"
    words = ["serve", "--port", "0", "--data", str(tmp_path / "data")]
    command = [sys.executable, "-m", "tests.meta.request_trace", str(target), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline().rpartition(":")[2])
            service = Traced(process, port, target)
            service.ask("PUT", "/v1/boards/arena", {"windows": ["all", "daily"]})
            service.ask("POST", "/v1/boards/arena/scores", {"player": "bob", "score": 5})
            service.ask("GET", "/v1/boards/arena/standings/bob")
            yield service
            service.close()
        finally:
            process.terminate()


@pytest.mark.skipif(PURE, reason=NO_NATIVE_PART)
def test_the_walk_names_the_modules_that_a_request_enters(traced: Traced) -> None:
    submission = {"player": "ann", "score": 7}
    post = traced.entered_by("POST", "/v1/boards/arena/scores", submission)
    get = traced.entered_by("GET", "/v1/boards/arena/standings/ann")
    unnamed = (post | get) - walked()
    assert not unnamed, f"the walk of ARCHITECTURE.md does not name {sorted(unnamed)}"
    assert len(post) <= POST_MODULES_MAX, sorted(post)
    assert len(get) <= GET_MODULES_MAX, sorted(get)

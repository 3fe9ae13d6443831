"""Corrections from every process: two workers, several nodes, an index of each or a shared one.

Each request meets another process. What one of them corrects, all of them answer.
"""

import http.client
from collections.abc import Iterator
from contextlib import closing
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from tests.http.api_facade import Answer, asked, connections
from tests.http.backends import (
    Backend,
    Kept,
    Servers,
    digest_from_scratch,
    digest_of,
    reach,
    serving_nodes,
)
from tests.http.clocked import FileClock, serving
from tests.property.embedded_model import instant
from tests.property.test_embedded_api import SetClock

pytestmark = pytest.mark.timeout(300)

START = instant(2026, 11, 14, 12)
BOARD = {"windows": ["all", "daily"], "segments": ["region"]}

Connections = list[http.client.HTTPConnection]


@pytest.fixture(scope="session", params=["native", "redis"])
def kept(request: pytest.FixtureRequest) -> Iterator[Kept]:
    """A ledger in PostgreSQL, whose servers run before a test is watched."""
    with Servers() as servers:
        yield Backend(index=request.param, nodes=2).keep(servers)


class Spread:
    """Asks each connection in turn, and reads at the position of the last write."""

    def __init__(self, opened: Connections) -> None:
        self._opened, self._turn, self.position = opened, cycle(opened), 0

    def write(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        answer = asked(next(self._turn), method, path, body, **headers)
        if isinstance(answer.body, dict) and answer.body.get("position"):
            self.position = max(self.position, answer.body["position"])
        return answer

    def done(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        answer = self.write(method, path, body, **headers)
        assert answer.status in (200, 201), answer
        return answer.body

    def scores(self, window: str = "all") -> dict[str, int]:
        """The scores that every process shows; all of them have to show the same."""
        path = f"/v1/boards/b/standings?window={window}&min_position={self.position}"
        found = []
        for connection in self._opened:
            answer = asked(connection, "GET", path)
            assert answer.status == 200, answer
            found.append({one["player"]: one["score"] for one in answer.body["standings"]})
        assert all(each == found[0] for each in found)
        return found[0]


def play(spread: Spread) -> None:
    """Correct in every way, and look at all processes after each."""
    spread.done("PUT", "/v1/boards/b", BOARD)
    for player, score, build in (
        *(("ann", 10, "good"), ("ann", 90, "bad"), ("bob", 50, "good")),
        *(("cyd", 30, "good"), ("eve", 99, "bad")),
    ):
        body = {"player": player, "score": score, "build": build}
        spread.done("POST", "/v1/boards/b/scores", body)
    bad = spread.done("POST", "/v1/boards/b/retractions", {"build": "bad", "reason": "a bug"})
    assert (bad["submissions"], bad["players"]) == (2, 2)
    for window in ("all", "daily"):
        assert spread.scores(window) == {"bob": 50, "cyd": 30, "ann": 10}
    spread.done("POST", "/v1/boards/b/adjustments", {"player": "cyd", "score": 60})
    assert spread.scores() == {"cyd": 60, "bob": 50, "ann": 10}
    spread.done("POST", "/v1/players/cyd:ban", {"reason": "a bot"})
    assert spread.scores() == {"bob": 50, "ann": 10}
    for _ in range(3):
        refused = spread.write("POST", "/v1/boards/b/scores", {"player": "cyd", "score": 99})
        assert (refused.status, refused.body["code"]) == (403, "player_banned"), refused
        assert refused.body["applied"] == "no"
    spread.done("POST", "/v1/players/cyd:restore")
    spread.done("POST", "/v1/players/bob:hide", {"boards": ["b"]})
    spread.done("POST", "/v1/boards/b/scores", {"player": "bob", "score": 70})
    assert spread.scores() == {"cyd": 60, "ann": 10}
    spread.done("POST", "/v1/players/bob:restore")
    spread.done("DELETE", f"/v1/boards/b/retractions/{bad['position']}")
    assert spread.scores() == {"eve": 99, "ann": 90, "bob": 70, "cyd": 60}
    ranged = {"score_min": 65, "score_max": 95, "window": "daily"}
    effect = spread.done("POST", "/v1/boards/b/retractions?dry_run=true", ranged)
    assert (effect["players"], effect["dry_run"]) == (2, True)
    spread.done("DELETE", "/v1/boards/b/standings/eve")
    spread.done("PATCH", "/v1/boards/b/standings/ann", {"metadata": {"car": "red"}})
    assert spread.scores("daily") == {"ann": 90, "bob": 70, "cyd": 60}


def test_two_workers_correct_and_answer_alike(tmp_path: Path) -> None:
    clock = tmp_path / "clock"
    FileClock(clock).set(START)
    with serving(tmp_path, "--port", "0", "--workers", "2", clock=clock) as served:
        opened = connections(served.port, 2)
        spread = Spread(opened)
        play(spread)
        body = {"player": "bob"}
        path = "/v1/boards/b/retractions?dry_run=true"
        asked_for = spread.write("POST", path, body, Prefer="respond-async")
        assert asked_for.status == 202
        waiting = f"/v1/operations/{asked_for.body['operation']}:wait?seconds=30"
        for _ in opened:
            assert spread.done("POST", waiting)["submissions"] == 2
        for each in opened:
            each.close()


@pytest.mark.servers
def test_nodes_correct_and_answer_alike(kept: Kept, tmp_path: Path) -> None:
    with serving_nodes(kept, tmp_path, SetClock(START), 2) as nodes:
        opened = [each for node in nodes for each in connections(node.port, 1)]
        spread = Spread(opened)
        with closing(opened[0]), closing(opened[1]):
            play(spread)
        head, digest = digest_from_scratch(kept)
        for node in nodes:
            reach(node, head)
            assert digest_of(node) == digest

"""Rules and reviews from every process: workers, and nodes with an index each or a shared one.

Each request meets another process. All of them reach the same verdicts, list the same reviews, and
answer a repeated key alike; a ledger that is folded from scratch has the same standings.
"""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.http.api_facade import asked, connections
from tests.http.backends import Kept, digest_from_scratch, digest_of, reach, serving_nodes
from tests.http.clocked import FileClock, serving
from tests.http.test_corrections_backends import START, Connections, Spread, kept
from tests.property.test_embedded_api import SetClock

__all__ = ["kept"]

pytestmark = pytest.mark.timeout(300)

BOARD = {
    "windows": ["all", "daily"],
    "rules": [
        {"rule": "first_score", "max": 50, "then": "hold"},
        {"rule": "gain_per_minute", "max": 20, "then": "refuse"},
        {"rule": "submissions_per_minute", "max": 4, "then": "flag"},
    ],
}


def reviews(opened: Connections, spread: Spread) -> dict[str, str]:
    """The states of reviews by player and number, which all processes have to list alike."""
    found = []
    for connection in opened:
        path = f"/v1/boards/b/standings?min_position={spread.position}"
        assert asked(connection, "GET", path).status == 200
        answer = asked(connection, "GET", "/v1/reviews?board=b")
        assert answer.status == 200, answer
        listed = answer.body["reviews"]
        found.append({one["id"]: f"{one['player']} {one['state']}" for one in listed})
    assert all(each == found[0] for each in found)
    return found[0]


def submit(spread: Spread, player: str, score: int, **more: Any) -> Any:
    return spread.write("POST", "/v1/boards/b/scores", {"player": player, "score": score, **more})


def play(opened: Connections, spread: Spread) -> None:
    """Break every rule, decide, and look at all processes after each."""
    spread.done("PUT", "/v1/boards/b", BOARD)
    held = submit(spread, "eve", 99, key="h")
    assert (held.status, held.body["verdict"]) == (202, "held"), held
    for _ in opened:
        again = submit(spread, "eve", 99, key="h")
        assert (again.status, again.body["review"]) == (202, held.body["review"]), again
    for score in (10, 15, 20):
        assert submit(spread, "ann", score).status == 200
    for _ in range(2 * len(opened)):
        refused = submit(spread, "ann", 45, key="r")
        assert (refused.status, refused.body["code"]) == (422, "rule_broken"), refused
        assert refused.body["errors"][0]["rule"] == "gain_per_minute"
        assert refused.body["errors"][0]["observed"] == 35
    assert submit(spread, "ann", 21).status == 200
    assert spread.scores() == {"ann": 21}
    states = reviews(opened, spread)
    assert list(states.values()) == ["ann flagged", "eve held"]
    id = held.body["review"]
    approved = spread.done("POST", f"/v1/reviews/{id}:approve")
    assert approved["state"] == "approved"
    spread.position = approved["decided_at"]
    assert spread.scores() == {"eve": 99, "ann": 21}
    flagged = next(one for one, state in states.items() if state == "ann flagged")
    spread.position = spread.done("POST", f"/v1/reviews/{flagged}:reject")["decided_at"]
    for window in ("all", "daily"):
        assert spread.scores(window) == {"eve": 99, "ann": 20}
    assert list(reviews(opened, spread).values()) == ["ann rejected", "eve approved"]
    batch = {"scores": [{"board": "b", "player": "fay", "score": n} for n in (60, 30, 70, 40)]}
    results = spread.done("POST", "/v1/scores:batch", batch)["results"]
    assert [one["verdict"] for one in results] == ["held", "counted", "refused", "counted"]
    assert spread.scores() == {"eve": 99, "fay": 40, "ann": 20}


def test_two_workers_judge_and_decide_alike(tmp_path: Path) -> None:
    clock = tmp_path / "clock"
    FileClock(clock).set(START)
    with serving(tmp_path, "--port", "0", "--workers", "2", clock=clock) as served:
        opened = connections(served.port, 2)
        play(opened, Spread(opened))
        for each in opened:
            each.close()


@pytest.mark.servers
def test_nodes_judge_and_decide_alike(kept: Kept, tmp_path: Path) -> None:
    with serving_nodes(kept, tmp_path, SetClock(START), 2) as nodes:
        opened = [each for node in nodes for each in connections(node.port, 1)]
        with closing(opened[0]), closing(opened[1]):
            play(opened, Spread(opened))
        head, digest = digest_from_scratch(kept)
        for node in nodes:
            reach(node, head)
            assert digest_of(node) == digest

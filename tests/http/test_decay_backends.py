"""Decay on every process: two workers, several nodes, an index of each or a shared one."""

from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from tests.http.api_facade import asked, connections
from tests.http.backends import Kept, digest_from_scratch, digest_of, reach, serving_nodes
from tests.http.clocked import FileClock, serving
from tests.http.test_corrections_backends import START, Connections, Spread, kept
from tests.property.test_embedded_api import SetClock

pytestmark = pytest.mark.timeout(300)

__all__ = ["kept"]

DAY = 86_400_000_000
BOARDS: dict[str, dict[str, Any]] = {
    "half": {"decay": {"half_life": "1d"}, "rule": "sum", "ties": "dense"},
    "line": {"decay": {"linear": {"points": 10, "per": "1d"}, "floor": 0}},
}


def shown(opened: Connections, position: int, board: str) -> list[tuple[int, str, int]]:
    """The standings that every process shows; all of them have to show the same."""
    path = f"/v1/boards/{board}/standings?min_position={position}"
    found = []
    for connection in opened:
        answer = asked(connection, "GET", path)
        assert answer.status == 200, answer
        rows = answer.body["standings"]
        found.append([(row["rank"], row["player"], row["score"]) for row in rows])
    assert all(each == found[0] for each in found)
    return found[0]


def play(spread: Spread, opened: Connections, set_time: Callable[[int], None]) -> None:
    """Submit on all processes while days pass, and look at all of them after each."""

    def submit(board: str, player: str, score: int) -> None:
        body = {"player": player, "score": score}
        spread.done("POST", f"/v1/boards/{board}/scores", body)

    def board(name: str) -> list[tuple[int, str, int]]:
        return shown(opened, spread.position, name)

    for name, definition in BOARDS.items():
        spread.done("PUT", f"/v1/boards/{name}", definition)
        for player, score in (("ann", 100), ("bob", 40), ("cyd", 40)):
            submit(name, player, score)
    set_time(START + 2 * DAY)
    assert [score for *_, score in board("half")] == [25, 10, 10]
    assert board("line") == [(1, "ann", 80), (2, "bob", 20), (3, "cyd", 20)]
    for name in BOARDS:
        submit(name, "bob", 30)
    assert board("half") == [(1, "bob", 40), (2, "ann", 25), (3, "cyd", 10)]
    assert board("line") == [(1, "ann", 80), (2, "bob", 30), (3, "cyd", 20)]
    set_time(START + 6 * DAY)
    submit("line", "dee", 1)
    assert board("half") == [(1, "bob", 2), (2, "ann", 2), (3, "cyd", 1)]
    expected = [(1, "ann", 40), (2, "dee", 1), (3, "bob", 0), (4, "cyd", 0)]
    assert board("line") == expected
    spread.done("POST", "/v1/boards/line/retractions", {"player": "dee"})
    linear = {**BOARDS["half"], "decay": {"linear": {"points": 5, "per": "1d"}}}
    spread.done("PUT", "/v1/boards/half?apply=true", linear)
    assert board("half") == [(1, "ann", 70), (2, "bob", 40), (3, "cyd", 10)]


def test_two_workers_show_the_same_scores(tmp_path: Path) -> None:
    clock = FileClock(tmp_path / "clock")
    clock.set(START)
    with serving(tmp_path, "--port", "0", "--workers", "2", clock=clock._path) as served:
        opened = connections(served.port, 2)
        with ExitStack() as stack:
            for each in opened:
                stack.enter_context(closing(each))
            play(Spread(opened), opened, clock.set)


@pytest.mark.servers
def test_nodes_show_the_same_scores(kept: Kept, tmp_path: Path) -> None:
    clock = SetClock(START)

    def set_time(time: int) -> None:
        clock.time = time

    with serving_nodes(kept, tmp_path, clock, 2) as nodes:
        opened = [each for node in nodes for each in connections(node.port, 1)]
        with ExitStack() as stack:
            for each in opened:
                stack.enter_context(closing(each))
            play(Spread(opened), opened, set_time)
        head, digest = digest_from_scratch(kept)
        for node in nodes:
            reach(node, head)
            assert digest_of(node) == digest

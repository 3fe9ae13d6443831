"""Boards and scores with an end, and bounded attempts, whatever keeps the ledger and the index."""

import http.client
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.http.api_facade import Answer, asked
from tests.http.backends import (
    Backend,
    Servers,
    digest_from_scratch,
    digest_in_redis,
    digest_of,
    reach,
    serving_node,
    serving_nodes,
)
from tests.http.test_workers import until
from tests.not_tested import not_tested
from tests.property.embedded_model import DAY, HOUR
from tests.property.test_embedded_api import SetClock

from rankd.testing.servers import HOST, ServerMissing

pytestmark = [pytest.mark.timeout(300), pytest.mark.servers]

ON_SERVERS = (Backend(), Backend(index="redis"), Backend(index="redis", nodes=2))


class World(NamedTuple):
    """Services over one ledger, asked in turn."""

    ports: list[int]
    clock: SetClock
    agree: Any
    """Compares every index with the ledger."""

    def ask(self, method: str, path: str, body: Any = None, *, node: int = 0) -> Answer:
        """Return a node's answer, as of what it was last told of."""
        port = self.ports[node % len(self.ports)]
        with closing(http.client.HTTPConnection(HOST, port)) as connection:
            return asked(connection, method, path, body)

    def shows(self, path: str, score: int, node: int) -> bool:
        """Whether a node answers with a score."""
        return bool(self.ask("GET", path, node=node).body["score"] == score)


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    with Servers() as servers:
        yield servers


@pytest.fixture(
    scope="module",
    params=[None, *ON_SERVERS],
    ids=lambda one: one.name if one else "sqlite",
)
def backend(request: pytest.FixtureRequest, servers: Servers) -> Backend | None:
    """Where the ledger and the index are, with the servers running."""
    chosen: Backend | None = request.param
    try:
        if chosen is not None:
            chosen.start(servers)
    except ServerMissing as missing:
        assert chosen is not None
        not_tested(chosen.name, missing)
    return chosen


@pytest.fixture
def world(backend: Backend | None, servers: Servers, tmp_path: Path) -> Iterator[World]:
    clock = SetClock()
    if backend is None:
        with serving_node(tmp_path, clock) as node:
            yield World([node.port], clock, lambda: node.run(_verify(node.rankd)))
        return
    kept = backend.keep(servers)

    def agree() -> None:
        head, expected = digest_from_scratch(kept)
        for node in nodes:
            reach(node, head)
        assert {digest_of(node) for node in nodes} == {expected}
        if kept.index != "native":
            assert digest_in_redis(kept) == expected

    with serving_nodes(kept, tmp_path, clock, backend.nodes) as nodes:
        yield World([node.port for node in nodes], clock, agree)


async def _verify(rankd: Any) -> None:
    async for _ in rankd.verify():
        pass


def test_a_board_takes_so_many_attempts_in_each_window(world: World) -> None:
    definition = {"windows": ["all", "daily"], "limits": {"attempts_max": 2}}
    assert world.ask("PUT", "/v1/boards/cup", definition).status == 201
    for number, score in enumerate((10, 30)):
        body = {"player": "ann", "score": score}
        assert world.ask("POST", "/v1/boards/cup/scores", body, node=number).status == 200
    refused = world.ask("POST", "/v1/boards/cup/scores", {"player": "ann", "score": 99}, node=1)
    assert (refused.status, refused.body["code"]) == (422, "attempts_exhausted")
    assert refused.body["applied"] == "no"
    world.clock.time += DAY
    today = world.ask("POST", "/v1/boards/cup/scores", {"player": "ann", "score": 40})
    assert today.status == 200
    windows = today.body["windows"]
    assert [windows[name]["verdict"] for name in ("all", "daily")] == ["rejected", "counted"]
    assert windows["all"]["score"] == 30
    (batched,) = world.ask(
        "POST", "/v1/scores:batch", {"scores": [{"board": "cup", "player": "bob", "score": 1}]}
    ).body["results"]
    assert batched["verdict"] == "counted"
    world.agree()


def test_a_score_lives_as_long_as_it_says(world: World) -> None:
    world.ask("PUT", "/v1/boards/cup", {"windows": ["all", "daily"]})
    for score, lives in ((10, None), (30, "1h"), (20, "2h")):
        body = {"player": "ann", "score": score, "lives": lives}
        told = world.ask("POST", "/v1/boards/cup/scores", body)
        assert told.status == 200
        assert told.body.get("expires_at") == (
            None if lives is None else f"2026-11-14T{12 + int(lives[0])}:00:00Z"
        )
    wrong = world.ask(
        "POST", "/v1/boards/cup/scores", {"player": "ann", "score": 1, "lives": "soon"}
    )
    assert (wrong.status, wrong.body["errors"][0]["field"]) == (422, "lives")
    for score in (20, 10):
        world.clock.time += HOUR
        for node in range(2):
            until(partial(world.shows, "/v1/boards/cup/standings/ann?window=daily", score, node))
    facts = world.ask("GET", "/v1/facts?kind=scores_expired").body["facts"]
    assert [fact["player"] for fact in facts] == ["ann", "ann"]
    world.agree()


def test_a_board_expires_on_every_node(world: World) -> None:
    end = {"expires": "2026-11-15T00:00:00Z"}
    defined = world.ask("PUT", "/v1/boards/cup", end)
    assert defined.body["definition"]["expires"] == "2026-11-15T00:00:00Z"
    listed = world.ask("GET", "/v1/boards", node=1).body["boards"]
    assert [one["definition"]["expires"] for one in listed] in ([], ["2026-11-15T00:00:00Z"])
    world.ask("POST", "/v1/boards/cup/scores", {"player": "ann", "score": 1})
    past = world.ask("PUT", "/v1/boards/late", {"expires": "2026-11-13T00:00:00Z"})
    assert (past.status, past.body["errors"][0]["field"]) == (422, "expires")
    world.clock.time += 2 * DAY + HOUR
    for node in range(2):
        late = world.ask("POST", "/v1/boards/cup/scores", {"player": "ann", "score": 2}, node=node)
        assert (late.status, late.body["code"]) == (404, "unknown_board")
    facts = world.ask("GET", "/v1/facts?kind=board_retired").body["facts"]
    assert [fact["board"] for fact in facts] == ["cup"]
    world.agree()

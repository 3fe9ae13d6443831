"""Redis is killed, and what is read goes on, from what PostgreSQL keeps.

Method: nodes without a copy of their own over a real PostgreSQL and a real Redis, behind a proxy.
Redis is killed under them, scores go on, and every answer is compared with what folding the ledger
up to the position that it names gives. Then there is a Redis again, an empty one, and answers are
those of the head.
"""

import asyncio
import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.http.api_facade import asked, connections
from tests.http.backends import Kept, pages_from_scratch, serving_node
from tests.http.clocked import PATIENCE_SECONDS
from tests.http.test_backends import told
from tests.http.test_workers import until
from tests.property.embedded_model import DAY
from tests.property.test_embedded_api import SetClock
from tests.simulation.nodes_world import RedisMachine, redis_machine
from tests.simulation.postgres_servers import new_ledger, postgres

from rankd.adapters.postgres import PostgresLedger
from rankd.api import standings
from rankd.core import managers
from rankd.core.cluster import managers as cluster_managers
from rankd.core.reader import Page
from rankd.model.facts import Position
from rankd.ports import Ranking
from rankd.testing.proxy import Proxy
from rankd.testing.servers import HOST

pytestmark = pytest.mark.timeout(300)

PLAYERS = 40
ENTRIES = 15
"""How many are kept of each ranking."""

LIST_SECONDS = 0.1

Connection = http.client.HTTPConnection
_prefixes = count(1)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgres() as server:
        yield server.url


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closed windows are archived soon, and nobody waits long for a position that does not come."""
    monkeypatch.setattr(managers, "ARCHIVE_SECONDS", 0.05)
    monkeypatch.setattr(standings, "MIN_POSITION_SECONDS_MAX", 0.2)


@contextmanager
def proxied(port: int) -> Iterator[Proxy]:
    """Run a proxy beside this thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="proxy")
    thread.start()
    opened = Proxy.open(HOST, port)
    try:
        entering = asyncio.run_coroutine_threadsafe(opened.__aenter__(), loop)
        yield entering.result(PATIENCE_SECONDS)
    finally:
        leaving = asyncio.run_coroutine_threadsafe(opened.__aexit__(None, None, None), loop)
        leaving.result(PATIENCE_SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE_SECONDS)
        loop.close()


class World:
    """A node, and the servers it stands on."""

    def __init__(self, kept: Kept, redis: RedisMachine, proxy: Proxy, clock: SetClock) -> None:
        self.kept, self.redis, self.proxy, self.clock = kept, redis, proxy, clock
        self.connection: Connection

    def get(self, path: str) -> Any:
        return told(self.connection, "GET", f"/v1/boards/b/{path}")

    def refused(self, path: str) -> Any:
        """The body of an answer that there is none."""
        answer = asked(self.connection, "GET", f"/v1/boards/b/{path}")
        assert answer.status == 503, answer
        return answer.body

    def submit(self, player: str, score: int) -> Any:
        body = {"player": player, "score": score, "attributes": {"region": "eu"}}
        return told(self.connection, "POST", "/v1/boards/b/scores", body)

    def health(self) -> str:
        return str(asked(self.connection, "GET", "/readyz").body["status"])

    def kill_redis(self) -> None:
        self.redis.kill()

    def start_redis(self) -> None:
        self.redis.start()
        self.proxy.to = self.redis.server.port

    def in_ledger(self, question: Callable[[PostgresLedger], Any]) -> Any:
        async def ask() -> Any:
            async with PostgresLedger.open(self.kept.ledger, node="judge") as ledger:
                return await question(ledger)

        return asyncio.run(ask())

    def wait_for_list(self, ranking: Ranking, position: int) -> None:
        """Until what is kept of a ranking is as new as this."""

        def is_there() -> bool:
            found = self.in_ledger(lambda ledger: ledger.list_of(ranking))
            return found is not None and found.as_of >= position

        until(is_there)

    def wait_for_archive(self, window: str) -> None:
        since = Position(self._sealed_at(window))

        def is_there() -> bool:
            total = self.in_ledger(lambda ledger: ledger.sealed_total("b", window, since=since))
            return total is not None

        until(is_there)

    def _sealed_at(self, window: str) -> int:
        query = "SELECT sealed_position FROM rankd.windows WHERE window_id = $1"
        return int(self.in_ledger(lambda ledger: ledger._rows(query, window))[0][0])

    def judge(self, body: dict[str, Any], window: str | None = None) -> None:
        """Compare an answer with what is true at the position it names."""
        as_of = body["as_of"]
        page = pages_from_scratch(self.kept, "b", [as_of], window)[as_of]
        shown = [(row["rank"], row["player"], row["score"]) for row in rows_of(body)]
        assert (body["total"], shown) == (page.total, [row for row in whole(page) if row in shown])
        assert shown


def rows_of(body: dict[str, Any]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = body.get("standings", [body])
    return rows


def whole(page: Page) -> list[tuple[int, str, int]]:
    scores = [scores[0] for scores in page.scores]
    return list(zip(page.ranks, page.players, scores, strict=True))


@contextmanager
def world(server: str, folder: Path, ties: str = "ordinal", **given: Any) -> Iterator[World]:
    clock = SetClock()
    with redis_machine() as redis, proxied(redis.server.port) as proxy:
        index = f"redis://{HOST}:{proxy.port}/0?prefix=run{next(_prefixes)}"
        kept = Kept(new_ledger(server), f"{index}&timeout={PATIENCE_SECONDS}")
        found = World(kept, redis, proxy, clock)
        settings = {"top_list_entries": ENTRIES, "top_list_seconds": LIST_SECONDS, **given}
        with serving_node(folder, clock, node="n1", **kept.settings, **settings) as node:
            (found.connection,) = connections(node.port, 1)
            try:
                definition = {"windows": ["all", "daily"], "segments": ["region"], "ties": ties}
                told(found.connection, "PUT", "/v1/boards/b", definition)
                for number in range(PLAYERS):
                    found.submit(f"p{number:02}", 100 - number // 3)
                yield found
            finally:
                found.connection.close()


@pytest.mark.parametrize("ties", ["ordinal", "standard", "dense"])
def test_what_is_kept_is_told_as_of_its_position(server: str, tmp_path: Path, ties: str) -> None:
    with world(server, tmp_path, ties) as found:
        position = found.submit("p30", 101)["position"]
        found.wait_for_list(Ranking("b", "all"), position)
        found.wait_for_list(Ranking("b", "all", "region:eu"), position)
        found.kill_redis()
        first = found.get("standings?limit=6")
        pages = [
            first,
            found.get(f"standings?limit={ENTRIES}"),
            found.get("standings?limit=5&offset=4"),
            found.get("standings?limit=5&from_rank=9"),
            found.get(f"standings?limit=6&cursor={first['next_cursor']}"),
            found.get("standings/p30"),
            found.get("standings/p04"),
            found.get("standings/p05/around?above=3&below=3"),
            found.get("around/7?range=4"),
            found.get("standings?limit=5&segment=region:eu"),
            told(
                found.connection,
                "POST",
                "/v1/boards/b/standings:lookup",
                {"players": ["p09", "p01", "p30"]},
            ),
        ]
        for body in pages:
            assert body["stale"] is True
            assert body["as_of"] >= position
            found.judge(body)
        assert first["standings"][0]["player"] == "p30"


def test_a_hidden_player_is_hidden_in_what_is_kept(server: str, tmp_path: Path) -> None:
    def hide(player: str) -> None:
        shown = told(found.connection, "PATCH", f"/v1/players/{player}", ANONYMOUS)
        assert shown["visibility"] == "anonymous"

    with world(server, tmp_path) as found:
        found.wait_for_list(Ranking("b", "all"), found.submit("p30", 101)["position"])
        hide("p04")
        found.kill_redis()
        until(lambda: found.health() == "degraded")
        hide("p30")
        first = found.get("standings?limit=6")
        players = [row["player"] for row in first["standings"]]
        assert players == [None, "p00", "p01", "p02", "p03", None]
        second = found.get(f"standings?limit=6&cursor={first['next_cursor']}")
        assert [row["rank"] for row in second["standings"]] == [7, 8, 9, 10, 11, 12]
        back = found.get(f"standings?limit=6&cursor={second['prev_cursor']}")
        assert back["standings"] == first["standings"]
        for player in ("p04", "p30"):
            for path in (player, f"{player}/around"):
                answer = asked(found.connection, "GET", f"/v1/boards/b/standings/{path}")
                assert (answer.status, answer.body["code"]) == (404, "not_ranked")


ANONYMOUS = {"visibility": "anonymous"}


def test_readiness_tells_what_is_worth_knowing_of_redis(server: str, tmp_path: Path) -> None:
    with world(server, tmp_path) as found:
        body = asked(found.connection, "GET", "/readyz").body
        assert body["status"] == "ready"
        (note,) = body["notes"]
        assert "writes nothing to disk" in note
        assert HOST not in note


def test_readiness_tells_that_redis_is_gone_although_a_read_was_the_first_to_notice(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_managers, "MEND_SECONDS", 2.0)  # To kill Redis takes less.
    with world(server, tmp_path) as found:
        found.wait_for_list(Ranking("b", "all"), found.submit("p30", 101)["position"])
        found.kill_redis()
        assert found.get("standings?limit=7")["stale"] is True
        until(lambda: found.health() == "degraded")


def test_scores_go_on_and_what_is_kept_says_that_it_is_older(server: str, tmp_path: Path) -> None:
    with world(server, tmp_path) as found:
        position = found.submit("p30", 101)["position"]
        found.wait_for_list(Ranking("b", "all"), position)
        found.kill_redis()
        until(lambda: found.health() == "degraded")
        receipts = [found.submit("late", 200 + number) for number in range(5)]
        assert {receipt["verdict"] for receipt in receipts} == {"accepted"}
        head = receipts[-1]["position"]
        body = found.get("standings?limit=5")
        assert position <= body["as_of"] < head and body["stale"] is True
        found.judge(body)
        found.judge(found.get(f"standings?limit=5&min_position={position}"))
        behind = found.refused(f"standings?limit=5&min_position={head}")
        assert behind["code"] == "index_behind"
        found.start_redis()
        until(lambda: found.health() == "ready")
        body = found.get(f"standings?limit=40&min_position={head}")
        assert (body["stale"], body["standings"][0]["player"]) == (False, "late")
        found.judge(body)
        standing = found.get("standings/late")
        assert (standing["rank"], standing["stale"]) == (1, False)
        found.wait_for_list(Ranking("b", "all"), head)


def test_what_lies_beyond_what_is_kept_is_refused_and_told_so(server: str, tmp_path: Path) -> None:
    with world(server, tmp_path) as found:
        position = found.submit("p30", 101)["position"]
        found.wait_for_list(Ranking("b", "all"), position)
        found.kill_redis()
        for path in (
            f"standings?limit={ENTRIES + 1}",
            "standings?offset=20&limit=5",
            "standings/p29",
            "standings/p29/around",
            "around/20?range=2",
        ):
            body = found.refused(path)
            assert body["code"] == "not_kept"
            assert f"only the first {ENTRIES} of {PLAYERS} are kept" in body["detail"]


def test_a_closed_window_is_told_exactly(server: str, tmp_path: Path) -> None:
    """Wherever somebody is in it: it never changes."""
    with world(server, tmp_path, "standard", top_list_entries=0) as found:
        today = found.get("standings?window=daily")["window"]
        found.clock.time += DAY
        found.submit("p39", 500)
        found.wait_for_archive(today)
        expected = {}
        paths = [
            f"standings?limit={PLAYERS}&window={today}",
            f"standings?offset=31&limit=5&window={today}",
            f"standings/p38?window={today}",
            f"standings/p20/around?above=4&below=4&window={today}",
            f"around/{PLAYERS}?range=9&window={today}",
        ]
        first = found.get(f"standings?limit=17&window={today}")
        paths.append(f"standings?limit=17&cursor={first['next_cursor']}&window={today}")
        for path in paths:
            expected[path] = found.get(path)
        found.kill_redis()
        until(lambda: found.health() == "degraded")  # Till then a page may be one that was made.
        for path in paths:
            body = found.get(path)
            found.judge(body, today)
            assert body == {**expected[path], "as_of": body["as_of"], "stale": True}
            assert body["as_of"] >= expected[path]["as_of"]
        answer = asked(found.connection, "GET", f"/v1/boards/b/standings/no?window={today}")
        assert answer.status == 404
        assert "nothing is kept" in found.refused("standings?window=daily")["detail"]

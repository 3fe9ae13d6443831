"""A Redis that answers, but slowly: what is waited for, and when it counts as lost.

Method: a node over a real PostgreSQL and a real Redis, whose every answer a proxy holds back for
half a second. Within the time of a call (``?timeout=``) a slow answer is an answer. What cannot be
answered within it, because the call is slow or because too many wait for theirs, opens the breaker:
reads come from elsewhere and say so, scores are recorded and wait for nobody. Then probes find out
whether it is well again.
"""

import http.client
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.http.api_facade import PATIENCE_SECONDS, Answer, asked, connections
from tests.http.backends import Kept, Node, pages_from_scratch, serving_node
from tests.http.test_backends import told
from tests.http.test_without_redis import proxied
from tests.http.test_workers import until
from tests.property.test_embedded_api import SetClock
from tests.simulation.postgres_servers import new_ledger, postgres

from rankd.adapters.redis.client import CONNECTIONS_MAX
from rankd.testing.proxy import Proxy
from rankd.testing.servers import HOST, redis_server

pytestmark = pytest.mark.timeout(300)

PLAYERS = 40
DELAY_SECONDS = 0.5
CALL_SECONDS = 2
"""How long a call may take, unless it is said otherwise."""
MANY = 6 * CONNECTIONS_MAX
"""Readers at once: more than can be answered in the time of a call, each by a call of its own."""
WAITED_SECONDS_MAX = 5 * CALL_SECONDS
"""Nobody waits longer: a read may take some calls, a score its turn behind another, and a machine
its time."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgres() as server:
        yield server.url


class World:
    """A node, the proxy before its Redis, and what is asked of it."""

    def __init__(self, node: Node, proxy: Proxy, kept: Kept) -> None:
        self.node, self.proxy, self.kept = node, proxy, kept
        self.answers: list[tuple[Answer, float]] = []

    def ask(self, method: str, path: str, body: Any = None) -> Answer:
        connection = http.client.HTTPConnection(HOST, self.node.port, timeout=PATIENCE_SECONDS)
        try:
            begun = time.monotonic()
            answer = asked(connection, method, path, body)
            self.answers.append((answer, time.monotonic() - begun))
            return answer
        finally:
            connection.close()

    def read(self, number: int) -> Answer:
        """Ask for a page that nobody else asks for, so that each is a call."""
        offset, limit = number % PLAYERS, 1 + number // PLAYERS
        return self.ask("GET", f"/v1/boards/b/standings?offset={offset}&limit={limit}")

    def submit(self, number: int) -> Answer:
        body = {"player": f"p{number % PLAYERS:02}", "score": 1_000 + number}
        return self.ask("POST", "/v1/boards/b/scores", body)

    def health(self) -> str:
        return str(self.ask("GET", "/readyz").body["status"])

    def at_once(self, readers: int, writers: int) -> list[Answer]:
        """Have all of these ask at once, and return what they were told."""
        self.answers.clear()
        asking = [threading.Thread(target=self.read, args=(number,)) for number in range(readers)]
        asking += [
            threading.Thread(target=self.submit, args=(number,)) for number in range(writers)
        ]
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join(WAITED_SECONDS_MAX)
        assert len(self.answers) == len(asking), "somebody was not answered in time"
        assert max(seconds for _, seconds in self.answers) < WAITED_SECONDS_MAX
        return [answer for answer, _ in self.answers]

    def judge(self, answers: Sequence[Answer]) -> None:
        """Compare pages with what is true at the positions they name."""
        pages = [answer.body for answer in answers if "standings" in answer.body]
        expected = pages_from_scratch(self.kept, "b", {page["as_of"] for page in pages})
        for page in pages:
            whole = expected[page["as_of"]]
            rows = list(zip(whole.ranks, whole.players, strict=True))
            shown = [(row["rank"], row["player"]) for row in page["standings"]]
            assert shown and shown == [row for row in rows if row in shown]
            assert page["total"] == whole.total


@contextmanager
def world(server: str, folder: Path, timeout: float = CALL_SECONDS) -> Iterator[World]:
    with redis_server() as redis, proxied(redis.port) as proxy:
        kept = Kept(new_ledger(server), f"redis://{HOST}:{proxy.port}/0?timeout={timeout}")
        settings = {**kept.settings, "spare_index": True}
        with serving_node(folder, SetClock(), node="n1", **settings) as node:
            found = World(node, proxy, kept)
            (connection,) = connections(node.port, 1)
            told(connection, "PUT", "/v1/boards/b", {"windows": ["all"]})
            for number in range(PLAYERS):
                body = {"player": f"p{number:02}", "score": number}
                told(connection, "POST", "/v1/boards/b/scores", body)
            connection.close()
            until(lambda: found.health() == "ready")
            yield found


def test_a_slow_answer_is_waited_for_and_is_as_true_as_a_quick_one(
    server: str, tmp_path: Path
) -> None:
    with world(server, tmp_path) as found:
        found.proxy.delay_seconds = DELAY_SECONDS
        answers = found.at_once(readers=8, writers=8)
        assert {answer.status for answer in answers} == {200}
        assert not any(answer.body.get("stale") for answer in answers)
        assert max(seconds for _, seconds in found.answers) >= DELAY_SECONDS
        assert found.health() == "ready"
        found.judge(answers)


def test_more_than_a_slow_redis_can_answer_opens_the_breaker_and_piles_up_nowhere(
    server: str, tmp_path: Path
) -> None:
    with world(server, tmp_path) as found:
        found.proxy.delay_seconds = DELAY_SECONDS
        answers = found.at_once(readers=MANY, writers=8)
        assert {answer.status for answer in answers} <= {200, 202}
        stale = [answer for answer in answers if answer.body.get("stale")]
        assert stale, "some were answered from the copy, and told so"
        assert found.proxy.together_max <= 2 * CONNECTIONS_MAX
        found.judge(answers)
        found.proxy.delay_seconds = 0.0
        until(lambda: found.health() == "ready")
        after = found.at_once(readers=8, writers=8)
        assert {answer.status for answer in after} == {200}
        found.judge(after)


def test_one_that_is_slower_than_a_call_may_take_is_lost_until_a_probe_is_answered(
    server: str, tmp_path: Path
) -> None:
    with world(server, tmp_path, timeout=DELAY_SECONDS / 2) as found:
        found.proxy.delay_seconds = DELAY_SECONDS
        until(lambda: found.health() == "degraded")  # Though nobody has asked for anything.
        answers = found.at_once(readers=8, writers=8)
        reads = [answer.body["stale"] for answer in answers if "stale" in answer.body]
        scores = {answer.body["verdict"] for answer in answers if "verdict" in answer.body}
        assert (reads, scores) == ([True] * 8, {"accepted"})
        assert max(seconds for _, seconds in found.answers) < DELAY_SECONDS * 4
        found.judge(answers)
        found.proxy.delay_seconds = 0.0
        until(lambda: found.health() == "ready")
        after = found.at_once(readers=8, writers=0)
        assert not any(answer.body["stale"] for answer in after)
        found.judge(after)

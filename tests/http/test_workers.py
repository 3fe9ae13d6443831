"""A service of several processes, as real processes: nobody can tell which of them answered.

Every wait here is for a condition, and ends in failure only after far longer than it takes.
"""

import contextlib
import http.client
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.http.api_facade import PATIENCE_SECONDS, Answer, asked, connections, pid_of
from tests.http.clocked import FileClock, Served, serving
from tests.property.embedded_model import DAY, instant

from rankd.signatures import SigningKey

pytestmark = pytest.mark.timeout(240)

START = instant(2026, 11, 14, 12)
CLIENTS = 50

Connection = http.client.HTTPConnection


@contextlib.contextmanager
def connected(port: int, processes: int = 2) -> Iterator[dict[int, Connection]]:
    """A connection to each process, by its pid."""
    opened = connections(port, processes)
    try:
        yield {pid_of(each): each for each in opened}
    finally:
        for each in opened:
            each.close()


def connect(port: int) -> Connection:
    return http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)


def until(holds: Callable[[], bool]) -> None:
    """Wait for a condition that comes true without anybody telling."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.02)


def told(connection: Connection, method: str, path: str, body: Any = None, **headers: str) -> Any:
    """The body of an answer that must be a success."""
    answer = asked(connection, method, path, body, **headers)
    assert answer.status in (200, 201), answer
    return answer.body


def submit(connection: Connection, player: str, score: int, **more: Any) -> Answer:
    body = {"player": player, "score": score, **more}
    return asked(connection, "POST", "/v1/boards/b/scores", body)


def is_gone(pid: int) -> bool:
    """Whether a process has ended, reaped or not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):  # Before it was opened, or read.
        return True
    return status.rpartition(")")[2].split()[0] == "Z"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """Two processes, and a board."""
    clock = tmp_path / "clock"
    FileClock(clock).set(START)
    with serving(tmp_path, "--port", "0", "--workers", "2", clock=clock) as served:
        connection = connect(served.port)
        definition = {"rule": "sum", "windows": ["all", "daily"]}
        told(connection, "PUT", "/v1/boards/b", definition)
        connection.close()
        yield served


# ------------------------------------------------------------------------ one answer from all


def test_the_audit_trail_has_the_request_whichever_process_took_it(served: Served) -> None:
    with connected(served.port) as by_pid:
        for number, way in enumerate(by_pid.values()):
            told(way, "PUT", f"/v1/players/p{number}", {"name": f"P{number}"})
            found = told(way, "GET", f"/v1/facts?kind=name_set&player=p{number}")["facts"]
            assert [(len(fact["request_id"]), fact["address"]) for fact in found] == [
                (16, "127.0.0.1")
            ]


def test_every_process_agrees_and_counts_each_key_once(served: Served) -> None:
    with connected(served.port) as by_pid:
        assert len(by_pid) == 2
        first, second = by_pid.values()
        position = 0
        for number in range(20):
            for way in (first, second, first):  # Sent three times, to both, counted once.
                receipt = told(
                    way,
                    "POST",
                    "/v1/boards/b/scores",
                    {"player": f"p{number % 3}", "score": 1, "key": f"k{number}"},
                )
                assert receipt.get("duplicate", False) is (receipt["position"] <= position)
                position = max(position, receipt["position"])
        paths = [
            "/v1/boards/b/standings?min_position=%d",
            "/v1/boards/b/standings/p1?min_position=%d",
            "/v1/boards/b/standings/p1/around?min_position=%d&window=daily",
            "/v1/boards/b/around/2?min_position=%d",
            "/v1/players/p1/standings?min_position=%d",
            "/v1/boards/b/projection?min_position=%d&rank=1",
        ]
        for path in paths:
            one, other = (told(each, "GET", path % position) for each in (first, second))
            assert one == other
            assert one["as_of"] == position
        standings = told(first, "GET", paths[0] % position)["standings"]
        assert sorted(row["score"] for row in standings) == [6, 7, 7]


def test_runs_and_signatures_are_one_for_all_processes(served: Served) -> None:
    with connected(served.port) as by_pid:
        first, second = by_pid.values()
        for number in range(10):
            started = told(
                (first, second)[number % 2], "POST", "/v1/boards/b/runs", {"player": "p"}
            )
            answers: list[Answer] = []

            def use(way: Connection, run: str = started["run"], to: Any = answers) -> None:
                to.append(submit(way, "p", 1, run=run))

            together([partial(use, way) for way in (first, second)])
            assert sorted(answer.status for answer in answers) == [200, 409], answers
        made = told(first, "POST", "/v1/keys", {"signing": "hmac"})
        key = SigningKey(made["id"], made["key"])
        body = b'{"player": "q", "score": 1}'
        header = key.header("POST", "/v1/boards/b/scores", body, time=START // 1_000_000)
        sent = {"rankd-signature": header, "content-type": "application/json"}

        def signed(way: Connection) -> int:
            way.request("POST", "/v1/boards/b/scores", body, sent)
            answer = way.getresponse()
            answer.read()
            return answer.status

        assert [signed(way) for way in (first, second, first)] == [200, 200, 200]
        told(second, "DELETE", f"/v1/keys/{made['id']}")
        assert [signed(way) for way in (first, second)] == [401, 401]
        standings = told(first, "GET", "/v1/boards/b/standings")["standings"]
        assert [(row["player"], row["score"]) for row in standings] == [("p", 10), ("q", 1)]


def test_a_position_that_nobody_has_reached_is_answered_503_by_all(served: Served) -> None:
    with connected(served.port) as by_pid:
        answers: list[Answer] = []

        def ask(connection: Connection) -> None:
            path = "/v1/boards/b/standings?min_position=1000000"
            answers.append(asked(connection, "GET", path))

        together([partial(ask, each) for each in by_pid.values()])
        assert len(answers) == 2
        for answer in answers:
            assert answer.status == 503
            assert answer.body["code"] == "index_behind"
            assert int(answer.headers["retry-after"]) >= 1
            assert "applied" not in answer.body


def together(calls: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)


def test_a_redefinition_and_a_turn_of_windows_reach_every_process(
    served: Served, tmp_path: Path
) -> None:
    with connected(served.port) as by_pid:
        first, second = by_pid.values()
        submit(second, "ann", 3)
        position = submit(second, "ann", 4).body["position"]
        for each in (first, second):
            path = f"/v1/boards/b/standings/ann?min_position={position}"
            assert told(each, "GET", path)["score"] == 7
        changed = {"rule": "best", "windows": ["all", "daily"]}
        assert told(second, "PUT", "/v1/boards/b?apply=true", changed)["applied"] is True
        position = submit(first, "bob", 1).body["position"]
        for each in (first, second):
            path = f"/v1/boards/b/standings/ann?min_position={position}"
            assert told(each, "GET", path)["score"] == 4
            assert told(each, "GET", "/v1/boards/b")["definition"]["rule"] == "best"
        FileClock(tmp_path / "clock").set(START + DAY)

        def has_turned(connection: Connection) -> bool:
            windows = told(connection, "GET", "/v1/boards/b/windows")["windows"]
            return [each["window"] for each in windows] == [
                "all",
                "daily:2026-11-15",
                "daily:2026-11-14",
            ]

        for each in (first, second):
            until(lambda each=each: has_turned(each))  # type: ignore[misc]
            assert told(each, "GET", "/v1/boards/b/standings?window=daily")["total"] == 0
            assert told(each, "GET", "/v1/boards/b/standings?window=daily:-1")["total"] == 2


def test_a_key_opens_and_closes_every_process(served: Served) -> None:
    with connected(served.port) as by_pid:
        first, second = by_pid.values()

        def status(connection: Connection, key: str | None) -> int:
            headers = {} if key is None else {"authorization": f"Bearer {key}"}
            return asked(connection, "GET", "/v1/boards/b/standings", **headers).status

        admin = told(second, "POST", "/v1/keys", {"scopes": ["admin"]})["key"]
        reader = told(
            first, "POST", "/v1/keys", {"scopes": ["read"]}, authorization=f"Bearer {admin}"
        )
        for each in (first, second):
            until(lambda each=each: status(each, None) == 401)  # type: ignore[misc]
            until(lambda each=each: status(each, reader["key"]) == 200)  # type: ignore[misc]
        path = f"/v1/keys/{reader['id']}"
        told(second, "DELETE", path, authorization=f"Bearer {admin}")
        for each in (first, second):
            until(lambda each=each: status(each, reader["key"]) == 401)  # type: ignore[misc]
            assert status(each, admin) == 200


def test_a_connection_reads_its_own_writes_without_asking_for_a_position(served: Served) -> None:
    with connected(served.port) as by_pid:
        for pid, each in by_pid.items():
            for number in range(1, 31):
                player = f"own-{pid}-{number % 3}"
                told(each, "PUT", f"/v1/players/{player}", {"name": f"Name {number}"})
                assert told(each, "GET", f"/v1/players/{player}")["name"] == f"Name {number}"
                told(each, "PATCH", f"/v1/players/{player}", {"attributes": {"number": number}})
                known = told(each, "GET", f"/v1/players/{player}")
                assert (known["name"], known["attributes"]["number"]) == (f"Name {number}", number)
                receipt = submit(each, player, number).body
                standing = told(each, "GET", f"/v1/boards/b/standings/{player}")
                assert standing["as_of"] >= receipt["position"]
                assert standing["score"] == receipt["score"]
                page = told(each, "GET", "/v1/boards/b/standings?limit=100")
                assert page["as_of"] >= receipt["position"]
                scores = {row["player"]: row["score"] for row in page["standings"]}
                assert scores[player] == receipt["score"]


def test_a_connection_reads_the_boards_that_it_changed(served: Served) -> None:
    with connected(served.port) as by_pid:
        for pid, each in by_pid.items():
            path = f"/v1/boards/own-{pid}"
            for number in range(5):
                title = f"Edition {number}"
                told(each, "PUT", path, {"title": "First", "rule": "sum"})
                changed = told(each, "PUT", f"{path}?apply=true", {"title": title, "rule": "best"})
                assert changed["applied"] is True
                board = told(each, "GET", path)
                assert board["definition"]["title"] == title
                assert board["as_of"] >= changed["position"] > 0
                told(each, "DELETE", path)
                assert asked(each, "GET", path).status == 404


def test_a_key_that_was_revoked_on_a_connection_opens_nothing_there(served: Served) -> None:
    with connected(served.port) as by_pid:
        admin = told(next(iter(by_pid.values())), "POST", "/v1/keys", {"scopes": ["admin"]})
        bearer = {"authorization": f"Bearer {admin['key']}"}
        for each in by_pid.values():
            path = f"/v1/boards/b/standings?min_position={admin['position']}"
            told(each, "GET", path, **bearer)
            for _ in range(10):
                made = told(each, "POST", "/v1/keys", {"scopes": ["read"]}, **bearer)
                shown = {"authorization": f"Bearer {made['key']}"}
                assert asked(each, "GET", "/v1/boards/b/standings", **shown).status == 200
                told(each, "DELETE", f"/v1/keys/{made['id']}", **bearer)
                assert asked(each, "GET", "/v1/boards/b/standings", **shown).status == 401


# ---------------------------------------------------------------------- a writer that stands still


def test_a_writer_that_stands_still_is_told_and_both_recover(served: Served) -> None:
    """Nothing waits for ever, and nothing that may be old is told as if it were not."""
    with connected(served.port) as by_pid:
        writer = by_pid[served.process.pid]
        (worker,) = set(by_pid.values()) - {writer}
        assert submit(worker, "ann", 1).status == 200
        assert told(worker, "GET", "/v1/boards/b/standings/ann")["stale"] is False
        os.kill(served.process.pid, signal.SIGSTOP)
        try:
            lost = submit(worker, "ann", 1, key="kept")
            assert lost.status == 503
            assert lost.body["applied"] == "unknown"
            assert int(lost.headers["retry-after"]) >= 1
            for path in ("standings/ann", "standings", "standings/ann/around"):
                assert told(worker, "GET", f"/v1/boards/b/{path}")["stale"] is True
            health = asked(worker, "GET", "/readyz")
            assert health.body["status"] == "degraded"
            assert "process that writes" in health.body["problem"]
            refused = submit(worker, "ann", 1, key="another")
            assert refused.status == 503
            assert refused.body["applied"] == "no", "it was never sent"
        finally:
            os.kill(served.process.pid, signal.SIGCONT)
        until(lambda: submit(worker, "ann", 1, key="kept").status == 200)
        assert submit(worker, "ann", 1, key="kept").body["duplicate"] is True
        for each in (worker, writer):
            standing = told(each, "GET", "/v1/boards/b/standings/ann")
            assert (standing["score"], standing["stale"]) == (2, False)
        assert asked(worker, "GET", "/readyz").body["status"] == "ready"


# ----------------------------------------------------------------------------- ends of processes


def test_a_worker_that_is_killed_is_replaced_and_nothing_acknowledged_is_lost(
    served: Served,
) -> None:
    """Writers go on meanwhile, to whoever answers; what they were told holds in the end."""
    with connected(served.port) as by_pid:
        (worker,) = set(by_pid) - {served.process.pid}
        kept = Writers(served.port, 8)
        kept.start()
        until(lambda: kept.acknowledged() > 100)
        os.kill(worker, signal.SIGKILL)
        until(lambda: is_gone(worker))
        seen = kept.acknowledged()
        until(lambda: kept.acknowledged() > seen + 100)
    with connected(served.port) as by_pid:  # Waits until there are two again.
        assert worker not in by_pid
        assert served.process.pid in by_pid
        kept.stop()
        for each in by_pid.values():
            kept.check(each)


def test_workers_stop_by_themselves_when_the_one_that_writes_is_gone(
    served: Served, tmp_path: Path
) -> None:
    with connected(served.port) as by_pid:
        (worker,) = set(by_pid) - {served.process.pid}
        kept = Writers(served.port, 8)
        kept.start()
        until(lambda: kept.acknowledged() > 100)
        assert served.stop(signal.SIGKILL) == -signal.SIGKILL
        until(lambda: is_gone(worker))
        kept.stop()
    clock = tmp_path / "clock"
    with (
        serving(tmp_path, "--port", "0", "--workers", "2", clock=clock) as again,
        connected(again.port) as by_pid,
    ):
        for each in by_pid.values():
            kept.check(each)


def test_a_service_that_is_told_to_stop_loses_nothing_that_many_were_promised(
    served: Served, tmp_path: Path
) -> None:
    kept = Writers(served.port, CLIENTS)
    with connected(served.port) as by_pid:
        pids = set(by_pid)
    kept.start()
    until(lambda: kept.acknowledged() > 10 * CLIENTS)
    assert served.stop() == 0
    assert all(is_gone(pid) for pid in pids)
    kept.stop()
    assert "ERROR" not in served.log.read_text()
    assert "Traceback" not in served.log.read_text()
    clock = tmp_path / "clock"
    with (
        serving(tmp_path, "--port", "0", "--workers", "2", clock=clock) as again,
        connected(again.port) as by_pid,
    ):
        for each in by_pid.values():
            kept.check(each)


class Writers:
    """Clients that each add one to a player of their own, again and again.

    A key is sent until it is answered, so a player's score is at least what was acknowledged, and
    at most one more: what was sent last and never heard of.
    """

    def __init__(self, port: int, count: int) -> None:
        self._port = port
        self._done = Counter({f"w{number}": 0 for number in range(count)})
        self._stopping = threading.Event()
        self._wrong: list[object] = []
        self._threads = [
            threading.Thread(target=self._run, args=(player,), name=player) for player in self._done
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)
        assert not self._wrong

    def acknowledged(self) -> int:
        return self._done.total()

    def _run(self, player: str) -> None:
        connection = connect(self._port)
        while not self._stopping.is_set():
            key = f"{player}/{self._done[player]}"
            try:
                answer = submit(connection, player, 1, key=key)
            except (OSError, http.client.HTTPException):
                connection.close()
                self._stopping.wait(0.01)  # Whoever died is being replaced.
                continue
            if answer.status == 200:
                self._done[player] += 1
            elif answer.status != 503:
                self._wrong.append(answer)
                break
        connection.close()

    def check(self, connection: Connection) -> None:
        """Every player has what it was told, and no more than it sent."""
        last = submit(connection, "last", 1).body["position"]
        path = f"/v1/boards/b/standings?limit=1000&min_position={last}"
        rows = told(connection, "GET", path)["standings"]
        scores = {row["player"]: row["score"] for row in rows}
        for player, done in self._done.items():
            assert done <= scores.get(player, 0) <= done + 1

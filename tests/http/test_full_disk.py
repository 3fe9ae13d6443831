"""A service on a disk that fills or hangs: every process says so, and it goes on by itself."""

import http.client
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.cli.running import Served, serving
from tests.disks import freezable_disk, small_disk
from tests.http.api_facade import PATIENCE_SECONDS, asked, connections

from rankd.testing.faults import empty, fill, standstill

pytestmark = pytest.mark.timeout(240)

DISK_BYTES = 16 << 20
PROCESSES = 2
BALLAST = {"replay": "x" * 400}

Connections = list[http.client.HTTPConnection]


@contextmanager
def service(home: Path, disk: Path, *options: str) -> Iterator[Served]:
    """Serve from a disk, by two processes; the log is elsewhere."""
    where = ("--data", str(disk / "d"), "--workers", str(PROCESSES))
    with serving(home, *where, *options) as served:
        yield served


@contextmanager
def connected(served: Served, processes: int = PROCESSES) -> Iterator[Connections]:
    opened = connections(urlsplit(served.url).port or 0, processes)
    try:
        yield opened
    finally:
        for each in opened:
            each.close()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", DISK_BYTES) as disk:
        yield disk


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.02)


def submit(connection: http.client.HTTPConnection, key: str) -> tuple[int, Any]:
    item = {"player": "ann", "score": 1, "metadata": BALLAST, "key": key}
    answer = asked(connection, "POST", "/v1/boards/b/scores", item)
    return answer.status, answer.body


def define(connection: http.client.HTTPConnection) -> None:
    answer = asked(connection, "PUT", "/v1/boards/b?apply=true", {"rule": "sum"})
    assert answer.status in (200, 201), answer


def submit_until_refused(connection: http.client.HTTPConnection, mark: str = "") -> Any:
    """Submit until the disk is full; return the first refusal."""
    for number in count():
        status, body = submit(connection, f"{mark}{number}")
        if status != 200:
            assert status == 503, body
            return body
    raise AssertionError("a disk has an end")


def readiness(connection: http.client.HTTPConnection) -> tuple[int, str, str]:
    answer = asked(connection, "GET", "/readyz")
    return answer.status, answer.body["status"], answer.body.get("problem") or ""


def standings(connection: http.client.HTTPConnection) -> Any:
    answer = asked(connection, "GET", "/v1/boards/b/standings")
    assert answer.status == 200, answer
    return answer.body


def score(connection: http.client.HTTPConnection) -> int:
    found: int = standings(connection)["standings"][0]["score"]
    return found


def test_every_process_tells_of_a_full_disk_and_the_service_goes_on(
    tmp_path: Path, disk: Path
) -> None:
    with service(tmp_path, disk) as served, connected(served) as each:
        define(each[0])
        for round in range(2):
            fill(disk)
            refusal = submit_until_refused(each[-1], f"{round}/")
            assert refusal["code"] == "ledger_unavailable"
            assert "no space is left on the disk" in served.log.read_text()
            for one in each:
                until(lambda one=one: readiness(one)[1] != "ready")  # type: ignore[misc]
                status, said, why = readiness(one)
                assert (status, said) == (200, "degraded")
                assert "no space is left on the disk" in why and "writes are refused" in why
                assert standings(one)["stale"] is True
                answered, body = submit(one, "while full")
                assert (answered, body["applied"]) == (503, "no")
            empty(disk)
            for one in each:
                until(lambda one=one: readiness(one)[1] == "ready")  # type: ignore[misc]
                assert standings(one)["stale"] is False
            assert submit(each[0], "after")[0] == 200
            counted = score(each[0])
            assert submit(each[0], "after")[0] == 200
            assert score(each[0]) == counted, "it was repeated"
        assert served.stop() == 0


def test_a_disk_that_hangs_keeps_neither_writes_nor_reads_waiting(tmp_path: Path) -> None:
    with (
        freezable_disk(tmp_path / "hanging", 4 * DISK_BYTES) as disk,
        service(tmp_path, disk) as served,
        connected(served) as each,
    ):
        define(each[0])
        with standstill(disk):
            answered, body = submit(each[-1], "under way")
            assert (answered, body["applied"]) == (503, "unknown")
            for one in each:
                until(lambda one=one: readiness(one)[1] == "degraded")  # type: ignore[misc]
                assert "the disk has not answered for 1 s" in readiness(one)[2]
                assert standings(one)["stale"] is True
                answered, body = submit(one, "behind")
                assert (answered, body["applied"]) == (503, "no")
        for one in each:
            until(lambda one=one: readiness(one)[1] == "ready")  # type: ignore[misc]
            assert submit(one, "under way")[0] == 200
            assert (standings(one)["stale"], score(one)) == (False, 1)
        assert served.stop() == 0


def test_a_start_on_a_full_disk_serves_reads_and_then_writes(tmp_path: Path, disk: Path) -> None:
    with service(tmp_path, disk) as served:
        with connected(served) as each:
            define(each[0])
            assert submit(each[0], "first")[0] == 200
        assert served.stop() == 0
    fill(disk)
    with service(tmp_path, disk) as served:
        with connected(served, processes=1) as (alone,):
            status, said, why = readiness(alone)
            assert (status, said) == (200, "degraded")
            assert "no space is left on the disk" in why
            assert score(alone) == 1
            answered, body = submit(alone, "second")
            assert (answered, body["applied"]) == (503, "no")
            empty(disk)
            until(lambda: readiness(alone)[1] == "ready")
            assert submit(alone, "second")[0] == 200
        with connected(served) as each:
            for one in each:
                assert submit(one, "second")[0] == 200
                assert score(one) == 2
        assert served.stop() == 0


def lose(disk: Path, connection: http.client.HTTPConnection) -> None:
    """Fill a disk until the ledger fails, and remove the ledger to make room."""
    fill(disk)
    submit_until_refused(connection)
    for path in (disk / "d").glob("ledger.db*"):
        path.unlink()
    empty(disk)


def test_a_service_whose_ledger_is_gone_exits(tmp_path: Path, disk: Path) -> None:
    with service(tmp_path, disk) as served:
        with connected(served) as each:
            define(each[0])
            lose(disk, each[0])
        assert served.process.wait(PATIENCE_SECONDS) == 1
        log = served.log.read_text()
        assert "the service exits, to be started anew" in log
        assert not (disk / "d" / "ledger.db").exists()


def test_a_service_may_go_on_without_its_ledger_and_every_process_says_so(
    tmp_path: Path, disk: Path
) -> None:
    with (
        service(tmp_path, disk, "--no-exit-on-ledger-failure") as served,
        connected(served) as each,
    ):
        define(each[0])
        assert submit(each[0], "first")[0] == 200
        lose(disk, each[0])
        for one in each:
            until(lambda one=one: readiness(one)[:2] == (503, "failed"))  # type: ignore[misc]
            assert "restart to recover" in readiness(one)[2]
            assert standings(one)["stale"] is True
            assert submit(one, "second")[1]["applied"] == "no"

"""One scrape of a service of several processes has the figures of all, whichever answers it."""

import contextlib
import os
import re
import signal
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.http.api_facade import asked
from tests.http.clocked import Served, serving
from tests.http.test_workers import Connection, connect, connected, is_gone, submit, told, until

pytestmark = pytest.mark.timeout(240)

SAMPLE = re.compile(r"(?P<key>\w+(\{.*\})?) (?P<value>\S+)")
PROCESSES = 3

Scrape = dict[str, float]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """Three processes, and a board."""
    with serving(tmp_path, "--port", "0", "--workers", str(PROCESSES)) as served:
        connection = connect(served.port)
        told(connection, "PUT", "/v1/boards/b", {"rule": "sum"})
        connection.close()
        yield served


def scrape(connection: Connection) -> Scrape:
    """Every sample of one scrape by its name and labels; each is there once."""
    answer = asked(connection, "GET", "/metrics")
    assert answer.status == 200
    found: Scrape = {}
    for line in answer.body.decode().splitlines():
        if not line.startswith("#"):
            sample = SAMPLE.fullmatch(line)
            assert sample is not None and sample["key"] not in found, line
            found[sample["key"]] = float(sample["value"])
    return found


def scrape_afresh(port: int) -> Scrape:
    """Scrape as Prometheus does: the system chooses the process."""
    connection = connect(port)
    try:
        return scrape(connection)
    finally:
        connection.close()


def counters(connection: Connection) -> set[str]:
    text = asked(connection, "GET", "/metrics").body.decode()
    return {line.split()[2] for line in text.splitlines() if line.endswith(" counter")}


def up(found: Scrape) -> dict[str, float]:
    return {key: value for key, value in found.items() if key.startswith("rankd_process_up")}


def up_of(writer: int, first: int, second: int) -> dict[str, float]:
    states = {"writer": writer, "worker-1": first, "worker-2": second}
    return {f'rankd_process_up{{process="{name}"}}': state for name, state in states.items()}


def assert_not_back(scrapes: list[Scrape], names: set[str]) -> None:
    """No counter is less than it was, and none that was there is missing."""
    for before, after in pairwise(scrapes):
        for key, value in before.items():
            if key.partition("{")[0] in names:
                assert after[key] >= value, key


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_every_scrape_has_the_figures_of_all_processes(served: Served) -> None:
    with connected(served.port, PROCESSES) as by_pid:
        names = counters(next(iter(by_pid.values())))
        scrapes: list[Scrape] = []
        for number, each in enumerate([*by_pid.values()] * 2, start=1):
            submit(each, "ann", 1)
            found = scrape(each)
            scrapes.append(found)
            assert up(found) == up_of(1, 1, 1)
            assert found["rankd_position"] == found["rankd_commits_total"] == number + 1
            assert found["rankd_boards"] == 1
        for _ in range(6):
            scrapes.append(scrape_afresh(served.port))
            assert scrapes[-1]["rankd_commits_total"] == 7
        assert_not_back(scrapes, names)
        pids = {int(key.partition('pid="')[2].partition('"')[0]) for key in info(scrapes[-1])}
        assert pids == set(by_pid)


def info(found: Scrape) -> list[str]:
    return [key for key in found if key.startswith("rankd_info{")]


def test_sums_include_every_process(served: Served) -> None:
    with connected(served.port, PROCESSES) as by_pid:
        found = scrape(by_pid[served.process.pid])
        held = sum(peak_bytes(pid) for pid in by_pid)
        assert found["process_resident_memory_max_bytes"] > 0.9 * held
        loops = [key for key in found if key.startswith('rankd_manager_up{manager="follower"')]
        assert loops, "loops of workers are among those of the service"


def peak_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def test_counters_stay_when_a_worker_is_killed_and_replaced(served: Served) -> None:
    with connected(served.port, PROCESSES) as by_pid:
        writer = by_pid[served.process.pid]
        names = counters(writer)
        for each in by_pid.values():
            submit(each, "ann", 1)
        scrapes = [scrape(writer)]
        killed = next(pid for pid in by_pid if pid != served.process.pid)
        os.kill(killed, signal.SIGKILL)
        until(lambda: is_gone(killed))

        def look(expected: float) -> bool:
            scrapes.append(scrape(writer))
            return sum(up(scrapes[-1]).values()) == expected

        until(lambda: look(PROCESSES - 1))
        assert str(killed) not in str(info(scrapes[-1])), "its gauges are gone"
        until(lambda: look(PROCESSES))
        assert_not_back(scrapes, names)
        for _ in range(6):
            assert scrape_afresh(served.port)["rankd_commits_total"] == 1 + PROCESSES


def test_a_worker_that_stands_still_is_shown_as_down(served: Served) -> None:
    with connected(served.port, PROCESSES) as by_pid:
        writer = by_pid[served.process.pid]
        names = counters(writer)
        workers = [pid for pid in by_pid if pid != served.process.pid]
        scrapes = [scrape(by_pid[workers[1]])]
        with stopped(workers[0]):
            for each in (writer, by_pid[workers[1]], writer):
                submit(each, "ann", 1)
                scrapes.append(scrape(each))
                assert sorted(up(scrapes[-1]).values()) == [0, 1, 1]
                assert scrapes[-1]["rankd_up"] == 1, "scores are taken all the same"
        until(lambda: up(scrape(writer)) == up_of(1, 1, 1))
        scrapes.append(scrape(by_pid[workers[0]]))
        assert_not_back(scrapes, names)
        assert scrapes[-1]["rankd_commits_total"] == 4


def test_without_the_writer_a_worker_tells_what_it_knows_itself(served: Served) -> None:
    with connected(served.port, PROCESSES) as by_pid:
        names = counters(by_pid[served.process.pid])
        worker = next(by_pid[pid] for pid in by_pid if pid != served.process.pid)
        before = scrape(worker)
        with stopped(served.process.pid):
            found = scrape(worker)
            assert found['rankd_process_up{process="writer"}'] == 0
            assert (found["rankd_up"], found["rankd_ledger_up"]) == (0, 0)
            partial: Any = names & {key.partition("{")[0] for key in found}
            assert not partial, "a counter of one process would look like a reset"
        until(lambda: up(scrape(worker)) == up_of(1, 1, 1))
        assert_not_back([before, scrape(worker)], names)

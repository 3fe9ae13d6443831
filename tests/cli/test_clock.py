"""A service whose ledger is ahead of the clock: told, shown what changes, corrected."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.running import Served, run, serving

import rankd
from rankd.client import Client

DAYS_AHEAD = 400


class ClockAhead:
    """A clock that is more than a year ahead."""

    def now(self) -> int:
        return time.time_ns() // 1000 + DAYS_AHEAD * 86_400_000_000


@pytest.fixture
def ahead(tmp_path: Path) -> Iterator[Served]:
    """Yield a service of two processes that was started once with a wrong clock."""
    with rankd.open(tmp_path / "data", clock=ClockAhead()) as ranks:
        board = ranks.board("b", windows=["all", "monthly"], retention={"monthly": "400d"})
        board.submit("ann", 5)
    with serving(tmp_path, "--workers", "2", "--access-log") as served:
        yield served


def doctor(served: Served) -> str:
    """Return what the doctor says of ledger time."""
    lines = run("doctor", "--data", served.folder).out.splitlines()
    return next(line for line in lines if "ledger time" in line)


def test_time_that_was_wrong_is_corrected(ahead: Served) -> None:
    with Client(ahead.url) as client:
        client.submit("b", "bob", 3)
        wrong = client.top("b", window="monthly").window
        assert "rankd clock correct" in str(client.ready().problem)
        assert "rankd clock correct" in doctor(ahead)
        correct = ["clock", "correct", "--url", ahead.url, "--ahead", DAYS_AHEAD * 86_400]
        planned = run(*correct, "--dry-run")
        assert (planned.code, planned.err) == (0, "")
        shown = [line.split(maxsplit=1) for line in planned.out.splitlines()]
        assert shown[0][0] == "wrong" and ["submissions", "2"] in shown
        assert run(*correct).err.endswith("there is no terminal to answer on; --yes agrees\n")
        assert client.top("b", window="monthly").window == wrong
        done = run(*correct, "--reason", "a dead battery", "--yes")
        assert (done.code, done.err) == (0, ""), done
        assert done.out.startswith(planned.out) and "the time is corrected" in done.out
        position = int(done.out.split()[-1].replace(",", ""))
        today = client.top("b", window="monthly", min_position=position)
        assert today.window < wrong
        assert [row.player for row in today.standings] == ["ann", "bob"]
        assert client.ready().problem is None
        assert "rankd clock correct" not in doctor(ahead)
    assert ahead.stop() == 0
    log = ahead.log.read_text()
    assert "time was wrong from position 1 on, by +400 days: corrected" in log

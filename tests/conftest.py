"""What every test runs under: Hypothesis profiles, and a watch over what a test leaves behind.

RANKD_HYPOTHESIS=long makes the property tests look fifty times further than a commit needs.
"""

import contextlib
import gc
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import HealthCheck, settings
from tests.not_tested import MARK, reasons
from tests.simulation.postgres_servers import postgres
from tests.standins import PURE, WARNING

from rankd.adapters.sqlite import recent_keys
from rankd.testing import servers
from rankd.testing.servers import PostgresServer, RedisServer, redis_server

# No deadline: a shared machine pauses, and a pause is not a fault. Not derandomised: each run
# looks somewhere new, and prints what reproduces a failure.
settings.register_profile(
    "commit",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("long", settings.get_profile("commit"), max_examples=5000)
settings.load_profile(os.environ.get("RANKD_HYPOTHESIS", "commit"))


def pytest_configure(config: pytest.Config) -> None:
    """Warnings are errors, but not the one that says what was asked for."""
    if PURE:
        config.addinivalue_line("filterwarnings", f"ignore:{WARNING}")


def pytest_collection_finish() -> None:
    """Ten thousand tests are a large heap, which each collection of garbage would walk."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """End with what this machine could not test, so that a gap is not taken for a pass."""
    if told := reasons(terminalreporter.stats.get("skipped", [])):
        terminalreporter.write_sep("=", f"{MARK} on this machine", red=True, bold=True)
        for reason in told:
            terminalreporter.write_line(reason, red=True)


@pytest.fixture(autouse=True)
def _keys_on_the_move(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys leave after a few, so that every test of a ledger meets them in both of their tables."""
    monkeypatch.setattr(recent_keys, "GENERATION_KEYS", 8)


@pytest.fixture(autouse=True, scope="session")
def _no_servers_unless_marked(pytestconfig: pytest.Config) -> Iterator[None]:
    """Without the tests of servers, one that starts a server all the same lacks its mark."""
    with pytest.MonkeyPatch.context() as patch:
        if "not servers" in pytestconfig.option.markexpr:
            patch.setattr(servers, "_running", _refuse_to_start)
        yield


def _refuse_to_start(*_: object) -> NoReturn:
    pytest.fail("a test that starts a server is marked with pytest.mark.servers")


@pytest.fixture(scope="session")
def shared_postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL for tests that neither stop nor configure it; each has a schema of its own."""
    with postgres() as server:
        yield server


@pytest.fixture(scope="session")
def shared_redis() -> Iterator[RedisServer]:
    """A Redis for tests that neither stop nor configure it; each has a prefix of its own."""
    with redis_server() as server:
        yield server


# Opened by the runner itself, whenever it sees fit.
_RUNNERS_OWN = ("/dev", "/proc", ".hypothesis", ".pytest_cache")


@pytest.fixture(autouse=True)
def _nothing_left_behind() -> Iterator[None]:
    """A test that ends with more open files or threads than it began with has leaked them."""
    files, threads = _open_files(), set(threading.enumerate())
    yield
    left_running = set(threading.enumerate()) - threads
    assert not left_running, f"threads left running: {left_running}"
    left_open = _open_files() - files
    assert not left_open, f"files left open: {left_open}"


def _open_files() -> set[str]:
    """What this process has open, sockets and pipes included, where the system can tell."""
    found = set()
    for number in Path("/proc/self/fd").glob("*"):
        with contextlib.suppress(OSError):  # The listing's own number, closed by now.
            found.add(str(number.readlink()))
    return {name for name in found if not any(own in name for own in _RUNNERS_OWN)}

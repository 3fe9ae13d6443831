"""One service for all tests of this folder that only need some service."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.cli.running import Ran, Served, run, serving

from rankd.api.server import new_event_loop
from rankd.client import Client

# libuv opens one pair of pipes with its first loop and keeps it for the life of the process. Opened
# here, it is not blamed on whichever test happens to be the first.
new_event_loop().close()


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("service")) as served:
        yield served


@pytest.fixture
def client(service: Served) -> Iterator[Client]:
    with Client(service.url) as connected:
        yield connected


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands read and write where they are run."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def ask(service: Served) -> Callable[..., Ran]:
    """A command that finds the service by itself."""

    def command(*args: object, stdin: str = "") -> Ran:
        return run(*args, stdin=stdin, RANKD_URL=service.url)

    return command

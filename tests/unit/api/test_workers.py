"""Keeping other processes running. They are made up here; tests/http has real ones."""

import asyncio
import signal
from dataclasses import asdict
from errno import EMFILE
from typing import Any

import msgspec
import pytest

from rankd.api import workers
from rankd.api.workers import WORKER_VARIABLE, Workers, WorkerTask
from rankd.core import supervisor
from rankd.core.read_engine import ReadEngine
from rankd.core.supervisor import Supervisor
from rankd.errors import LedgerUnavailable, RankdError
from rankd.settings import Settings

pytestmark = pytest.mark.anyio
PATIENCE_SECONDS = 60.0


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Process:
    """A process that does nothing until it ends."""

    def __init__(self, command: tuple[str, ...], how: dict[str, Any], *, stubborn: bool) -> None:
        self.command, self.how, self.stubborn = command, how, stubborn
        self.pid = 7
        self.signals: list[int] = []
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def wait(self) -> int:
        return await asyncio.shield(self._ended)

    def end(self, code: int = 0) -> None:
        if not self._ended.done():
            self._ended.set_result(code)

    def send_signal(self, number: int) -> None:
        self.signals.append(number)
        if not self.stubborn:
            self.end()

    def kill(self) -> None:
        self.signals.append(signal.SIGKILL)
        self.end(-signal.SIGKILL)


class System:
    """Starts processes, and remembers them."""

    def __init__(self) -> None:
        self.started: list[Process] = []
        self.stubborn = False
        self.failures: list[OSError] = []

    async def start(self, *command: str, **how: Any) -> Process:
        if self.failures:
            raise self.failures.pop()
        self.started.append(Process(command, how, stubborn=self.stubborn))
        return self.started[-1]

    async def until_started(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(self.started) < count:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.001)


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> System:
    made = System()
    monkeypatch.setattr(asyncio, "create_subprocess_exec", made.start)
    monkeypatch.setattr(workers, "RESTART_SECONDS", 0.001)
    return made


class Addresses:
    """A new address each time it is asked for."""

    def __init__(self) -> None:
        self.count = 0

    async def __call__(self) -> str:
        self.count += 1
        return f"/run/{self.count}/writer"


class Ledger(ReadEngine):
    """The part of a view that says whether scores are taken."""

    def __init__(self, failure: RankdError | None = None) -> None:
        self.lost = failure

    @property
    def ledger_failure(self) -> RankdError | None:
        return self.lost


async def ended(running: "list[asyncio.Task[None]]") -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        await asyncio.gather(*running)


async def test_a_worker_is_told_the_settings_and_where_the_writer_is(system: System) -> None:
    settings = Settings(port=4000, workers=3, cors_origins=("https://a.example",), rate_per_key=2.5)
    beside = Workers(settings, Addresses(), Ledger(), 1)
    running = beside.start(Supervisor())
    await system.until_started(1)
    (process,) = system.started
    assert process.command[1:] == ("-m", "rankd.worker")
    assert process.how["start_new_session"] is True, "ctrl-c is for the service to hear"
    assert process.how["stdin"] == asyncio.subprocess.DEVNULL
    task = msgspec.json.decode(process.how["env"][WORKER_VARIABLE], type=WorkerTask)
    assert (task.socket, task.process) == ("/run/1/writer", "worker-1")
    assert asdict(msgspec.convert(task.settings, Settings)) == asdict(settings)
    await beside.stop()
    await ended(running)


async def test_one_that_ends_is_started_again_and_asks_anew_where_the_writer_is(
    system: System, caplog: pytest.LogCaptureFixture
) -> None:
    beside = Workers(Settings(), Addresses(), Ledger(), 2)
    running = beside.start(Supervisor())
    await system.until_started(2)
    system.started[0].end(-9)
    await system.until_started(3)
    assert "ended with -9; another is started" in caplog.text
    task = msgspec.json.decode(system.started[2].how["env"][WORKER_VARIABLE], type=WorkerTask)
    assert (task.socket, task.process) == ("/run/3/writer", "worker-1")
    await beside.stop()
    await ended(running)
    told = [signal.SIGTERM]
    assert [process.signals for process in system.started] == [[], told, told]
    assert len(system.started) == 3, "none is started while the service stops"


async def test_the_service_is_ready_once_every_worker_takes_connections(system: System) -> None:
    beside = Workers(Settings(), Addresses(), Ledger(), 2)
    ready = asyncio.create_task(beside.ready())
    beside.note_listening()
    await asyncio.sleep(0)
    assert not ready.done()
    beside.note_listening()
    await ended([ready])


async def test_one_that_does_not_stop_in_its_time_is_killed(system: System) -> None:
    system.stubborn = True
    beside = Workers(Settings(stop_seconds_max=0.0), Addresses(), Ledger(), 1)
    running = beside.start(Supervisor())
    await system.until_started(1)
    await beside.stop()
    await ended(running)
    assert system.started[0].signals == [signal.SIGTERM, signal.SIGKILL]


async def test_worker_that_cannot_be_started_is_tried_again(
    system: System, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The others are left alone meanwhile."""
    monkeypatch.setattr(supervisor, "RESTART_SECONDS_MIN", 0.001)
    system.failures = [OSError(EMFILE, "Too many open files")]
    beside = Workers(Settings(), Addresses(), Ledger(), 2)
    running = beside.start(Supervisor())
    await system.until_started(2)
    assert "worker-1 failed; restart in" in caplog.text and "Too many open files" in caplog.text
    assert len(system.started) == 2
    await beside.stop()
    await ended(running)


async def test_no_worker_is_started_or_waited_for_until_the_ledger_takes_writes(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "HEALTH_SECONDS", 0.001)
    ledger = Ledger(LedgerUnavailable("no space is left on the disk", applied="no"))
    beside = Workers(Settings(), Addresses(), ledger, 1)
    running = beside.start(Supervisor())
    await beside.ready()
    assert not system.started
    ledger.lost = None
    await system.until_started(1)
    await beside.stop()
    await ended(running)

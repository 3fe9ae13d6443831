"""The supervisor: a loop that fails is logged, restarted after a pause, and reported meanwhile."""

import asyncio
import logging
from collections.abc import Callable

import pytest

from rankd.core import supervisor as module
from rankd.core.supervisor import Supervisor

pytestmark = pytest.mark.anyio
PATIENCE_SECONDS = 60.0
"""Nothing takes so long; it only ends a test that would never end."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Loop:
    """A background loop that fails as often as it is told to, then runs until it is cancelled."""

    def __init__(self, failures: int) -> None:
        self.left = failures
        self.began: list[float] = []
        self.steady = asyncio.Event()
        self.fail_again = asyncio.Event()

    async def run(self) -> None:
        self.began.append(asyncio.get_running_loop().time())
        self.left -= 1
        if self.left >= 0:
            raise ZeroDivisionError("injected")
        self.steady.set()
        await self.fail_again.wait()
        raise OverflowError("again")


def failures_of(supervisor: Supervisor) -> dict[str, str | None]:
    return {
        state.name: None if state.failure is None else str(state.failure)
        for state in supervisor.states()
    }


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not true():  # noqa: ASYNC110 - nothing signals it
            await asyncio.sleep(0.001)


async def test_failed_loop_is_logged_with_its_traceback_and_restarted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    supervisor, loop = Supervisor(), Loop(failures=1)
    task = supervisor.start("sweeper", loop.run)
    await loop.steady.wait()
    (record,) = caplog.records
    assert record.levelno == logging.ERROR and record.exc_info is not None
    assert record.getMessage() == "sweeper failed; restart in 0.1 s"
    assert isinstance(record.exc_info[1], ZeroDivisionError)
    assert [state.restarts for state in supervisor.states()] == [1]
    task.cancel()


async def test_loop_counts_as_failing_in_back_off_and_not_after_one_restart() -> None:
    supervisor, loop = Supervisor(), Loop(failures=1)
    task = supervisor.start("sweeper", loop.run)
    await until(lambda: failures_of(supervisor) == {"sweeper": "injected"})
    assert not loop.steady.is_set()
    await loop.steady.wait()
    assert failures_of(supervisor) == {"sweeper": None}
    task.cancel()


async def test_repeated_failure_counts_until_the_loop_has_run_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "RESTART_SECONDS_MIN", 0.001)
    supervisor, loop = Supervisor(), Loop(failures=2)
    task = supervisor.start("sweeper", loop.run)
    await loop.steady.wait()
    assert failures_of(supervisor) == {"sweeper": "injected"}
    clock = asyncio.get_running_loop()
    now = clock.time() + module.STEADY_SECONDS
    monkeypatch.setattr(clock, "time", lambda: now)
    assert failures_of(supervisor) == {"sweeper": None}
    task.cancel()


async def test_pauses_double_up_to_a_bound_and_shrink_after_a_steady_run(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "RESTART_SECONDS_MIN", 0.001)
    monkeypatch.setattr(module, "RESTART_SECONDS_MAX", 0.004)
    supervisor, loop = Supervisor(), Loop(failures=4)
    task = supervisor.start("sweeper", loop.run)
    await loop.steady.wait()
    monkeypatch.setattr(module, "STEADY_SECONDS", 0.0)
    loop.fail_again.set()
    await until(lambda: len(caplog.records) > 4)
    shown = [record.getMessage().removeprefix("sweeper failed; ") for record in caplog.records[:5]]
    assert shown == [f"restart in {s} s" for s in ("0.001", "0.002", "0.004", "0.004", "0.001")]
    task.cancel()


async def test_loop_that_returns_has_finished_and_is_not_restarted() -> None:
    supervisor, runs = Supervisor(), 0

    async def run() -> None:
        nonlocal runs
        runs += 1

    await supervisor.start("once", run)
    assert runs == 1 and failures_of(supervisor) == {}


async def test_cancelled_loop_ends_in_back_off_too() -> None:
    supervisor, loop = Supervisor(), Loop(failures=1_000)
    task = supervisor.start("sweeper", loop.run)
    await until(lambda: failures_of(supervisor) == {"sweeper": "injected"})
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert failures_of(supervisor) == {}


async def test_finish_ends_a_loop_that_never_stops_failing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the pause nor another failure keeps a process from stopping."""
    monkeypatch.setattr(module, "RESTART_SECONDS_MIN", 3_600.0)
    supervisor, loop = Supervisor(), Loop(failures=1_000)
    task = supervisor.start("sweeper", loop.run)
    await until(lambda: failures_of(supervisor) == {"sweeper": "injected"})
    async with asyncio.timeout(PATIENCE_SECONDS):
        await supervisor.finish(task)
    assert len(loop.began) == 2


async def test_restarts_are_counted_on_when_a_loop_is_started_anew() -> None:
    supervisor, loop = Supervisor(), Loop(failures=1)
    first = supervisor.start("sweeper", loop.run)
    await loop.steady.wait()
    first.cancel()
    second = supervisor.start("sweeper", loop.run)
    await asyncio.sleep(0)
    assert [state.restarts for state in supervisor.states()] == [1]
    second.cancel()

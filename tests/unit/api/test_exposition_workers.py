"""Figures of workers that answer, are slow, end, and are replaced."""

import asyncio
from functools import partial

import pytest

from rankd.api import exposition
from rankd.api.exposition import Family, Metric, WorkerMetrics, WorkerSession

pytestmark = pytest.mark.anyio
NAME = "worker-1"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def restarts(value: int) -> list[Family]:
    return [Metric("restarts_total", "counter", "sum", "Restarts.").sample(value)]


class Worker:
    """A process that answers when it is told to, or at once."""

    def __init__(self, metrics: WorkerMetrics, value: int) -> None:
        self.asked: list[int] = []
        self.prompt = True
        self.value = value
        self.session: WorkerSession = metrics.join(NAME, self._ask)

    def _ask(self, number: int) -> None:
        self.asked.append(number)
        if self.prompt:
            asyncio.get_running_loop().call_soon(partial(self.answer, number))

    def answer(self, number: int) -> None:
        self.session.take(number, restarts(self.value))


@pytest.fixture(autouse=True)
def _little_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exposition, "ANSWER_SECONDS_MAX", 0.01)


async def figures(metrics: WorkerMetrics) -> tuple[bool, list[float], list[float]]:
    """Whether the worker is up, its own counters, and those of its predecessors."""
    (found,) = await metrics.collect()
    assert found.process == NAME
    own, retired = ([each.samples[""] for each in of] for of in (found.families, found.retired))
    return found.up, own, retired


async def test_worker_that_never_came_is_down() -> None:
    assert await figures(WorkerMetrics([NAME])) == (False, [], [])


async def test_worker_is_asked_at_each_scrape() -> None:
    metrics = WorkerMetrics([NAME])
    worker = Worker(metrics, 1)
    assert await figures(metrics) == (True, [1], [])
    worker.value = 2
    assert await figures(metrics) == (True, [2], [])


async def test_worker_that_is_silent_is_down_and_keeps_its_figures() -> None:
    metrics = WorkerMetrics([NAME])
    worker = Worker(metrics, 1)
    await figures(metrics)
    worker.prompt = False
    assert await figures(metrics) == (False, [1], [])
    worker.value = 5
    worker.answer(worker.asked[-1])  # Too late for that scrape, and newer all the same.
    assert await figures(metrics) == (False, [5], [])


async def test_figures_of_workers_that_ended_are_kept_as_counters() -> None:
    metrics = WorkerMetrics([NAME])
    for value in (3, 4):
        worker = Worker(metrics, value)
        await figures(metrics)
        metrics.leave(worker.session)
    assert await figures(metrics) == (False, [], [7])
    Worker(metrics, 1)
    assert await figures(metrics) == (True, [1], [7])


async def test_end_of_a_worker_that_was_replaced_leaves_the_new_one() -> None:
    metrics = WorkerMetrics([NAME])
    before = Worker(metrics, 3)
    await figures(metrics)
    Worker(metrics, 1)
    before.answer(before.asked[-1])
    metrics.leave(before.session)
    assert await figures(metrics) == (True, [1], [3])


async def test_worker_that_ends_during_a_scrape_is_down() -> None:
    metrics = WorkerMetrics([NAME])
    worker = Worker(metrics, 3)
    await figures(metrics)
    worker.prompt = False
    scrape = asyncio.create_task(figures(metrics))
    await asyncio.sleep(0)
    metrics.leave(worker.session)
    assert await scrape == (False, [], [3])

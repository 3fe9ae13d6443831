"""Background loops: run, logged when they fail, restarted after a pause, and reported.

A loop that returns has finished. One that raises is started again, after a pause that doubles with
each failure in a row; meanwhile it counts as failing, and a node with a failing loop is not ready.
Time is the event loop's own.
"""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress
from math import inf
from typing import NamedTuple

from rankd.ports import Loop

RESTART_SECONDS_MIN = 0.1
"""The pause before the first restart."""

RESTART_SECONDS_MAX = 10.0
"""The longest pause before a restart."""

STEADY_SECONDS = 10.0
"""A loop that fails again sooner than this after a restart counts as failing until it has run for
so long. It is twice the period of the slowest manager that looks again and again."""

_log = logging.getLogger(__name__)


class ManagerState(NamedTuple):
    """One loop, for readiness and metrics."""

    name: str
    restarts: int
    failure: Exception | None
    """Why it last failed, while it counts as failing."""

    @property
    def problem(self) -> str:
        """The failure in a sentence."""
        error = self.failure
        return f"{self.name} fails ({type(error).__name__}: {error}) and is restarted"


class Supervisor:
    """Runs background loops under their names."""

    def __init__(self) -> None:
        self._managers: dict[str, _Manager] = {}

    def start(self, name: str, run: Loop) -> asyncio.Task[None]:
        """Run a loop until it returns or the task is cancelled."""
        manager = self._managers.setdefault(name, _Manager(name))
        manager.task = asyncio.create_task(manager.supervise(run), name=name)
        return manager.task

    async def finish(self, task: asyncio.Task[None]) -> None:
        """Wait for a loop that was told to end. It runs at most once more if it fails."""
        self._managers[task.get_name()].finishing.set()
        await task

    def states(self) -> Iterator[ManagerState]:
        """Yield the loops that run, or wait to be restarted, in the order of their start."""
        for manager in self._managers.values():
            if manager.task is not None and not manager.task.done():
                yield ManagerState(manager.name, manager.restarts, manager.failure)


class _Manager:
    def __init__(self, name: str) -> None:
        self.name = name
        self.task: asyncio.Task[None] | None = None
        self.restarts = 0
        self.finishing = asyncio.Event()
        self._error: Exception | None = None
        self._failing_until = 0.0

    @property
    def failure(self) -> Exception | None:
        now = asyncio.get_running_loop().time()
        return self._error if now < self._failing_until else None

    async def supervise(self, run: Loop) -> None:
        loop, pause = asyncio.get_running_loop(), RESTART_SECONDS_MIN
        while True:
            finishing, began = self.finishing.is_set(), loop.time()
            try:
                return await asyncio.create_task(run(), name=self.name)
            except Exception as exc:
                if loop.time() - began >= STEADY_SECONDS:
                    pause = RESTART_SECONDS_MIN
                self._note(exc, pause)
            if finishing:
                return None
            await self._wait(pause)
            repeated = pause > RESTART_SECONDS_MIN
            self._failing_until = loop.time() + (STEADY_SECONDS if repeated else 0.0)
            self.restarts += 1
            pause = min(2 * pause, RESTART_SECONDS_MAX)

    def _note(self, error: Exception, pause: float) -> None:
        self._error, self._failing_until = error, inf
        _log.error("%s failed; restart in %g s", self.name, pause, exc_info=error)

    async def _wait(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.finishing.wait()

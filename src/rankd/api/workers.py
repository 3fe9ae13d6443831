"""Worker processes of a service: started, restarted and stopped by the writer process.

Each worker listens on the service's port, and the kernel distributes connections. A worker that
dies is restarted; if the service dies, its workers lose the connection to the writer and stop.
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from functools import partial
from typing import Any

import msgspec

from rankd.api.context import ServiceContext
from rankd.api.routes import ROUTES
from rankd.api.worker_link import WriterEnd
from rankd.api.worker_metrics import WorkerMetrics
from rankd.core.read_engine import ReadEngine
from rankd.core.supervisor import Supervisor
from rankd.settings import Settings

WORKER_VARIABLE = "RANKD_WORKER"
"""The environment variable with a worker's task."""

WORKER_MODULE = "rankd.worker"

LOOK_SECONDS = 0.25
"""The interval at which the ledger's health is polled."""

RESTART_SECONDS = 1.0
"""The delay before a restart, so that a worker that dies at once is not started in a tight loop."""

_log = logging.getLogger(__name__)


class WorkerTask(msgspec.Struct):
    """The parameters of a worker process."""

    settings: dict[str, Any]
    socket: str
    process: str
    """The name of the worker."""


def names(count: int) -> list[str]:
    """Return the names of ``count`` workers."""
    return [f"worker-{number}" for number in range(1, count + 1)]


class Workers:
    """The worker processes of a service."""

    def __init__(
        self,
        settings: Settings,
        address: Callable[[], Awaitable[str]],
        view: ReadEngine,
        count: int,
    ) -> None:
        self._settings = settings
        self._view = view
        self._address = address
        self._count = count
        self._running: set[asyncio.subprocess.Process] = set()
        self._stopping = False
        self._listening = 0
        self._ready = asyncio.Event()

    def note_listening(self) -> None:
        """Count a worker that accepts connections."""
        self._listening += 1
        if self._listening >= self._count:
            self._ready.set()

    def start(self, supervisor: Supervisor) -> list[asyncio.Task[None]]:
        """Start all workers, and restart any that ends."""
        return [
            supervisor.start(name, partial(self._keep_one, name)) for name in names(self._count)
        ]

    async def _keep_one(self, name: str) -> None:
        while not self._stopping:
            await self._writable()
            # In a session of its own: ctrl-c in the terminal must reach only the service, which
            # lets its workers finish. A worker that stopped by itself would be restarted.
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                WORKER_MODULE,
                env=self._environment(await self._address(), name),
                stdin=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
            self._running.add(process)
            code = await process.wait()
            self._running.discard(process)
            if not self._stopping:
                _log.error("worker %d ended with %d; another is started", process.pid, code)
                await asyncio.sleep(RESTART_SECONDS)

    def _environment(self, socket: str, name: str) -> dict[str, str]:
        task = WorkerTask(asdict(self._settings), socket, name)
        return {**os.environ, WORKER_VARIABLE: msgspec.json.encode(task).decode()}

    async def _writable(self) -> None:
        """Wait for the ledger: on a full disk a worker could not follow it either."""
        while self._view.ledger_failure is not None:  # noqa: ASYNC110 - a view has no event
            await asyncio.sleep(LOOK_SECONDS)

    async def ready(self) -> None:
        """Wait until every worker accepts connections, unless the ledger is lost."""
        while self._view.ledger_failure is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._ready.wait()
                    return

    async def stop(self) -> None:
        """Let all workers finish their requests; kill those that run out of time."""
        self._stopping = True
        for process in self._running:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        waits = [process.wait() for process in self._running]
        try:
            async with asyncio.timeout(self._settings.stop_seconds_max + RESTART_SECONDS):
                await asyncio.gather(*waits)
        except TimeoutError:
            for process in self._running:
                process.kill()


@asynccontextmanager
async def workers(service: ServiceContext, settings: Settings, count: int) -> AsyncIterator[None]:
    """Run ``count`` workers beside this process, which writes for them."""
    metrics = WorkerMetrics(names(count))
    service.workers = metrics.collect
    receiver = WriterEnd(ROUTES, service, metrics)
    beside = Workers(settings, receiver.address, service.rankd, count)
    async with receiver.listening(beside.note_listening):
        keeping = beside.start(service.rankd.supervisor)
        try:
            await beside.ready()
            yield
        finally:
            await beside.stop()
            for task in keeping:
                task.cancel()
            await asyncio.gather(*keeping, return_exceptions=True)

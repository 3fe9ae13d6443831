"""A worker process of ``rankd serve --workers N``, started by the one that writes."""

import asyncio
import logging
import os
import sys

import msgspec

from rankd.api.logs import LINE
from rankd.api.server import new_event_loop
from rankd.api.workers import WORKER_VARIABLE, WorkerTask
from rankd.app import worker
from rankd.embedded import WallClock
from rankd.settings import Settings


def main() -> None:
    """Serve until the writing process ends or asks to stop."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format=LINE)
    task = msgspec.json.decode(os.environ[WORKER_VARIABLE], type=WorkerTask)
    settings = msgspec.convert(task.settings, Settings)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(worker(settings, task.socket, task.process, clock=WallClock()))


if __name__ == "__main__":
    main()

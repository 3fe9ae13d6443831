"""File descriptors: connections bounded below the limit of the process, and exhaustion logged.

A process without a free descriptor can accept no connection, and libuv then closes incoming ones
without an error. So connections are bounded below the limit of the process, where a connection too
many is refused and logged, and exhaustion by anything else is looked for every second.
"""

import asyncio
import errno
import logging
import os
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

from rankd.core.supervisor import Supervisor
from rankd.settings import Settings

FILES_RESERVED = 256
"""Descriptors reserved for the ledger, the index, snapshots, workers and the log."""

LOOK_SECONDS = 1.0
"""The interval of the check for a free descriptor."""

_log = logging.getLogger(__name__)


def fit_connections(settings: Settings) -> Settings:
    """Return settings whose ``connections_max`` the process can open, after raising the soft limit.

    If the hard limit is too low as well, ``connections_max`` is lowered with a warning.
    """
    wanted = settings.connections_max + FILES_RESERVED
    limit = _raise_limit(wanted)
    if limit >= wanted:
        return settings
    fitting = min(settings.connections_max, max(limit - FILES_RESERVED, limit // 2))
    _log.warning(
        "only %d files may be open: %d connections are taken at once, not connections_max = %d; "
        "raise the limit (ulimit -n %d)",
        limit,
        fitting,
        settings.connections_max,
        wanted,
    )
    return replace(settings, connections_max=fitting)


def _raise_limit(wanted: int) -> int:
    """Raise the soft limit as far towards ``wanted`` as possible, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    with suppress(OSError, ValueError):  # Some systems have a lower, undisclosed limit.
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        return limit
    return soft


@asynccontextmanager
async def watching(supervisor: Supervisor) -> AsyncIterator[None]:
    """Log when no descriptor is left, and when one is free again."""
    task = supervisor.start("descriptors", _watch)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _watch() -> None:
    told: OSError | None = None
    while True:
        found = _exhaustion()
        if found is not None and told is None:
            _log.error("no file descriptor is left: connections are lost (%s)", found.strerror)
        elif found is None and told is not None:
            _log.warning("there are file descriptors again")
        told = found
        await asyncio.sleep(LOOK_SECONDS)


def _exhaustion() -> OSError | None:
    """Return the error if this process or the system has no free descriptor; else None."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as exc:
        return exc if exc.errno in (errno.EMFILE, errno.ENFILE) else None
    return None

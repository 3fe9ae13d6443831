"""File descriptors: no more connections than there are, and a word in the log when none is left.

A process without a free descriptor can accept nothing, and libuv then closes what comes in without
an error. So connections are bounded below the limit of the process, where one too many is answered
and logged, and what else may use descriptors up is looked for.
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
"""Descriptors for all but connections: the ledger, the index, snapshots, workers, the log."""

LOOK_SECONDS = 1.0
"""How often to look whether a descriptor is to be had."""

_log = logging.getLogger(__name__)


def fit_connections(settings: Settings) -> Settings:
    """Return settings whose ``connections_max`` the process can open, with the soft limit raised.

    Where the hard limit is too low as well, connections are fewer, and the log says so.
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
    """Return how many files may be open, once the soft limit is as near to that as it may be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    with suppress(OSError, ValueError):  # Some systems have a lower limit that they do not tell.
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        return limit
    return soft


@asynccontextmanager
async def watching(supervisor: Supervisor) -> AsyncIterator[None]:
    """Log when no descriptor is left, and when there is one again."""
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
    """Return the error of a process, or a system, without a free descriptor."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as exc:
        return exc if exc.errno in (errno.EMFILE, errno.ENFILE) else None
    return None

"""The clock, and long operations: their progress, background loops, and the findings of checks."""

from asyncio import Task
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, Protocol, runtime_checkable

from rankd.model.window import Instant


class Progress(NamedTuple):
    """The progress of a long operation."""

    done: int
    total: int
    stage: str = ""
    """The name of the current stage, if there are several."""
    unit: str = ""
    """The unit of both counts, in the singular: fact, byte."""


class Finding(NamedTuple):
    """The result of one check of a machine or a server by ``rankd doctor``."""

    what: str
    found: str
    advice: str = ""
    """The advice to the operator; empty if the check passed."""


Loop = Callable[[], Coroutine[Any, Any, None]]
"""A background loop."""


StartLoop = Callable[[str, Loop], Task[None]]
"""Runs a background loop under a name, and restarts it if it fails. Cancelling the task ends it."""


class Clock(Protocol):
    """The time. The core has no other source of it, so a test can simulate years."""

    def now(self) -> Instant:
        """Return the time. It may go back; ledger time does not."""


@runtime_checkable
class CountingClock(Clock, Protocol):
    """A machine's clock, which may be set, with a counter of elapsed time, which may not."""

    def elapsed(self) -> int:
        """Return microseconds since an arbitrary moment, including time the machine slept."""

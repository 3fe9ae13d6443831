"""Long operations: their progress, background loops, and the findings of checks."""

from asyncio import Task
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple


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

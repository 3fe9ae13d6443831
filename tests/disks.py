"""Disks that really fill or stand still, for tests where one may be mounted."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

from tests.not_tested import not_tested

from rankd.testing import faults

T = TypeVar("T")


@contextmanager
def mounted(mounting: AbstractContextManager[T]) -> Iterator[T]:
    """Mount a disk, or skip the test: not every user may mount."""
    with ExitStack() as stack:
        try:
            disk = stack.enter_context(mounting)
        except faults.CannotMount as exc:
            not_tested("a disk that really fills", f"it has to be mounted: {exc}")
        yield disk


def small_disk(folder: Path, size_bytes: int) -> AbstractContextManager[Path]:
    """Mount a disk that can be filled, or skip the test."""
    return mounted(faults.small_disk(folder, size_bytes))


def freezable_disk(folder: Path, size_bytes: int) -> AbstractContextManager[Path]:
    """Mount a disk that can stand still, or skip the test."""
    return mounted(faults.freezable_disk(folder, size_bytes))

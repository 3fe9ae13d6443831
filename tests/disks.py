"""Disks that really fill, for tests of whoever may mount one."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.not_tested import not_tested

from rankd.testing import disks


@contextmanager
def small_disk(folder: Path, size_bytes: int) -> Iterator[Path]:
    """Mount a disk that can be filled, or skip the test: not every user may mount."""
    with ExitStack() as stack:
        try:
            disk = stack.enter_context(disks.small_disk(folder, size_bytes))
        except disks.CannotMount as exc:
            not_tested("a disk that really fills", f"it has to be mounted: {exc}")
        yield disk

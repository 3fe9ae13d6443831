"""How far long work has come, on a terminal."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from rankd.ports import Progress

BAR_CELLS = 30
"""Leaves room for the stage and the figures on a terminal of 80 columns."""

REDRAWN_SECONDS = 0.1
"""More often nobody can read it, and drawing would cost more than the work."""

Tell = Callable[[Progress | None], None]
"""Told of each step; None says that the work is done."""

Show = Callable[[Progress], None] | bool | None
"""Who is told of progress: a function, True for a bar on the terminal, None for nobody."""


class ProgressBar:
    """A bar for each stage, redrawn in place on a terminal; elsewhere a line when a stage ends."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stderr
        self._live = self._out.isatty()
        self._last: Progress | None = None
        self._drawn = 0.0

    def tell(self, progress: Progress | None) -> None:
        """Draw how far it is; None ends the line."""
        before = self._last
        if before is not None and (progress is None or progress.stage != before.stage):
            self._end(before)
        self._last = progress
        if progress is not None and self._live and self._is_time():
            self._out.write(f"\r{_drawn(progress)}")
            self._out.flush()

    def _is_time(self) -> bool:
        now = time.monotonic()
        due = now - self._drawn >= REDRAWN_SECONDS
        if due:
            self._drawn = now
        return due

    def _end(self, progress: Progress) -> None:
        start = "\r" if self._live else ""
        self._out.write(f"{start}{_drawn(progress)}\n")
        self._out.flush()
        self._drawn = 0.0


def _drawn(progress: Progress) -> str:
    share = min(1.0, progress.done / progress.total) if progress.total else 1.0
    full = round(share * BAR_CELLS)
    bar = "#" * full + "." * (BAR_CELLS - full)
    return f"{progress.stage or 'working':<14} [{bar}] {share:4.0%} {progress.done:,}"


@contextmanager
def showing(show: Show) -> Iterator[Tell]:
    """Tell progress to whoever was named."""
    if show is None or show is False:
        yield _to_nobody
        return
    if show is True:
        bar = ProgressBar()
        try:
            yield bar.tell
        finally:
            bar.tell(None)
        return
    told = show

    def tell(progress: Progress | None) -> None:
        if progress is not None:
            told(progress)

    yield tell


def _to_nobody(_progress: Progress | None) -> None:
    pass

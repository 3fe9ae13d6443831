"""How far long work has come, on a terminal."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from rankd.ports import Progress

BAR_CELLS_MAX = 30
"""Leaves room for the stage and the figures on a terminal of 80 columns."""

BAR_CELLS_MIN = 5
"""A shorter one says less than the figures, which then have the line for themselves."""

WIDTH_DEFAULT = 80
"""Columns of a terminal that does not tell."""

REDRAWN_SECONDS = 0.1
"""More often nobody can read it, and drawing would cost more than the work."""

Tell = Callable[[Progress | None], None]
"""Told of each step; None says that the work is done."""

Show = Callable[[Progress], None] | bool | None
"""Who is told of progress: a function, True for a bar on the terminal, None for nobody."""


class ProgressBar:
    """A bar for each stage, redrawn in place on a terminal; elsewhere nothing is drawn."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stderr
        self._live = self._out.isatty()
        self._last: Progress | None = None
        self._drawn = 0.0
        self._covered = 0
        """How much of the line has something on it."""

    def tell(self, progress: Progress | None) -> None:
        """Draw how far it is; None ends the line."""
        before = self._last
        if before is not None and (progress is None or progress.stage != before.stage):
            self._end(before)
        self._last = progress
        if progress is not None and self._live and self._is_time():
            self._draw(progress)

    def _is_time(self) -> bool:
        now = time.monotonic()
        due = now - self._drawn >= REDRAWN_SECONDS
        if due:
            self._drawn = now
        return due

    def _end(self, progress: Progress) -> None:
        if self._live:
            self._draw(progress, end="\n")
        self._drawn = 0.0

    def _draw(self, progress: Progress, end: str = "") -> None:
        width = self._width() - 1  # In the last column some terminals begin a new line.
        line = _drawn(progress, width)
        covered = line.ljust(min(self._covered, width))
        self._out.write(f"\r{covered}{end}")
        self._out.flush()
        self._covered = 0 if end else len(line)

    def _width(self) -> int:
        """Look each time: a window may be drawn smaller meanwhile."""
        try:
            return os.get_terminal_size(self._out.fileno()).columns or WIDTH_DEFAULT
        except (OSError, ValueError):  # What tells that it is a terminal may be none.
            return WIDTH_DEFAULT


def _drawn(progress: Progress, width: int) -> str:
    """Return a line that is no wider than that."""
    stage, done = progress.stage or "working", f"{progress.done:,}"
    if progress.done and not progress.total:  # Nobody knows how much is to come.
        return f"{stage:<14} {done}"[:width]
    share = min(1.0, progress.done / progress.total) if progress.total else 1.0
    figures = f"{share:4.0%} {done}"
    cells = min(BAR_CELLS_MAX, width - len(f"{stage:<14} [] {figures}"))
    if cells < BAR_CELLS_MIN:
        return f"{stage} {figures}"[:width]
    full = round(share * cells)
    return f"{stage:<14} [{'#' * full}{'.' * (cells - full)}] {figures}"


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

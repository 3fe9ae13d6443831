"""A progress bar on a terminal."""

import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, TextIO

from rankd.errors import count
from rankd.ports import Progress

BAR_CELLS_MAX = 30
"""Leaves room for the stage and the figures on a terminal of 80 columns."""

BAR_CELLS_MIN = 5
"""A bar shorter than this is left out: the figures say more."""

WIDTH_DEFAULT = 80
"""Columns of a terminal whose width is unknown."""

REDRAWN_SECONDS = 0.1
"""Faster is unreadable, and drawing would cost more than the work."""

RATE_SECONDS_MIN = 1.0
"""Seconds after which a stage's rate and remaining time are shown; earlier they are guesses."""

SLOW_RATE = 10.0
"""A rate below this is shown with a decimal."""

BYTE = "byte"
"""The unit that is shown as kB, MB or GB."""

_SIZES = ((10**9, "GB"), (10**6, "MB"), (10**3, "kB"), (0, ""))

Tell = Callable[[Progress | None], None]
"""Called with each step; None means that the work is done."""

Show = Callable[[Progress], None] | bool | None
"""The receiver of progress: a function, True for a bar on the terminal, None for none."""


class _Began(NamedTuple):
    """The start of a stage, and the amount done by then: folding may continue from a snapshot."""

    time: float
    done: int


class ProgressBar:
    """A bar for each stage, redrawn in place on a terminal; elsewhere nothing is drawn."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stderr
        self._live = self._out.isatty()
        self._last: Progress | None = None
        self._began: _Began | None = None
        self._drawn = 0.0
        self._covered = 0
        """Characters on the present line."""

    def tell(self, progress: Progress | None) -> None:
        """Draw the progress; None ends the line."""
        before = self._last
        if before is not None and (progress is None or progress.stage != before.stage):
            self._end(before)
        self._last = progress
        if progress is not None and self._began is None:
            self._began = _Began(time.monotonic(), progress.done)
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
        self._drawn, self._began = 0.0, None

    def _draw(self, progress: Progress, end: str = "") -> None:
        width = self._width() - 1  # Some terminals wrap after the last column.
        line = _drawn(progress, width, self._rate(progress))
        covered = line.ljust(min(self._covered, width))
        self._out.write(f"\r{covered}{end}")
        self._out.flush()
        self._covered = 0 if end else len(line)

    def _rate(self, progress: Progress) -> float | None:
        """Return units per second; None if it is too early to say."""
        if self._began is None:
            return None
        seconds, done = time.monotonic() - self._began.time, progress.done - self._began.done
        return done / seconds if seconds >= RATE_SECONDS_MIN and done > 0 else None

    def _width(self) -> int:
        """Return the present width: the terminal may have been resized."""
        try:
            return os.get_terminal_size(self._out.fileno()).columns or WIDTH_DEFAULT
        except (OSError, ValueError):  # isatty() may be wrong.
            return WIDTH_DEFAULT


def _drawn(progress: Progress, width: int, rate: float | None = None) -> str:
    """Return a line of at most ``width`` characters, with fewer figures if it is narrow."""
    stage, figures = progress.stage or "working", _figures(progress, rate)
    room = width - len(f"{stage:<14} [] ") - BAR_CELLS_MIN
    while len(figures) > 1 and len(", ".join(figures)) > room:
        figures.pop()
    said = ", ".join(figures)
    if progress.done and not progress.total:  # The total is unknown.
        return f"{stage:<14} {said}"[:width]
    if len(said) > room:
        return f"{stage} {said}"[:width]
    cells = min(BAR_CELLS_MAX, room - len(said) + BAR_CELLS_MIN)
    full = round(_share(progress) * cells)
    return f"{stage:<14} [{'#' * full}{'.' * (cells - full)}] {said}"


def _share(progress: Progress) -> float:
    return min(1.0, progress.done / progress.total) if progress.total else 1.0


def _figures(progress: Progress, rate: float | None) -> list[str]:
    """Return the amount done, the rate, and the remaining time."""
    done, total, unit = progress.done, progress.total, progress.unit
    share = f"{_share(progress):4.0%} " if total or not done else ""
    figures = [f"{share}{_amount(done, unit)}"]
    if rate is not None:
        figures.append(_pace(rate, unit))
        if done < total:
            figures.append(f"{_span((total - done) / rate)} left")
    return figures


def _pace(rate: float, unit: str) -> str:
    if unit == BYTE:
        return f"{_amount(round(rate), unit)}/s"
    return f"{rate:,.0f}/s" if rate >= SLOW_RATE else f"{rate:.1f}/s"


def _amount(number: int, unit: str) -> str:
    if unit == BYTE:
        size, name = next(each for each in _SIZES if number >= each[0])
        return f"{number / size:,.1f} {name}" if size > 1 else count(number, unit)
    return count(number, unit) if unit else f"{number:,}"


def _span(seconds: float) -> str:
    """Return a duration for people, rounded up."""
    whole = math.ceil(seconds)
    if whole < 100:
        return f"{whole} s"
    minutes = math.ceil(whole / 60)
    return f"{minutes} min" if minutes < 100 else f"{math.ceil(minutes / 60):,} h"


@contextmanager
def showing(show: Show) -> Iterator[Tell]:
    """Yield the function that passes progress on to ``show``."""
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

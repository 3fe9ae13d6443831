"""Samples of a running service, and the judgement whether they level off.

Memory, descriptors and latency must level off: over the last half of a run, the line of least
squares may rise by a share of the level and a slack, no more. Disk may grow with the facts in the
ledger, by so many bytes for each.
"""

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, linear_regression
from typing import NamedTuple

MEMORY_SHARE_MAX, MEMORY_SLACK = 0.02, 4.0
"""Growth of resident memory, all processes together, in MiB: arenas of the allocator fill up."""

DESCRIPTORS_SHARE_MAX, DESCRIPTORS_SLACK = 0.0, 8.0
"""Growth of open descriptors: connections are as many as at the start; a few files come and go."""

P50_SHARE_MAX, P50_SLACK = 0.25, 5.0
P99_SHARE_MAX, P99_SLACK = 0.25, 50.0
"""Growth of latency, in milliseconds: of another magnitude than what else the machine does."""

DISK_BYTES_PER_FACT_MAX = 1_024
"""Some times the bytes of a fact with key, receipt and attributes."""

DISK_SLACK = 8.0
"""In MiB: the write-ahead log, which is cut off at 4 MiB, and pages that are half full."""

MIB = 1 << 20
SAMPLES_MIN = 6
"""With fewer in a run, the half of it says nothing."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A service at one moment."""

    seconds: float
    """Since the start of the load."""
    facts: int
    boards: int
    """That were ever made."""
    requests: int
    """Since the sample before."""
    refused: int
    """Of these, those that were answered 503."""
    memory: float
    """MiB resident, all processes."""
    descriptors: int
    disk: float
    """MiB."""
    p50: float
    p99: float
    """Milliseconds, of the requests since the sample before."""


# ------------------------------------------------------------------------------ measuring


def processes(pid: int) -> list[int]:
    """Return a process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *map(int, children)]


def resident_mib(pids: Sequence[int]) -> float:
    """Return the memory of some processes."""
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
    return pages * os.sysconf("SC_PAGE_SIZE") / MIB


def open_descriptors(pids: Sequence[int]) -> int:
    """Return how many descriptors some processes have open."""
    return sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in pids)


def disk_mib(folder: Path) -> float:
    """Return the size of all files under a folder."""
    return sum(map(_size, folder.rglob("*"))) / MIB


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except FileNotFoundError:  # Removed since it was listed.
        return 0


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which a share of all lies; 0 of none."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, math.floor(share * len(ranked)))] if ranked else 0.0


# ------------------------------------------------------------------------------- judging


class Verdict(NamedTuple):
    """One quantity over the last half of a run."""

    name: str
    unit: str
    slope: float
    """Per hour."""
    growth: float
    """From the first of these samples to the last, along the line of least squares."""
    allowed: float

    @property
    def levels_off(self) -> bool:
        """Whether it grew no more than it may."""
        return self.growth <= self.allowed

    def __str__(self) -> str:
        said = "ok" if self.levels_off else "DOES NOT LEVEL OFF"
        grew = f"{self.growth:+,.1f} in the last half, {self.allowed:,.1f} allowed"
        return f"{self.name:<12}{self.slope:>+12,.1f} {self.unit + '/h':<8}{grew}: {said}"


class Quantity(NamedTuple):
    """What is judged, and by which bounds."""

    name: str
    unit: str
    of: Callable[[Sample], float]
    share_max: float
    slack: float


QUANTITIES = (
    Quantity("memory", "MiB", lambda s: s.memory, MEMORY_SHARE_MAX, MEMORY_SLACK),
    Quantity("descriptors", "", lambda s: s.descriptors, DESCRIPTORS_SHARE_MAX, DESCRIPTORS_SLACK),
    Quantity("disk", "MiB", lambda s: s.disk, 0.0, DISK_SLACK),
    Quantity("p50", "ms", lambda s: s.p50, P50_SHARE_MAX, P50_SLACK),
    Quantity("p99", "ms", lambda s: s.p99, P99_SHARE_MAX, P99_SLACK),
)


def judge(samples: Sequence[Sample]) -> list[Verdict]:
    """Return a verdict on each quantity."""
    if len(samples) < SAMPLES_MIN:
        raise ValueError(f"{len(samples)} samples; {SAMPLES_MIN} are needed")
    half = samples[len(samples) // 2 :]
    return [_verdict(quantity, half) for quantity in QUANTITIES]


def _verdict(quantity: Quantity, half: Sequence[Sample]) -> Verdict:
    seconds, values = [s.seconds for s in half], [quantity.of(s) for s in half]
    slope = linear_regression(seconds, values).slope
    allowed = quantity.share_max * fmean(values) + quantity.slack
    if quantity.name == "disk":
        allowed += (half[-1].facts - half[0].facts) * DISK_BYTES_PER_FACT_MAX / MIB
    growth = slope * (seconds[-1] - seconds[0])
    return Verdict(quantity.name, quantity.unit, slope * 3600, growth, allowed)

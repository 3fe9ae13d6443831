"""The arithmetic of benchmarks, without a clock: samples, medians, ratios, goals, columns."""

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Aim = Literal["at most", "at least"]

NOT_MEASURED = "-"
TIMES = "\N{MULTIPLICATION SIGN}"


@dataclass(frozen=True, slots=True)
class Sample:
    """So many operations took so long: on the clock, and on the processor that served them."""

    operations: int
    wall_seconds: float
    cpu_seconds: float

    def __add__(self, other: "Sample") -> "Sample":
        return Sample(
            self.operations + other.operations,
            self.wall_seconds + other.wall_seconds,
            self.cpu_seconds + other.cpu_seconds,
        )


@dataclass(slots=True)
class Measurement:
    """One operation of one system done in one way, measured several times."""

    players: int
    system: str
    operation: str
    way: str
    wall_us: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)

    def add(self, sample: Sample) -> None:
        """Take in one repetition."""
        self.wall_us.append(sample.wall_seconds / sample.operations * 1e6)
        self.cpu_us.append(sample.cpu_seconds / sample.operations * 1e6)

    @property
    def median_us(self) -> float:
        """The middle one of the repetitions, in microseconds of the clock."""
        return statistics.median(self.wall_us)

    @property
    def best_us(self) -> float:
        """The fastest of the repetitions: what a quiet machine comes nearest to."""
        return min(self.wall_us)

    @property
    def median_cpu_us(self) -> float:
        """The middle one of the repetitions, in microseconds of processor time."""
        return statistics.median(self.cpu_us)


def fastest(
    measurements: Iterable[Measurement], *, players: int, system: str, operation: str
) -> Measurement | None:
    """Return the way that was fastest at the median, if any was measured."""
    asked = (players, system, operation)
    found = [m for m in measurements if (m.players, m.system, m.operation) == asked and m.wall_us]
    return min(found, key=lambda m: m.median_us, default=None)


@dataclass(frozen=True, slots=True)
class Goal:
    """What a figure must reach."""

    question: str
    text: str
    unit: str
    aim: Aim
    bound: float
    measure: Callable[[], float | None]

    def judged(self) -> dict[str, Any]:
        """Return the goal, the figure, and whether it is reached; None where not measured."""
        figure = self.measure()
        reached = None
        if figure is not None:
            reached = figure <= self.bound if self.aim == "at most" else figure >= self.bound
        return {
            "question": self.question,
            "text": self.text,
            "unit": self.unit,
            "aim": self.aim,
            "bound": self.bound,
            "figure": figure,
            "reached": reached,
        }


def quotient(dividend: float | None, divisor: float | None) -> float | None:
    """Divide, unless either was not measured."""
    return None if dividend is None or divisor is None else dividend / divisor


def ratio(slower: Measurement | None, faster: Measurement | None) -> float | None:
    """How many times the second goes into the first, by the clock."""
    if slower is None or faster is None:
        return None
    return slower.median_us / faster.median_us


def cpu_ratio(slower: Measurement | None, faster: Measurement | None) -> float | None:
    """The same by processor time; None where the system did not tell any."""
    if slower is None or faster is None or not slower.median_cpu_us or not faster.median_cpu_us:
        return None
    return slower.median_cpu_us / faster.median_cpu_us


def number(value: float | None, unit: str = "") -> str:
    """Write a figure with three significant digits, or a dash."""
    if value is None:
        return NOT_MEASURED
    decimals = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{decimals}f} {unit}".rstrip()


def count(players: int) -> str:
    """Write a number of players as people say it: 100 K, 10 M."""
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**3, "K")):
        if players >= size and players % (size // 10) == 0:
            return f"{players / size:g} {letter}"
    return f"{players:,}"


def table(head: Sequence[str], body: Iterable[Sequence[str]], *, left: int = 1) -> str:
    """Lay out columns: words to the left, numbers to the right.

    The first ``left`` columns hold words, and the last does if its cells begin with a letter.
    """
    lines = [list(head), *(list(row) for row in body)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    last = len(head) - 1
    words = any(line[last][:1].isalpha() for line in lines[1:])

    def laid_out(line: Sequence[str]) -> str:
        cells = [
            cell.ljust(width) if i < left or (i == last and words) else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        return "  ".join(cells).rstrip()

    rule = "  ".join("─" * width for width in widths)
    return "\n".join([laid_out(lines[0]), rule, *(laid_out(line) for line in lines[1:])])

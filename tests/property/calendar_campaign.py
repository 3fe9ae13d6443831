"""Every window of 2000 to 2100 in every time zone, against arithmetic of its own.

    python tests/property/calendar_campaign.py [--zones N] [--jobs N]

The judge shares no code with ``rankd.model``. It probes each zone for the instants at which its
clocks are set, and from that list and plain integers works out where every window must start and
end. Then it walks the real windows by ``next_after`` and compares each with what it expects: its
id and bounds, that its first, its last and a random microsecond lie in it, and those around each
change of the clocks, that its id leads back to it, and that the one after it has it as
``previous``. Expected windows cover the time without overlap or hole by construction, so windows
equal to them do too.

Zones whose clocks show the same at every moment are walked once: many names are aliases with the
same file, and more differ only before 1998. A case that says ``near_changes`` is walked where
clocks are set, so far to either side; all others from end to end. About twenty minutes of a core.
"""

import argparse
import multiprocessing
import random
import sys
import time
import zoneinfo
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from importlib import resources
from itertools import accumulate, pairwise

from rankd.model.window import Instant, Recurrence, UnknownWindowId, Window

Seconds = int
DAY: Seconds = 86_400
HOUR: Seconds = 3_600
MICROSECONDS = 1_000_000
# Clocks of these years are never set twice within a week, so half a day misses no change.
PROBE_STEP: Seconds = DAY // 2
DIFFERENCES_SHOWN_MAX = 10


def seconds(year: int, month: int = 1, day: int = 1) -> Seconds:
    return int(datetime(year, month, day, tzinfo=UTC).timestamp())


FIRST, LAST = seconds(2000), seconds(2101)
# Room on both sides for windows that reach over the edge of the century.
PROBED_FIRST, PROBED_LAST = seconds(1998), seconds(2103)


# --- the judge's clock ------------------------------------------------------------------------


@dataclass(frozen=True)
class Clock:
    """What clocks in a zone show: from each ``changes[i]`` on, UTC plus ``offsets[i]``."""

    changes: tuple[Seconds, ...]
    offsets: tuple[Seconds, ...]
    _highest: list[Seconds] = field(init=False, compare=False, repr=False)
    edges: list[Instant] = field(init=False, compare=False, repr=False)
    """Around each change: the last and the first microsecond, and one when hours are repeated."""

    def __post_init__(self) -> None:
        around = (-1, 0, 20 * 60 * MICROSECONDS)
        edges = [at * MICROSECONDS + later for at in self.changes[1:] for later in around]
        object.__setattr__(self, "edges", edges)
        ends = [*self.changes[1:], PROBED_LAST * 2]
        shown_last = (end + offset for end, offset in zip(ends, self.offsets, strict=True))
        object.__setattr__(self, "_highest", list(accumulate(shown_last, max)))

    @classmethod
    def of(cls, zone: str) -> "Clock":
        info = zoneinfo.ZoneInfo(zone)

        def offset(at: Seconds) -> Seconds:
            shift = datetime.fromtimestamp(at, info).utcoffset()
            assert shift is not None
            return int(shift.total_seconds())

        changes, offsets = [PROBED_FIRST], [offset(PROBED_FIRST)]
        for probe in range(PROBED_FIRST, PROBED_LAST, PROBE_STEP):
            if offset(probe) != offsets[-1]:
                low, high = probe - PROBE_STEP, probe
                while high - low > 1:
                    middle = (low + high) // 2
                    low, high = (middle, high) if offset(middle) == offsets[-1] else (low, middle)
                changes.append(high)
                offsets.append(offset(high))
        return cls(tuple(changes), tuple(offsets))

    def reaches(self, wall: Seconds) -> Seconds:
        """Return when these clocks first show ``wall`` or later; wall times count from 1970."""
        piece = bisect_right(self._highest, wall)
        return max(wall - self.offsets[piece], self.changes[piece])


def read_clocks(zones: Iterable[str]) -> dict[Clock, list[str]]:
    """Return the different clocks, each with the zones that show it."""
    names_by_file: dict[bytes, list[str]] = {}
    for zone in zones:
        data = resources.files("tzdata").joinpath("zoneinfo", *zone.split("/")).read_bytes()
        names_by_file.setdefault(data, []).append(zone)
    clocks: dict[Clock, list[str]] = {}
    for names in names_by_file.values():
        clocks.setdefault(Clock.of(names[0]), []).extend(names)
    return clocks


# --- the judge's calendars --------------------------------------------------------------------

# A mark: the wall time a window starts at, what its id says after the name, and the wall time it
# ends at if that is not where the next one starts.
Mark = tuple[Seconds, str, Seconds | None]
Marks = Callable[[Seconds, Seconds], Iterator[Mark]]


@dataclass(frozen=True)
class Case:
    """A recurrence, and the marks it must have between two wall times."""

    title: str
    definition: str | dict[str, str]
    marks: Marks
    near_changes: Seconds | None = None
    """Walk only so far around each change of the clocks; None: walk everything."""
    elapsed: bool = False
    """Whether marks are seconds of UTC, which no clock can change: one zone is enough."""


def day_of(wall: Seconds) -> date:
    return date(1970, 1, 1) + timedelta(days=wall // DAY)


def wall_of(day: date, time_of_day: Seconds = 0) -> Seconds:
    return (day - date(1970, 1, 1)).days * DAY + time_of_day


def days(first: Seconds, last: Seconds) -> Iterator[date]:
    return (day_of(wall) for wall in range(first // DAY * DAY, last, DAY))


def dated(time_of_day: Seconds, suffix: Callable[[date], str | None]) -> Marks:
    """Return marks on the days for which ``suffix`` gives one."""

    def marks(first: Seconds, last: Seconds) -> Iterator[Mark]:
        for day in days(first, last):
            text = suffix(day)
            if text is not None:
                yield wall_of(day, time_of_day), text, None

    return marks


def firing(minutes: Iterable[int], fires_on: Callable[[date], bool]) -> Marks:
    times = [minute * 60 for minute in minutes]

    def marks(first: Seconds, last: Seconds) -> Iterator[Mark]:
        for day in filter(fires_on, days(first, last)):
            for time_of_day in times:
                hour, minute = divmod(time_of_day // 60, 60)
                yield wall_of(day, time_of_day), f"{day}T{hour:02}:{minute:02}", None

    return marks


def seasons(start: Seconds, *, every: Seconds, gap: Seconds) -> Marks:
    def marks(first: Seconds, last: Seconds) -> Iterator[Mark]:
        number = max(0, (first - start) // (every + gap))
        while (wall := start + number * (every + gap)) < last:
            number += 1
            yield wall, str(number), wall + every if gap else None

    return marks


def every_day(day: date) -> bool:
    return True


def is_last_of_month(day: date) -> bool:
    return (day + timedelta(days=1)).day == 1


# A Sunday, the day on which most clocks are set, at a time that many of them skip or repeat.
SUNDAY_NIGHT = seconds(2000, 1, 2) + 2 * HOUR + HOUR // 2

CASES = (
    Case("daily", "daily", dated(0, date.isoformat)),
    Case(
        "daily at 02:30",
        {"name": "daily", "at": "02:30"},
        dated(2 * HOUR + HOUR // 2, date.isoformat),
        near_changes=4 * DAY,
    ),
    Case(
        "weekly",
        "weekly",
        dated(0, lambda day: f"{day:%G-W%V}" if f"{day:%a}" == "Mon" else None),
    ),
    Case(
        "weekly from Sunday 05:00",
        {"name": "weekly", "at": "05:00", "week_starts": "sunday"},
        dated(
            5 * HOUR,
            lambda day: f"{day + timedelta(days=1):%G-W%V}" if f"{day:%a}" == "Sun" else None,
        ),
    ),
    Case(
        "monthly",
        "monthly",
        dated(0, lambda day: f"{day:%Y-%m}" if day.day == 1 else None),
    ),
    Case(
        "4w, gap 2d",
        {"name": "season", "every": "4w", "gap": "2d", "start": "2000-01-03"},
        seasons(seconds(2000, 1, 3), every=28 * DAY, gap=2 * DAY),
    ),
    Case(
        "12h, gap 6d12h",
        {"name": "night", "every": "12h", "gap": "6d12h", "start": "2000-01-02T02:30"},
        seasons(SUNDAY_NIGHT, every=DAY // 2, gap=6 * DAY + DAY // 2),
    ),
    Case(
        "1w",
        {"name": "round", "every": "1w", "start": "2000-01-02T02:30"},
        seasons(SUNDAY_NIGHT, every=7 * DAY, gap=0),
    ),
    Case(
        "36h, gap 90m",
        {"name": "heat", "every": "36h", "gap": "90m", "start": "2000-01-03T00:00:00Z"},
        seasons(seconds(2000, 1, 3), every=36 * HOUR, gap=90 * 60),
        elapsed=True,
    ),
    Case(
        "cron 30 2 * * SUN",
        {"name": "shift", "cron": "30 2 * * SUN"},
        firing([150], lambda day: day.weekday() == 6),
    ),
    Case(
        "cron 0 0 1,15 * MON",
        {"name": "shift", "cron": "0 0 1,15 * MON"},
        firing([0], lambda day: day.day in (1, 15) or day.weekday() == 0),
    ),
    Case(
        "cron 45 23 L * *",
        {"name": "shift", "cron": "45 23 L * *"},
        firing([23 * 60 + 45], is_last_of_month),
    ),
    Case(
        "cron 0 5 * * *",
        {"name": "shift", "cron": "0 5 * * *"},
        firing([300], every_day),
        near_changes=4 * DAY,
    ),
    Case(
        "cron @hourly",
        {"name": "shift", "cron": "@hourly"},
        firing(range(0, 1440, 60), every_day),
        near_changes=DAY + DAY // 2,
    ),
    Case(
        "cron */15 * * * *",
        {"name": "shift", "cron": "*/15 * * * *"},
        firing(range(0, 1440, 15), every_day),
        near_changes=6 * HOUR,
    ),
)


# --- comparing --------------------------------------------------------------------------------


@dataclass
class Tally:
    """What a walk has seen."""

    windows: int = 0
    instants: int = 0
    differences: list[str] = field(default_factory=list)

    def add(self, other: "Tally") -> None:
        self.windows += other.windows
        self.instants += other.instants
        self.differences += other.differences


def expected_windows(
    case: Case, clock: Clock, name: str, first: Seconds, last: Seconds
) -> list[Window]:
    """Return the windows that start between two instants, by the judge's own reckoning."""

    def reached(wall: Seconds) -> Seconds:
        return wall if case.elapsed else clock.reaches(wall)

    # Wall times are at most a day from UTC. The last window ends where the next one starts, at
    # most a month later; those that are walked near changes are no longer than a day.
    overhang = 40 * DAY if case.near_changes is None else 3 * DAY
    marks = list(case.marks(first - 2 * DAY, last + overhang))
    windows = []
    for (wall, suffix, end), (following, _, _) in pairwise(marks):
        start, close = reached(wall), reached(following if end is None else end)
        if first <= start < min(last, close):
            windows.append(
                Window(name, f"{name}:{suffix}", start * MICROSECONDS, close * MICROSECONDS)
            )
    return windows


def walk(
    recurrence: Recurrence,
    expected: list[Window],
    edges: list[Instant],
    tally: Tally,
    draw: random.Random,
) -> Iterator[str]:
    """Walk the windows from the first expected one; yield what is not as it must be."""
    window = recurrence.window_at(expected[0].start or 0)
    seen: set[str] = set()
    for wanted in expected:
        tally.windows += 1
        if window != wanted:
            yield f"expected {wanted}, came to {window}"
            return
        assert wanted.start is not None
        assert wanted.end is not None
        seen.add(wanted.id)
        inside = draw.randrange(wanted.start, wanted.end)
        changes = edges[bisect_left(edges, wanted.start) : bisect_left(edges, wanted.end)]
        for instant in (inside, wanted.end - 1, *changes):
            tally.instants += 1
            if recurrence.window_at(instant) != wanted:
                yield f"{instant} lies in {wanted}, not in {recurrence.window_at(instant)}"
        tally.instants += 1  # An id is looked up by the instant at which its window starts.
        if recurrence.window(wanted.id) != wanted:
            yield f"the id of {wanted} leads elsewhere"
        window = recurrence.next_after(wanted)
        if window is None or recurrence.previous(window) != wanted:
            yield f"{wanted} is not before {window}"
            return
        assert window.start is not None
        if wanted.end < window.start:
            tally.instants += 1
            between = draw.randrange(wanted.end, window.start)
            if recurrence.window_at(between) is not None:
                yield f"{between} lies in the gap after {wanted}"
    if len(seen) < len(expected):
        yield "an id came twice"


def stretches(case: Case, clock: Clock, first: Seconds, last: Seconds) -> list[tuple[int, int]]:
    if case.near_changes is None:
        return [(first, last)]
    near = case.near_changes
    return [(at - near, at + near) for at in clock.changes[1:] if first <= at < last]


def check(
    case: Case, zone: str, clock: Clock, *, first: Seconds = FIRST, last: Seconds = LAST
) -> Tally:
    """Compare the windows of one recurrence in one zone with the judge's."""
    tally = Tally()
    recurrence = Recurrence.parse(case.definition, time_zone=zone)
    draw = random.Random(f"{zone} {case.title}")
    for begin, end in stretches(case, clock, first, last):
        expected = expected_windows(case, clock, recurrence.name, begin, end)
        try:
            found = list(walk(recurrence, expected, clock.edges, tally, draw)) if expected else []
        except UnknownWindowId as exc:
            found = [str(exc)]
        tally.differences += [f"{zone}, {case.title}: {difference}" for difference in found]
    return tally


# --- the command ------------------------------------------------------------------------------


def zone_names() -> list[str]:
    return sorted((resources.files("tzdata") / "zones").read_text().split())


def check_clock(job: tuple[str, Clock, bool]) -> Tally:
    zone, clock, first_of_all = job
    tally = Tally()
    for case in CASES:
        if first_of_all or not case.elapsed:
            tally.add(check(case, zone, clock))
    return tally


def main() -> int:
    """Run the campaign and print its figures; 1 if there was a difference."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--zones", type=int, help="only so many zones, drawn at random")
    parser.add_argument("--jobs", type=int, default=1, help="processes to use (1)")
    parser.add_argument("--seed", type=int, default=0, help="for --zones (0)")
    options = parser.parse_args()

    began = time.monotonic()
    # The judge reads the same edition of the zones as the engine, not the machine's.
    zoneinfo.reset_tzpath(to=[])
    zones = zone_names()
    if options.zones is not None:
        zones = sorted(random.Random(options.seed).sample(zones, options.zones))
    clocks = read_clocks(zones)
    say(f"{len(zones)} zones show {len(clocks)} different clocks from 1998 to 2102\n")

    total = Tally()
    jobs = [(names[0], clock, index == 0) for index, (clock, names) in enumerate(clocks.items())]
    with multiprocessing.Pool(options.jobs) as pool:
        for done, tally in enumerate(pool.imap_unordered(check_clock, jobs), start=1):
            total.add(tally)
            progress(f"{done} of {len(jobs)} clocks, {total.windows:,} windows", began)
    for difference in total.differences[:DIFFERENCES_SHOWN_MAX]:
        say(f"\n{difference}")
    say(
        f"\nzones {len(zones)}, clocks {len(clocks)}, recurrences {len(CASES)}, "
        f"windows {total.windows:,}, instants {total.instants:,}, "
        f"differences {len(total.differences)}, seconds {time.monotonic() - began:.0f}\n"
    )
    return 1 if total.differences else 0


def say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def progress(text: str, began: float) -> None:
    """Keep one line up to date on a terminal; write lines to anything else."""
    line = f"{text}, {time.monotonic() - began:.0f} s"
    say(f"\r{line} " if sys.stdout.isatty() else f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())

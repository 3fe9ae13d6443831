"""Which window an instant belongs to: calendar arithmetic, and nothing else.

A board's scores are ranked per window: today, this ISO week, the third round of a cup. Every fact
must fall in exactly one window of each recurrence, in every time zone, or a score is lost at
midnight or counted twice; and the clocks of the world make that hard. Local midnight does not
exist on some days, happens twice on others, and a whole day has been skipped. So one rule
decides everything:

    A window starts at the first instant at which the local clock shows its starting time
    *or anything later*, and ends where the next one starts.

"Or anything later" settles a starting time that the clock jumps over: the window starts right after
the jump. "First" settles a time shown twice: once started, a window does not start again when the
clock is set back. The clock seen this way never runs backwards, so windows can neither overlap nor
leave a hole, under any change of time zone rules. A window that would be empty, because the clock
jumps over all of it, does not exist.

Instants are whole microseconds since 1970 in UTC, as the ledger stores them. A *wall* time is a
datetime without zone, as a clock on the wall shows it. Windows are half-open: they contain their
start and not their end.

Zones are read from the ``tzdata`` package, never from the machine: two nodes that fold the same
ledger must cut it into the same days.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from functools import lru_cache
from importlib import resources
from typing import ClassVar, NamedTuple, TypeAlias
from zoneinfo import ZoneInfo

from rankd.model.cron import canonical_cron, parse_cron

Instant: TypeAlias = int
"""Microseconds since 1970-01-01T00:00:00Z."""

_SECOND = 1_000_000
_MICROSECOND = timedelta(microseconds=1)
_DAY = timedelta(days=1)
_WEEK = timedelta(days=7)
_NOTHING = timedelta(0)
_MIDNIGHT = time()
_UNIX_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a wall time

# The instants we answer for. Before 1970 many zones are guesswork. The upper end leaves the
# longest window room to end before year 9999, where datetime does.
_INSTANT_MIN: Instant = 0
_INSTANT_END: Instant = (datetime(9000, 1, 1) - _UNIX_EPOCH) // _MICROSECOND  # noqa: DTZ001

DURATION_MAX = timedelta(days=36_525)  # A hundred years: longer is a slip of the pen.
GRACE_MAX = timedelta(days=31)  # Longer is a window of its own.
ROLLING_DAYS_MAX = 366  # A year: each submission is folded again once for each of the days.
RELATIVE_STEPS_MAX = 1_000  # How far back ``daily:-n`` may reach; each step costs microseconds.

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,32}")
_DURATION = re.compile(
    r"(?:(?P<weeks>\d{1,9})w)?(?:(?P<days>\d{1,9})d)?"
    r"(?:(?P<hours>\d{1,9})h)?(?:(?P<minutes>\d{1,9})m)?(?:(?P<seconds>\d{1,9})s)?",
    re.ASCII,
)
_MOMENT = re.compile(
    r"\d{4}-\d\d-\d\d(?:[Tt ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:[Zz]|[+-]\d\d:\d\d)?)?", re.ASCII
)
_WALL_MINUTE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d", re.ASCII)
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_ISO_WEEK = re.compile(r"(\d{4})-W(\d\d)", re.ASCII)
_ISO_MONTH = re.compile(r"(\d{4})-(\d\d)", re.ASCII)
_TIME_OF_DAY = re.compile(r"\d\d:\d\d", re.ASCII)
_COUNT = re.compile(r"[1-9]\d{0,8}", re.ASCII)
_WHOLE_DAYS = re.compile(r"(?:\d+w)?(?:\d+d)?", re.ASCII)
_RELATIVE = re.compile(r"-[1-9]\d{0,8}", re.ASCII)
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


class RecurrenceError(ValueError):
    """A definition of windows that cannot be kept: which field of it, and why."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(field, message)
        self.field, self.message = field, message

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


class UnknownWindowId(ValueError):
    """An id that names no window of this recurrence."""


class WindowState(StrEnum):
    """Where a window is in its life."""

    SCHEDULED = "scheduled"
    """Not begun: it has no entries and takes none."""
    OPEN = "open"
    GRACE = "grace"
    """Its time is over: only scores that came before may still be approved, or retracted."""
    FROZEN = "frozen"
    """Its time is not over, but it takes no more scores: an operator froze it."""
    SEALED = "sealed"
    """Over: its entries change no more, but by a correction."""
    FINAL = "final"
    """Over, and settled."""


UNSEALED = (WindowState.GRACE, WindowState.FROZEN)
"""States of a window that counts no more scores and is not over."""


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of time in which scores count. ``None`` for a bound means there is none."""

    name: str
    id: str
    start: Instant | None
    end: Instant | None
    opens: Instant | None = field(default=None, kw_only=True, compare=False)
    """When it becomes the open one, if that is not its start: of a rolling window its last day."""

    @property
    def opening(self) -> Instant | None:
        """When it becomes the open window of its recurrence."""
        return self.start if self.opens is None else self.opens

    def contains(self, instant: Instant) -> bool:
        """Tell whether the instant lies in this window: at its start it does, at its end not."""
        return (self.start is None or self.start <= instant) and (
            self.end is None or instant < self.end
        )


@dataclass(frozen=True, slots=True)
class ListedWindow(Window):
    """A window of a board, with its state."""

    state: WindowState

    @property
    def opens_at(self) -> Instant | None:
        """When a scheduled window begins; None for any other."""
        return self.opening if self.state is WindowState.SCHEDULED else None


class _Turn(NamedTuple):
    """One turn of a recurrence: a window, then the pause that may follow it."""

    start: Instant | None  # None: there is nothing before.
    window: Window | None  # None: no window is open at any time of this turn.
    next: Instant | None  # None: there is nothing after.


@dataclass(frozen=True, slots=True)
class Recurrence(ABC):
    """The rule that produces a board's windows, one after another.

    A kind only answers which turn an instant lies in and where a named window would start; all
    stepping and naming is written once, here, in those terms. So a property of one instant also
    holds for ``next_after``, ``previous`` and ``window``.
    """

    name: str
    time_zone: str
    grace: timedelta = field(default=_NOTHING, kw_only=True)
    """How long a window waits after its end before it is sealed."""
    kind: ClassVar[str]
    rolls: ClassVar[bool] = False
    """Whether its windows overlap: then the one open at a time is that which ends first."""

    @staticmethod
    def parse(definition: str | Mapping[str, object], *, time_zone: str) -> "Recurrence":
        """Read a definition as boards carry it. Raises RecurrenceError."""
        return _parse(definition, time_zone)

    def definition(self) -> str | dict[str, str]:
        """Return the one spelling of this recurrence that ``parse`` reads back as its equal."""
        calendar = self._calendar()
        if not self.grace:
            return calendar
        fields = {"name": calendar} if isinstance(calendar, str) else calendar
        return {**fields, "grace": show_duration(self.grace)}

    @abstractmethod
    def _calendar(self) -> str | dict[str, str]:
        """Return the definition without the grace."""

    def has_windows_of(self, other: "Recurrence | None") -> bool:
        """Tell whether another recurrence has the same windows, though perhaps another grace."""
        return other is not None and replace(other, grace=self.grace) == self

    def sealed_at(self, window: Window) -> Instant | None:
        """Return when the grace of a window is over; None if the window never ends."""
        return None if window.end is None else window.end + self.grace // _MICROSECOND

    def window_at(self, instant: Instant) -> Window | None:
        """Return the window that contains the instant; None before, between and after windows."""
        window = self._turn_at(_supported(instant)).window
        return window if window is not None and window.contains(instant) else None

    def next_opening(self, instant: Instant) -> Window | None:
        """Return the first window that starts after the instant."""
        turn = self._turn_at(_supported(instant))
        while turn.next is not None and turn.next < _INSTANT_END:
            turn = self._turn_at(turn.next)
            if turn.window is not None:
                return turn.window
        return None

    def next_after(self, window: Window) -> Window | None:
        """Return the window that follows this one."""
        if window.end is None or window.end >= _INSTANT_END:
            return None
        return self.next_opening(window.end - 1)

    def previous(self, window: Window) -> Window | None:
        """Return the window before this one; None before the first, and before 1970."""
        return None if window.start is None else self._last_opened(before=window.start)

    def covering(self, instant: Instant) -> "tuple[Window, ...]":
        """Return the windows that contain the instant, that which ends first before the others."""
        window = self.window_at(instant)
        return () if window is None else (window,)

    def window(self, text: str) -> Window:
        """Return the window with this id, given with or without the name. Raises UnknownWindow."""
        try:
            start = self._start_named(text.removeprefix(f"{self.name}:"))
        except (ValueError, OverflowError):
            raise UnknownWindowId(f"that is not the id of a {self.name} window") from None
        # Whatever the text looks like, it is an id only if the window it leads to bears it.
        window = self._turn_at(max(start, _INSTANT_MIN)).window if start < _INSTANT_END else None
        if window is None or window.id not in (text, f"{self.name}:{text}"):
            raise UnknownWindowId(f"there is no {self.name} window with that id")
        return window

    def resolve(self, text: str, now: Instant) -> Window:
        """Return the window meant by ``daily``, ``daily:-1`` or ``daily:2026-11-14`` at ``now``."""
        name, colon, suffix = text.partition(":")
        if name != self.name:
            raise UnknownWindowId(f"that is not the id of a {self.name} window")
        if _RELATIVE.fullmatch(suffix):
            return self._steps_back(-int(suffix), now)
        return self.window(text) if colon else self._current(now)

    @abstractmethod
    def _turn_at(self, instant: Instant) -> _Turn:
        """Return the turn that the instant lies in."""

    @abstractmethod
    def _start_named(self, suffix: str) -> Instant:
        """Return where the window with this id would start, if there is one. Raises ValueError."""

    def _current(self, now: Instant) -> Window:
        window = self.window_at(now)
        if window is None:
            raise UnknownWindowId(f"no {self.name} window is open at this time")
        return window

    def _steps_back(self, steps: int, now: Instant) -> Window:
        if steps > RELATIVE_STEPS_MAX:
            raise UnknownWindowId(
                f"a relative id reaches back {RELATIVE_STEPS_MAX} windows at most"
            )
        window = self.window_at(now)
        if window is None:  # In a gap, the one before is the one that ended last.
            window, steps = self._last_opened(before=now), steps - 1
        while window is not None and steps > 0:
            window, steps = self.previous(window), steps - 1
        if window is None:
            raise UnknownWindowId(f"there are not so many {self.name} windows before this time")
        return window

    def _last_opened(self, *, before: Instant) -> Window | None:
        start: Instant | None = before
        while start is not None and start > _INSTANT_MIN:
            turn = self._turn_at(start - 1)
            if turn.window is not None:
                return turn.window
            start = turn.start
        return None


# --- windows that are named once --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Single(Recurrence):
    """A recurrence of one window, whose id is its name."""

    def _start_named(self, suffix: str) -> Instant:
        if suffix != self.name:
            raise ValueError
        return self._opens()

    def _current(self, now: Instant) -> Window:
        return self.window(self.name)  # The id is the name: it means this window at any time.

    @abstractmethod
    def _opens(self) -> Instant: ...


@dataclass(frozen=True, slots=True)
class _All(_Single):
    kind: ClassVar[str] = "all"

    def _calendar(self) -> str:
        return "all"

    def _turn_at(self, instant: Instant) -> _Turn:
        return _Turn(None, Window("all", "all", None, None), None)

    def _opens(self) -> Instant:
        return _INSTANT_MIN


@dataclass(frozen=True, slots=True)
class _Once(_Single):
    start: Instant
    end: Instant
    kind: ClassVar[str] = "once"

    def _calendar(self) -> dict[str, str]:
        return {"name": self.name, "start": show_instant(self.start), "end": show_instant(self.end)}

    def _turn_at(self, instant: Instant) -> _Turn:
        if instant < self.start:
            return _Turn(None, None, self.start)
        return _Turn(self.start, Window(self.name, self.name, self.start, self.end), None)

    def _opens(self) -> Instant:
        return self.start


# --- windows that follow the local clock ------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _OnTheClock(Recurrence):
    """A recurrence whose windows start when the local clock reaches a *mark*, a wall time.

    The marks of a recurrence are fixed and increasing; the rule at the top of this file turns
    them into instants. A mark that shares its instant with the next one gets no window.
    """

    @abstractmethod
    def _mark_reached(self, wall: datetime) -> datetime:
        """Return the last mark no later than ``wall``."""

    @abstractmethod
    def _next_mark(self, mark: datetime) -> datetime:
        """Return the mark after ``mark``."""

    @abstractmethod
    def _mark_named(self, suffix: str) -> datetime:
        """Return the mark of the window with this id. Raises ValueError."""

    @abstractmethod
    def _suffix(self, mark: datetime) -> str:
        """Return the part after the name in the id of the window that starts at ``mark``."""

    def _turn_at(self, instant: Instant) -> _Turn:
        mark, start, end = self._between_marks(instant)
        return _Turn(start, Window(self.name, f"{self.name}:{self._suffix(mark)}", start, end), end)

    def _start_named(self, suffix: str) -> Instant:
        return _instant_of(self._mark_named(suffix), self.time_zone)

    def _between_marks(self, instant: Instant) -> tuple[datetime, Instant, Instant]:
        """Return the mark in force at the instant, where it began and where the next one begins."""
        mark = self._mark_reached(_wall_at(instant, self.time_zone))
        start = _instant_of(mark, self.time_zone)
        while True:
            following = self._next_mark(mark)
            end = _instant_of(following, self.time_zone)
            if instant < end:
                return mark, start, end
            # The clock has been past this mark already, and was set back since.
            mark, start = following, end


@dataclass(frozen=True, slots=True)
class _Calendar(_OnTheClock):
    """Days, weeks and months, which begin on their first day at this time of day."""

    at: time

    def _calendar(self) -> str | dict[str, str]:
        options = self._options()
        return {"name": self.name, **options} if options else self.name

    def _options(self) -> dict[str, str]:
        return {"at": f"{self.at:%H:%M}"} if self.at != _MIDNIGHT else {}

    def _mark_reached(self, wall: datetime) -> datetime:
        mark = self._mark(self._first_day(wall.date()))
        return mark if mark <= wall else self._mark(self._first_day(wall.date() - _DAY))

    def _next_mark(self, mark: datetime) -> datetime:
        return self._mark(self._next_first_day(mark.date()))

    def _mark(self, first_day: date) -> datetime:
        return datetime.combine(first_day, self.at)

    @abstractmethod
    def _first_day(self, day: date) -> date: ...

    @abstractmethod
    def _next_first_day(self, first_day: date) -> date: ...


@dataclass(frozen=True, slots=True)
class _Daily(_Calendar):
    kind: ClassVar[str] = "daily"

    def _first_day(self, day: date) -> date:
        return day

    def _next_first_day(self, first_day: date) -> date:
        return first_day + _DAY

    def _suffix(self, mark: datetime) -> str:
        return mark.date().isoformat()

    def _mark_named(self, suffix: str) -> datetime:
        return self._mark(date.fromisoformat(_match(_ISO_DATE, suffix)[0]))


@dataclass(frozen=True, slots=True)
class _Rolling(_Daily):
    """So many whole days, today included: each day has a window, named by it, that ends with it."""

    days: int
    kind: ClassVar[str] = "rolling"
    rolls: ClassVar[bool] = True

    def _calendar(self) -> dict[str, str]:
        return {"name": self.name, "rolling": f"{self.days}d"}

    def _turn_at(self, instant: Instant) -> _Turn:
        mark, opens, end = self._between_marks(instant)
        start = _instant_of(mark - (self.days - 1) * _DAY, self.time_zone)
        id = f"{self.name}:{self._suffix(mark)}"
        window = Window(self.name, id, max(start, _INSTANT_MIN), end, opens=opens)
        return _Turn(opens, window, end)

    def previous(self, window: Window) -> Window | None:
        """Return the window of the day before."""
        return None if window.end is None else self._last_opened(before=self._opens(window.end))

    def covering(self, instant: Instant) -> tuple[Window, ...]:
        """Return the windows of the instant's day and of the days after it, one for each day."""
        return _covering(self, self._turn_at(_supported(instant)).start)

    def _opens(self, end: Instant) -> Instant:
        start = self._turn_at(end - 1).start
        assert start is not None, "there was a day before"
        return start


@lru_cache(maxsize=1024)
def _covering(rolling: _Rolling, day: Instant) -> tuple[Window, ...]:
    """Return the windows that contain a day, which begins then. Days may be skipped by clocks."""
    found: list[Window] = []
    at: Instant | None = day
    while at is not None and at < _INSTANT_END:
        turn = rolling._turn_at(at)
        if turn.window is None or (turn.window.start or 0) > day:
            break
        found.append(turn.window)
        at = turn.next
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Weekly(_Calendar):
    """Weeks, named by the ISO year and week in which most of their days lie.

    For weeks that start on Monday that is the ISO week itself.
    """

    first_weekday: int  # Monday is 0.
    kind: ClassVar[str] = "weekly"

    def _options(self) -> dict[str, str]:
        starts = {"week_starts": _WEEKDAYS[self.first_weekday]} if self.first_weekday else {}
        return {**_Calendar._options(self), **starts}

    def _first_day(self, day: date) -> date:
        return day - timedelta(days=(day.weekday() - self.first_weekday) % 7)

    def _next_first_day(self, first_day: date) -> date:
        return first_day + _WEEK

    def _suffix(self, mark: datetime) -> str:
        # The ISO year, not the calendar's: they differ on 171 days of this century.
        year, week, _ = (mark.date() + timedelta(days=3)).isocalendar()
        return f"{year}-W{week:02}"

    def _mark_named(self, suffix: str) -> datetime:
        year, week = _match(_ISO_WEEK, suffix).groups()
        # The week with most of its days in an ISO week is the one that holds its Thursday.
        return self._mark(self._first_day(date.fromisocalendar(int(year), int(week), 4)))


@dataclass(frozen=True, slots=True)
class _Monthly(_Calendar):
    kind: ClassVar[str] = "monthly"

    def _first_day(self, day: date) -> date:
        return day.replace(day=1)

    def _next_first_day(self, first_day: date) -> date:
        return (first_day + timedelta(days=31)).replace(day=1)

    def _suffix(self, mark: datetime) -> str:
        return f"{mark.year}-{mark.month:02}"

    def _mark_named(self, suffix: str) -> datetime:
        year, month = _match(_ISO_MONTH, suffix).groups()
        return self._mark(date(int(year), int(month), 1))


@dataclass(frozen=True, slots=True)
class _Cron(_OnTheClock):
    """From one firing to the next, named by the wall time at which the first is due."""

    cron: str
    kind: ClassVar[str] = "cron"

    def _calendar(self) -> dict[str, str]:
        return {"name": self.name, "cron": self.cron}

    def _mark_reached(self, wall: datetime) -> datetime:
        return parse_cron(self.cron).at_or_before(wall)

    def _next_mark(self, mark: datetime) -> datetime:
        return parse_cron(self.cron).after(mark)

    def _suffix(self, mark: datetime) -> str:
        return mark.isoformat(timespec="minutes")

    def _mark_named(self, suffix: str) -> datetime:
        return datetime.fromisoformat(_match(_WALL_MINUTE, suffix)[0])


# --- windows of a given length, counted from a start ------------------------------------------


@dataclass(frozen=True, slots=True)
class _EveryDays(_OnTheClock):
    """So many days or weeks: the windows keep their local time across daylight saving."""

    start: Instant
    every: timedelta
    gap: timedelta
    kind: ClassVar[str] = "every"

    def _calendar(self) -> dict[str, str]:
        return _counted(self.name, self.start, show_duration(self.every), show_duration(self.gap))

    def _turn_at(self, instant: Instant) -> _Turn:
        if instant < self.start:
            return _Turn(None, None, self.start)
        mark, start, following = self._between_marks(instant)
        # A start in an hour that the clock shows twice may be its second showing.
        start = max(start, self.start)
        end = _instant_of(mark + self.every, self.time_zone)
        window = Window(self.name, f"{self.name}:{self._suffix(mark)}", start, end)
        return _Turn(start, window if start < end else None, following)

    def _start_named(self, suffix: str) -> Instant:
        return max(self.start, _instant_of(self._mark_named(suffix), self.time_zone))

    def _mark_reached(self, wall: datetime) -> datetime:
        first = self._first_mark()
        return first + (wall - first) // self._period() * self._period()

    def _next_mark(self, mark: datetime) -> datetime:
        return mark + self._period()

    def _suffix(self, mark: datetime) -> str:
        return str((mark - self._first_mark()) // self._period() + 1)

    def _mark_named(self, suffix: str) -> datetime:
        return self._first_mark() + (int(_match(_COUNT, suffix)[0]) - 1) * self._period()

    def _first_mark(self) -> datetime:
        return _wall_at(self.start, self.time_zone)

    def _period(self) -> timedelta:
        return self.every + self.gap


@dataclass(frozen=True, slots=True)
class _EveryHours(Recurrence):
    """So many hours, minutes or seconds: of exact length, independent of local clocks."""

    start: Instant
    every: timedelta
    gap: timedelta
    kind: ClassVar[str] = "every"

    def _calendar(self) -> dict[str, str]:
        return _counted(
            self.name,
            self.start,
            show_duration(self.every, days=False),
            show_duration(self.gap, days=False),
        )

    def _turn_at(self, instant: Instant) -> _Turn:
        if instant < self.start:
            return _Turn(None, None, self.start)
        every, gap = self.every // _MICROSECOND, self.gap // _MICROSECOND
        turns = (instant - self.start) // (every + gap)
        start = self.start + turns * (every + gap)
        end = start + every
        return _Turn(start, Window(self.name, f"{self.name}:{turns + 1}", start, end), end + gap)

    def _start_named(self, suffix: str) -> Instant:
        turns = int(_match(_COUNT, suffix)[0]) - 1
        return self.start + turns * ((self.every + self.gap) // _MICROSECOND)


def _counted(name: str, start: Instant, every: str, gap: str) -> dict[str, str]:
    pause = {} if gap == _NO_TIME else {"gap": gap}
    return {"name": name, "every": every, **pause, "start": show_instant(start)}


# --- zones ------------------------------------------------------------------------------------


def valid_time_zone(name: str) -> bool:
    """Tell whether this is the name of an IANA time zone, aliases included."""
    return name in _zone_names()


@lru_cache(maxsize=1)
def _zone_names() -> frozenset[str]:
    return frozenset((resources.files("tzdata") / "zones").read_text("ascii").split())


@lru_cache(maxsize=1024)
def _zone(name: str) -> ZoneInfo:
    assert valid_time_zone(name), name
    with resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


def _wall_at(instant: Instant, zone: str) -> datetime:
    """Return the local time in the zone, to the second: no mark is finer."""
    shown = datetime.fromtimestamp(instant // _SECOND, _zone(zone))
    # Adding nothing drops the ``fold``, and is twice as fast as ``replace``.
    return datetime.combine(shown.date(), shown.time()) + _NOTHING


@lru_cache(maxsize=4096)
def _instant_of(wall: datetime, zone: str) -> Instant:
    """Return the first instant at which a clock in the zone shows ``wall`` or anything later."""
    # For a time shown twice this is the offset of the first showing; for one that is skipped, the
    # offset before the jump (PEP 495), and then the instant it leads to lies after the jump.
    offset = _offset(wall, _zone(zone))
    instant = (wall - _UNIX_EPOCH - offset) // _MICROSECOND
    offset_then = _offset(datetime.fromtimestamp(instant // _SECOND, _zone(zone)), _zone(zone))
    if offset_then == offset:
        return instant
    return _jump_between(instant - (offset_then - offset) // _MICROSECOND, instant, wall, zone)


def _offset(wall: datetime, zone: ZoneInfo) -> timedelta:
    offset = zone.utcoffset(wall)
    assert offset is not None, wall
    return offset


def _jump_between(low: Instant, high: Instant, wall: datetime, zone: str) -> Instant:
    """Return the instant in (low, high] at which the clock jumps from before ``wall`` past it."""
    while high - low > _SECOND:
        middle = (low + high) // 2 // _SECOND * _SECOND
        if _wall_at(middle, zone) < wall:
            low = middle
        else:
            high = middle
    return high


def _supported(instant: Instant) -> Instant:
    if not _INSTANT_MIN <= instant < _INSTANT_END:
        raise ValueError("an instant must lie between the years 1970 and 9000")
    return instant


def show_instant(instant: Instant) -> str:
    """Return the instant as RFC 3339 text in UTC."""
    return f"{(_UNIX_EPOCH + timedelta(microseconds=instant)).isoformat()}Z"


def show_local(instant: Instant, time_zone: str) -> str:
    """Return the instant as RFC 3339 text by the clocks of a zone."""
    moment = datetime.fromtimestamp(instant // _SECOND, _zone(time_zone))
    return moment.replace(microsecond=instant % _SECOND).isoformat()


def parse_instant(value: object, time_zone: str) -> Instant:
    """Read a time with an offset, or without one as local time of a zone. Raises ValueError."""
    try:
        return _WindowFields({"time": value}, time_zone).instant("time")
    except RecurrenceError as exc:
        raise ValueError(exc.message) from None


# --- durations --------------------------------------------------------------------------------

_NO_TIME = "0s"


def parse_duration(text: str) -> timedelta:
    """Read a duration such as ``30d``, ``4w``, ``12h`` or ``1w2d``. Raises ValueError."""
    match = _DURATION.fullmatch(text)
    parts = match.groupdict() if match else {}
    counts = {unit: int(count) for unit, count in parts.items() if count}
    if not counts:
        raise ValueError("must be a duration such as 4w, 30d, 12h, 90m, 45s or 1d12h")
    if 0 in counts.values():
        raise ValueError("must not count zero of a unit: leave that unit out")
    try:
        duration = timedelta(**counts)
    except OverflowError:
        duration = timedelta.max
    if duration > DURATION_MAX:
        raise ValueError(f"must be at most {DURATION_MAX.days} days")
    return duration


def show_duration(duration: timedelta, *, days: bool = True) -> str:
    """Return the text that ``parse_duration`` reads as this duration, in whole seconds.

    Weeks are used for whole weeks only. Without ``days`` the largest unit is the hour.
    """
    if days and duration and not duration % _WEEK:
        return f"{duration // _WEEK}w"
    minutes, seconds = divmod(duration // timedelta(seconds=1), 60)
    hours, minutes = divmod(minutes, 60)
    whole_days, hours = divmod(hours, 24) if days else (0, hours)
    counts = {"d": whole_days, "h": hours, "m": minutes, "s": seconds}
    return "".join(f"{count}{unit}" for unit, count in counts.items() if count) or _NO_TIME


# --- reading definitions ----------------------------------------------------------------------


class _WindowFields:
    """A definition being read: hands out its fields, and refuses unknown ones."""

    def __init__(self, fields: Mapping[str, object], time_zone: str) -> None:
        self._fields = fields
        self.time_zone = time_zone

    def __contains__(self, field: str) -> bool:
        return field in self._fields

    def allow(self, *known: str) -> None:
        for given in self._fields:
            if given not in known:
                shown = given if _NAME.fullmatch(str(given)) else ""
                raise RecurrenceError(shown, f"unknown field; known here: {', '.join(known)}")

    def text(self, field: str) -> str:
        if field not in self._fields:
            raise RecurrenceError(field, "is required")
        value = self._fields[field]
        if not isinstance(value, str):
            raise RecurrenceError(field, "must be text")
        return value

    def name(self) -> str:
        name = self.text("name")
        if not _NAME.fullmatch(name):
            raise RecurrenceError("name", "must be 1 to 32 letters, digits, '_', '.' or '-'")
        return name

    def time_of_day(self, field: str) -> time:
        if field not in self:
            return _MIDNIGHT
        text = self.text(field)
        try:
            return time.fromisoformat(_match(_TIME_OF_DAY, text)[0])
        except ValueError:
            raise RecurrenceError(field, "must be a time of day such as 05:00") from None

    def weekday(self, field: str) -> int:
        text = self.text(field).lower() if field in self else _WEEKDAYS[0]
        if text not in _WEEKDAYS:
            raise RecurrenceError(field, f"must be one of {', '.join(_WEEKDAYS)}")
        return _WEEKDAYS.index(text)

    def duration(self, field: str) -> timedelta:
        text = self.text(field)
        try:
            return parse_duration(text)
        except ValueError as exc:
            raise RecurrenceError(field, str(exc)) from None

    def grace(self) -> timedelta:
        """Take the grace out of the definition; the other fields are those of a kind."""
        if "grace" not in self or self._fields.get("name") == "all":
            return _NOTHING
        grace = self.duration("grace")
        if grace > GRACE_MAX:
            raise RecurrenceError("grace", f"must be {show_duration(GRACE_MAX)} at most")
        self._fields = {name: self._fields[name] for name in self._fields if name != "grace"}
        return grace

    def instant(self, field: str) -> Instant:
        """Read a time with an offset, or without one as local time in the board's zone."""
        value = self._fields.get(field)
        # Python programs and TOML files have types for this; JSON has text.
        text = value.isoformat() if isinstance(value, date) else self.text(field)
        try:
            moment = datetime.fromisoformat(_match(_MOMENT, text.upper())[0])
        except ValueError:
            raise RecurrenceError(
                field, "must be a time such as 2026-11-02T00:00:00Z, or local without the Z"
            ) from None
        # The years first: further out there are no offsets to ask for.
        instant = self._instant_at(field, moment) if 1970 <= moment.year <= 9000 else -1
        if not _INSTANT_MIN <= instant < _INSTANT_END:
            raise RecurrenceError(field, "must lie between the years 1970 and 9000")
        return instant

    def _instant_at(self, field: str, moment: datetime) -> Instant:
        if moment.tzinfo is not None:
            wall = moment.astimezone(UTC).replace(tzinfo=None)
            return (wall - _UNIX_EPOCH) // _MICROSECOND
        instant = _instant_of(moment, self.time_zone)
        if _wall_at(instant, self.time_zone) != moment.replace(microsecond=0):
            raise RecurrenceError(field, f"the clocks of {self.time_zone} skip that time")
        return instant


def _parse(definition: str | Mapping[str, object], time_zone: str) -> Recurrence:
    if not valid_time_zone(time_zone):
        raise RecurrenceError("", "the time zone must be an IANA name such as Europe/Berlin")
    if isinstance(definition, str):
        if definition not in _RESERVED:
            known = ", ".join(_RESERVED)
            raise RecurrenceError("", f"must be one of {known}, or an object such as {_EXAMPLE}")
        definition = {"name": definition}
    elif not isinstance(definition, Mapping):
        raise RecurrenceError("", "must be text or an object")
    fields = _WindowFields(definition, time_zone)
    grace = fields.grace()
    reader = _RESERVED.get(fields.name()) or _reader_for(fields)
    return replace(reader(fields), grace=grace)


def _reader_for(fields: _WindowFields) -> Callable[[_WindowFields], Recurrence]:
    """Return the reader of a recurrence with a name of its own, told by a field only it has."""
    for telling, reader in _TOLD_BY.items():
        if telling in fields:
            return reader
    message = "must say 'every' and 'start', 'start' and 'end', 'cron', or 'rolling'"
    raise RecurrenceError("", message)


def _read_all(fields: _WindowFields) -> Recurrence:
    fields.allow("name")
    return _All("all", fields.time_zone)


def _read_daily(fields: _WindowFields) -> Recurrence:
    fields.allow("name", "at")
    return _Daily("daily", fields.time_zone, fields.time_of_day("at"))


def _read_weekly(fields: _WindowFields) -> Recurrence:
    fields.allow("name", "at", "week_starts")
    at, first_weekday = fields.time_of_day("at"), fields.weekday("week_starts")
    return _Weekly("weekly", fields.time_zone, at, first_weekday)


def _read_monthly(fields: _WindowFields) -> Recurrence:
    fields.allow("name", "at")
    return _Monthly("monthly", fields.time_zone, fields.time_of_day("at"))


def _read_once(fields: _WindowFields) -> Recurrence:
    fields.allow("name", "start", "end")
    start, end = fields.instant("start"), fields.instant("end")
    if end <= start:
        raise RecurrenceError("end", "must be later than the start")
    return _Once(fields.name(), fields.time_zone, start, end)


def _read_every(fields: _WindowFields) -> Recurrence:
    fields.allow("name", "every", "gap", "start")
    start, every = fields.instant("start"), fields.duration("every")
    gap = fields.duration("gap") if "gap" in fields else _NOTHING
    if start % _SECOND:
        raise RecurrenceError("start", "must be a whole second")
    units = fields.text("every") + (fields.text("gap") if gap else "")
    kind = _EveryDays if "d" in units or "w" in units else _EveryHours
    return kind(fields.name(), fields.time_zone, start, every, gap)


def _read_rolling(fields: _WindowFields) -> Recurrence:
    fields.allow("name", "rolling")
    name, length = fields.name(), fields.duration("rolling")
    if not _WHOLE_DAYS.fullmatch(fields.text("rolling")) or length.days > ROLLING_DAYS_MAX:
        message = f"must be 1 to {ROLLING_DAYS_MAX} whole days, such as 7d or 4w"
        raise RecurrenceError("rolling", message)
    return _Rolling(name, fields.time_zone, _MIDNIGHT, length.days)


def _read_cron(fields: _WindowFields) -> Recurrence:
    fields.allow("name", "cron")
    cron = canonical_cron(fields.text("cron"))
    try:
        parse_cron(cron)
    except ValueError as exc:
        raise RecurrenceError("cron", str(exc)) from None
    return _Cron(fields.name(), fields.time_zone, cron)


_EXAMPLE = '{"name": "hour", "cron": "0 * * * *"}'
_TOLD_BY: dict[str, Callable[[_WindowFields], Recurrence]] = {
    "cron": _read_cron,
    "every": _read_every,
    "rolling": _read_rolling,
    "end": _read_once,
}
_RESERVED: dict[str, Callable[[_WindowFields], Recurrence]] = {
    "all": _read_all,
    "daily": _read_daily,
    "weekly": _read_weekly,
    "monthly": _read_monthly,
}


def _match(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    match = pattern.fullmatch(text)
    if match is None:
        raise ValueError(f"must look like {pattern.pattern}")
    return match

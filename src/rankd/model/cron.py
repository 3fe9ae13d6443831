"""Cron expressions, read on a clock without a time zone.

A cron window runs from one firing to the next, so its board must be able to step forwards and
backwards through the firings and always meet the same ones. Here that is plain arithmetic on
wall times, where every day has 24 hours; window.py alone decides which instant a wall time is.

Five fields, as Vixie cron reads them: minute, hour, day of month, month, day of week. Each is
``*``, a number, a range ``a-b``, either of ``*`` and a range with a step ``/n``, or a list of
those; months and weekdays may be named (``JAN``, ``MON``), 7 is Sunday like 0, and ``L`` is the
last day of the month. When both day fields are restricted a day that satisfies *either* fires; a
field that begins with ``*`` restricts nothing for this purpose, so ``*/2`` narrows the other.
"""

from bisect import bisect_right
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache

_ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_MONTH_DAYS_MAX = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_MONTH_LAST = "L"
_ONE_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class _Field:
    """The accepted values of one of the five fields."""

    title: str
    low: int
    high: int
    names: tuple[str, ...] = ()
    """Names for the values from ``low`` upwards."""


_MINUTE = _Field("minute", 0, 59)
_HOUR = _Field("hour", 0, 23)
_DAY = _Field("day of month", 1, 31)
_MONTH = _Field("month", 1, 12, _MONTHS)
_WEEKDAY = _Field("day of week", 0, 7, _WEEKDAYS)


@dataclass(frozen=True, slots=True)
class Cron:
    """A set of wall times: some minutes of the day, on some days."""

    minutes_of_day: tuple[int, ...]
    """Increasing, counted from midnight; never empty."""
    days: frozenset[int]
    last_day: bool
    """Whether the last day of the month fires, 28 to 31."""
    months: frozenset[int]
    weekdays: frozenset[int]
    """As ``date.isoweekday()``: Monday is 1, Sunday is 7."""
    either: bool
    """Whether one of the two day fields is enough."""

    def after(self, wall: datetime) -> datetime:
        """Return the first firing later than ``wall``."""
        if self._fires_on(wall.date()):
            later = bisect_right(self.minutes_of_day, _minute_of_day(wall))
            if later < len(self.minutes_of_day):
                return _wall_time(wall.date(), self.minutes_of_day[later])
        return _wall_time(self._next_day(wall.date()), self.minutes_of_day[0])

    def at_or_before(self, wall: datetime) -> datetime:
        """Return the last firing no later than ``wall``."""
        if self._fires_on(wall.date()):
            reached = bisect_right(self.minutes_of_day, _minute_of_day(wall))
            if reached > 0:
                return _wall_time(wall.date(), self.minutes_of_day[reached - 1])
        return _wall_time(self._previous_day(wall.date()), self.minutes_of_day[-1])

    def _fires_on(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        in_month = day.day in self.days or (self.last_day and (day + _ONE_DAY).day == 1)
        in_week = day.isoweekday() in self.weekdays
        return (in_month or in_week) if self.either else (in_month and in_week)

    # Both searches end: a cron that never fires was refused, and the rarest one that fires, the
    # 29th of February on one weekday, comes back within 40 years.

    def _next_day(self, day: date) -> date:
        while True:
            day += _ONE_DAY
            while day.month not in self.months:
                day = _first_of_next_month(day)
            if self._fires_on(day):
                return day

    def _previous_day(self, day: date) -> date:
        while True:
            day -= _ONE_DAY
            while day.month not in self.months:
                day = day.replace(day=1) - _ONE_DAY
            if self._fires_on(day):
                return day


def canonical_cron(text: str) -> str:
    """Return the five fields in one spelling: aliases written out, names in capitals."""
    words = text.split()
    if len(words) == 1 and words[0].lower() in _ALIASES:
        return _ALIASES[words[0].lower()]
    return " ".join(words).upper()


@lru_cache(maxsize=256)
def parse_cron(text: str) -> Cron:
    """Read an expression. Raises ValueError for a wrong field, and if it can never fire."""
    fields = canonical_cron(text).split()
    if len(fields) != 5:
        raise ValueError("must have five fields: minute, hour, day of month, month, day of week")
    minute, hour, day, month, weekday = fields
    minutes, hours = _values(minute, _MINUTE), _values(hour, _HOUR)
    days, last_day = _days(day)
    cron = Cron(
        minutes_of_day=tuple(60 * h + m for h in sorted(hours) for m in sorted(minutes)),
        days=days,
        last_day=last_day,
        months=_values(month, _MONTH),
        weekdays=frozenset(value or 7 for value in _values(weekday, _WEEKDAY)),
        either=not day.startswith("*") and not weekday.startswith("*"),
    )
    if not _ever_fires(cron):
        raise ValueError("never fires: none of its months has such a day")
    return cron


def _days(text: str) -> tuple[frozenset[int], bool]:
    """Return the days of the month, and whether the last one is meant too."""
    items = text.split(",")
    numbered = [item for item in items if item != _MONTH_LAST]
    days = _values(",".join(numbered), _DAY) if numbered else frozenset[int]()
    return days, len(numbered) < len(items)


def _values(text: str, field: _Field) -> frozenset[int]:
    return frozenset(value for item in text.split(",") for value in _item(item, field))


def _item(text: str, field: _Field) -> range:
    """Return the values of one item of a list: ``*``, ``a``, ``a-b``, ``*/n`` or ``a-b/n``."""
    span, slash, step = text.partition("/")
    first, dash, last = span.partition("-")
    if span == "*":
        low, high = field.low, field.high
    else:
        low = _number(first, field)
        high = _number(last, field) if dash else low
    if low > high:
        raise ValueError(f"{field.title}: a range must not end before it starts")
    if not slash:
        return range(low, high + 1)
    if span != "*" and not dash:
        raise ValueError(f"{field.title}: a step needs a range, such as */5 or 10-50/5")
    if not (_is_number(step) and int(step) > 0):
        raise ValueError(f"{field.title}: a step must be a whole number above 0")
    return range(low, high + 1, int(step))


def _number(text: str, field: _Field) -> int:
    if text in field.names:
        return field.low + field.names.index(text)
    if _is_number(text) and field.low <= int(text) <= field.high:
        return int(text)
    names = f", or {field.names[0]} to {field.names[-1]}" if field.names else ""
    raise ValueError(f"{field.title}: must be {field.low} to {field.high}{names}")


def _is_number(text: str) -> bool:
    # Two digits are enough for every field, and keep int() away from long or foreign digits.
    return len(text) <= 2 and text.isascii() and text.isdigit()


def _ever_fires(cron: Cron) -> bool:
    if cron.either or cron.last_day:
        return True
    return any(min(cron.days) <= _MONTH_DAYS_MAX[month - 1] for month in cron.months)


def _minute_of_day(wall: datetime) -> int:
    return 60 * wall.hour + wall.minute


def _wall_time(day: date, minute_of_day: int) -> datetime:
    return datetime(day.year, day.month, day.day, *divmod(minute_of_day, 60))  # noqa: DTZ001 - wall


def _first_of_next_month(day: date) -> date:
    return (day.replace(day=28) + timedelta(days=4)).replace(day=1)

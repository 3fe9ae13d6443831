"""Every instant lies in exactly one window of each kind, in every time zone.

Three views of one promise. Random instants in random zones, compared with what a clock on the
wall shows. The clocks known for trouble, walked window by window against the judge of
``calendar_campaign``, which also walks all zones as a command. And the judge itself: with
mistakes planted that others have made, it must find each of them.
"""

from datetime import UTC, date, datetime, timedelta
from functools import cache
from importlib import resources
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property import calendar_campaign as campaign
from tests.property.calendar_campaign import CASES, Case, Clock, check, seconds

from rankd.model import window as window_module
from rankd.model.window import Instant, Recurrence, Window

FIRST = seconds(2000) * campaign.MICROSECONDS
LAST = seconds(2101) * campaign.MICROSECONDS
ZONES = campaign.zone_names()
# Zones times kinds are many, and an example is quick.
EXAMPLES = max(1_500, settings().max_examples)
CASES_BY_TITLE = {case.title: case for case in CASES}

# Clocks known for trouble, and years in which they made it.
TROUBLE = [
    ("Africa/Cairo", 2023),  # forward at midnight
    ("Africa/Casablanca", 2025),  # set around Ramadan
    ("America/Havana", 2019),  # midnight comes twice
    ("America/Nuuk", 2023),  # changed its offset for good in the hour of daylight saving
    ("America/Sao_Paulo", 2017),  # no midnight, or back into the day before
    ("America/St_Johns", 2010),  # at one minute past midnight, back into the day before
    ("Antarctica/Troll", 2026),  # two hours at once
    ("Asia/Gaza", 2011),  # set several times a year
    ("Asia/Tehran", 2021),  # half an hour from its neighbours, forward at midnight
    ("Australia/Lord_Howe", 2026),  # half an hour at once
    ("Europe/Berlin", 2026),
    ("Pacific/Apia", 2011),  # a day skipped
    ("Pacific/Chatham", 2026),  # three quarters of an hour from its neighbours
]


@cache
def zone_of(name: str) -> ZoneInfo:
    """Return the zone as published with the engine, whatever this machine has."""
    path = resources.files("tzdata").joinpath("zoneinfo", *name.split("/"))
    with path.open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


@pytest.fixture(autouse=True)
def _same_edition(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the judge read the engine's edition of the zones."""
    monkeypatch.setattr("zoneinfo.ZoneInfo", zone_of)


def shown(instant: Instant, zone: str) -> datetime:
    return datetime.fromtimestamp(instant // campaign.MICROSECONDS, zone_of(zone))


def bounds(window: Window) -> tuple[Instant, Instant]:
    assert window.start is not None
    assert window.end is not None
    return window.start, window.end


@given(
    zone=st.sampled_from(ZONES),
    case=st.sampled_from(CASES),
    instant=st.integers(FIRST + 40 * 86_400 * campaign.MICROSECONDS, LAST - 1),
)
@settings(max_examples=EXAMPLES)
def test_an_instant_lies_in_one_window_between_its_neighbours(
    zone: str, case: Case, instant: Instant
) -> None:
    recurrence = Recurrence.parse(case.definition, time_zone=zone)
    following = recurrence.next_opening(instant)
    assert following is not None
    window = recurrence.window_at(instant) or recurrence.previous(following)
    assert window is not None
    start, end = bounds(window)
    assert start <= instant < bounds(following)[0]
    assert end <= bounds(following)[0]
    assert recurrence.window_at(instant) == (window if instant < end else None)
    assert recurrence.next_after(window) == following
    assert recurrence.previous(following) == window
    assert recurrence.window(window.id) == window == recurrence.resolve(window.id, instant)
    assert recurrence.window_at(start) == window == recurrence.window_at(end - 1)


@given(zone=st.sampled_from(ZONES), instant=st.integers(FIRST, LAST - 1))
@settings(max_examples=EXAMPLES)
def test_a_day_a_week_and_a_month_are_those_the_clock_shows(zone: str, instant: Instant) -> None:
    clock = shown(instant, zone)
    if clock.fold:
        return  # What a clock shows again says nothing; the judge knows.
    for name, pattern in (("daily", "%Y-%m-%d"), ("weekly", "%G-W%V"), ("monthly", "%Y-%m")):
        window = Recurrence.parse(name, time_zone=zone).window_at(instant)
        assert window is not None
        assert window.id == f"{name}:{clock:{pattern}}"


@pytest.mark.parametrize(("zone", "year"), TROUBLE, ids=[zone for zone, _ in TROUBLE])
def test_troublesome_clocks(zone: str, year: int) -> None:
    clock = Clock.of(zone)
    for case in CASES:
        tally = check(case, zone, clock, first=seconds(year), last=seconds(year + 2))
        assert tally.differences == []
        assert tally.windows > 0


# --- mistakes planted, each of which the judge must find --------------------------------------


def differences(title: str, zone: str, year: int) -> list[str]:
    tally = check(
        CASES_BY_TITLE[title], zone, Clock.of(zone), first=seconds(year), last=seconds(year + 2)
    )
    return tally.differences


def test_finds_the_calendar_year_on_an_iso_week(monkeypatch: pytest.MonkeyPatch) -> None:
    def with_calendar_year(self: object, mark: datetime) -> str:
        return f"{mark.year}-W{mark.isocalendar().week:02}"

    assert differences("weekly", "UTC", 2024) == []
    monkeypatch.setattr(window_module._Weekly, "_suffix", with_calendar_year)
    assert differences("weekly", "UTC", 2024) != []


def test_finds_a_midnight_that_is_taken_to_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    def naive(wall: datetime, zone: str) -> Instant:
        return int(wall.replace(tzinfo=zone_of(zone)).timestamp()) * campaign.MICROSECONDS

    monkeypatch.setattr(window_module, "_instant_of", naive)
    assert differences("daily at 02:30", "Europe/Berlin", 2026) != []
    assert differences("daily", "Europe/Berlin", 2026) == []


def test_finds_a_second_midnight(monkeypatch: pytest.MonkeyPatch) -> None:
    def second_showing(wall: datetime, zone: str) -> Instant:
        late = wall.replace(tzinfo=zone_of(zone), fold=1)
        return int(late.timestamp()) * campaign.MICROSECONDS

    monkeypatch.setattr(window_module, "_instant_of", second_showing)
    assert differences("daily", "America/Havana", 2019) != []


def test_finds_days_cut_by_what_the_clock_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if yesterday were open again when the clock is set back into it."""

    def as_shown(self: Recurrence, instant: Instant) -> Window:
        day = shown(instant, self.time_zone).date()
        start, end = (midnight(day + timedelta(days=more), self.time_zone) for more in (0, 1))
        return Window("daily", f"daily:{day}", start, end)

    def midnight(day: date, zone: str) -> Instant:
        first = datetime(day.year, day.month, day.day, tzinfo=zone_of(zone))
        return int(first.astimezone(UTC).timestamp()) * campaign.MICROSECONDS

    monkeypatch.setattr(window_module._Daily, "window_at", as_shown)
    assert differences("daily", "America/St_Johns", 2010) != []


def test_finds_a_window_for_a_day_that_was_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    def stays_open(
        self: window_module._OnTheClock, instant: Instant
    ) -> tuple[datetime, Instant, Instant]:
        mark = self._mark_reached(window_module._wall_at(instant, self.time_zone))
        following = mark + timedelta(days=1)
        start, end = (window_module._instant_of(at, self.time_zone) for at in (mark, following))
        return mark - timedelta(days=start == end), start, end

    monkeypatch.setattr(window_module._Daily, "_between_marks", stays_open)
    monkeypatch.setattr(
        window_module._Daily, "_suffix", lambda _, mark: f"{mark - timedelta(1):%F}"
    )
    assert differences("daily", "Pacific/Apia", 2011) != []


def test_finds_seasons_that_drift_with_daylight_saving(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_module, "_EveryDays", window_module._EveryHours)
    assert differences("1w", "Europe/Berlin", 2026) != []
    assert differences("1w", "Asia/Tokyo", 2026) == []


def test_finds_a_gap_that_is_one_microsecond_short(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = window_module._EveryDays._turn_at

    def late(self: window_module._EveryDays, instant: Instant) -> window_module._Turn:
        turn = honest(self, instant)
        window = turn.window
        assert window is not None
        start, end = bounds(window)
        return turn._replace(window=Window(window.name, window.id, start, end + 1))

    monkeypatch.setattr(window_module._EveryDays, "_turn_at", late)
    assert differences("4w, gap 2d", "UTC", 2026) != []

"""Windows: what definitions mean, what ids name, and where clocks are set."""

import pickle
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from rankd.model import window as window_module
from rankd.model.window import (
    Instant,
    Recurrence,
    RecurrenceError,
    UnknownWindowId,
    Window,
    parse_duration,
    show_duration,
    valid_time_zone,
)

SEASON = {"name": "season", "every": "4w", "gap": "2d", "start": "2026-11-02T00:00:00Z"}
CUP = {"name": "cup", "start": "2026-11-02T00:00:00Z", "end": "2026-11-09T00:00:00Z"}
SHIFT = {"name": "shift", "cron": "0 5 * * *"}
NIGHT = {"name": "night", "cron": "30 2 * * *"}


def utc(text: str) -> Instant:
    moment = datetime.fromisoformat(text)
    assert moment.tzinfo is None, "an instant is written without its Z here"
    return int(moment.replace(tzinfo=UTC).timestamp() * 1_000_000)


def parse(definition: object, zone: str = "UTC") -> Recurrence:
    return Recurrence.parse(definition, time_zone=zone)  # type: ignore[arg-type]


def bounds(window: Window | None) -> tuple[str, str]:
    """Return the bounds as text in UTC."""
    assert window is not None
    assert window.start is not None
    assert window.end is not None
    start, end = (
        datetime.fromtimestamp(bound / 1e6, UTC).replace(tzinfo=None).isoformat(timespec="minutes")
        for bound in (window.start, window.end)
    )
    return start, end


# --- what each kind is ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("definition", "zone", "kind", "window_id", "expected"),
    [
        ("daily", "UTC", "daily", "daily:2026-11-14", ("2026-11-14T00:00", "2026-11-15T00:00")),
        (
            "daily",
            "America/New_York",
            "daily",
            "daily:2026-11-14",
            ("2026-11-14T05:00", "2026-11-15T05:00"),
        ),
        (
            {"name": "daily", "at": "05:00"},
            "Asia/Tokyo",
            "daily",
            "daily:2026-11-14",
            ("2026-11-13T20:00", "2026-11-14T20:00"),
        ),
        ("weekly", "UTC", "weekly", "weekly:2026-W46", ("2026-11-09T00:00", "2026-11-16T00:00")),
        (
            {"name": "weekly", "week_starts": "Sunday", "at": "08:00"},
            "UTC",
            "weekly",
            "weekly:2026-W46",
            ("2026-11-08T08:00", "2026-11-15T08:00"),
        ),
        ("monthly", "UTC", "monthly", "monthly:2026-11", ("2026-11-01T00:00", "2026-12-01T00:00")),
        (SEASON, "UTC", "every", "season:1", ("2026-11-02T00:00", "2026-11-30T00:00")),
        (
            {"name": "heat", "every": "36h", "start": "2026-11-13T00:00:00Z"},
            "UTC",
            "every",
            "heat:1",
            ("2026-11-13T00:00", "2026-11-14T12:00"),
        ),
        (
            {"name": "cup", "start": "2026-11-14", "end": "2026-11-15T12:00+01:00"},
            "Europe/Berlin",
            "once",
            "cup",
            ("2026-11-13T23:00", "2026-11-15T11:00"),
        ),
        (SHIFT, "UTC", "cron", "shift:2026-11-14T05:00", ("2026-11-14T05:00", "2026-11-15T05:00")),
    ],
)
def test_a_window_of_each_kind(
    definition: object, zone: str, kind: str, window_id: str, expected: tuple[str, str]
) -> None:
    recurrence = parse(definition, zone)
    window = recurrence.window_at(utc("2026-11-14T10:30"))
    assert recurrence.kind == kind
    assert window is not None
    assert (window.name, window.id) == (recurrence.name, window_id)
    assert bounds(window) == expected


def test_all_is_one_window_without_bounds() -> None:
    everything = parse("all", "Asia/Tokyo")
    window = everything.window_at(0)
    assert window == Window("all", "all", None, None) == everything.window("all")
    assert everything.kind == "all"
    assert window.contains(-1)
    assert window.contains(utc("2026-11-14"))
    assert everything.next_after(window) is None
    assert everything.previous(window) is None
    assert everything.next_opening(0) is None


def test_a_window_contains_its_start_and_not_its_end() -> None:
    window = Window("cup", "cup", 10, 20)
    assert [window.contains(instant) for instant in (9, 10, 19, 20)] == [False, True, True, False]


def test_weeks_carry_the_iso_year() -> None:
    weekly = parse("weekly")
    for instant, window_id in [
        ("2027-01-03", "weekly:2026-W53"),
        ("2024-12-30", "weekly:2025-W01"),
        ("2023-01-01", "weekly:2022-W52"),
    ]:
        window = weekly.window_at(utc(instant))
        assert window is not None
        assert window.id == window_id
        assert weekly.window(window_id) == window


@pytest.mark.parametrize("weekday", range(7))
def test_a_week_is_named_by_the_iso_week_that_has_most_of_its_days(weekday: int) -> None:
    start = date(2026, 12, 28) + timedelta(days=weekday)
    weekly = parse({"name": "weekly", "week_starts": f"{start:%A}"})
    window = weekly.window_at(utc(start.isoformat()))
    assert window is not None
    assert bounds(window)[0] == f"{start}T00:00"
    weeks = [f"weekly:{start + timedelta(days=day):%G-W%V}" for day in range(7)]
    assert window.id == max(weeks, key=weeks.count)
    assert weekly.window(window.id) == window


# --- stepping ---------------------------------------------------------------------------------


def test_seasons_have_gaps_in_which_nothing_is_open() -> None:
    season = parse(SEASON)
    first = season.window_at(utc("2026-11-02"))
    assert first is not None
    second = season.next_after(first)
    assert second is not None
    assert second.id == "season:2"
    assert bounds(second) == ("2026-12-02T00:00", "2026-12-30T00:00")
    assert season.previous(second) == first
    assert season.previous(first) is None
    assert season.window_at(utc("2026-11-01T23:59")) is None
    assert season.window_at(utc("2026-11-30")) is None
    assert season.window_at(utc("2026-12-01T23:59")) is None
    assert season.next_opening(utc("2026-01-01")) == first
    assert season.next_opening(utc("2026-11-02")) == second
    assert season.next_opening(utc("2026-11-30")) == second


def test_seasons_of_hours_have_a_first_one_and_gaps_too() -> None:
    heat = parse({"name": "heat", "every": "2h", "gap": "1h", "start": "2026-11-14T00:00:00Z"})
    first = heat.window("heat:1")
    assert heat.window_at(utc("2026-11-13T23:59")) is None
    assert heat.window_at(utc("2026-11-14T02:00")) is None
    assert heat.next_opening(utc("2026-11-01")) == first
    assert heat.next_after(first) == heat.window("heat:2")
    assert heat.previous(heat.window("heat:2")) == first
    assert bounds(heat.window("heat:2")) == ("2026-11-14T03:00", "2026-11-14T05:00")


def test_a_one_off_comes_once() -> None:
    cup = parse(CUP)
    window = cup.window("cup")
    assert cup.window_at(utc("2026-11-01")) is None
    assert cup.window_at(utc("2026-11-02")) == window
    assert cup.window_at(utc("2026-11-09")) is None
    assert cup.next_opening(utc("2026-11-01")) == window
    assert cup.next_opening(utc("2026-11-02")) is None
    assert cup.next_after(window) is None
    assert cup.previous(window) is None


def test_the_calendar_ends_at_1970_and_at_9000() -> None:
    daily = parse("daily", "Pacific/Honolulu")
    first = daily.window_at(0)
    assert first is not None
    assert first.id == "daily:1969-12-31"
    assert daily.window(first.id) == first
    assert daily.previous(first) is None
    last = daily.window("8999-12-31")
    assert daily.next_after(last) is None
    assert daily.window_at(utc("2250-07-01T12:00")) == daily.window("2250-07-01")
    for instant in (-1, utc("9000-01-01")):
        with pytest.raises(ValueError, match="between the years 1970 and 9000"):
            daily.window_at(instant)


# --- ids --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("definition", "texts"),
    [
        (
            "daily",
            ["", "daily", "daily:", "daily:2026-02-29", "daily:20261114", "daily:2026-W46",
             "weekly:2026-W46", "daily:2026-11-14 ", "daily:1969-12-31", "daily:9999-12-31",
             "daily:daily:2026-11-14", "daily:٢٠٢٦-11-14"],
        ),
        ("weekly", ["2026-46", "2026-W54", "2025-W53", "2026-W00", "2026-w46", "2026-W6"]),
        ("monthly", ["2026-13", "2026-00", "2026-1", "2026-11-01"]),
        (SEASON, ["season:0", "season:-1", "season:01", "season:999999999", "season:1.0"]),
        (
            {"name": "heat", "every": "36h", "start": "2026-11-13T00:00:00Z"},
            ["heat:0", "heat:999999999", "heat:x"],
        ),
        (CUP, ["cup:cup", "cup:1", "cop", ""]),
        ("all", ["all:all", "everything"]),
        (SHIFT, ["2026-11-14T06:00", "2026-11-14", "2026-11-14T05:00:00", "2026-11-14 05:00"]),
    ],
)  # fmt: skip
def test_what_names_no_window(definition: object, texts: list[str]) -> None:
    recurrence = parse(definition)
    for text in texts:
        with pytest.raises(UnknownWindowId):
            recurrence.window(text)


def test_resolving_what_people_write() -> None:
    daily, now = parse("daily"), utc("2026-11-14T10:30")
    assert daily.resolve("daily", now).id == "daily:2026-11-14"
    assert daily.resolve("daily:-1", now).id == "daily:2026-11-13"
    assert daily.resolve("daily:-14", now).id == "daily:2026-10-31"
    assert daily.resolve("daily:2026-11-01", now).id == "daily:2026-11-01"
    for text in ("weekly", "daily:", "daily:-0", "daily:1", "daily:-1001", "daily:--1"):
        with pytest.raises(UnknownWindowId):
            daily.resolve(text, now)


def test_resolving_in_a_gap_before_the_first_and_after_the_last() -> None:
    season = parse(SEASON)
    assert season.resolve("season:-1", utc("2026-12-01")).id == "season:1"
    assert season.resolve("season:-2", utc("2026-12-31")).id == "season:1"
    assert season.resolve("season:-1", utc("2026-12-03")).id == "season:1"
    for text, now in [
        ("season", utc("2026-12-01")),
        ("season:-1", utc("2026-11-03")),
        ("season:-1", utc("2026-10-01")),
        ("season:-2", utc("2026-12-01")),
    ]:
        with pytest.raises(UnknownWindowId):
            season.resolve(text, now)


@pytest.mark.parametrize("now", ["2026-10-01", "2026-11-03", "2027-01-01"])
def test_a_single_window_is_meant_by_its_name_at_any_time(now: str) -> None:
    assert parse(CUP).resolve("cup", utc(now)).id == "cup"
    assert parse("all").resolve("all", utc(now)).id == "all"


# --- where clocks are set ---------------------------------------------------------------------


def test_a_midnight_that_does_not_exist_comes_right_after_the_jump() -> None:
    """São Paulo, 2018-11-04: clocks went from 00:00 to 01:00."""
    daily = parse("daily", "America/Sao_Paulo")
    assert bounds(daily.window("2018-11-04")) == ("2018-11-04T03:00", "2018-11-05T02:00")


def test_a_time_in_the_middle_of_a_jump_comes_right_after_it() -> None:
    """Lord Howe, 2026-10-04: clocks go from 02:00 to 02:30."""
    daily = parse({"name": "daily", "at": "02:20"}, "Australia/Lord_Howe")
    assert bounds(daily.window("2026-10-04")) == ("2026-10-03T15:30", "2026-10-04T15:20")


def test_a_midnight_that_comes_twice_starts_the_day_once() -> None:
    """Havana, 2020-11-01: clocks went from 01:00 back to 00:00."""
    daily = parse("daily", "America/Havana")
    assert bounds(daily.window("2020-11-01")) == ("2020-11-01T04:00", "2020-11-02T05:00")


def test_a_day_that_has_begun_goes_on_when_the_clock_returns_to_the_day_before() -> None:
    """St. John's, 2010-11-07: at 00:01 clocks went back to 23:01 of the 6th."""
    daily = parse("daily", "America/St_Johns")
    window = daily.window("2010-11-07")
    assert bounds(window) == ("2010-11-07T02:30", "2010-11-08T03:30")
    shown_again = utc("2010-11-07T03:00")
    assert datetime.fromtimestamp(shown_again / 1e6, ZoneInfo("America/St_Johns")).day == 6
    assert daily.window_at(shown_again) == window


def test_a_day_that_was_skipped_has_no_window() -> None:
    """Apia crossed the date line: 2011-12-30 did not happen."""
    daily = parse("daily", "Pacific/Apia")
    before, after = daily.window("2011-12-29"), daily.window("2011-12-31")
    assert before.end == after.start
    assert daily.next_after(before) == after
    assert daily.previous(after) == before
    with pytest.raises(UnknownWindowId):
        daily.window("2011-12-30")


def test_days_keep_local_time_and_hours_keep_their_length() -> None:
    """Berlin sets its clocks back on 2026-10-25."""
    start = "2026-10-20T00:00"
    days = parse({"name": "a", "every": "1w", "start": start}, "Europe/Berlin")
    hours = parse({"name": "a", "every": "168h", "start": start}, "Europe/Berlin")
    assert bounds(days.window("a:2"))[0] == "2026-10-26T23:00"
    assert bounds(hours.window("a:2"))[0] == "2026-10-26T22:00"


def test_a_season_may_start_at_the_second_showing_of_an_hour() -> None:
    """02:30 comes twice in Berlin on 2026-10-25; the start says which, later seasons cannot."""
    season = parse({"name": "s", "every": "1d", "start": "2026-10-25T02:30+01:00"}, "Europe/Berlin")
    first = season.window("s:1")
    assert bounds(first) == ("2026-10-25T01:30", "2026-10-26T01:30")
    assert season.window_at(utc("2026-10-25T01:29")) is None
    assert season.next_opening(utc("2026-10-25T01:29")) == first


def test_a_season_that_began_goes_on_when_the_clock_returns_to_before_its_start() -> None:
    season = parse({"name": "s", "every": "1d", "start": "2026-10-25T02:30+02:00"}, "Europe/Berlin")
    assert season.window_at(utc("2026-10-25T01:10")) == season.window("s:1")


def test_a_season_that_the_clock_jumps_over_does_not_exist() -> None:
    """The 30 minutes from 02:15 are skipped in Berlin on 2026-03-29."""
    season = parse(
        {"name": "s", "every": "30m", "gap": "6d23h30m", "start": "2026-03-22T02:15"},
        "Europe/Berlin",
    )
    first, third = season.window("s:1"), season.window("s:3")
    assert season.next_after(first) == third
    assert season.previous(third) == first
    assert season.window_at(utc("2026-03-29T01:00")) is None
    with pytest.raises(UnknownWindowId):
        season.window("s:2")


def test_a_firing_that_is_skipped_happens_right_after_the_jump() -> None:
    night = parse(NIGHT, "Europe/Berlin")
    window = night.window("night:2026-03-29T02:30")
    assert bounds(window) == ("2026-03-29T01:00", "2026-03-30T00:30")


def test_a_firing_that_comes_twice_happens_the_first_time() -> None:
    night = parse(NIGHT, "Europe/Berlin")
    assert bounds(night.window("night:2026-10-25T02:30")) == (
        "2026-10-25T00:30",
        "2026-10-26T01:30",
    )


def test_hourly_windows_where_clocks_are_set() -> None:
    """Forward: the skipped hour has no window. Back: one window lasts both showings of its hour."""
    hourly = parse({"name": "h", "cron": "@hourly"}, "Europe/Berlin")
    one = hourly.window("h:2026-03-29T01:00")
    three = hourly.next_after(one)
    assert three is not None
    assert three.id == "h:2026-03-29T03:00"
    assert bounds(three) == ("2026-03-29T01:00", "2026-03-29T02:00")
    with pytest.raises(UnknownWindowId):
        hourly.window("h:2026-03-29T02:00")
    assert bounds(hourly.window("h:2026-10-25T02:00")) == ("2026-10-25T00:00", "2026-10-25T02:00")


def test_zones_are_read_from_the_package_and_not_from_the_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setattr("zoneinfo.TZPATH", (str(tmp_path),))
    window_module._zone.cache_clear()
    assert parse("daily", "Europe/Berlin").window_at(0) is not None


# --- definitions ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("all", "all"),
        ({"name": "all"}, "all"),
        ({"name": "daily"}, "daily"),
        ({"name": "daily", "at": "00:00"}, "daily"),
        ({"name": "daily", "at": "05:00"}, {"name": "daily", "at": "05:00"}),
        ({"name": "weekly", "week_starts": "monday"}, "weekly"),
        (
            {"week_starts": "SUNDAY", "at": "04:30", "name": "weekly"},
            {"name": "weekly", "at": "04:30", "week_starts": "sunday"},
        ),
        ({"name": "monthly", "at": "23:59"}, {"name": "monthly", "at": "23:59"}),
        (SEASON, SEASON),
        (
            {"name": "s", "every": "14d", "start": "2026-11-02"},
            {"name": "s", "every": "2w", "start": "2026-11-01T23:00:00Z"},
        ),
        (
            {"name": "s", "every": "24h", "gap": "90m", "start": "2026-11-02t00:00:00z"},
            {"name": "s", "every": "24h", "gap": "1h30m", "start": "2026-11-02T00:00:00Z"},
        ),
        (
            {"name": "s", "every": "6d", "gap": "24h", "start": datetime(2026, 11, 2, tzinfo=UTC)},
            {"name": "s", "every": "6d", "gap": "1d", "start": "2026-11-02T00:00:00Z"},
        ),
        (
            {"name": "c", "start": date(2026, 11, 2), "end": "2026-11-02 23:59:59.999"},
            {"name": "c", "start": "2026-11-01T23:00:00Z", "end": "2026-11-02T22:59:59.999000Z"},
        ),
        ({"name": "w", "cron": "@weekly"}, {"name": "w", "cron": "0 0 * * 0"}),
    ],
)
def test_a_definition_has_one_spelling_that_reads_back_as_its_equal(
    written: object, canonical: object
) -> None:
    recurrence = parse(written, "Europe/Berlin")
    assert recurrence.definition() == canonical
    assert parse(canonical, "Europe/Berlin") == recurrence
    assert hash(parse(canonical, "Europe/Berlin")) == hash(recurrence)
    assert pickle.loads(pickle.dumps(recurrence)) == recurrence
    assert recurrence != parse(canonical, "Asia/Tokyo")


@pytest.mark.parametrize(
    ("definition", "field", "message"),
    [
        ("hourly", "", "must be one of all, daily, weekly, monthly, or an object"),
        (7, "", "must be text or an object"),
        ({}, "name", "is required"),
        ({"name": 7}, "name", "must be text"),
        ({"name": ""}, "name", "must be 1 to 32 letters"),
        ({"name": "a:b", "cron": "@daily"}, "name", "must be 1 to 32 letters"),
        ({"name": "a" * 33, "cron": "@daily"}, "name", "must be 1 to 32 letters"),
        (
            {"name": "x"},
            "",
            "must say 'every' and 'start', 'start' and 'end', 'cron', or 'rolling'",
        ),
        ({"name": "x", "start": "2026-11-02"}, "", "must say 'every'"),
        ({"name": "all", "at": "05:00"}, "at", "unknown field; known here: name"),
        ({"name": "daily", "cron": "@daily"}, "cron", "unknown field; known here: name, at"),
        ({"name": "monthly", "every": "4w", "start": "2026-11-02"}, "every", "unknown field"),
        ({"name": "daily", "week_starts": "sunday"}, "week_starts", "unknown field"),
        ({"name": "x", "cron": "@daily", "end": "2027-01-01"}, "end", "unknown field"),
        ({"name": "x", "cron": "@daily", "<b>": 1}, "", "unknown field"),
        ({**SEASON, "color": "red"}, "color", "known here: name, every, gap, start"),
        ({**CUP, "gap": "1d"}, "gap", "known here: name, start, end"),
        ({"name": "daily", "at": "5:00"}, "at", "must be a time of day such as 05:00"),
        ({"name": "daily", "at": "24:00"}, "at", "must be a time of day"),
        ({"name": "daily", "at": 5}, "at", "must be text"),
        ({"name": "weekly", "week_starts": "sun"}, "week_starts", "must be one of monday"),
        ({"name": "x", "every": "4w"}, "start", "is required"),
        ({**SEASON, "every": "4 weeks"}, "every", "must be a duration such as"),
        ({**SEASON, "every": 4}, "every", "must be text"),
        ({**SEASON, "gap": "0d"}, "gap", "must not count zero"),
        ({**SEASON, "start": "soon"}, "start", "must be a time such as"),
        ({**SEASON, "start": "2026-11-31"}, "start", "must be a time such as"),
        ({**SEASON, "start": "2026-W46-1"}, "start", "must be a time such as"),
        ({**SEASON, "start": "1969-12-31T23:00:00Z"}, "start", "between the years 1970 and 9000"),
        ({**SEASON, "start": "9000-01-01T00:00:00Z"}, "start", "between the years 1970 and 9000"),
        ({**SEASON, "start": "1970-01-01T00:00:00+05:00"}, "start", "between the years"),
        ({**SEASON, "start": "9999-12-31T23:59:59"}, "start", "between the years"),
        ({**SEASON, "start": "2026-11-02T00:00:00.5Z"}, "start", "must be a whole second"),
        ({**SEASON, "start": "2026-03-29T02:30"}, "start", "the clocks of Europe/Berlin skip"),
        ({**CUP, "end": CUP["start"]}, "end", "must be later than the start"),
        ({"name": "x", "cron": "0 0 30 2 *"}, "cron", "never fires"),
        ({"name": "x", "cron": "0 25 * * *"}, "cron", "hour: must be 0 to 23"),
        ({"name": "x", "cron": None}, "cron", "must be text"),
    ],
)
def test_refuses_a_definition(definition: object, field: str, message: str) -> None:
    with pytest.raises(RecurrenceError) as refusal:
        parse(definition, "Europe/Berlin")
    assert refusal.value.field == field
    assert message in refusal.value.message
    assert str(refusal.value) == (f"{field}: " if field else "") + refusal.value.message


def test_a_time_zone_is_an_iana_name() -> None:
    for name in ("UTC", "Europe/Berlin", "US/Pacific", "America/Argentina/Ushuaia"):
        assert valid_time_zone(name)
    for name in ("", "Mars/Base", "europe/berlin", "../zones", "Europe", "zone.tab", "+01:00"):
        assert not valid_time_zone(name)
    with pytest.raises(RecurrenceError, match="IANA name"):
        parse("daily", "Mars/Base")


# --- durations --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "duration", "shown"),
    [
        ("30d", timedelta(days=30), "30d"),
        ("4w", timedelta(weeks=4), "4w"),
        ("1w2d", timedelta(days=9), "9d"),
        ("12h", timedelta(hours=12), "12h"),
        ("90m", timedelta(minutes=90), "1h30m"),
        ("45s", timedelta(seconds=45), "45s"),
        ("1d12h", timedelta(hours=36), "1d12h"),
        ("24h", timedelta(days=1), "1d"),
        ("36525d", timedelta(days=36_525), "36525d"),
    ],
)
def test_durations(text: str, duration: timedelta, shown: str) -> None:
    assert parse_duration(text) == duration
    assert show_duration(duration) == shown
    assert parse_duration(shown) == duration


@pytest.mark.parametrize("text", ["", "4", "w", "4 w", "2h1d", "1.5h", "-1d", "1D", "1y", "1dd"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="must be a duration such as 4w"):
        parse_duration(text)


def test_durations_have_bounds() -> None:
    for text in ("0s", "0d12h"):
        with pytest.raises(ValueError, match="must not count zero"):
            parse_duration(text)
    for text in ("36526d", "999999999w"):
        with pytest.raises(ValueError, match="at most 36525 days"):
            parse_duration(text)
    assert show_duration(timedelta(0)) == "0s"

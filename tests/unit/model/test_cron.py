"""Cron expressions mean what Vixie cron's do, forwards and backwards."""

from datetime import datetime, timedelta

import pytest

from rankd.model.cron import canonical_cron, parse_cron


def wall(text: str) -> datetime:
    return datetime.fromisoformat(text)


def firings(expression: str, *, after: str, count: int) -> list[str]:
    """Return the next firings; each is also checked to be the last one before the next."""
    cron, at = parse_cron(expression), wall(after)
    found: list[str] = []
    for _ in range(count):
        following = cron.after(at)
        assert cron.at_or_before(following) == following
        if found:
            assert cron.at_or_before(following - timedelta(minutes=1)) == at
        at = following
        found.append(at.isoformat(timespec="minutes"))
    return found


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("0 5 * * *", ["2026-11-14T05:00", "2026-11-15T05:00", "2026-11-16T05:00"]),
        ("*/20 * * * *", ["2026-11-14T00:20", "2026-11-14T00:40", "2026-11-14T01:00"]),
        ("5,10-12/2 8 * * *", ["2026-11-14T08:05", "2026-11-14T08:10", "2026-11-14T08:12"]),
        ("0 0 * * MON-WED", ["2026-11-16T00:00", "2026-11-17T00:00", "2026-11-18T00:00"]),
        ("0 0 * * 5-7", ["2026-11-15T00:00", "2026-11-20T00:00", "2026-11-21T00:00"]),
        ("0 0 * * 0", ["2026-11-15T00:00", "2026-11-22T00:00", "2026-11-29T00:00"]),
        ("0 0 * * 7", ["2026-11-15T00:00", "2026-11-22T00:00", "2026-11-29T00:00"]),
        ("0 0 1 jan,JUL *", ["2027-01-01T00:00", "2027-07-01T00:00", "2028-01-01T00:00"]),
        ("0 0 L * *", ["2026-11-30T00:00", "2026-12-31T00:00", "2027-01-31T00:00"]),
        ("0 0 15,L 2 *", ["2027-02-15T00:00", "2027-02-28T00:00", "2028-02-15T00:00"]),
        ("0 0 29 2 *", ["2028-02-29T00:00", "2032-02-29T00:00", "2036-02-29T00:00"]),
        ("0 0 31 * *", ["2026-12-31T00:00", "2027-01-31T00:00", "2027-03-31T00:00"]),
    ],
)
def test_fires_at(expression: str, expected: list[str]) -> None:
    assert firings(expression, after="2026-11-14T00:00", count=3) == expected


def test_either_day_field_is_enough_when_both_are_restricted() -> None:
    assert firings("0 0 13 * FRI", after="2026-11-11T00:00", count=3) == [
        "2026-11-13T00:00",
        "2026-11-20T00:00",
        "2026-11-27T00:00",
    ]
    assert firings("0 0 16 * FRI", after="2026-11-14T00:00", count=2) == [
        "2026-11-16T00:00",
        "2026-11-20T00:00",
    ]


def test_a_field_that_begins_with_a_star_narrows_the_other() -> None:
    """Every seventh weekday from Sunday is Sunday: the 13th only when it is one."""
    assert firings("0 0 13 * */7", after="2026-01-01T00:00", count=2) == [
        "2026-09-13T00:00",
        "2026-12-13T00:00",
    ]


def test_the_rarest_cron_is_found_across_a_century_without_a_leap_day() -> None:
    assert firings("0 0 29 2 */7", after="2088-03-01T00:00", count=2) == [
        "2128-02-29T00:00",
        "2156-02-29T00:00",
    ]
    cron = parse_cron("0 0 29 2 */7")
    assert cron.at_or_before(wall("2128-02-28T00:00")) == wall("2088-02-29T00:00")


def test_the_last_firing_before_the_first_of_a_day_is_on_an_earlier_day() -> None:
    cron = parse_cron("30 8,20 * * MON")
    assert cron.at_or_before(wall("2026-11-16T08:29")) == wall("2026-11-09T20:30")
    assert cron.at_or_before(wall("2026-11-16T08:30")) == wall("2026-11-16T08:30")


@pytest.mark.parametrize(
    ("alias", "fields"),
    [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        (" @Annually ", "0 0 1 1 *"),
        ("0  5 *\t* mon", "0 5 * * MON"),
    ],
)
def test_one_spelling(alias: str, fields: str) -> None:
    assert canonical_cron(alias) == fields
    assert parse_cron(alias) == parse_cron(fields)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("", "five fields"),
        ("0 5 * *", "five fields"),
        ("0 5 * * * *", "five fields"),
        ("@reboot", "five fields"),
        ("60 * * * *", "minute: must be 0 to 59"),
        ("-1 * * * *", "minute: must be 0 to 59"),
        ("* 24 * * *", "hour: must be 0 to 23"),
        ("0 0 0 * *", "day of month: must be 1 to 31"),
        ("0 0 * 13 *", "month: must be 1 to 12, or JAN to DEC"),
        ("0 0 * * 8", "day of week: must be 0 to 7, or SUN to SAT"),
        ("0 0 * * MOON", "day of week: must be 0 to 7"),
        ("0 0 * L *", "month: must be"),
        ("0,,5 * * * *", "minute: must be"),
        ("0- * * * *", "minute: must be"),
        ("٣ * * * *", "minute: must be"),
        ("0000000005 * * * *", "minute: must be"),
        ("30-10 * * * *", "minute: a range must not end before it starts"),
        ("0 0 * * FRI-MON", "day of week: a range must not end before it starts"),
        ("*/0 * * * *", "minute: a step must be a whole number above 0"),
        ("*/x * * * *", "minute: a step must be"),
        ("*/ * * * *", "minute: a step must be"),
        ("5/10 * * * *", "minute: a step needs a range"),
        ("0 0 30 2 *", "never fires"),
        ("0 0 31 4,6,9,11 */2", "never fires"),
    ],
)
def test_refuses(expression: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_cron(expression)


def test_a_day_that_no_month_has_may_be_made_up_for_by_a_weekday() -> None:
    assert firings("0 0 30 2 MON", after="2027-01-31T00:00", count=1) == ["2027-02-01T00:00"]


def test_steps_forward_and_back_meet_the_same_firings() -> None:
    cron = parse_cron("17,47 3-21/6 1-10,L 1-11/2 THU")
    forward = [wall("2026-01-01T03:17")]
    while len(forward) < 500:
        forward.append(cron.after(forward[-1]))
    backward = [forward[-1]]
    while backward[-1] > forward[0]:
        backward.append(cron.at_or_before(backward[-1] - timedelta(minutes=1)))
    assert backward[::-1] == forward

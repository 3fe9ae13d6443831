"""Rolling windows in the calendar: so many whole days of the board's zone, today included."""

from datetime import UTC, datetime
from typing import Any

import pytest

from rankd.errors import InvalidBoard
from rankd.model.board import Board
from rankd.model.window import Recurrence, RecurrenceError

LAST7 = {"name": "last7", "rolling": "7d"}


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).astimezone(UTC).timestamp()) * 1_000_000


def last(days: str = "7d", zone: str = "Europe/Berlin") -> Recurrence:
    return Recurrence.parse({"name": "last7", "rolling": days}, time_zone=zone)


def test_a_window_ends_with_the_day_that_it_is_named_by() -> None:
    window = last().window_at(at("2026-11-19T12:00:00+01:00"))
    assert window is not None
    assert (window.id, window.start, window.end) == (
        "last7:2026-11-19",
        at("2026-11-13T00:00:00+01:00"),
        at("2026-11-20T00:00:00+01:00"),
    )
    assert window.opening == at("2026-11-19T00:00:00+01:00")


def test_days_are_those_of_the_zone_also_when_clocks_are_set() -> None:
    window = last().window("last7:2026-03-31")
    assert (window.start, window.end) == (
        at("2026-03-25T00:00:00+01:00"),
        at("2026-04-01T00:00:00+02:00"),
    )


def test_windows_follow_one_another_by_the_day() -> None:
    recurrence = last()
    today = recurrence.window("2026-11-19")
    tomorrow = recurrence.next_after(today)
    assert tomorrow is not None
    assert (tomorrow.id, recurrence.previous(tomorrow)) == ("last7:2026-11-20", today)
    now = today.end or 0
    assert recurrence.resolve("last7", now - 1) == today
    assert recurrence.resolve("last7:-1", now).id == "last7:2026-11-19"
    assert recurrence.resolve("last7:-7", now).id == "last7:2026-11-13"


def test_an_instant_is_in_the_windows_of_its_day_and_of_the_days_after_it() -> None:
    noon = at("2026-11-19T12:00:00+01:00")
    found = last("3d").covering(noon)
    assert [window.id for window in found] == [f"last7:2026-11-{day}" for day in (19, 20, 21)]
    assert all(window.contains(noon) for window in found)


def test_a_day_that_clocks_skip_has_no_window() -> None:
    """Apia had no 2011-12-30."""
    found = last("2d", "Pacific/Apia").covering(at("2011-12-29T12:00:00-10:00"))
    assert [window.id for window in found] == ["last7:2011-12-29"]
    found = last("3d", "Pacific/Apia").covering(at("2011-12-29T12:00:00-10:00"))
    assert [window.id for window in found] == ["last7:2011-12-29", "last7:2011-12-31"]


def test_two_windows_may_start_together_where_clocks_skip_a_day() -> None:
    recurrence = last("2d", "Pacific/Apia")
    one, other = recurrence.window("2011-12-31"), recurrence.window("2012-01-01")
    assert (one.start, one.id != other.id) == (other.start, True)


@pytest.mark.parametrize(
    ("given", "shown"),
    [("7d", "7d"), ("1w", "7d"), ("1w1d", "8d"), ("1d", "1d"), ("366d", "366d")],
)
def test_a_definition_is_shown_in_days(given: str, shown: str) -> None:
    recurrence = last(given)
    assert recurrence.definition() == {"name": "last7", "rolling": shown}
    assert Recurrence.parse(recurrence.definition(), time_zone="Europe/Berlin") == recurrence


def test_a_definition_may_have_a_grace() -> None:
    given = {**LAST7, "grace": "10m"}
    assert Recurrence.parse(given, time_zone="UTC").definition() == given


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"name": "last7", "rolling": "24h"}, "rolling"),
        ({"name": "last7", "rolling": "1d12h"}, "rolling"),
        ({"name": "last7", "rolling": "367d"}, "rolling"),
        ({"name": "last7", "rolling": "0d"}, "rolling"),
        ({"name": "last7", "rolling": 7}, "rolling"),
        ({"name": "last7", "rolling": "7d", "at": "05:00"}, "at"),
        ({"name": "last7", "rolling": "7d", "start": "2026-11-19"}, "start"),
        ({"name": "a b", "rolling": "7d"}, "name"),
    ],
)
def test_other_definitions_are_refused(given: dict[str, Any], field: str) -> None:
    with pytest.raises(RecurrenceError) as refusal:
        Recurrence.parse(given, time_zone="UTC")
    assert refusal.value.field == field


def test_closed_ones_are_kept_for_a_day_unless_the_board_says_so() -> None:
    board = Board.define("b", {"rule": "sum", "windows": ["all", LAST7]})
    assert board.definition()["retention"] == {"last7": "1d"}
    given = {"rule": "sum", "windows": [LAST7], "retention": {"last7": "30d"}}
    assert Board.define("b", given).definition()["retention"] == {"last7": "30d"}
    with pytest.raises(InvalidBoard):
        Board.define("b", {"rule": "sum", "windows": [LAST7, LAST7]})

"""The arithmetic behind every table of the benchmarks. Run by `python -m pytest benchmarks`."""

import pytest

from benchmarks.figures import (
    Goal,
    Measurement,
    Sample,
    count,
    cpu_ratio,
    fastest,
    number,
    quotient,
    ratio,
    table,
)
from benchmarks.http_realistic import SENT_MAX, between_saves, cases
from rankd.core.managers import SAVE_AT_CLOSE_FACTS, SAVE_EVERY_FACTS


def measured(way: str, *wall_us: float, system: str = "Redis", players: int = 10) -> Measurement:
    measurement = Measurement(players, system, "update", way)
    for us in wall_us:
        measurement.add(Sample(operations=100, wall_seconds=us / 1e4, cpu_seconds=us / 2e4))
    return measurement


def test_a_sample_is_the_sum_of_its_parts() -> None:
    assert Sample(1, 0.5, 0.25) + Sample(2, 1.0, 0.5) == Sample(3, 1.5, 0.75)


def test_a_measurement_tells_microseconds_per_operation() -> None:
    measurement = measured("any", 3.0, 1.0, 8.0)
    assert measurement.median_us == pytest.approx(3.0)
    assert measurement.best_us == pytest.approx(1.0)
    assert measurement.median_cpu_us == pytest.approx(1.5)


def test_the_fastest_way_is_told_by_its_median_not_by_one_lucky_run() -> None:
    lucky, steady = measured("lucky", 1.0, 9.0, 9.0), measured("steady", 4.0, 4.0, 4.0)
    found = fastest([lucky, steady], players=10, system="Redis", operation="update")
    assert found is steady


def test_only_what_was_asked_for_is_compared() -> None:
    others = [
        measured("another system", 1.0, system="rankd"),
        measured("another size", 1.0, players=11),
        measured("never run"),
    ]
    assert fastest(others, players=10, system="Redis", operation="update") is None


def test_a_ratio_needs_both_sides() -> None:
    slow, fast = measured("slow", 6.0), measured("fast", 2.0)
    assert ratio(slow, fast) == pytest.approx(3.0)
    assert cpu_ratio(slow, fast) == pytest.approx(3.0)
    assert ratio(slow, None) is None
    assert cpu_ratio(None, fast) is None
    assert quotient(None, 2.0) is None
    assert quotient(6.0, 2.0) == 3.0


def test_processor_time_that_was_not_told_is_not_divided_by() -> None:
    untold = Measurement(10, "Redis", "update", "any", wall_us=[1.0], cpu_us=[0.0])
    assert cpu_ratio(measured("any", 1.0), untold) is None


@pytest.mark.parametrize(
    ("aim", "figure", "reached"),
    [
        ("at most", 3.0, True),
        ("at most", 3.1, False),
        ("at least", 3.0, True),
        ("at least", 2.9, False),
        ("at least", None, None),
    ],
)
def test_a_goal_is_reached_at_its_bound_and_open_when_not_measured(
    aim: str, figure: float | None, reached: bool | None
) -> None:
    goal = Goal("speed", "any", "µs", aim, 3.0, lambda: figure)  # type: ignore[arg-type]
    assert goal.judged()["reached"] is reached


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.456, "0.46"), (9.876, "9.88"), (12.34, "12.3"), (1234.5, "1,234")],
)
def test_a_figure_is_written_with_three_digits(value: float | None, text: str) -> None:
    assert number(value) == text


def test_a_figure_carries_its_unit() -> None:
    assert number(1.5, "µs") == "1.50 µs"


@pytest.mark.parametrize(
    ("players", "text"),
    [(999, "999"), (100_000, "100 K"), (2_500_000, "2.5 M"), (123_456, "123,456")],
)
def test_players_are_counted_as_people_say_it(players: int, text: str) -> None:
    assert count(players) == text


def test_columns_are_aligned_numbers_to_the_right_and_words_to_the_left() -> None:
    laid_out = table(["what", "µs", "by"], [["a", "1.00", "pipelines"], ["long", "10.0", "one"]])
    assert laid_out.splitlines() == [
        "what    µs  by",
        "────  ────  ─────────",
        "a     1.00  pipelines",
        "long  10.0  one",
    ]


def test_no_save_of_the_index_falls_on_a_case() -> None:
    for some in between_saves([case for case in cases() if case.service == "open"]):
        sent = sum(SENT_MAX[case.of] for case in some)
        assert len(some) == 1 or sent <= SAVE_EVERY_FACTS - SAVE_AT_CLOSE_FACTS

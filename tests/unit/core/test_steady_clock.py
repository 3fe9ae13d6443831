"""The steady clock: small differences are followed, steps are not until they have lasted."""

import logging

import pytest
from tests.unit.core.doubles import DAY, HOUR, NOON, MachineClock, SetClock

from rankd.core.steady_clock import (
    LASTING_SECONDS,
    SLEW_PART,
    STEP_MICROSECONDS,
    CertainTime,
    SteadyClock,
    clock_problem,
    shown_span,
    steady,
)

SECOND = 1_000_000
LASTING = int(LASTING_SECONDS * SECOND)
YEAR = 365 * DAY


def after(clock: SteadyClock, machine: MachineClock, microseconds: int) -> int:
    """Return the time once time has passed, looked at now and every second."""
    clock.now()
    for _ in range(microseconds // SECOND):
        machine.run(SECOND)
        clock.now()
    return clock.now()


def test_time_goes_on_as_the_machine_counts() -> None:
    machine = MachineClock()
    clock = SteadyClock(machine)
    assert clock.now() == NOON
    machine.run(HOUR)
    assert (clock.now(), clock.step) == (NOON + HOUR, None)


@pytest.mark.parametrize("offset", [10 * YEAR, 60 * DAY, -HOUR, STEP_MICROSECONDS + 1, -YEAR])
def test_step_that_is_taken_back_leaves_no_trace(offset: int) -> None:
    machine = MachineClock()
    clock = SteadyClock(machine)
    machine.step(offset)
    assert clock.now() == NOON
    assert clock.step is not None and clock.step.offset == offset
    assert after(clock, machine, 2 * SECOND) == NOON + 2 * SECOND
    machine.step(-offset)
    assert after(clock, machine, LASTING) == NOON + 2 * SECOND + LASTING
    assert clock.step is None


@pytest.mark.parametrize("offset", [10 * YEAR, HOUR, -HOUR])
def test_step_is_believed_once_it_has_lasted(offset: int) -> None:
    machine = MachineClock()
    clock = SteadyClock(machine)
    machine.step(offset)
    assert after(clock, machine, LASTING - SECOND) == NOON + LASTING - SECOND
    assert after(clock, machine, SECOND) == NOON + LASTING + offset
    assert clock.step is None


def test_lasting_time_is_a_setting() -> None:
    machine = MachineClock()
    clock = SteadyClock(machine, lasting_seconds=5)
    machine.step(HOUR)
    assert after(clock, machine, 4 * SECOND) < NOON + HOUR < after(clock, machine, 2 * SECOND)


def test_step_that_changes_begins_anew() -> None:
    machine = MachineClock()
    clock = SteadyClock(machine)
    for _ in range(10):
        machine.step(HOUR)
        after(clock, machine, LASTING - SECOND)
    assert clock.now() == NOON + 10 * (LASTING - SECOND)


def test_clock_that_runs_fast_is_not_believed() -> None:
    machine = MachineClock()
    clock = SteadyClock(machine)
    hours = 3
    for _ in range(hours * 3600):
        machine.run(SECOND)
        machine.step(SECOND)
        clock.now()
    assert clock.now() <= NOON + hours * HOUR * (SLEW_PART + 1) // SLEW_PART
    assert clock.step is not None


@pytest.mark.parametrize("offset", [STEP_MICROSECONDS, -STEP_MICROSECONDS, SECOND // 2])
def test_small_difference_is_made_up_for_little_by_little(offset: int) -> None:
    machine = MachineClock()
    clock = SteadyClock(machine)
    machine.step(offset)
    before, worst = clock.now(), 0
    assert before == NOON
    for _ in range(STEP_MICROSECONDS * SLEW_PART // SECOND):
        machine.run(SECOND)
        now = clock.now()
        worst, before = max(worst, abs(now - before - SECOND)), now
    assert before == machine.now()
    assert 0 < worst <= SECOND // SLEW_PART
    assert clock.step is None


def test_small_difference_is_made_up_for_however_often_the_clock_is_read() -> None:
    machine = MachineClock()
    clock = SteadyClock(machine)
    machine.step(SECOND // 10)
    for _ in range(40_000):
        machine.run(100)
        clock.now()
    assert clock.now() == machine.now()


def test_confirmed_step_is_believed_at_once() -> None:
    machine = MachineClock()
    clock = SteadyClock(machine)
    assert clock.confirm() is None
    machine.step(HOUR)
    confirmed = clock.confirm()
    assert confirmed is not None and confirmed.offset == HOUR
    assert (clock.now(), clock.step) == (NOON + HOUR, None)


def test_sleep_of_the_machine_is_no_step() -> None:
    machine = MachineClock()
    clock = SteadyClock(machine)
    machine.run(9 * DAY)
    assert (clock.now(), clock.step) == (NOON + 9 * DAY, None)


def test_clock_without_a_counter_is_believed() -> None:
    clock = SetClock()
    trusted = SteadyClock(clock)
    clock.time += 10 * YEAR
    assert (trusted.now(), trusted.counts) == (NOON + 10 * YEAR, False)
    assert trusted.lasted() == CertainTime(NOON + 10 * YEAR, NOON + 10 * YEAR)
    clock.time = NOON
    assert trusted.now() == NOON


def test_steady_clock_is_not_made_steady_twice() -> None:
    clock = SteadyClock(MachineClock())
    assert steady(clock) is clock
    assert steady(SetClock()).now() == NOON


# --------------------------------------------------------------------------- reference


def test_machine_with_a_wrong_clock_follows_its_reference() -> None:
    machine = MachineClock(NOON + 10 * YEAR)
    clock = SteadyClock(machine)
    clock.refer(NOON, counter=clock.counter())
    assert (clock.now(), clock.step) == (NOON, None)
    assert after(clock, machine, 2 * LASTING) == NOON + 2 * LASTING
    machine.step(-10 * YEAR)
    assert (clock.now(), clock.step) == (NOON + 2 * LASTING, None)


def test_step_of_the_reference_must_last_and_be_seen() -> None:
    machine = MachineClock()
    clock = SteadyClock(machine)
    clock.refer(NOON, counter=clock.counter())
    machine.run(SECOND)
    clock.refer(NOON + YEAR, counter=clock.counter())
    assert after(clock, machine, 2 * LASTING) == NOON + SECOND + 2 * LASTING
    assert clock.step is not None
    clock.refer(NOON + YEAR + 2 * LASTING, counter=clock.counter())
    assert clock.now() == NOON + YEAR + 2 * LASTING


def test_reference_that_is_right_again_ends_the_step() -> None:
    machine = MachineClock()
    clock = SteadyClock(machine)
    clock.refer(NOON, counter=clock.counter())
    clock.refer(NOON + YEAR, counter=clock.counter())
    assert clock.now() == NOON and clock.step is not None
    clock.refer(NOON, counter=clock.counter())
    assert clock.now() == NOON and clock.step is None


# -------------------------------------------------------------------- time that lasted


def test_time_has_lasted_after_a_while_without_steps() -> None:
    machine = MachineClock()
    clock = SteadyClock(machine)
    assert clock.lasted() == CertainTime(0, NOON + LASTING)
    assert after(clock, machine, LASTING) == NOON + LASTING
    assert clock.lasted() == CertainTime(NOON + LASTING, NOON + LASTING)
    machine.step(HOUR)
    assert clock.lasted() == CertainTime(0, NOON + 2 * LASTING)
    clock.confirm()
    assert clock.lasted() == CertainTime(0, NOON + HOUR + 2 * LASTING)


def test_time_of_the_last_fact_has_lasted_if_it_is_long_ago() -> None:
    machine = MachineClock()
    assert SteadyClock(machine, recorded=NOON - LASTING).lasted().through == NOON - LASTING
    assert SteadyClock(machine, recorded=NOON - LASTING + 1).lasted().through == 0
    assert SteadyClock(machine, recorded=NOON + YEAR).lasted().through == 0


# --------------------------------------------------------------------------- reporting


def test_problem_names_a_step() -> None:
    machine = MachineClock()
    clock = SteadyClock(machine)
    assert clock_problem(clock, NOON) is None
    machine.step(YEAR)
    problem = clock_problem(clock, NOON)
    assert problem is not None and "stepped by +365 days" in problem and "600 s" in problem


def test_problem_names_a_ledger_that_is_ahead() -> None:
    clock = SteadyClock(SetClock())
    assert clock_problem(clock, NOON + STEP_MICROSECONDS) is None
    problem = clock_problem(clock, NOON + HOUR)
    assert problem is not None and "+3,600.0 s" in problem and "rankd clock correct" in problem


def test_problem_names_a_machine_whose_clock_is_not_used() -> None:
    clock = SteadyClock(MachineClock(NOON - DAY))
    clock.refer(NOON, counter=clock.counter())
    problem = clock_problem(clock, NOON)
    assert problem is not None and "-24 h" in problem and "server" in problem


def test_log_tells_of_a_step_once(caplog: pytest.LogCaptureFixture) -> None:
    machine = MachineClock()
    clock = SteadyClock(machine)
    with caplog.at_level(logging.WARNING):
        machine.step(YEAR)
        after(clock, machine, 30 * SECOND)
        machine.step(-YEAR)
        after(clock, machine, 30 * SECOND)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2, said
    assert "stepped by +365 days" in said[0] and "taken back" in said[1]


@pytest.mark.parametrize(
    ("span", "shown"),
    [(10 * YEAR, "+3,650 days"), (-3 * HOUR, "-3 h"), (90 * SECOND, "+90.0 s"), (0, "+0.0 s")],
)
def test_span_is_shown_in_a_unit_that_fits(span: int, shown: str) -> None:
    assert shown_span(span) == shown

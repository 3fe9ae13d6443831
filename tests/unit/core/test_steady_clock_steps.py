"""An engine whose clock steps: no window turns, nothing is dropped before that has lasted."""

import logging
from collections.abc import Sequence
from typing import ClassVar

import pytest
from tests.unit.core.doubles import (
    DAY,
    HOUR,
    NOON,
    FaultyLedger,
    MachineClock,
    SharedLedger,
    engine,
    facts_of,
    verified,
)

from rankd.core.engine import Engine
from rankd.core.steady_clock import AHEAD_MICROSECONDS, LASTING_SECONDS, ClockMonitor
from rankd.model.facts import WindowDropped, WindowOpened, WindowSealed
from rankd.model.window import Instant
from rankd.ports import Ledger

pytestmark = pytest.mark.anyio

SECOND = 1_000_000
LASTING = int(LASTING_SECONDS * SECOND)
YEAR = 365 * DAY
DAILY = {"rule": "sum", "windows": ["daily"], "retention": {"daily": "30d"}}


async def turns_of(ledger: Ledger) -> Sequence[tuple[str, str]]:
    """Return the turns that are recorded."""
    turns = (WindowOpened, WindowSealed, WindowDropped)
    facts = [one.fact for one in await facts_of(ledger)]
    return [(type(one).__name__, one.window) for one in facts if isinstance(one, turns)]


async def pass_time(rankd: Engine, machine: MachineClock, microseconds: int, step: int) -> None:
    """Let time pass, windows being looked at every ``step``."""
    for _ in range(microseconds // step):
        machine.run(step)
        await rankd.sealer.turn()


async def submit(rankd: Engine) -> str:
    """Submit a score; return the window in which it counts."""
    (answer,) = await rankd.submit("b", [{"player": "p", "score": 1}])
    assert answer.receipt is not None
    return answer.receipt.windows["daily"].window


@pytest.mark.parametrize("offset", [10 * YEAR, DAY, -DAY, -YEAR])
async def test_two_seconds_of_a_wrong_clock_move_no_window(offset: int) -> None:
    machine, ledger = MachineClock(), FaultyLedger()
    async with engine(ledger, machine) as rankd:
        await rankd.define("b", DAILY)
        machine.step(offset)
        await rankd.sealer.turn()
        assert await submit(rankd) == "daily:2026-11-14"
        await pass_time(rankd, machine, 2 * SECOND, SECOND)
        machine.step(-offset)
        assert await submit(rankd) == "daily:2026-11-14"
        assert await turns_of(ledger) == []
        assert [one.at for one in await facts_of(ledger)] == [NOON, NOON, NOON + 2 * SECOND]
        await verified(rankd)
    async with engine(ledger.anew(), machine) as rankd:
        assert await submit(rankd) == "daily:2026-11-14"


async def test_windows_go_on_turning_while_a_step_is_doubted() -> None:
    machine, ledger = MachineClock(NOON + 12 * HOUR - 5 * SECOND), FaultyLedger()
    async with engine(ledger, machine) as rankd:
        await rankd.define("b", DAILY)
        machine.step(YEAR)
        await pass_time(rankd, machine, 6 * SECOND, SECOND)
        assert await submit(rankd) == "daily:2026-11-15"
    assert await turns_of(ledger) == [
        ("WindowSealed", "daily:2026-11-14"),
        ("WindowOpened", "daily:2026-11-15"),
    ]


async def test_step_that_has_lasted_turns_windows_once() -> None:
    machine, ledger = MachineClock(), FaultyLedger()
    async with engine(ledger, machine) as rankd:
        await rankd.define("b", DAILY)
        machine.step(3 * DAY)
        await pass_time(rankd, machine, LASTING + SECOND, SECOND)
        assert await submit(rankd) == "daily:2026-11-17"
    assert await turns_of(ledger) == [
        ("WindowSealed", "daily:2026-11-14"),
        ("WindowOpened", "daily:2026-11-17"),
    ]


async def test_nothing_is_dropped_by_a_step_before_time_has_lasted() -> None:
    """Four closed days, kept for thirty: a clock that is sixty days ahead drops none of them."""
    machine, ledger = MachineClock(), FaultyLedger()
    async with engine(ledger, machine) as rankd:
        await rankd.define("b", DAILY)
        await pass_time(rankd, machine, 4 * DAY, HOUR)
        assert len(rankd.state.page("b").sealed) == 4
        machine.step(60 * DAY)
        await rankd.sealer.turn()
        assert rankd.clock.confirm() is not None
        await rankd.sealer.turn()
        assert len(rankd.state.page("b").sealed) == 5
        await pass_time(rankd, machine, LASTING - SECOND, SECOND)
        assert len(rankd.state.page("b").sealed) == 5
        await pass_time(rankd, machine, 2 * SECOND, SECOND)
        assert list(rankd.state.page("b").sealed) == ["daily:2026-11-18"]
        await verified(rankd)


async def test_nothing_is_dropped_at_a_start_before_time_has_lasted() -> None:
    machine, ledger = MachineClock(), FaultyLedger()
    async with engine(ledger, machine) as rankd:
        await rankd.define("b", DAILY)
        await pass_time(rankd, machine, 2 * DAY, HOUR)
    machine.step(60 * DAY)
    async with engine(ledger.anew(), machine) as rankd:
        await rankd.sealer.turn()
        assert len(rankd.state.page("b").sealed) == 3
        assert rankd._writer.turn_at == machine.now() + LASTING
        await pass_time(rankd, machine, LASTING, SECOND)
        assert len(rankd.state.page("b").sealed) == 1


async def test_processes_of_a_moment_drop_what_was_kept_enough() -> None:
    machine, ledger = MachineClock(), FaultyLedger()
    async with engine(ledger, machine) as rankd:
        await rankd.define("b", DAILY)
    for _ in range(40):
        machine.run(DAY)
        ledger = ledger.anew()
        async with engine(ledger, machine) as rankd:
            await submit(rankd)
    assert len(rankd.state.page("b").sealed) == 31


# ----------------------------------------------------------------------- second opinion


class ServedLedger(SharedLedger):
    """A ledger on a server that has a clock of its own."""

    clock: ClassVar[MachineClock]

    async def server_time(self) -> Instant:
        return self.clock.now()


async def test_node_with_a_wrong_clock_moves_nobody() -> None:
    server, ledger = MachineClock(), ServedLedger()
    ServedLedger.clock = server
    async with engine(ledger, MachineClock()) as right:
        await right.define("b", DAILY)
        wrong = MachineClock(NOON + 10 * YEAR)
        async with engine(ledger, wrong) as other:
            await other.sealer.turn()
            assert await submit(other) == "daily:2026-11-14"
            assert other.ledger_time == NOON
            assert other.clock_problem is not None and "server" in other.clock_problem
            assert other.clock_offset == -10 * YEAR
        assert await submit(right) == "daily:2026-11-14"
    assert await turns_of(ledger) == []


async def test_monitor_follows_the_server_through_steps_of_the_node() -> None:
    server, machine, ledger = MachineClock(), MachineClock(), ServedLedger()
    ServedLedger.clock = server
    async with engine(ledger, machine) as rankd:
        await rankd.define("b", DAILY)
        monitor = ClockMonitor(rankd.clock, ledger, lambda: rankd.ledger_time)
        for step in (YEAR, -2 * YEAR, YEAR):
            machine.step(step)
            for _ in range(2 * LASTING // (10 * SECOND)):
                machine.run(10 * SECOND)
                server.run(10 * SECOND)
                await monitor.look()
                await rankd.sealer.turn()
            assert rankd.ledger_time == server.now()
        assert rankd.clock_problem is None
    assert await turns_of(ledger) == []


# ----------------------------------------------------------------------------- reporting


async def test_ledger_that_is_ahead_of_the_clock_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ledger = FaultyLedger()
    async with engine(ledger, MachineClock(NOON + YEAR)) as rankd:
        await rankd.define("b", DAILY)
        assert rankd.clock_problem is None
    with caplog.at_level(logging.WARNING):
        async with engine(ledger.anew(), MachineClock()) as rankd:
            assert rankd.clock_problem is not None
            assert rankd.clock_offset == YEAR
    assert "ledger time is +365 days against the clock" in caplog.text


async def test_start_far_behind_the_last_fact_is_told(caplog: pytest.LogCaptureFixture) -> None:
    ledger = FaultyLedger()
    async with engine(ledger, MachineClock()) as rankd:
        await rankd.define("b", DAILY)
    with caplog.at_level(logging.WARNING):
        async with engine(ledger.anew(), MachineClock(NOON + AHEAD_MICROSECONDS)):
            assert caplog.text == ""
        async with engine(ledger.anew(), MachineClock(NOON + AHEAD_MICROSECONDS + 1)) as rankd:
            assert rankd.clock_problem is None
    assert "+31 days against the last fact" in caplog.text
    assert "rankd clock correct" in caplog.text  # Windows may have turned by then.


async def test_monitor_logs_the_beginning_and_the_end(caplog: pytest.LogCaptureFixture) -> None:
    machine, ledger = MachineClock(), FaultyLedger()
    async with engine(ledger, machine) as rankd:
        monitor = ClockMonitor(rankd.clock, ledger, lambda: rankd.ledger_time)
        with caplog.at_level(logging.WARNING, logger="rankd.core.steady_clock"):
            for _ in range(3):
                machine.step(YEAR)
                await monitor.look()
            machine.step(-3 * YEAR)
            await monitor.look()
    said = [one.getMessage() for one in caplog.records if one.funcName == "look"]
    assert len(said) == 2 and "stepped" in said[0] and "agree again" in said[1]

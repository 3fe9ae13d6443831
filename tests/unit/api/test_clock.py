"""The clock as operators see it: a doubted step is shown, and confirmed at their word."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.unit.api.handling import Working
from tests.unit.core.doubles import DAY, FaultyLedger, MachineClock, engine

from rankd.api.access import Gate
from rankd.api.service import Service

pytestmark = pytest.mark.anyio

SECOND = 1_000_000


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def on_machine(machine: MachineClock) -> AsyncIterator[Working]:
    ledger = FaultyLedger()
    async with engine(ledger, machine) as rankd:
        gate = Gate(lambda: rankd.book, loopback=True)
        yield Working(Service(rankd, ledger, gate, rankd.clock, False, rankd), machine, ledger)


async def test_clock_without_a_step_has_nothing_to_confirm() -> None:
    async with on_machine(MachineClock()) as at:
        shown = await at.told("get_clock")
        assert shown == {
            "ledger_time": "2026-11-14T12:00:00Z",
            "machine_time": "2026-11-14T12:00:00Z",
            "offset_seconds": 0,
            "step": None,
            "problem": None,
            "confirmed_seconds": None,
        }
        assert await at.told("confirm_clock") == shown


async def test_confirmed_step_moves_ledger_time_and_windows_at_once() -> None:
    machine = MachineClock()
    async with on_machine(machine) as at:
        await at.define(windows=["daily"])
        machine.step(2 * DAY)
        assert (await at.submit("p", 1))["windows"]["daily"]["window"] == "daily:2026-11-14"
        machine.run(5 * SECOND)
        shown = await at.told("get_clock")
        assert shown["step"] == {
            "offset_seconds": 2 * 86_400,
            "seen_seconds": 5,
            "believed_after_seconds": 600,
        }
        assert "rankd clock confirm" in shown["problem"]
        confirmed = await at.told("confirm_clock")
        assert confirmed["confirmed_seconds"] == 2 * 86_400
        assert (confirmed["step"], confirmed["problem"]) == (None, None)
        assert confirmed["ledger_time"] == "2026-11-16T12:00:05Z"
        assert (await at.submit("p", 2))["windows"]["daily"]["window"] == "daily:2026-11-16"
        assert (await at.told("confirm_clock"))["confirmed_seconds"] is None

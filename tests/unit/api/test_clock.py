"""The clock as operators see it: a doubted step is shown, and confirmed at their word."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.unit.api.handling import Working
from tests.unit.core.doubles import DAY, NOON, FaultyLedger, MachineClock, engine

from rankd.api.auth import Authenticator
from rankd.api.clock import AHEAD_SECONDS_MAX
from rankd.api.context import ServiceContext
from rankd.errors import InvalidRequest

pytestmark = pytest.mark.anyio

SECOND = 1_000_000


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def on_machine(machine: MachineClock) -> AsyncIterator[Working]:
    ledger = FaultyLedger()
    async with engine(ledger, machine) as rankd:
        auth = Authenticator(lambda: rankd.state, loopback=True)
        yield Working(
            ServiceContext(rankd, ledger, auth, rankd.clock, False, rankd), machine, ledger
        )


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


async def test_wrong_time_is_corrected_after_a_dry_run() -> None:
    machine = MachineClock(NOON + 400 * DAY)
    async with on_machine(machine) as at:
        await at.define(windows=["all", "daily"])
        await at.submit("p", 1)
        machine.step(-400 * DAY)
        await at.told("confirm_clock")
        assert "rankd clock correct" in (await at.told("get_clock"))["problem"]
        planned = await at.told("correct_clock", None, {"dry_run": True})
        board = {
            "board": "b",
            "opened": ["all", "daily:2026-11-14"],
            "restored": [],
            "removed": [],
        }
        assert planned == {
            "dry_run": True,
            "first": 1,
            "first_time": "2027-12-19T12:00:00Z",
            "previous_time": None,
            "ahead_seconds": 400 * 86_400,
            "submissions": 1,
            "boards": [board],
            "position": None,
        }
        done = await at.told("correct_clock", None, {"reason": "a dead battery"})
        assert done == planned | {"dry_run": False, "position": 4}
        shown = await at.told("get_clock")
        assert (shown["ledger_time"], shown["problem"]) == ("2026-11-14T12:00:00Z", None)
        standing = await at.told("get_standing", {"board": "b", "player": "p"}, window="daily")
        assert (standing["window"], standing["rank"]) == ("daily:2026-11-14", 1)
        facts = (await at.told("list_facts", after=2))["facts"]
        assert facts[0]["body"] == {
            "wrong": {
                "first": 1,
                "last": 2,
                "ahead_seconds": 400 * 86_400,
                "earliest": "1970-01-01T00:00:00Z",
                "latest": "2026-11-14T12:00:00Z",
            },
            "reason": "a dead battery",
        }
        history = await at.told("player_history", {"board": "b", "player": "p"})
        assert history["facts"][0]["at"] == "2026-11-14T12:00:00Z"
        assert len((await at.told("list_facts", until=NOON + 1))["facts"]) == 4


@pytest.mark.parametrize("seconds", [-1, AHEAD_SECONDS_MAX + 1])
async def test_correction_by_more_than_clocks_can_be_wrong_is_refused(seconds: float) -> None:
    async with on_machine(MachineClock()) as at:
        with pytest.raises(InvalidRequest, match="ahead_seconds"):
            await at.ask("correct_clock", None, {"ahead_seconds": seconds})

"""A ledger that fails is opened anew, and the engine goes on if nothing is missing there."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.core.callers import BOARD, refused, scores, submit
from tests.unit.core.doubles import DAY, ReopenableLedger, SetClock, engine, verified

from rankd import ports
from rankd.core import managers
from rankd.core.cluster import managers as cluster_managers
from rankd.core.projector import Projector
from rankd.errors import LedgerCorrupt, LedgerUnavailable

pytestmark = pytest.mark.anyio
PATIENCE_SECONDS = 60.0
_: type[ports.ReopenableLedger] = ReopenableLedger


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(managers, "REOPEN_SECONDS_MIN", 0.001)
    monkeypatch.setattr(managers, "REOPEN_SECONDS_MAX", 0.001)
    monkeypatch.setattr(managers, "SLEEP_SECONDS_MAX", 0.001)
    monkeypatch.setattr(cluster_managers, "SLEEP_SECONDS_MAX", 0.001)
    monkeypatch.setattr(managers, "RETRY_SECONDS", 0.001)
    monkeypatch.setattr(cluster_managers, "RETRY_SECONDS", 0.001)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not true():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.001)


def full() -> LedgerUnavailable:
    return LedgerUnavailable("no space is left on the disk", applied="no")


@pytest.mark.parametrize(
    ("applied", "done"), [("no", False), ("unknown", False), ("unknown", True)]
)
async def test_the_engine_goes_on_with_what_the_ledger_holds(
    applied: Any, done: bool, caplog: pytest.LogCaptureFixture
) -> None:
    ledger = ReopenableLedger()
    async with engine(ledger) as rankd:
        await rankd.define("b", BOARD)
        await submit(rankd, "p", 1, "before")
        ledger.fail(applied=applied, done=done)
        ledger.refusals = [full()] * 3
        with pytest.raises(LedgerUnavailable) as failed:
            await submit(rankd, "p", 10, "failing")
        assert failed.value.applied == applied
        assert "no fact is taken until the ledger is open again: injected" in caplog.text
        assert rankd.stale and not rankd.ended and not rankd.writable
        await refused(rankd)
        with pytest.raises(LedgerUnavailable, match="waits for its ledger: injected"):
            await rankd.define("c", BOARD)
        assert await scores(rankd) == {"p": 1}
        await until(lambda: rankd.failure is None)
        assert ledger.reopened == 4
        assert "facts are taken again" in caplog.text
        assert await scores(rankd) == {"p": 11 if done else 1}
        assert (await submit(rankd, "p", 10, "failing")).duplicate is done
        again = await submit(rankd, "p", 10, "failing")
        assert again.duplicate and again.receipt is not None, "its receipt is there"
        assert await scores(rankd) == {"p": 11}
        await verified(rankd)


async def test_an_engine_that_starts_without_writes_serves_reads_and_begins_to_write() -> None:
    ledger = ReopenableLedger()
    async with engine(ledger) as rankd:
        await rankd.define("b", BOARD)
        await submit(rankd, "p", 1)
    again = ReopenableLedger(ledger.inner)
    again.failure, again.refusals = full(), [full()] * 2
    async with engine(again) as rankd:
        assert await scores(rankd) == {"p": 1}
        assert rankd.stale and str(rankd.ledger_failure) == "no space is left on the disk"
        await refused(rankd)
        await until(lambda: rankd.failure is None)
        await submit(rankd, "p", 1)
        assert await scores(rankd) == {"p": 2}


async def test_nothing_waits_for_a_disk_that_does_not_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What is under way may be recorded, what comes after it is not, and reads may be stale."""
    ledger = ReopenableLedger()
    async with engine(ledger, silence_seconds=0.2) as rankd:
        await rankd.define("b", BOARD)
        await submit(rankd, "p", 1)
        ledger.answers.clear()
        async with asyncio.timeout(PATIENCE_SECONDS):
            with pytest.raises(LedgerUnavailable, match="has not answered for") as under_way:
                await submit(rankd, "p", 10, "under way")
            assert under_way.value.applied == "unknown"
            assert rankd.stale and not rankd.ended and not rankd.writable
            await until(lambda: ledger.reopened == 1)
            await refused(rankd)
            with pytest.raises(LedgerUnavailable) as change:
                await rankd.redefine("b", {**BOARD, "title": "B"})
            assert change.value.applied == "no"
            assert await scores(rankd) == {"p": 1}
        assert "the disk has not answered for 0.2 s" in caplog.text
        ledger.answers.set()
        await until(lambda: rankd.failure is None)
        assert await scores(rankd) == {"p": 11}, "the append that was under way is there"
        assert (await submit(rankd, "p", 10, "under way")).duplicate
        await verified(rankd)


async def test_a_program_waits_for_its_disk() -> None:
    ledger = ReopenableLedger()
    async with engine(ledger) as rankd:
        await rankd.define("b", BOARD)
        ledger.answers.clear()
        submitting = asyncio.ensure_future(submit(rankd, "p", 1))
        await asyncio.sleep(0.05)
        assert not submitting.done() and rankd.failure is None
        ledger.answers.set()
        assert (await submitting).receipt is not None


async def test_a_ledger_that_lacks_facts_ends_the_engine_for_good(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ledger = ReopenableLedger()
    async with engine(ledger) as rankd:
        await rankd.define("b", BOARD)
        ledger.fail(applied="unknown")
        ledger.refusals = [full(), LedgerCorrupt("the ledger ends at 0")]
        with pytest.raises(LedgerUnavailable):
            await submit(rankd, "p", 1)
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert str(await rankd.end()) == "the ledger ends at 0"
        assert rankd.ended and rankd.stale
        assert "no fact is taken any more; start anew: the ledger ends at 0" in caplog.text
        with pytest.raises(LedgerUnavailable, match="has stopped; open it anew: the ledger ends"):
            await submit(rankd, "p", 1)
        asked = ledger.reopened
        await asyncio.sleep(0.02)
        assert ledger.reopened == asked


async def test_a_fold_that_fails_ends_the_engine_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = ReopenableLedger()
    async with engine(ledger) as rankd:
        await rankd.define("b", BOARD)

        async def broken(*_: Any) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(Projector, "fold", broken)
        with pytest.raises(LedgerUnavailable) as failed:
            await submit(rankd, "p", 1)
        assert failed.value.applied == "unknown"
        assert rankd.ended and not ledger.reopened


async def test_windows_turn_once_the_ledger_is_back(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    clock, ledger = SetClock(), ReopenableLedger()
    async with engine(ledger, clock) as rankd:
        await rankd.define("b", {"windows": ["daily"]})
        ledger.fail(applied="unknown")
        ledger.refusals = [full()] * 20
        clock.time += DAY
        await until(lambda: rankd.failure is not None)
        await until(lambda: "daily:2026-11-14" in rankd.state.page("b").sealed)
        assert rankd.failure is None

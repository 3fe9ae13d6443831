"""The writer: never a wrong word about what became of a fact, whatever fails."""

import asyncio
from typing import Any

import pytest
from tests.unit.core.callers import (
    BOARD,
    refused,
    scores,
    submit,
    until_waiting,
)
from tests.unit.core.doubles import FaultyLedger, engine, facts_of, verified

from rankd.adapters.memory.index import NativeIndex
from rankd.core.recovery import IndexHome
from rankd.core.window_schedule import Schedule
from rankd.errors import LedgerUnavailable
from rankd.model.facts import Fact

pytestmark = pytest.mark.anyio

# ---------------------------------------------------------------------- ledgers that fail


@pytest.mark.parametrize(
    ("applied", "done"), [("no", False), ("unknown", False), ("unknown", True)]
)
async def test_a_failed_append_is_told_as_the_ledger_tells_it(applied: Any, done: bool) -> None:
    ledger = FaultyLedger()
    async with engine(ledger) as rankd:
        await rankd.define("b", BOARD)
        await submit(rankd, "p", 1, "before")
        before = ledger.begun
        ledger.hold()
        ledger.fail(applied=applied, done=done)
        failing = [asyncio.create_task(submit(rankd, "p", 10, f"f{n}")) for n in range(2)]
        await ledger.asked(before + 1)
        waiting = [asyncio.create_task(submit(rankd, "p", 100, f"w{n}")) for n in range(2)]
        await until_waiting(*failing, *waiting)
        ledger.release()
        for task, word in [(one, applied) for one in failing] + [(one, "no") for one in waiting]:
            with pytest.raises(LedgerUnavailable) as refusal:
                await task
            assert refusal.value.applied == word
        await refused(rankd)
        assert rankd.failure is not None
        assert await scores(rankd) == {"p": 1}  # Reads go on.
    again = ledger.anew()
    async with engine(again) as rankd:
        assert await scores(rankd) == {"p": 21 if done else 1}
        for number in range(2):
            assert (await submit(rankd, "p", 10, f"f{number}")).duplicate is done
            assert not (await submit(rankd, "p", 100, f"w{number}")).duplicate
        assert await scores(rankd) == {"p": 221}
        await verified(rankd)


async def test_an_error_that_is_not_the_ledgers_own_leaves_the_outcome_unknown() -> None:
    ledger = FaultyLedger()
    async with engine(ledger) as rankd:
        await rankd.define("b", BOARD)
        ledger.fail(error=RuntimeError("injected"), done=True)
        with pytest.raises(LedgerUnavailable) as refusal:
            await submit(rankd, "p", 1)
        assert refusal.value.applied == "unknown"
        await refused(rankd)


async def test_receipts_that_a_failed_append_brought_are_still_owed() -> None:
    ledger = FaultyLedger()
    async with engine(ledger) as rankd:
        await rankd.define("b", BOARD)
        first = await submit(rankd, "p", 1, "k")
        ledger.fail(applied="unknown")
        with pytest.raises(LedgerUnavailable):
            await submit(rankd, "p", 2)
    async with engine(ledger.anew()) as rankd:
        again = await submit(rankd, "p", 1, "k")
        assert (again.duplicate, again.receipt) == (True, first.receipt)


# ------------------------------------------------------------------------ folds that fail


class FailingIndex(NativeIndex):
    """An index whose next judging fails, before anything is moved."""

    failing: BaseException | None = None

    async def judge(self, *args: Any, **named: Any) -> Any:
        if self.failing is not None:
            raise self.failing
        return await super().judge(*args, **named)


@pytest.mark.parametrize("error", [MemoryError(), LedgerUnavailable("injected", applied="no")])
async def test_a_fold_that_fails_never_means_no(error: Exception) -> None:
    """The fact is in the ledger by then, whatever the fold says of itself."""
    ledger, index = FaultyLedger(), FailingIndex()
    async with engine(ledger, build=lambda: IndexHome(index, None)) as rankd:
        await rankd.define("b", BOARD)
        index.failing = error
        with pytest.raises(LedgerUnavailable) as refusal:
            await submit(rankd, "p", 1, "k")
        assert refusal.value.applied == "unknown"
        await refused(rankd)
    async with engine(ledger.anew()) as rankd:
        assert (await submit(rankd, "p", 1, "k")).duplicate
        assert await scores(rankd) == {"p": 1}


async def test_a_redefinition_whose_fold_cannot_read_the_ledger_never_means_no() -> None:
    ledger = FaultyLedger()
    async with engine(ledger) as rankd:
        await rankd.define("b", BOARD)
        await submit(rankd, "p", 1)
        before = ledger.begun
        ledger.hold()
        redefining = asyncio.create_task(rankd.redefine("b", {**BOARD, "rule": "best"}))
        await ledger.asked(before + 1)
        rankd.projector.drafts.clear()  # As with an index made anew meanwhile.
        ledger.read_failure = LedgerUnavailable("injected", applied="no")
        ledger.release()
        with pytest.raises(LedgerUnavailable) as refusal:
            await redefining
        there = rankd_rules(await facts_of(ledger.anew()))
        assert there == ["sum", "best"]
        assert refusal.value.applied == "unknown"
    async with engine(ledger.anew()) as rankd:
        assert rankd.state.page("b").board.rule == "best"
        await verified(rankd)


def rankd_rules(facts: Any) -> list[str]:
    return [one.fact.definition["rule"] for one in facts if hasattr(one.fact, "definition")]


async def test_windows_that_cannot_be_told_leave_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever goes wrong in the writer, callers hear of it."""
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {"rule": "sum", "windows": ["daily"]})

        def fails(*_: object) -> list[Fact]:
            raise OverflowError("injected")

        monkeypatch.setattr(Schedule, "due", fails)
        monkeypatch.setattr(rankd._writer, "_turn_at", 0)
        async with asyncio.timeout(30):
            with pytest.raises(LedgerUnavailable):
                await submit(rankd, "p", 1)
            with pytest.raises(LedgerUnavailable):
                await submit(rankd, "p", 1)

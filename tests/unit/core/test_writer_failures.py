"""The writer: never a wrong word about what became of a fact, whatever fails."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.unit.core.callers import (
    BOARD,
    friends,
    intake_of,
    refused,
    scores,
    submit,
    until_waiting,
)
from tests.unit.core.doubles import FaultyLedger, LosableLedger, engine, facts_of, verified

from rankd.adapters.memory.index import NativeIndex
from rankd.core.recovery import IndexHome
from rankd.core.window_schedule import Schedule
from rankd.core.writer import _PendingWrite, _waits
from rankd.errors import LedgerUnavailable
from rankd.model.board import Board
from rankd.model.facts import Fact, ScoreSubmitted

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


# ------------------------------------------------------------------ ledgers that are lost

SCORE = ScoreSubmitted("b", "p", scores=(1,))


class HeldSpool:
    """A spool that keeps nothing before it is let."""

    def __init__(self) -> None:
        self.kept: list[Fact] = []
        self.asked, self.open = asyncio.Event(), asyncio.Event()

    @property
    def waiting(self) -> int:
        return len(self.kept)

    async def put(self, facts: Sequence[Fact]) -> None:
        self.asked.set()
        await self.open.wait()
        self.kept += facts

    async def first(self, limit: int) -> tuple[int, Sequence[Fact]]:
        raise NotImplementedError

    async def drop(self, through: int) -> None:
        raise NotImplementedError


async def refusal_of(putting: "asyncio.Task[Any]") -> str:
    async with asyncio.timeout(30):
        with pytest.raises(LedgerUnavailable) as refusal:
            await putting
    return refusal.value.applied


async def test_what_waits_behind_an_append_is_refused_when_the_ledger_is_lost() -> None:
    """Though nobody knows yet what became of the append itself."""
    ledger = LosableLedger()
    writer = intake_of(ledger, batch_max=2)
    serving = asyncio.create_task(writer.run())
    ledger.hold()
    first = asyncio.create_task(writer.put(friends(0)))
    await ledger.asked(1)
    behind = [asyncio.create_task(writer.put(friends(n))) for n in range(1, 6)]
    await until_waiting(first, *behind)
    ledger.lose()
    assert [await refusal_of(one) for one in behind] == ["no"] * 5
    late = asyncio.create_task(writer.put(friends(6)))
    assert await refusal_of(late) == "no"
    assert not first.done() and writer.waiting == 0

    ledger.find()
    after = asyncio.create_task(writer.put(friends(7)))
    await until_waiting(first, after)
    ledger.fail(applied="unknown", done=True)
    ledger.release()
    assert await refusal_of(first) == "unknown"
    await after
    assert [one.fact for one in await facts_of(ledger)] == [*friends(0), *friends(7)]
    writer.close()
    await serving


async def test_whoever_wants_the_writer_does_not_wait_behind_an_append_to_a_lost_ledger() -> None:
    """Boards and look-ups of others' facts are refused as soon as scores are."""
    ledger = LosableLedger()
    writer = intake_of(ledger)
    serving = asyncio.create_task(writer.run())
    ledger.hold()
    first = asyncio.create_task(writer.put(friends(0)))
    await ledger.asked(1)

    async def hold_the_writer() -> None:
        async with writer.turn():
            pass

    gone = asyncio.create_task(hold_the_writer())
    waiting = asyncio.create_task(hold_the_writer())
    await until_waiting(first, gone, waiting)
    gone.cancel()
    ledger.lose()
    assert await refusal_of(waiting) == "no"
    assert await refusal_of(asyncio.create_task(hold_the_writer())) == "no"

    ledger.find()
    next_one = asyncio.create_task(hold_the_writer())
    await until_waiting(first, next_one)
    ledger.release()
    await asyncio.gather(first, next_one)
    async with writer.turn():
        pass
    writer.close()
    await serving


async def test_reads_say_that_the_ledger_is_lost_as_soon_as_it_is_known() -> None:
    """Though whoever follows it is still waiting for an answer."""
    ledger = LosableLedger()
    async with engine(ledger) as rankd:
        await rankd.define("b", BOARD)
        assert not rankd.stale
        ledger.lose()
        async with asyncio.timeout(30):
            while not rankd.stale:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0)
        revision = rankd.state.revision
        tail, _ = rankd.ledger_watches
        assert isinstance(rankd.failure, LedgerUnavailable) and tail.failure is None
        ledger.find()
        async with asyncio.timeout(30):
            while rankd.stale:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0)
        assert rankd.state.revision > revision


@pytest.mark.parametrize(
    ("facts", "prizes", "waits"),
    [
        ([SCORE], [], True),
        ([SCORE], [False], True),
        ([SCORE], [True], False),
        ([SCORE, SCORE], [False, True], False),
        ([SCORE, *friends(0)], [False], False),
        (friends(0), [], False),
    ],
)
def test_only_submissions_are_spooled_and_none_for_a_prize(
    facts: list[Fact], prizes: list[bool], waits: bool
) -> None:
    """Whoever plays for a prize must not be told later that another was before."""
    boards = [
        Board.define(f"b{place}", {"windows": ["all"], "prize": prize})
        for place, prize in enumerate(prizes)
    ]
    assert _waits(_PendingWrite(facts, boards, lambda _: None)) is waits


async def test_a_submission_for_a_prize_is_refused_where_others_wait() -> None:
    ledger, spool = LosableLedger(), HeldSpool()
    writer = intake_of(ledger)
    writer.spool = spool
    spool.open.set()
    prize = Board.define("prize", {"windows": ["all"], "prize": True})
    told: list[object] = []
    await writer._turn_away(
        [_PendingWrite([SCORE], [prize], told.append), _PendingWrite([SCORE], [], told.append)],
        LedgerUnavailable("it is lost", applied="no"),
    )
    waiting, refused = told
    assert isinstance(refused, LedgerUnavailable) and refused.applied == "no"
    assert isinstance(waiting, list) and len(spool.kept) == 1


async def test_the_writer_goes_on_if_nobody_can_look_whether_the_ledger_is_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Unclear(LosableLedger):
        async def lost(self) -> LedgerUnavailable:
            raise TypeError("injected")

    async with engine(Unclear()) as rankd:
        await rankd.define("b", BOARD)
        assert (await submit(rankd, "p", 1)).position
        assert "refuser failed; restart in" in caplog.text


async def test_what_waits_behind_an_append_is_spooled_when_the_ledger_is_lost() -> None:
    """And whoever is being told by then is told, though the writer is closed."""
    ledger, spool = LosableLedger(), HeldSpool()
    writer = intake_of(ledger)
    writer.spool = spool
    serving = asyncio.create_task(writer.run())
    ledger.hold()
    first = asyncio.create_task(writer.put(friends(0)))
    await ledger.asked(1)
    behind = asyncio.create_task(writer.put([ScoreSubmitted("b", "p", scores=(1,), key="k")]))
    no_score = asyncio.create_task(writer.put(friends(1)))
    await until_waiting(first, behind, no_score)
    ledger.lose()
    await spool.asked.wait()
    ledger.find()
    ledger.release()
    await first
    writer.close()
    await until_waiting(serving, behind)
    spool.open.set()
    (answer,) = await behind
    assert answer.pending is not None and spool.kept == [answer.pending]
    assert await refusal_of(no_score) == "no"
    await serving
    assert await ledger.head() == 1


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

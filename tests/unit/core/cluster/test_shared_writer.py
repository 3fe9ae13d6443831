"""The writer of one node among several: no caller waits for a ledger that is lost."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.unit.core.callers import (
    BOARD,
    friends,
    intake_of,
    submit,
    until_waiting,
)
from tests.unit.core.doubles import LosableLedger, engine, facts_of

from rankd.core.cluster.shared_writer import _waits
from rankd.core.writer import PendingWrite
from rankd.errors import LedgerUnavailable
from rankd.model.board import Board
from rankd.model.facts import Fact, ScoreSubmitted

pytestmark = pytest.mark.anyio


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
    assert _waits(PendingWrite(facts, boards, lambda _: None)) is waits


async def test_a_submission_for_a_prize_is_refused_where_others_wait() -> None:
    ledger, spool = LosableLedger(), HeldSpool()
    writer = intake_of(ledger)
    writer.spool = spool
    spool.open.set()
    prize = Board.define("prize", {"windows": ["all"], "prize": True})
    told: list[object] = []
    await writer._turn_away(
        [PendingWrite([SCORE], [prize], told.append), PendingWrite([SCORE], [], told.append)],
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

"""The fold: whichever way facts go through it, and wherever they are parted, they mean the same."""

import asyncio
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.core.doubles import (
    FaultyLedger,
    MovesIndex,
    SetClock,
    engine,
    facts_of,
    state_of,
)
from tests.unit.core.histories import STEPS, History, Step

from rankd.adapters.memory.index import NativeIndex
from rankd.core.book import Book
from rankd.core.projector import Projector
from rankd.model.facts import Position, Recorded
from rankd.ports import Ledger


class Folded:
    """Facts of a ledger folded once more, cut into batches."""

    def __init__(self, ledger: Ledger, index: NativeIndex) -> None:
        self.projector = Projector(ledger=ledger, index=index, book=Book())
        self.receipts: dict[Position, bytes] = {}

    async def fold(self, facts: Sequence[Recorded], cuts: Sequence[int]) -> "Folded":
        ends = sorted({cut % (len(facts) + 1) for cut in cuts} | {len(facts)})
        for first, end in zip([0, *ends], ends, strict=False):
            if some := facts[first:end]:
                told = await self.projector.fold(some)
                self.receipts |= {at: receipt.encode() for at, receipt in told.items()}
        return self


async def folded_every_way(steps: Sequence[Sequence[Step]], cuts: Sequence[int]) -> None:
    ledger, clock = FaultyLedger(), SetClock()
    async with engine(ledger, clock) as rankd:
        history = History(rankd, clock)
        await history.live(steps)
        assert rankd.failure is None
        facts = await facts_of(ledger)
        living = rankd.reader.projector
        for index in (NativeIndex, MovesIndex):
            for parted in ([], cuts, range(len(facts))):
                again = await Folded(ledger, index()).fold(facts, list(parted))
                if facts:
                    assert state_of(again.projector) == state_of(living)
                assert history.receipts.items() <= again.receipts.items()


@given(STEPS, st.lists(st.integers(0, 1_000), max_size=4))
def test_facts_mean_the_same_in_place_and_in_moves_and_wherever_they_are_parted(
    steps: Sequence[Sequence[Step]], cuts: Sequence[int]
) -> None:
    asyncio.run(folded_every_way(steps, cuts))

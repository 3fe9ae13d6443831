"""The fold: whichever way facts go through it, and wherever they are parted, they mean the same."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.core.doubles import (
    FarIndex,
    FaultyLedger,
    MovesIndex,
    SetClock,
    engine,
    facts_of,
    state_of,
)
from tests.unit.core.histories import STEPS, History, Step

from rankd.adapters.memory.index import NativeIndex
from rankd.core import fold_parts
from rankd.core.player_boards import SWEPT_TOGETHER
from rankd.core.projector import Projector
from rankd.core.state import State
from rankd.model.facts import Position, Recorded
from rankd.model.receipt import Receipt
from rankd.model.standing import Rank
from rankd.ports import Ledger, Placed, RankIndex, Ranking, Run, SegmentChange, Verdicts

pytestmark = pytest.mark.anyio


class Folded:
    """Facts of a ledger folded once more, cut into batches."""

    def __init__(self, ledger: Ledger, index: RankIndex | FarIndex) -> None:
        self.projector = Projector(ledger=ledger, index=cast("RankIndex", index), state=State())
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
        for bound in ("IN_MOVES_COST_MAX", "IN_PLACE_COST_MAX"):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(fold_parts, bound, 1)
                again = await Folded(ledger, NativeIndex()).fold(facts, [])
                if facts:
                    assert state_of(again.projector) == state_of(living)


@given(STEPS, st.lists(st.integers(0, 1_000), max_size=4))
def test_facts_mean_the_same_in_place_and_in_moves_and_wherever_they_are_parted(
    steps: Sequence[Sequence[Step]], cuts: Sequence[int]
) -> None:
    asyncio.run(folded_every_way(steps, cuts))


# ---------------------------------------------------------- several things in one batch


async def recorded(*steps: Step) -> tuple[FaultyLedger, Sequence[Recorded]]:
    """Return what an engine records, each step in a commit of its own."""
    ledger, clock = FaultyLedger(), SetClock()
    async with engine(ledger, clock) as rankd:
        await History(rankd, clock).live([[step] for step in steps])
    return ledger, await facts_of(ledger)


def submit(player: str, score: int, region: str | None = None, metadata: int | None = None) -> Step:
    return "submit", ("arena", player, score, False, None, region, metadata)


REGIONS = {"rule": "best", "windows": ["daily"], "segments": ["region"]}
BOTH = pytest.mark.parametrize("index", [NativeIndex, MovesIndex])


@BOTH
async def test_a_board_retired_in_one_batch_with_its_segments_leaves_nothing(
    index: type[NativeIndex],
) -> None:
    ledger, facts = await recorded(
        ("define", ("arena", REGIONS)), submit("ann", 1, "eu"), ("retire", ("arena",))
    )
    folded = await Folded(ledger, index()).fold(facts, [])
    assert await folded.projector.index.rankings("arena") == []


@BOTH
async def test_a_window_dropped_in_one_batch_with_its_opening_leaves_nothing(
    index: type[NativeIndex],
) -> None:
    kept = {**REGIONS, "retention": {"daily": "1h"}}
    ledger, facts = await recorded(
        ("define", ("arena", kept)),
        ("pass", (24,)),
        submit("ann", 1, "eu"),
        ("pass", (24,)),
        ("pass", (2,)),
    )
    folded = await Folded(ledger, index()).fold(facts, [])
    rankings = await folded.projector.index.rankings("arena")
    assert [ranking.window for ranking in rankings] == ["daily:2026-11-16"]


@BOTH
async def test_a_receipt_is_told_in_the_unit_of_its_time_though_it_changed_in_its_batch(
    index: type[NativeIndex],
) -> None:
    ledger, facts = await recorded(
        ("define", ("arena", REGIONS)),
        submit("ann", 1, "eu"),
        ("redefine", ("arena", {**REGIONS, "decimals": 2})),
    )
    folded = await Folded(ledger, index()).fold(facts, [])
    assert Receipt.decode(folded.receipts[Position(2)]).decimals == 0


# ------------------------------------------------------------------------------- segments


async def in_segments(
    ledger: FaultyLedger, facts: Sequence[Recorded], cuts: Sequence[int] = ()
) -> dict[str, list[Placed]]:
    index = NativeIndex()
    await Folded(ledger, index).fold(facts, cuts)
    index.check()
    found = {}
    for region in ("eu", "us"):
        ranking = Ranking("arena", "daily:2026-11-14", f"region:{region}")
        found[region] = list((await index.read(ranking, first=Rank(1), limit=10)).entries)
    return found


async def test_who_changes_segments_takes_entry_and_metadata_along() -> None:
    ledger, facts = await recorded(
        ("define", ("arena", REGIONS)),
        submit("ann", 1, "eu", 7),
        submit("bob", 2, "eu"),
        ("profile", ("ann", "us")),
    )
    found = await in_segments(ledger, facts)
    assert [entry.player for entry in found["eu"]] == ["bob"]
    assert [(entry.player, entry.metadata) for entry in found["us"]] == [("ann", b'{"run":7}')]


async def test_segments_are_those_of_the_last_attributes_in_a_batch() -> None:
    ledger, facts = await recorded(
        ("define", ("arena", REGIONS)),
        submit("ann", 1, "eu", 7),
        submit("bob", 1, "eu", 7),
        submit("ann", 3, "us", 8),
        submit("ann", 2, "eu", 9),
        submit("bob", 0, "us"),
    )
    for cuts in ([], [3]):
        found = await in_segments(ledger, facts, cuts)
        assert [(entry.player, entry.metadata) for entry in found["eu"]] == [("ann", b'{"run":8}')]
        assert [(entry.player, entry.metadata) for entry in found["us"]] == [("bob", b'{"run":7}')]


async def test_who_is_forgotten_is_in_no_segment() -> None:
    ledger, facts = await recorded(
        ("define", ("arena", REGIONS)), submit("ann", 1, "eu"), ("erase", ("ann",))
    )
    assert await in_segments(ledger, facts) == {"eu": [], "us": []}


async def test_who_is_known_before_the_board_is_in_its_segment() -> None:
    ledger, facts = await recorded(
        ("profile", ("ann", "us")), ("define", ("arena", REGIONS)), submit("ann", 1)
    )
    assert [entry.player for entry in (await in_segments(ledger, facts))["us"]] == ["ann"]


# ------------------------------------------------------------------- cost of attributes


class CountingIndex(NativeIndex):
    """An index that counts the entries it is asked for, and the submissions it judges itself."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = self.judged = 0

    async def order_keys(
        self, entries: Sequence[tuple[Ranking, str]], at: Position | None = None
    ) -> Sequence[bytes | None]:
        self.asked += len(entries)
        return await super().order_keys(entries, at)

    async def judge(
        self,
        runs: Sequence[Run],
        *,
        after: Position,
        through: Position,
        changes: Sequence[SegmentChange] = (),
    ) -> Sequence[Sequence[Verdicts]] | None:
        self.judged += sum(len(run.players) for run in runs)
        return await super().judge(runs, after=after, through=through, changes=changes)


BOARDS_BESIDE = 50
LASTING = {"rule": "best", "windows": ["all"], "segments": ["region"]}
PLAIN = {"rule": "best", "windows": ["all"]}


async def counted_for(*steps: Step, definition: Mapping[str, object] = LASTING) -> CountingIndex:
    """Return what the last of some steps asks of an index with many boards."""
    beside = [("define", (f"beside-{n}", LASTING)) for n in range(BOARDS_BESIDE)]
    ledger, facts = await recorded(*beside, ("define", ("arena", definition)), *steps)
    index = CountingIndex()
    folded = Folded(ledger, index)
    await folded.fold(facts[:-1], [])
    index.asked = index.judged = 0
    await folded.fold(facts[-1:], [])
    return index


async def test_changed_attributes_are_looked_up_where_their_player_is() -> None:
    before = (submit("ann", 1, "eu"), submit("bob", 1, "eu"))
    index = await counted_for(*before, ("profile", ("ann", "us")))
    assert index.asked == 1
    index = await counted_for(*before, submit("ann", 2, "us"))
    assert (index.asked, index.judged) == (0, 1)


async def test_changed_attributes_without_a_segment_cost_no_lookup() -> None:
    definition = {**LASTING, "segments": ["league"]}
    index = await counted_for(
        submit("ann", 1, "eu"), ("profile", ("ann", "us")), definition=definition
    )
    assert index.asked == 0


async def test_unchanged_attributes_cost_no_lookup_of_their_own() -> None:
    index = await counted_for(submit("ann", 1, "eu"), submit("ann", 2, "eu"))
    assert index.asked == 0
    index = await counted_for(submit("ann", 1, "eu"), ("profile", ("ann", "eu")))
    assert index.asked == 0


async def test_unchanged_attributes_are_judged_in_place() -> None:
    for definition in (PLAIN, LASTING, DENSE):
        index = await counted_for(
            submit("ann", 1, "eu"), submit("ann", 2, "eu"), definition=definition
        )
        assert (index.asked, index.judged) == (0, 1)


async def test_changed_attributes_are_looked_up_where_segments_came_later() -> None:
    index = await counted_for(
        submit("ann", 1, "eu"),
        ("redefine", ("arena", LASTING)),
        ("profile", ("ann", "us")),
        definition=PLAIN,
    )
    assert index.asked == 1
    assert await index.count(Ranking("arena", "all", "region:us")) == 1


async def test_retired_boards_leave_no_entrants() -> None:
    players = [f"p{number}" for number in range(2 * SWEPT_TOGETHER)]
    ledger, facts = await recorded(
        ("define", ("arena", LASTING)),
        *[submit(player, 1) for player in players],
        ("retire", ("arena",)),
        ("define", ("arena", PLAIN)),
        submit("ann", 1),
        submit("ann", 1),
    )
    folded = await Folded(ledger, NativeIndex()).fold(facts, range(len(facts)))
    assert len(folded.projector.state.player_boards) == 0


# --------------------------------------------------------------- turns for who reads

DENSE = {"rule": "best", "windows": ["all", "daily"], "ties": "dense"}
MANY = 1_500


@BOTH
@pytest.mark.parametrize("region", [None, "eu"])
async def test_readers_have_their_turns_between_parts_of_bounded_cost(
    index: type[NativeIndex], region: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fold_parts, "IN_PLACE_COST_MAX", fold_parts.IN_MOVES_COST_MAX)
    ledger, facts = await recorded(
        ("define", ("arena", DENSE)), *[submit(f"p{n}", n % 7, region) for n in range(MANY)]
    )
    projector = Folded(ledger, index()).projector
    seen: set[tuple[int, ...]] = set()

    async def read() -> None:
        while projector.checkpoint < facts[-1].position:
            daily = Ranking("arena", "daily:2026-11-14")
            counts = [await projector.index.count(at) for at in (Ranking("arena", "all"), daily)]
            seen.add((projector.checkpoint, await projector.index.checkpoint(), *counts))
            await asyncio.sleep(0)

    reading = asyncio.create_task(read())
    await asyncio.sleep(0)
    await projector.fold(facts)
    await reading
    assert len(seen) > 2 * MANY // fold_parts.IN_MOVES_COST_MAX
    for position, index_at, *counts in seen - {(0, 0, 0, 0)}:
        assert index_at == position
        assert set(counts) == {position - 1}  # The first fact is the definition.


async def test_changes_of_segments_count_as_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold_parts, "IN_PLACE_COST_MAX", 12)  # Of which each takes 4.
    ledger, facts = await recorded(
        ("define", ("arena", LASTING)),
        *[submit(f"p{n}", 1, "eu") for n in range(4)],
        *[submit(f"p{n}", 2, "us") for n in range(4)],
    )
    folded = await Folded(ledger, NativeIndex()).fold(facts[:5], [])
    parts = folded.projector.parted(facts[5:])
    assert [len(part.facts) for part in parts] == [3, 1]


async def test_readers_have_their_turns_while_moves_for_a_far_index_are_made() -> None:
    ledger, facts = await recorded(
        ("define", ("arena", DENSE)), *[submit(f"p{n}", n) for n in range(MANY)]
    )
    projector = Folded(ledger, FarIndex()).projector
    await projector.fold(facts[:1])
    after, turns = projector.checkpoint, 0
    entries = await projector.entries_of(facts[1:], after=after)
    begin = asyncio.create_task(projector.begin(facts[1:], entries, after=after))
    while not begin.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns >= len(begin.result().moves) // fold_parts.IN_MOVES_COST_MAX > 1


async def test_the_lock_of_readers_is_let_go_between_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fold_parts, "IN_PLACE_COST_MAX", fold_parts.IN_MOVES_COST_MAX)
    ledger, facts = await recorded(
        ("define", ("arena", DENSE)), *[submit(f"p{n}", n) for n in range(MANY)]
    )
    projector = Folded(ledger, NativeIndex()).projector
    held: list[Position] = []

    class Lock(AbstractContextManager[None]):
        def __enter__(self) -> None:
            held.append(projector.checkpoint)

        def __exit__(self, *_: object) -> None:
            pass

    await projector.fold(facts, reading=Lock())
    assert len(held) > MANY * 2 // fold_parts.IN_MOVES_COST_MAX
    assert held == sorted(set(held))

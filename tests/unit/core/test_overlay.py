"""An overlay: what its view adds and takes, what it asks of its base, and which errors pass."""

from collections.abc import Sequence
from typing import Any, ClassVar

import pytest
from tests.unit.core.doubles import FarIndex, FaultyLedger, SetClock, engine

from rankd.adapters.memory.index import NativeIndex
from rankd.adapters.memory.shared_index import MemorySharedIndex, SharedMemory
from rankd.core.overlay import UNPLACED_MAX, EntryChange, Overlay
from rankd.core.projector import Projector
from rankd.core.reader import Reader
from rankd.errors import IndexForgot, IndexUnavailable, NotRanked
from rankd.model.facts import Position
from rankd.model.standing import Offset, Rank, TieRule
from rankd.ports import EntryRange, Move, Placed, RankIndex, Ranking, RankingShape

pytestmark = pytest.mark.anyio
RANKING, OTHER = Ranking("b", "all"), Ranking("c", "all")
WHOLE = 1_000


def key(score: int, tie: int = 1) -> bytes:
    return score.to_bytes(8, "big") + tie.to_bytes(8, "big")


def placed(player: str, score: int, tie: int = 1, metadata: bytes | None = None) -> Placed:
    return Placed(player, key(score, tie), metadata)


def adds(*entries: Placed) -> dict[str, EntryChange]:
    return {entry.player: EntryChange(None, entry) for entry in entries}


def removes(*entries: Placed) -> dict[str, EntryChange]:
    return {entry.player: EntryChange(entry, None) for entry in entries}


class CountingIndex(NativeIndex):
    """An index that counts its calls, and the entries it was asked for."""

    immediate: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.entries = 0

    async def rank(self, *args: Any, **named: Any) -> Any:
        self.calls.append("rank")
        return await super().rank(*args, **named)

    async def count_below(self, *args: Any, **named: Any) -> Offset:
        self.calls.append("count_below")
        return await super().count_below(*args, **named)

    async def scores_below(self, *args: Any, **named: Any) -> Offset:
        self.calls.append("scores_below")
        return await super().scores_below(*args, **named)

    async def read(
        self, ranking: Ranking, *, first: Rank, limit: int, at: Position | None = None
    ) -> EntryRange:
        self.calls.append("read")
        self.entries += limit
        return await super().read(ranking, first=first, limit=limit, at=at)


async def filled(index: Any, entries: Sequence[Placed], dense: bool = True) -> Any:
    moves = [Move(RANKING, *entry) for entry in entries]
    opened = {RANKING: RankingShape(16, dense), OTHER: RankingShape(16, dense)}
    await index.apply(
        [*moves, Move(OTHER, "ann", key(9))], after=Position(0), through=Position(5), opened=opened
    )
    return index


async def players(view: Overlay, first: int = 1, limit: int = WHOLE) -> list[str]:
    page = await view.read(RANKING, first=Rank(first), limit=limit)
    return [entry.player for entry in page.entries]


ANN, BOB, CYD, DEE = (
    placed(name, score) for score, name in enumerate(("ann", "bob", "cyd", "dee"))
)


# ------------------------------------------------------------------------------ the view


async def test_entries_are_added_removed_and_moved() -> None:
    base = await filled(NativeIndex(), [ANN, BOB, CYD, DEE])
    late = placed("ann", 7, metadata=b"7")
    changes = {**removes(CYD), **adds(placed("eve", 1, 2)), "ann": EntryChange(ANN, late)}
    view = Overlay(base, RANKING, changes)
    assert await players(view) == ["bob", "eve", "dee", "ann"]
    assert await players(view, 2, 2) == ["eve", "dee"]
    assert await view.count(RANKING) == 4
    assert await view.rank(RANKING, "cyd") is None
    assert await view.rank(RANKING, "nobody") is None
    assert await view.rank(RANKING, "ann") == (4, late.order_key, b"7", 4, 5)
    found = await view.ranks(RANKING, ["dee", "cyd", "eve", "nobody", "eve"])
    assert [one and one.rank for one in found] == [3, None, 2, None, 2]
    places = [(RANKING, "ann"), (RANKING, "cyd"), (OTHER, "ann"), (RANKING, "bob")]
    assert await view.order_keys(places) == [late.order_key, None, key(9), BOB.order_key]
    assert await view.metadata(places) == [b"7", None, None, None]
    assert await view.count_below(RANKING, key(3)) == 2


async def test_metadata_alone_may_change() -> None:
    base = await filled(NativeIndex(), [ANN, BOB, CYD])
    view = Overlay(base, RANKING, {"bob": EntryChange(BOB, BOB._replace(metadata=b"1"))})
    page = await view.read(RANKING, first=Rank(1), limit=3)
    assert [(one.player, one.metadata) for one in page.entries] == [
        ("ann", None),
        ("bob", b"1"),
        ("cyd", None),
    ]
    assert await view.scores_below(RANKING, CYD.order_key) == 2


async def test_a_view_may_be_empty_and_a_base_too() -> None:
    emptied = Overlay(await filled(NativeIndex(), [ANN, BOB]), RANKING, removes(ANN, BOB))
    assert await players(emptied) == []
    assert await emptied.count(RANKING) == 0
    alone = Overlay(await filled(NativeIndex(), []), RANKING, adds(ANN, BOB))
    assert await players(alone) == ["ann", "bob"]
    assert await alone.scores_below(RANKING, CYD.order_key) == 2


async def test_a_ranking_that_the_base_lacks_is_listed_once_it_has_an_entry() -> None:
    base, segment = await filled(NativeIndex(), [ANN]), Ranking("b", "all", "region:eu")
    view = Overlay(base, segment, adds(BOB))
    assert set(await view.rankings("b")) == {RANKING, segment}
    assert set(await view.rankings("c")) == {OTHER}
    assert (await view.shapes())[segment] == RankingShape(16, dense=True)
    gone = Overlay(base, segment, {"bob": EntryChange(None, None)})
    assert set(await gone.rankings("b")) == {RANKING}
    assert segment not in await gone.shapes()
    found = await view.rank(segment, "bob")
    assert found is not None
    assert (found.rank, found.total) == (1, 1)


async def test_other_rankings_pass_unchanged() -> None:
    base = await filled(NativeIndex(), [ANN, BOB])
    view = Overlay(base, RANKING, removes(ANN))
    assert await view.rank(OTHER, "ann") == await base.rank(OTHER, "ann")
    assert await view.ranks(OTHER, ["ann"]) == await base.ranks(OTHER, ["ann"])
    assert await view.count(OTHER) == 1
    assert await view.count_below(OTHER, key(10)) == 1
    assert await view.scores_below(OTHER, key(10)) == 1
    assert (await view.read(OTHER, first=Rank(1), limit=9)).entries[0].player == "ann"


def test_an_entry_of_another_player_is_a_bug() -> None:
    for change in (EntryChange(None, BOB), EntryChange(BOB, None)):
        with pytest.raises(AssertionError, match="another player's entry"):
            Overlay(NativeIndex(), RANKING, {"ann": change, "bob": EntryChange(None, None)})


# ---------------------------------------------------------------------- distinct scores

TIED = [placed("a", 1, 1), placed("b", 1, 2), placed("c", 2, 3), placed("d", 4, 4)]


@pytest.mark.parametrize(
    ("changes", "distinct"),
    [
        (adds(placed("x", 1, 9)), 3),  # Shared with a and b.
        (adds(placed("x", 3, 9)), 4),
        (adds(placed("x", 3, 8), placed("y", 3, 9)), 4),
        (removes(TIED[0]), 3),  # b still has it.
        (removes(TIED[0], TIED[1]), 2),
        ({**removes(TIED[2]), **adds(placed("x", 2, 9))}, 3),
        ({**removes(TIED[0], TIED[1]), **adds(placed("x", 0))}, 3),
        ({"c": EntryChange(TIED[2], placed("c", 3, 9))}, 3),
        ({"c": EntryChange(TIED[2], placed("c", 4, 9))}, 2),
    ],
)
async def test_a_score_counts_once_however_many_have_it(
    changes: dict[str, EntryChange], distinct: int
) -> None:
    view = Overlay(await filled(NativeIndex(), TIED), RANKING, changes)
    assert await view.scores_below(RANKING, key(9)) == distinct
    assert await view.scores_below(RANKING, key(0)) == 0
    assert await view.scores_below(RANKING, key(9)) == distinct


async def test_scores_are_counted_once_for_each_position_and_as_far_as_needed() -> None:
    base = await filled(CountingIndex(), TIED)
    view = Overlay(base, RANKING, adds(placed("x", 3), placed("y", 5), placed("z", 7)))
    for wanted, counts in ((1, 0), (4, 1), (4, 0), (6, 1), (9, 1), (9, 0)):
        base.calls.clear()
        await view.scores_below(RANKING, key(wanted))
        assert base.calls.count("count_below") == 2 * counts
    await base.apply([Move(RANKING, "e", key(5))], after=Position(5), through=Position(6))
    assert await view.scores_below(RANKING, key(9)) == 6


# ------------------------------------------------------------------- calls and positions


async def test_few_changes_take_one_call() -> None:
    entries = [placed(f"p{number:04}", number) for number in range(1_000)]
    base = await filled(CountingIndex(), entries)
    few = UNPLACED_MAX // 2
    changes = {
        **removes(*entries[:few]),
        **adds(*[placed(f"x{n}", 10 * n, 2) for n in range(few)]),
    }
    view = Overlay(base, RANKING, changes)
    for call in (view.rank(RANKING, "p0500"), view.read(RANKING, first=Rank(500), limit=10)):
        base.calls.clear()
        assert await call is not None
        assert len(base.calls) == 1
    assert base.entries <= 10 + 2 * UNPLACED_MAX
    base.entries = 0
    assert await view.read(RANKING, first=Rank(500), limit=0) == ([], 1_000, 5)
    assert base.entries == 0


async def test_a_page_among_many_changes_reads_a_stretch_of_the_base() -> None:
    entries = [placed(f"p{number:04}", number) for number in range(4_000)]
    base = await filled(CountingIndex(), entries)
    view = Overlay(base, RANKING, removes(*entries[:2_000:2], *entries[3_000:]))
    assert await players(view, 1_501, 10) == [f"p{number:04}" for number in range(2_500, 2_510)]
    assert base.entries <= 10 + 2 * UNPLACED_MAX
    base.entries = 0
    assert await players(view, 501, 5) == [f"p{number:04}" for number in range(1_001, 1_011, 2)]
    assert base.entries <= 2 * 5 + 2 * UNPLACED_MAX
    assert len(base.calls) <= 2 * 2 * 7
    base.entries = 0
    assert await players(view, 2_001, 10) == []  # Beyond the end of the view, not of the base.
    assert base.entries == 0


async def test_all_calls_of_a_read_are_of_one_position() -> None:
    """The index moves on between two calls of a read; the answer is as of the first."""
    far = FarIndex()
    await filled(far.there, TIED)
    view = Overlay(far, RANKING, adds(placed("x", 3)))
    position = 5

    async def move() -> None:
        nonlocal position
        name = f"new{position}"
        await far.there.apply(
            [Move(RANKING, name, key(0, position))],
            after=Position(position),
            through=Position(position + 1),
        )
        position += 1

    original = far.there.read

    async def read(*args: Any, **named: Any) -> EntryRange:
        page = await original(*args, **named)
        await move()
        return page

    far.there.read = read  # type: ignore[method-assign]
    with pytest.raises(IndexForgot):
        await view.rank(RANKING, "x")
    far.there.read = original  # type: ignore[method-assign]
    found = await view.rank(RANKING, "x")
    assert found is not None
    assert (found.rank, found.as_of) == (5, 6)


@pytest.mark.parametrize("make", [NativeIndex, lambda: MemorySharedIndex(SharedMemory())])
async def test_positions_pass_and_so_does_a_forgotten_one(make: Any) -> None:
    base = await filled(make(), TIED)
    view = Overlay(base, RANKING, {**adds(placed("x", 3)), **removes(TIED[0])})
    assert await view.checkpoint() == 5

    def reads(at: Position) -> list[Any]:
        return [
            view.rank(RANKING, "b", at),
            view.rank(RANKING, "x", at),
            view.rank(RANKING, "a", at),
            view.ranks(RANKING, ["x", "b", "a"], at),
            view.count(RANKING, at),
            view.count_below(RANKING, key(4), at=at),
            view.scores_below(RANKING, key(4), at),
            view.read(RANKING, first=Rank(1), limit=3, at=at),
            view.read(RANKING, first=Rank(1), limit=0, at=at),
        ]

    for read in reads(Position(5)):
        await read
    for read in reads(Position(3)):
        with pytest.raises(IndexForgot):
            await read


async def test_an_index_that_is_out_of_reach_is_told() -> None:
    far = FarIndex()
    await filled(far.there, TIED)
    view = Overlay(far, RANKING, adds(placed("x", 3)))
    far.cut = True
    for read in (
        view.rank(RANKING, "x"),
        view.read(RANKING, first=Rank(1), limit=3),
        view.scores_below(RANKING, key(4)),
    ):
        with pytest.raises(IndexUnavailable):
            await read


# -------------------------------------------------------------------------- with a reader


@pytest.mark.parametrize("ties", list(TieRule))
async def test_a_reader_answers_as_if_the_entry_were_there(ties: TieRule) -> None:
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {"windows": ["all"], "ties": ties.value})
        for number, score in enumerate((9, 5, 5, 3)):
            await rankd.submit("b", [{"player": f"p{number}", "score": score}])
        where, projector = rankd.reader.where("b"), rankd.projector
        own = Placed("me", where.terms.order.key((5,), Position(100)), None)
        view = Overlay(projector.index, where.ranking, {"me": EntryChange(None, own)})
        read = Reader(projector=projector, clock=SetClock(), index=view)
        mine = await read.standing("b", "me")
        assert mine is not None
        assert mine.rank == {"ordinal": 4, "standard": 2, "dense": 2}[ties.value]
        assert (mine.total, mine.as_of, mine.stale) == (5, projector.checkpoint, False)
        around = await read.around("b", "me", above=1, below=1)
        assert list(around.players) == ["p2", "me", "p3"]
        page = await read.page("b", limit=3)
        more = await read.page("b", cursor=page.next_cursor)
        assert [*page.players, *more.players] == ["p0", "p1", "p2", "me", "p3"]
        assert read.finder(where) is None
        assert read.asker(where) is None
        with pytest.raises(NotRanked):
            await rankd.reader.around("b", "me")


async def test_an_overlay_of_another_index_is_stale_as_that_is() -> None:
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {"windows": ["all"]})
        other: RankIndex = await filled(NativeIndex(), [])
        ranking = rankd.reader.where("b").ranking
        view = Overlay(other, ranking, {"me": EntryChange(None, placed("me", 3))})
        read = Reader(projector=rankd.projector, clock=SetClock(), index=view)
        page = await read.page("b")
        assert (list(page.players), page.stale) == (["me"], True)


async def test_a_reader_falls_back_to_no_index_without_the_changes() -> None:
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {"windows": ["all"]})
        far = FarIndex()
        projector = Projector(ledger=FaultyLedger(), index=far, state=rankd.state)
        projector.fallback = await filled(NativeIndex(), [ANN])
        view = Overlay(projector.index, rankd.reader.where("b").ranking, adds(BOB))
        far.cut = True
        plain = Reader(projector=projector, clock=SetClock())
        assert list((await plain.page("b")).players) == ["ann"]
        with pytest.raises(IndexUnavailable):
            await Reader(projector=projector, clock=SetClock(), index=view).page("b")

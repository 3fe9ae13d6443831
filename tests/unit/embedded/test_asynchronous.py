"""The engine for a program with an event loop: what it adds to the engine it leads to."""

import asyncio
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import rankd
from rankd.core.intake import BATCH_FACTS_MAX
from rankd.embedded import AsyncRanks
from rankd.errors import (
    InvalidBoard,
    InvalidPage,
    InvalidSubmission,
    NothingToBackUp,
    SubmissionKeyReused,
    SubmissionRejected,
    UnknownBoard,
    UnknownWindow,
)

if TYPE_CHECKING:
    from rankd.ports import Progress

pytestmark = pytest.mark.anyio


@pytest.fixture
async def ranks(tmp_path: Path) -> AsyncIterator[AsyncRanks]:
    async with rankd.aopen(tmp_path / "engine") as opened:
        yield opened


# ---------------------------------------------------------------------------- submitting


async def test_submit_many_takes_pairs_and_mappings(ranks: AsyncRanks) -> None:
    board = await ranks.board("arena", rule="sum")
    items: list[Any] = [("ann", 5), {"player": "bob", "delta": 7, "metadata": {"car": "red"}}]
    receipts = await board.submit_many(items)
    assert [(receipt.player, receipt.rank) for receipt in receipts] == [("ann", 1), ("bob", 1)]
    assert (await board.top())[0].metadata == {"car": "red"}
    assert await board.submit_many([]) == []


async def test_the_others_count_where_one_of_many_is_refused(ranks: AsyncRanks) -> None:
    board = await ranks.board("arena", rule="sum", limits={"score_max": 10})
    with pytest.raises(SubmissionRejected) as refusal:
        await board.submit_many([("ann", 5), ("bob", 99), ("cyd", 7)])
    assert refusal.value.reason == "score_out_of_bounds"
    assert [each.player for each in await board.top()] == ["cyd", "ann"]
    first: Any = {"player": "ann", "score": 1, "key": "k"}
    other: Any = {"player": "ann", "score": 2, "key": "k"}
    with pytest.raises(SubmissionKeyReused):
        await board.submit_many([first, other, ("dee", 1)])
    assert [each.score for each in await board.top()] == [7, 6, 1]


async def test_what_was_recorded_before_a_wrong_item_is_told(ranks: AsyncRanks) -> None:
    board = await ranks.board("arena")
    items: list[Any] = [(f"p{n}", n) for n in range(BATCH_FACTS_MAX)]
    with pytest.raises(InvalidSubmission) as refusal:
        await board.submit_many([*items, ("ann", 1), ("", 1)])
    told = f"the first {BATCH_FACTS_MAX} of {BATCH_FACTS_MAX + 2} submissions were recorded"
    assert refusal.value.__notes__ == [told]
    assert (await board.page()).total == BATCH_FACTS_MAX


async def test_a_pair_is_two(ranks: AsyncRanks) -> None:
    board = await ranks.board("arena")
    wrong: Any = ("ann", 1, "key")
    with pytest.raises(InvalidSubmission):
        await board.submit_many([("bob", 1), wrong])
    assert await board.top() == []


async def test_submissions_made_together_are_all_counted(ranks: AsyncRanks) -> None:
    board = await ranks.board("arena", rule="sum")
    receipts = await asyncio.gather(*(board.submit("ann", delta=1) for _ in range(50)))
    assert sorted(receipt.score or 0 for receipt in receipts) == list(range(1, 51))


# ----------------------------------------------------------------------------- projecting


async def test_a_projection_takes_a_score_for_each_column(ranks: AsyncRanks) -> None:
    columns = [{"name": "points"}, {"name": "seconds", "direction": "lower"}]
    board = await ranks.board("arena", columns=columns, decimals=1)
    await board.submit("ann", 5, columns={"seconds": "9.5"})
    assert (await board.rank_for(columns=[5, "9.4"])).rank == 1
    projected = await board.rank_for(columns=[5, Decimal("9.6")])
    assert (projected.rank, projected.scores, projected.decimals) == (2, (50, 96), 1)
    for wrong in ({"score": 5}, {"columns": [5]}, {"columns": [5, "x"]}, {"columns": [5, 1, 2]}):
        with pytest.raises(InvalidPage):
            await board.rank_for(**wrong)


async def test_a_score_is_for_a_rank_or_for_a_percentile(ranks: AsyncRanks) -> None:
    board = await ranks.board("arena")
    await board.submit_many([(f"p{n}", n) for n in range(1, 5)])
    assert (await board.score_for(rank=2)).scores == (3,)
    assert (await board.score_for(rank=5)).scores is None
    assert (await board.score_for(percentile=50)).scores == (2,)
    for wrong in ({}, {"rank": 1, "percentile": 50}, {"rank": 0}, {"percentile": 0}):
        with pytest.raises(InvalidPage):
            await board.score_for(**wrong)  # type: ignore[arg-type]


# -------------------------------------------------------------------------------- boards


async def test_asking_again_is_no_new_definition(ranks: AsyncRanks) -> None:
    await ranks.board("arena", rule="sum")
    before = ranks.position
    await ranks.board("arena")
    await ranks.board("arena", rule="sum", windows=["all"])
    assert ranks.position == before
    assert await ranks.boards() == ["arena"]


async def test_a_board_may_be_asked_for_before_its_window_opens(ranks: AsyncRanks) -> None:
    season = {"name": "season", "every": "4w", "start": "2999-01-01T00:00:00Z"}
    board = await ranks.board("arena", windows=[season])
    assert await board.windows() == []
    with pytest.raises(UnknownWindow):
        await board.top()
    with pytest.raises(SubmissionRejected) as refusal:
        await board.submit("ann", 1)
    assert refusal.value.reason == "no_window"
    assert await ranks.standings("ann") == {}


async def test_a_definition_that_would_round_is_refused(ranks: AsyncRanks) -> None:
    board = await ranks.board("arena", decimals=2)
    for change in (board.preview, board.redefine):
        with pytest.raises(InvalidBoard, match="decimals"):
            await change(decimals=1)


async def test_a_board_that_never_was_cannot_be_used(ranks: AsyncRanks) -> None:
    board = await ranks.board("arena")
    await board.retire()
    for use in (board.top, board.windows, board.retire, board.redefine, board.preview):
        with pytest.raises(UnknownBoard):
            await use()


# --------------------------------------------------------------------------------- caring


async def test_care_goes_on_beside_submissions(ranks: AsyncRanks, tmp_path: Path) -> None:
    board = await ranks.board("arena", rule="sum")
    await board.submit_many([(f"p{n % 50}", 1) for n in range(500)])

    async def play() -> None:
        for _ in range(20):
            await board.submit("ann", delta=1)

    steps: list[Progress] = []
    await asyncio.gather(
        play(),
        ranks.save(progress=steps.append),
        ranks.backup(tmp_path / "copy", progress=steps.append),
    )
    await asyncio.gather(play(), ranks.rebuild(progress=steps.append))
    await ranks.verify(progress=steps.append)
    assert steps
    standing = await board.standing("ann")
    assert standing is not None
    assert (standing.rank, standing.score) == (1, 40)


async def test_memory_has_nothing_to_back_up(tmp_path: Path) -> None:
    with pytest.warns(RuntimeWarning, match="memory"):
        opening = rankd.aopen()
    async with opening as ranks:
        assert not ranks.durable
        with pytest.raises(NothingToBackUp):
            await ranks.backup(tmp_path / "copy")

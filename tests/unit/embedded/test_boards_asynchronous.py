"""The engine for a program with an event loop: what it adds to the engine it leads to."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_type

import pytest

import rankd
from rankd.core.writer import BATCH_FACTS_MAX
from rankd.embedded import AsyncBoard, AsyncRanks
from rankd.errors import (
    BoardDiffers,
    InvalidBoard,
    InvalidPage,
    InvalidProfile,
    InvalidSubmission,
    LedgerUnavailable,
    NothingToBackUp,
    NotRanked,
    SubmissionKeyReused,
    SubmissionRejected,
    UnknownBoard,
)
from rankd.model.standing import Standing

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
    assert board.top()[0].metadata == {"car": "red"}
    assert await board.submit_many([]) == []


async def test_the_others_count_where_one_of_many_is_refused(ranks: AsyncRanks) -> None:
    board = await ranks.board("arena", rule="sum", limits={"score_max": 10})
    with pytest.raises(SubmissionRejected) as refusal:
        await board.submit_many([("ann", 5), ("bob", 99), ("cyd", 7)])
    assert refusal.value.reason == "score_out_of_bounds"
    assert [each.player for each in board.top()] == ["cyd", "ann"]
    first: Any = {"player": "ann", "score": 1, "key": "k"}
    other: Any = {"player": "ann", "score": 2, "key": "k"}
    with pytest.raises(SubmissionKeyReused):
        await board.submit_many([first, other, ("dee", 1)])
    assert [each.score for each in board.top()] == [7, 6, 1]


async def test_what_was_recorded_before_a_wrong_item_is_told(ranks: AsyncRanks) -> None:
    board = await ranks.board("arena")
    items: list[Any] = [(f"p{n}", n) for n in range(BATCH_FACTS_MAX)]
    with pytest.raises(InvalidSubmission) as refusal:
        await board.submit_many([*items, ("ann", 1), ("", 1)])
    told = f"the first {BATCH_FACTS_MAX} of {BATCH_FACTS_MAX + 2} submissions were recorded"
    assert refusal.value.__notes__ == [told]
    assert board.page().total == BATCH_FACTS_MAX


@pytest.mark.parametrize("redefined", [False, True])
@pytest.mark.parametrize("behind", [0, 5])
async def test_a_wrong_item_is_named_by_its_place_among_all(
    ranks: AsyncRanks, redefined: bool, behind: int
) -> None:
    board = await ranks.board("arena")
    if redefined:
        await board.redefine(ties="dense")
    items: list[Any] = [(f"p{n}", n) for n in range(BATCH_FACTS_MAX + behind)]
    wrong: Any = {"player": "", "score": 1, "key": "k"}
    with pytest.raises(InvalidSubmission) as refusal:
        await board.submit_many([*items, wrong])
    assert refusal.value.errors[0].field == f"[{BATCH_FACTS_MAX + behind}].player"


async def test_a_pair_is_two(ranks: AsyncRanks) -> None:
    board = await ranks.board("arena")
    wrong: Any = ("ann", 1, "key")
    with pytest.raises(InvalidSubmission):
        await board.submit_many([("bob", 1), wrong])
    assert board.top() == []


async def test_submissions_made_together_are_all_counted(ranks: AsyncRanks) -> None:
    board = await ranks.board("arena", rule="sum")
    receipts = await asyncio.gather(*(board.submit("ann", delta=1) for _ in range(50)))
    assert sorted(receipt.score or 0 for receipt in receipts) == list(range(1, 51))


# ----------------------------------------------------------------------------- projecting


async def test_a_projection_takes_a_score_for_each_column(ranks: AsyncRanks) -> None:
    columns = [{"name": "points"}, {"name": "seconds", "direction": "lower"}]
    board = await ranks.board("arena", columns=columns, decimals=1)
    await board.submit("ann", 5, columns={"seconds": "9.5"})
    assert board.rank_for(columns=[5, "9.4"]).rank == 1
    projected = board.rank_for(columns=[5, Decimal("9.6")])
    assert (projected.rank, projected.scores, projected.decimals) == (2, (50, 96), 1)
    for wrong in ({"score": 5}, {"columns": [5]}, {"columns": [5, "x"]}, {"columns": [5, 1, 2]}):
        with pytest.raises(InvalidPage):
            board.rank_for(**wrong)


async def test_a_score_is_for_a_rank_or_for_a_percentile(ranks: AsyncRanks) -> None:
    board = await ranks.board("arena")
    await board.submit_many([(f"p{n}", n) for n in range(1, 5)])
    assert board.score_for(rank=2).scores == (3,)
    assert board.score_for(rank=5).scores is None
    assert board.score_for(percentile=50).scores == (2,)
    for wrong in ({}, {"rank": 1, "percentile": 50}, {"rank": 0}, {"percentile": 0}):
        with pytest.raises(InvalidPage):
            board.score_for(**wrong)  # type: ignore[arg-type]


# ------------------------------------------------------------------------- reading at once


async def test_reads_answer_at_once_with_plain_values(ranks: AsyncRanks) -> None:
    board = await ranks.board("arena", segments=["region"])
    await board.submit_many([("ann", 9), ("bob", 7), ("cyd", 5)])
    await ranks.set_friends("cyd", ["ann"])
    for listed in (board.top(10), board.around("bob", above=1, below=1), board.around_rank(2)):
        assert type(listed) is list
        assert [(each.rank, each.player, each.score) for each in listed] == [
            (1, "ann", 9),
            (2, "bob", 7),
            (3, "cyd", 5),
        ]
    assert board.page(limit=2) == board.top(2)
    assert board.page(from_rank=3)[0].player == "cyd"
    assert_type(board.top(), list[Standing])
    standing = assert_type(board.standing("bob"), Standing | None)
    assert standing is not None and standing.rank == 2
    assert board.standing("nobody") is None
    assert board.ranks(["cyd", "nobody"]) == [3, None]
    assert [each.place for each in board.lookup(["cyd", "nobody", "bob"])] == [1, 2]
    assert [each.player for each in board.friends("cyd")] == ["ann", "cyd"]
    assert (board.rank_for(8).rank, board.score_for(rank=1).score) == (2, 9)
    assert [each.id for each in board.windows()] == ["all"]
    assert ranks.boards() == ["arena"]
    assert ranks.standings("ann")["arena"].rank == 1
    assert ranks.standings("nobody") == {}
    with pytest.raises(NotRanked):
        board.around("nobody")


async def test_reads_made_between_two_waits_agree(ranks: AsyncRanks) -> None:
    """Nothing is folded while somebody reads, however many write."""
    board = await ranks.board("arena", rule="sum")
    await board.submit("ann", delta=1)

    async def play(player: str) -> None:
        for _ in range(50):
            await board.submit(player, delta=1)

    players = [asyncio.create_task(play(f"p{n}")) for n in range(4)]
    while not all(player.done() for player in players):
        position, page = ranks.position, board.page(limit=100)
        assert page.as_of == position and page == board.top(100)
        assert board.ranks([each.player for each in page]) == [each.rank for each in page]
        await asyncio.sleep(0.001)  # A loop that never rests keeps the interpreter from the ledger.
    await asyncio.gather(*players)
    assert sum(int(each.score) for each in board.top()) == 201


async def test_a_player_is_found_in_one_window_of_every_board(ranks: AsyncRanks) -> None:
    for name, windows in (("arena", ["all"]), ("race", ["all", "daily"])):
        board = await ranks.board(name, windows=windows)
        await board.submit("ann", 1)
    assert list(ranks.standings("ann")) == ["arena", "race"]
    assert list(ranks.standings("ann", window="daily")) == ["race"]
    assert ranks.standings("ann", window="hourly") == {}


# ------------------------------------------------------------------------------- players


async def test_merged_attributes_leave_the_others_as_they_are(ranks: AsyncRanks) -> None:
    board = await ranks.board("arena", segments=["region", "guild"])
    await board.submit("ann", 5, attributes={"region": "eu", "guild": "owls"})
    at = await ranks.merge_profile("ann", name="Ann", attributes={"guild": "bats", "level": 3})
    assert [len(board.top(segment=one)) for one in ("region:eu", "guild:owls", "guild:bats")] == [
        1,
        0,
        1,
    ]
    assert await ranks.merge_profile("ann", attributes={"level": 3}) == at == ranks.position
    await ranks.merge_profile("ann", attributes={"level": None})
    assert await ranks.players("a") == [("ann", "Ann", {"guild": "bats", "region": "eu"})]
    await ranks.merge_profile("ann", name=None, attributes=None)
    assert await ranks.players("ann") == [("ann", None, {})]


async def test_a_hidden_player_is_shown_to_the_program(ranks: AsyncRanks) -> None:
    board = await ranks.board("arena")
    await board.submit("ann", 5)
    assert await ranks.profile("ann", name="Ann", visibility="anonymous") == ranks.position
    assert [(one.player, one.name) for one in board.top()] == [("ann", "Ann")]
    assert await ranks.merge_profile("ann", visibility="friends") == ranks.position
    assert [(one.player, one.name) for one in board.top()] == [("ann", "Ann")]
    await ranks.merge_profile("ann", visibility=None)
    with pytest.raises(InvalidProfile):
        await ranks.profile("ann", visibility="nobody")  # type: ignore[arg-type]


async def test_players_are_found_page_by_page(ranks: AsyncRanks) -> None:
    board = await ranks.board("arena")
    await board.submit_many([("anton", 1), ("ann", 2), ("bob", 3)])
    first = await ranks.players("an", limit=1)
    assert [one.player for one in first] == ["ann"]
    rest = await ranks.players("an", after=first[-1].player)
    assert [one.player for one in rest] == ["anton"]
    with pytest.raises(InvalidPage):
        await ranks.players("")


# -------------------------------------------------------------- boards, awaited and in hand


async def test_an_awaited_board_is_there_or_its_error_was_raised(ranks: AsyncRanks) -> None:
    board = await ranks.board("arena", rule="sum")
    assert board.top() == [] and board.definition["rule"] == "sum"
    with pytest.raises(BoardDiffers, match="rule"):
        await ranks.board("arena", rule="best")
    with pytest.raises(InvalidBoard):
        await ranks.board("other", rule="none")
    assert ranks.boards() == ["arena"]


async def test_a_board_that_is_not_awaited_is_defined_before_the_first_write(
    ranks: AsyncRanks,
) -> None:
    writes: dict[str, Callable[[AsyncBoard], Awaitable[object]]] = {
        "submit": lambda board: board.submit("ann", 3),
        "submit_many": lambda board: board.submit_many([("ann", 3)]),
        "redefine": lambda board: board.redefine(title="The arena"),
    }
    for name, write in writes.items():
        board, before = ranks.board(name, rule="sum"), ranks.position
        for read in (board.top, board.windows, lambda board=board: board.definition):
            with pytest.raises(UnknownBoard):
                read()
        with pytest.raises(UnknownBoard):
            await board.preview(title="The arena")
        assert ranks.position == before, "to ask for it records nothing"
        await write(board)
        assert board.definition["rule"] == "sum"
        assert [each.score for each in board.top()] == ([] if name == "redefine" else [3])
    gone = ranks.board("gone")
    await gone.retire()
    with pytest.raises(UnknownBoard):
        await gone.submit("ann", 1)
    assert ranks.boards() == list(writes)


async def test_a_board_that_is_there_can_be_read_at_once(ranks: AsyncRanks) -> None:
    await (await ranks.board("arena", rule="sum")).submit("ann", 3)
    before = ranks.position
    for board in (ranks.board("arena"), ranks.board("arena", rule="sum", windows=["all"])):
        assert [each.score for each in board.top()] == [3]
    assert ranks.position == before


async def test_a_board_in_hand_is_found_once_somebody_else_defined_it(ranks: AsyncRanks) -> None:
    same, any_, other = ranks.board("a", rule="sum"), ranks.board("a"), ranks.board("a")
    differs = ranks.board("a", rule="best")
    for board in (same, any_, other, differs):
        with pytest.raises(UnknownBoard):
            board.top()
    await ranks.board("a", rule="sum")
    assert same.top() == any_.top() == []
    assert (await other.submit("ann", 3)).rank == 1
    with pytest.raises(BoardDiffers):
        differs.top()


async def test_the_first_write_tells_what_is_wrong_with_a_definition(ranks: AsyncRanks) -> None:
    await ranks.board("arena", rule="sum")
    differs, invalid = ranks.board("arena", rule="best"), ranks.board("other", rule="none")
    before = ranks.position
    for _ in range(2):  # It is no better the second time.
        with pytest.raises(BoardDiffers) as refusal:
            await differs.submit("ann", 1)
        assert refusal.value.fields == ("rule",)
        with pytest.raises(BoardDiffers):
            differs.top()
        for use in (lambda: invalid.submit_many([("ann", 1)]), invalid.retire, invalid.redefine):
            with pytest.raises(InvalidBoard):
                await use()
        with pytest.raises(UnknownBoard):
            invalid.top()
    assert (ranks.position, ranks.boards()) == (before, ["arena"])


async def test_first_writes_made_together_define_a_board_once(ranks: AsyncRanks) -> None:
    board = ranks.board("arena", rule="sum")
    receipts = await asyncio.gather(*(board.submit("ann", delta=1) for _ in range(20)))
    assert sorted(receipt.score or 0 for receipt in receipts) == list(range(1, 21))
    assert ranks.position == 21


async def test_a_board_is_awaited_as_often_as_one_likes(ranks: AsyncRanks) -> None:
    board = ranks.board("arena")
    assert await board is board and await board is board
    boards = await asyncio.gather(ranks.board("b"), ranks.board("c"))
    assert [each.name for each in boards] == ["b", "c"]
    assert ranks.boards() == ["arena", "b", "c"]


async def test_an_interrupted_definition_can_be_made_again(ranks: AsyncRanks) -> None:
    board = ranks.board("arena")
    first = asyncio.ensure_future(board)
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert (await board.submit("ann", 1)).rank == 1


async def test_an_engine_and_its_boards_are_printed_by_their_names(ranks: AsyncRanks) -> None:
    assert repr(await ranks.board("arena")) == "AsyncBoard('arena')"
    assert repr(ranks) == "AsyncRanks(boards=['arena'], position=1)"


async def test_a_closed_engine_refuses_every_call(tmp_path: Path) -> None:
    async with rankd.aopen(tmp_path / "engine") as ranks:
        board = await ranks.board("arena")
        await board.submit("ann", 1)
    reads: list[Callable[[], object]] = [
        board.top,
        board.windows,
        lambda: board.standing("ann"),
        lambda: board.definition,
        lambda: ranks.board("arena"),
        lambda: ranks.standings("ann"),
        ranks.boards,
    ]
    writes: list[Callable[[], Awaitable[object]]] = [
        lambda: board,
        lambda: board.submit("ann", 2),
        lambda: board.submit_many([("ann", 2)]),
        lambda: board.redefine(rule="sum"),
        lambda: board.preview(rule="sum"),
        board.retire,
        ranks.save,
        ranks.verify,
        ranks.rebuild,
        lambda: ranks.profile("ann"),
        lambda: ranks.merge_profile("ann"),
        lambda: ranks.players("ann"),
        lambda: ranks.erase("ann"),
        lambda: ranks.backup(tmp_path / "copy"),
    ]
    for read in reads:
        with pytest.raises(LedgerUnavailable, match="closed") as refusal:
            read()
        assert refusal.value.applied == "no"
    for write in writes:
        with pytest.raises(LedgerUnavailable, match="closed") as refusal:
            await write()
        assert refusal.value.applied == "no"
    assert repr(ranks) == "AsyncRanks(boards=['arena'], position=2, closed=True)"


# -------------------------------------------------------------------------------- boards


async def test_asking_again_is_no_new_definition(ranks: AsyncRanks) -> None:
    await ranks.board("arena", rule="sum")
    before = ranks.position
    await ranks.board("arena")
    await ranks.board("arena", rule="sum", windows=["all"])
    assert ranks.position == before
    assert ranks.boards() == ["arena"]


async def test_a_board_may_be_asked_for_before_its_window_opens(ranks: AsyncRanks) -> None:
    season = {"name": "season", "every": "4w", "start": "2999-01-01T00:00:00Z"}
    board = await ranks.board("arena", windows=[season])
    (coming,) = board.windows()
    assert (coming.id, coming.state, coming.opens_at) == ("season:1", "scheduled", coming.start)
    assert board.top() == []
    page = board.page()
    assert (page.state, page.opens_at) == ("scheduled", coming.start)
    opening = "no window of the board was open when it came; season opens at 2999-01-01T00:00:00Z"
    with pytest.raises(SubmissionRejected, match=f"^{opening}$") as refusal:
        await board.submit("ann", 1)
    assert refusal.value.reason == "no_window"
    assert ranks.standings("ann") == {}


async def test_a_definition_that_would_round_is_refused(ranks: AsyncRanks) -> None:
    board = await ranks.board("arena", decimals=2)
    for change in (board.preview, board.redefine):
        with pytest.raises(InvalidBoard, match="decimals"):
            await change(decimals=1)


async def test_a_board_that_never_was_cannot_be_used(ranks: AsyncRanks) -> None:
    board = await ranks.board("arena")
    await board.retire()
    for read in (board.top, board.windows, lambda: board.definition):
        with pytest.raises(UnknownBoard):
            read()
    for use in (board.retire, board.redefine, board.preview):
        with pytest.raises(UnknownBoard):
            await use()
    assert ranks.boards() == [], "having it in hand does not bring it back"


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
    standing = board.standing("ann")
    assert standing is not None
    assert (standing.rank, standing.score) == (1, 40)


async def test_memory_has_nothing_to_back_up(tmp_path: Path) -> None:
    with pytest.warns(RuntimeWarning, match="memory"):
        opening = rankd.aopen()
    async with opening as ranks:
        assert not ranks.durable
        with pytest.raises(NothingToBackUp):
            await ranks.backup(tmp_path / "copy")

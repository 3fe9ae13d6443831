"""The engine inside a program, as its documentation shows it."""

import threading
import warnings
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import rankd
from rankd.core.writer import BATCH_FACTS_MAX
from rankd.errors import (
    BoardDiffers,
    InvalidPage,
    InvalidSubmission,
    LedgerInUse,
    LedgerUnavailable,
    NotRanked,
    SubmissionKeyReused,
    SubmissionRejected,
    UnknownWindow,
)

pytestmark = pytest.mark.anyio


def test_a_receipt_tells_what_a_submission_did(tmp_path: Path) -> None:
    with rankd.open(tmp_path) as ranks:
        board = ranks.board("global", rule="best", windows=["all", "daily", "weekly"])
        board.submit("p7", 9000)
        board.submit("p42", 4300)
        receipt = board.submit("p42", 9500, key="m:9981")
        assert (receipt.verdict, receipt.rank, receipt.previous_rank) == ("counted", 1, 2)
        assert (receipt.rank_change, receipt.total, receipt.percentile) == (1, 2, 100.0)
        assert (receipt.score, receipt.previous_score) == (9500, 4300)
        assert list(receipt.windows) == ["all", "daily", "weekly"]
        worse = board.submit("p42", 10)
        assert (worse.verdict, worse.score, worse.rank) == ("not_better", 9500, 1)


def test_one_key_counts_once_also_after_a_restart(tmp_path: Path) -> None:
    with rankd.open(tmp_path) as ranks:
        board = ranks.board("points", rule="sum")
        first = board.submit("ann", 5, key="k")
        board.submit("bob", 50)
        again = board.submit("ann", 5, key="k")
        assert (again, again.duplicate, first.duplicate) == (first, True, False)
        with pytest.raises(SubmissionKeyReused):
            board.submit("ann", 6, key="k")
    with rankd.open(tmp_path) as ranks:
        board = ranks.board("points")
        assert board.submit("ann", 5, key="k") == again
        standing = board.standing("ann")
        assert standing is not None
        assert (standing.scores, standing.rank) == ((5,), 2)


def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    with rankd.open(tmp_path) as ranks:
        board = ranks.board("arena", windows=["all", "daily"])
        board.submit_many([(f"p{n}", n * 37 % 101) for n in range(300)])
        before = [(each.rank, each.player, each.scores) for each in board.top(1000)]
    with rankd.open(tmp_path) as ranks:
        board = ranks.board("arena")
        after = [(each.rank, each.player, each.scores) for each in board.top(1000)]
    assert len(before) == 300
    assert after == before


def test_reading_finds_top_page_neighbours_and_some(tmp_path: Path) -> None:
    with rankd.open(tmp_path) as ranks:
        board = ranks.board("arena", ties="standard")
        board.submit_many([("a", 9), ("b", 8), ("c", 8), ("d", 7), ("e", 6), ("f", 5)])
        shown = [(s.rank, s.player) for s in board.top(4)]
        assert shown == [(1, "a"), (2, "b"), (2, "c"), (4, "d")]
        assert [s.player for s in board.around("a", above=2, below=2)] == ["a", "b", "c", "d", "e"]
        page = board.page(from_rank=3, limit=2)
        assert [(s.rank, s.player) for s in page.standings] == [(2, "c"), (4, "d")]
        assert [s.player for s in board.page(cursor=page.next_cursor).standings] == ["e", "f"]
        assert [s.player for s in board.page(cursor=page.prev_cursor).standings] == ["a", "b"]
        found = board.lookup(["f", "nobody", "a"])
        assert [s.player for s in found.standings] == ["a", "f"]
        assert found.not_found == ["nobody"]
        assert board.standing("nobody") is None
        with pytest.raises(NotRanked):
            board.around("nobody")
        with pytest.raises(UnknownWindow):
            board.top(window="daily")


def test_what_cannot_count_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    with rankd.open(tmp_path) as ranks:
        board = ranks.board("points", rule="sum", limits={"score_max": 10})
        board.submit("ann", 8)
        with pytest.raises(SubmissionRejected) as refusal:
            board.submit("ann", delta=3)
        assert refusal.value.reason == "score_out_of_bounds"
        with pytest.raises(InvalidSubmission):
            board.submit("", 1)
        assert [s.scores for s in board.top()] == [(8,)]
        with pytest.raises(BoardDiffers, match="rule"):
            ranks.board("points", rule="best")


def test_one_process_has_a_folder_to_itself(tmp_path: Path) -> None:
    with rankd.open(tmp_path), pytest.raises(LedgerInUse), rankd.open(tmp_path):
        pass


def test_threads_share_one_engine(tmp_path: Path) -> None:
    """Simultaneous submissions of one player are serialised, and none is lost."""
    with rankd.open(tmp_path) as ranks:
        board = ranks.board("points", rule="sum")

        def play() -> None:
            for _ in range(50):
                board.submit("ann", delta=1)
                standing = board.standing("ann")
                assert standing is not None

        threads = [threading.Thread(target=play) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        standing = board.standing("ann")
        assert standing is not None
        assert standing.scores == (200,)


def test_memory_says_that_it_forgets() -> None:
    with pytest.warns(RuntimeWarning, match="memory"), rankd.open() as ranks:
        assert ranks.board("arena").submit("ann", 1).rank == 1


async def test_the_line_that_opens_in_memory_is_the_one_that_is_warned() -> None:
    with pytest.warns(RuntimeWarning, match="memory") as warned:
        rankd.open().close()
        await (await rankd.aopen()).close()
    assert [one.filename for one in warned] == [__file__, __file__]


def test_a_stack_keeps_an_engine_open(tmp_path: Path) -> None:
    with ExitStack() as stack:
        ranks = stack.enter_context(rankd.open(tmp_path))
        assert ranks.board("arena").submit("ann", 1).rank == 1


def test_what_is_raised_within_is_raised_and_the_folder_is_free(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), rankd.open(tmp_path):
        raise ZeroDivisionError
    with rankd.open(tmp_path) as ranks:
        assert ranks.boards() == []


async def test_the_same_with_an_event_loop(tmp_path: Path) -> None:
    async with rankd.aopen(tmp_path) as ranks:
        board = await ranks.board("global")
        receipts = await board.submit_many([("p1", 10), {"player": "p2", "score": 20}])
        assert [receipt.rank for receipt in receipts] == [1, 1]
        assert [standing.player for standing in board.top(10)] == ["p2", "p1"]


def test_importing_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert {"__version__", "aopen", "open", "restore"} <= set(rankd.__all__)
        assert all(getattr(rankd, name) for name in rankd.__all__)


def test_an_interrupted_opening_leaves_the_folder_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with rankd.open(tmp_path) as ranks:
        ranks.board("arena").submit("ann", 1)
    real, waits = Future.result, []

    def interrupted_at_the_second(self: "Future[Any]", timeout: float | None = None) -> Any:
        if threading.current_thread() is threading.main_thread():  # Where Ctrl-C is heard.
            waits.append(self)
            if len(waits) == 2:
                raise KeyboardInterrupt
        return real(self, timeout)

    monkeypatch.setattr(Future, "result", interrupted_at_the_second)
    with pytest.raises(KeyboardInterrupt), rankd.open(tmp_path):
        pass
    monkeypatch.undo()
    with rankd.open(tmp_path) as ranks:
        assert len(ranks.board("arena").top()) == 1


def test_a_closed_engine_says_so(tmp_path: Path) -> None:
    with rankd.open(tmp_path) as ranks:
        board = ranks.board("arena")
    for use in (lambda: board.submit("ann", 1), board.top):
        with pytest.raises(LedgerUnavailable, match="closed") as refusal:
            use()
        assert refusal.value.applied == "no"


def test_a_standing_shows_its_score_and_its_place_among_those_looked_up(tmp_path: Path) -> None:
    with rankd.open(tmp_path) as ranks:
        board = ranks.board("lap", direction="lower", decimals=3, windows=["weekly"])
        board.submit_many([("ann", "61.250"), ("bob", "59.900"), ("cyd", "60.000")])
        assert [str(standing.score) for standing in board.top(2)] == ["59.900", "60.000"]
        found = board.lookup(["ann", "cyd"]).standings
        assert [(each.player, each.rank, each.place) for each in found] == [
            ("cyd", 2, 1),
            ("ann", 3, 2),
        ]


@pytest.mark.parametrize("window", ["daily", "weekly:zzz", "weekly:2026-99", "x" * 100_000])
def test_a_window_that_is_none_is_refused_in_few_words(tmp_path: Path, window: str) -> None:
    with rankd.open(tmp_path) as ranks:
        board = ranks.board("arena", windows=["all", "weekly"])
        with pytest.raises(UnknownWindow) as refusal:
            board.top(window=window)
        assert len(str(refusal.value)) < 200


def test_a_segment_that_is_none_is_refused(tmp_path: Path) -> None:
    with rankd.open(tmp_path) as ranks:
        board = ranks.board("arena", segments=["region"])
        assert board.top(segment="region:eu") == []
        for segment in ("country:eu", "region=eu", "eu"):
            with pytest.raises(InvalidPage, match="region:eu"):
                board.top(segment=segment)


def test_more_than_one_commit_holds_is_taken_in_several(tmp_path: Path) -> None:
    with rankd.open(tmp_path) as ranks:
        board = ranks.board("arena", rule="latest")
        receipts = board.submit_many((f"p{n % 10}", n) for n in range(BATCH_FACTS_MAX + 10))
        assert len(receipts) == BATCH_FACTS_MAX + 10
        assert [receipt.position for receipt in receipts] == sorted(
            receipt.position for receipt in receipts
        )


def test_a_malformed_item_stops_all_before_any_is_recorded(tmp_path: Path) -> None:
    with rankd.open(tmp_path) as ranks:
        board = ranks.board("arena")
        for wrong in (("", 2), ("bob", 2, "key"), {"player": "bob"}):
            with pytest.raises(InvalidSubmission):
                board.submit_many([("ann", 1), wrong])  # type: ignore[list-item]
        assert board.top() == []

"""The interface of the ``leaderboard`` package, over an engine and over a service."""

import time
import warnings
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from tests.http.backends import serving_node
from tests.property.embedded_model import SECOND
from tests.unit.core.doubles import SetClock

import rankd
from rankd.compat import agoragames
from rankd.compat.agoragames import (
    CompetitionRankingLeaderboard,
    Leaderboard,
    TieRankingLeaderboard,
    Where,
    board_name,
)
from rankd.errors import NotRanked

SCORES = {"ann": 50, "bob": 50, "cyd": 30, "dee": 30, "eve": 10}


@pytest.fixture(params=["engine", "service"])
def ranks(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Where]:
    if request.param == "engine":
        with rankd.open(tmp_path) as opened:
            yield opened
        return
    clock = SetClock(int(time.time()) * SECOND)
    with (
        serving_node(tmp_path, clock) as node,
        rankd.Client(f"http://127.0.0.1:{node.port}") as opened,
    ):
        yield opened


@pytest.fixture
def board(ranks: Where) -> Leaderboard:
    return Leaderboard("scores", ranks)


def filled(board: Leaderboard, count: int) -> Leaderboard:
    board.rank_members([part for n in range(1, count + 1) for part in (f"m{n}", n)])
    return board


def names(rows: list[dict[str, Any]]) -> list[str]:
    return [row["member"] for row in rows]


# ------------------------------------------------------------------------- ranking


def test_a_member_has_its_latest_score(board: Leaderboard) -> None:
    assert board.score_and_rank_for("ann") == {"member": "ann", "score": None, "rank": None}
    board.rank_member("ann", 10)
    board.rank_member("bob", 20)
    board.rank_member("ann", 5.25)
    assert board.score_and_rank_for("ann") == {"member": "ann", "score": 5.25, "rank": 2}
    assert (board.rank_for("bob"), board.score_for("bob")) == (1, 20.0)
    assert (board.check_member("ann"), board.check_member("cyd")) == (True, False)
    assert (board.total_members(), board.total_scores()) == (2, 25.25)


def test_scores_are_rounded_to_the_decimals_of_the_board(ranks: Where) -> None:
    whole = Leaderboard("whole", ranks, decimals=0)
    whole.rank_member("ann", 2.5)
    assert whole.score_for("ann") == 2.0
    fine = Leaderboard("fine", ranks)
    fine.rank_member("ann", 58.1 + 0.2)
    assert fine.score_for("ann") == 58.3
    fine.rank_member("big", 2**53)
    assert fine.score_for("big") == 2.0**53


def test_a_score_is_changed_by_a_delta(board: Leaderboard) -> None:
    board.change_score_for("ann", 5, "data")
    board.change_score_for("ann", -1.5)
    assert (board.score_for("ann"), board.member_data_for("ann")) == (3.5, "data")


def test_a_member_is_ranked_on_a_condition(board: Leaderboard) -> None:
    seen: list[Any] = []

    def is_better(*given: Any) -> bool:
        seen.append(given[1:])
        return given[2] is None or given[3] > given[2]

    for score in (5, 4, 6):
        board.rank_member_if(is_better, "ann", score)
    assert board.score_for("ann") == 6.0
    assert seen[1] == ("ann", 5.0, 4, None, {"reverse": "desc"})


def test_a_member_is_ranked_across_leaderboards(board: Leaderboard) -> None:
    board.rank_member_across(["east:1", "west:1"], "ann", 7, "data")
    for name in ("east:1", "west:1"):
        assert board.score_for_in(name, "ann") == 7.0
        assert board.member_data_for_in(name, "ann") == "data"
    assert board.total_members() == 0
    assert board_name("east:1.x é") == "east.3a1.2ex.20.c3.a9"


def test_lower_scores_are_first_in_ascending_order(ranks: Where) -> None:
    board = filled(Leaderboard("times", ranks, order="asc"), 4)
    assert names(board.leaders(1)) == ["m1", "m2", "m3", "m4"]
    assert [board.percentile_for(f"m{n}") for n in range(1, 5)] == [100, 75, 50, 25]
    assert board.score_for_percentile(100) == 1.0
    with pytest.raises(ValueError, match="direction"):
        Leaderboard("times", ranks).total_members()
    board.order = "DESC"
    assert names(board.leaders(1)) == ["m4", "m3", "m2", "m1"]
    assert Leaderboard("times", ranks).total_members() == 4
    with pytest.raises(ValueError, match="order"):
        Leaderboard("times", ranks, order="up")


# ------------------------------------------------------------------- ties and places


@pytest.mark.parametrize(
    ("kind", "shared"),
    [
        (Leaderboard, [1, 2, 3, 4, 5]),
        (TieRankingLeaderboard, [1, 1, 2, 2, 3]),
        (CompetitionRankingLeaderboard, [1, 1, 3, 3, 5]),
    ],
)
def test_equal_scores_share_ranks_as_the_class_says(
    kind: type[Leaderboard], shared: list[int], ranks: Where
) -> None:
    board = kind("ties", ranks)
    for member, score in SCORES.items():
        board.rank_member(member, score)
    assert names(board.all_leaders()) == list(SCORES)
    assert [row["rank"] for row in board.all_leaders()] == shared
    assert [row["rank"] for row in board.around_me("dee", page_size=3)] == shared[2:]
    assert board.page_for("dee", 2) == 2
    assert board.member_at(4) == {"member": "dee", "score": 30.0, "rank": shared[3]}
    assert names(board.members_from_rank_range(2, 3)) == ["bob", "cyd"]


# --------------------------------------------------------------------------- removing


def test_members_are_removed_and_may_come_back(board: Leaderboard) -> None:
    filled(board, 6)
    board.remove_member("m6")
    board.remove_member("m6")
    board.remove_member("nobody")
    assert names(board.top(2)) == ["m5", "m4"]
    board.rank_member("m6", 1)
    assert board.rank_for("m6") == 6
    board.remove_members_in_score_range(2, 3.5)
    assert names(board.all_leaders()) == ["m5", "m4", "m1", "m6"]
    assert board.remove_members_outside_rank(2) == 2
    assert names(board.all_leaders()) == ["m5", "m4"]
    assert board.remove_members_outside_rank(2) == 0


def test_a_leaderboard_is_deleted(board: Leaderboard) -> None:
    board.delete_leaderboard()
    filled(board, 3)
    board.delete_leaderboard()
    assert (board.total_members(), board.leaders(1), board.total_pages()) == (0, [], 0)
    filled(board, 1)
    assert board.total_members() == 1


def test_a_leaderboard_expires(board: Leaderboard) -> None:
    board.expire_leaderboard(10)
    filled(board, 2)
    board.expire_leaderboard(3_600)
    expires = datetime.fromisoformat(board._store.definition("scores")["expires"])
    assert 3_590 < expires.timestamp() - time.time() < 3_610
    board.rank_member("late", 9)
    assert board.rank_for("late") == 1
    board.expire_leaderboard_at(time.time() - 1)
    assert board.total_members() == 0


# ------------------------------------------------------------------------ member data


def test_member_data_is_text_beside_the_score(board: Leaderboard) -> None:
    board.rank_member("ann", 1, {"level": 3})
    board.rank_member("bob", 2)
    assert board.members_data_for(["bob", "ann", "cyd"]) == [None, "{'level': 3}", None]
    board.rank_member("ann", 9)
    assert board.member_data_for("ann") == "{'level': 3}"
    board.update_member_data("ann", "new")
    assert board.leaders(1, with_member_data=True)[0] == {
        "member": "ann",
        "score": 9.0,
        "rank": 1,
        "member_data": "new",
    }
    board.remove_member_data("ann")
    board.remove_member_data("cyd")
    assert board.member_data_for("ann") is None
    with pytest.raises(NotRanked):
        board.update_member_data("cyd", "data")


# ------------------------------------------------------------------------------ lists


def test_pages_are_counted_from_one(board: Leaderboard) -> None:
    filled(board, 27)
    assert board.total_pages() == 2
    assert board.total_pages(10) == 3
    assert [len(board.leaders(page)) for page in (0, 1, 2, 3)] == [25, 25, 2, 0]
    assert names(board.leaders(2, page_size=10))[0] == "m17"
    assert board.leaders(1, members_only=True, page_size=1) == [{"member": "m27"}]
    assert len(board.around_me("m1")) == 13
    assert board.around_me("nobody") == []
    assert (board.page_for("m1", 10), board.page_for("nobody")) == (3, 0)
    assert (board.member_at(0), board.member_at(28)) == (None, None)


def test_a_range_of_scores_has_its_members(board: Leaderboard) -> None:
    filled(board, 9)
    assert names(board.members_from_score_range(2.5, 5)) == ["m5", "m4", "m3"]
    assert board.total_members_in_score_range(2.5, 5) == 3
    everything = float("-inf"), float("inf")
    assert board.total_members_in_score_range(*everything) == 9
    assert len(board.members_from_score_range(*everything)) == 9
    assert board.members_from_score_range(5, 2) == []
    assert board.total_members_in_score_range(5, 2) == 0


def test_long_lists_are_read_whole(board: Leaderboard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agoragames, "TOGETHER_MAX", 4)
    filled(board, 10)
    assert len(board.all_leaders()) == 10
    assert len(board.top(9)) == 9
    assert len(board.members_from_score_range(1, 10)) == 10
    assert len(board.ranked_in_list([f"m{n}" for n in range(1, 11)])) == 10


def test_members_of_a_list_stay_in_its_order(board: Leaderboard) -> None:
    filled(board, 5)
    asked = ["m2", "nobody", "m4"]
    assert names(board.ranked_in_list(asked)) == asked
    assert names(board.ranked_in_list(asked, include_missing=False)) == ["m2", "m4"]
    assert names(board.ranked_in_list(asked, sort_by="rank")) == ["m4", "m2", "nobody"]
    assert names(board.ranked_in_list(asked, sort_by="score")) == ["m2", "m4", "nobody"]


def test_percentiles_are_those_of_the_members_behind(board: Leaderboard) -> None:
    assert (board.percentile_for("m1"), board.score_for_percentile(50)) == (None, None)
    filled(board, 5)
    assert [board.percentile_for(f"m{n}") for n in range(1, 6)] == [0, 20, 40, 60, 80]
    found = [board.score_for_percentile(one) for one in (0, 75, 87.5, 100, 101)]
    assert found == [1.0, 4.0, 4.5, 5.0, None]


# -------------------------------------------------------------- several leaderboards


def test_leaderboards_are_merged_and_intersected(ranks: Where) -> None:
    one, other = Leaderboard("one", ranks), Leaderboard("other", ranks)
    one.rank_members(["ann", 1, "bob", 2])
    other.rank_members(["bob", 3, "cyd", 4])
    found = {}
    for aggregate in ("SUM", "min", "MAX"):
        one.merge_leaderboards("all", ["other"], aggregate)
        merged = Leaderboard("all", ranks)
        found[aggregate] = merged.score_for("bob"), merged.total_members()
    assert found == {"SUM": (5.0, 3), "min": (2.0, 3), "MAX": (3.0, 3)}
    one.intersect_leaderboards("all", ["other"])
    assert names(Leaderboard("all", ranks).all_leaders()) == ["bob"]


def test_a_folder_is_opened_once_and_closed(tmp_path: Path) -> None:
    one, other = Leaderboard("a", tmp_path), TieRankingLeaderboard("b", str(tmp_path))
    filled(one, 2)
    filled(other, 3)
    agoragames.close()
    again = Leaderboard("a", tmp_path)
    assert (again.total_members(), again.page_size) == (2, 25)
    assert Leaderboard("a", tmp_path, page_size=0).page_size == 25
    agoragames.close()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        in_memory = filled(Leaderboard("a"), 1)
    assert Leaderboard("a").total_members() == in_memory.total_members() == 1
    agoragames.close()

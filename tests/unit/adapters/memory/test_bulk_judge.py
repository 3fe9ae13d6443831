"""Runs judged in place: who is kept and who is forgotten, what is refused, what failing leaves.

That verdicts, scores and ranks are the model's is shown by tests/property/test_judging.py.
"""

from array import array
from collections.abc import Coroutine, Iterator, Sequence
from types import ModuleType
from typing import Any, TypeVar

import pytest
from tests.standins import native_part

from rankd.adapters.memory import bulk_judge
from rankd.adapters.memory.index import PLAYERS_RELEASED_PER_APPLY, NativeIndex
from rankd.model.board import Board
from rankd.model.facts import Position
from rankd.model.order import Order
from rankd.model.standing import Rank
from rankd.ports import (
    COUNTED,
    DRAFT,
    NOT_BETTER,
    OUT_OF_BOUNDS,
    Move,
    Ranking,
    RankingShape,
    Run,
    Verdicts,
)
from rankd.rank import PlayerTable

T = TypeVar("T")

BOARD = Board.define("b", {"limits": {"score_max": 100}})
OTHER = Board.define("other", {"rule": "sum", "limits": {"score_max": 100}})
DAILY, FOREVER = Ranking("b", "daily:2026-11-14"), Ranking("b", "forever")
ELSEWHERE = Ranking("other", "forever")
PLAIN = RankingShape(16, False)
TOO_HIGH = 101
ALLOCATIONS_TRIED = 100
"""More than judging two hundred new players in two rankings makes."""


def now(call: Coroutine[Any, Any, T]) -> T:
    try:
        call.send(None)
    except StopIteration as done:
        answer: T = done.value
        return answer
    raise AssertionError("the call suspended")


def run(*sent: tuple[str, int], at: Sequence[Ranking] = (FOREVER,), **rest: Any) -> Run:
    scores, positions = array("q", [score for _, score in sent]), range(1, len(sent) + 1)
    players = [player for player, _ in sent]
    return Run(BOARD, at, players, scores, None, array("Q", positions), None)._replace(**rest)


def judge(index: NativeIndex, *runs: Run) -> Sequence[Sequence[Verdicts]]:
    after = now(index.checkpoint())
    told = now(index.judge(runs, after=after, through=Position(after + 1)))
    assert told is not None
    return told


def apply(index: NativeIndex, moves: Sequence[Move] = (), **rest: Any) -> None:
    after = now(index.checkpoint())
    assert now(index.apply(moves, after=after, through=Position(after + 1), **rest)) is not None


def beside(index: NativeIndex, player: str, at: Ranking = FOREVER) -> bytes | None:
    (found,) = now(index.metadata([(at, player)]))
    return found


def players_of(index: NativeIndex, at: Ranking = FOREVER) -> list[str]:
    return [each.player for each in now(index.read(at, first=Rank(1), limit=99)).entries]


@pytest.fixture
def table() -> PlayerTable:
    return PlayerTable()


@pytest.fixture
def index(table: PlayerTable) -> Iterator[NativeIndex]:
    index = NativeIndex(make_players=lambda: table)
    apply(index, opened={DAILY: PLAIN, FOREVER: PLAIN, ELSEWHERE: PLAIN})
    yield index
    if index._failure is None:
        index.check()


def test_it_says_that_it_judges() -> None:
    assert NativeIndex.judges


# ---- Rules in plain numbers --------------------------------------------------------------------


@pytest.mark.parametrize("tie_break", ["first", "latest", "player"])
@pytest.mark.parametrize("ways", [["higher"], ["lower"], ["lower", "higher", "higher", "lower"]])
def test_numbers_make_the_keys_that_the_order_makes(ways: list[str], tie_break: str) -> None:
    columns = [{"name": f"c{n}", "direction": way} for n, way in enumerate(ways)]
    board = Board.define("b", {"columns": columns, "tie_break": tie_break})
    _, masks, tie_factor, *_ = bulk_judge.rules_of(board)
    scores = (-7, 2**63 - 1, -(2**63), 0)[: len(ways)]
    numbers = (*(score % 2**64 for score in scores), 12345 * tie_factor)
    words = [number ^ mask for number, mask in zip(numbers, masks, strict=True)]
    key = b"".join(word.to_bytes(8, "big") for word in words)
    assert key == Order.of(board).key(scores, Position(12345))


def test_each_run_is_judged_by_the_rules_of_its_own_board(index: NativeIndex) -> None:
    """Their plain numbers are cached by name, and a board that is defined anew keeps its name."""
    judge(index, run(("ann", 5)))
    judge(index, run(("ann", 3)))
    latest = Board.define("b", {"rule": "latest"})
    ((told,),) = judge(index, run(("ann", 3), board=latest))
    assert list(told.verdicts) == [COUNTED]
    ((told,),) = judge(index, run(("ann", 2)))
    assert list(told.verdicts) == [NOT_BETTER]


def test_the_rules_of_many_boards_are_not_cached_for_ever(index: NativeIndex) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk_judge, "RULES_MAX", 2)
        for number in range(5):
            board = Board.define(f"b{number}", {})
            judge(index, run((f"p{number}", number), board=board))
            assert len(index._state.rules) <= 2


# ---- Turns -------------------------------------------------------------------------------------


def test_a_run_out_of_turn_changes_nothing(index: NativeIndex, table: PlayerTable) -> None:
    before = now(index.checkpoint())
    for after in (before - 1, before + 1):
        told = now(index.judge([run(("ann", 1))], after=Position(after), through=Position(9)))
        assert told is None
    assert now(index.checkpoint()) == before
    assert len(table) == 0


def test_a_run_leads_past_the_checkpoint(index: NativeIndex) -> None:
    with pytest.raises(AssertionError, match="lead past it"):
        now(index.judge([], after=Position(1), through=Position(1)))


def test_the_checkpoint_is_where_the_runs_end(index: NativeIndex) -> None:
    assert now(index.judge([], after=Position(1), through=Position(40))) == []
    assert now(index.judge([run()], after=Position(40), through=Position(50))) is not None
    assert now(index.checkpoint()) == 50


# ---- Who is kept -------------------------------------------------------------------------------


def test_each_ranking_judges_for_itself(index: NativeIndex) -> None:
    judge(index, run(("ann", 5)))
    ((daily, forever),) = judge(index, run(("ann", 3), ("bob", 9), at=(DAILY, FOREVER)))
    assert list(daily.verdicts) == [COUNTED, COUNTED]
    assert list(forever.verdicts) == [NOT_BETTER, COUNTED]
    assert players_of(index, DAILY) == players_of(index) == ["bob", "ann"]


def test_a_player_is_held_as_often_as_it_has_entries(
    index: NativeIndex, table: PlayerTable
) -> None:
    judge(index, run(("ann", 1), ("ann", 2), at=(DAILY, FOREVER)))
    index.check()
    apply(index, [Move(DAILY, "ann", None)])
    assert len(table) == 1
    apply(index, [Move(FOREVER, "ann", None)])
    assert len(table) == 0


def test_who_is_rejected_everywhere_is_not_remembered(
    index: NativeIndex, table: PlayerTable
) -> None:
    sent = ("ann", TOO_HIGH), ("bob", 1), ("ann", TOO_HIGH)
    ((told, _),) = judge(index, run(*sent, at=(DAILY, FOREVER)))
    assert list(told.verdicts) == [OUT_OF_BOUNDS, COUNTED, OUT_OF_BOUNDS]
    assert (list(told.ranks), list(told.totals)) == ([0, 1, 0], [0, 1, 1])
    assert table.find("ann") is None
    assert table.find("bob") is not None


def test_who_is_rejected_here_and_known_there_is_remembered(
    index: NativeIndex, table: PlayerTable
) -> None:
    judge(index, run(("ann", 1), at=(DAILY,)))
    judge(index, run(("ann", TOO_HIGH), ("bob", TOO_HIGH), ("bob", 5)))
    assert table.find("ann") is not None
    assert players_of(index) == ["bob"]


@pytest.mark.parametrize("scores", [(TOO_HIGH, TOO_HIGH), (TOO_HIGH, 1), (1, TOO_HIGH)])
def test_runs_share_their_players(
    index: NativeIndex, table: PlayerTable, scores: tuple[int, int]
) -> None:
    """Rejected in one, ann may count in another: her number is hers until all are judged."""
    first, second = scores
    elsewhere = run(("zoe", 1), ("ann", second), at=(ELSEWHERE,), board=OTHER)
    judge(index, run(("ann", first)), elsewhere)
    assert (table.find("ann") is None) is (min(scores) == TOO_HIGH)
    assert ("ann" in players_of(index), "ann" in players_of(index, ELSEWHERE)) == (
        first == 1,
        second == 1,
    )


def test_a_run_to_no_ranking_leaves_nobody(index: NativeIndex, table: PlayerTable) -> None:
    assert judge(index, run(("ann", 1), at=())) == [[]]
    assert len(table) == 0


def test_players_of_dropped_rankings_are_released_on_the_way(
    index: NativeIndex, table: PlayerTable
) -> None:
    count = 3 * PLAYERS_RELEASED_PER_APPLY
    judge(index, run(*[(f"p{n}", 1) for n in range(count)]))
    apply(index, dropped=[FOREVER])
    for _ in range(3):
        judge(index, run(("ann", 1), at=(DAILY,)))
    assert len(table) == 1


# ---- What is shown beside ----------------------------------------------------------------------


def test_metadata_is_that_of_the_last_submission_that_counted(index: NativeIndex) -> None:
    sent = [("ann", 1), ("ann", 9), ("ann", 5), ("ann", TOO_HIGH), ("bob", TOO_HIGH)]
    judge(index, run(*sent, metadata=[b"1", b"9", b"5", b"!", b"?"]))
    assert beside(index, "ann") == b"9"
    judge(index, run(("ann", 2)))
    assert beside(index, "ann") == b"9"


@pytest.mark.parametrize("metadata", [None, [None], [None, b"x"]])
def test_what_counts_without_metadata_clears_it(
    index: NativeIndex, metadata: Sequence[bytes | None] | None
) -> None:
    judge(index, run(("ann", 1), at=(DAILY, FOREVER), metadata=[b"1"]))
    sent = [("ann", 2), ("bob", 2)][: len(metadata or [None])]
    judge(index, run(*sent, metadata=metadata))
    assert beside(index, "ann") is None
    assert beside(index, "ann", DAILY) == b"1"


# ---- What is refused leaves no trace -----------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (run(("ann", 1), at=[Ranking("b", "never")]), "never opened"),
        (run(("ann", 1), at=[Ranking(f"{DRAFT}b", "draft")]), "is a draft"),
        (run(("ann", 1), at=[Ranking("b", "wide")]), "keys of 16 bytes"),
        (run(("ann", 1), scores=array("q", [1, 2])), "a score for each column"),
        (run(("ann", 1), positions=array("Q", [1, 2])), "has a position"),
        (run(("ann", 1), positions=array("Q", [0])), "begin at 1"),
        (run(("ann", 1), deltas=b"\0\0"), "is a delta or is not"),
        (run(("ann", 1), deltas=b"\1", board=Board.define("b", {"rule": "first"})), "no deltas"),
        (run(("ann", 1), metadata=[]), "metadata"),
        (run(("ann", 1), at=[ELSEWHERE]), "in common"),
    ],
)
def test_a_mistake_is_found_before_anything_is_done(
    index: NativeIndex, table: PlayerTable, wrong: Run, why: str
) -> None:
    apply(index, opened={Ranking("b", "wide"): RankingShape(24, False)})
    now(index.stage([], opened={Ranking(f"{DRAFT}b", "draft"): PLAIN}))
    with pytest.raises(AssertionError, match=why):
        judge(index, run(("zoe", 1), at=[ELSEWHERE]), wrong)
    assert (len(table), players_of(index)) == (0, [])
    judge(index, run(("ann", 1)))


@pytest.mark.parametrize("id", ["", "x" * 257, "\ud800"])
def test_an_id_that_cannot_be_kept_is_refused_with_all_the_others(
    index: NativeIndex, table: PlayerTable, id: str
) -> None:
    judge(index, run(("known", 1)))
    before = now(index.checkpoint())
    with pytest.raises(ValueError):  # each kind of id has its own message
        judge(
            index,
            run(("zoe", 1), at=[ELSEWHERE], board=OTHER),
            run(("ann", 1), ("known", 2), (id, 1), ("bob", 1)),
        )
    assert now(index.checkpoint()) == before
    assert (len(table), players_of(index)) == (1, ["known"])


# ---- Memory ------------------------------------------------------------------------------------


def test_without_memory_nothing_is_done_or_everything_is_refused() -> None:
    """For each allocation that judging makes: the index is as it was, or lets nobody near it."""
    native = native_part("rankd.rank._ranklist")
    outcomes = {_outcome_of_a_refusal(native, k) for k in range(1, ALLOCATIONS_TRIED)}
    assert outcomes == {"as it was", "refuses", "goes on without"}


def _outcome_of_a_refusal(native: ModuleType, k: int) -> str:
    table = PlayerTable(seed=1)
    index = NativeIndex(make_players=lambda: table)
    apply(index, opened={DAILY: PLAIN, FOREVER: PLAIN})
    crowd = run(*[(f"player {n}", n % 90) for n in range(200)], at=(DAILY, FOREVER))
    native.fail_allocation(k)
    try:
        judge(index, crowd)
    except MemoryError:
        native.fail_allocation(0)
        return _after_a_failure(index, table, crowd)
    finally:
        native.fail_allocation(0)
    index.check()
    return "goes on without"


def _after_a_failure(index: NativeIndex, table: PlayerTable, again: Run) -> str:
    if index._failure is None:
        assert len(table) == 0
        judge(index, again)
        index.check()
        return "as it was"
    for call in (index.checkpoint(), index.judge([], after=Position(1), through=Position(2))):
        with pytest.raises(MemoryError, match="refuses everything"):
            now(call)
    return "refuses"


# ---- Saving ------------------------------------------------------------------------------------


def test_a_save_is_told_of_every_player_in_every_ranking(
    index: NativeIndex, table: PlayerTable
) -> None:
    judge(index, run(("ann", 5), ("eve", 5)))
    touched = index.begin_saving()
    judge(index, run(("ann", 1), ("bob", 9), at=(DAILY, FOREVER)))
    numbers = {table.find("ann"), table.find("bob")}
    taken = dict(touched.take(99, 0))
    state = index._state
    assert taken == {state.rankings[DAILY]: numbers, state.rankings[FOREVER]: numbers}

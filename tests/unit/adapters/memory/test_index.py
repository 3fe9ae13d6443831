"""What the index in this process does beyond its port: forgetting players, failing, digests."""

import itertools
from collections.abc import Coroutine, Iterator, Sequence
from types import ModuleType
from typing import Any, TypeVar

import pytest
from tests.standins import native_part

from rankd.adapters.memory import index as module
from rankd.adapters.memory.index import MOVES_TOGETHER_MIN, NativeIndex
from rankd.model.facts import Position
from rankd.model.standing import Rank
from rankd.ports import DRAFT, Move, Moved, Ranking, RankingShape
from rankd.rank import PlayerTable, oracle

T = TypeVar("T")

DAILY, FOREVER = Ranking("b", "daily:2026-11-14"), Ranking("b", "forever")
REDONE = Ranking(DRAFT + "b", "forever")
PLAIN = RankingShape(16, False)
MANY = MOVES_TOGETHER_MIN * 2


def now(call: Coroutine[Any, Any, T]) -> T:
    try:
        call.send(None)
    except StopIteration as done:
        answer: T = done.value
        return answer
    raise AssertionError("the call suspended")


def fold(index: NativeIndex, moves: Sequence[Move] = (), **rest: Any) -> Sequence[Moved]:
    after = now(index.checkpoint())
    moved = now(index.apply(moves, after=after, through=Position(after + 1), **rest))
    assert moved is not None
    return moved


def crowd(count: int, *, at: Ranking = FOREVER, beside: bytes | None = None) -> list[Move]:
    return [Move(at, f"p{n:05}", n.to_bytes(16, "big"), beside) for n in range(count)]


@pytest.fixture
def table() -> PlayerTable:
    return PlayerTable()


@pytest.fixture
def index(table: PlayerTable) -> Iterator[NativeIndex]:
    index = NativeIndex(make_players=lambda: table)
    fold(index, opened={DAILY: PLAIN, FOREVER: PLAIN})
    yield index
    index.check()


# ---- Forgetting players ------------------------------------------------------------------------


def test_a_player_is_forgotten_when_the_last_ranking_lets_go_of_it(
    index: NativeIndex, table: PlayerTable
) -> None:
    fold(index, [Move(DAILY, "ann", bytes(16)), Move(FOREVER, "ann", bytes(16))])
    fold(index, [Move(DAILY, "ann", None)])
    assert len(table) == 1
    fold(index, [Move(FOREVER, "ann", None)])
    assert len(table) == 0


@pytest.mark.parametrize("others", [0, MANY])
def test_a_player_who_leaves_and_returns_in_one_apply_stays_the_same_one(
    index: NativeIndex, table: PlayerTable, others: int
) -> None:
    fold(index, [Move(FOREVER, "ann", bytes(16))])
    number = table.find("ann")
    moves = [
        Move(FOREVER, "ann", None),
        Move(FOREVER, "new", bytes(16)),
        Move(FOREVER, "ann", bytes(16)),
    ]
    fold(index, [*crowd(others, at=DAILY), *moves])
    assert table.find("ann") == number
    assert table.find("new") != number
    assert [each.player for each in now(index.read(FOREVER, first=Rank(1), limit=9)).entries] == [
        "ann",
        "new",
    ]


def test_a_stranger_who_leaves_is_not_remembered(index: NativeIndex, table: PlayerTable) -> None:
    fold(index, [Move(FOREVER, "nobody", None)])
    fold(index, [Move(FOREVER, f"nobody{n}", None) for n in range(MANY)])
    assert len(table) == 0


def test_a_dropped_ranking_lets_go_of_its_players_a_few_at_a_time(
    index: NativeIndex, table: PlayerTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PLAYERS_RELEASED_PER_APPLY", 10)
    fold(index, crowd(25, beside=b"x"))
    fold(index, dropped=[FOREVER])
    assert len(table) == 15
    index.check()
    fold(index)
    assert len(table) == 5
    fold(index)
    fold(index)
    assert len(table) == 0


def test_as_many_are_released_as_come_so_that_the_queue_has_an_end(
    index: NativeIndex, table: PlayerTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PLAYERS_RELEASED_PER_APPLY", 1)
    for turn in range(20):
        ranking = Ranking("b", f"turn:{turn}")
        players = [Move(ranking, f"{turn}/{n}", bytes(16)) for n in range(40)]
        fold(index, players, opened={ranking: PLAIN}, dropped=[ranking])
        assert len(table) == 0
    index.check()


def test_whoever_waits_to_be_released_may_come_back(
    index: NativeIndex, table: PlayerTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PLAYERS_RELEASED_PER_APPLY", 10)
    fold(index, crowd(30))
    fold(index, dropped=[FOREVER])
    fold(index, crowd(30)[::10], opened={FOREVER: PLAIN})
    for _ in range(3):
        index.check()
        fold(index)
    assert len(table) == 3
    assert [each.player for each in now(index.read(FOREVER, first=Rank(1), limit=9)).entries] == [
        "p00000",
        "p00010",
        "p00020",
    ]


def test_a_draft_holds_its_players_and_a_dropped_one_frees_them(
    index: NativeIndex, table: PlayerTable
) -> None:
    fold(index, crowd(2))
    now(index.stage(crowd(5, at=REDONE), opened={REDONE: PLAIN}))
    index.check()
    assert len(table) == 5
    now(index.stage([], dropped=[REDONE]))
    index.check()
    assert len(table) == 2


def test_whoever_only_the_replaced_ranking_held_is_forgotten(
    index: NativeIndex, table: PlayerTable
) -> None:
    fold(index, crowd(5, beside=b"x"))
    now(index.stage(crowd(2, at=REDONE), opened={REDONE: PLAIN}))
    fold(index, adopted={REDONE: FOREVER})
    index.check()
    assert len(table) == 2


def test_a_stage_that_is_refused_leaves_no_trace(index: NativeIndex, table: PlayerTable) -> None:
    with pytest.raises(AssertionError):
        now(index.stage([*crowd(3, at=REDONE), *crowd(1)], opened={REDONE: PLAIN}))
    assert len(table) == 0
    assert list(now(index.rankings(REDONE.board))) == []


@pytest.mark.parametrize("good", [1, MANY])
@pytest.mark.parametrize("bad", ["", "x" * 257, "\ud800"])
def test_an_apply_with_an_id_nobody_can_have_leaves_no_trace(
    index: NativeIndex, table: PlayerTable, good: int, bad: str
) -> None:
    with pytest.raises(ValueError):
        fold(index, [*crowd(good), Move(FOREVER, bad, bytes(16))])
    assert len(table) == 0
    assert now(index.count(FOREVER)) == 0
    fold(index, crowd(good))


@pytest.mark.parametrize("good", [1, MANY])
def test_keys_of_wrong_lengths_are_found_even_if_they_add_up(index: NativeIndex, good: int) -> None:
    wrong = [Move(FOREVER, "a", bytes(15)), Move(FOREVER, "b", bytes(17))]
    with pytest.raises(AssertionError, match="16 bytes"):
        fold(index, [*crowd(good), *wrong])
    assert now(index.count(FOREVER)) == 0


# ---- Failing -----------------------------------------------------------------------------------


@pytest.fixture
def native() -> ModuleType:
    """Return the list that can be refused memory."""
    return native_part("rankd.rank._ranklist")


@pytest.mark.parametrize("count", [10, 300])
def test_after_running_out_of_memory_the_index_is_as_it_was_or_refuses_everything(
    native: ModuleType, count: int
) -> None:
    """Each allocation that an apply makes is refused once; some it can do without."""
    outcomes = set()
    for k in itertools.count(1):
        index = NativeIndex()
        fold(index, opened={DAILY: PLAIN, FOREVER: PLAIN})
        before, made = index.digest(), native.allocations()
        native.fail_allocation(k)
        try:
            fold(index, [*crowd(count), *crowd(count, at=DAILY)])
        except MemoryError:
            native.fail_allocation(0)
            outcomes.add(_outcome(index, before))
        else:
            native.fail_allocation(0)
            index.check()
            if native.allocations() - made < k:
                break
    assert outcomes == {"as it was", "refuses everything"}


def _outcome(index: NativeIndex, before: bytes) -> str:
    try:
        now(index.checkpoint())
    except MemoryError:
        _refuses_everything(index)
        return "refuses everything"
    index.check()
    assert index.digest() == before
    return "as it was"


def _refuses_everything(index: NativeIndex) -> None:
    calls: list[Coroutine[Any, Any, Any]] = [
        index.checkpoint(),
        index.apply([], after=Position(1), through=Position(2)),
        index.order_keys([]),
        index.stage([]),
        index.metadata([]),
        index.rank(FOREVER, "ann"),
        index.ranks(FOREVER, ["ann"]),
        index.count(FOREVER),
        index.count_below(FOREVER, bytes(16)),
        index.scores_below(FOREVER, bytes(16)),
        index.read(FOREVER, first=Rank(1), limit=1),
        index.rankings("b"),
    ]
    for call in calls:
        with pytest.raises(MemoryError, match="refuses everything"):
            now(call)
    with pytest.raises(MemoryError, match="refuses everything"):
        index.digest()


def test_a_list_that_breaks_within_an_apply_closes_the_index() -> None:
    class Breaking(oracle.RankList):
        def put(self, player: int, key: bytes) -> tuple[int | None, int]:
            if len(self) == 2:
                raise RuntimeError("broken")
            return super().put(player, key)

    make: Any = {"make_players": oracle.PlayerTable, "make_list": Breaking}
    index = NativeIndex(**make)
    with pytest.raises(RuntimeError, match="broken"):
        fold(index, crowd(3), opened={FOREVER: PLAIN})
    with pytest.raises(AssertionError, match="refuses everything"):
        now(index.checkpoint())


# ---- Digests -----------------------------------------------------------------------------------


def test_a_digest_tells_what_was_folded_not_in_which_numbers(index: NativeIndex) -> None:
    """More than a block of entries, once forwards and once backwards."""
    fold(index, crowd(5000, beside=b"m"))
    other = NativeIndex()
    fold(other, opened={FOREVER: PLAIN, DAILY: PLAIN})
    for move in reversed(crowd(5000, beside=b"m")):
        fold(other, [move])
    assert index.digest() == other.digest()


def test_a_digest_does_not_depend_on_the_list_that_is_used(index: NativeIndex) -> None:
    players: Any = oracle.PlayerTable
    lists: Any = oracle.RankList
    other = NativeIndex(make_players=players, make_list=lists)
    fold(other, opened={DAILY: PLAIN, FOREVER: PLAIN})
    for each in (index, other):
        fold(each, crowd(50, beside=b"x"))
    assert index.digest() == other.digest()


def test_a_digest_never_changes_its_meaning(index: NativeIndex) -> None:
    """Two nodes of different versions compare theirs."""
    fold(index, [*crowd(2), Move(DAILY, "é", b"\xff" * 16, b"run")])
    known = "53d16cea2b610e6aefac79856c091d78415db9adc75e592ab74011872b98844c"
    assert index.digest().hex() == known


def test_drafts_are_no_part_of_a_digest(index: NativeIndex) -> None:
    fold(index, crowd(3))
    before = index.digest()
    now(index.stage(crowd(5, at=REDONE), opened={REDONE: PLAIN}))
    assert index.digest() == before
    fold(index, adopted={REDONE: FOREVER})
    assert index.digest() != before


@pytest.mark.parametrize(
    "change",
    [
        {"moves": [Move(FOREVER, "p00000", bytes(15) + b"\x01")]},
        {"moves": [Move(FOREVER, "p00000", bytes(16), b"")]},
        {"moves": [Move(FOREVER, "p00000", None)]},
        {"moves": [Move(FOREVER, "p99999", bytes(16))]},
        {"opened": {Ranking("b", "weekly"): PLAIN}},
        {"dropped": [DAILY]},
    ],
)
def test_a_digest_tells_every_difference(index: NativeIndex, change: dict[str, Any]) -> None:
    fold(index, crowd(3))
    before = index.digest()
    fold(index, **change)
    assert index.digest() != before


def test_an_empty_segment_is_no_difference(index: NativeIndex) -> None:
    """An index over several partitions keeps the names of segments that everybody left."""
    fold(index, crowd(3))
    before = index.digest()
    fold(index, opened={Ranking("b", "forever", "region:eu"): PLAIN})
    assert index.digest() == before

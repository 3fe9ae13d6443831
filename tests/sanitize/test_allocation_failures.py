"""Memory that runs out changes nothing: whatever allocation of whatever operation is refused.

Each case is an operation and a state in which it must allocate. It is first run with no refusal,
to count its allocations; then again from the same state for each k, with the k-th refused. Every
time MemoryError comes out, the structures are sound, the content is what it was, nothing is
leaked, and the same operation then succeeds with the same result. (A few allocations only make
later operations faster. One that goes on without them must do so with the same result.)
"""

import gc
import random
from array import array
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from tests.standins import NO_NATIVE_PART, PURE, native_part

from rankd.rank.rules import SUM, Rules

if PURE:
    pytest.skip(NO_NATIVE_PART, allow_module_level=True)

native = native_part("rankd.rank._ranklist")

DEEP = 4100  # More entries than a tree of two levels can hold, whatever its nodes' size.


def key(score: int, tie: int = 0, width: int = 16) -> bytes:
    return score.to_bytes(width - 8, "big") + tie.to_bytes(8, "big")


class World(NamedTuple):
    """A table and a list over it."""

    table: Any
    ranks: Any

    def content(self) -> Any:
        players = {n: self.table.id_of(n) for numbers, _, _ in self.table.blocks() for n in numbers}
        return players, list(self.ranks), [self.ranks.key_of(n) for n in players]

    def check(self) -> None:
        self.table.check()
        self.ranks.check()


def world(count: int = 0, *, spare: int = 0, width: int = 16, dense: bool = False) -> World:
    """Make `count` ranked players, in ascending order, and a few who are not ranked."""
    table = native.PlayerTable(seed=1)
    numbers = table.intern_many([f"player {i:06}" for i in range(count + spare)])
    ranks = native.RankList(width, players=table, dense=dense)
    for number in numbers[:count]:
        ranks.put(number, key(2 * number, 0, width))
    return World(table, ranks)


Operation = Callable[[World], Any]


@pytest.fixture(autouse=True)
def _no_refusal_is_left_over() -> Iterator[None]:
    yield
    native.fail_allocation(0)


def allocations_of(operation: Callable[[], object]) -> int:
    before: int = native.allocations()
    operation()
    after: int = native.allocations()
    return after - before


def without_refusal(make: Callable[[], World], operation: Operation) -> tuple[int, Any, Any]:
    """How many allocations there are, what is returned, and what is there afterwards."""
    made, before = make(), native.allocations()
    result = operation(made)
    return native.allocations() - before, result, made.content()


def refuse(k: int, make: Callable[[], World], operation: Operation, expected: Any) -> None:
    made = make()
    before = made.content()
    native.fail_allocation(k)
    try:
        result = operation(made)
    except MemoryError:
        native.fail_allocation(0)
        made.check()
        assert made.content() == before, f"refusal {k} changed something"
        result = operation(made)
    native.fail_allocation(0)
    made.check()
    assert (result, made.content()) == expected


def try_every_refusal(make: Callable[[], World], operation: Operation) -> int:
    """Refuse each allocation in turn; return how many there were."""
    gc.collect()  # What an earlier test left in a cycle is not ours to count.
    at_first = native.bytes_in_use()
    count, *expected = without_refusal(make, operation)
    for k in range(1, count + 1):
        refuse(k, make, operation, tuple(expected))
    gc.collect()
    assert native.bytes_in_use() == at_first, "something was leaked"
    return count


# ---- One operation, one state ------------------------------------------------------------------


@pytest.mark.parametrize("id", ["a", "b" * 22, "c" * 23, "d" * 256])
@pytest.mark.parametrize("count", [0, 1, 7, 15, 16, 31, 32, 63, 64, 127, 128, 448, 1024])
def test_intern(count: int, id: str) -> None:
    """The first of all, a full chunk of records, a segment that grows."""
    allocated = try_every_refusal(lambda: world(spare=count), lambda w: w.table.intern(id))
    assert allocated >= (len(id) > 22)


def test_intern_wherever_the_hash_grows() -> None:
    """Up to several segments and a doubled directory: every intern that allocates is tried."""
    table, tried = native.PlayerTable(seed=1), 0
    for i in range(3000):
        before, in_use = len(table), native.bytes_in_use()
        k = 1
        while True:
            native.fail_allocation(k)
            try:
                table.intern(f"player {i:06}")
            except MemoryError:
                assert len(table) == before
                tried += 1
                k += 1
                continue
            break
        native.fail_allocation(0)
        assert native.bytes_in_use() >= in_use
        if k > 1:
            table.check()
    assert tried > 30
    assert [table.find(f"player {i:06}") for i in range(3000)] == list(range(3000))


def test_intern_in_the_place_of_a_removed_id() -> None:
    def with_gaps() -> World:
        made = world(spare=50)
        for number in (3, 4, 30):
            made.table.remove(number)
        return made

    assert try_every_refusal(with_gaps, lambda w: w.table.intern("e" * 100)) == 1


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("width", [16, 40, 48])
def test_the_first_put(width: int, dense: bool) -> None:
    first = try_every_refusal(
        lambda: world(spare=1, width=width, dense=dense),
        lambda w: w.ranks.put(0, key(1, 0, width)),
    )
    assert first >= 4, "directory, segment, chunk of leaves"


@pytest.mark.parametrize("dense", [False, True])
def test_every_put_that_allocates_on_the_way_to_three_levels(dense: bool) -> None:
    """Leaf, inner and root splits, segments that widen and split, the directory that doubles."""
    made = world(spare=DEEP, dense=dense)
    order = random.Random(1).sample(range(DEEP), DEEP)
    refused, placed = 0, 0
    for player in order:
        k = 1
        while True:
            native.fail_allocation(k)
            try:
                rank = made.ranks.put(player, key(player // 2, player))
            except MemoryError:
                refused += 1
                k += 1
                native.fail_allocation(0)
                assert len(made.ranks) == placed
                assert player not in made.ranks
                made.ranks.check()
                continue
            break
        native.fail_allocation(0)
        placed += 1
        assert rank == (None, made.ranks.rank_of(player))
    assert [player for _, player in made.ranks] == list(range(DEEP))
    assert refused > 50


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("count", [15, 31, 32, 63, 64, 200, 992, 993, 1500])
def test_a_put_of_a_new_player(count: int, dense: bool) -> None:
    try_every_refusal(
        lambda: world(count, spare=1, dense=dense),
        lambda w: w.ranks.put(count, key(count // 2 * 2 + 1)),
    )


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("count", [31, 32, 62, 63, 64, 200, 993, 1500])
@pytest.mark.parametrize("target", [lambda n: 1, lambda n: n, lambda n: 2 * n + 1])
def test_a_move_into_a_full_node(count: int, dense: bool, target: Callable[[int], int]) -> None:
    """The player stays where it was, in the order, in the map and among the distinct scores."""
    try_every_refusal(
        lambda: world(count, dense=dense), lambda w: w.ranks.put(count // 2, key(target(count)))
    )


# ---- Batches: what was put before the refusal stays --------------------------------------------


@pytest.mark.parametrize("dense", [False, True])
def test_a_batch_stops_at_the_refusal_and_says_where(dense: bool) -> None:
    count = 700
    players = array("I", random.Random(2).sample(range(count), count))
    keys = b"".join(key(player // 2, player) for player in players)

    def empty() -> World:
        return world(spare=count, dense=dense)

    def refuse_in_batch(k: int) -> None:
        made = empty()
        native.fail_allocation(k)
        done = count
        try:
            made.ranks.put_many(players, keys)
        except MemoryError as error:
            done = len(made.ranks)
            assert error.__notes__ == [f"{done} entries of the batch were put"]
        native.fail_allocation(0)
        made.check()
        assert {player for _, player in made.ranks} == set(players[:done])
        made.ranks.put_many(players[done:], keys[done * 16 :])
        made.check()
        assert made.content() == content

    at_first = native.bytes_in_use()
    total, _, content = without_refusal(empty, lambda w: w.ranks.put_many(players, keys))
    assert total > 20
    for k in range(1, total + 1):
        refuse_in_batch(k)
    assert native.bytes_in_use() == at_first


@pytest.mark.parametrize("dense", [False, True])
def test_judging_stops_at_the_refusal_and_says_where(dense: bool) -> None:
    """Whoever comes again after a refusal finds what was judged before it, and nothing else."""
    count, rules = 700, Rules(SUM, (2**63 - 1, 0), 1, -(2**63), 2**63 - 1)
    players = array("I", random.Random(3).choices(range(400), k=count))
    scores = array("q", [player % 50 for player in players])
    positions = array("Q", range(1, count + 1))

    def empty() -> World:
        return world(spare=400, dense=dense)

    def judge(made: World, first: int, end: int) -> Any:
        columns = players[first:end], scores[first:end], positions[first:end]
        return made.ranks.judge_many(*columns, rules=rules)

    def done_of(error: MemoryError) -> int:
        (note,) = error.__notes__
        done, _, rest = note.partition(" ")
        assert rest == "entries of the batch were put"
        return int(done)

    def refuse_in_run(k: int) -> int:
        made, done = empty(), count
        native.fail_allocation(k)
        try:
            judge(made, 0, count)
        except MemoryError as error:
            done = done_of(error)
        native.fail_allocation(0)
        made.check()
        alike = empty()
        judge(alike, 0, done)
        assert list(made.ranks) == list(alike.ranks)
        assert [column[-1:] for column in judge(made, done, count)] == last[done < count]
        made.check()
        assert made.content() == content
        return done

    at_first = native.bytes_in_use()
    total, told, content = without_refusal(empty, lambda w: judge(w, 0, count))
    assert total > 20
    last = [[column[:0] for column in told], [column[-1:] for column in told]]
    stopped = {refuse_in_run(k) for k in range(1, total + 1)}
    assert len(stopped) > 20
    assert native.bytes_in_use() == at_first


def test_ids_interned_before_a_refusal_stay() -> None:
    ids = [f"{'long ' * (i % 7)}{i}" for i in range(300)]

    def refuse_in_batch(k: int) -> None:
        table = native.PlayerTable(seed=1)
        native.fail_allocation(k)
        with pytest.raises(MemoryError):
            table.intern_many(ids)
        native.fail_allocation(0)
        table.check()
        assert [table.id_of(number) for number in range(len(table))] == ids[: len(table)]
        assert list(table.intern_many(ids)) == list(range(300))
        table.check()

    at_first = native.bytes_in_use()
    for k in range(1, 1 + allocations_of(lambda: native.PlayerTable(seed=1).intern_many(ids))):
        refuse_in_batch(k)
    assert native.bytes_in_use() == at_first


# ---- Loads: all or nothing ---------------------------------------------------------------------


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("count", [1, 30, 100, 1200])
def test_loading_a_list(count: int, dense: bool) -> None:
    blocks = list(world(count, dense=dense).ranks.blocks(50))
    allocated = try_every_refusal(
        lambda: world(spare=count, dense=dense), lambda w: w.ranks.load(blocks)
    )
    assert allocated >= 5


# ---- What never allocates ----------------------------------------------------------------------


def test_removing_and_asking_need_no_memory() -> None:
    """So a ranking can be emptied, and read, however little is left."""
    made = world(1500, dense=True)
    players = array("I", range(1500))
    made.ranks.rank_many(players)
    made.ranks.find_many(players)
    made.ranks.read(1, 1500)
    made.ranks.count_below(key(5))
    for player in players:
        made.ranks.rank_of(player)
        made.ranks.key_of(player)
        native.fail_allocation(1)  # What is given back may be moved first, but need not be.
        made.ranks.remove(player)
        native.fail_allocation(1)
        made.table.remove(player)
        native.fail_allocation(0)
    made.check()
    assert len(made.ranks) == len(made.table) == 0


def test_everything_is_given_back() -> None:
    gc.collect()
    at_first = native.bytes_in_use()
    made = world(DEEP, dense=True)
    held = native.bytes_in_use() - at_first
    assert held >= made.ranks.bytes_used + made.table.bytes_used
    del made
    assert native.bytes_in_use() == at_first

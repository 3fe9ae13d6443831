"""The rank list: each promise of _ranklist.pyi, kept by both implementations."""

import copy
import pickle
import random
import subprocess
import sys
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import pairwise
from types import ModuleType
from typing import Any

import pytest
from tests.standins import STRICT

WIDTHS = [16, 24, 32, 40]
TOP = 2**64 - 1
# A node of the native tree holds 15, 31 or 63 entries, as it was tuned: around those numbers and
# their multiples nodes split and merge.
SIZES = [*range(5), *range(14, 18), *range(26, 36), *range(54, 70), 120, 127, 128, 200, 2000, 4100]


def key(score: int, tie: int = 0, width: int = 16) -> bytes:
    return score.to_bytes(width - 8, "big") + tie.to_bytes(8, "big")


def listed(ranks: Any) -> list[tuple[bytes, int]]:
    return list(ranks)


def stretch(ranks: Any, first: int, count: int) -> list[tuple[bytes, int]]:
    keys, players = ranks.read(first, count)
    width = ranks.width
    return [(keys[i * width : (i + 1) * width], player) for i, player in enumerate(players)]


def filled(rank: ModuleType, count: int, *, width: int = 16, dense: bool = False) -> Any:
    """Make a list with ties and gaps, put in an order of its own."""
    order = list(range(count))
    random.Random(count).shuffle(order)
    ranks = rank.RankList(width, dense=dense)
    for player in order:
        ranks.put(player, key(player // 3 * 10, player % 2, width))
    return ranks


@pytest.fixture
def ranks(rank: ModuleType) -> Any:
    return rank.RankList()


# ---- Making one --------------------------------------------------------------------------------


def run(code: str) -> subprocess.CompletedProcess[str]:
    """Run in a process of its own: what is asked for here might end it."""
    return subprocess.run(
        [sys.executable, *STRICT, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_key_has_two_to_six_words(rank: ModuleType) -> None:
    done = run(
        f"""if True:
        from {rank.__name__} import RankList
        for width in (-16, 0, 8, 15, 17, 20, 56, 2**40):
            try:
                RankList(width)
            except ValueError as exc:
                assert "16, 24, 32, 40 or 48" in str(exc), exc
            else:
                assert False, width
        """
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_native_list_takes_a_native_table_only(native: ModuleType) -> None:
    done = run(
        f"""if True:
        from rankd.rank.oracle import PlayerTable
        from {native.__name__} import RankList
        for wrong in (dict(players=PlayerTable()), dict(players=1), dict(unknown=1)):
            try:
                RankList(**wrong)
            except TypeError:
                pass
            else:
                assert False, wrong
        """
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("width", WIDTHS)
def test_a_list_says_how_it_was_made(rank: ModuleType, width: int) -> None:
    table = rank.PlayerTable()
    ranks = rank.RankList(width, players=table, dense=True)
    assert (ranks.width, ranks.players, ranks.dense) == (width, table, True)
    plain = rank.RankList(width)
    assert (plain.width, plain.players, plain.dense) == (width, None, False)


def test_a_new_list_is_empty(ranks: Any) -> None:
    assert len(ranks) == 0
    assert ranks.bytes_used == 0
    assert listed(ranks) == []
    assert list(ranks.blocks()) == []
    assert ranks.read(1, 10) == (b"", array("I"))
    assert ranks.count_below(key(TOP, TOP)) == 0
    assert ranks.rank_of(0) is None
    ranks.check()


def test_a_list_cannot_be_copied_by_accident(native: ModuleType) -> None:
    """It would be a second owner of one memory."""
    for thing in (native.RankList(), native.PlayerTable()):
        with pytest.raises(TypeError):
            copy.copy(thing)
        with pytest.raises(TypeError):
            pickle.dumps(thing)


# ---- One at a time -----------------------------------------------------------------------------


def test_the_lesser_key_is_the_better(ranks: Any) -> None:
    assert ranks.put(7, key(50)) == (None, 1)
    assert ranks.put(8, key(60)) == (None, 2)
    assert ranks.put(9, key(40)) == (None, 1)
    assert [ranks.rank_of(player) for player in (7, 8, 9)] == [2, 3, 1]
    assert listed(ranks) == [(key(40), 9), (key(50), 7), (key(60), 8)]


def test_put_tells_the_rank_before_and_after(ranks: Any) -> None:
    assert ranks.put(1, key(10)) == (None, 1)
    assert ranks.put(2, key(20)) == (None, 2)
    assert ranks.put(3, key(30)) == (None, 3)
    assert ranks.put(3, key(5)) == (3, 1)
    assert ranks.put(3, key(15)) == (1, 2)
    assert ranks.put(1, key(99)) == (1, 3)
    assert ranks.put(1, key(98)) == (3, 3)
    assert ranks.put(1, key(98)) == (3, 3)
    assert listed(ranks) == [(key(15), 3), (key(20), 2), (key(98), 1)]
    ranks.check()


def test_remove_tells_the_rank_that_was(ranks: Any) -> None:
    for player in range(3):
        ranks.put(player, key(player))
    assert ranks.remove(1) == 2
    assert 1 not in ranks
    assert ranks.rank_of(1) is None
    assert ranks.key_of(1) is None
    assert ranks.rank_of(2) == 2
    with pytest.raises(KeyError):
        ranks.remove(1)
    assert [ranks.remove(player) for player in (2, 0)] == [2, 1]
    assert len(ranks) == 0
    ranks.check()
    assert ranks.put(1, key(0)) == (None, 1)


@pytest.mark.parametrize("player", [-1, 2**32 - 1, 2**32, 2**64, -(2**64)])
def test_a_players_number_is_0_to_4294967294(ranks: Any, player: int) -> None:
    assert player not in ranks
    with pytest.raises(ValueError, match="0 to 4294967294"):
        ranks.put(player, key(1))
    for call in (ranks.remove, ranks.key_of, ranks.rank_of):
        with pytest.raises(ValueError, match="0 to 4294967294"):
            call(player)
    assert len(ranks) == 0


def test_the_greatest_number_is_a_player_like_any_other(ranks: Any, rank: ModuleType) -> None:
    for player in (rank.NO_PLAYER - 1, 0):
        ranks.put(player, key(1))
    assert listed(ranks) == [(key(1), 0), (key(1), rank.NO_PLAYER - 1)]
    assert ranks.rank_of(rank.NO_PLAYER - 1) == 2
    assert list(ranks.rank_many(array("I", [rank.NO_PLAYER - 1, rank.NO_PLAYER]))) == [2, 0]
    ranks.check()


@pytest.mark.parametrize("width", WIDTHS)
def test_a_key_has_the_lists_width_and_is_bytes(rank: ModuleType, width: int) -> None:
    ranks = rank.RankList(width, dense=True)
    ranks.put(0, bytes(width))
    wrong = (b"", bytes(width - 1), bytes(width + 1), bytes(width + 8), bytearray(width), "x", None)
    for bad in wrong:
        for player in (0, 1):
            with pytest.raises(ValueError, match=f"{width} bytes"):
                ranks.put(player, bad)
        for call in (ranks.count_below, ranks.scores_below):
            with pytest.raises(ValueError, match=f"{width} bytes"):
                call(bad)
    assert len(ranks) == 1


@pytest.mark.parametrize("width", WIDTHS)
def test_every_byte_of_a_key_counts_and_the_first_the_most(rank: ModuleType, width: int) -> None:
    ranks = rank.RankList(width)
    keys = [bytes(i) + b"\x01" + bytes(width - i - 1) for i in range(width)]
    keys += [
        bytes(width),
        b"\xff" * width,
        b"\x7f" + b"\xff" * (width - 1),
        b"\x80" + bytes(width - 1),
    ]
    for player, one in enumerate(keys):
        ranks.put(player, one)
    assert [one for one, _ in ranks] == sorted(keys)
    assert [ranks.count_below(one) for one in sorted(keys)] == list(range(len(keys)))
    ranks.check()


@pytest.mark.parametrize("count", [1, 31, 63, 300, 3000])
def test_the_greatest_key_there_can_be_is_a_key_like_any_other(
    rank: ModuleType, count: int
) -> None:
    """The native list marks by it what is unused, in its tree and in its pages of keys."""
    ranks = rank.RankList(dense=True)
    for player in range(count):
        ranks.put(player, key(TOP, TOP))
    ranks.put(count, key(TOP, TOP - 1))
    assert ranks.count_below(key(TOP, TOP)) == 1
    assert ranks.scores_below(key(TOP, TOP)) == 0
    assert [ranks.rank_of(player) for player in range(count + 1)] == [*range(2, count + 2), 1]
    ranks.check()
    assert ranks.remove(0) == 2
    assert len(ranks) == count


# ---- Ties --------------------------------------------------------------------------------------

TIED = [
    "a",
    "a\0",
    "aa",
    "ab",
    "b",
    "x" * 21,
    "x" * 22,
    "x" * 23,
    "x" * 22 + "y",
    "x" * 255 + "a",
    "x" * 255 + "b",
    "z",
    "\x7f",
    "é",
    "日本",
    "\ufffd",
    "😀",
]


def test_equal_keys_are_ordered_by_the_bytes_of_ids(rank: ModuleType) -> None:
    """By UTF-8, where U+FFFD comes before U+1F600; UTF-16 would have it the other way round."""
    table = rank.PlayerTable()
    ids = TIED[:]
    random.Random(1).shuffle(ids)
    ranks = rank.RankList(players=table)
    for id in ids:
        ranks.put(table.intern(id), key(5, 5))
    assert [table.id_of(player) for _, player in ranks] == sorted(TIED, key=str.encode)
    for expected, id in enumerate(sorted(TIED, key=str.encode), start=1):
        assert ranks.rank_of(table.find(id)) == expected
    assert ranks.count_below(key(5, 5)) == 0
    assert ranks.count_below(key(5, 6)) == len(TIED)
    ranks.check()


def test_without_a_table_equal_keys_are_ordered_by_number(ranks: Any) -> None:
    for player in (300, 2, 2**31, 1, 255, 256):
        ranks.put(player, key(1))
    assert [player for _, player in ranks] == [1, 2, 255, 256, 300, 2**31]


@pytest.mark.parametrize("count", [31, 32, 63, 64, 1000, 5000])
def test_ties_may_fill_many_leaves(rank: ModuleType, count: int) -> None:
    table = rank.PlayerTable()
    ids = [f"{i * 7919 % count:06}" for i in range(count)]
    numbers = table.intern_many(ids)
    ranks = rank.RankList(players=table)
    ranks.put_many(numbers, key(3) * count)
    assert table.ids_of(ranks.read(1, count)[1]) == sorted(ids)
    assert [int(id) + 1 for id in ids] == list(ranks.rank_many(numbers))
    for number in numbers[::2]:
        ranks.remove(number)
    ranks.check()
    left = sorted(table.id_of(number) for number in numbers[1::2])
    assert table.ids_of(ranks.read(1, count)[1]) == left


# ---- With a player table -----------------------------------------------------------------------


def test_one_whom_the_table_lacks_cannot_be_ranked(rank: ModuleType) -> None:
    table = rank.PlayerTable()
    number = table.intern("ann")
    ranks = rank.RankList(players=table)
    with pytest.raises(KeyError):
        ranks.put(number + 1, key(1))
    table.remove(number)
    with pytest.raises(KeyError):
        ranks.put(number, key(1))
    assert len(ranks) == 0


def test_a_number_may_be_given_again_once_its_player_is_out(rank: ModuleType) -> None:
    table = rank.PlayerTable()
    lists = [rank.RankList(width, players=table) for width in WIDTHS]
    ann, bob = table.intern_many(["ann", "bob"])
    for ranks in lists:
        ranks.put(ann, bytes(ranks.width))
        ranks.put(bob, bytes(ranks.width))
        ranks.remove(ann)
    table.remove(ann)
    zoe = table.intern("zoe")
    assert zoe == ann
    for ranks in lists:
        assert zoe not in ranks
        assert ranks.put(zoe, bytes(ranks.width)) == (None, 2)
        assert table.ids_of(ranks.read(1, 2)[1]) == ["bob", "zoe"]
        ranks.check()


def test_a_list_keeps_its_table_alive(rank: ModuleType) -> None:
    table = rank.PlayerTable()
    ranks = rank.RankList(players=table)
    for number in table.intern_many(["b" * 50, "a" * 50, "c" * 50]):
        ranks.put(number, key(1))
    del table
    assert [ranks.players.id_of(player)[0] for _, player in ranks] == ["a", "b", "c"]
    ranks.check()


def test_lists_of_one_table_know_nothing_of_one_another(rank: ModuleType) -> None:
    table = rank.PlayerTable()
    a, b = rank.RankList(players=table), rank.RankList(players=table)
    number = table.intern("ann")
    a.put(number, key(1))
    assert number not in b
    assert b.rank_of(number) is None


# ---- Counting ----------------------------------------------------------------------------------


def test_count_below_takes_keys_that_are_not_there(ranks: Any) -> None:
    for player in range(200):
        ranks.put(player, key(player * 10, 5))
    for score in (0, 1, 10, 11, 995, 1000, 1990, 1991, 5000, TOP):
        for tie in (0, 5, 6, TOP):
            expected = sum((player * 10, 5) < (score, tie) for player in range(200))
            assert ranks.count_below(key(score, tie)) == expected


@pytest.mark.parametrize("width", WIDTHS)
def test_scores_below_counts_each_score_once(rank: ModuleType, width: int) -> None:
    ranks = rank.RankList(width, dense=True)
    for player in range(300):
        ranks.put(player, key(player // 7, player, width))
    assert ranks.scores_below(key(0, TOP, width)) == 0
    assert ranks.scores_below(key(5, 0, width)) == 5
    assert ranks.scores_below(key(5, TOP, width)) == 5
    assert ranks.scores_below(key(TOP, 0, width)) == 43
    for player in range(35, 41):
        ranks.remove(player)
    assert ranks.scores_below(key(6, 0, width)) == 6, "one player still has 5"
    ranks.put(41, key(7, 0, width))
    assert ranks.scores_below(key(6, 0, width)) == 5
    ranks.check()


def test_a_score_is_dropped_with_its_last_player_and_comes_back(rank: ModuleType) -> None:
    ranks = rank.RankList(dense=True)
    ranks.put(1, key(1, 1))
    ranks.put(2, key(1, 2))
    ranks.put(3, key(2))
    for player, score, expected in [(1, 2, 1), (2, 2, 0), (1, 1, 1), (1, 1, 1), (3, 9, 1)]:
        ranks.put(player, key(score, player))
        assert ranks.scores_below(key(2)) == expected
        ranks.check()


def test_scores_are_counted_only_where_asked_for(ranks: Any) -> None:
    with pytest.raises(ValueError, match="dense=True"):
        ranks.scores_below(key(1))


# ---- Reading -----------------------------------------------------------------------------------


@pytest.mark.parametrize("count", SIZES)
def test_any_stretch_of_ranks_can_be_read(rank: ModuleType, count: int) -> None:
    ranks = filled(rank, count)
    expected = sorted((key(p // 3 * 10, p % 2), p) for p in range(count))
    assert listed(ranks) == expected
    for first in {1, 2, count // 2 + 1, max(count, 1), count + 1, count + 2, 2**40, 2**70}:
        for size in (0, 1, 2, 63, count, 2**40, 2**70):
            assert stretch(ranks, first, size) == expected[first - 1 : first - 1 + size]
    ranks.check()


@pytest.mark.parametrize(("first", "count"), [(0, 1), (-1, 1), (1, -1), (-(2**70), 1)])
def test_ranks_count_from_1(ranks: Any, first: int, count: int) -> None:
    with pytest.raises(ValueError, match="count from 1"):
        ranks.read(first, count)


@pytest.mark.parametrize("width", WIDTHS)
def test_read_gives_keys_end_to_end_and_players(rank: ModuleType, width: int) -> None:
    ranks = filled(rank, 100, width=width)
    keys, players = ranks.read(11, 20)
    assert type(keys) is bytes
    assert (players.typecode, len(players), len(keys)) == ("I", 20, 20 * width)
    assert stretch(ranks, 11, 20) == listed(ranks)[10:30]


@pytest.mark.parametrize("count", [0, 1, 100, 4096, 4097])
@pytest.mark.parametrize("size", [1, 7, 4096, 10**9])
def test_pieces_hold_everything_in_order(rank: ModuleType, count: int, size: int) -> None:
    ranks = filled(rank, count)
    pieces = list(ranks.blocks(size))
    assert all(len(players) == size for _, players in pieces[:-1])
    assert b"".join(keys for keys, _ in pieces) == ranks.read(1, count)[0]
    assert sum((players for _, players in pieces), array("I")) == ranks.read(1, count)[1]


@pytest.mark.parametrize(
    "change",
    [
        lambda ranks: ranks.put(0, key(TOP)),
        lambda ranks: ranks.put(10**6, key(3)),
        lambda ranks: ranks.remove(0),
        lambda ranks: ranks.put_many(array("I", [5]), key(TOP)),
    ],
    ids=["move", "insert", "remove", "many"],
)
def test_reading_in_pieces_notices_a_change(rank: ModuleType, change: Any) -> None:
    ranks = filled(rank, 5000)
    pieces = ranks.blocks(1000)
    next(pieces)
    change(ranks)
    with pytest.raises(RuntimeError, match="changed"):
        next(pieces)
    entries = iter(ranks)
    next(entries)
    ranks.put(1, key(TOP))
    with pytest.raises(RuntimeError, match="changed"):
        list(entries)


# ---- Many at once ------------------------------------------------------------------------------


def batch(count: int, *, seed: int, players: int) -> list[tuple[int, bytes]]:
    dice = random.Random(seed)
    return [
        (dice.randrange(players), key(dice.randrange(9), dice.randrange(3))) for _ in range(count)
    ]


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 64, 65, 700])
def test_a_batch_is_the_same_as_one_by_one(rank: ModuleType, count: int, dense: bool) -> None:
    together, one_by_one = (rank.RankList(dense=dense) for _ in range(2))
    for round in range(3):
        entries = batch(count, seed=round, players=count // 2 + 1)
        players = array("I", [player for player, _ in entries])
        moves = [one_by_one.put(player, one) for player, one in entries]
        before, after = together.put_many(players, b"".join(k for _, k in entries), ranks=True)
        assert [(was or None, now) for was, now in zip(before, after, strict=True)] == moves
        assert listed(together) == listed(one_by_one)
        together.check()


def test_a_batch_without_ranks_returns_nothing(ranks: Any) -> None:
    assert ranks.put_many(array("I", [1, 2]), key(1) * 2) is None
    assert len(ranks) == 2
    assert ranks.put_many(array("I"), b"") is None
    assert ranks.put_many(array("I"), b"", ranks=True) == (array("I"), array("I"))


def test_one_player_may_come_many_times_in_a_batch(ranks: Any) -> None:
    ranks.put(9, key(5))
    keys = b"".join(key(score) for score in (1, 9, 5, 5, 2))
    before, after = ranks.put_many(array("I", [1] * 5), keys, ranks=True)
    assert list(before) == [0, 1, 2, 1, 1]
    assert list(after) == [1, 2, 1, 1, 1]
    assert listed(ranks) == [(key(2), 1), (key(5), 9)]


@pytest.mark.parametrize("size", [0, 1, 15, 17, 31, 33, 48])
def test_a_batch_needs_a_key_for_each_player(ranks: Any, size: int) -> None:
    with pytest.raises(ValueError, match="2 players need 32 bytes of keys"):
        ranks.put_many(array("I", [1, 2]), bytes(size))
    assert len(ranks) == 0


def test_a_batch_stops_at_one_whom_the_table_lacks(rank: ModuleType) -> None:
    table = rank.PlayerTable()
    known = table.intern_many([f"p{i}" for i in range(100)])
    ranks = rank.RankList(players=table)
    with pytest.raises(KeyError):
        ranks.put_many(known[:70] + array("I", [100]) + known[70:], key(1) * 101)
    assert [player for _, player in ranks] == sorted(known[:70], key=table.id_of)
    ranks.check()


def test_a_note_says_how_much_of_a_batch_was_put(serving: ModuleType) -> None:
    table = serving.PlayerTable()
    known = table.intern_many([f"p{i}" for i in range(100)])
    ranks = serving.RankList(players=table)
    with pytest.raises(KeyError) as caught:
        ranks.put_many(known[:70] + array("I", [100]), key(1) * 71)
    assert caught.value.__notes__ == ["70 entries of the batch were put"]


def test_a_batch_that_meets_no_memory_says_how_much_was_put(native: ModuleType) -> None:
    ranks = native.RankList()
    players = array("I", range(1000))
    keys = b"".join(key(player) for player in players)
    native.fail_allocation(20)
    try:
        with pytest.raises(MemoryError) as caught:
            ranks.put_many(players, keys)
    finally:
        native.fail_allocation(0)
    done = len(ranks)
    assert 0 < done < 1000
    assert caught.value.__notes__ == [f"{done} entries of the batch were put"]
    assert listed(ranks) == [(key(player), player) for player in range(done)]
    ranks.check()
    ranks.put_many(players, keys)
    assert len(ranks) == 1000


def test_ranks_of_many(rank: ModuleType) -> None:
    ranks = filled(rank, 500)
    players = array("I", [*range(600), 7, 7, rank.NO_PLAYER, 10**6])
    assert list(ranks.rank_many(players)) == [
        (ranks.rank_of(player) or 0) if player != rank.NO_PLAYER else 0 for player in players
    ]
    assert ranks.rank_many(array("I")) == array("I")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("count", [0, 1, 31, 32, 500])
def test_finding_tells_rank_and_key_at_once(rank: ModuleType, count: int, width: int) -> None:
    ranks = filled(rank, count, width=width)
    players = array("I", [*range(count + 1), 0, 0, rank.NO_PLAYER])
    got_ranks, got_keys = ranks.find_many(players)
    assert got_ranks == ranks.rank_many(players)
    keys = [ranks.key_of(player) or bytes(width) for player in players[:-1]]
    assert got_keys == b"".join([*keys, bytes(width)])
    assert ranks.find_many(array("I")) == (array("I"), b"")


def test_locating_is_finding_by_id(rank: ModuleType) -> None:
    players = rank.PlayerTable()
    here, other = (rank.RankList(16, players=players) for _ in range(2))
    ids = ["ann", "x" * 256, "é", "😀", "b"]
    for place, id in enumerate(ids):
        number = players.intern(id)
        here.put(number, key(10 - place))
        assert here.locate(id) == (1, key(10 - place), number)
    for id in ids:
        number = players.find(id)
        assert here.locate(id) == (here.rank_of(number), here.key_of(number), number)
        assert other.locate(id) is None, "the table knows more players than a list ranks"
    assert here.locate("nobody") is None
    here.remove(players.find("ann"))
    assert here.locate("ann") is None
    players.remove(players.find("ann"))
    assert here.locate("ann") is None


def test_a_number_that_was_given_again_is_located_by_its_new_id(rank: ModuleType) -> None:
    players = rank.PlayerTable()
    ranks = rank.RankList(16, players=players)
    number = players.intern("gone")
    ranks.put(number, key(1))
    ranks.remove(number)
    players.remove(number)
    assert players.intern("new") == number
    assert ranks.locate("gone") is ranks.locate("new") is None
    ranks.put(number, key(2))
    assert ranks.locate("gone") is None
    assert ranks.locate("new") == (1, key(2), number)


@pytest.mark.parametrize("id", ["", "x" * 257, "\ud800"])
def test_what_is_no_id_is_not_located(rank: ModuleType, id: str) -> None:
    ranks = rank.RankList(16, players=rank.PlayerTable())
    with pytest.raises(ValueError):
        ranks.locate(id)


def test_without_a_table_nobody_is_known_by_an_id(ranks: Any) -> None:
    with pytest.raises(ValueError, match="does not know its players"):
        ranks.locate("ann")


@pytest.mark.parametrize("width", WIDTHS)
def test_counts_below(rank: ModuleType, width: int) -> None:
    ranks = filled(rank, 500, width=width)
    keys = [key(score, tie, width) for score in range(0, 1700, 5) for tie in (0, 1, TOP)]
    keys += [bytes(width), b"\xff" * width]
    there = [each for each, _ in ranks]
    assert [ranks.count_below(k) for k in keys] == [bisect_left(there, k) for k in keys]
    with pytest.raises(ValueError, match=f"{width} bytes"):
        ranks.count_below(bytes(width + 1))


@pytest.mark.parametrize(
    "many", [lambda p: p, memoryview, lambda p: memoryview(p.tobytes()).cast("I")]
)
@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview, lambda keys: array("B", keys)])
def test_batches_may_come_in_any_buffer(ranks: Any, many: Any, wrap: Any) -> None:
    players = array("I", [3, 1, 2])
    ranks.put_many(many(players), wrap(b"".join(map(key, (30, 10, 20)))))
    assert [player for _, player in ranks] == [1, 2, 3]
    assert list(ranks.rank_many(many(players))) == [3, 1, 2]


@pytest.mark.parametrize(
    "players",
    [array("i", [1]), array("Q", [1]), array("H", [1]), b"\x01\0\0\0", [1], None, 1, "1"],
    ids=repr,
)
def test_players_are_unsigned_32_bit_numbers(native: ModuleType, players: Any) -> None:
    ranks = native.RankList()
    with pytest.raises((ValueError, TypeError)):
        ranks.put_many(players, key(1))
    with pytest.raises((ValueError, TypeError)):
        ranks.rank_many(players)
    assert len(ranks) == 0


def test_buffers_must_lie_in_one_piece(native: ModuleType) -> None:
    ranks = native.RankList()
    with pytest.raises((ValueError, BufferError)):
        ranks.rank_many(memoryview(array("I", range(10)))[::2])
    with pytest.raises((ValueError, BufferError)):
        ranks.put_many(array("I", [1]), memoryview(bytes(32))[::2])


# ---- Bulk load ---------------------------------------------------------------------------------


@pytest.mark.parametrize("count", SIZES)
def test_pieces_make_the_same_list_again(rank: ModuleType, count: int) -> None:
    ranks = filled(rank, count, dense=True)
    for size in (1, 50, 4096):
        again = rank.RankList(dense=True)
        again.load(ranks.blocks(size))
        assert listed(again) == listed(ranks)
        assert again.scores_below(key(TOP)) == ranks.scores_below(key(TOP))
        again.check()


def test_a_load_of_any_size_makes_a_sound_list(serving: ModuleType) -> None:
    for count in [*range(400), *range(900, 1100), *range(3550, 3650)]:
        ranks = serving.RankList()
        keys = b"".join(key(player) for player in range(count))
        ranks.load([(keys, array("I", range(count)))])
        ranks.check()
        assert ranks.rank_of(count - 1) == count if count else len(ranks) == 0


@pytest.mark.parametrize("count", [*range(25, 36), *range(55, 66), 785, 868, 3307, 3422])
def test_a_loaded_list_can_be_emptied_and_filled(rank: ModuleType, count: int) -> None:
    ranks = rank.RankList()
    ranks.load(filled(rank, count).blocks())
    for player in range(0, count, 2):
        ranks.remove(player)
    for player in range(0, count, 2):
        ranks.put(player, key(player))
    for player in range(count):
        ranks.remove(player)
    assert len(ranks) == 0
    ranks.check()


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ([(1, 5), (0, 6)], "increase"),
        ([(1, 5), (1, 4)], "increase"),
        ([(1, 5), (1, 5)], "increase|twice"),
        ([(1, 5), (2, 5)], "twice"),
        ([(1, 5), (2, 77)], "not in the player table"),
    ],
    ids=["keys", "ties", "entry twice", "player twice", "unknown player"],
)
@pytest.mark.parametrize("before", [0, 40, 500])
def test_a_bad_load_is_refused_and_leaves_the_list_empty(
    rank: ModuleType, entries: list[tuple[int, int]], why: str, before: int
) -> None:
    table = rank.PlayerTable()
    table.intern_many([f"{i:03}" for i in range(50)])
    low = table.intern_many([f"low {i:03}" for i in range(before)])
    ranks = rank.RankList(players=table, dense=True)
    bad = (
        b"".join(key(10 + score) for score, _ in entries),
        array("I", [n if n < 50 else 10**6 for _, n in entries]),
    )
    good = (b"".join(key(0, i) for i in range(before)), low)
    with pytest.raises(ValueError, match=why):
        ranks.load([good, bad])
    assert len(ranks) == 0
    assert listed(ranks) == []
    assert ranks.rank_of(5) is None
    ranks.check()
    ranks.load([good])
    assert len(ranks) == before
    ranks.check()


def test_a_load_needs_a_key_for_each_player(ranks: Any) -> None:
    with pytest.raises(ValueError, match="1 players need 16 bytes"):
        ranks.load([(bytes(17), array("I", [1]))])
    assert len(ranks) == 0


def test_a_list_in_use_is_not_loaded_over(ranks: Any) -> None:
    ranks.put(1, key(1))
    with pytest.raises(ValueError, match="empty"):
        ranks.load([])
    assert listed(ranks) == [(key(1), 1)]
    ranks.remove(1)
    ranks.load([(key(2), array("I", [2]))])
    assert listed(ranks) == [(key(2), 2)]
    ranks.check()


def test_a_load_whose_source_fails_leaves_the_list_empty(ranks: Any) -> None:
    def source() -> Any:
        yield key(1), array("I", [1])
        raise OSError("the disk")

    with pytest.raises(OSError, match="the disk"):
        ranks.load(source())
    assert len(ranks) == 0
    assert 1 not in ranks
    ranks.check()


def test_empty_pieces_are_harmless(ranks: Any) -> None:
    ranks.load([(b"", array("I")), (key(1), array("I", [1])), (b"", array("I"))])
    assert listed(ranks) == [(key(1), 1)]
    ranks.check()


# ---- Growing and shrinking ---------------------------------------------------------------------

ORDERS: dict[str, Callable[[int], list[int]]] = {
    "ascending": lambda n: list(range(n)),
    "descending": lambda n: list(range(n))[::-1],
    "outside in": lambda n: [i // 2 if i % 2 else n - 1 - i // 2 for i in range(n)],
    "shuffled": lambda n: random.Random(n).sample(range(n), n),
}


@pytest.mark.parametrize("emptied", ORDERS)
@pytest.mark.parametrize("put", ORDERS)
def test_every_order_of_coming_and_going_is_right(
    serving: ModuleType, put: str, emptied: str
) -> None:
    """5,000 entries need three levels; the tree is checked wherever a node may have changed."""
    count = 5000
    ranks = serving.RankList(24)
    for i, player in enumerate(ORDERS[put](count)):
        ranks.put(player, key(player, 1, 24))
        if i % 97 == 0:
            ranks.check()
    assert [player for _, player in ranks] == list(range(count))
    for i, player in enumerate(ORDERS[emptied](count)):
        ranks.remove(player)
        if i % 97 == 0:
            ranks.check()
    assert len(ranks) == 0
    ranks.check()


# ---- Memory ------------------------------------------------------------------------------------


def test_bytes_used_grows_with_the_list(rank: ModuleType) -> None:
    sizes = [filled(rank, count).bytes_used for count in (0, 1, 100, 1000)]
    assert all(a < b for a, b in pairwise(sizes))
    assert sizes[-1] <= 300_000


@pytest.mark.parametrize("dense", [False, True])
def test_a_list_gives_all_its_memory_back(native: ModuleType, dense: bool) -> None:
    before = native.bytes_in_use()
    ranks = filled(native, 5000, dense=dense)
    assert native.bytes_in_use() >= before + ranks.bytes_used
    del ranks
    assert native.bytes_in_use() == before


def test_coming_and_going_does_not_grow_the_list(native: ModuleType) -> None:
    """Freed nodes are used again."""
    ranks = filled(native, 3000)
    for _ in range(2):
        for player in range(3000):
            ranks.remove(player)
        for player in range(3000):
            ranks.put(player, key(player))
    used = ranks.bytes_used
    for _ in range(3):
        for player in range(3000):
            ranks.remove(player)
        for player in range(3000):
            ranks.put(player, key(player))
    assert ranks.bytes_used == used
    ranks.check()


def test_a_failed_load_gives_its_memory_back(native: ModuleType) -> None:
    before = native.bytes_in_use()
    ranks = native.RankList(dense=True)
    blocks = [*filled(native, 3000).blocks(), (key(0), array("I", [5]))]
    with pytest.raises(ValueError, match=r"increase|twice"):
        ranks.load(blocks)
    assert native.bytes_in_use() == before


def test_a_list_may_be_used_while_it_is_loaded(rank: ModuleType) -> None:
    """Blocks may come from anywhere: from a caller that looks at the list, or puts into it."""
    ranks = rank.RankList()

    def meddling() -> "Iterator[tuple[bytes, array[int]]]":
        yield key(1), array("I", [1])
        assert ranks.rank_of(1) is None
        ranks.put(7, key(3))
        yield key(2), array("I", [2])

    with pytest.raises(ValueError, match="empty"):
        ranks.load(meddling())
    assert listed(ranks) == [(key(3), 7)]
    ranks.check()


def test_a_block_holds_something(rank: ModuleType) -> None:
    for size in (0, -1):
        with pytest.raises(ValueError, match="at least one"):
            rank.PlayerTable().blocks(size)
        with pytest.raises(ValueError, match="at least one"):
            rank.RankList().blocks(size)


def test_nobody_cannot_be_put(rank: ModuleType) -> None:
    ranks = rank.RankList()
    with pytest.raises(ValueError, match="4294967294") as refusal:
        ranks.put_many(array("I", [1, rank.NO_PLAYER]), key(1) + key(2))
    assert refusal.value.__notes__ == ["1 entries of the batch were put"]
    assert len(ranks) == 1


@pytest.mark.parametrize("expected", [0, 10, 3000, 1_000_000])
def test_what_a_load_expects_changes_nothing_but_its_speed(rank: ModuleType, expected: int) -> None:
    players = rank.PlayerTable()
    numbers = players.intern_many([f"p{n}" for n in range(3000)])
    some = array("I", [number for number in numbers if number % 3])
    some = array("I", sorted(some, key=lambda number: number * 7919 % 3001))
    keys = b"".join(n.to_bytes(8, "big") + bytes(8) for n in range(len(some)))
    ranks = rank.RankList(16, players=players)
    ranks.load([(keys, some)], expected=expected)
    ranks.check()
    assert list(ranks.rank_many(some)) == list(range(1, len(some) + 1))
    ranks.put(some[0], bytes(15) + b"\x01")  # And goes on as ever.
    ranks.put(numbers[0], b"\xff" * 16)
    ranks.check()
    assert (ranks.rank_of(some[0]), ranks.rank_of(numbers[0])) == (1, len(some) + 1)

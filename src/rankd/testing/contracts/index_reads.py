"""Promises of RankIndex to its readers, and the moves and reads that all its promises use.

Sections have the numbers of ``rankd.ports.RankIndex``. An order key is bytes, as it is to every
index. Small scores and few players, because ties and collisions are where indexes differ.
"""

import random
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pytest

from rankd.model.facts import Position
from rankd.model.standing import Rank, TieRule
from rankd.ports import (
    DRAFT,
    STAY,
    EntryRange,
    Move,
    Moved,
    Placed,
    Ranked,
    RankIndex,
    Ranking,
    RankingShape,
)

DAILY = Ranking("race", "daily:2026-11-14")
FOREVER = Ranking("race", "forever")
EUROPE = Ranking("race", "forever", "region:eu")
OTHER = Ranking("other", "forever")
NOWHERE = Ranking("race", "nowhere")
REDONE = Ranking(DRAFT + "race", "forever")
REDONE_DAILY = Ranking(DRAFT + "race", "daily:2026-11-14")

PLAIN = RankingShape(key_bytes=16, dense=False)
DENSE = RankingShape(key_bytes=16, dense=True)

_NOBODY_ADOPTED: Mapping[Ranking, Ranking] = MappingProxyType({})


def key(score: int, tie: int = 0, *, width: int = 16) -> bytes:
    """Return a key; the lesser score is the better."""
    return score.to_bytes(width - 8, "big") + tie.to_bytes(8, "big")


def placed(player: str, score: int, *, at: Ranking = FOREVER, beside: bytes | None = None) -> Move:
    """Return a move to a score."""
    return Move(at, player, key(score), beside)


def left(player: str, *, at: Ranking = FOREVER) -> Move:
    """Return a move out."""
    return Move(at, player, None)


async def fold(
    index: RankIndex,
    *moves: Move,
    opened: Mapping[Ranking, RankingShape] | Sequence[Ranking] = (),
    dropped: Sequence[Ranking] = (),
    adopted: Mapping[Ranking, Ranking] = _NOBODY_ADOPTED,
) -> Sequence[Moved]:
    """Apply in turn, one position further."""
    if not isinstance(opened, Mapping):
        opened = dict.fromkeys(opened, PLAIN)
    after = await index.checkpoint()
    moved = await index.apply(
        moves,
        after=after,
        through=Position(after + 1),
        opened=opened,
        dropped=dropped,
        adopted=adopted,
    )
    assert moved is not None
    assert await index.checkpoint() == after + 1
    return moved


async def players(index: RankIndex, ranking: Ranking = FOREVER) -> list[str]:
    """Return all players, best first, read page by page."""
    found: list[Placed] = []
    while page := (await index.read(ranking, first=Rank(len(found) + 1), limit=100)).entries:
        found += page
    assert len(found) == await index.count(ranking)
    return [each.player for each in found]


async def metadata(index: RankIndex, ranking: Ranking = FOREVER) -> dict[str, bytes | None]:
    """Return the metadata of each player."""
    page = await index.read(ranking, first=Rank(1), limit=100)
    return {each.player: each.metadata for each in page.entries}


class OrderPromises:
    """Keys decide, then ids; each move tells the ranks of its own moment, as it asks for them."""

    # -------------------------------------------------------------------------- (3) order

    @pytest.mark.parametrize("width", [16, 24, 32, 40])
    async def test_entries_are_ordered_by_their_keys_byte_by_byte(
        self, index: RankIndex, width: int
    ) -> None:
        """Every byte counts, the first most, and none of them is a sign or an end."""
        keys = [bytes(width), b"\xff" * width, b"\x7f" * width, b"\x80" + bytes(width - 1)]
        keys += [bytes(at) + b"\x01" + bytes(width - 1 - at) for at in range(width)]
        names = {f"p{n}": each for n, each in enumerate(keys)}
        await fold(
            index,
            *(Move(FOREVER, player, each) for player, each in names.items()),
            opened={FOREVER: RankingShape(width, False)},
        )
        assert await players(index) == sorted(names, key=names.__getitem__)
        assert await index.order_keys([(FOREVER, player) for player in names]) == keys

    async def test_equal_keys_are_ordered_by_the_ids_as_utf_8(self, index: RankIndex) -> None:
        """UTF-16 would put the last two the other way round, and a locale would ignore case."""
        ids = ["Z", "a", "a!", "aa", "b", "\x7f", "é", "\uffff", "\U00010000"]
        assert ids == sorted(ids, key=str.encode)
        await fold(index, *(placed(id, 7) for id in reversed(ids)), opened=[FOREVER])
        assert await players(index) == ids
        for rank, id in enumerate(ids, start=1):
            expected = Ranked(Rank(rank), key(7), None, len(ids), Position(1))
            assert await index.rank(FOREVER, id) == expected

    # ------------------------------------------------------------------------ (4) moments

    async def test_each_move_tells_of_its_own_moment(self, index: RankIndex) -> None:
        moved = await fold(
            index,
            placed("ann", 5),
            placed("bob", 3),
            placed("ann", 1),
            placed("ann", 1),
            left("bob"),
            left("bob"),
            placed("bob", 9),
            left("nobody"),
            opened=[FOREVER],
        )
        assert moved == [
            Moved(None, Rank(1), 1),
            Moved(None, Rank(1), 2),
            Moved(Rank(2), Rank(1), 2),
            Moved(Rank(1), Rank(1), 2),
            Moved(Rank(2), None, 1),
            Moved(None, None, 1),
            Moved(None, Rank(2), 2),
            Moved(None, None, 2),
        ]
        assert await players(index) == ["ann", "bob"]
        assert await index.rank(FOREVER, "nobody") is None

    @pytest.mark.parametrize("leaving", [0.0, 0.1])
    @pytest.mark.parametrize("size", [1, 5, 40, 400])
    async def test_however_many_come_at_once_each_is_told_what_a_sorted_list_tells(
        self, index: RankIndex, size: int, leaving: float
    ) -> None:
        dice = random.Random(size)
        rankings = [DAILY, FOREVER, EUROPE]
        await fold(index, opened=rankings)
        model: dict[Ranking, dict[str, bytes]] = {ranking: {} for ranking in rankings}
        for _ in range(4):
            moves = [
                Move(
                    dice.choice(rankings),
                    f"p{dice.randrange(60)}",
                    None if dice.random() < leaving else key(dice.randrange(20)),
                )
                for _ in range(size)
            ]
            assert await fold(index, *moves) == [_moved(model, move) for move in moves]
        for ranking in rankings:
            assert await players(index, ranking) == _order(model[ranking])

    async def test_moves_of_one_ranking_leave_the_others_alone(self, index: RankIndex) -> None:
        await fold(
            index,
            *(placed("ann", 1, at=ranking) for ranking in (DAILY, FOREVER, EUROPE, OTHER)),
            opened=[DAILY, FOREVER, EUROPE, OTHER],
        )
        await fold(index, left("ann", at=DAILY), placed("bob", 0, at=EUROPE))
        assert await players(index, DAILY) == []
        assert await players(index, FOREVER) == ["ann"]
        assert await players(index, EUROPE) == ["bob", "ann"]
        assert await players(index, OTHER) == ["ann"]

    # ---------------------------------------------------- (7) ranks as they are asked for

    async def test_a_move_that_stays_changes_nothing_and_tells_the_rank(
        self, index: RankIndex
    ) -> None:
        await fold(index, placed("ann", 1, beside=b"run"), placed("bob", 2), opened=[FOREVER])
        moved = await fold(
            index,
            Move(FOREVER, "bob", STAY),
            Move(FOREVER, "ann", STAY),
            Move(FOREVER, "cyd", STAY),
            placed("bob", 0),
            Move(FOREVER, "ann", STAY),
        )
        assert list(moved) == [(2, 2, 2), (1, 1, 2), (None, None, 2), (2, 1, 2), (2, 2, 2)]
        assert await players(index) == ["bob", "ann"]
        assert await metadata(index) == {"bob": None, "ann": b"run"}

    @pytest.mark.parametrize(
        ("ties", "expected"),
        [
            (TieRule.ORDINAL, [(None, 1), (None, 2), (None, 3), (3, 4)]),
            (TieRule.STANDARD, [(None, 1), (None, 1), (None, 3), (3, 4)]),
            (TieRule.DENSE, [(None, 1), (None, 1), (None, 2), (2, 3)]),
        ],
    )
    async def test_ranks_are_counted_as_the_move_asks(
        self, index: RankIndex, ties: TieRule, expected: list[tuple[int | None, int]]
    ) -> None:
        def to(player: str, score: int, tie: int) -> Move:
            return Move(FOREVER, player, key(score, tie), None, ties)

        await fold(index, placed("zoe", 6), opened={FOREVER: DENSE})
        moved = await fold(
            index, to("ann", 4, 1), to("bob", 4, 2), to("cyd", 5, 3), to("cyd", 7, 4)
        )
        assert [(each.previous_rank, each.rank) for each in moved] == expected


def _order(entries: Mapping[str, bytes]) -> list[str]:
    return sorted(entries, key=lambda player: (entries[player], player.encode()))


def _moved(model: Mapping[Ranking, dict[str, bytes]], move: Move) -> Moved:
    """Make a move in a dictionary, and find its ranks by sorting before and after."""
    entries = model[move.ranking]
    before = _order(entries)
    if move.order_key is None:
        entries.pop(move.player, None)
    else:
        entries[move.player] = move.order_key
    after = _order(entries)
    ranks = [
        Rank(order.index(move.player) + 1) if move.player in order else None
        for order in (before, after)
    ]
    return Moved(ranks[0], ranks[1], len(after))


class ReadPromises:
    """Reads are exact, and a missing ranking or player is no error."""

    async def test_players_with_an_entry_are_walked_or_none_is(self, index: RankIndex) -> None:
        await fold(index, placed("ann", 1), placed("bob", 2), opened=[FOREVER])
        found = [player for some in index.player_ids(1) for player in some]
        assert sorted(set(found)) == ([] if index.shared else ["ann", "bob"])

    # -------------------------------------------------------------- (5) what is not there

    async def test_reads_of_a_ranking_that_does_not_exist_find_nothing(
        self, index: RankIndex
    ) -> None:
        await fold(index, placed("ann", 1), opened=[FOREVER])
        assert await index.count(NOWHERE) == 0
        assert await index.rank(NOWHERE, "ann") is None
        assert await index.count_below(NOWHERE, key(9)) == 0
        assert await index.count_below(NOWHERE, key(9), "ann") == 0
        assert await index.scores_below(NOWHERE, key(9)) == 0
        assert await index.read(NOWHERE, first=Rank(1), limit=10) == EntryRange([], 0, Position(1))
        assert list(await index.ranks(NOWHERE, ["ann", "bob"])) == [None, None]
        assert list(await index.metadata([(NOWHERE, "ann")])) == [None]
        assert list(await index.order_keys([(NOWHERE, "ann"), (FOREVER, "ann")])) == [None, key(1)]
        assert list(await index.rankings("nothing")) == []

    async def test_a_player_who_is_not_there_has_no_rank_and_no_key(self, index: RankIndex) -> None:
        await fold(index, placed("ann", 1, at=DAILY), opened=[DAILY, FOREVER])
        for player in ("ann", "bob"):
            assert await index.rank(FOREVER, player) is None
        both = [(FOREVER, "ann"), (FOREVER, "bob")]
        assert list(await index.order_keys(both)) == [None, None]
        assert list(await index.metadata(both)) == [None, None]
        assert list(await index.ranks(FOREVER, ["ann", "bob"])) == [None, None]
        assert list(await index.order_keys([])) == []
        assert list(await index.metadata([])) == []
        assert list(await index.ranks(FOREVER, [])) == []

    # ----------------------------------------------------------------------- (6) metadata

    @pytest.mark.parametrize("others", [0, 100])
    async def test_metadata_is_that_of_the_last_move(self, index: RankIndex, others: int) -> None:
        crowd = [placed(f"p{n:03}", 50) for n in range(others)]
        await fold(
            index,
            placed("ann", 1, beside=b"car"),
            placed("bob", 2),
            placed("cyd", 3, beside=b""),
            *crowd,
            opened=[FOREVER],
        )
        found = await metadata(index)
        assert [found["ann"], found["bob"], found["cyd"]] == [b"car", None, b""]
        await fold(
            index,
            placed("ann", 1),
            placed("bob", 2, beside=b"old"),
            placed("bob", 2, beside=b"new"),
            *crowd,
        )
        found = await metadata(index)
        assert [found["ann"], found["bob"], found["cyd"]] == [None, b"new", b""]

    @pytest.mark.parametrize("others", [0, 100])
    async def test_whoever_leaves_takes_the_metadata_along(
        self, index: RankIndex, others: int
    ) -> None:
        crowd = [placed(f"p{n:03}", 50) for n in range(others)]
        await fold(index, placed("ann", 1, beside=b"car"), opened=[FOREVER])
        await fold(index, Move(FOREVER, "ann", None, b"left behind"), *crowd)
        await fold(index, placed("ann", 1))
        assert (await metadata(index))["ann"] is None

    async def test_metadata_belongs_to_one_ranking(self, index: RankIndex) -> None:
        await fold(
            index,
            placed("ann", 1, beside=b"today", at=DAILY),
            placed("ann", 1, beside=b"ever"),
            opened=[DAILY, FOREVER],
        )
        await fold(index, dropped=[DAILY])
        await fold(index, placed("ann", 1, at=DAILY), opened=[DAILY])
        assert await metadata(index, DAILY) == {"ann": None}
        assert await metadata(index, FOREVER) == {"ann": b"ever"}

    # ---------------------------------------------------------------------------- answers

    async def test_a_place_is_counted_though_nobody_holds_it(self, index: RankIndex) -> None:
        await fold(index, *(placed(f"p{n}", n) for n in (10, 20, 20_000, 30)), opened=[FOREVER])
        expected = {0: 0, 10: 0, 11: 1, 20: 1, 21: 2, 30: 2, 31: 3, 20_000: 3, 20_001: 4}
        for score, below in expected.items():
            assert await index.count_below(FOREVER, key(score)) == below
        assert await index.count_below(FOREVER, b"\xff" * 16) == 4
        assert await index.count_below(FOREVER, b"\xff" * 16, "\U0010ffff") == 4

    @pytest.mark.parametrize("tied", [bytes(16), key(7), b"\xff" * 16])
    async def test_among_equal_keys_a_place_is_counted_by_the_id(
        self, index: RankIndex, tied: bytes
    ) -> None:
        ids = [f"p{n:03}" for n in range(1, 200, 2)] + ["\uffff", "\U00010000"]
        around = [Move(FOREVER, "first", bytes(16)), Move(FOREVER, "last", b"\xff" * 16)]
        await fold(index, *(Move(FOREVER, id, tied) for id in ids), *around, opened=[FOREVER])
        entries = sorted(
            [(tied, id.encode()) for id in ids] + [(bytes(16), b"first"), (b"\xff" * 16, b"last")]
        )
        probes = [
            "",
            "a",
            "p000",
            "p001",
            "p002",
            "p100",
            "p199",
            "p2",
            "z",
            *ids[-2:],
            "\U0010ffff",
        ]
        for id in probes:
            expected = sum(entry < (tied, id.encode()) for entry in entries)
            assert await index.count_below(FOREVER, tied, id) == expected, id

    async def test_a_dense_ranking_counts_distinct_scores(self, index: RankIndex) -> None:
        keys = {"ann": key(1, 5), "bob": key(1, 6), "cyd": key(2, 1), "dee": key(9, 1)}
        await fold(
            index,
            *(Move(FOREVER, player, each) for player, each in keys.items()),
            opened={FOREVER: DENSE},
        )
        assert [await index.scores_below(FOREVER, each) for each in keys.values()] == [0, 0, 1, 2]
        await fold(index, left("cyd"), Move(FOREVER, "ann", key(3, 9)))
        assert await index.scores_below(FOREVER, key(9)) == 2
        assert await index.scores_below(FOREVER, b"\xff" * 16) == 3

    async def test_a_page_begins_at_a_rank_and_ends_where_the_ranking_does(
        self, index: RankIndex
    ) -> None:
        await fold(
            index,
            *(placed(f"p{n}", n, beside=b"%d" % n) for n in range(1, 8)),
            opened=[FOREVER],
        )
        for first in range(1, 10):
            for limit in range(10):
                page = await index.read(FOREVER, first=Rank(first), limit=limit)
                assert list(page.entries) == [
                    Placed(f"p{n}", key(n), b"%d" % n) for n in range(first, min(first + limit, 8))
                ]
                assert (page.total, page.as_of) == (7, 1)

    async def test_a_place_tells_its_metadata_how_many_there_are_and_as_of_when(
        self, index: RankIndex
    ) -> None:
        await fold(
            index,
            placed("ann", 5),
            placed("bob", 3, beside=b"car"),
            placed("ann", 5, at=DAILY, beside=b"foot"),
            opened=[FOREVER, DAILY],
        )
        await fold(index)
        ann = Ranked(Rank(2), key(5), None, 2, Position(2))
        bob = Ranked(Rank(1), key(3), b"car", 2, Position(2))
        assert await index.rank(FOREVER, "ann") == ann
        assert await index.rank(FOREVER, "bob") == bob
        asked = ["bob", "nobody", "ann", "bob"]
        assert list(await index.ranks(FOREVER, asked)) == [bob, None, ann, bob]
        beside = await index.metadata([(FOREVER, "bob"), (DAILY, "ann"), (DAILY, "bob")])
        assert list(beside) == [b"car", b"foot", None]

    # -------------------------------------------------------------------------- immediate

    async def test_an_immediate_index_never_suspends(self, index: RankIndex) -> None:
        """Callers start such a call and take its result without an event loop."""
        if not index.immediate:
            pytest.skip("this one waits")
        moves = [placed(f"p{n}", n) for n in range(100)]
        calls: list[Any] = [
            index.apply(moves, after=Position(0), through=Position(1), opened={FOREVER: DENSE}),
            index.checkpoint(),
            index.order_keys([(FOREVER, "p0")]),
            index.metadata([(FOREVER, "p0")]),
            index.rank(FOREVER, "p0"),
            index.ranks(FOREVER, ["p0"]),
            index.stage([], opened={REDONE: PLAIN}),
            index.count(FOREVER),
            index.count_below(FOREVER, key(1), "p1"),
            index.scores_below(FOREVER, key(1)),
            index.read(FOREVER, first=Rank(1), limit=100),
            index.rankings("race"),
            index.apply([], after=Position(1), through=Position(2), dropped=[FOREVER]),
            index.apply([], after=Position(2), through=Position(3), adopted={REDONE: FOREVER}),
        ]
        for call in calls:
            with pytest.raises(StopIteration):
                call.send(None)

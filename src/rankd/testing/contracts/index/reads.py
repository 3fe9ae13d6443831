"""Reads of an index and their results: promises 5 and 6 of the port."""

from typing import Any

import pytest

from rankd.model.facts import Position
from rankd.model.standing import Rank
from rankd.ports import EntryRange, Move, Placed, Ranked, RankIndex
from rankd.testing.contracts.index.moves import (
    DAILY,
    DENSE,
    FOREVER,
    NOWHERE,
    PLAIN,
    REDONE,
    fold,
    key,
    left,
    metadata,
    placed,
)


class ReadPromises:
    """Reads are exact, and a missing ranking or player is no error."""

    async def test_players_with_an_entry_are_walked_or_none_is(self, index: RankIndex) -> None:
        await fold(index, placed("ann", 1), placed("bob", 2), opened=[FOREVER])
        found = [player for some in index.player_ids(1) for player in some]
        assert sorted(found) == ([] if index.shared else ["ann", "bob"])

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

"""What it means to be a RankIndex. Subclass, provide ``index``, and be judged.

An order key is here what it is to every index: bytes. Small scores and few players, because ties
and collisions are where indexes differ.
"""

import asyncio
import random
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pytest

from rankd.errors import IndexForgot
from rankd.model.facts import Position
from rankd.model.standing import Rank, TieRule
from rankd.ports import (
    APPLIES_REMEMBERED,
    DRAFT,
    STAY,
    Move,
    Moved,
    Placed,
    Ranked,
    RankIndex,
    Ranking,
    Shape,
    SharedIndex,
    Stretch,
)

DAILY = Ranking("race", "daily:2026-11-14")
FOREVER = Ranking("race", "forever")
EUROPE = Ranking("race", "forever", "region:eu")
OTHER = Ranking("other", "forever")
NOWHERE = Ranking("race", "nowhere")
REDONE = Ranking(DRAFT + "race", "forever")
REDONE_DAILY = Ranking(DRAFT + "race", "daily:2026-11-14")

PLAIN = Shape(key_bytes=16, dense=False)
DENSE = Shape(key_bytes=16, dense=True)

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
    opened: Mapping[Ranking, Shape] | Sequence[Ranking] = (),
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
    """Return everybody, best first, page by page."""
    found: list[Placed] = []
    while page := (await index.read(ranking, first=Rank(len(found) + 1), limit=100)).entries:
        found += page
    assert len(found) == await index.count(ranking)
    return [each.player for each in found]


async def metadata(index: RankIndex, ranking: Ranking = FOREVER) -> dict[str, bytes | None]:
    """Return what is shown beside each."""
    page = await index.read(ranking, first=Rank(1), limit=100)
    return {each.player: each.metadata for each in page.entries}


@pytest.mark.anyio
class RankIndexContract:
    """The promises of ``rankd.ports.RankIndex``, by their numbers."""

    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"

    # -------------------------------------------------------------- (1) whole or not at all

    async def test_a_new_index_is_empty(self, index: RankIndex) -> None:
        assert await index.checkpoint() == 0
        assert list(await index.rankings("race")) == []

    async def test_an_apply_is_its_moves_its_rankings_and_its_checkpoint(
        self, index: RankIndex
    ) -> None:
        await fold(index, placed("ann", 1), opened=[FOREVER, DAILY])
        moved = await index.apply(
            [placed("bob", 2), placed("ann", 1, at=OTHER)],
            after=Position(1),
            through=Position(17),
            opened={OTHER: PLAIN},
            dropped=[DAILY],
        )
        assert moved == [Moved(None, Rank(2), 2), Moved(None, Rank(1), 1)]
        assert await index.checkpoint() == 17
        assert await players(index) == ["ann", "bob"]
        assert list(await index.rankings("race")) == [FOREVER]
        assert list(await index.rankings("other")) == [OTHER]

    async def test_an_apply_may_be_empty(self, index: RankIndex) -> None:
        assert list(await fold(index)) == []

    async def test_what_is_dropped_is_forgotten_after_the_moves(self, index: RankIndex) -> None:
        moved = await fold(index, placed("ann", 1), opened=[FOREVER], dropped=[FOREVER])
        assert moved == [Moved(None, Rank(1), 1)]
        assert await index.count(FOREVER) == 0
        assert list(await index.rankings("race")) == []

    @pytest.mark.parametrize("many", [1, 100])
    async def test_an_apply_that_is_refused_changes_nothing(
        self, index: RankIndex, many: int
    ) -> None:
        await fold(index, placed("ann", 1), opened=[FOREVER])
        moves = [placed(f"p{n}", 0) for n in range(many)]
        with pytest.raises(AssertionError):
            await index.apply(
                [*moves, placed("bob", 1, at=NOWHERE)],
                after=Position(1),
                through=Position(2),
                opened={DAILY: PLAIN},
                dropped=[FOREVER],
            )
        assert await index.checkpoint() == 1
        assert await players(index) == ["ann"]
        assert list(await index.rankings("race")) == [FOREVER]
        assert await fold(index, placed("p0", 0)) == [Moved(None, Rank(1), 2)]

    async def test_no_reader_sees_half_an_apply(self, index: RankIndex) -> None:
        """Ten come together each time, so a count of anything else is half of one."""
        await fold(index, opened=[FOREVER])

        async def write() -> None:
            for turn in range(10):
                await fold(index, *(placed(f"{turn}/{n}", n) for n in range(10)))

        writing = asyncio.create_task(write())
        while not writing.done():
            assert await index.count(FOREVER) % 10 == 0
            page = await index.read(FOREVER, first=Rank(1), limit=100)
            assert len(page.entries) % 10 == 0
            assert (len(page.entries), page.total) == (page.total, 10 * (page.as_of - 1))
            await asyncio.sleep(0)
        await writing
        assert await index.count(FOREVER) == 100

    # ----------------------------------------------------------------------- (2) each in turn

    async def test_repeating_an_apply_changes_nothing(self, index: RankIndex) -> None:
        first = await fold(index, placed("ann", 1), placed("bob", 2), opened=[FOREVER])
        await fold(index, left("bob"))
        repeated = await index.apply(
            [placed("ann", 1), placed("bob", 2)],
            after=Position(0),
            through=Position(1),
            opened={FOREVER: PLAIN},
        )
        assert repeated == (first if index.shared else None)
        assert await index.checkpoint() == 2
        assert await players(index) == ["ann"]

    @pytest.mark.parametrize("after", [0, 2, 100])
    async def test_an_apply_out_of_turn_changes_nothing(self, index: RankIndex, after: int) -> None:
        await fold(index, placed("ann", 1), opened=[FOREVER])
        out_of_turn = await index.apply(
            [placed("bob", 0), left("ann")],
            after=Position(after),
            through=Position(after + 5),
            opened={DAILY: PLAIN},
            dropped=[FOREVER],
        )
        assert out_of_turn is None
        assert await index.checkpoint() == 1
        assert await players(index) == ["ann"]
        assert list(await index.rankings("race")) == [FOREVER]

    async def test_of_many_who_race_one_wins_and_the_others_are_told(
        self, index: RankIndex
    ) -> None:
        await fold(index, opened=[FOREVER])
        outcomes = await asyncio.gather(
            *(
                index.apply([placed(f"p{n}", n)], after=Position(1), through=Position(2))
                for n in range(20)
            )
        )
        assert sum(moved is not None for moved in outcomes) == 1
        assert await index.count(FOREVER) == 1

    # ------------------------------------------------------------------------- (3) order

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
            opened={FOREVER: Shape(width, False)},
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

    # ----------------------------------------------------------------------- (4) moments

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

    # --------------------------------------------------------------- (5) what is not there

    async def test_reads_of_a_ranking_that_does_not_exist_find_nothing(
        self, index: RankIndex
    ) -> None:
        await fold(index, placed("ann", 1), opened=[FOREVER])
        assert await index.count(NOWHERE) == 0
        assert await index.rank(NOWHERE, "ann") is None
        assert await index.count_below(NOWHERE, key(9)) == 0
        assert await index.count_below(NOWHERE, key(9), "ann") == 0
        assert await index.scores_below(NOWHERE, key(9)) == 0
        assert await index.read(NOWHERE, first=Rank(1), limit=10) == Stretch([], 0, Position(1))
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

    # ----------------------------------------------------------- (7) opening and dropping

    async def test_opening_what_is_open_changes_nothing(self, index: RankIndex) -> None:
        await fold(index, placed("ann", 1), opened=[FOREVER])
        await fold(index, opened=[FOREVER])
        assert await players(index) == ["ann"]

    @pytest.mark.parametrize("shape", [DENSE, Shape(24, False)])
    async def test_opening_it_in_another_shape_is_a_mistake(
        self, index: RankIndex, shape: Shape
    ) -> None:
        await fold(index, placed("ann", 1), opened=[FOREVER])
        with pytest.raises(AssertionError):
            await fold(index, opened={DAILY: PLAIN, FOREVER: shape})
        assert list(await index.rankings("race")) == [FOREVER]
        assert await players(index) == ["ann"]

    async def test_moving_where_nothing_was_opened_is_a_mistake(self, index: RankIndex) -> None:
        with pytest.raises(AssertionError):
            await fold(index, placed("ann", 1))
        with pytest.raises(AssertionError):
            await fold(index, left("ann"))
        assert await index.checkpoint() == 0

    async def test_dropping_what_is_not_there_changes_nothing(self, index: RankIndex) -> None:
        await fold(index, placed("ann", 1), opened=[FOREVER], dropped=[NOWHERE])
        assert await players(index) == ["ann"]

    async def test_what_was_dropped_is_empty_when_it_is_opened_again(
        self, index: RankIndex
    ) -> None:
        """Also in another shape, and whoever was in it comes back as somebody new."""
        crowd = [f"p{n:03}" for n in range(300)]
        await fold(index, *(placed(player, 1) for player in crowd), opened=[FOREVER])
        for turn in range(5):
            await fold(index, dropped=[FOREVER])
            assert await index.rank(FOREVER, "p000") is None
            shape = DENSE if turn % 2 else PLAIN
            some = crowd[turn::2]
            moved = await fold(
                index, *(placed(player, 1) for player in some), opened={FOREVER: shape}
            )
            assert moved == [Moved(None, Rank(n), n) for n in range(1, len(some) + 1)]
            assert await players(index) == some

    async def test_an_empty_ranking_is_there(self, index: RankIndex) -> None:
        await fold(index, opened=[FOREVER, EUROPE, DAILY, OTHER])
        assert set(await index.rankings("race")) == {FOREVER, EUROPE, DAILY}
        assert await index.count(EUROPE) == 0

    # ------------------------------------------------------------------------- answers

    async def test_a_place_is_counted_though_nobody_holds_it(self, index: RankIndex) -> None:
        await fold(index, *(placed(f"p{n}", n) for n in (10, 20, 20_000, 30)), opened=[FOREVER])
        expected = {0: 0, 10: 0, 11: 1, 20: 1, 21: 2, 30: 2, 31: 3, 20_000: 3, 20_001: 4}
        for score, below in expected.items():
            assert await index.count_below(FOREVER, key(score)) == below
        assert await index.count_below(FOREVER, b"\xff" * 16) == 4

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
        """Whoever relies on it starts a call and expects its answer without an event loop."""
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

    # ----------------------------------------------------------------------------- (9) drafts

    async def test_a_draft_is_staged_without_a_checkpoint_and_listed_under_no_board(
        self, index: RankIndex
    ) -> None:
        await fold(index, placed("ann", 1), opened=[FOREVER])
        moved = await index.stage(
            [placed("bob", 5, at=REDONE), placed("cyd", 3, at=REDONE)], opened={REDONE: PLAIN}
        )
        assert list(moved) == [Moved(None, Rank(1), 1), Moved(None, Rank(1), 2)]
        assert await index.checkpoint() == 1
        assert list(await index.rankings("race")) == [FOREVER]
        assert await players(index) == ["ann"]
        assert await index.rank(FOREVER, "bob") is None

    @pytest.mark.parametrize("many", [1, 100])
    async def test_a_draft_is_adopted_at_one_moment_in_place_of_what_had_the_name(
        self, index: RankIndex, many: int
    ) -> None:
        """After the moves and the drops of the same apply, which are those of the old one."""
        await fold(index, placed("ann", 1, beside=b"old"), opened=[FOREVER, DAILY])
        crowd = [placed(f"p{n:03}", 9, at=REDONE) for n in range(many)]
        await index.stage([placed("ann", 7, at=REDONE), *crowd], opened={REDONE: DENSE})
        moved = await fold(
            index,
            placed("ann", 2),
            placed("bob", 1),
            opened=[OTHER],
            dropped=[DAILY],
            adopted={REDONE: FOREVER},
        )
        assert moved == [Moved(Rank(1), Rank(1), 1), Moved(None, Rank(1), 2)]
        assert await players(index) == ["ann", *(move.player for move in crowd)]
        assert await index.rank(FOREVER, "ann") == (1, key(7), None, many + 1, 2)
        assert await index.rank(FOREVER, "bob") is None
        assert await index.scores_below(FOREVER, key(9)) == 1
        assert list(await index.rankings("race")) == [FOREVER]
        assert list(await index.rankings(REDONE.board)) == []

    async def test_an_adopted_draft_goes_on_as_a_ranking(self, index: RankIndex) -> None:
        await index.stage([placed("ann", 7, at=REDONE, beside=b"x")], opened={REDONE: PLAIN})
        await fold(index, adopted={REDONE: FOREVER})
        assert await metadata(index) == {"ann": b"x"}
        moved = await fold(index, placed("bob", 1), placed("ann", 0))
        assert moved == [Moved(None, Rank(1), 2), Moved(Rank(2), Rank(1), 2)]
        await index.stage([placed("cyd", 3, at=REDONE)], opened={REDONE: PLAIN})
        assert await players(index) == ["ann", "bob"]

    async def test_several_drafts_are_adopted_together(self, index: RankIndex) -> None:
        await fold(index, placed("ann", 1), opened=[FOREVER])
        await index.stage(
            [placed("bob", 2, at=REDONE), placed("cyd", 3, at=REDONE_DAILY)],
            opened={REDONE: PLAIN, REDONE_DAILY: PLAIN},
        )
        await fold(index, adopted={REDONE: FOREVER, REDONE_DAILY: DAILY})
        assert await players(index) == ["bob"]
        assert await players(index, DAILY) == ["cyd"]
        assert set(await index.rankings("race")) == {FOREVER, DAILY}

    async def test_a_draft_that_is_dropped_leaves_nothing(self, index: RankIndex) -> None:
        await fold(index, placed("ann", 1), opened=[FOREVER])
        moves = [placed(player, 2, at=REDONE) for player in ("ann", "bob")]
        moved = await index.stage(moves, opened={REDONE: PLAIN}, dropped=[REDONE])
        assert len(moved) == 2
        assert await players(index) == ["ann"]
        with pytest.raises(AssertionError):
            await fold(index, adopted={REDONE: FOREVER})
        assert await players(index) == ["ann"]

    async def test_an_apply_out_of_turn_adopts_nothing(self, index: RankIndex) -> None:
        await fold(index, placed("ann", 1), opened=[FOREVER])
        await index.stage([placed("bob", 1, at=REDONE)], opened={REDONE: PLAIN})
        late = await index.apply(
            [], after=Position(0), through=Position(1), adopted={REDONE: FOREVER}
        )
        assert late is None
        assert await players(index) == ["ann"]
        await fold(index, adopted={REDONE: FOREVER})
        assert await players(index) == ["bob"]

    @pytest.mark.parametrize("many", [1, 100])
    async def test_staging_rankings_and_applying_to_drafts_are_mistakes(
        self, index: RankIndex, many: int
    ) -> None:
        await fold(index, placed("ann", 1), opened=[FOREVER])
        await index.stage([placed("bob", 1, at=REDONE)], opened={REDONE: PLAIN})
        with pytest.raises(AssertionError):
            await index.stage([placed(f"p{n}", 0) for n in range(many)])
        with pytest.raises(AssertionError):
            await index.stage([], opened={DAILY: PLAIN})
        with pytest.raises(AssertionError):
            await index.stage([], dropped=[FOREVER])
        with pytest.raises(AssertionError):
            await fold(index, *(placed(f"p{n}", 0, at=REDONE) for n in range(many)))
        with pytest.raises(AssertionError):
            await fold(index, opened=[REDONE_DAILY])
        with pytest.raises(AssertionError):
            await fold(index, dropped=[REDONE])
        assert await index.checkpoint() == 1
        assert await players(index) == ["ann"]
        await fold(index, adopted={REDONE: DAILY})
        assert await players(index, DAILY) == ["bob"]

    @pytest.mark.parametrize(
        "adopted",
        [
            {REDONE_DAILY: DAILY},
            {FOREVER: DAILY},
            {REDONE: REDONE_DAILY},
            {REDONE: OTHER, Ranking(REDONE.board, "second"): OTHER},
        ],
    )
    async def test_adopting_what_is_no_draft_is_a_mistake(
        self, index: RankIndex, adopted: Mapping[Ranking, Ranking]
    ) -> None:
        await fold(index, placed("ann", 1), opened=[FOREVER])
        drafts = [REDONE, Ranking(REDONE.board, "second")]
        await index.stage([], opened=dict.fromkeys(drafts, PLAIN))
        with pytest.raises(AssertionError):
            await fold(index, placed("bob", 1), adopted=adopted)
        assert await index.checkpoint() == 1
        assert await players(index) == ["ann"]
        assert list(await index.rankings("race")) == [FOREVER]

    # ------------------------------------------------------------------ (11) shared by nodes

    async def test_the_same_apply_made_again_gets_the_answer_of_the_first_time(
        self, index: RankIndex
    ) -> None:
        """Whatever came after it; and another one with the same positions gets None."""
        if not index.shared:
            pytest.skip("this one is not shared")
        await fold(index, placed("ann", 5, beside=b"x"), placed("bob", 3), opened={FOREVER: DENSE})
        moves = [
            placed("cyd", 4),
            placed("ann", 1),
            Move(FOREVER, "bob", STAY, None, TieRule.DENSE),
            placed("dee", 3),
            Move(FOREVER, "dee", STAY, None, TieRule.STANDARD),
            left("cyd"),
        ]
        expected = await fold(index, *moves, opened=[DAILY])
        await fold(index, left("ann"), left("bob"), placed("cyd", 9))

        async def again(*some: Move) -> Sequence[Moved] | None:
            positions: Any = {"after": Position(1), "through": Position(2)}
            return await index.apply(some, opened={DAILY: PLAIN}, **positions)

        assert await again(*moves) == expected
        assert await again(*moves) == expected
        assert await again(*moves[:-1]) is None
        assert await again(placed("cyd", 5), *moves[1:]) is None
        assert await index.checkpoint() == 3
        assert await players(index) == ["dee", "cyd"]

    async def test_it_tells_how_entries_were_before_an_apply(self, index: RankIndex) -> None:
        if not index.shared:
            await fold(index, placed("ann", 5), opened=[FOREVER])
            assert await index.order_keys([(FOREVER, "ann")], at=Position(1)) == [key(5)]
            for elsewhere in (0, 2):
                with pytest.raises(AssertionError):
                    await index.order_keys([(FOREVER, "ann")], at=Position(elsewhere))
            return
        await fold(index, placed("ann", 5), placed("bob", 3), opened=[FOREVER])
        await fold(index, placed("cyd", 4), placed("ann", 1), placed("ann", 2))
        await fold(index, left("ann"), placed("bob", 6))
        await fold(index, placed("dee", 0, at=DAILY), opened=[DAILY])
        asked = [(FOREVER, "ann"), (FOREVER, "bob"), (FOREVER, "cyd"), (DAILY, "dee")]
        history = {
            0: [None, None, None, None],
            1: [key(5), key(3), None, None],
            2: [key(2), key(3), key(4), None],
            3: [None, key(6), key(4), None],
            4: [None, key(6), key(4), key(0)],
        }
        for at, expected in history.items():
            assert list(await index.order_keys(asked, at=Position(at))) == expected, at
        with pytest.raises(IndexForgot):
            await index.order_keys(asked, at=Position(5))
        with pytest.raises(IndexForgot):
            await index.order_keys([], at=Position(5))

    async def test_it_remembers_rankings_that_were_dropped_and_replaced(
        self, index: RankIndex
    ) -> None:
        if not index.shared:
            pytest.skip("this one is not shared")
        await fold(index, placed("ann", 1), placed("bob", 2, at=DAILY), opened=[FOREVER, DAILY])
        await fold(index, dropped=[DAILY])
        await index.stage([placed("ann", 7, at=REDONE)], opened={REDONE: DENSE})
        await fold(index, adopted={REDONE: FOREVER})
        await fold(index, placed("bob", 5, at=DAILY), opened=[DAILY])
        asked = [(FOREVER, "ann"), (DAILY, "bob")]
        history = {
            1: [key(1), key(2)],
            2: [key(1), None],
            3: [key(7), None],
            4: [key(7), key(5)],
        }
        for at, expected in history.items():
            assert list(await index.order_keys(asked, at=Position(at))) == expected, at

    async def test_what_is_long_past_is_forgotten(self, index: RankIndex) -> None:
        if not index.shared:
            pytest.skip("this one is not shared")
        first = [placed("ann", 1)]
        await fold(index, *first, opened=[FOREVER])
        for turn in range(APPLIES_REMEMBERED):
            await fold(index, placed("bob", turn))
        opened = {FOREVER: PLAIN}
        again = await index.apply(first, after=Position(0), through=Position(1), opened=opened)
        assert again is None
        with pytest.raises(IndexForgot):
            await index.order_keys([(FOREVER, "ann")], at=Position(0))
        asked = [(FOREVER, "ann"), (FOREVER, "bob")]
        assert list(await index.order_keys(asked, at=Position(1))) == [key(1), None]
        second = await index.apply([placed("bob", 0)], after=Position(1), through=Position(2))
        assert second == [Moved(None, Rank(1), 2)]

    async def test_what_is_whole_is_not_unfinished(self, index: RankIndex) -> None:
        if not index.shared:
            pytest.skip("this one is not shared")
        shared: SharedIndex = index  # type: ignore[assignment]
        assert await shared.unfinished() is None
        await fold(index, placed("ann", 1), opened=[FOREVER])
        assert await shared.unfinished() is None

    async def test_an_index_is_filled_beside_another_and_takes_over(self, index: RankIndex) -> None:
        if not index.shared:
            pytest.skip("this one is not shared")
        shared: SharedIndex = index  # type: ignore[assignment]
        await fold(index, placed("ann", 1), opened=[FOREVER])
        beside = await shared.beside()
        assert await beside.checkpoint() == 0
        await fold(beside, placed("bob", 1), placed("ann", 2), opened=[FOREVER])
        await fold(beside, placed("cyd", 0))
        assert await players(index) == ["ann"]
        assert await beside.take_over(of=shared)
        for each in (index, beside):
            assert await each.checkpoint() == 2
            assert await players(each) == ["cyd", "bob", "ann"]
        late = await index.apply([placed("dee", 1)], after=Position(1), through=Position(2))
        assert late is None
        another = await shared.beside()
        await fold(another, opened=[DAILY])
        await another.drop()
        assert await players(index) == ["cyd", "bob", "ann"]

    @pytest.mark.parametrize("many", [0, 1, 499, 500, 1203])
    async def test_an_index_is_copied_into_one_beside_another(
        self, index: RankIndex, many: int
    ) -> None:
        if not index.shared:
            pytest.skip("this one is not shared")
        shared: SharedIndex = index  # type: ignore[assignment]
        source = await shared.beside()
        crowd = [
            placed(f"p{n:04}", n // 3, beside=b"m" if n % 7 == 0 else None) for n in range(many)
        ]
        opened = {FOREVER: DENSE, DAILY: PLAIN}
        await fold(source, *crowd, placed("ann", 5, at=DAILY), opened=opened)
        copied = await shared.beside()
        await copied.fill(source, opened)
        assert await copied.checkpoint() == 1
        assert await players(copied) == [move.player for move in crowd]
        assert await players(copied, DAILY) == ["ann"]
        assert await metadata(copied) == await metadata(source)
        assert await copied.scores_below(FOREVER, b"\xff" * 16) == -(-many // 3)
        moved = await fold(copied, placed("zoe", 1), placed("ann", 1, at=DAILY))
        assert moved == [Moved(None, Rank(min(many, 6) + 1), many + 1), Moved(Rank(1), Rank(1), 1)]
        with pytest.raises(AssertionError):
            await shared.fill(source, opened)
        await source.drop()
        await copied.drop()

    # -- 7. ranks as they are asked for --

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
    """Make a move in a dictionary, and tell what it did by sorting before and after."""
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

"""The contract of RankIndex. Subclass it and provide ``index``.

Sections have the numbers of ``rankd.ports.RankIndex``. Applies (1, 2), rankings (8, 9, 12) and
nodes that share an index (11) are here; order and reads (3 to 7) are in ``index_reads``. The tenth,
judging in place, is held to a model of its own: ``tests/property/test_judging.py``.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

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
    RankIndex,
    Ranking,
    RankingShape,
    SharedIndex,
)
from rankd.testing.contracts.index_reads import (
    DAILY,
    DENSE,
    EUROPE,
    FOREVER,
    NOWHERE,
    OTHER,
    PLAIN,
    REDONE,
    REDONE_DAILY,
    OrderPromises,
    ReadPromises,
    fold,
    key,
    left,
    metadata,
    placed,
    players,
)


class ApplyPromises:
    """An apply is seen whole or not at all, and only in its turn."""

    # ------------------------------------------------------------ (1) whole or not at all

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

    @pytest.mark.parametrize("ties", TieRule)
    async def test_a_visit_tells_ranks_and_leaves_nothing(
        self, index: RankIndex, ties: TieRule
    ) -> None:
        """An entry that comes and leaves within an apply, as that of a shadowed player does."""
        await fold(index, placed("ann", 1), placed("bob", 3), opened={FOREVER: DENSE})
        visit = [
            placed("eve", 4),
            Move(FOREVER, "eve", key(2), None, ties),
            Move(FOREVER, "eve", None),
        ]
        moved = await fold(index, *visit, placed("cyd", 9))
        assert moved[1] == Moved(Rank(3), Rank(2), 3)
        assert moved[3] == Moved(None, Rank(3), 3)
        assert await players(index) == ["ann", "bob", "cyd"]
        assert await index.scores_below(FOREVER, key(9)) == 2

    # ------------------------------------------------------------------- (2) each in turn

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


class RankingPromises:
    """A ranking is there from its opening to its drop; a draft is none until it is adopted."""

    forgets_emptied: ClassVar[bool] = True
    """Whether an emptied segment is no longer among the rankings of its board."""

    # ----------------------------------------------------------- (8) opening and dropping

    async def test_opening_what_is_open_changes_nothing(self, index: RankIndex) -> None:
        await fold(index, placed("ann", 1), opened=[FOREVER])
        await fold(index, opened=[FOREVER])
        assert await players(index) == ["ann"]

    @pytest.mark.parametrize("shape", [DENSE, RankingShape(24, False)])
    async def test_opening_it_in_another_shape_is_a_mistake(
        self, index: RankIndex, shape: RankingShape
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
        """Also in another shape; its former players return as new ones."""
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

    async def test_it_tells_all_rankings_but_drafts_and_their_shapes(
        self, index: RankIndex
    ) -> None:
        assert await index.shapes() == {}
        other = Ranking("other", "forever", "team:a")
        opened = {FOREVER: DENSE, DAILY: PLAIN, other: PLAIN}
        await fold(index, placed("ann", 1), opened=opened)
        await index.stage([], opened={Ranking(DRAFT + "race", "forever"): PLAIN})
        assert await index.shapes() == opened
        await fold(index, dropped=[DAILY])
        assert set(await index.shapes()) == {FOREVER, other}
        await index.stage([], dropped=[Ranking(DRAFT + "race", "forever")])

    # ------------------------------------------------------------------------- (9) drafts

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

    # ------------------------------------------------------------- (12) emptied segments

    @pytest.mark.parametrize("many", [1, 100])
    async def test_a_segment_that_its_last_player_leaves_is_gone(
        self, index: RankIndex, many: int
    ) -> None:
        crowd = [f"p{n}" for n in range(many)]
        moves = [placed(player, 1, at=at) for at in (FOREVER, EUROPE) for player in crowd]
        await fold(index, *moves, opened=[FOREVER, EUROPE])
        await fold(index, *(left(player, at=EUROPE) for player in crowd[1:]))
        assert set(await index.rankings("race")) == {FOREVER, EUROPE}
        await fold(index, left(crowd[0], at=EUROPE))
        if self.forgets_emptied:
            assert list(await index.rankings("race")) == [FOREVER]
        assert (await index.count(EUROPE), await index.count(FOREVER)) == (0, many)
        await fold(index, placed("ann", 2, at=EUROPE), opened=[EUROPE])
        assert await players(index, EUROPE) == ["ann"]

    async def test_a_segment_that_is_left_and_entered_at_once_stays(self, index: RankIndex) -> None:
        await fold(index, placed("ann", 1, at=EUROPE), opened=[EUROPE])
        await fold(index, left("ann", at=EUROPE), placed("bob", 1, at=EUROPE))
        assert await players(index, EUROPE) == ["bob"]

    async def test_a_ranking_of_everybody_stays_when_it_is_empty(self, index: RankIndex) -> None:
        await fold(index, placed("ann", 1), opened=[FOREVER])
        await fold(index, left("ann"))
        assert list(await index.rankings("race")) == [FOREVER]

    async def test_a_segment_of_a_draft_that_its_last_player_leaves_is_gone(
        self, index: RankIndex
    ) -> None:
        draft = Ranking(REDONE.board, "forever", "region:eu")
        await index.stage([placed("ann", 1, at=draft)], opened={draft: PLAIN})
        await index.stage([left("ann", at=draft)])
        if self.forgets_emptied:
            assert list(await index.rankings(REDONE.board)) == []
        assert await index.count(draft) == 0


class SharingPromises:
    """The last applies are remembered, and an index can be filled beside another."""

    # ------------------------------------------------------------ (11) what is remembered

    async def test_the_same_apply_made_again_gets_the_answer_of_the_first_time(
        self, index: RankIndex
    ) -> None:
        """Also after later applies; and another one with the same positions gets None."""
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

    async def test_it_tells_what_was_beside_entries_before_an_apply(self, index: RankIndex) -> None:
        await fold(index, placed("ann", 5, beside=b"a"), placed("bob", 3), opened=[FOREVER])
        asked = [(FOREVER, "ann"), (FOREVER, "bob")]
        assert list(await index.metadata(asked, at=Position(1))) == [b"a", None]
        if not index.shared:
            for elsewhere in (0, 2):
                with pytest.raises(AssertionError):
                    await index.metadata(asked, at=Position(elsewhere))
            return
        await fold(index, placed("ann", 5), placed("bob", 4, beside=b"b"))
        await fold(index, left("bob"))
        history: dict[int, list[bytes | None]] = {
            0: [None, None],
            1: [b"a", None],
            2: [None, b"b"],
            3: [None, None],
        }
        for at, expected in history.items():
            assert list(await index.metadata(asked, at=Position(at))) == expected, at
        with pytest.raises(IndexForgot):
            await index.metadata(asked, at=Position(4))

    async def test_it_tells_where_an_apply_led(self, index: RankIndex) -> None:
        if not index.shared:
            pytest.skip("this one is not shared")
        shared: SharedIndex = index  # type: ignore[assignment]
        assert await shared.step_after(Position(0)) is None
        opened = {FOREVER: PLAIN}
        await index.apply([placed("ann", 1)], after=Position(0), through=Position(3), opened=opened)
        await index.apply([placed("bob", 1)], after=Position(3), through=Position(10))
        assert await shared.step_after(Position(0)) == 3
        assert await shared.step_after(Position(3)) == 10
        assert await shared.step_after(Position(10)) is None
        for elsewhere in (1, 4, 11):
            with pytest.raises(IndexForgot):
                await shared.step_after(Position(elsewhere))
        for turn in range(10, 10 + APPLIES_REMEMBERED):
            await index.apply([], after=Position(turn), through=Position(turn + 1))
        with pytest.raises(IndexForgot):
            await shared.step_after(Position(3))

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

    # ------------------------------------------------------------------------ SharedIndex

    async def test_what_is_whole_is_not_unfinished(self, index: RankIndex) -> None:
        if not index.shared:
            pytest.skip("this one is not shared")
        shared: SharedIndex = index  # type: ignore[assignment]
        assert await shared.unfinished() is None
        await fold(index, placed("ann", 1), opened=[FOREVER])
        assert await shared.unfinished() is None

    async def test_an_index_is_that_of_one_ledger(self, index: RankIndex) -> None:
        if not index.shared:
            pytest.skip("this one is not shared")
        shared: SharedIndex = index  # type: ignore[assignment]
        assert await shared.belongs(""), "it is nobody's yet"
        assert await shared.belongs("one")
        assert await shared.belongs("one")
        assert not await shared.belongs("another")
        assert not await shared.belongs("")
        await (await shared.beside()).take_over()
        assert await shared.belongs("one"), "whatever lives in its place"

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
        assert await beside.take_over()
        for each in (index, beside):
            assert await each.checkpoint() == 2
            assert await players(each) == ["cyd", "bob", "ann"]
        late = await index.apply([placed("dee", 1)], after=Position(1), through=Position(2))
        assert late is None
        another = await shared.beside()
        await fold(another, opened=[DAILY])
        await another.drop()
        assert await players(index) == ["cyd", "bob", "ann"]

    @pytest.mark.parametrize("many", [0, 1, 999, 1000, 2503])
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
        told = [progress async for progress in copied.fill(source)]
        assert told[-1][:2] == (many + 1, many + 1)
        assert await copied.checkpoint() == 1
        assert await players(copied) == [move.player for move in crowd]
        assert await players(copied, DAILY) == ["ann"]
        assert await metadata(copied) == await metadata(source)
        assert await copied.scores_below(FOREVER, b"\xff" * 16) == -(-many // 3)
        moved = await fold(copied, placed("zoe", 1), placed("ann", 1, at=DAILY))
        assert moved == [Moved(None, Rank(min(many, 6) + 1), many + 1), Moved(Rank(1), Rank(1), 1)]
        with pytest.raises(AssertionError):
            await anext(aiter(shared.fill(source)))
        await source.drop()
        await copied.drop()


@pytest.mark.anyio
class RankIndexContract(
    ApplyPromises, OrderPromises, ReadPromises, RankingPromises, SharingPromises
):
    """The promises of ``rankd.ports.RankIndex``, by their numbers."""

    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"

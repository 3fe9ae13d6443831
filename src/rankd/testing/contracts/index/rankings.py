"""Which rankings an index has: opened, dropped, drafted, emptied. Promises 8, 9 and 12."""

from collections.abc import Mapping
from typing import ClassVar

import pytest

from rankd.model.facts import Position
from rankd.model.standing import Rank
from rankd.ports import DRAFT, Moved, RankIndex, Ranking, RankingShape
from rankd.testing.contracts.index.moves import (
    DAILY,
    DENSE,
    EUROPE,
    FOREVER,
    NOWHERE,
    OTHER,
    PLAIN,
    REDONE,
    REDONE_DAILY,
    fold,
    key,
    left,
    metadata,
    placed,
    players,
)


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

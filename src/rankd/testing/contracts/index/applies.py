"""Effects of an apply, and applies without one: promises 1 and 2 of the port."""

import asyncio

import pytest

from rankd.model.facts import Position
from rankd.model.standing import Rank
from rankd.ports import Moved, RankIndex
from rankd.testing.contracts.index.moves import (
    DAILY,
    FOREVER,
    NOWHERE,
    OTHER,
    PLAIN,
    fold,
    left,
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

"""Promises to nodes that share an index: promise 11 of the port, and those of SharedIndex.

An index of a single process skips the tests that do not apply to it.
"""

from collections.abc import Sequence
from typing import Any

import pytest

from rankd.errors import IndexForgot
from rankd.model.facts import Position
from rankd.model.standing import Rank, TieRule
from rankd.ports import APPLIES_REMEMBERED, STAY, Move, Moved, RankIndex, SharedIndex
from rankd.testing.contracts.index.moves import (
    DAILY,
    DENSE,
    FOREVER,
    PLAIN,
    REDONE,
    fold,
    key,
    left,
    metadata,
    placed,
    players,
)


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

"""The order of entries, and the ranks that a move returns: promises 3, 4 and 7 of the port."""

import random
from collections.abc import Mapping

import pytest

from rankd.model.facts import Position
from rankd.model.standing import Rank, TieRule
from rankd.ports import STAY, Move, Moved, Ranked, RankIndex, Ranking, RankingShape
from rankd.testing.contracts.index.moves import (
    DAILY,
    DENSE,
    EUROPE,
    FOREVER,
    OTHER,
    fold,
    key,
    left,
    metadata,
    placed,
    players,
)


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

"""The native index, the one in Redis and a model of a dozen lines agree on every history.

Method: Hypothesis makes up applies over a few players and keys, so that ties, neighbours, leaving
and coming back are frequent, and shrinks what fails. The model sorts a dictionary anew for each
question; nothing of it is shared with either index. A commit looks at some histories, always the
same; test_redis_index.py goes further with two of the three.

RANKD_HYPOTHESIS=long looks at many more, and at others each time.
"""

import asyncio
import os
from collections.abc import Sequence
from itertools import count
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.property.test_redis_index import few_keys, small_bounds

from rankd.adapters.memory.index import NativeIndex
from rankd.adapters.redis import RedisIndex
from rankd.model.facts import Position
from rankd.model.standing import Rank, TieRule
from rankd.ports import STAY, Move, Moved, Placed, RankIndex, Ranking, RankingShape
from rankd.testing.servers import RedisServer

LONG = os.environ.get("RANKD_HYPOTHESIS") == "long"
EXAMPLES = 1_000 if LONG else 40
APPLIES_MAX, MOVES_MAX = 6, 8
PLAYERS = ("ann", "ann2", "bob", "é", "\uffff", "\U00010000")
RANKINGS = (Ranking("b", "w"), Ranking("b", "w", "region:eu"))
WIDTH = 16
KEYS = few_keys(WIDTH)
_prefixes = count(1)


class Model:
    """What an index means: players in the order of their keys."""

    def __init__(self) -> None:
        self.kept: dict[Ranking, dict[str, tuple[bytes, bytes | None]]] = {
            ranking: {} for ranking in RANKINGS
        }

    def ordered(self, ranking: Ranking) -> list[Placed]:
        entries = [Placed(player, *kept) for player, kept in self.kept[ranking].items()]
        return sorted(entries, key=lambda entry: (entry.order_key, entry.player.encode()))

    def rank(self, ranking: Ranking, player: str, ties: TieRule) -> Rank | None:
        if player not in self.kept[ranking]:
            return None
        ordered = self.ordered(ranking)
        place = next(at for at, entry in enumerate(ordered) if entry.player == player)
        if ties is TieRule.ORDINAL:
            return Rank(place + 1)
        better = [entry.order_key[:-8] for entry in ordered[:place]]
        better = [score for score in better if score != ordered[place].order_key[:-8]]
        return Rank(len(better if ties is TieRule.STANDARD else set(better)) + 1)

    def move(self, move: Move) -> Moved:
        before, entries = self.rank(move.ranking, move.player, move.ties), self.kept[move.ranking]
        if move.order_key is None:
            entries.pop(move.player, None)
        elif move.order_key != STAY:
            entries[move.player] = (move.order_key, move.metadata)
        return Moved(before, self.rank(move.ranking, move.player, move.ties), len(entries))


moves = st.builds(
    Move,
    st.sampled_from(RANKINGS),
    st.sampled_from(PLAYERS),
    st.sampled_from([*KEYS, STAY, None]),
    st.sampled_from([None, b"m"]),
    st.sampled_from(list(TieRule)),
)
histories = st.lists(st.lists(moves, max_size=MOVES_MAX), min_size=1, max_size=APPLIES_MAX)


class Seen(NamedTuple):
    """All that an index tells of one ranking."""

    entries: list[Placed]
    ranks: list[Rank | None]
    below: Sequence[int]


async def seen(index: RankIndex, ranking: Ranking) -> Seen:
    page = await index.read(ranking, first=Rank(1), limit=100)
    ranks = await index.ranks(ranking, PLAYERS)
    below = [await index.count_below(ranking, key, "bob") for key in KEYS]
    assert page.total == len(page.entries)
    return Seen(
        list(page.entries),
        [None if one is None else one.rank for one in ranks],
        below,
    )


def expected(model: Model, ranking: Ranking) -> Seen:
    ordered = model.ordered(ranking)
    places = [(entry.order_key, entry.player.encode()) for entry in ordered]
    return Seen(
        ordered,
        [model.rank(ranking, player, TieRule.ORDINAL) for player in PLAYERS],
        [sum(place < (key, b"bob") for place in places) for key in KEYS],
    )


async def live(url: str, history: Sequence[Sequence[Move]]) -> None:
    model, native = Model(), NativeIndex()
    opened = {ranking: RankingShape(WIDTH, dense=True) for ranking in RANKINGS}
    async with RedisIndex.open(url) as redis:
        for number, some in enumerate(history):
            after, through = Position(number), Position(number + 1)
            told = [model.move(move) for move in some]
            for index in (native, redis):
                answer = await index.apply(some, after=after, through=through, opened=opened)
                assert answer is not None
                assert list(answer) == told, type(index).__name__
                for ranking in RANKINGS:
                    assert await seen(index, ranking) == expected(model, ranking)
        assert await redis.digest() == native.digest()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("partitions", [1, 3])
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=not LONG,
    suppress_health_check=list(HealthCheck),
)
@given(history=histories)
def test_all_three_tell_the_same(
    shared_redis: RedisServer, partitions: int, history: list[list[Move]]
) -> None:
    url = f"{shared_redis.url}?partitions={partitions}&prefix=three{next(_prefixes)}&timeout=60"
    with small_bounds():
        asyncio.run(live(url, history))

"""Boards with decay agree with fractions and decimals of 120 digits, in order and in value.

Method: random histories of few players and few values (``decay_games``), on the native index and on
one in Redis, judged by ``decay_judge``, which computes every value anew from the submissions.

``python -m tests.property.decay_campaign`` looks further than a commit does.
"""

import asyncio
from collections import Counter
from itertools import count

import pytest
from tests.property.decay_games import Game

from rankd.adapters.redis import RedisIndex
from rankd.testing.servers import RedisServer

GAMES, STEPS = 24, 25
"""What a commit looks at: some five seconds of one core."""

_prefixes = count(1)


@pytest.mark.parametrize("seed", range(GAMES))
def test_native_index_agrees_with_the_judge(seed: int) -> None:
    figures = Counter[str]()
    asyncio.run(Game(seed, figures).play(STEPS))
    assert figures["rows"] > STEPS


async def shared_game(seed: int, url: str, figures: Counter[str]) -> None:
    """Play a game on an index of its own in a Redis."""
    options = f"prefix=decay{next(_prefixes)}&timeout=30&partitions={1 + seed % 3}"
    async with RedisIndex.open(f"{url}?{options}") as index:
        await Game(seed, figures, index).play(STEPS)


@pytest.mark.servers
@pytest.mark.parametrize("seed", range(6))
def test_index_in_redis_agrees_with_the_judge(seed: int, shared_redis: RedisServer) -> None:
    figures = Counter[str]()
    asyncio.run(shared_game(seed, shared_redis.url, figures))
    assert figures["rows"] > STEPS

"""Standings as of any past position are those that were read when it was the present one.

Method: a board lives through random submissions, deltas, metadata, moves between segments, resets,
corrections, states of players, reviews and redefinitions, and all its rankings are written down at
every position. Afterwards each position is asked for again, by every kind of read, and compared. In
half of the histories only players act, so that every ranking can be copied and taken back.

``python -m tests.property.past_campaign`` goes on for as long as there is time.
"""

import pytest
from tests.property.past_model import LASTING, WINDOWS, compare_past
from tests.property.past_worlds import KINDS, lived, made_by_copy

from rankd.testing.servers import RedisServer

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", KINDS)
async def test_every_past_position_is_as_it_was(
    kind: str, seed: int, shared_redis: RedisServer
) -> None:
    async with lived(kind, seed, shared_redis, windows=WINDOWS, steps=30) as history:
        assert await compare_past(history) > 100


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", KINDS)
async def test_a_copy_of_the_present_is_taken_back(
    kind: str, seed: int, shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rankd.core.past.copy_cost", _nothing)
    world = lived(kind, seed, shared_redis, windows=LASTING, steps=20, corrected=False)
    async with world as history:
        compared = await compare_past(history)
        assert made_by_copy(history) == compared > 100


@pytest.mark.parametrize("together", [1, 3])
async def test_a_copy_is_made_of_many_slices(
    together: int, shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rankd.core.past.copy_cost", _nothing)
    monkeypatch.setattr("rankd.core.past_copy.TOGETHER", together)
    monkeypatch.setattr("rankd.core.past_copy.PLAYERS_TOGETHER", together)
    world = lived("native", 7, shared_redis, windows=LASTING, steps=20, corrected=False)
    async with world as history:
        assert await compare_past(history) == made_by_copy(history)


async def _nothing(*_: object) -> int:
    return 0

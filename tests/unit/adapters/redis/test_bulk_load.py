"""Filling an index in Redis from one in this process: all of it, at once, and safe to repeat."""

import random
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest

from rankd.adapters.memory.index import NativeIndex
from rankd.adapters.redis import RedisIndex, writes
from rankd.adapters.redis.generations import Partitions
from rankd.adapters.redis.protocol import ScriptArgs
from rankd.errors import IndexUnavailable
from rankd.model.facts import Position
from rankd.model.standing import Rank
from rankd.ports import Move, Ranking, RankingShape
from rankd.testing.redis_servers import say
from rankd.testing.servers import RedisServer

pytestmark = [pytest.mark.anyio, pytest.mark.servers]
each_spread = pytest.mark.parametrize("partitions", [1, 3])

UrlOf = Callable[[int], str]
FOREVER = Ranking("race", "forever")
DENSE = Ranking("race", "daily")
SHAPES = {FOREVER: RankingShape(16, dense=False), DENSE: RankingShape(24, dense=True)}
SMALL = {Ranking("race", "forever", f"team:{n}"): RankingShape(16, dense=False) for n in range(300)}


def key(*parts: int) -> bytes:
    return b"".join(part.to_bytes(8, "big") for part in parts)


async def source_of(many: int) -> NativeIndex:
    """Return an index with rankings of every kind, of players with ids of every kind."""
    dice, index = random.Random(many), NativeIndex()
    ids = [f"игрок-{n}" if n % 5 == 0 else f"player-{n:09}" for n in range(many)]
    moves = [Move(FOREVER, id, key(dice.randrange(50), n)) for n, id in enumerate(ids)]
    moves += [
        Move(DENSE, id, key(dice.randrange(3), n // 1500, n), b"\xff%d" % n if n % 3 else None)
        for n, id in enumerate(ids)
    ]
    moves += [Move(team, ids[n], key(1, n)) for n, team in enumerate(SMALL) if n < many]
    await index.apply(moves, after=Position(0), through=Position(9), opened={**SHAPES, **SMALL})
    return index


@pytest.fixture
async def source() -> AsyncIterator[NativeIndex]:
    yield await source_of(5_000)


async def copied(index: RedisIndex, source: NativeIndex) -> RedisIndex:
    beside = await index.beside()
    async for _ in beside.fill(source):
        pass
    return beside


@each_spread
async def test_a_copy_is_the_same_and_goes_on_as_the_same(
    url_of: UrlOf, source: NativeIndex, partitions: int
) -> None:
    async with RedisIndex.open(url_of(partitions)) as index:
        beside = await copied(index, source)
        assert await beside.checkpoint() == 9
        assert await beside.digest() == source.digest()
        more = [Move(FOREVER, f"new-{n}", key(n % 60, 9_000 + n)) for n in range(1_000)]
        more += [Move(DENSE, f"player-{n:09}", None) for n in range(1, 200) if n % 5]
        more += [Move(DENSE, f"игрок-{n}", key(7, 7, 9_000 + n)) for n in range(0, 200, 5)]
        told = await beside.apply(more, after=Position(9), through=Position(10))
        assert told == await source.apply(more, after=Position(9), through=Position(10))
        assert await beside.digest() == source.digest()
        worst = b"\xff" * 24
        assert await beside.scores_below(DENSE, worst) == await source.scores_below(DENSE, worst)


@each_spread
async def test_a_call_that_is_made_again_counts_nobody_twice(
    url_of: UrlOf, source: NativeIndex, partitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = Partitions.fill

    async def twice(self: Partitions, partition: int, packed: ScriptArgs) -> None:
        await once(self, partition, packed)
        await once(self, partition, packed)

    monkeypatch.setattr(Partitions, "fill", twice)
    async with RedisIndex.open(url_of(partitions)) as index:
        beside = await copied(index, source)
        assert await beside.digest() == source.digest()
        everybody = source.read_now(DENSE, first=Rank(1), limit=5_000).players
        leaving = [Move(DENSE, player, None) for player in everybody]
        await beside.apply(leaving, after=Position(9), through=Position(10))
        assert await beside.scores_below(DENSE, b"\xff" * 24) == 0


async def test_buckets_are_as_many_as_folding_would_make(
    server: RedisServer, url_of: UrlOf, source: NativeIndex
) -> None:
    async with RedisIndex.open(url_of(1)) as index:
        beside = await copied(index, source)
        tag = f"{{{index._link.address.prefix}:{beside._filling.generation.id}:0}}b"
        names = [name for name in say(server, "KEYS", "*").splitlines() if name.startswith(tag)]
        assert len(names) == 2 * -(-5_000 // writes.PLAYERS_PER_BUCKET) + len(SMALL)
        encodings = {say(server, "OBJECT", "ENCODING", name) for name in names}
        assert encodings <= {"listpack", "ziplist"}


@each_spread
async def test_small_rankings_share_calls(url_of: UrlOf, partitions: int) -> None:
    async with RedisIndex.open(url_of(partitions)) as index:
        source = await source_of(300)
        calls = index._link.calls
        await copied(index, source)
        assert index._link.calls - calls < len(SMALL) // 5


async def test_what_is_being_filled_is_not_swept_and_what_is_swept_is_not_filled(
    url_of: UrlOf, source: NativeIndex
) -> None:
    async with RedisIndex.open(url_of(1)) as index:
        beside = await index.beside()
        filling = aiter(beside.fill(source))
        for _ in range(3):
            await anext(filling)
            assert await index.sweep() == 0, "it is not where it was"
        assert await index.sweep(at_once=True) == 1
        with pytest.raises(IndexUnavailable, match="begin again"):
            async for _ in filling:
                pass


async def test_one_node_at_a_time_says_that_it_fills(url_of: UrlOf) -> None:
    async with AsyncExitStack() as stack:
        one, two = [await stack.enter_async_context(RedisIndex.open(url_of(1))) for _ in range(2)]
        assert await one.claim(seconds=30)
        assert await one.claim(seconds=30), "it may say so again"
        assert not await two.claim(seconds=30)
        await two.release()
        assert not await two.claim(seconds=30), "only who said so takes it back"
        await one.release()
        assert await two.claim(seconds=0.001)
        for _ in range(1_000):
            if await one.claim(seconds=30):
                break
        else:
            pytest.fail("who does not say so again is not waited for")

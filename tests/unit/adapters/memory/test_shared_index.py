"""The shared index in memory: what is left of rebuilds, claims, and a memory that was emptied."""

import asyncio

import pytest

from rankd.adapters.memory.shared_index import MemorySharedIndex, SharedMemory
from rankd.errors import IndexForgot, IndexUnavailable
from rankd.model.facts import Position
from rankd.model.standing import Rank
from rankd.ports import DRAFT, Move, Ranked, Ranking, RankingShape

pytestmark = pytest.mark.anyio
FOREVER = Ranking("arena", "all")
PREPARED = Ranking(f"{DRAFT}1:arena", "all")
SHAPE = {FOREVER: RankingShape(16, dense=False)}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def fold(index: MemorySharedIndex, player: str) -> None:
    after = await index.checkpoint()
    moves = [Move(FOREVER, player, bytes(16))]
    assert await index.apply(moves, after=after, through=Position(after + 1), opened=SHAPE)


async def test_nodes_see_one_index_until_it_is_emptied() -> None:
    memory = SharedMemory()
    one, two = MemorySharedIndex(memory), MemorySharedIndex(memory)
    await fold(one, "ann")
    assert await two.checkpoint() == 1
    assert await two.belongs("ledger")
    memory.empty()
    assert [await each.checkpoint() for each in (one, two)] == [0, 0]
    assert await one.belongs("another")


async def test_drafts_of_two_nodes_with_one_name_are_apart() -> None:
    memory = SharedMemory()
    one, two = MemorySharedIndex(memory), MemorySharedIndex(memory)
    for index, player in ((one, "ann"), (two, "bob")):
        await index.stage(
            [Move(PREPARED, player, bytes(16))], opened={PREPARED: RankingShape(16, dense=False)}
        )
    for index, player in ((one, "ann"), (two, "bob")):
        page = await index.read(PREPARED, first=Rank(1), limit=9)
        assert [entry.player for entry in page.entries] == [player]
        assert await index.rankings(PREPARED.board) == [PREPARED]
    assert not await one.rankings("arena")


async def test_a_draft_is_gone_with_the_index_it_was_staged_in() -> None:
    memory = SharedMemory()
    index = MemorySharedIndex(memory)
    await index.stage([], opened={PREPARED: RankingShape(16, dense=False)})
    memory.empty()
    with pytest.raises(IndexUnavailable, match="a draft is gone"):
        await index.stage([Move(PREPARED, "ann", bytes(16))])
    with pytest.raises(IndexForgot):
        await index.apply([], after=Position(0), through=Position(1), adopted={PREPARED: FOREVER})


async def test_one_node_claims_a_rebuild_until_its_time_is_over() -> None:
    memory = SharedMemory()
    one, two = MemorySharedIndex(memory), MemorySharedIndex(memory)
    assert await one.claim(seconds=60)
    assert await one.claim(seconds=60)
    assert not await two.claim(seconds=60)
    await two.release()
    assert not await two.claim(seconds=60), "another node cannot give it up"
    await one.release()
    assert await two.claim(seconds=0.0)
    assert await one.claim(seconds=60), "a claim ends by itself"


async def test_a_sweep_drops_what_has_not_grown_since_the_last_one() -> None:
    index = MemorySharedIndex(SharedMemory())
    left, growing = await index.beside(), await index.beside()
    assert await index.sweep() == 0
    await fold(growing, "ann")
    assert await index.sweep() == 1
    with pytest.raises(IndexUnavailable, match="begin again"):
        await left.checkpoint()
    assert await growing.checkpoint() == 1
    assert await index.sweep(at_once=True) == 1
    with pytest.raises(IndexUnavailable):
        await growing.take_over()


async def test_of_two_rebuilds_the_second_is_dropped() -> None:
    index = MemorySharedIndex(SharedMemory())
    first, second = await index.beside(), await index.beside()
    await fold(first, "ann")
    assert await first.take_over()
    assert not await second.take_over()
    assert await index.checkpoint() == await second.checkpoint() == 1
    assert not index.memory.beside


async def test_a_rank_is_told_later_in_the_same_loop() -> None:
    index = MemorySharedIndex(SharedMemory())
    await fold(index, "ann")
    told: list[Ranked | None] = []
    for player in ("ann", "bob"):
        assert index.ask_rank(FOREVER, player, told.append)
    assert not told
    await asyncio.sleep(0)
    assert [None if one is None else one.rank for one in told] == [1, None]
    beside = await index.beside()
    await beside.drop()
    assert beside.ask_rank(FOREVER, "ann", told.append)
    await asyncio.sleep(0)
    assert told[-1] is None

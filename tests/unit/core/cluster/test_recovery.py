"""The index rebuild: lost entries are built here and copied."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from functools import partial
from itertools import count

import pytest
from tests.unit.core.doubles import NOON, SetClock, SharedLedger, bare

from rankd.adapters.memory.index import NativeIndex
from rankd.adapters.memory.shared_index import MemorySharedIndex, SharedMemory
from rankd.adapters.redis import RedisIndex
from rankd.core.assembly import running
from rankd.core.board_rebuild import BoardRebuild
from rankd.core.cluster import managers as cluster_managers
from rankd.core.cluster import shared_projector
from rankd.core.cluster.recovery import IndexRebuilder, SharedHome
from rankd.core.cluster.shared_projector import SharedProjector
from rankd.core.engine import Engine
from rankd.core.move_batch import MoveBatch
from rankd.core.receipts import ReceiptBuffer
from rankd.core.recovery import IndexHome, folded
from rankd.core.window_schedule import windows_at
from rankd.errors import IndexUnavailable
from rankd.model.board import Board
from rankd.model.facts import BoardDefined
from rankd.model.submission import read_facts
from rankd.ports import Progress, Ranking, SharedIndex
from rankd.testing.redis_servers import say
from rankd.testing.servers import RedisServer, redis_server

pytestmark = [pytest.mark.anyio, pytest.mark.servers]
each_way = pytest.mark.parametrize("spare", [False, True], ids=["from-the-ledger", "from-its-copy"])

BOARD = {"windows": ["all", "daily"], "segments": ["region"], "ties": "dense"}
_prefixes = count(1)


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with redis_server() as running_server:
        yield running_server


@pytest.fixture(autouse=True)
def _little_is_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_projector, "FOLDED_IN_FACTS", 50)


@pytest.fixture
def memory() -> SharedMemory:
    return SharedMemory()


def node(
    ledger: SharedLedger,
    place: SharedMemory | SharedIndex,
    *,
    spare: bool = False,
    entries_max: int = 10_000,
) -> AbstractAsyncContextManager[Engine]:
    """Return a node over an index, or over one of its own in a memory."""
    index = MemorySharedIndex(place) if isinstance(place, SharedMemory) else place
    return running(
        ledger=ledger,
        build=bare,
        clock=SetClock(),
        reading=nullcontext(),
        shared=SharedHome(index, spare=spare, filled_entries_max=entries_max),
    )


def joint_of(rankd: Engine) -> SharedProjector:
    assert isinstance(rankd.projector, SharedProjector)
    return rankd.projector


async def play(rankd: Engine, *, first: int, many: int) -> None:
    """Have scores submitted, each with a key, and say something of some players."""
    for at in range(first, first + many, 100):
        items = [
            {"player": f"p{n % 150}", "score": (n * 37) % 90, "key": f"k{n}"}
            for n in range(at, min(at + 100, first + many))
        ]
        await rankd.submit("b", items)
        await rankd.profile(f"p{at % 150}", {"attributes": {"region": "eu"}})


async def expect_what_the_ledger_says(rankd: Engine, ledger: SharedLedger) -> None:
    scratch = folded(ledger, IndexHome(NativeIndex(), None))
    await scratch.catch_up(through=await ledger.head())
    shared = joint_of(rankd).shared
    assert await shared.checkpoint() == scratch.checkpoint
    assert isinstance(scratch.index, NativeIndex)
    if isinstance(shared, RedisIndex):
        assert await shared.digest() == scratch.index.digest()
    else:
        assert isinstance(shared, MemorySharedIndex)
        assert shared.digest() == scratch.index.digest()


async def eventually(true: Callable[[], object]) -> None:
    for _ in range(2_000):
        if true():
            return
        await asyncio.sleep(0.01)
    pytest.fail("it never came true")


async def until_mended(rankd: Engine) -> None:
    shared_projector = joint_of(rankd)
    index = shared_projector.shared
    assert isinstance(index, MemorySharedIndex)
    await eventually(
        lambda: (
            index.generation.state.checkpoint == rankd.position and shared_projector.failure is None
        )
    )


class Counting:
    """Counts how many facts were folded into the index, and how often it was filled."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.copies = 0
        fill, apply = MemorySharedIndex.fill, MemorySharedIndex.apply
        self.applied: list[int] = []

        def filled(index: MemorySharedIndex, source: NativeIndex) -> AsyncIterator[Progress]:
            self.copies += 1
            return fill(index, source)

        async def applied(index: MemorySharedIndex, moves: object, **named: object) -> object:
            self.applied.append(int(named["through"]) - int(named["after"]))  # type: ignore[call-overload]
            return await apply(index, moves, **named)  # type: ignore[arg-type]

        monkeypatch.setattr(MemorySharedIndex, "fill", filled)
        monkeypatch.setattr(MemorySharedIndex, "apply", applied)


@each_way
async def test_an_emptied_index_is_filled_and_not_folded_fact_by_fact(
    memory: SharedMemory, spare: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = SharedLedger()
    async with node(ledger, memory, spare=spare) as rankd:
        await rankd.define("b", BOARD)
        await play(rankd, first=0, many=300)
        counting = Counting(monkeypatch)
        memory.empty()
        writing = asyncio.create_task(play(rankd, first=300, many=60))
        await until_mended(rankd)
        await writing
        assert counting.copies == 1
        await play(rankd, first=360, many=10)
        await expect_what_the_ledger_says(rankd, ledger)
        await expect_its_copy(rankd)


async def expect_its_copy(rankd: Engine) -> None:
    """A copy of its own that stood still meanwhile has gone on."""
    spare = joint_of(rankd).spare
    if spare is not None:
        assert spare.checkpoint == rankd.position
        assert not joint_of(rankd).spare_waits


@each_way
async def test_every_key_still_has_its_receipt(memory: SharedMemory, spare: bool) -> None:
    ledger = SharedLedger()
    async with node(ledger, memory, spare=spare) as rankd:
        await rankd.define("b", BOARD)
        await play(rankd, first=0, many=100)
        memory.empty()
        await play(rankd, first=100, many=100)  # Some of them while the index is gone.
        await until_mended(rankd) if joint_of(rankd).failure else None
        await asyncio.sleep(2 * cluster_managers.MEND_SECONDS)
        for n in range(200):
            body = {"player": f"p{n % 150}", "score": (n * 37) % 90, "key": f"k{n}"}
            (answer,) = await rankd.submit("b", [body])
            assert answer.duplicate
            assert answer.receipt is not None, f"k{n} has none"


async def test_a_rebuild_stores_receipts_before_there_is_no_room_for_more(
    memory: SharedMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "rankd.core.cluster.recovery.ReceiptBuffer", partial(ReceiptBuffer, others_max=100)
    )
    monkeypatch.setattr("rankd.core.cluster.recovery.FOLDED_TOGETHER", 30)
    ledger = SharedLedger()
    async with node(ledger, SharedMemory()) as rankd:
        await rankd.define("b", BOARD)
        board = rankd.state.page("b").board
    items = [{"player": f"p{n}", "score": n, "key": f"k{n}"} for n in range(400)]
    appended = await ledger.append(read_facts(board, items), now=NOON)  # Its node died.
    async with node(ledger, memory) as rankd:
        lacking = await ledger.lacking_receipts(appended.positions)
        assert 0 < len(lacking) <= 100
        assert set(lacking) <= {position for position, _ in joint_of(rankd).receipts}


@each_way
async def test_a_node_that_starts_over_an_empty_index_fills_it(
    memory: SharedMemory, spare: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = SharedLedger()
    async with node(ledger, memory) as rankd:
        await rankd.define("b", BOARD)
        await play(rankd, first=0, many=300)
    memory.empty()
    counting = Counting(monkeypatch)
    async with node(ledger, memory, spare=spare) as rankd:
        assert counting.copies == 1
        assert rankd.failure is None
        await expect_what_the_ledger_says(rankd, ledger)


async def test_little_is_folded_in(memory: SharedMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = SharedLedger()
    async with node(ledger, memory) as rankd:
        await rankd.define("b", BOARD)
        await play(rankd, first=0, many=300)
        counting = Counting(monkeypatch)
        async with node(ledger, memory) as other:
            joint_of(other).leave("as if it were out of reach")
            await play(other, first=300, many=20)
            await until_mended(other)
        assert counting.copies == 0
        await expect_what_the_ledger_says(rankd, ledger)


async def test_of_several_nodes_one_fills_and_the_others_wait(
    memory: SharedMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "rankd.core.cluster.recovery.CLAIM_SECONDS", 60.0
    )  # Whatever the machine does.
    ledger = SharedLedger()
    async with AsyncExitStack() as stack:
        nodes = [await stack.enter_async_context(node(ledger, memory)) for _ in range(3)]
        await nodes[0].define("b", BOARD)
        await play(nodes[0], first=0, many=300)
        counting = Counting(monkeypatch)
        memory.empty()
        await until_mended(nodes[0])
        await eventually(lambda: not any(joint_of(each).failure for each in nodes))
        await play(nodes[1], first=300, many=10)
        assert counting.copies == 1
        await expect_what_the_ledger_says(nodes[2], ledger)


async def test_what_is_too_large_for_a_node_is_folded_in_and_told(
    memory: SharedMemory,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    ledger = SharedLedger()
    async with node(ledger, memory, entries_max=100) as rankd:
        await rankd.define("b", BOARD)
        await play(rankd, first=0, many=300)
        counting = Counting(monkeypatch)
        memory.empty()
        with caplog.at_level(logging.WARNING):
            await until_mended(rankd)
        assert counting.copies == 0
        assert "more than 100 entries: what it lacks is folded in" in caplog.text
        await expect_what_the_ledger_says(rankd, ledger)


@each_way
async def test_an_index_is_made_anew_while_nodes_serve(server: RedisServer, spare: bool) -> None:
    """Also over another number of partitions; what was there before is gone."""
    ledger, url = SharedLedger(), f"{server.url}?prefix=f{next(_prefixes)}&timeout=30"
    async with (
        RedisIndex.open(url) as shared,
        RedisIndex.open(f"{url}&partitions=3") as parted,
        node(ledger, shared) as serving,
        node(ledger, parted, spare=spare) as new,
    ):
        await serving.define("b", BOARD)
        await play(serving, first=0, many=300)
        stages: list[str] = []
        keys_before = set(say(server, "KEYS", "*").splitlines())

        async def rebuild() -> None:
            stages.extend([progress.stage async for progress in new.rebuild()])

        await asyncio.gather(rebuild(), play(serving, first=300, many=200))
        assert stages[0] == "folding"
        assert "copying" in stages
        await play(serving, first=500, many=10)
        await eventually(lambda: joint_of(serving).failure is None)
        assert shared._filling.count == 3
        await expect_what_the_ledger_says(serving, ledger)
        prefix = shared._link.address.prefix
        left = keys_before & set(say(server, "KEYS", "*").splitlines())
        assert not [name for name in left if name.startswith(f"{{{prefix}:")]


async def test_what_came_while_it_was_filled_is_in_it_when_it_takes_the_place(
    memory: SharedMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, fill = SharedLedger(), MemorySharedIndex.fill
    async with node(ledger, memory) as rankd:
        await rankd.define("b", BOARD)
        await play(rankd, first=0, many=300)

        async def slowly(index: MemorySharedIndex, source: NativeIndex) -> AsyncIterator[Progress]:
            async for progress in fill(index, source):
                yield progress
            await play(rankd, first=300, many=20)

        monkeypatch.setattr(MemorySharedIndex, "fill", slowly)
        async for _ in rankd.rebuild():
            pass
        assert joint_of(rankd).failure is None
        await expect_what_the_ledger_says(rankd, ledger)


async def test_a_draft_that_went_with_the_index_before_is_not_taken_for_an_empty_one(
    memory: SharedMemory,
) -> None:
    ledger = SharedLedger()
    async with node(ledger, memory) as rankd:
        await rankd.define("b", BOARD)
        await play(rankd, first=0, many=100)
        page, board = rankd.state.page("b"), Board.define("b", {**BOARD, "direction": "lower"})
        draft = BoardRebuild(ledger, joint_of(rankd).shared, page, board, state=rankd.state)
        await draft.catch_up(through=rankd.position)
        async for _ in rankd.rebuild():
            pass
        fact = BoardDefined("b", board.definition(), None, windows_at(page, board, NOON))
        with pytest.raises(IndexUnavailable, match="a draft is gone"):
            await draft.adopt(MoveBatch(), fact, NOON)
        joint_of(rankd).drafts["b"] = draft
        await rankd.redefine("b", board.definition())
        await eventually(lambda: joint_of(rankd).failure is None)
        await expect_what_the_ledger_says(rankd, ledger)


async def test_a_draft_that_goes_while_it_is_compared_drops_no_scores(
    memory: SharedMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = SharedLedger()
    async with node(ledger, memory) as rankd:
        await rankd.define("b", BOARD)
        await play(rankd, first=0, many=100)
        page, board = rankd.state.page("b"), Board.define("b", {**BOARD, "direction": "lower"})
        index = joint_of(rankd).shared
        draft = BoardRebuild(ledger, index, page, board, state=rankd.state)
        await draft.catch_up(through=rankd.position)
        assert not await draft.dropped_windows(page)
        count = index.count

        async def count_and_lose(ranking: Ranking) -> int:
            counted = await count(ranking)
            memory.empty()
            return counted

        monkeypatch.setattr(index, "count", count_and_lose)
        with pytest.raises(IndexUnavailable, match="a draft is gone"):
            await draft.dropped_windows(page)


async def test_a_rebuild_that_comes_second_is_told(memory: SharedMemory) -> None:
    ledger = SharedLedger()
    another = MemorySharedIndex(memory)
    async with node(ledger, memory) as rankd:
        await rankd.define("b", BOARD)
        for _ in range(100):  # It tidies up once, at first.
            if await another.claim(seconds=30):
                break
            await asyncio.sleep(0.01)
        with pytest.raises(IndexUnavailable, match="another node fills"):
            async for _ in rankd.rebuild():
                pass


async def test_what_a_node_left_behind_is_swept_by_the_next(memory: SharedMemory) -> None:
    ledger = SharedLedger()
    async with node(ledger, memory) as rankd:
        await rankd.define("b", BOARD)
        await joint_of(rankd).shared.beside()
        assert memory.beside
    async with node(ledger, memory):
        await eventually(lambda: not memory.beside)


async def test_a_claim_is_kept_up_while_it_is_needed(
    memory: SharedMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rankd.core.cluster.recovery.CLAIM_SECONDS", 1.0)
    monkeypatch.setattr(cluster_managers, "MEND_SECONDS", 3_600)  # Neither tidies up meanwhile.
    ledger = SharedLedger()
    async with node(ledger, memory) as one, node(ledger, memory) as two:
        rebuilder = one.rebuilder
        assert isinstance(rebuilder, IndexRebuilder)
        async with rebuilder._alone, rebuilder._claimed():
            for _ in range(6):
                await asyncio.sleep(0.25)
                assert not await joint_of(two).shared.claim(seconds=0.2)
        assert await joint_of(two).shared.claim(seconds=0.2)


async def test_a_book_is_copied_whole() -> None:
    """Nothing that is noted in one of the two is in the other."""
    ledger = SharedLedger()
    async with running(ledger=ledger, build=bare, clock=SetClock(), reading=nullcontext()) as rankd:
        await rankd.define("b", BOARD)
        copied = rankd.state.copy()
        await rankd.profile("ann", {"name": "Ann", "friends": ["bob"]})
        await rankd.redefine("b", {**BOARD, "windows": ["all"]})
        await rankd.define("c", {})
        assert list(copied.boards) == ["b"]
        assert list(copied.boards["b"].windows) == ["all", "daily"]
        assert not copied.profiles

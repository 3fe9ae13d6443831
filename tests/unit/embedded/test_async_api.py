"""The engine over an index across a network: reads say the same, and have to be waited for.

An index in this process that gives way to others whenever it is asked stands for such a one.
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partialmethod
from pathlib import Path
from typing import Any, ClassVar

import pytest

import rankd
from rankd.adapters.memory.index import NativeIndex
from rankd.bootstrap import EngineConfig
from rankd.core.reader import Page
from rankd.embedded import AsyncRanks, RemoteBoard, RemoteRanks
from rankd.errors import BoardDiffers, LedgerUnavailable, NotRanked, UnknownBoard

pytestmark = pytest.mark.anyio


class Distant(NativeIndex):
    """An index whose answers take a turn of the loop."""

    immediate: ClassVar[bool] = False

    async def _later(self, name: str, *args: Any, **named: Any) -> Any:
        await asyncio.sleep(0)
        return await getattr(NativeIndex, name)(self, *args, **named)


for _name in ("checkpoint", "count", "count_below", "rank", "ranks", "read", "scores_below"):
    setattr(Distant, _name, partialmethod(Distant._later, _name))


@pytest.fixture
def expected(tmp_path: Path) -> dict[str, Any]:
    """What an engine with its index in this process answers, in a folder that it leaves."""
    with rankd.open(tmp_path) as ranks:
        board = ranks.board("arena", rule="sum")
        board.submit_many([("ann", 9), ("bob", 7), ("cyd", 5)])
        ranks.set_friends("cyd", ["ann"])
        return {name: read() for name, read in reads_of(board, ranks).items()}


@pytest.fixture
def distant(monkeypatch: pytest.MonkeyPatch, expected: dict[str, Any]) -> None:
    monkeypatch.setattr("rankd.bootstrap.NativeIndex", Distant)


def reads_of(board: Any, ranks: Any) -> dict[str, Callable[[], Any]]:
    return {
        "top": lambda: board.top(2),
        "page": lambda: board.page(limit=2, from_rank=2),
        "standing": lambda: board.standing("bob"),
        "standing of nobody": lambda: board.standing("nobody"),
        "ranks": lambda: board.ranks(["cyd", "nobody"]),
        "around": lambda: board.around("bob", above=1, below=1),
        "around_rank": lambda: board.around_rank(2, reach=1),
        "lookup": lambda: board.lookup(["cyd", "nobody", "ann"]),
        "friends": lambda: board.friends("cyd"),
        "rank_for": lambda: board.rank_for(8),
        "score_for": lambda: board.score_for(percentile=50),
        "windows": lambda: board.windows(),
        "boards": lambda: ranks.boards(),
        "standings": lambda: ranks.standings("ann"),
    }


def same(answer: Any, expected: Any) -> bool:
    """Whether two answers say the same; a page of another index has its columns in other forms."""
    if isinstance(answer, Page):
        return (answer[:], answer.prev_cursor) == (expected[:], expected.prev_cursor)
    return bool(answer == expected)


@pytest.mark.usefixtures("distant")
async def test_every_read_is_awaited_and_says_the_same(
    tmp_path: Path, expected: dict[str, Any]
) -> None:
    async with rankd.aopen(EngineConfig.of(tmp_path)) as ranks:
        assert isinstance(ranks, RemoteRanks)
        board = await ranks.board("arena", rule="sum")
        assert isinstance(board, RemoteBoard)
        for name, read in reads_of(board, ranks).items():
            asked = read()
            assert isinstance(asked, Coroutine), name
            assert same(await asked, expected[name]), name
        before = await board.page(cursor=expected["page"].prev_cursor)
        assert [each.player for each in before] == ["ann"]
        with pytest.raises(NotRanked):
            await board.around("nobody")
        assert (await board.submit("cyd", delta=9)).rank == 1


@pytest.mark.usefixtures("distant")
def test_without_an_event_loop_reads_wait_by_themselves(
    tmp_path: Path, expected: dict[str, Any]
) -> None:
    with rankd.open(tmp_path) as ranks:
        board = ranks.board("arena")
        for name, read in reads_of(board, ranks).items():
            assert same(read(), expected[name]), name
        with pytest.raises(NotRanked):
            board.around("nobody")
    with pytest.raises(LedgerUnavailable, match="closed"):
        board.top()


@pytest.mark.usefixtures("distant")
async def test_a_board_need_not_be_awaited_here_either(tmp_path: Path) -> None:
    async with rankd.aopen(EngineConfig.of(tmp_path)) as ranks:
        assert isinstance(ranks, RemoteRanks)
        board = ranks.board("new", rule="sum")
        with pytest.raises(UnknownBoard):
            await board.top()
        assert (await board.submit("ann", 3)).rank == 1
        assert [each.score for each in await board.top()] == [3]
        with pytest.raises(BoardDiffers):
            await ranks.board("new", rule="best").top()
    with pytest.raises(LedgerUnavailable, match="closed"):
        await board.top()


async def test_a_place_with_an_index_in_this_process_is_read_at_once(tmp_path: Path) -> None:
    async with rankd.aopen(EngineConfig.of(tmp_path)) as ranks:
        assert isinstance(ranks, AsyncRanks)
        assert ranks.boards() == []

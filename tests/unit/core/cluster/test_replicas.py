"""Replicas answer for the boards that may be read from them, and for nothing they cannot know."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import pytest
from tests.unit.core.doubles import FaultyLedger, engine

from rankd.adapters.memory.index import NativeIndex
from rankd.core.cluster.replicas import EVERY_BOARD, ReplicaReader, Replicas
from rankd.core.engine import Engine
from rankd.core.recovery import IndexHome, folded
from rankd.errors import IndexUnavailable, NotRanked

pytestmark = pytest.mark.anyio
BOARD: Mapping[str, object] = {"rule": "best", "windows": ["all"]}


class Copy(NativeIndex):
    """An index that is somewhere else, and may be out of reach."""

    immediate: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.failing = False

    async def _ask(self) -> None:
        self.asked += 1
        if self.failing:
            raise IndexUnavailable("injected")

    async def rank(self, *args: Any, **named: Any) -> Any:
        await self._ask()
        return await super().rank(*args, **named)

    async def read(self, *args: Any, **named: Any) -> Any:
        await self._ask()
        return await super().read(*args, **named)


@asynccontextmanager
async def behind(*boards: str) -> AsyncIterator[tuple[Engine, Copy]]:
    """Run an engine whose copy has what was submitted for ann, and not what came for bob."""
    ledger, copy = FaultyLedger(), Copy()
    async with engine(ledger) as rankd:
        for name in ("b", "other"):
            await rankd.define(name, BOARD)
            await rankd.submit(name, [{"player": "ann", "score": 10}])
        await folded(ledger, IndexHome(copy, None)).catch_up(through=await ledger.head())
        rankd.replicas = Replicas(copy, boards)
        await rankd.submit("b", [{"player": "bob", "score": 20}])
        yield rankd, copy


async def players(rankd: Engine, board: str = "b", least: int | None = None) -> list[str]:
    page = await rankd.reader_of(board, least).page(board)
    return list(page.players)


async def test_only_boards_that_may_be_are_read_from_replicas() -> None:
    async with behind("b") as (rankd, _):
        assert await players(rankd) == ["ann"]
        assert rankd.reader_of("other") is rankd.reader
        assert rankd.reader_of("unknown") is rankd.reader
        rankd.replicas = Replicas(rankd.replicas.index, [EVERY_BOARD])  # type: ignore[union-attr]
        assert isinstance(rankd.reader_of("other"), ReplicaReader)
        assert rankd.reader_of("unknown") is rankd.reader
        rankd.replicas = None
        assert await players(rankd) == ["bob", "ann"]


async def test_who_asks_for_a_position_is_answered_where_is_written() -> None:
    async with behind("b") as (rankd, copy):
        assert await players(rankd, least=rankd.position) == ["bob", "ann"]
        assert copy.asked == 0


async def test_nobody_is_called_absent_by_a_copy() -> None:
    async with behind("b") as (rankd, copy):
        standing = await rankd.reader_of("b").standing("b", "bob")
        assert standing is not None and (standing.rank, standing.as_of) == (1, rankd.position)
        page = await rankd.reader_of("b").around("b", "bob")
        assert list(page.players) == ["bob", "ann"]
        assert copy.asked == 2
        assert await rankd.reader_of("b").standing("b", "carl") is None
        with pytest.raises(NotRanked):
            await rankd.reader_of("b").around("b", "carl")


async def test_a_copy_answers_as_of_where_it_is() -> None:
    async with behind("b") as (rankd, copy):
        here = await copy.checkpoint()
        standing = await rankd.reader_of("b").standing("b", "ann")
        assert standing is not None
        assert (standing.rank, standing.total, standing.as_of) == (1, 1, here)
        page = await rankd.reader_of("b").around("b", "ann")
        assert (list(page.players), page.as_of) == (["ann"], here)


async def test_entries_are_not_explained_by_a_definition_that_came_later() -> None:
    async with behind("b") as (rankd, copy):
        await rankd.redefine("b", {**BOARD, "direction": "lower"})
        assert await players(rankd) == ["ann", "bob"]
        standing = await rankd.reader_of("b").standing("b", "ann")
        assert standing is not None and (standing.rank, standing.scores) == (1, (10,))
        assert copy.asked == 2


async def test_replicas_that_do_not_answer_are_left_alone_for_a_while() -> None:
    async with behind("b") as (rankd, copy):
        copy.failing = True
        assert await players(rankd) == ["bob", "ann"]
        assert copy.asked == 1
        for _ in range(3):
            assert await players(rankd) == ["bob", "ann"]
        assert copy.asked == 1 and isinstance(rankd.replicas, Replicas)
        rankd.replicas._rests_until = 0.0  # So much later.
        copy.failing = False
        assert await players(rankd) == ["ann"]


async def test_a_copy_from_before_a_ban_does_not_answer() -> None:
    async with behind("b") as (rankd, copy):
        await rankd.corrections.set_player_state("ann", "banned", {"boards": ["elsewhere"]})
        assert await players(rankd) == ["bob", "ann"]
        await rankd.corrections.set_player_state("ann", "banned", {})
        assert await players(rankd) == ["bob"]
        assert copy.asked == 2

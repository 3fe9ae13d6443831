"""Waiting until reads are true at a position."""

import asyncio

import pytest
from tests.unit.core.doubles import FaultyLedger, engine

from rankd.adapters.memory.index import NativeIndex
from rankd.core.engine import Engine
from rankd.core.read_engine import ReadEngine
from rankd.errors import IndexBehind
from rankd.model.facts import Position

pytestmark = pytest.mark.anyio
PATIENCE_SECONDS = 60.0


async def submitted(rankd: Engine) -> Position:
    (answer,) = await rankd.submit("b", [{"player": "p", "score": 1}])
    return answer.position


async def test_what_is_reached_is_not_waited_for() -> None:
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {})
        for position in (0, rankd.position):
            await rankd.reached(Position(position), within_seconds=0.0)


async def test_what_is_not_reached_in_time_is_told_with_how_far_it_is() -> None:
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {})
        with pytest.raises(IndexBehind) as behind:
            await rankd.reached(Position(99), within_seconds=0.001)
        assert (behind.value.position, behind.value.checkpoint) == (99, rankd.position)
        assert rankd.projector._awaited == {}, "whoever left is forgotten"


async def test_whoever_waits_is_told_though_the_index_is_replaced_meanwhile() -> None:
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {"rule": "sum"})
        wanted = Position(rankd.position + 1)
        waiting = asyncio.create_task(rankd.reached(wanted, within_seconds=PATIENCE_SECONDS))
        await asyncio.sleep(0)
        replaced = rankd.projector
        async for _ in rankd.rebuild():
            pass
        assert rankd.projector is not replaced
        assert not waiting.done()
        assert await submitted(rankd) == wanted
        await waiting


async def test_a_view_without_a_writer_has_nothing_waiting_and_no_complaint() -> None:
    async with engine(FaultyLedger()) as rankd:
        view = ReadEngine(rankd.projector, rankd.reader._clock, FaultyLedger(), NativeIndex)
        assert (view.position, view.state) == (rankd.position, rankd.state)
        assert view.immediate, "as the index in this process is"
        assert (view.failure, view.waiting, view.commits, view.unsaved) == (None, 0, 0, 0)

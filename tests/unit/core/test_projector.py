"""The projector: in order, each fact once, and whoever waits for a position is told."""

import asyncio

import pytest
from tests.unit.core.doubles import FaultyLedger, engine, facts_of, state_of

from rankd.adapters.memory.index import NativeIndex
from rankd.core import projector as module
from rankd.core.board_rebuild import BoardRebuild
from rankd.core.engine import Engine
from rankd.core.projector import Projector
from rankd.core.state import State
from rankd.errors import IndexBehind
from rankd.model.board import Board
from rankd.model.facts import Position

pytestmark = pytest.mark.anyio
HOURS = 3_600.0
"""So long that only being told ends the wait."""


async def filled(ledger: FaultyLedger, count: int = 20) -> None:
    async with engine(ledger) as rankd:
        await rankd.define("b", {"rule": "sum", "windows": ["all"]})
        for number in range(count):
            body = {"player": f"p{number % 3}", "score": 1, "key": f"k{number}"}
            await rankd.submit("b", [body])


def fresh(ledger: FaultyLedger) -> Projector:
    return Projector(ledger=ledger, index=NativeIndex(), state=State())


async def test_catching_up_ends_at_the_position_asked_for() -> None:
    ledger = FaultyLedger()
    await filled(ledger)
    projector = fresh(ledger)
    for through in (1, 7, 7, 21):
        await projector.catch_up(through=Position(through))
        assert projector.checkpoint == await projector.index.checkpoint() == through
    await projector.catch_up(through=Position(1_000))  # As far as there is anything.
    assert projector.checkpoint == 21


async def test_catching_up_in_steps_of_any_size_comes_to_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ledger = FaultyLedger()
    await filled(ledger)
    states = []
    unstored: list[dict[Position, bytes]] = []
    for together in (1, 3, 1_000):
        monkeypatch.setattr(module, "FACTS_TOGETHER_MAX", together)
        projector = fresh(ledger)
        unstored.append({})
        await projector.catch_up(
            through=Position(21), receipts_after=Position(15), collect=unstored[-1].update
        )
        states.append(state_of(projector))
    assert states[0] == states[1] == states[2]
    assert unstored[0] == unstored[1] == unstored[2]
    assert list(unstored[0]) == list(range(16, 22))


async def test_a_draft_for_a_later_definition_is_left_alone() -> None:
    """A node may prepare a definition while its index has yet to be folded up to another one."""
    ledger = FaultyLedger()
    async with engine(ledger) as rankd:
        for rule in ("sum", "best", "latest"):
            await (rankd.redefine if rankd.state.boards else rankd.define)(
                "b", {"rule": rule, "windows": ["all"]}
            )
            await rankd.submit("b", [{"player": "ann", "score": 1}] * 2)
    projector = fresh(ledger)
    await projector.catch_up(through=Position(3))
    for prepared in (5, 6):
        page = projector.state.boards["b"]
        board = Board.define("b", {"rule": "latest", "windows": ["all"]})
        draft = BoardRebuild(ledger, projector.index, page, board, state=projector.state)
        await draft.catch_up(through=Position(prepared))
        projector.drafts["b"] = draft
        await projector.catch_up(through=Position(prepared))
        assert projector.drafts["b"] is draft
    await projector.catch_up(through=Position(9))
    assert not projector.drafts, "this one is for it"
    whole = fresh(ledger)
    await whole.catch_up(through=Position(9))
    assert await projector.index.shapes() == await whole.index.shapes()


async def test_facts_out_of_turn_are_a_mistake() -> None:
    ledger = FaultyLedger()
    await filled(ledger)
    facts = await facts_of(ledger)
    projector = fresh(ledger)
    await projector.fold(facts[:5])
    other = Projector(ledger=ledger, index=projector.index, state=projector.state)
    with pytest.raises(AssertionError, match="this index knows how it is at 5"):
        await other.fold(facts[:5])
    assert await projector.index.checkpoint() == 5


async def wait_for(rankd: Engine, position: int) -> "asyncio.Task[None]":
    waiting = asyncio.create_task(rankd.reached(Position(position), within_seconds=HOURS))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not waiting.done()
    return waiting


async def test_whoever_waits_for_a_position_is_told_when_it_is_folded() -> None:
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {"rule": "sum", "windows": ["all"]})
        await rankd.reached(Position(1), within_seconds=0)
        soon, later = await wait_for(rankd, 2), await wait_for(rankd, 3)
        await rankd.submit("b", [{"player": "p", "score": 1}])
        await soon
        assert not later.done()
        await rankd.submit("b", [{"player": "p", "score": 1}])
        await later


async def test_whoever_waited_too_long_is_told_and_forgotten() -> None:
    async with engine(FaultyLedger()) as rankd:
        for _ in range(100):
            with pytest.raises(IndexBehind):
                await rankd.reached(Position(1), within_seconds=0)
        assert not rankd.projector._awaited


async def test_whoever_waits_is_told_although_the_index_was_rebuilt_meanwhile() -> None:
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {"rule": "sum", "windows": ["all"]})
        waiting = await wait_for(rankd, 2)
        async for _ in rankd.rebuild():
            pass
        await rankd.submit("b", [{"player": "p", "score": 1}])
        for _ in range(5):
            await asyncio.sleep(0)
        assert waiting.done()
        await waiting

"""What a player's history costs: the lines that run, for some corrections and for twice as many."""

import sys
from collections.abc import Callable, Iterable
from itertools import count
from types import FrameType
from typing import Any

import pytest
from tests.unit.core.callers import submit
from tests.unit.core.doubles import engine

from rankd.adapters.memory.ledger import MemoryLedger
from rankd.core.board_state import BoardState
from rankd.core.corrections import Retraction, RetractionFilter
from rankd.core.player_history import Corrections, FoldedFacts, PlayerHistory
from rankd.model.facts import Position, Recorded, ScoresRetracted, ScoreSubmitted

pytestmark = pytest.mark.anyio

SOME = 32
TOGETHER = 3
"""Submissions before each retraction."""
MEASURED = ("rankd/core/", "rankd/model/")


def lines_of(work: Callable[[], object]) -> int:
    """Return how many lines run in the core and in the model."""
    lines = 0

    def local(_frame: FrameType, event: str, _arg: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return local

    def trace(frame: FrameType, _event: str, _arg: Any) -> Any:
        measured = any(part in frame.f_code.co_filename for part in MEASURED)
        return local if measured else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return lines


Made = tuple[list[Recorded], list[Retraction]]
Retracts = Callable[[list[Recorded]], ScoresRetracted]


def in_turn(number: int, retracts: Retracts) -> Made:
    """Return submissions and as many retractions, each behind the submissions that it is of."""
    positions = map(Position, count(2))
    facts: list[Recorded] = []
    retractions: list[Retraction] = []
    for turn in range(number):
        some = [submitted(next(positions), score, f"build{turn}") for score in range(TOGETHER)]
        facts += some
        retractions.append(Retraction(next(positions), retracts(some)))
    return facts, retractions


def at_the_end(number: int, retracts: Retracts) -> Made:
    """Return submissions, and retractions behind all of them."""
    facts, before = in_turn(number, retracts)
    end = before[-1].position
    return facts, [one._replace(position=Position(end + n)) for n, one in enumerate(before)]


def taken_back(number: int, retracts: Retracts) -> Made:
    """Return submissions and retractions behind all of them, and each is taken back at once."""
    facts, before = at_the_end(number, retracts)
    places = [Position(before[0].position + 2 * n) for n in range(number)]
    several = zip(before, places, strict=True)
    return facts, [one._replace(position=at, undone=Position(at + 1)) for one, at in several]


def submitted(position: Position, score: int, build: str) -> Recorded:
    return Recorded(position, 0, ScoreSubmitted("b", "ann", scores=(score,), build=build))


def of_all(some: list[Recorded]) -> ScoresRetracted:
    return ScoresRetracted(player="ann")


def of_a_build(some: list[Recorded]) -> ScoresRetracted:
    build = some[0].fact.build  # type: ignore[attr-defined]
    return ScoresRetracted(build=build)


def of_a_range(some: list[Recorded]) -> ScoresRetracted:
    return ScoresRetracted(first=some[0].position, last=some[-1].position)


def of_positions(some: list[Recorded]) -> ScoresRetracted:
    return ScoresRetracted(board="b", positions=tuple(one.position for one in some))


EVERY = [
    *((in_turn, one) for one in (of_all, of_a_build, of_a_range, of_positions)),
    *((at_the_end, one) for one in (of_a_build, of_a_range, of_positions)),
    *((taken_back, one) for one in (of_a_build, of_a_range, of_positions)),
]


@pytest.mark.parametrize(("made", "retracts"), EVERY)
async def test_many_retractions_of_one_player_cost_what_they_select(
    made: Callable[[int, Retracts], Made], retracts: Retracts
) -> None:
    page = await board()

    def lines(number: int) -> int:
        facts, retractions = made(number, retracts)
        given = FoldedFacts("ann", facts, {}), Corrections(retractions, frozenset(), {})
        counted = set(map(PlayerHistory(page, *given).is_counted, (one.position for one in facts)))
        assert counted == {made is taken_back}
        return lines_of(lambda: PlayerHistory(page, *given))

    assert lines(2 * SOME) < 2.5 * lines(SOME)


@pytest.mark.parametrize("retracts", [of_all, of_a_build, of_a_range, of_positions])
def test_a_submission_is_not_compared_with_every_retraction(retracts: Retracts) -> None:
    def lines(number: int) -> int:
        facts, retractions = in_turn(number, retracts)
        retracted = RetractionFilter(retractions, "b")
        assert selected(retracted, facts) == [one.position for one in facts]
        return lines_of(lambda: selected(retracted, facts))

    assert lines(2 * SOME) < 2.5 * lines(SOME)


def selected(retracted: RetractionFilter, facts: Iterable[Recorded]) -> list[Position]:
    return [one.position for one in facts if retracted.selects(one)]


async def board() -> BoardState:
    """Return a board of best scores with windows of every kind."""
    async with engine(MemoryLedger()) as rankd:
        windows = ["all", "daily", {"name": "last7", "rolling": "7d"}]
        await rankd.define("b", {"rule": "best", "windows": windows})
        await submit(rankd, "ann", 1)
        return rankd.state.boards["b"]

"""The model of segments: what it says of few facts, and that an engine that differs is told."""

import pytest
from tests.simulation.segment_model import SegmentModel, wrong_segments
from tests.unit.core.doubles import FaultyLedger, engine, facts_of

from rankd.core.engine import Engine
from rankd.model.facts import PlayerErased, Position, Recorded

pytestmark = pytest.mark.anyio

BOARD = {"rule": "best", "windows": ["all"], "segments": ["region"]}


async def play(rankd: Engine) -> None:
    await rankd.define("b", BOARD)
    await rankd.submit("b", [{"player": "ann", "score": 2, "attributes": {"region": "eu"}}])
    await rankd.submit("b", [("bob", 2), ("cyd", 5), ("ann", 1), {"player": "bob", "delta": 1}])
    await rankd.profile("bob", {"attributes": {"region": "us"}})
    await rankd.submit("b", [{"player": "cyd", "score": 1, "attributes": {"region": "us"}}])
    await rankd.profile("ann", {"attributes": {"region": "asia"}})


async def test_the_model_knows_scores_and_segments() -> None:
    ledger = FaultyLedger()
    async with engine(ledger) as rankd:
        await play(rankd)
        facts = await facts_of(ledger)
        model = SegmentModel("b").read(facts)
        assert model.rankings("b") == {
            None: [("cyd", 5), ("bob", 3), ("ann", 2)],
            "region:us": [("cyd", 5), ("bob", 3)],
            "region:asia": [("ann", 2)],
        }
        assert await wrong_segments(rankd, facts, "b") == []


async def test_a_difference_is_told() -> None:
    ledger = FaultyLedger()
    async with engine(ledger) as rankd:
        await play(rankd)
        facts = await facts_of(ledger)
        forgotten = Recorded(Position(len(facts) + 1), 0, PlayerErased("bob"))
        assert await wrong_segments(rankd, [*facts, forgotten], "b") == ["b: region:us is wrong"]
        assert len(await wrong_segments(rankd, facts[:-1], "b")) == 1

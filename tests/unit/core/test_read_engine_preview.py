"""Previews: what would be shown is what is shown once it is so; looking changes nothing."""

import asyncio
from typing import Any

import pytest
from tests.unit.core.doubles import FaultyLedger, engine, state_of

pytestmark = pytest.mark.anyio
BOARD: dict[str, Any] = {"rule": "sum", "windows": ["all", "daily"]}
BEST: dict[str, Any] = {**BOARD, "rule": "best"}


async def test_a_preview_shows_what_redefining_would_do() -> None:
    ledger = FaultyLedger()
    async with engine(ledger) as rankd:
        await rankd.define("b", BOARD)
        for number in range(10):
            await rankd.submit("b", [{"player": f"p{number % 3}", "score": number}])
        before, living = (await rankd.reader.page("b")).standings, state_of(rankd.projector)
        head = await ledger.head()
        shown = await rankd.preview("b", BEST)
        assert (await ledger.head(), state_of(rankd.projector)) == (head, living)
        assert [change.field for change in shown.changes] == ["rule"]
        overall = next(window for window in shown.windows if window.window == "all")
        assert overall.top == before
        await rankd.redefine("b", BEST)
        after = (await rankd.reader.page("b")).standings
        told = [(one.rank, one.player, one.scores) for one in overall.top_after]
        assert told == [(one.rank, one.player, one.scores) for one in after]


async def test_a_preview_of_the_same_definition_shows_nothing() -> None:
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", BOARD)
        shown = await rankd.preview("b", BOARD)
        assert (shown.changes, list(shown.windows)) == ((), [])


async def test_whoever_stops_looking_leaves_no_draft() -> None:
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", BOARD)
        for number in range(10):
            await rankd.submit("b", [{"player": "p", "score": number}])
        for turns in range(6):
            looking = asyncio.create_task(rankd.preview("b", BEST))
            for _ in range(turns):
                await asyncio.sleep(0)
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
            await rankd.finish()
            state_of(rankd.projector)  # Which sees drafts.

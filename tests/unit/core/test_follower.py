"""A follower: the same fold over the same ledger, as true as the writer at that position."""

import asyncio

import pytest
from tests.unit.core.doubles import FaultyLedger, SetClock, bare, engine, state_of

from rankd.core.follower import following
from rankd.errors import LedgerUnavailable
from rankd.model.facts import Position

pytestmark = pytest.mark.anyio
HOURS = 3_600.0
PATIENCE_SECONDS = 60.0


async def test_a_follower_sees_what_the_writer_wrote() -> None:
    ledger, clock = FaultyLedger(), SetClock()
    async with engine(ledger, clock) as rankd:
        await rankd.define("b", {"rule": "sum", "windows": ["all", "daily"]})
        async with following(
            ledger=ledger.anew(), build=bare, clock=clock, tell=lambda _: None
        ) as follower:
            assert follower.position == 1
            for number in range(5):
                await rankd.submit("b", [{"player": "p", "score": number, "key": f"k{number}"}])
                if number == 2:
                    await rankd.redefine("b", {"rule": "best", "windows": ["all", "daily"]})
                follower.wake()
            await follower.reached(rankd.position, within_seconds=PATIENCE_SECONDS)
            assert state_of(follower.projector) == state_of(rankd.projector)
            assert follower.failure is None


async def test_a_follower_that_can_read_no_more_says_so_and_still_answers() -> None:
    ledger, clock = FaultyLedger(), SetClock()
    async with engine(ledger, clock) as rankd:
        await rankd.define("b", {"rule": "sum", "windows": ["all"]})
        read = ledger.anew()
        async with following(ledger=read, build=bare, clock=clock, tell=lambda _: None) as follower:
            read.read_failure = LedgerUnavailable("injected", applied="no")
            await rankd.submit("b", [{"player": "p", "score": 1}])
            follower.wake()
            async with asyncio.timeout(PATIENCE_SECONDS):
                while follower.failure is None:  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(0.001)
            assert follower.position == Position(1)
            assert (await follower.reader.page("b")).total == 0

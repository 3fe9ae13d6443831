"""Earlier editions of closed windows, read through an engine."""

import pytest
from tests.unit.core.callers import submit
from tests.unit.core.doubles import DAY, SetClock, engine

from rankd.adapters.memory.ledger import MemoryLedger
from rankd.core import editions
from rankd.core.editions import edition_reader
from rankd.core.engine import Engine
from rankd.errors import InvalidPage

pytestmark = pytest.mark.anyio

DAILY = {"rule": "best", "windows": ["all", "daily"]}
CLOSED = "daily:2026-11-14"


async def page_of(rankd: Engine, edition: int) -> dict[str, int]:
    where = rankd.reader.where("b", window=CLOSED)
    reader = await edition_reader(rankd.reader, where, edition)
    page = await reader.page("b", window=CLOSED)
    assert page.total == len(page.standings)
    assert [one.rank for one in page.standings] == list(range(1, page.total + 1))
    return {one.player: one.scores[0] for one in page.standings}


async def corrected_thrice(rankd: Engine, clock: SetClock) -> None:
    """Close a day with three players; then take away one's score, and another's two."""
    await rankd.define("b", DAILY)
    await submit(rankd, "ann", 10)
    cheat = await submit(rankd, "bob", 99)
    good = await submit(rankd, "cyd", 20)
    better = await submit(rankd, "cyd", 30)
    clock.time += DAY
    await submit(rankd, "ann", 1)
    for answer in (cheat, better, good):
        await rankd.corrections.retract("b", {"position": answer.position})


@pytest.mark.parametrize("together", [1, editions.ENTRIES_TOGETHER])
async def test_each_edition_is_as_it_was(monkeypatch: pytest.MonkeyPatch, together: int) -> None:
    monkeypatch.setattr(editions, "ENTRIES_TOGETHER", together)
    clock = SetClock()
    async with engine(MemoryLedger(), clock=clock) as rankd:
        await corrected_thrice(rankd, clock)
        assert await page_of(rankd, 1) == {"bob": 99, "cyd": 30, "ann": 10}
        assert await page_of(rankd, 2) == {"cyd": 30, "ann": 10}
        assert await page_of(rankd, 3) == {"cyd": 20, "ann": 10}
        assert await page_of(rankd, 4) == {"ann": 10}
        with pytest.raises(InvalidPage, match="from 1 to 4"):
            await page_of(rankd, 5)


async def test_an_earlier_edition_shows_no_banned_player() -> None:
    clock = SetClock()
    async with engine(MemoryLedger(), clock=clock) as rankd:
        await corrected_thrice(rankd, clock)
        await rankd.corrections.set_player_state("bob", "banned", {"reason": "a bot"})
        assert await page_of(rankd, 1) == {"cyd": 30, "ann": 10}


async def test_an_edition_with_too_many_changes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(editions, "EDITION_CHANGES_MAX", 1)
    clock = SetClock()
    async with engine(MemoryLedger(), clock=clock) as rankd:
        await corrected_thrice(rankd, clock)
        assert await page_of(rankd, 3) == {"cyd": 20, "ann": 10}
        with pytest.raises(InvalidPage, match="more than 1 changed"):
            await page_of(rankd, 1)

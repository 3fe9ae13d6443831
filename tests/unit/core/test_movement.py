"""The movement of players since the start of the day, and since other baselines."""

import asyncio
from contextlib import AbstractAsyncContextManager
from random import Random

import pytest
from tests.property.past_model import LASTING, PLAYERS, SEGMENTS, History
from tests.property.past_worlds import lived
from tests.unit.core.callers import submit
from tests.unit.core.doubles import DAY, HOUR, SetClock, engine

from rankd.adapters.memory.ledger import MemoryLedger
from rankd.core.engine import Engine
from rankd.core.movement import MOVEMENT_ENTRIES_MAX
from rankd.core.past import PastLimits
from rankd.core.reader import Page
from rankd.errors import InvalidPage, PastOutOfReach, UnknownWindow
from rankd.testing.servers import RedisServer

pytestmark = pytest.mark.anyio

Moves = dict[str, tuple[int | None, bool]]


def moves_of(page: Page) -> Moves:
    return {one.player: (one.rank_change, one.new) for one in page.standings}


def moving(ledger: MemoryLedger, clock: SetClock) -> AbstractAsyncContextManager[Engine]:
    """Run an engine that tells movement."""
    return engine(ledger, clock, movement_entries=MOVEMENT_ENTRIES_MAX)


async def page_of(rankd: Engine, segment: str | None = None) -> Page:
    """Return a page once its baseline was made."""
    for _ in range(2):
        await rankd.reader.page("b", limit=1000, segment=segment)
        await rankd.movement.catch_up()
    return await rankd.reader.page("b", limit=1000, segment=segment)


def expected(before: dict[str, int], page: Page) -> Moves:
    ranks = {one.player: one.rank for one in page.standings}
    return {
        player: (before[player] - rank if player in before else None, player not in before)
        for player, rank in ranks.items()
    }


@pytest.mark.servers
@pytest.mark.parametrize("kind", ["native", "redis"])
async def test_movement_is_against_the_ranks_before_the_day(
    kind: str, shared_redis: RedisServer
) -> None:
    """Ranks noted at the end of a day are what the next one is compared with, at every moment."""
    world = lived(kind, 3, shared_redis, windows=LASTING, steps=12, corrected=False)
    async with world as history:
        rankd, moved = history.rankd, 0
        rankd.movement.grant(MOVEMENT_ENTRIES_MAX)
        for _ in range(3):
            before = {segment: await _ranks(history, segment) for segment in SEGMENTS}
            history.clock.time += DAY
            await history._submit()
            for _ in range(3):
                for segment in SEGMENTS:
                    page = await page_of(rankd, segment)
                    if before[segment]:
                        assert moves_of(page) == expected(before[segment], page)
                        moved += sum(bool(one.rank_change) for one in page.standings)
                        await _compare_other_reads(rankd, page, segment)
                await history._submit()
                await history._move_player()
        assert moved > 10


async def _ranks(history: History, segment: str | None) -> dict[str, int]:
    page = await history.rankd.reader.page("b", limit=1000, segment=segment)
    return {one.player: one.rank for one in page.standings}


async def _compare_other_reads(rankd: Engine, page: Page, segment: str | None) -> None:
    moves = moves_of(page)
    found = await rankd.reader.lookup("b", PLAYERS, segment=segment)
    assert {one.player: (one.rank_change, one.new) for one in found.standings} == moves
    for player, move in moves.items():
        one = await rankd.reader.standing("b", player, segment=segment)
        assert one is not None
        assert (one.rank_change, one.new) == move
    around = await rankd.reader.around("b", next(iter(moves)), segment=segment)
    assert moves_of(around).items() <= moves.items()


async def two_days(rankd: Engine, clock: SetClock) -> None:
    """Let two players submit on one day, and one of them and another on the next."""
    await rankd.define("b", {"windows": ["all", "daily"]})
    await submit(rankd, "ann", 10)
    await submit(rankd, "bob", 20)
    clock.time += DAY
    await submit(rankd, "ann", 30)
    await submit(rankd, "cyd", 5)


MOVED: Moves = {"ann": (1, False), "bob": (-1, False), "cyd": (None, True)}


async def test_it_is_told_after_a_restart_in_mid_day_and_until_the_day_is_over() -> None:
    clock, ledger = SetClock(), MemoryLedger()
    async with moving(ledger, clock) as rankd:
        await two_days(rankd, clock)
        assert moves_of(await page_of(rankd)) == MOVED
    async with moving(ledger, clock) as rankd:
        first = await rankd.reader.page("b")
        assert set(moves_of(first).values()) == {(None, False)}, "it is not known yet"
        assert moves_of(await page_of(rankd)) == MOVED
        revision = rankd.movement.revision
        clock.time += DAY
        await rankd.movement.catch_up()
        assert rankd.movement.revision > revision
        assert moves_of(await page_of(rankd)) == dict.fromkeys(MOVED, (0, False))


async def test_the_day_is_one_of_the_board() -> None:
    clock = SetClock()  # Noon in UTC, 7 o'clock in New York.
    async with moving(MemoryLedger(), clock) as rankd:
        await rankd.define("b", {"windows": ["all"], "time_zone": "America/New_York"})
        await submit(rankd, "ann", 10)
        await submit(rankd, "bob", 5)
        clock.time += 16 * HOUR
        await submit(rankd, "bob", 20)
        assert set(moves_of(await page_of(rankd)).values()) == {(None, False)}, "the same day"
        clock.time += HOUR + 1
        await submit(rankd, "ann", 30)
        assert moves_of(await page_of(rankd)) == {"ann": (1, False), "bob": (-1, False)}


async def test_a_window_that_opened_since_and_a_closed_one_have_none() -> None:
    clock = SetClock()
    async with moving(MemoryLedger(), clock) as rankd:
        await two_days(rankd, clock)
        for window in ("daily", "daily:-1"):
            await rankd.reader.page("b", window=window)
            await rankd.movement.catch_up()
            page = await rankd.reader.page("b", window=window)
            assert set(moves_of(page).values()) == {(None, False)}
        await rankd.reset_window("b", {"window": "all", "reason": "a test"})
        await submit(rankd, "ann", 1)
        assert moves_of(await page_of(rankd)) == {"ann": (None, False)}


async def test_another_board_of_the_same_name_has_another_baseline() -> None:
    clock = SetClock()
    async with moving(MemoryLedger(), clock) as rankd:
        await two_days(rankd, clock)
        assert moves_of(await page_of(rankd)) == MOVED
        await rankd.retire("b")
        await rankd.define("b", {"windows": ["all"]})
        await submit(rankd, "ann", 1)
        assert moves_of(await page_of(rankd)) == {"ann": (None, False)}


@pytest.mark.parametrize("entries", [0, 1])
async def test_baselines_take_no_more_memory_than_granted(entries: int) -> None:
    clock = SetClock()
    async with moving(MemoryLedger(), clock) as rankd:
        rankd.grant(PastLimits(), entries)
        await two_days(rankd, clock)
        assert set(moves_of(await page_of(rankd)).values()) == {(None, False)}


@pytest.mark.parametrize("ties", ["standard", "dense"])
async def test_shared_ranks_are_compared_as_they_are_shown(ties: str) -> None:
    clock, random = SetClock(), Random(2)
    async with moving(MemoryLedger(), clock) as rankd:
        await rankd.define("b", {"windows": ["all"], "ties": ties, "rule": "latest"})
        for number in range(8):
            await submit(rankd, f"p{number}", random.randrange(4))
        before: dict[str, int] = {one.player: one.rank for one in (await page_of(rankd)).standings}
        clock.time += DAY
        for number in range(3, 10):
            await submit(rankd, f"p{number}", random.randrange(4))
        page = await page_of(rankd)
        assert moves_of(page) == expected(before, page)


async def test_another_baseline_is_a_position_a_duration_or_a_window() -> None:
    clock = SetClock()
    async with moving(MemoryLedger(), clock) as rankd:
        await two_days(rankd, clock)
        page = await rankd.reader.page("b")
        ranking, last = page.ranking, rankd.position

        async def against(baseline: str) -> Moves:
            return moves_of(await rankd.movement.compared(rankd.reader, ranking, page, baseline))

        for baseline in ("3", "24h", "1d", "daily:-1"):
            assert await against(baseline) == MOVED, baseline
        assert await against(str(last)) == dict.fromkeys(MOVED, (0, False))
        assert await against("2d") == dict.fromkeys(MOVED, (None, True))
        assert await against("0") == dict.fromkeys(MOVED, (None, True))
        assert await against("daily") == {
            "ann": (0, False),
            "bob": (None, True),
            "cyd": (-1, False),
        }
        with pytest.raises(InvalidPage, match="baseline must be from 0 to"):
            await against("1000")
        with pytest.raises(UnknownWindow):
            await against("weekly")
        rankd.past.limits = PastLimits(facts=0)
        with pytest.raises(PastOutOfReach):
            await against("2")


async def test_no_baseline_is_made_once_the_engine_stopped() -> None:
    """One under way, which pauses three times as long as it works, is given up."""
    clock = SetClock()
    async with moving(MemoryLedger(), clock) as rankd:
        await two_days(rankd, clock)
        await rankd.reader.page("b")
        tasks = asyncio.all_tasks()
        making = asyncio.ensure_future(rankd.movement.catch_up())
        begun: set[asyncio.Task[None]] = set()
        for _ in range(100):
            begun = begun or asyncio.all_tasks() - tasks - {making}
            if not begun:
                await asyncio.sleep(0)
        assert begun
        making.cancel()
        running = asyncio.all_tasks()
    assert running >= begun
    assert not asyncio.all_tasks() & begun

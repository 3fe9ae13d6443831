"""A player's rank over time: each point is the standing as of its moment."""

from random import Random

import pytest
from tests.unit.core.callers import submit
from tests.unit.core.doubles import DAY, HOUR, FaultyLedger, SetClock, engine

from rankd.adapters.memory.ledger import MemoryLedger
from rankd.core import rank_history
from rankd.core.engine import Engine
from rankd.core.past import Moment, PastLimits
from rankd.core.rank_history import RankHistory
from rankd.errors import InvalidPage, PastOutOfReach

pytestmark = pytest.mark.anyio

BOARD = {"windows": ["all", "daily"], "time_zone": "America/New_York"}


async def history(rankd: Engine, player: str, **which: str) -> RankHistory:
    return await rankd.rank_histories.history(rankd.reader, "b", player, **which)


async def live(rankd: Engine, clock: SetClock, days: int = 10) -> None:
    """Let players submit for some days, with a correction now and then."""
    random = Random(5)
    await rankd.define("b", BOARD)
    for day in range(days):
        positions = []
        for _ in range(4):
            clock.time += random.randrange(DAY // 4)
            answer = await submit(rankd, f"p{random.randrange(5)}", random.randrange(100))
            positions.append(answer.position)
        if day % 3 == 2:
            await rankd.corrections.retract("b", {"position": positions[-1]})


async def expect_past_standings(rankd: Engine, found: RankHistory) -> None:
    for point in found.points[:-1]:
        window = found.ranking.window
        by_time = await rankd.past.moment(None, point.at - 1)
        assert by_time.position == point.as_of
        reader = await rankd.past.reader("b", Moment(point.as_of, point.at), window=window)
        standing = await reader.standing("b", found.player, window=window)
        assert point.rank == (standing and standing.rank)
        assert point.scores == (standing and standing.scores)
        assert point.total == (await reader.page("b", window=window)).total
    times = [point.at for point in found.points]
    assert times == sorted(set(times))


@pytest.mark.parametrize("grain", rank_history.GRAINS)
async def test_each_point_is_the_standing_then(grain: str) -> None:
    clock = SetClock()
    async with engine(MemoryLedger(), clock=clock) as rankd:
        await live(rankd, clock)
        for player in ("p0", "p1"):
            found = await history(rankd, player, grain=grain)
            assert len(found.points) > 1
            await expect_past_standings(rankd, found)
            now = await rankd.reader.standing("b", player)
            assert now is not None
            last = found.points[-1]
            assert (last.at, last.rank, last.total) == (clock.time, now.rank, now.total)


async def test_a_day_is_one_of_the_board_and_an_hour_lies_in_its_window() -> None:
    clock = SetClock()
    async with engine(MemoryLedger(), clock=clock) as rankd:
        await live(rankd, clock, days=3)
        found = await history(rankd, "p1")
        assert {point.at % DAY for point in found.points[:-1]} == {5 * HOUR}, "midnight there"
        today = await history(rankd, "p1", window="daily", grain="hour")
        opened = rankd.state.page("b").windows["daily"].window
        assert opened.start is not None
        assert [point.at for point in today.points[:-1]] == [
            opened.start + HOUR * number
            for number in range(1, (clock.time - 1 - opened.start) // HOUR + 1)
        ]


async def test_points_are_looked_for_once() -> None:
    ledger, clock = FaultyLedger(), SetClock()
    async with engine(ledger, clock=clock) as rankd:
        await live(rankd, clock, days=4)
        before = await history(rankd, "p1")
        rankd.past.limits = PastLimits(facts=0)
        await submit(rankd, "p1", 1_000)
        after = await history(rankd, "p1")
        assert after.points[:-1] == before.points[:-1]
        assert after.points[-1].rank == 1
        with pytest.raises(PastOutOfReach):
            await history(rankd, "p2")


async def test_the_latest_points_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SetClock()
    async with engine(MemoryLedger(), clock=clock) as rankd:
        await live(rankd, clock)
        everything = await history(rankd, "p1", grain="hour")
        monkeypatch.setattr(rank_history, "POINTS_MAX", 5)
        assert (await history(rankd, "p1", grain="hour")).points == everything.points[-5:]
        with pytest.raises(InvalidPage, match="grain must be one of hour, day, week"):
            await history(rankd, "p1", grain="year")


async def test_cached_points_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SetClock()
    async with engine(MemoryLedger(), clock=clock) as rankd:
        await live(rankd, clock, days=4)
        monkeypatch.setattr(rank_history, "POINTS_CACHED_MAX", 10)
        for player in ("p0", "p1", "p2", "p3"):
            await expect_past_standings(rankd, await history(rankd, player))
            assert len(rankd.rank_histories._known) <= 10

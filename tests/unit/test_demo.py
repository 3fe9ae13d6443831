"""The simulated game: the same from one seed, a past in its windows, and a top that moves."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from rankd.bootstrap import EngineConfig, engine
from rankd.core.engine import Engine
from rankd.demo import BOARD, CONTENDERS, DAY, REGIONS, TICK_SECONDS, Game, TimeLapse, playing
from rankd.errors import BoardDiffers, InvalidSetting
from rankd.model.window import Instant
from rankd.ports import Progress

PLAYERS = 300
WEDNESDAY: Instant = 1_763_553_600_000_000  # 2025-11-19, noon, UTC


class Stopped:
    """A clock that stands still."""

    def now(self) -> Instant:
        return WEDNESDAY


@asynccontextmanager
async def opened(
    folder: Path | None, told: Callable[[Progress], None] = lambda _: None
) -> AsyncIterator[tuple[Engine, TimeLapse]]:
    clock = TimeLapse(Stopped())
    async with engine(
        EngineConfig.of(folder), clock=clock, reading=nullcontext(), tell=told
    ) as running:
        yield running.rankd, clock


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 100))


def test_a_game_is_the_same_from_one_seed_and_another_from_another() -> None:
    one, again, other = Game(50), Game(50), Game(50, seed=2)
    ranked = one.ids[:20]
    assert one.ids == again.ids and one.skills == again.skills
    assert one.tick(ranked, 300) == again.tick(ranked, 300) != other.tick(ranked, 300)


def test_everybody_has_an_id_of_their_own_a_name_and_a_region() -> None:
    game = Game(5_000)
    assert len(set(game.ids)) == len(game.names) == len(game.regions) == 5_000
    assert all(id.isascii() and id.isalnum() for id in game.ids)
    assert set(game.regions) == set(REGIONS)


@pytest.mark.parametrize("rate", [0, 1, 30, 300, 3_000])
def test_on_average_it_scores_at_the_rate_that_was_asked_for(rate: int) -> None:
    game = Game(PLAYERS)
    seconds = 200
    scored = sum(len(game.tick(game.ids, rate)) for _ in range(round(seconds / TICK_SECONDS)))
    assert scored == pytest.approx(rate * seconds, rel=0.25)


def test_the_top_moves_and_does_not_rush() -> None:
    """Of a second's scores a few are of those at the top, at any rate that is usual."""
    game = Game(10_000)
    best = [game.ids[number] for number in game.best(200)]
    contending = set(best[:CONTENDERS])
    scores = [score for _ in range(1_000) for score in game.tick(best, 300)]
    of_the_top = sum(player in contending for player, _ in scores) / 100
    assert 8 < of_the_top < 25
    assert all(points > 0 for _, points in scores)


def test_a_game_without_players_at_the_top_goes_on() -> None:
    assert Game(1).tick([], 300)


def test_a_new_board_gets_a_past_and_the_time_is_right_again() -> None:
    async def work() -> None:
        told: list[Progress] = []
        async with (
            opened(None) as (rankd, clock),
            playing(rankd, clock, players=PLAYERS, rate=0, tell=told.append),
        ):
            assert clock.now() == WEDNESDAY
            totals = {
                window: (await rankd.reader.page(BOARD, window=window)).total
                for window in ("all", "weekly", "daily", "daily:-1")
            }
            assert totals["all"] == PLAYERS > totals["weekly"] > totals["daily"] > 0
            assert totals["daily:-1"] > 0
            europe = await rankd.reader.page(BOARD, segment="region:eu", limit=1)
            assert 0 < europe.total < PLAYERS
            assert europe.standings[0].name
        stages = list(dict.fromkeys(each.stage for each in told))
        assert stages == ["names", "9 days ago", "yesterday", "today"]
        assert all(0 < each.done <= each.total for each in told)

    run(work())


def test_it_goes_on_scoring_until_it_is_left() -> None:
    async def work() -> None:
        async with opened(None) as (rankd, clock):
            async with playing(rankd, clock, players=20, rate=1_000, tell=lambda _: None):
                filled = rankd.position
                await rankd.reached(type(filled)(filled + 100), within_seconds=60)
            await rankd.submit(BOARD, [("last", 1)])  # Behind whatever was still on its way.
            left = rankd.position
            await asyncio.sleep(3 * TICK_SECONDS)
            assert rankd.position == left

    run(work())


def test_it_plays_for_its_own_players_and_for_nobody_else() -> None:
    """Not for one who leads the board, nor for one that is called much alike."""
    strangers = {"you": 10**9, "ada0": 10**8, "ada21": 10**7, "Ada1": 10**6, "7": 10**5, "ada": 1}

    async def work() -> None:
        async with (
            opened(None) as (rankd, clock),
            playing(rankd, clock, players=20, rate=5_000, tell=lambda _: None),
        ):
            await rankd.submit(BOARD, list(strangers.items()))
            begun = rankd.position
            # It looks who leads every two seconds, and plays for them from then on.
            await rankd.reached(type(begun)(begun + 15_000), within_seconds=60)
            for player, score in strangers.items():
                standing = await rankd.reader.standing(BOARD, player)
                assert standing is not None and standing.scores == (score,), player
            assert (await rankd.reader.page(BOARD)).total == 20 + len(strangers)

    run(work())


def test_it_goes_on_with_the_same_players_though_others_have_come(tmp_path: Path) -> None:
    async def work() -> None:
        async with (
            opened(tmp_path) as (rankd, clock),
            playing(rankd, clock, players=30, rate=0, tell=lambda _: None),
        ):
            await rankd.submit(BOARD, [("you", 5), ("me", 7)])
        async with (
            opened(tmp_path) as (rankd, clock),
            playing(rankd, clock, players=500, rate=2_000, tell=lambda _: None),
        ):
            begun = rankd.position
            await rankd.reached(type(begun)(begun + 500), within_seconds=60)
            assert (await rankd.reader.page(BOARD)).total == 32

    run(work())


def test_a_folder_that_has_its_past_is_not_filled_again(tmp_path: Path) -> None:
    async def work() -> None:
        for _ in range(2):
            async with (
                opened(tmp_path) as (rankd, clock),
                playing(rankd, clock, players=30, rate=0, tell=lambda _: None),
            ):
                positions.append(rankd.position)

    positions: list[int] = []
    run(work())
    assert positions[0] == positions[1]


@pytest.mark.parametrize(("board", "error"), [(BOARD, BoardDiffers), ("real", InvalidSetting)])
def test_what_is_not_the_demos_is_left_alone(board: str, error: type[Exception]) -> None:
    async def work() -> None:
        async with opened(None) as (rankd, clock):
            await rankd.define(board, {"rule": "best"})
            before = rankd.position
            with pytest.raises(error):
                async with playing(rankd, clock, players=30, rate=100, tell=lambda _: None):
                    pass
            assert rankd.position == before

    run(work())


def test_a_clock_set_back_runs_on() -> None:
    clock = TimeLapse(Stopped())
    clock.behind = DAY
    assert clock.now() == WEDNESDAY - DAY

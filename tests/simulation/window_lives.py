"""Years of windows, simulated: resets, freezes, graces, retractions, restarts and racing requests.

    python -m tests.simulation.window_lives --years 100 --seed 2026

Each year is a game of one board in one time zone: time goes on in leaps of any length, very often
to the microsecond at which a window opens, closes or is sealed, or to one before or after it,
across both changes of daylight saving. It fails unless

- each score counts in exactly one window of each kind, unless that is frozen or settled,
- each step of each window is recorded once, however many ask for it at the same time,
- the windows hold what was counted in them, and sealed ones change by corrections alone,
- the index and the state after restarts are those that the ledger folds to.
"""

import argparse
import asyncio
import logging
import random
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple

from tests.unit.core.doubles import DAY, HOUR, SetClock, engine, facts_of, verified

from rankd.adapters.memory.ledger import MemoryLedger
from rankd.core.board_state import BoardState, exact_id, name_of_window
from rankd.core.engine import Engine
from rankd.core.window_schedule import coming_steps
from rankd.errors import RankdError, Refused
from rankd.model.facts import (
    WindowEnded,
    WindowFrozen,
    WindowOpened,
    WindowPrepared,
    WindowSealed,
)
from rankd.model.window import Instant, WindowState

ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/Sao_Paulo",
    "America/St_Johns",
    "America/Havana",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
    "Asia/Tehran",
    "Africa/Casablanca",
    "Pacific/Apia",
    "Pacific/Chatham",
    "America/Santiago",
)
KINDS: tuple[Any, ...] = (
    "all",
    "daily",
    {"name": "daily", "at": "02:30", "grace": "90m"},
    {"name": "weekly", "grace": "1h"},
    "monthly",
    {"name": "shift", "cron": "30 1,13 * * *", "grace": "12h"},
    {"name": "last3", "rolling": "3d"},
    {"name": "last9", "rolling": "9d", "grace": "2h"},
    {"name": "season", "every": "4w", "gap": "2d", "start": "2000-01-03", "grace": "1d"},
)
STEPS = (WindowOpened, WindowPrepared, WindowEnded, WindowFrozen, WindowSealed)
PLAYERS = ("ann", "bob", "cyd", "dee")
STEPS_PER_YEAR = 150
YEAR = 365 * DAY


class Played(NamedTuple):
    """What games came to."""

    years: int
    scores: int
    windows: int
    races: int


class Game:
    """One board through one year."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.zone = ZONES[seed % len(ZONES)]
        year = self.rng.randrange(2000, 2030)
        self.clock = SetClock(int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000)
        kinds = {name_of(kind): kind for kind in self.rng.sample(KINDS, k=4)}
        self.definition = {"windows": [*kinds.values()], "time_zone": self.zone, "rule": "sum"}
        self.ledger = MemoryLedger()
        self.counted: dict[str, Counter[str]] = {}
        """Points by window and player."""
        self.submitted: list[tuple[int, str, int, tuple[str, ...]]] = []
        """Position, player, points and windows of the scores that still count."""
        self.sealed: dict[str, Mapping[str, int]] = {}
        """The standings of sealed windows, when they were seen last."""
        self.scores = self.races = 0

    async def play(self) -> None:
        """Live through the year, in an engine that is restarted now and then."""
        left = STEPS_PER_YEAR
        while left > 0:
            async with AsyncExitStack() as stack:
                rankd = await stack.enter_async_context(engine(self.ledger, self.clock))
                if "b" not in rankd.state.boards:
                    await rankd.define("b", self.definition)
                for _ in range(min(left, self.rng.randrange(1, 40))):
                    self.leap(rankd)
                    await self.act(rankd)
                    left -= 1
                await self.check(rankd)

    def leap(self, rankd: Engine) -> None:
        """Let time pass, or have the clock go back a little: to ledger time that is nothing."""
        now = max(self.clock.time, rankd.ledger_time)
        if self.rng.random() < 0.6:
            steps = coming_steps(rankd.state.page("b"), now, 6)
            if steps:
                self.clock.time = self.rng.choice(steps).at + self.rng.choice((-1, 0, 0, 1))
                return
        self.clock.time = now + self.rng.choice((-HOUR, 0, 1, HOUR, 9 * HOUR, 3 * DAY))

    async def act(self, rankd: Engine) -> None:
        act = self.rng.random()
        if act < 0.6:
            await self.submit(rankd)
        elif act < 0.75:
            await self.race(rankd)
        elif act < 0.85 and self.submitted:
            await self.retract(rankd)
        elif act < 0.93:
            await rankd.sealer.turn()
        else:
            await rankd.rolling.look()

    async def submit(self, rankd: Engine) -> None:
        player, points = self.rng.choice(PLAYERS), self.rng.randrange(1, 100)
        (answer,) = await rankd.submit("b", [(player, points)])
        receipt = answer.receipt
        assert receipt is not None
        page = rankd.state.page("b")
        windows = tuple(one.window for one in receipt.windows.values())
        kinds = Counter(map(name_of_window, windows))
        assert max(kinds.values(), default=1) == 1, "a score counts in two windows of a kind"
        for recurrence in page.board.windows:
            due = recurrence.window_at(rankd.ledger_time)
            closed = due is not None and page.closed_early(due)
            if recurrence.name not in kinds:
                assert due is None or closed, f"no window of {recurrence.name} took a score"
            else:
                assert due is not None, f"{recurrence.name} took a score in a gap"
        windows += coming_days(page, rankd.ledger_time)
        for id in windows:
            self.counted.setdefault(id, Counter())[player] += points
        self.scores += 1
        self.submitted.append((answer.position, player, points, windows))

    async def race(self, rankd: Engine) -> None:
        """Have several operators and the manager ask at the same time for the same."""
        page = rankd.state.page("b")
        window = self.rng.choice([one for one in page.board.windows if not one.rolls]).name
        verb = self.rng.choice((rankd.reset_window, rankd.freeze_window, rankd.settle_window))
        asked = {"window": window, "reason": f"step {self.races}"}
        before = len(await facts_of(self.ledger))
        turning = rankd.sealer.turn()
        both = await asyncio.gather(
            verb("b", asked), verb("b", asked), turning, return_exceptions=True
        )
        assert all(isinstance(one, Refused) or not isinstance(one, RankdError) for one in both)
        results = [one for one in both[:2] if not isinstance(one, BaseException)]
        assert len(results) in (0, 2), both
        assert sum(one.changed for one in results) <= 1, ("a step was taken twice", verb, results)
        after = (await facts_of(self.ledger))[before:]
        opened = [one.fact for one in after if isinstance(one.fact, WindowOpened)]
        assert len(opened) == len({one.window for one in opened})
        self.races += 1

    async def retract(self, rankd: Engine) -> None:
        place = self.rng.randrange(len(self.submitted))
        position, player, points, windows = self.submitted[place]
        with suppress(Refused):
            await rankd.corrections.retract("b", {"position": position})
        del self.submitted[place]
        for id in windows:
            left = self.counted[id]
            left[player] -= points
            if not any((player, id) == (one[1], each) for one in self.submitted for each in one[3]):
                del left[player]
            self.sealed.pop(id, None)

    async def check(self, rankd: Engine) -> None:
        page = rankd.state.page("b")
        for id in [*page.sealed, *(one.window.id for one in page.windows.values())]:
            found = await standings(rankd, exact_id(id))
            assert found == dict(self.counted.get(id, {})), (id, found)
            if page.recorded(id).state in (WindowState.SEALED, WindowState.FINAL):
                assert self.sealed.setdefault(id, found) == found, f"{id} changed when sealed"
        steps = Counter(
            (type(one.fact), one.fact.window)
            for one in await facts_of(self.ledger)
            if isinstance(one.fact, STEPS)
        )
        assert max(steps.values(), default=1) == 1, steps.most_common(1)
        await verified(rankd)


def coming_days(page: BoardState, at: Instant) -> tuple[str, ...]:
    """Return the ids of rolling windows of the coming days, in which a score of a time counts."""
    return tuple(window.id for one in page.rolling for window in one.covering(at)[1:])


def name_of(kind: Any) -> str:
    return str(kind["name"] if isinstance(kind, Mapping) else kind)


async def standings(rankd: Engine, window: str) -> dict[str, int]:
    page = await rankd.reader.page("b", window=window, limit=100)
    return {player: one[0] for player, one in zip(page.players, page.scores, strict=True)}


async def simulate(years: int, seed: int) -> Played:
    """Play so many years, twelve zones by turns."""
    scores = windows = races = 0
    for number in range(years):
        game = Game(seed + number)
        try:
            await game.play()
        except BaseException as exc:
            exc.add_note(f"seed {seed + number}, in {game.zone}: {game.definition}")
            raise
        scores, races, windows = (
            scores + game.scores,
            races + game.races,
            windows + len(game.counted),
        )
    return Played(years, scores, windows, races)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--years", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=2026)
    given = parser.parse_args()
    logging.disable(logging.ERROR)  # Ledger time waits for the clock now and then.
    found = asyncio.run(simulate(given.years, given.seed))
    print(  # noqa: T201 - figures are what it is for
        f"seed {given.seed}: {found.years:,} years in {len(ZONES)} zones, "
        f"{found.scores:,} scores in {found.windows:,} windows, {found.races:,} races: "
        "none lost or counted twice"
    )
    sys.exit(0)


if __name__ == "__main__":
    main()

"""Games with a clock that is wrong for a while, beside the same games with a clock that is right.

    python -m tests.property.time_games --games 1000

Each game is played twice: in one world the clock is ahead for some steps, then set right and the
ledger's time corrected; in the other it is right throughout. Every window of every board, open or
closed, with its segments, must be the same in both, and so must what is archived of closed ones.
Engines that keep their ledger are restarted in between, with an index that was saved and with one
that is older; of a ledger that nodes may share there are two. Prints figures; exits 1 at a
difference.
"""

import argparse
import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import pairwise
from random import Random
from typing import Any, NamedTuple

from rankd.adapters.memory.archive import MemoryArchive
from rankd.bootstrap import SQLITE, EngineConfig, engine
from rankd.core.engine import Engine
from rankd.core.managers import Archiver
from rankd.model.facts import Position, WindowDropped
from rankd.model.window import Instant

MINUTE = 60_000_000
HOUR, DAY = 60 * MINUTE, 1_440 * MINUTE
START = Instant(1_794_657_600_000_000)
"""2026-11-14, noon."""

AHEAD = (30 * MINUTE, 5 * HOUR, 3 * DAY, 60 * DAY, 3_653 * DAY)
ELAPSED = (0, MINUTE, 20 * MINUTE, HOUR, 7 * HOUR, 2 * DAY)
PLAYERS = ("ann", "bob", "cyd", "dee")
STEPS = 30
RESTARTS = 2

_HOURLY = {"name": "hour", "start": "2026-11-01T00:00:00Z", "every": "1h"}
_SEASON = {"name": "season", "start": "2026-11-01T00:00:00Z", "every": "3d", "gap": "1d"}
DEFINITIONS: tuple[dict[str, Any], ...] = (
    {"rule": "sum", "windows": ["all", "daily"], "retention": {"daily": "2d"}},
    {"rule": "best", "windows": ["all", "daily", "weekly"], "segments": ["region"]},
    {"rule": "sum", "windows": ["all", _HOURLY, "monthly"], "retention": {"hour": "5h"}},
    {"rule": "latest", "windows": ["all", _SEASON], "ties": "dense", "segments": ["region"]},
    {"rule": "best", "windows": [{"name": "last", "rolling": "3d"}], "segments": ["region"]},
)

IN_MEMORY = EngineConfig.of(None)

Check = Callable[[Engine], Awaitable[None]]
"""Looks at an engine after a game with a corrected time."""


@dataclass
class GameClock:
    """A clock that is set."""

    time: Instant = START

    def now(self) -> Instant:
        return self.time


class Step(NamedTuple):
    """What happens after some time."""

    elapsed: int
    action: str
    arguments: tuple[Any, ...]


class Game(NamedTuple):
    """What is played, and on which steps the clock is ahead."""

    steps: Sequence[Step]
    wrong: range
    ahead: int
    restarts: Sequence[int]
    """The steps before which engines are restarted."""

    def clock_at(self, number: int, *, right: bool) -> Instant:
        """Return what the clock shows at a step."""
        elapsed = sum(step.elapsed for step in self.steps[: number + 1])
        ahead = self.ahead if number in self.wrong and not right else 0
        return Instant(START + elapsed + ahead)


def make_game(seed: int) -> Game:
    """Return a game."""
    draw = Random(seed)
    first = draw.randrange(3, STEPS - 6)
    wrong = range(first, draw.randrange(first + 1, STEPS - 2))
    steps = [_step(draw, number) for number in range(STEPS)]
    ahead = draw.choice(AHEAD)
    return Game(steps, wrong, ahead, sorted(draw.sample(range(1, STEPS), RESTARTS)))


def _step(draw: Random, number: int) -> Step:
    board, elapsed = f"b{draw.randrange(3)}", draw.choice(ELAPSED)
    if number < 2 or draw.random() < 0.08:
        board = f"b{number}" if number < 2 else board
        return Step(elapsed, "define", (board, draw.choice(DEFINITIONS)))
    if draw.random() < 0.12:
        return Step(elapsed, "profile", (draw.choice(PLAYERS), draw.choice(("eu", "us"))))
    region = draw.choice(("eu", "us", None, None, None))
    return Step(elapsed, "submit", (board, draw.choice(PLAYERS), draw.randrange(9), region))


async def act(rankd: Engine, step: Step) -> None:
    """Do what a step says; on boards that are not there, nothing."""
    match step.action, step.arguments:
        case "define", (board, definition):
            known = board in rankd.state.boards
            await (rankd.redefine if known else rankd.define)(board, definition)
        case "profile", (player, region):
            await rankd.profile(player, {"attributes": {"region": region}})
        case "submit", (board, player, score, region):
            item = {"player": player, "score": score}
            if region is not None:
                item["attributes"] = {"region": region}
            if board in rankd.state.boards:
                await rankd.submit(board, [item])


class Node(NamedTuple):
    """An engine, and its archiver."""

    rankd: Engine
    archiver: Archiver

    async def catch_up(self) -> None:
        """Fold what other nodes have appended."""
        async with self.rankd._writer.turn():
            await self.rankd._writer.catch_up_others()

    async def archive(self) -> None:
        """Archive closed windows, and drop archives of those that are gone."""
        for page in list(self.rankd.state.boards.values()):
            for sealed in list(page.sealed.values()):
                await self.archiver.keep(sealed)
        await self.archiver.drop()


@dataclass
class World:
    """A clock, a ledger and an archive, and the nodes that share them."""

    place: EngineConfig
    clock: GameClock = field(default_factory=GameClock)
    archive: MemoryArchive = field(default_factory=MemoryArchive)

    @property
    def shared(self) -> bool:
        """Whether nodes share the ledger."""
        return self.place.ledger != SQLITE

    @asynccontextmanager
    async def start(self) -> AsyncIterator[Sequence[Node]]:
        """Start the nodes, each with the index that it saved."""
        async with AsyncExitStack() as stack:
            names = ("n0", "n1") if self.shared else ("n0",)
            yield [await stack.enter_async_context(self._node(name)) for name in names]

    @asynccontextmanager
    async def _node(self, name: str) -> AsyncIterator[Node]:
        place = self.place
        if place.folder is not None and self.shared:
            place = replace(place, folder=place.folder / name, node=name)
        async with engine(
            place, clock=self.clock, reading=nullcontext(), tell=lambda _: None
        ) as running:
            yield Node(running.rankd, Archiver(running.rankd.reader, self.archive))


async def play(world: World, game: Game, at_end: Check, *, right: bool) -> None:
    """Play a game by a right clock, or by one that is ahead and corrected.

    Engines that keep their ledger are restarted, once more after the last step.
    """
    restarts = () if world.place == IN_MEMORY else (*game.restarts, STEPS)
    first = Position(0)
    for start, stop in pairwise((0, *restarts, STEPS)):
        async with world.start() as nodes:
            for number in range(start, stop):
                node = nodes[number % len(nodes)]
                await node.catch_up()
                if number == game.wrong.start:
                    first = Position(await node.rankd._ledger.head() + 1)
                world.clock.time = game.clock_at(number, right=right)
                await _play_step(node, game.steps[number])
                if number + 1 == game.wrong.stop and not right:
                    world.clock.time = game.clock_at(number, right=True)
                    await _correct(node.rankd, first, game.ahead)
            await _end_life(world, nodes, at_end if stop == STEPS else None, saves=stop % 2 == 0)


async def _play_step(node: Node, step: Step) -> None:
    await node.rankd.sealer.turn()
    await act(node.rankd, step)
    await node.archive()


async def _correct(rankd: Engine, first: Position, ahead: int) -> None:
    if rankd.position >= first:
        await rankd.correct_time(first=first, ahead=ahead)


async def _end_life(
    world: World, nodes: Sequence[Node], at_end: Check | None, *, saves: bool
) -> None:
    for node in nodes:
        await node.catch_up()
        if at_end is not None:
            await node.rankd.sealer.turn()
            await node.archive()
            await at_end(node.rankd)
        if saves and world.place.folder is not None and node.rankd.snapshotter.unsaved:
            await node.rankd.save()


async def standings_of(rankd: Engine) -> Mapping[tuple[str, str, str | None], Any]:
    """Return the standings in every window of every board, and in its segments."""
    found: dict[tuple[str, str, str | None], Any] = {}
    for name, page in rankd.state.boards.items():
        windows = [(one.window.id, one.terms) for one in page.sealed.values()]
        windows += [(one.window.id, one.terms) for one in page.windows.values()]
        for id, terms in windows:
            known = [f"{one}:{value}" for one in terms.board.segments for value in ("eu", "us")]
            for segment in (None, *known):
                shown = await rankd.reader.page(name, window=id, segment=segment, limit=100)
                rows = [(one.rank, one.player, one.scores) for one in shown.standings]
                found[name, id, segment] = rows
    return found


async def dropped_by(rankd: Engine) -> set[tuple[str, str]]:
    """Return the boards and ids of windows that retention dropped."""
    facts = await rankd._ledger.read(after=Position(0), limit=1_000_000)
    return {(one.fact.board, one.fact.window) for one in facts if type(one.fact) is WindowDropped}


def archived_in(world: World, rankd: Engine) -> tuple[Mapping[Any, Any], Sequence[Any]]:
    """Return the archives of windows that are closed, and those of windows that were put back."""
    closed, others = {}, []
    for board, window, since in {**world.archive.totals, **world.archive.sealed}:
        rows = world.archive.sealed.get((board, window, since), ())
        shown = [(row.rank, row.player, row.scores) for row in rows]
        sealed = rankd.state.boards[board].sealed.get(window)
        if sealed is not None and sealed.through == since:
            closed[board, window, None] = shown
        else:
            others.append((board, window, shown))
    return closed, others


async def compare(place: EngineConfig, seed: int, check: Check | None = None) -> int:
    """Play a game in both worlds; return how many rankings there are, all of them the same."""
    game, right, corrected = make_game(seed), World(IN_MEMORY), World(place)
    expected: dict[tuple[str, str, str | None], Any] = {}
    dropped: set[tuple[str, str]] = set()
    earlier: list[Any] = []

    async def expect(rankd: Engine) -> None:
        expected.update(await standings_of(rankd))
        dropped.update(await dropped_by(rankd))
        earlier.extend(archived_in(right, rankd)[1])

    async def insist(rankd: Engine) -> None:
        # Nothing is dropped on behalf of a wrong time, so that another definition may keep it.
        standings = await standings_of(rankd)
        found = {
            place: rows
            for place, rows in standings.items()
            if place in expected or place[:2] not in dropped
        }
        # Where nothing was recorded while a window was open, nothing tells that it was.
        wanted = {place: rows for place, rows in expected.items() if rows or place in found}
        assert found == wanted, f"seed {seed}: {differences(found, wanted)}"
        closed = {
            (name, id, None): standings[name, id, None]
            for name, page in rankd.state.boards.items()
            for id in page.sealed
        }
        archived, others = archived_in(corrected, rankd)
        assert archived == closed, f"seed {seed}, archived: {differences(archived, closed)}"
        assert all(one in earlier for one in others), f"seed {seed}, archived: {others}"
        async for _ in rankd.verify():
            pass
        if check is not None:
            await check(rankd)

    await play(right, game, expect, right=True)
    await play(corrected, game, insist, right=False)
    return len(expected)


def differences(found: Mapping[Any, Any], expected: Mapping[Any, Any]) -> Sequence[str]:
    """Return in words what differs."""
    places = [*expected, *(one for one in found if one not in expected)]
    return [
        f"{place}: {found.get(place)} instead of {expected.get(place)}"
        for place in places
        if found.get(place) != expected.get(place)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--games", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    logging.disable()
    seeds = range(given.seed, given.seed + given.games)
    try:
        rankings = sum(asyncio.run(compare(IN_MEMORY, seed)) for seed in seeds)
    except AssertionError as exc:
        print(exc)  # noqa: T201 - figures are what it is for
        sys.exit(1)
    print(  # noqa: T201
        f"{given.games:,} games from seed {given.seed}: {rankings:,} rankings, no difference"
    )


if __name__ == "__main__":
    main()

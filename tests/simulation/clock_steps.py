"""Clocks that step under engines, on one node and on several: no window may move.

    python -m tests.simulation.clock_steps --steps 1000 --nodes 3

Each round sets the clock of one node or of all forward or back by minutes to years, lets one of
them turn windows and take a score, and sets the clocks right again. Several nodes share a ledger in
PostgreSQL; now and then one of them starts while its clock is wrong. Prints figures; exits 1 if a
window moved.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from random import Random
from typing import NamedTuple

from tests.simulation.postgres_servers import new_ledger, postgres

from rankd.bootstrap import EngineConfig, engine
from rankd.core.engine import Engine
from rankd.embedded import WallClock
from rankd.model.facts import Position, WindowDropped, WindowOpened, WindowSealed
from rankd.model.window import Instant

MINUTE = 60_000_000
DAY = 1_440 * MINUTE
OFFSETS = (MINUTE, DAY, 60 * DAY, 3_653 * DAY)
RESTART_EVERY = 10
"""How often the node whose clock steps is started with it."""

ALL_SHARE = 0.3
"""Of the rounds: those in which the clocks of all nodes step together."""

BOARD = {
    "rule": "sum",
    "windows": [{"name": "century", "start": "2020-01-01T00:00:00Z", "every": "40d"}],
    "retention": {"century": "1d"},
}


class SteppedClock(WallClock):
    """The machine's clock, set wrong by an offset."""

    def __init__(self) -> None:
        self.offset = 0

    def now(self) -> Instant:
        return super().now() + self.offset


class Figures(NamedTuple):
    """The outcome of a simulation."""

    steps: int
    starts: int
    """With a clock that was wrong."""
    scores: int
    moved: int
    """Windows that opened, closed or were dropped."""


@asynccontextmanager
async def opened(place: EngineConfig, clock: SteppedClock) -> AsyncIterator[Engine]:
    """Open a node."""
    async with engine(place, clock=clock, reading=nullcontext(), tell=lambda _: None) as running:
        yield running.rankd


async def simulate(places: list[EngineConfig], steps: int, seed: int) -> Figures:
    """Let clocks step on nodes at these places."""
    draw, starts = Random(seed), 0
    async with AsyncExitStack() as stack:
        clocks = [SteppedClock() for _ in places]
        nodes = [
            await stack.enter_async_context(opened(place, clock))
            for place, clock in zip(places, clocks, strict=True)
        ]
        await nodes[0].define("b", BOARD)
        for step in range(steps):
            number = draw.randrange(len(nodes))
            offset = draw.choice((1, -1)) * draw.choice(OFFSETS)
            if len(nodes) > 1 and step % RESTART_EVERY == 0:
                starts += 1
                await start_wrong(places[number], offset)
            stepped = clocks if draw.random() < ALL_SHARE else [clocks[number]]
            for clock in stepped:
                clock.offset = offset
            await play(nodes[number], step)
            for clock in stepped:
                clock.offset = 0
            await play(nodes[draw.randrange(len(nodes))], step)
        return Figures(steps, starts, *await counted(nodes[0]))


async def start_wrong(place: EngineConfig, offset: int) -> None:
    """Open a node while its clock is wrong, and let it turn windows."""
    clock = SteppedClock()
    clock.offset = offset
    async with opened(place, clock) as node:
        await node.sealer.turn()


async def play(node: Engine, step: int) -> None:
    """Have a node look for turns and count a score."""
    await node.sealer.turn()
    await node.submit("b", [{"player": f"p{step % 7}", "delta": 1}])


async def counted(node: Engine) -> tuple[int, int]:
    """Return how many scores count, and how many turns are recorded."""
    async with node._writer.turn():
        await (
            node._writer.catch_up_others()
        )  # What other nodes appended last may not be folded here yet.
    facts = await node._ledger.read(after=Position(0), limit=1_000_000)
    turns = (WindowOpened, WindowSealed, WindowDropped)
    page = await node.reader.page("b", limit=10)
    scores = sum(int(one.scores[0]) for one in page.standings)
    return scores, sum(isinstance(one.fact, turns) for one in facts)


def run(steps: int, nodes: int, seed: int) -> Figures:
    """Simulate over a folder, or over PostgreSQL where there are several nodes."""
    if nodes == 1:
        with tempfile.TemporaryDirectory() as folder:
            return asyncio.run(simulate([EngineConfig.of(folder)], steps, seed))
    with postgres() as server:
        url = new_ledger(server.url)
        places = [EngineConfig(None, url, node=f"n{number}") for number in range(nodes)]
        return asyncio.run(simulate(places, steps, seed))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000)
    parser.add_argument("--nodes", type=int, choices=(1, 3), default=1)
    parser.add_argument("--seed", type=int, default=2026)
    given = parser.parse_args()
    found = run(given.steps, given.nodes, given.seed)
    print(  # noqa: T201 - figures are what it is for
        f"{given.nodes} nodes, seed {given.seed}: {found.steps:,} steps, {found.starts:,} starts "
        f"with a wrong clock, {found.scores:,} scores counted, {found.moved:,} windows moved"
    )
    sys.exit(1 if found.moved or found.scores != 2 * found.steps else 0)


if __name__ == "__main__":
    main()

"""PostgreSQL fails in every way we know of while several nodes append, and nothing is lost.

    python -m tests.simulation.postgres_faults [--rounds N] [--seed S]

Two nodes append through a proxy, some submissions with a key and some without. In each round
one fault strikes at a random moment: the wire is cut before, within or after an append, stands
still, or delivers it late; a process of the server is ended; the server is stopped at once, as a
crash would, and started again. Each append is classed by its answer, and then judged: acknowledged
means there once, refused means absent, unknown means either, and the same keys sent again count
once. Every position is read by a follower that never looks back, and the hash chain is verified.

A round is made from the seed; when in it the fault strikes depends on the machine too, so a failure
need not repeat at once. What is wrong is printed with the seed.
"""

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import asyncpg  # type: ignore[import-untyped]
from tests.simulation.power_loss import scratch_folder

from rankd.adapters.postgres import PostgresLedger
from rankd.adapters.postgres.connection import Timeouts
from rankd.errors import LedgerUnavailable
from rankd.model.facts import Fact, Position, ScoreSubmitted
from rankd.model.window import Instant
from rankd.testing.proxy import Cut, Proxy
from rankd.testing.servers import HOST, PostgresServer, postgres_server

NODES, TASKS, APPENDS = 2, 3, 6
"""Of each round: nodes, appenders on each, appends of each."""

WORKS_SECONDS_MAX = 60.0
"""When a ledger must work again, however slow the machine."""

VERIFIED_ROUNDS = 25
"""After so many rounds everything is verified."""

HURRIED = Timeouts(settle_seconds=0.3, statement_seconds=1.0)
"""The timeouts of one node, so that some outcomes stay unknown."""


class Machine:
    """A PostgreSQL that can be stopped at once and started again from what it left."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running = contextlib.ExitStack()
        self.server: PostgresServer

    def start(self) -> None:
        self.server = self._running.enter_context(
            postgres_server(durable=True, folder=self._folder)
        )

    def crash(self) -> None:
        """Do what ``pg_ctl stop -m immediate`` does: no farewell, recovery at the next start."""
        os.kill(self.server.pid, signal.SIGQUIT)
        self.stop()

    def pause(self) -> None:
        """Let all of it stand still: connections stay open, and nobody is answered."""
        os.kill(self.server.pid, signal.SIGSTOP)  # First: it makes no more of the others.
        for pid in children_of(self.server.pid):
            os.kill(pid, signal.SIGSTOP)

    def resume(self) -> None:
        for pid in (*children_of(self.server.pid), self.server.pid):
            os.kill(pid, signal.SIGCONT)

    def stop(self) -> None:
        self._running.close()


def children_of(parent: int) -> list[int]:
    """Return the processes that a process has started."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # It may have ended.
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[1]) == parent:
                found.append(int(stat.parent.name))
    return found


@contextlib.contextmanager
def machine() -> Iterator[Machine]:
    """Run a machine in a folder in memory."""
    with scratch_folder() as folder:
        made = Machine(folder)
        made.start()
        try:
            yield made
        finally:
            made.stop()


@dataclass
class Round:
    """What was tried in one round, by what became of it."""

    acknowledged: list[list[Fact]] = field(default_factory=list)
    refused: list[list[Fact]] = field(default_factory=list)
    unknown: list[list[Fact]] = field(default_factory=list)


class World:
    """Two nodes behind a proxy, a witness beside it, and a follower that never looks back."""

    def __init__(self, machine: Machine, proxy: Proxy, random: Random) -> None:
        self.machine, self.proxy, self.random = machine, proxy, random
        self.nodes: list[PostgresLedger] = []
        self.seen: list[Position] = []
        self.found: Counter[str] = Counter()
        self.tally: Counter[str] = Counter()
        self.problems: list[str] = []
        self.clock = Instant(1_763_000_000_000_000)

    # -- faults --

    def faults(self) -> dict[str, Callable[[str], Awaitable[None]]]:
        return {
            "before": self._cut(Cut.BEFORE),
            "within": self._cut(Cut.WITHIN),
            "answered": self._cut(Cut.ANSWERED),
            "late": self._cut(Cut.LATE),
            "everything": self._cut_everything,
            "still": self._stand_still,
            "ended": self._end_processes,
            "crash": self._crash,
        }

    def _cut(self, cut: Cut) -> Callable[[str], Awaitable[None]]:
        async def strike(round: str) -> None:
            players = [f"{round}{n}.{t}." for n in range(NODES) for t in range(TASKS)]
            for _ in range(self.random.randint(1, 3)):
                append = self.random.randrange(APPENDS)
                self.proxy.cut_at(f"{self.random.choice(players)}{append}/".encode(), cut)

        return strike

    async def _cut_everything(self, _round: str) -> None:
        await asyncio.sleep(self.random.uniform(0, 0.05))
        self.proxy.accepting = self.random.random() < 0.5
        self.proxy.cut()
        await asyncio.sleep(self.random.uniform(0, 0.7))
        self.proxy.accepting = True

    async def _stand_still(self, _round: str) -> None:
        await asyncio.sleep(self.random.uniform(0, 0.05))
        self.proxy.pause()
        await asyncio.sleep(self.random.uniform(0, 2.0))
        self.proxy.resume()

    async def _end_processes(self, _round: str) -> None:
        await asyncio.sleep(self.random.uniform(0, 0.05))
        database = await asyncpg.connect(self.machine.server.url)
        try:
            await database.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name LIKE 'rankd node%'"
            )
        finally:
            await database.close()

    async def _crash(self, _round: str) -> None:
        await asyncio.sleep(self.random.uniform(0, 0.08))
        await asyncio.to_thread(self.machine.crash)
        self.proxy.cut()
        await asyncio.to_thread(self.machine.start)
        self.proxy.to = self.machine.server.port
        self.tally["crashes"] += 1

    # -- a round --

    async def round(self, number: int) -> None:
        """Let a fault strike while everybody appends, and judge."""
        name, made = f"r{number:05d}n", Round()
        kind = self.random.choice(sorted(self.faults()))
        self.tally[f"fault {kind}"] += 1
        appenders = [
            self._appender(node, f"{name}{number_}.{task}.", made)
            for number_, node in enumerate(self.nodes)
            for task in range(TASKS)
        ]
        await asyncio.gather(self.faults()[kind](name), *appenders)
        await self._heal()
        await self._judge(number, kind, made)

    async def _appender(self, node: PostgresLedger, name: str, made: Round) -> None:
        for append in range(APPENDS):
            facts: list[Fact] = [
                ScoreSubmitted(
                    "b",
                    f"{name}{append}/{place}",
                    scores=(place,),
                    key=f"{name}{append}/{place}" if self.random.random() < 0.5 else None,
                )
                for place in range(self.random.choice((1, 1, 2, 5, 40)))
            ]
            try:
                appended = await node.append(facts, now=self.clock)
            except LedgerUnavailable as exc:
                (made.refused if exc.applied == "no" else made.unknown).append(facts)
                await asyncio.sleep(0.01)
            else:
                made.acknowledged.append(facts)
                if appended.first_uses:
                    self.problems.append(f"{name}: a key was called used that was new")

    async def _heal(self) -> None:
        """Wait until every node works, and let what was held back arrive."""
        self.proxy.accepting = True
        self.proxy.resume()
        self.proxy.forget()
        self.proxy.deliver()
        async with asyncio.timeout(WORKS_SECONDS_MAX):
            for node in self.nodes:
                while True:
                    try:
                        await node.append([], now=Instant(0))
                        await node.head()
                        break
                    except LedgerUnavailable:
                        await asyncio.sleep(0.02)

    async def _judge(self, number: int, kind: str, made: Round) -> None:
        await self._follow()
        for facts in made.acknowledged:
            self._expect(facts, {1}, f"round {number}, {kind}: acknowledged")
        for facts in made.refused:
            self._expect(facts, {0}, f"round {number}, {kind}: refused")
        for facts in made.unknown:
            self._expect(facts, {0, 1}, f"round {number}, {kind}: unknown")
            retried = [each for each in facts if isinstance(each, ScoreSubmitted) and each.key]
            await self.nodes[0].append(retried, now=self.clock)
            await self._follow()
            self._expect(retried, {1}, f"round {number}, {kind}: unknown and sent again")
        for answer in ("acknowledged", "refused", "unknown"):
            self.tally[answer] += sum(map(len, getattr(made, answer)))

    def _expect(self, facts: list[Fact] | list[ScoreSubmitted], times: set[int], of: str) -> None:
        counts = {self.found[each.player] for each in facts if isinstance(each, ScoreSubmitted)}
        if not counts <= times:
            self.problems.append(f"{of}, and there {sorted(counts)} times")
        if len(counts) > 1 and "unknown" in of:
            self.problems.append(f"{of}, and there in part")

    async def _follow(self) -> None:
        """Read on, from where the last read ended."""
        async with self._witness() as witness:
            while True:
                after = self.seen[-1] if self.seen else Position(0)
                page = await witness.read(after=after, limit=500)
                if not page:
                    break
                for recorded in page:
                    self.seen.append(recorded.position)
                    if isinstance(recorded.fact, ScoreSubmitted):
                        self.found[recorded.fact.player] += 1

    async def verify(self) -> None:
        """Verify all, and see whether the follower missed anything."""
        async with self._witness() as witness:
            async for _ in witness.verify():
                pass
            if self.seen != list(range(1, await witness.head() + 1)):
                self.problems.append("a follower missed positions, or met one twice")

    @contextlib.asynccontextmanager
    async def _witness(self) -> AsyncIterator[PostgresLedger]:
        async with PostgresLedger.open(self.machine.server.url, node="witness") as witness:
            yield witness


async def campaign(rounds: int, seed: int, say: Callable[[str], None]) -> World:
    """Live through so many rounds; what is wrong is in the world's problems."""
    with machine() as made:
        async with contextlib.AsyncExitStack() as stack:
            proxy = await stack.enter_async_context(Proxy.open(HOST, made.server.port))
            world = World(made, proxy, Random(seed))
            url = f"postgresql://rankd@{HOST}:{proxy.port}/postgres"
            for number, timeouts in enumerate((Timeouts(), HURRIED)):
                opened = PostgresLedger.open(url, node=f"node{number}", timeouts=timeouts)
                world.nodes.append(await stack.enter_async_context(opened))
            for number in range(rounds):
                await world.round(number)
                if (number + 1) % VERIFIED_ROUNDS == 0:
                    await world.verify()
                    say(f"{number + 1} rounds, {dict(world.tally)}, {len(world.problems)} problems")
            await world.verify()
            return world


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=time.time_ns() & 0xFFFF_FFFF)
    given = parser.parse_args()
    _say(f"python -m tests.simulation.postgres_faults --rounds {given.rounds} --seed {given.seed}")
    logging.disable(logging.ERROR)  # Everything it would say is meant to happen.
    begun = time.monotonic()
    world = asyncio.run(campaign(given.rounds, given.seed, _say))
    for name, many in sorted(world.tally.items()):
        _say(f"  {name:20} {many:,}")
    _say(
        f"{given.rounds} rounds in {time.monotonic() - begun:.0f} s: {len(world.problems)} problems"
    )
    for problem in world.problems[:20]:
        _say(f"  seed {given.seed}: {problem}")
    return 1 if world.problems else 0


if __name__ == "__main__":
    sys.exit(main())

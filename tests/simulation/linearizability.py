"""Histories of a prize board: clients of three nodes, faults, and the check of all that was said.

Each history has a board of its own. Clients add to players' sums and read standings, each from any
node, while nodes are killed and stopped, and their connections to PostgreSQL and Redis break. Every
call is noted with its start and end by one clock; in the end the ledger is read past all nodes,
and the history is checked (linearizability_check.py).

    python -m tests.simulation.linearizability --histories 100 --operations 10000
    python -m tests.simulation.linearizability --index redis --seed 7
"""

import argparse
import asyncio
import contextlib
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.simulation.linearizability_check import (
    PAGE_LENGTH,
    History,
    LedgerWrite,
    Read,
    Row,
    Write,
    violations,
)
from tests.simulation.nodes_world import (
    Heard,
    Line,
    Lost,
    Node,
    NotSent,
    TooLate,
    called,
    redis_machine,
    until,
)
from tests.simulation.postgres_servers import new_ledger, postgres

from rankd.adapters.postgres.ledger import PostgresLedger
from rankd.model.facts import Position, ScoreSubmitted
from rankd.testing.proxy import Proxy
from rankd.testing.servers import HOST, PostgresServer

BOARD = {"rule": "sum", "prize": True, "windows": ["all"]}
PLAYERS = [f"p{number}" for number in range(8)]
NODES = 3

TRIES_MAX = 6
"""How often a client sends a write that was not answered, each time to another node."""

REST_SECONDS = 0.02
"""After a call that was refused: a node that has lost its ledger refuses at once."""

STARTS_MAX = 5
"""How often a node that was killed is started."""

FACTS_TOGETHER = 5_000


class Plan(NamedTuple):
    """What a campaign does."""

    histories: int = 1
    operations: int = 2_000
    """Calls of each history."""
    clients: int = 32
    seed: int = 1
    kind: str = "native"
    """Of the index."""
    faults: tuple[str, ...] = ("kill", "pause", "cut", "silence")


@dataclass
class Findings:
    """What a campaign found."""

    problems: list[str] = field(default_factory=list)
    histories: int = 0
    writes: int = 0
    unknown: int = 0
    reads: int = 0
    refused: int = 0
    struck: Counter[str] = field(default_factory=Counter)


@dataclass
class World:
    """Three nodes over one PostgreSQL, and the ways to it."""

    nodes: list[Node]
    wires: list[Proxy]
    ledger: str
    """Past all wires."""
    to_redis: Proxy | None


# -------------------------------------------------------------------------------- clients


class Client:
    """A client: one call after the other, each to any node."""

    def __init__(self, number: int, board: str, world: World, seed: int, history: History) -> None:
        self._name, self._board, self._history = f"c{number}", board, history
        self._dice = random.Random(f"{seed}:{board}:{number}")
        self._lines = [Line(node) for node in world.nodes]
        self._sent = 0
        self.refused = 0

    async def run(self, calls: list[None]) -> None:
        """Take calls until there are none left."""
        while calls:
            calls.pop()
            done = await (self._write() if self._dice.random() < 0.5 else self._read())
            if not done:
                self.refused += 1
                await asyncio.sleep(REST_SECONDS)
        for line in self._lines:
            line.close()

    async def _write(self) -> bool:
        self._sent += 1
        key, player = f"{self._name}:{self._sent}", self._dice.choice(PLAYERS)
        write = Write(key, player, self._dice.randrange(1, 100), time.monotonic_ns())
        self._history.writes.append(write)
        body = {"player": player, "delta": write.delta, "key": key}
        certain = True
        for _ in range(TRIES_MAX):
            heard = await self._ask("POST", f"/v1/boards/{self._board}/scores", body)
            if isinstance(heard, Heard) and heard.status == 200:
                write.end, write.outcome = time.monotonic_ns(), "done"
                write.position, write.score = heard.body["position"], heard.body["score"]
                return True
            refused = isinstance(heard, Heard) and heard.body.get("applied") == "no"
            certain = certain and (refused or isinstance(heard, NotSent))
            await asyncio.sleep(REST_SECONDS)
        write.outcome = "refused" if certain else "unknown"
        return False

    async def _read(self) -> bool:
        player = self._dice.choice([None, *PLAYERS])
        path = f"/v1/boards/{self._board}/standings"
        path += f"?limit={PAGE_LENGTH}" if player is None else f"/{player}"
        start = time.monotonic_ns()
        heard = await self._ask("GET", path)
        end = time.monotonic_ns()
        if not isinstance(heard, Heard) or heard.status != 200:
            return isinstance(heard, Heard) and heard.status == 404
        rows = heard.body["standings"] if player is None else [heard.body]
        shown = [Row(row["rank"], row["player"], row["score"]) for row in rows]
        read = Read(start, end, heard.body["as_of"], heard.body["total"], shown, player)
        self._history.reads.append(read)
        return True

    async def _ask(self, method: str, path: str, body: object = None) -> Heard | NotSent | Lost:
        line = self._dice.choice(self._lines)
        try:
            return await line.ask(method, path, body)
        except (NotSent, Lost) as exc:
            return exc


# --------------------------------------------------------------------------------- faults


async def kill(world: World, dice: random.Random) -> None:
    """A node is killed, and started again."""
    node = dice.choice(world.nodes)
    node.hung_up.set()  # Calls to it are lost at once.
    await asyncio.to_thread(node.kill)
    await asyncio.sleep(dice.random() / 2)
    for left in reversed(range(STARTS_MAX)):
        try:
            await node.start()
            break
        except TooLate:  # PostgreSQL did not answer it in time on a busy machine.
            node.kill()
            if not left:
                raise
    node.hung_up.clear()


async def pause(world: World, dice: random.Random) -> None:
    """A node stands still, and goes on where it was."""
    node = dice.choice(world.nodes)
    node.send(signal.SIGSTOP)
    await asyncio.sleep(0.2 + dice.random())
    node.send(signal.SIGCONT)


async def cut(world: World, dice: random.Random) -> None:
    """The connections of some nodes to PostgreSQL break."""
    for wire in dice.sample(world.wires, dice.randrange(1, NODES + 1)):
        wire.cut()


async def silence(world: World, dice: random.Random) -> None:
    """PostgreSQL says nothing to one node for a while."""
    wire = dice.choice(world.wires)
    wire.pause()
    await asyncio.sleep(0.2 + dice.random())
    wire.resume()


async def cut_redis(world: World, _dice: random.Random) -> None:
    """All connections to Redis break."""
    if world.to_redis is not None:
        world.to_redis.cut()


FAULTS: dict[str, Callable[[World, random.Random], Awaitable[None]]] = {
    "kill": kill,
    "pause": pause,
    "cut": cut,
    "silence": silence,
    "redis-cut": cut_redis,
}


# ------------------------------------------------------------------------------ histories


async def live(plan: Plan, tell: Callable[[str], object] = lambda _: None) -> Findings:
    """Live histories one after the other, and check each."""
    findings = Findings()
    async with contextlib.AsyncExitStack() as stack:
        server = stack.enter_context(postgres())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        world = await _set_up(stack, server, folder, plan.kind)
        for number in range(plan.histories):
            await _live_one(world, plan, number, findings)
            tell(
                f"{findings.histories} histories: {findings.writes} writes, "
                f"{findings.reads} reads, {findings.unknown} unknown, {findings.refused} refused, "
                f"{sum(findings.struck.values())} faults, {len(findings.problems)} violations"
            )
    return findings


async def _set_up(
    stack: contextlib.AsyncExitStack, server: PostgresServer, folder: Path, index: str
) -> World:
    to_redis, where = None, "native"
    if index == "redis":
        redis = stack.enter_context(redis_machine())
        to_redis = await stack.enter_async_context(Proxy.open(HOST, redis.server.port))
        where = f"redis://{HOST}:{to_redis.port}/0?timeout=1"
    ledger = new_ledger(server.url)
    schema = ledger.partition("?")[2]
    nodes, wires = [], []
    for number in range(NODES):
        wire = await stack.enter_async_context(Proxy.open(HOST, server.port))
        url = f"postgresql://rankd@{HOST}:{wire.port}/postgres?{schema}"
        node = Node(f"n{number}", folder / f"n{number}", url, where, wire=wire)
        stack.callback(node.kill)
        nodes.append(node)
        wires.append(wire)
    await asyncio.gather(*(node.start() for node in nodes))
    return World(nodes, wires, ledger, to_redis)


async def _live_one(world: World, plan: Plan, number: int, findings: Findings) -> None:
    board, dice = f"h{number}", random.Random(f"{plan.seed}:{number}")
    for node in world.nodes:
        await until(partial(_is_defined, node, board), f"{board} was defined")
    history, calls = History([], [], []), [None] * plan.operations
    clients = [Client(one, board, world, plan.seed, history) for one in range(plan.clients)]
    striking = asyncio.create_task(_strike(world, plan, dice, calls, findings))
    await asyncio.gather(*(client.run(calls) for client in clients))
    await striking
    history.ledger = await _recorded(world.ledger, board)
    command = f"--seed {plan.seed} --index {plan.kind}, history {number}"
    findings.problems += [f"{command}: {problem}" for problem in violations(history)]
    findings.histories += 1
    findings.writes += sum(one.outcome == "done" for one in history.writes)
    findings.unknown += sum(one.outcome == "unknown" for one in history.writes)
    findings.reads += len(history.reads)
    findings.refused += sum(client.refused for client in clients)


async def _strike(
    world: World, plan: Plan, dice: random.Random, calls: list[None], findings: Findings
) -> None:
    """Let every fault strike once, in any order, spread over the history."""
    faults = dice.sample(plan.faults, len(plan.faults))
    for number, name in enumerate(faults, 1):
        left = plan.operations * (len(faults) + 1 - number) // (len(faults) + 1)
        while len(calls) > left:  # noqa: ASYNC110 - clients, which tell nobody
            await asyncio.sleep(0.01)
        await FAULTS[name](world, dice)
        findings.struck[name] += 1


async def _is_defined(node: Node, board: str) -> bool:
    heard = await called(node, "PUT", f"/v1/boards/{board}", BOARD)
    return heard is not None and heard.status in (200, 201)


async def _recorded(url: str, board: str) -> list[LedgerWrite]:
    """Return the writes to a board, read past all nodes."""
    found: list[LedgerWrite] = []
    async with PostgresLedger.open(url, node="witness") as ledger:
        after = Position(0)
        while facts := await ledger.read(after=after, limit=FACTS_TOGETHER):
            after = facts[-1].position
            for one in facts:
                fact = one.fact
                if isinstance(fact, ScoreSubmitted) and fact.board == board:
                    delta = fact.delta or 0
                    found.append(LedgerWrite(one.position, fact.key or "", fact.player, delta))
    return found


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Run a campaign; end with an error if a history is not linearizable."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=10)
    parser.add_argument("--operations", type=int, default=2_000)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--index", choices=("native", "redis"), default="native")
    given = parser.parse_args()
    faults = Plan().faults + (("redis-cut",) if given.index == "redis" else ())
    plan = Plan(given.histories, given.operations, given.clients, given.seed, given.index, faults)
    findings = asyncio.run(live(plan, _say))
    for problem in findings.problems[:20]:
        sys.stderr.write(f"{problem}\n")
    _say(f"seed {plan.seed}, {plan.kind}: {dict(findings.struck)}")
    return 1 if findings.problems else 0


if __name__ == "__main__":
    sys.exit(main())

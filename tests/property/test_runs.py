"""Runs that race on several nodes count once each, and never again.

Method: two nodes over one ledger in PostgreSQL, with indexes of their own or one in Redis, are sent
submissions in random order: with fresh runs, used ones, runs of others, each to one node or to both
at once. The model is a set of used runs. In the end both nodes have the totals of the model, and
folding the ledger from scratch agrees.
"""

import asyncio
import random
from contextlib import AsyncExitStack, nullcontext
from typing import Any

import pytest
from tests.simulation.postgres_servers import new_ledger
from tests.unit.core.doubles import SetClock

from rankd.bootstrap import EngineConfig, engine
from rankd.core.engine import Engine
from rankd.core.writer import WriteResult
from rankd.errors import RunInvalid
from rankd.testing.servers import PostgresServer, RedisServer

pytestmark = [pytest.mark.servers, pytest.mark.timeout(300)]

STEPS = 60
PLAYERS = ("ann", "bob")


async def submit(node: Engine, player: str, run: str) -> WriteResult | RunInvalid:
    body: dict[str, Any] = {"player": player, "score": 1, "run": run}
    try:
        (answer,) = await node.submit("b", [body])
    except RunInvalid as refused:
        return refused
    return answer


def counts(answer: WriteResult | RunInvalid) -> bool:
    return (
        not isinstance(answer, RunInvalid)
        and answer.receipt is not None
        and not answer.receipt.rejected
    )


async def play(places: list[EngineConfig], seed: int) -> None:
    dice = random.Random(seed)
    async with AsyncExitStack() as opened:
        nodes = [
            (
                await opened.enter_async_context(
                    engine(place, clock=SetClock(), reading=nullcontext(), tell=lambda _: None)
                )
            ).rankd
            for place in places
        ]
        await nodes[0].define("b", {"rule": "sum"})
        runs: list[tuple[str, str]] = []
        used: set[str] = set()
        totals = dict.fromkeys(PLAYERS, 0)
        for _ in range(STEPS):
            if not runs or dice.random() < 0.4:
                player = dice.choice(PLAYERS)
                runs.append((player, (await dice.choice(nodes).runs.start("b", player)).run))
            player, run = dice.choice(runs)
            sender = player if dice.random() < 0.8 else dice.choice(PLAYERS)
            sent_to = dice.choices(nodes, k=dice.choice((1, 1, 2, 4)))
            answers = await asyncio.gather(*(submit(node, sender, run) for node in sent_to))
            expected = sender == player and run not in used
            assert sum(map(counts, answers)) == expected
            if expected:
                used.add(run)
                totals[player] += 1
        for node in nodes:
            (flush,) = await node.submit("b", [("cyd", 1)])
            assert flush.receipt is not None
            page = await node.reader.page("b")
            found = {one.player: one.scores[0] for one in page.standings if one.player != "cyd"}
            assert found == {player: total for player, total in totals.items() if total}
            async for _ in node.verify():
                pass


@pytest.mark.parametrize("seed", range(3))
def test_runs_race_on_nodes_over_postgresql(seed: int, shared_postgres: PostgresServer) -> None:
    url = new_ledger(shared_postgres.url)
    asyncio.run(play([EngineConfig(None, url, node=f"n{n}") for n in range(2)], seed))


@pytest.mark.parametrize("seed", range(2))
def test_runs_race_on_nodes_that_share_redis(
    seed: int, shared_postgres: PostgresServer, shared_redis: RedisServer
) -> None:
    url, index = new_ledger(shared_postgres.url), f"{shared_redis.url}?prefix=runs{seed}"
    asyncio.run(play([EngineConfig(None, url, index, node=f"n{n}") for n in range(2)], seed))

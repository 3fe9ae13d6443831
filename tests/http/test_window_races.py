"""Steps of windows and claims that two nodes take at once, over PostgreSQL: each is taken once."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.cli.running import serving
from tests.simulation.postgres_servers import new_ledger

from rankd import schemas
from rankd.client import AsyncClient
from rankd.testing.servers import PostgresServer

ROUNDS = 4
MANAGERS = 3
"""Of each node, all asking at once."""
PLAYERS = [f"p{number}" for number in range(6)]
BOARD = {
    "windows": ["daily", "all"],
    "prize": True,
    "rewards": [{"top_percent": 50, "give": {"gems": 5}}, {"ranks": [1, 1], "amount": "1.00"}],
}
T = TypeVar("T")


async def at_once(asked: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    return list(await asyncio.gather(*asked))


@pytest.mark.servers
@pytest.mark.timeout(300)
def test_two_nodes_take_each_step_and_claim_once(
    tmp_path: Path, shared_postgres: PostgresServer
) -> None:
    ledger = new_ledger(shared_postgres.url)

    async def test() -> None:
        async with contextlib.AsyncExitStack() as stack:
            clients = []
            for name in ("one", "other"):
                (tmp_path / name).mkdir()
                options = ("--ledger", ledger, "--node", name)
                served = stack.enter_context(serving(tmp_path / name, *options))
                clients.append(await stack.enter_async_context(AsyncClient(served.url)))
            await clients[0].define("b", BOARD)
            while not (await clients[1].boards()).boards:  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.05)
            for number in range(ROUNDS):
                await race(clients, number)
            kinds = Counter({"window_sealed": ROUNDS, "window_settled": ROUNDS})
            kinds += Counter({"rewards_given": 2 * ROUNDS, "reward_claimed": 4 * ROUNDS})
            for kind, count in kinds.items():
                found = await clients[0].facts(kind=kind, limit=1000)
                assert len(found.facts) == count, kind

    asyncio.run(test())


async def race(clients: Sequence[AsyncClient], number: int) -> None:
    """Play a day, and have all managers end it, settle it, and pay its rewards."""
    every = [client for client in clients for _ in range(MANAGERS)]
    reason = f"day {number}"
    for place, player in enumerate(PLAYERS):
        await clients[place % 2].submit("b", player, 100 - place)
    resets = await at_once([one.reset_window("b", "daily", reason=reason) for one in every])
    window = once(resets)
    assert len({one.opened.window for one in resets if one.opened}) == 1
    settled = await at_once([one.settle_window("b", window, reason=reason) for one in every])
    assert once(settled) == window and {one.state for one in settled} == {"final"}
    lists = await at_once([one.rewards("b", window) for one in clients])
    assert lists[0].rewards == lists[1].rewards
    given = [(one.player, one.band) for one in lists[0].rewards]
    assert given == [("p0", 0), ("p1", 0), ("p2", 0), ("p0", 1)]
    for reward in lists[0].rewards:
        claims = await at_once([one.claim_reward("b", window, reward.id) for one in every])
        assert [one.changed for one in claims].count(True) == 1
        assert len({one.claimed_at for one in claims}) == 1


def once(steps: Sequence[schemas.WindowStep]) -> str:
    """Return the window of a step that one manager took and all others found taken."""
    assert [one.changed for one in steps].count(True) == 1
    (window,) = {one.window for one in steps}
    return window

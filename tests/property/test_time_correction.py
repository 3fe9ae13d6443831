"""A corrected time leaves windows and archives as one that was never wrong does.

Method: see time_games.py. A commit plays some games in memory, and a few on every kind of ledger
and index that a service may have, through restarts, saved indexes and, where nodes share the
ledger, on two of them.
"""

import asyncio
import os
from functools import partial
from pathlib import Path

import asyncpg  # type: ignore[import-untyped]
import pytest
from tests.property.time_games import IN_MEMORY, compare
from tests.simulation.postgres_servers import new_ledger

from rankd.adapters.postgres.database import PostgresAddress
from rankd.bootstrap import EngineConfig
from rankd.core.engine import Engine
from rankd.testing.servers import PostgresServer, RedisServer

WINDOWS = """
    SELECT window_id, since, sealed_position
      FROM rankd.windows
     WHERE board = $1 AND dropped_at IS NULL
"""

LONG = os.environ.get("RANKD_HYPOTHESIS") == "long"
GAMES = 2_000 if LONG else 60
GAMES_ON_DISK = 40 if LONG else 8

pytestmark = pytest.mark.timeout(3_600 if LONG else 300)


async def insist_on_view(url: str, rankd: Engine) -> None:
    """Compare the windows that SQL shows with those of the engine."""
    address = PostgresAddress.parse(url)
    connection = await asyncpg.connect(address.url)
    try:
        for name, page in rankd.state.boards.items():
            rows = await connection.fetch(address.sql(WINDOWS), name)
            shown = {(row["window_id"], row["sealed_position"]) for row in rows}
            closed = {(id, sealed.through) for id, sealed in page.sealed.items()}
            assert closed <= shown, (name, closed - shown)
            open_in_view = {
                row["window_id"]
                for row in rows
                if row["sealed_position"] is None and row["since"] == page.defined_at
            }
            assert open_in_view == {opened.window.id for opened in page.windows.values()}, name
    finally:
        await connection.close()


def test_corrected_games_in_memory_are_as_right_ones() -> None:
    for seed in range(GAMES):
        asyncio.run(compare(IN_MEMORY, seed))


@pytest.mark.parametrize("seed", range(100, 100 + GAMES_ON_DISK))
def test_corrected_games_in_a_folder_are_as_right_ones(seed: int, tmp_path: Path) -> None:
    asyncio.run(compare(EngineConfig.of(tmp_path / "game"), seed))


@pytest.mark.parametrize("seed", range(200, 200 + GAMES_ON_DISK))
def test_corrected_games_on_postgresql_are_as_right_ones(
    seed: int, shared_postgres: PostgresServer, tmp_path: Path
) -> None:
    url = new_ledger(shared_postgres.url)
    asyncio.run(compare(EngineConfig(tmp_path, url), seed, partial(insist_on_view, url)))


@pytest.mark.parametrize("seed", range(300, 300 + GAMES_ON_DISK))
def test_corrected_games_with_redis_are_as_right_ones(
    seed: int, shared_postgres: PostgresServer, shared_redis: RedisServer
) -> None:
    index = f"{shared_redis.url}?prefix=game{seed}"
    asyncio.run(compare(EngineConfig(None, new_ledger(shared_postgres.url), index), seed))

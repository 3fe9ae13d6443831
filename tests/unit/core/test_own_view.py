"""Reads of a shadowed player over an index of this process, and over one that changes meanwhile."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Any, cast

import pytest
from tests.unit.core.doubles import FarIndex, SetClock, SharedLedger, bare, engine

from rankd.adapters.memory.ledger import MemoryLedger
from rankd.core import own_view
from rankd.core.assembly import running
from rankd.core.cluster.recovery import SharedHome
from rankd.core.engine import Engine
from rankd.core.own_view import read_as_ranked
from rankd.core.reader import FoundStandings, Reader
from rankd.errors import IndexUnavailable
from rankd.model.standing import Rank

pytestmark = pytest.mark.anyio

SCORES = [("ann", 10), ("bob", 30), ("eve", 20)]


@asynccontextmanager
async def shared() -> AsyncIterator[tuple[Engine, FarIndex]]:
    index = FarIndex()
    async with running(
        ledger=SharedLedger(),
        build=bare,
        clock=SetClock(),
        reading=nullcontext(),
        shared=SharedHome(cast("Any", index)),
        manages=False,
    ) as rankd:
        await shadow(rankd)
        yield rankd, index


async def shadow(rankd: Engine) -> None:
    await rankd.define("b", {"windows": ["all", "daily"]})
    await rankd.submit("b", SCORES)
    await rankd.corrections.set_player_state("eve", "shadowed", {})


async def lookup(reader: Reader) -> FoundStandings:
    return await reader.lookup("b", ["ann", "bob", "eve"])


def placed(found: FoundStandings) -> list[tuple[int, str, int]]:
    return [(one.rank, one.player, one.scores[0]) for one in found.standings]


async def test_its_reads_agree_with_each_other() -> None:
    async with engine(MemoryLedger()) as rankd, shared() as (far, _):
        await shadow(rankd)
        for reader in (rankd.reader, far.reader):
            where = reader.where("b")
            page = await read_as_ranked(reader, where, "eve", lambda one: one.page("b"))
            assert list(page.players) == ["bob", "eve", "ann"]
            found = await read_as_ranked(reader, where, "eve", lookup)
            assert placed(found) == [(1, "bob", 30), (2, "eve", 20), (3, "ann", 10)]
            assert found.total == page.total == 3
            standing = await read_as_ranked(
                reader, where, "eve", lambda one: one.standing("b", "ann", window="daily")
            )
            assert standing is not None
            assert (standing.rank, standing.total) == (2, 2), "of another window than was named"


async def test_a_read_is_repeated_if_the_entry_changes_meanwhile() -> None:
    async with shared() as (rankd, _):
        reader, left = rankd.reader, 2

        async def read(one: Reader) -> FoundStandings:
            nonlocal left
            left -= 1
            if left:
                await rankd.submit("b", [("eve", 40)])
            return await lookup(one)

        found = await read_as_ranked(reader, reader.where("b"), "eve", read)
        assert placed(found)[0] == (Rank(1), "eve", 40)
        assert found.as_of == rankd.position


async def test_a_player_that_is_restored_meanwhile_is_there_once() -> None:
    async with shared() as (rankd, _):
        reader = rankd.reader

        async def read(one: Reader) -> FoundStandings:
            await rankd.corrections.set_player_state("eve", "active", {})
            return await lookup(one)

        found = await read_as_ranked(reader, reader.where("b"), "eve", read)
        assert placed(found) == [(1, "bob", 30), (2, "eve", 20), (3, "ann", 10)]
        assert found.total == 3


async def test_a_read_ends_though_the_entry_changes_all_the_time() -> None:
    async with shared() as (rankd, _):
        reader, asked = rankd.reader, 0

        async def read(one: Reader) -> FoundStandings:
            nonlocal asked
            asked += 1
            await rankd.submit("b", [("eve", 100 + asked)])
            return await lookup(one)

        with pytest.raises(IndexUnavailable):
            await read_as_ranked(reader, reader.where("b"), "eve", read)
        assert asked == own_view.TRIES_MAX


async def test_without_the_index_it_is_refused() -> None:
    """What is kept elsewhere would tell it that it is not ranked."""
    async with shared() as (rankd, index):
        index.cut = True
        with pytest.raises(IndexUnavailable):
            await read_as_ranked(rankd.reader, rankd.reader.where("b"), "eve", lookup)

"""Searches look at every player, some at a time, and are bounded."""

import asyncio
from typing import Any

import pytest
from tests.unit.core.doubles import FaultyLedger, SetClock, engine

from rankd.core.read_engine import SEARCHES_MAX, SLICE_PLAYERS, FoundPlayers, PlayerSearch
from rankd.errors import InvalidPage, Overloaded
from rankd.model.standing import PAGE_LIMIT_MAX

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_pages_hold_every_player_once_in_the_order_of_ids() -> None:
    players = [f"p{n}" for n in range(2 * SLICE_PLAYERS + 7)]
    async with engine(FaultyLedger(), SetClock()) as rankd:
        await rankd.define("b", {})
        for first in range(0, len(players), 1_000):
            some = players[first : first + 1_000]
            await rankd.submit("b", [{"player": player, "score": 1} for player in some])
        search, found = PlayerSearch(rankd), list[str]()
        after: str | None = ""
        while after is not None:
            page = await search.find("p", after=after, limit=1_000)
            found += [one.player for one in page.players]
            after = page.next_after
        assert found == sorted(players)


async def test_more_searches_than_may_wait_are_refused() -> None:
    async with engine(FaultyLedger(), SetClock()) as rankd:
        await rankd.define("b", {})
        await rankd.submit("b", [{"player": "q", "score": 1}])
        search = PlayerSearch(rankd)
        asked = [search.find("p", after="", limit=1) for _ in range(SEARCHES_MAX + 2)]
        told = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(one) for one in told] == [FoundPlayers] * SEARCHES_MAX + [Overloaded] * 2
        assert await search.find("p", after="", limit=1) == ([], None)


@pytest.mark.parametrize(("query", "limit"), [("", 1), ("p", 0), ("p", PAGE_LIMIT_MAX + 1)])
async def test_searches_for_nothing_and_for_too_many_are_refused(query: str, limit: int) -> None:
    async with engine(FaultyLedger(), SetClock()) as rankd:
        with pytest.raises(InvalidPage):
            await PlayerSearch(rankd).find(query, after=None, limit=limit)


async def test_players_that_come_while_others_are_looked_at_do_no_harm() -> None:
    async with engine(FaultyLedger(), SetClock()) as rankd:
        await rankd.define("b", {})
        await rankd.profile("p0", {"name": "Ann"})
        searching = asyncio.create_task(PlayerSearch(rankd).find("p", after=None, limit=9))
        for n in range(1, 5):
            await rankd.profile(f"p{n}", {"name": "Ann"})
            await rankd.submit("b", [{"player": f"p{n}", "score": n}])
        assert (await searching).players[0] == ("p0", "Ann", {})


@pytest.mark.parametrize("state", ["banned", "hidden", "shadowed"])
async def test_players_are_not_found_by_scores_that_are_not_ranked(state: Any) -> None:
    async with engine(FaultyLedger(), SetClock()) as rankd:
        for board in ("b", "c"):
            await rankd.define(board, {"windows": ["all"]})
        await rankd.submit("b", [("p1", 1), ("p2", 1), ("p3", 1)])
        await rankd.submit("c", [("p2", 1)])
        await rankd.profile("p3", {"name": "Ann"})
        for player in ("p1", "p2", "p3"):
            boards = {"boards": ["b"]} if player == "p2" else {}
            await rankd.corrections.set_player_state(player, state, boards)
        search = PlayerSearch(rankd)

        async def found(viewer: str | None) -> list[str]:
            page = await search.find("p", after=None, limit=9, viewer=viewer)
            return [one.player for one in page.players]

        assert await found(None) == await found("p2") == ["p2", "p3"]
        assert await found("p1") == (["p1", "p2", "p3"] if state == "shadowed" else ["p2", "p3"])
        await rankd.corrections.set_player_state("p1", "active", {})
        assert await found(None) == ["p1", "p2", "p3"]

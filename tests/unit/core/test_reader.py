"""The reader: answers that agree with one another, for every way of counting ties."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.core.doubles import DAY, HOUR, FaultyLedger, SetClock, engine

from rankd.errors import InvalidPage, NotRanked, UnknownBoard, UnknownWindow
from rankd.model.standing import Rank

pytestmark = pytest.mark.anyio
GAPPED = {"name": "shift", "start": "2026-11-14T12:00:00Z", "every": "1h", "gap": "1h"}


@pytest.mark.parametrize("ties", ["ordinal", "standard", "dense"])
async def test_all_ways_to_ask_for_a_rank_agree(ties: str) -> None:
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {"rule": "best", "windows": ["all"], "ties": ties})
        scores = [5, 5, 3, 3, 3, 9, 1]
        for number, score in enumerate(scores):
            await rankd.submit("b", [{"player": f"p{number}", "score": score}])
        read = rankd.reader
        page = (await read.page("b")).standings
        ranks = {one.player: one.rank for one in page}
        players = list(ranks)
        assert await read.ranks("b", players) == [ranks[player] for player in players]
        for player, rank in ranks.items():
            standing = await read.standing("b", player)
            assert standing is not None
            assert standing.rank == rank
            around = await read.around("b", player, above=1, below=1)
            assert rank in [one.rank for one in around.standings if one.player == player]
        found = await read.lookup("b", [*players, "nobody"])
        assert [one.player for one in found.standings] == players
        assert list(found.not_found) == ["nobody"]
        paged, cursor = [], None
        while True:
            some = await read.page("b", limit=2, cursor=cursor)
            paged += [(one.rank, one.player) for one in some.standings]
            cursor = some.next_cursor
            if cursor is None:
                break
        assert paged == [(one.rank, one.player) for one in page]
        projected = await read.rank_for("b", (3,))
        assert projected.rank == {"ordinal": 7, "standard": 4, "dense": 3}[ties]


async def test_a_player_is_found_on_boards_although_one_is_between_two_seasons() -> None:
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        await rankd.define("gapped", {"rule": "best", "windows": [GAPPED]})
        await rankd.define("b", {"rule": "best", "windows": ["all"]})
        for board in ("gapped", "b"):
            await rankd.submit(board, [{"player": "p", "score": 1}])
        assert [one.board for one, _ in await rankd.reader.standings("p")] == ["gapped", "b"]
        clock.time += HOUR
        await rankd.sealer.turn()
        assert [one.board for one, _ in await rankd.reader.standings("p")] == ["b"]


async def test_windows_are_found_by_name_by_id_and_by_how_long_ago() -> None:
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        await rankd.define("b", {"rule": "best", "windows": ["daily"]})
        await rankd.submit("b", [{"player": "old", "score": 1}])
        clock.time += DAY
        await rankd.submit("b", [{"player": "new", "score": 1}])

        async def in_window(text: str | None) -> list[str]:
            return [one.player for one in (await rankd.reader.page("b", window=text)).standings]

        for text in (None, "daily", "daily:2026-11-15"):
            assert await in_window(text) == ["new"]
        for text in ("daily:-1", "daily:2026-11-14"):
            assert await in_window(text) == ["old"]
        for text in ("weekly", "daily:2026-11-13", "daily:x", "all"):
            with pytest.raises(UnknownWindow):
                await in_window(text)


async def test_what_is_not_there_is_an_error_and_never_rank_zero() -> None:
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {"rule": "best", "windows": ["all"]})
        assert await rankd.reader.standing("b", "nobody") is None
        with pytest.raises(NotRanked):
            await rankd.reader.around("b", "nobody")
        with pytest.raises(UnknownBoard):
            await rankd.reader.standing("none", "p")
        with pytest.raises(InvalidPage):
            await rankd.reader.page("b", segment="region:eu")
        with pytest.raises(InvalidPage):
            await rankd.reader.scores_for("b", rank=Rank(0))
        assert (await rankd.reader.scores_for("b", percentile=50.0)).rank is None


async def test_names_come_from_the_profile_when_they_are_read() -> None:
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {"rule": "best", "windows": ["all"]})
        await rankd.submit("b", [{"player": "p", "score": 1}])
        for name in ("Ann", "Anna"):
            await rankd.profile("p", {"name": name, "friends": ["q"]})
            assert (await rankd.reader.page("b")).standings[0].name == name
        assert [one.player for one in (await rankd.reader.friends("b", "p")).standings] == ["p"]
        await rankd.erase("p")
        assert (await rankd.reader.page("b")).standings[0].name is None


@given(st.lists(st.integers(0, 5), max_size=15), st.integers(1, 4))
def test_pages_forth_and_back_by_cursors_are_the_same_pages(scores: list[int], limit: int) -> None:
    import asyncio

    async def paged() -> None:
        async with engine(FaultyLedger()) as rankd:
            await rankd.define("b", {"rule": "best", "windows": ["all"]})
            items = [{"player": f"p{n}", "score": score} for n, score in enumerate(scores)]
            await rankd.submit("b", items)
            pages = [await rankd.reader.page("b", limit=limit)]
            while (cursor := pages[-1].next_cursor) is not None:
                pages.append(await rankd.reader.page("b", limit=limit, cursor=cursor))
            assert sum(len(page.standings) for page in pages) == len(scores)
            for page in reversed(pages[1:]):
                before = await rankd.reader.page("b", limit=limit, cursor=page.prev_cursor)
                assert before.standings == pages[pages.index(page) - 1].standings

    asyncio.run(paged())

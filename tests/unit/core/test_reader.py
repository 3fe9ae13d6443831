"""The reader: answers that agree with one another, for every way of counting ties."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, ClassVar
from unittest.mock import ANY

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.core.doubles import DAY, HOUR, FaultyLedger, SetClock, bare, engine

from rankd.adapters.memory.index import NativeIndex
from rankd.core.engine import Engine
from rankd.core.reader import FoundStandings, Page, Reader
from rankd.core.recovery import IndexHome
from rankd.errors import InvalidPage, NotRanked, UnknownBoard, UnknownWindow
from rankd.model.facts import Position
from rankd.model.standing import Absent, Offset, Rank
from rankd.ports import Places, Ranked, Ranking

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
        assert [one.ranking.board for one, _ in await rankd.reader.standings("p")] == [
            "gapped",
            "b",
        ]
        clock.time += HOUR
        await rankd.sealer.turn()
        found = await rankd.reader.standings("p")
        assert [where.ranking.board for where, _ in found] == ["b"]


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


SEASON = {"name": "season", "every": "1d", "gap": "1d", "start": "2026-11-20T00:00:00Z"}
CUP = {"name": "cup", "start": "2026-11-20T00:00:00Z", "end": "2026-11-21T00:00:00Z"}


async def state_of(rankd: Engine, window: str | None = None) -> tuple[str, str, int]:
    page = await rankd.reader.page("b", window=window)
    assert (page.opens_at is not None) == (page.state == "scheduled")
    return page.ranking.window, page.state, page.total


async def after_days(definition: Mapping[str, object], days: int, *windows: str) -> list[object]:
    """What is read of windows after so many days, if the engine ran through them, and if not."""
    told: list[object] = []
    for running in (True, False):
        clock, ledger = SetClock(), FaultyLedger()
        async with engine(ledger, clock) as rankd:
            await rankd.define("b", definition)
            for _ in range(days if running else 0):
                clock.time += DAY
                await rankd.sealer.turn()
        clock.time += 0 if running else days * DAY
        async with engine(ledger, clock) as rankd:
            told.append([await state_of(rankd, window) for window in windows])
    assert told[0] == told[1]
    return told[0]  # type: ignore[return-value]


async def test_a_day_is_the_same_whether_the_engine_ran_in_it_or_not() -> None:
    assert await after_days({"windows": ["daily"]}, 3, "daily:-1", "daily:2026-11-15") == [
        ("daily:2026-11-16", "sealed", 0),
        ("daily:2026-11-15", "sealed", 0),
    ]


async def test_a_cup_is_the_same_whether_the_engine_ran_in_it_or_not() -> None:
    assert await after_days({"windows": [CUP]}, 9, "cup") == [("cup", "sealed", 0)]


async def test_a_day_that_retention_would_have_dropped_is_unknown() -> None:
    definition = {"windows": ["daily"], "retention": {"daily": "2d"}}
    assert await after_days(definition, 3, "daily:-2") == [("daily:2026-11-15", "sealed", 0)]
    for window in ("daily:-3", "daily:-4"):
        with pytest.raises(UnknownWindow):
            await after_days(definition, 4, window)


async def test_a_past_window_of_another_definition_is_not_shown_for_one_of_this() -> None:
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        await rankd.define("b", {"windows": ["daily"]})
        await rankd.submit("b", [{"player": "p", "score": 1}])
        clock.time += DAY
        await rankd.redefine("b", {"windows": [{"name": "daily", "at": "06:00"}]})
        clock.time += 2 * DAY
        await rankd.sealer.turn()
        assert await state_of(rankd, "daily:2026-11-14") == ("daily:2026-11-14", "sealed", 1)
        assert await state_of(rankd, "daily:-1") == ("daily:2026-11-16", "sealed", 0)
        with pytest.raises(UnknownWindow):
            await state_of(rankd, "daily:-3")


async def test_the_next_window_is_scheduled_under_the_id_it_opens_with() -> None:
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        await rankd.define("b", {"windows": ["all", CUP]})
        clock.time += 6 * DAY  # The 20th.
        await rankd.submit("b", [{"player": "p", "score": 1}])
        clock.time += DAY
        later = {**CUP, "start": "2026-11-24T00:00:00Z", "end": "2026-11-25T00:00:00Z"}
        await rankd.redefine("b", {"windows": ["all", later]})
        (coming,) = rankd.state.page("b").scheduled(rankd.ledger_time)
        assert coming.window.id == "cup~2"
        assert await rankd.reader.count(coming.ranking) == 0
        clock.time += 3 * DAY
        await rankd.sealer.turn()
        assert rankd.state.page("b").windows["cup"].window == coming.window


async def test_a_window_whose_time_has_come_is_scheduled_until_it_is_opened() -> None:
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        await rankd.define("b", {"windows": [SEASON]})
        clock.time += 6 * DAY
        page = rankd.state.page("b")
        (coming,) = page.scheduled(clock.time)
        assert coming.window.id == "season:1"
        assert page.find_window("season", clock.time) == coming
        await rankd.sealer.turn()
        assert page.scheduled(clock.time) == ()


async def test_what_comes_next_is_worked_out_again_once_it_may_be_another() -> None:
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        await rankd.define("b", {"windows": [SEASON]})
        page = rankd.state.page("b")
        first = page.scheduled(clock.time)
        assert page.scheduled(clock.time + 5 * DAY) is first
        clock.time += 8 * DAY  # The 22nd: nothing ran while season:1 was to be open.
        assert [one.window.id for one in page.scheduled(clock.time)] == ["season:2"]
        await rankd.redefine("b", {"windows": [{**SEASON, "start": "2026-11-30T00:00:00Z"}]})
        (later,) = page.scheduled(clock.time)
        assert (later.window.id, later.window.start) == (
            "season:1",
            clock.time + 8 * DAY - HOUR * 12,
        )


async def test_an_index_ahead_of_the_book_proves_that_a_window_is_open() -> None:
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        await rankd.define("b", {"windows": [SEASON]})
        where = rankd.reader.where("b")
        assert where.holding(0) == where
        assert (where.holding(1).state, where.holding(1).opens_at) == ("open", None)


async def test_what_names_no_window_is_told_when_the_next_begin() -> None:
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        await rankd.define("b", {"windows": ["all", SEASON]})
        known = r"its windows are all, season \(opens at 2026-11-20T00:00:00Z\)$"
        for text in ("season:-1", "daily"):
            with pytest.raises(UnknownWindow, match=known) as refusal:
                await state_of(rankd, text)
            assert refusal.value.opens_at == {"season": "2026-11-20T00:00:00Z"}


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


@pytest.mark.parametrize(
    ("ties", "ranks"),
    [("ordinal", [1, 2, 3, 4]), ("standard", [1, 2, 2, 4]), ("dense", [1, 2, 2, 3])],
)
async def test_a_projection_tells_a_rank_that_somebody_holds(ties: str, ranks: list[int]) -> None:
    """Entries are counted one by one, and the one that is met has the rank its ties give it."""
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {"windows": ["all"], "ties": ties})
        scores = [9, 7, 7, 5]
        for player, score in zip("abcd", scores, strict=True):
            await rankd.submit("b", [{"player": player, "score": score}])
        told = [await rankd.reader.scores_for("b", rank=Rank(n)) for n in (1, 2, 3, 4)]
        assert [(one.rank, one.scores) for one in told] == [
            (rank, (score,)) for rank, score in zip(ranks, scores, strict=True)
        ]
        page = await rankd.reader.page("b", from_rank=Rank(3), limit=1)
        assert (list(page.ranks), list(page.players)) == ([ranks[2]], ["c"])
        page = await rankd.reader.around_rank("b", Rank(2), reach=0)
        assert (list(page.ranks), list(page.players)) == ([ranks[1]], ["b"])
        share = await rankd.reader.scores_for("b", percentile=50.0)
        assert (share.rank, share.scores) == (ranks[2], (7,))
        nobody = await rankd.reader.scores_for("b", rank=Rank(5))
        assert (nobody.rank, nobody.scores) == (5, None)


# ------------------------------------------------------------ read like a list of standings


@pytest.mark.parametrize("decimals", [0, 2])
@pytest.mark.parametrize("ties", ["ordinal", "dense"])
async def test_a_page_is_read_like_the_list_of_its_standings(ties: str, decimals: int) -> None:
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {"ties": ties, "decimals": decimals})
        await rankd.profile("p3", {"name": "Ann"})
        scores = [5, 5, 3, 3, 3, 9, 1]
        for number, score in enumerate(scores):
            beside = {"metadata": {"car": "red"}} if number == 2 else {}
            await rankd.submit("b", [{"player": f"p{number}", "score": score, **beside}])
        page = await rankd.reader.page("b", limit=5)
        like_a_list(page)
        assert (len(page), page.total) == (5, 7)
        assert page == await rankd.reader.page("b", limit=5)
        assert page != await rankd.reader.page("b", limit=5, from_rank=Rank(2))
        beyond = await rankd.reader.page("b", from_rank=Rank(8))
        assert not beyond and beyond == []


async def test_a_look_up_is_read_like_the_list_of_its_standings() -> None:
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {})
        await rankd.submit("b", [(player, score) for score, player in enumerate("abcd")])
        found = await rankd.reader.lookup("b", ["a", "nobody", "d", "c"])
        like_a_list(found)
        assert [(one.player, one.rank, one.place) for one in found] == [
            ("d", 1, 1),
            ("c", 2, 2),
            ("a", 4, 3),
        ]
        assert (found[0].place, found.not_found) == (1, ["nobody"])
        nobody = await rankd.reader.lookup("b", ["nobody"])
        assert not nobody and nobody == [] and len(nobody) == 0


def like_a_list(read: Page | FoundStandings) -> None:
    """Whatever can be asked of a list of standings has the same answer."""
    whole = list(read.standings)
    assert isinstance(read, Sequence)
    assert [*read] == whole and len(read) == len(whole) and bool(read) == bool(whole)
    assert [*reversed(read)] == whole[::-1]
    for at in range(-len(whole), len(whole)):
        assert read[at] == whole[at]
        assert read.index(whole[at]) == whole.index(whole[at])
    for stretch in (slice(None), slice(1, 3), slice(-2, None), slice(None, None, -1)):
        assert read[stretch] == whole[stretch]
    for beyond in (len(whole), -len(whole) - 1):
        with pytest.raises(IndexError):
            read[beyond]
    assert whole[0] in read and read.count(whole[0]) == 1 and "ann" not in read
    assert read == whole and whole == read
    assert read != whole[1:] and whole[1:] != read and read != tuple(whole)
    with pytest.raises(TypeError):
        hash(read)
    match read:
        case [first, *_]:
            assert first == whole[0]
        case _:
            raise AssertionError("it is no sequence")


async def test_what_was_read_is_printed_with_its_standings() -> None:
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {"decimals": 1})
        await rankd.submit("b", [("ann", "2.5")])
        page = await rankd.reader.page("b")
        ranking, row = "Ranking(board='b', window='all', segment=None)", repr(page[0])
        assert "rank=1, player='ann', score=Decimal('2.5')" in row
        assert repr(page) == f"Page(ranking={ranking}, total=1, as_of=2, standings=[{row}])"
        found = await rankd.reader.lookup("b", ["nobody"])
        assert repr(found) == (
            f"FoundStandings(ranking={ranking}, total=1, as_of=2, standings=[], "
            "not_found=['nobody'])"
        )
        projected = await rankd.reader.scores_for("b", rank=Rank(1))
        assert projected.score == Decimal("2.5")
        assert repr(projected) == (
            f"Projected(rank=1, score=Decimal('2.5'), total=1, ranking={ranking}, as_of=2)"
        )
        nobody = await rankd.reader.scores_for("b", rank=Rank(2))
        assert nobody.score is None
        assert repr(nobody).startswith("Projected(rank=2, score=None, total=1")


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


@pytest.mark.parametrize("tie_break", ["first", "latest", "player"])
@pytest.mark.parametrize("ties", ["ordinal", "standard", "dense"])
async def test_from_beyond_the_end_a_cursor_leads_back_to_the_last(
    ties: str, tie_break: str
) -> None:
    worst = -(2**63)
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {"ties": ties, "tie_break": tie_break})
        assert (await rankd.reader.page("b", offset=Offset(5))).prev_cursor is None
        await rankd.submit("b", [{"player": f"p{n}", "score": worst} for n in range(3)])
        everybody = (await rankd.reader.page("b")).players
        for offset in (3, 4, 10**9):
            beyond = await rankd.reader.page("b", offset=Offset(offset))
            assert (beyond.players, beyond.next_cursor) == ((), None)
            last = await rankd.reader.page("b", limit=2, cursor=beyond.prev_cursor)
            assert last.players == everybody[-2:]
            assert (last.next_cursor, last.prev_cursor is None) == (None, False)


async def test_a_cursor_given_out_once_leads_on() -> None:
    """Readers keep it while we upgrade: how a ranking is called in messages is not part of it."""
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {"rule": "best", "windows": ["all"]})
        await rankd.submit("b", [{"player": player, "score": 5} for player in ("ann", "bob")])
        cursor = "AZfjYPAytmpPPqNrigAQf_________oAAAAAAAAAAmFubg"
        assert (await rankd.reader.page("b", limit=1)).next_cursor == cursor
        assert (await rankd.reader.page("b", cursor=cursor)).players == ["bob"]


# ------------------------------------------------------------------------------ at once


class FarIndex(NativeIndex):
    """An index that has to be waited for, as one across a network has."""

    immediate: ClassVar[bool] = False


def far() -> IndexHome:
    return IndexHome(FarIndex(), None)


def told(page: Page) -> tuple[object, ...]:
    return page.standings, page.total, page.as_of, page.next_cursor, page.prev_cursor


@pytest.mark.parametrize("ties", ["ordinal", "standard", "dense"])
async def test_a_page_is_the_same_whether_it_was_waited_for(ties: str) -> None:
    pages = []
    for build in (bare, far):
        async with engine(FaultyLedger(), build=build) as rankd:
            await rankd.define("b", {"ties": ties, "decimals": 1})
            for number in range(7):
                more = {"metadata": {"n": number}} if number % 3 == 1 else {}
                await rankd.submit("b", [{"player": f"p{number}", "score": number // 2, **more}])
            await rankd.profile("p3", {"name": "Ann"})
            assert rankd.reader.immediate is (build is bare)
            pages.append([await rankd.reader.page("b", limit=3, offset=n) for n in range(9)])  # type: ignore[arg-type]
            pages[-1].append(await rankd.reader.around("b", "p3", above=1, below=1))
            assert rankd.reader.finder(rankd.reader.where("b")) is None or build is bare
    near, waited_for = pages
    assert list(map(told, near)) == list(map(told, waited_for))
    second = near[0].standings[1]
    assert (second.metadata, second.name, float(second.score)) == ({"n": 4}, None, 2.0)
    assert [one.name for one in near[9].standings if one.player == "p3"] == ["Ann"]


def seeking(reader: Reader, window: str | None = None, segment: str | None = None) -> bool:
    return reader.finder(reader.where("b", window, segment)) is not None


def each(found: Places, width: int) -> list[Ranked | None]:
    """Return what columns tell, one by one."""
    beside = found.metadata or [None] * len(found.ranks)
    return [
        Ranked(Rank(rank), found.order_keys[at : at + width], under, found.total, found.as_of)
        if rank
        else None
        for rank, under, at in zip(
            found.ranks, beside, range(0, len(found.order_keys), width), strict=True
        )
    ]


async def test_who_asks_often_is_told_what_who_asks_once_is() -> None:
    async with engine(FaultyLedger()) as rankd:
        reader = rankd.reader
        await rankd.define("b", {"windows": ["daily", "all"], "segments": ["region"]})
        await rankd.submit("b", [{"player": "p0", "score": 1, "attributes": {"region": "eu"}}])
        places = [reader.where("b", *which) for which in ((None,), ("daily",), (None, "region:eu"))]
        seekers = [seek for where in places if (seek := reader.finder(where)) is not None]
        for number in range(1, 30):
            player = f"p{number % 7}"
            more: dict[str, object] = {"metadata": number} if number % 2 else {}
            if number % 3:
                more["attributes"] = {"region": "eu"}
            await rankd.submit("b", [{"player": player, "score": number, **more}])
            for where, seek in zip(places, seekers, strict=True):
                asked = [*(f"p{number}" for number in range(7)), "nobody"]
                there = [reader.ranked_now(where, player) for player in asked]
                alone = [place and place[0] for place in there]
                assert each(seek(asked), where.terms.order.key_bytes) == alone
        assert each(seekers[0](["p1"]), 16) == [Ranked(Rank(1), ANY, b"29", 7, Position(31))]
        assert each(seekers[0]([]), 16) == []


@pytest.mark.parametrize("ties", ["ordinal", "standard", "dense"])
async def test_shown_ranks_are_ranked_from_keys(ties: str) -> None:
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {"ties": ties})
        players = [f"p{number}" for number in range(9)]
        await rankd.submit("b", [(player, n // 3) for n, player in enumerate(players)])
        where = rankd.reader.where("b", None, None)
        seek, rank = rankd.reader.finder(where), rankd.reader.ranker(where)
        assert seek is not None and (rank is None) == (ties == "ordinal")
        found = seek(players)
        shown = found.ranks if rank is None else rank(found.order_keys)
        alone = [rankd.reader.ranked_now(where, player) for player in players]
        assert list(shown) == [one and (one[1] or one[0].rank) for one in alone]
        assert [one and one[0].rank for one in alone] == list(found.ranks)


async def test_what_is_not_there_and_what_is_closed_is_asked_for_one_by_one() -> None:
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        await rankd.define("b", {"windows": ["all", "daily"], "segments": ["region"]})
        await rankd.submit("b", [("p", 1)])
        assert not seeking(rankd.reader, segment="region:eu")
        assert seeking(rankd.reader, "daily") and seeking(rankd.reader, "daily:2026-11-14")
        clock.time += DAY
        await rankd.sealer.turn()
        assert seeking(rankd.reader, "daily") and seeking(rankd.reader, "daily:2026-11-15")
        assert not seeking(rankd.reader, "daily:2026-11-14")
        assert not seeking(rankd.reader, "daily:-1")


async def test_a_player_is_found_in_one_window_of_the_boards_that_have_it() -> None:
    async with engine(FaultyLedger(), SetClock()) as rankd:
        await rankd.define("b", {"rule": "best", "windows": ["all"]})
        await rankd.define("c", {"rule": "best", "windows": ["all", "daily"]})
        for board in ("b", "c"):
            await rankd.submit(board, [{"player": "p", "score": 1}])
        found = await rankd.reader.standings("p", "daily")
        assert [where.ranking for where, _ in found] == [Ranking("c", "daily:2026-11-14")]
        assert await rankd.reader.standings("p", "daily:2026-11-13") == []


# ------------------------------------------------------------------------ ranges of scores

KINDS: dict[str, dict[str, object]] = {
    "plain": {},
    "lower": {"direction": "lower"},
    "latest": {"tie_break": "latest", "rule": "latest"},
    "player": {"tie_break": "player", "direction": "lower"},
    "decimals": {"decimals": 1},
    "standard": {"ties": "standard"},
    "dense": {"ties": "dense", "direction": "lower"},
    "columns": {
        "columns": [{"name": "a", "direction": "lower"}, {"name": "b", "direction": "higher"}]
    },
}
EDGES = (None, -(2**63), -3, 0, 2, 3, 4, 7, 2**63 - 1)


async def filled(rankd: Engine, kind: str) -> None:
    """Give a board some players, of which many are tied."""
    await rankd.define("b", {**KINDS[kind], "windows": ["all", "daily"], "segments": ["region"]})
    scores = (3, -3, 7, 3, 0, 2**40, 3, -(2**40), 4, 4)
    for number, score in enumerate(scores):
        item: dict[str, object] = {"player": f"p{number}", "score": score}
        if kind == "columns":
            item["columns"] = {"b": 2**63 - 1 if number % 2 else -(2**63)}
        await rankd.submit("b", [{**item, "attributes": {"region": "eu" if number % 3 else "us"}}])


@pytest.mark.parametrize("kind", KINDS)
async def test_a_range_of_scores_has_the_entries_between_its_bounds(kind: str) -> None:
    async with engine(FaultyLedger()) as rankd:
        await filled(rankd, kind)
        whiches: tuple[dict[str, Any], ...] = ({}, {"window": "daily"}, {"segment": "region:eu"})
        for which in whiches:
            everybody = (await rankd.reader.page("b", **which)).standings
            for low in EDGES:
                for high in EDGES:
                    if low is not None and high is not None and low > high:
                        continue
                    if kind == "decimals" and max(abs(low or 0), abs(high or 0)) > 2**62:
                        continue
                    right = [
                        one
                        for one in everybody
                        if (low is None or one.score >= low) and (high is None or one.score <= high)
                    ]
                    page = await rankd.reader.page("b", score_min=low, score_max=high, **which)
                    assert page.standings == right
                    unbounded = low is None and high is None
                    assert page.in_range == (None if unbounded else len(right))
                    assert (page.total, page.next_cursor) == (len(everybody), None)
                    assert page.prev_cursor is None


@pytest.mark.parametrize("ties", ["ordinal", "standard", "dense"])
async def test_a_range_is_paged_within_its_bounds(ties: str) -> None:
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {"ties": ties})
        await rankd.submit("b", [(f"p{number}", number // 2) for number in range(20)])
        read = rankd.reader
        within: dict[str, Any] = {"score_min": 2, "score_max": 6}
        right = (await read.page("b", limit=20)).standings[6:16]
        forward, cursor = [], None
        while True:
            page = await read.page("b", limit=3, cursor=cursor, **within)
            assert page.in_range == 10
            forward += page.standings
            if (cursor := page.next_cursor) is None:
                break
        assert forward == right
        backward = list(page.standings)
        while page.prev_cursor is not None:
            page = await read.page("b", limit=3, cursor=page.prev_cursor, **within)
            backward = [*page.standings, *backward]
        assert backward == right
        assert (await read.page("b", offset=Offset(8), **within)).standings == right[8:]
        assert (await read.page("b", from_rank=Rank(9), limit=2, **within)).standings == right[2:4]
        assert (await read.page("b", from_rank=Rank(1), limit=8, **within)).standings == right[:8]


async def test_a_page_behind_its_range_leads_back_into_it() -> None:
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {})
        await rankd.submit("b", [(f"p{number}", number) for number in range(20)])
        behind = await rankd.reader.page("b", offset=Offset(9), score_min=5, score_max=9)
        assert (behind.standings, behind.in_range, behind.next_cursor) == ([], 5, None)
        back = await rankd.reader.page(
            "b", cursor=behind.prev_cursor, limit=2, score_min=5, score_max=9
        )
        assert [one.score for one in back.standings] == [6, 5]
        nothing = await rankd.reader.page("b", score_min=30)
        assert (nothing.standings, nothing.in_range, nothing.total) == ([], 0, 20)
        assert (nothing.next_cursor, nothing.prev_cursor) == (None, None)


@pytest.mark.parametrize(
    ("given", "fields"),
    [
        ({"score_min": 5, "score_max": 4}, ["score_min"]),
        ({"score_min": "much"}, ["score_min"]),
        ({"score_max": "1.5"}, ["score_max"]),
        ({"score_max": 2**63}, ["score_max"]),
        ({"score_min": True}, ["score_min"]),
        ({"score_min": "", "score_max": "1e2"}, ["score_min", "score_max"]),
    ],
)
async def test_a_range_that_is_none_is_refused(
    given: Mapping[str, object], fields: list[str]
) -> None:
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {})
        with pytest.raises(InvalidPage) as refused:
            await rankd.reader.page("b", **given)  # type: ignore[arg-type]
        assert [error.field for error in refused.value.errors] == fields


# --------------------------------------------------------------------------- ordinal ranks


@pytest.mark.parametrize("ties", ["ordinal", "standard", "dense"])
async def test_every_standing_tells_its_unique_place_where_ranks_are_shared(ties: str) -> None:
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {"ties": ties})
        await rankd.submit("b", [(f"p{number}", number // 3) for number in range(9)])
        read = rankd.reader
        page = await read.page("b")
        places = {one.player: one.ordinal for one in page}
        shared = ties != "ordinal"
        assert [*places.values()] == ([*range(1, 10)] if shared else [None] * 9)
        assert [page[row].ordinal for row in range(9)] == [*places.values()]
        pages: list[Any] = [
            await read.page("b", offset=Offset(4), limit=3),
            await read.around("b", "p4", above=2, below=2),
            await read.around_rank("b", Rank(5), reach=2),
            await read.page("b", score_max=1),
            (await read.lookup("b", ["p7", "p1", "p2"])).standings,
            [one for _, one in await read.standings("p4")],
            [await read.standing("b", "p5")],
            [read.standing_now(read.where("b"), "p5")],
        ]
        for some in pages:
            assert some
            assert [one.ordinal for one in some] == [places[one.player] for one in some]


# ------------------------------------------------------------------ players without an entry


async def test_the_neighbourhood_of_an_absent_player_is_an_end_if_that_is_wanted() -> None:
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {})
        read = rankd.reader
        empty = await read.around("b", "nobody", absent=Absent.BOTTOM)
        assert (empty.standings, empty.total) == ([], 0)
        await rankd.submit("b", [(f"p{number}", number) for number in range(9)])
        top = await read.around("b", "nobody", above=1, below=1, absent=Absent.TOP)
        assert [one.rank for one in top] == [1, 2, 3]
        bottom = await read.around("b", "nobody", above=1, below=1, absent=Absent.BOTTOM)
        assert [one.rank for one in bottom] == [7, 8, 9]
        there = await read.around("b", "p4", above=1, below=1, absent=Absent.TOP)
        assert [one.player for one in there] == ["p5", "p4", "p3"]
        with pytest.raises(NotRanked):
            await read.around("b", "nobody")
        with pytest.raises(InvalidPage):
            await read.around("b", "nobody", above=-1, absent=Absent.TOP)

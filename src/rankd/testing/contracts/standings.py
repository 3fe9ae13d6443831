"""The contract of Archive and TopLists. Subclass it and provide ``kept``."""

from itertools import product
from typing import Protocol

import pytest

from rankd.model.facts import Position
from rankd.model.standing import Rank
from rankd.ports import Archive, Placed, Ranking, SealedRow, TopList, TopLists

BOARD, WINDOW, SINCE = "b", "daily:2026-11-14", Position(7)
NAMES = ("ann", "Ann", "änn", "anna", "~", "z")
"""By their bytes another order than by any language's rules."""


class KeepsStandings(Archive, TopLists, Protocol):
    """Both ports: one place keeps them."""


def rows(count: int) -> list[SealedRow]:
    """Return final standings in which every three share a rank, and players decide ties."""
    entries = sorted(
        ((place // 3).to_bytes(8, "big"), f"{NAMES[place % 6]}{place}".encode())
        for place in range(count)
    )
    return [
        SealedRow(
            place + 1,
            int.from_bytes(key, "big") + 1,
            player.decode(),
            key + bytes(8),
            (-place, place),
            b'{"run": [1,  2]}' if place % 2 else None,
        )
        for place, (key, player) in enumerate(entries)
    ]


def listed(segment: str | None = None, *, as_of: int, players: int = 3, more: int = 0) -> TopList:
    """Return a top list that differs from every other as of another position."""
    entries = [
        Placed(
            f"{as_of}/é{place}",
            place.to_bytes(16, "big"),
            b'{"name": "\\u0000",  "x": null}' if place % 2 else None,
        )
        for place in range(players)
    ]
    return TopList(Ranking(BOARD, "all", segment), entries, players + more, Position(as_of))


class StandingsContract:
    """One test for each promise of Archive and of TopLists."""

    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def anyio_backend(self) -> str:
        """The engine is written for asyncio."""
        return "asyncio"

    # ------------------------------------------------------------------ closed windows

    async def test_rows_are_kept_once_and_stay(self, kept: KeepsStandings) -> None:
        some = rows(10)
        await kept.keep_standings(BOARD, WINDOW, some[:6], since=SINCE)
        other = [row._replace(scores=(0, 0), metadata=b"{}") for row in some[:6]]
        await kept.keep_standings(BOARD, WINDOW, [*other, *some[6:]], since=SINCE)
        await kept.keep_standings(BOARD, WINDOW, [], since=SINCE)
        assert await kept.kept_standings(BOARD, WINDOW, since=SINCE) == 10
        found = await kept.sealed_rows(BOARD, WINDOW, since=SINCE, first=Rank(1), limit=99)
        assert list(found) == some

    async def test_windows_are_kept_apart(self, kept: KeepsStandings) -> None:
        some = rows(3)
        await kept.keep_standings(BOARD, WINDOW, some, since=SINCE)
        for board, window, since in (
            ("c", WINDOW, SINCE),
            (BOARD, "daily:2026-11-15", SINCE),
            (BOARD, WINDOW, Position(8)),
        ):
            assert await kept.kept_standings(board, window, since=since) == 0
            found = await kept.sealed_rows(board, window, since=since, first=Rank(1), limit=9)
            assert list(found) == []
            players = [some[0].player]
            assert not await kept.sealed_players(board, window, players, since=since)
            behind = await kept.sealed_behind(board, window, b"", "", since=since)
            assert behind is None

    async def test_a_window_has_a_total_once_it_is_kept_whole(self, kept: KeepsStandings) -> None:
        await kept.keep_standings(BOARD, WINDOW, rows(3), since=SINCE)
        assert await kept.sealed_total(BOARD, WINDOW, since=SINCE) is None
        await kept.finish_standings(BOARD, WINDOW, 3, since=SINCE)
        await kept.finish_standings(BOARD, WINDOW, 3, since=SINCE)
        assert await kept.sealed_total(BOARD, WINDOW, since=SINCE) == 3
        assert await kept.sealed_total(BOARD, WINDOW, since=Position(8)) is None

    async def test_a_window_whose_time_is_over_is_forgotten_and_no_other(
        self, kept: KeepsStandings
    ) -> None:
        names = [
            (BOARD, WINDOW, SINCE),
            (BOARD, WINDOW, Position(8)),
            (BOARD, "daily:2026-11-15", SINCE),
            ("c", WINDOW, SINCE),
        ]
        for board, window, since in names:
            await kept.keep_standings(board, window, rows(10), since=since)
            await kept.finish_standings(board, window, 10, since=since)
        await kept.finish_standings("empty", WINDOW, 0, since=SINCE)
        await kept.keep_standings("unfinished", WINDOW, rows(2), since=SINCE)
        named = {*names, ("empty", WINDOW, SINCE), ("unfinished", WINDOW, SINCE)}
        assert set(map(tuple, await kept.sealed_windows())) == named

        for _ in range(2):
            await kept.drop_standings(BOARD, WINDOW, since=SINCE)
            assert await kept.kept_standings(BOARD, WINDOW, since=SINCE) == 0
            assert await kept.sealed_total(BOARD, WINDOW, since=SINCE) is None
        await kept.drop_standings("empty", WINDOW, since=SINCE)
        await kept.drop_standings("unfinished", WINDOW, since=SINCE)
        assert set(map(tuple, await kept.sealed_windows())) == set(names[1:])
        for board, window, since in names[1:]:
            assert await kept.kept_standings(board, window, since=since) == 10
            assert await kept.sealed_total(board, window, since=since) == 10

    async def test_pages_are_by_place(self, kept: KeepsStandings) -> None:
        some = rows(10)
        await kept.keep_standings(BOARD, WINDOW, some, since=SINCE)
        for first, limit in product((1, 2, 9, 10, 11, 2**40), (1, 3, 10, 1_000)):
            found = await kept.sealed_rows(
                BOARD, WINDOW, since=SINCE, first=Rank(first), limit=limit
            )
            assert list(found) == some[first - 1 : first - 1 + limit]

    async def test_players_are_found_by_their_ids(self, kept: KeepsStandings) -> None:
        some = rows(10)
        await kept.keep_standings(BOARD, WINDOW, some, since=SINCE)
        asked = [some[7].player, "nobody", some[0].player, "nul\0", some[7].player]
        found = await kept.sealed_players(BOARD, WINDOW, asked, since=SINCE)
        assert dict(found) == {row.player: row for row in (some[0], some[7])}

    async def test_the_row_behind_a_place_is_found_by_bytes(self, kept: KeepsStandings) -> None:
        some = rows(18)
        await kept.keep_standings(BOARD, WINDOW, some, since=SINCE)
        keys = sorted({row.order_key for row in some} | {bytes(15), b"\xff" * 16})
        players = ["", "\U0010ffff", *(row.player for row in some)]
        for key, player in product(keys, players):
            found = await kept.sealed_behind(BOARD, WINDOW, key, player, since=SINCE)
            place = (key, player.encode())
            expected = [row for row in some if (row.order_key, row.player.encode()) >= place]
            assert found == (expected[0] if expected else None)

    # ----------------------------------------------------------------------- top lists

    async def test_a_list_comes_back_as_it_was_kept(self, kept: KeepsStandings) -> None:
        for as_of, (players, more) in enumerate(((3, 0), (0, 0), (1, 2**40), (2_000, 5)), start=1):
            top = listed(as_of=as_of, players=players, more=more)
            await kept.keep_lists([top])
            found = await kept.list_of(top.ranking)
            assert found is not None
            assert found._replace(entries=list(found.entries)) == top
            assert found.whole is (more == 0)

    async def test_a_list_takes_the_place_of_an_older_one_only(self, kept: KeepsStandings) -> None:
        for as_of in (5, 4, 5, 6, 1):
            await kept.keep_lists([listed(as_of=as_of, players=as_of)])
        assert await kept.list_of(Ranking(BOARD, "all")) == listed(as_of=6, players=6)

    async def test_lists_are_of_one_ranking_each(self, kept: KeepsStandings) -> None:
        await kept.keep_lists([])
        lists = [listed(as_of=3), listed("region:eu", as_of=4), listed("region:us", as_of=2)]
        await kept.keep_lists(lists)
        assert await kept.list_of(Ranking(BOARD, "all", "region:eu")) == lists[1]
        assert await kept.list_of(Ranking(BOARD, "all", "region:nul\0")) is None
        assert await kept.list_of(Ranking(BOARD, "daily:2026-11-14")) is None
        assert await kept.list_of(Ranking("c", "all")) is None
        known = await kept.lists_kept()
        assert {ranking: one.as_of for ranking, one in known.items()} == {
            top.ranking: top.as_of for top in lists
        }
        assert all(one.seconds >= 0 for one in known.values())

    async def test_what_is_dropped_is_gone_and_nothing_else(self, kept: KeepsStandings) -> None:
        lists = [listed(as_of=3), listed("region:eu", as_of=4), listed("region:us", as_of=2)]
        await kept.keep_lists(lists)
        await kept.drop_lists([])
        await kept.drop_lists([lists[1].ranking, Ranking("c", "all")])
        assert set(await kept.lists_kept()) == {lists[0].ranking, lists[2].ranking}
        assert await kept.list_of(lists[1].ranking) is None

"""Top lists: written for changed boards, not too often, and in bounded number."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.unit.core.doubles import DAY, FarIndex, SetClock, SharedLedger, bare

from rankd.adapters.memory.archive import MemoryArchive
from rankd.core.assembly import running
from rankd.core.cluster import managers as cluster_managers
from rankd.core.cluster import top_lists
from rankd.core.cluster.recovery import SharedHome
from rankd.core.cluster.top_lists import TopListSettings, TopListWriter
from rankd.core.engine import Engine
from rankd.errors import IndexForgot, IndexUnavailable
from rankd.model.facts import Position
from rankd.ports import Ranking, TopList

if TYPE_CHECKING:
    from rankd.core.cluster.shared_projector import SharedProjector

pytestmark = pytest.mark.anyio

SECONDS = 1_000.0
"""How old lists may become: nothing waits so long here, their age is set."""

DAILY = "daily:2026-11-14"


@pytest.fixture(autouse=True)
def _nobody_looks_at_the_index_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_managers, "MEND_SECONDS", 3_600.0)


class Kept(MemoryArchive):
    """Notes what was kept together."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = SECONDS
        self.together: list[set[str]] = []

    async def keep_lists(self, lists: Sequence[TopList]) -> None:
        self.together.append({str(top.ranking) for top in lists})
        await super().keep_lists(lists)

    def taken(self) -> set[str]:
        """Of which rankings lists were taken since it was last asked."""
        taken = set().union(*self.together)
        self.together.clear()
        return taken


class World:
    """An engine and those who copy from its index."""

    def __init__(self, rankd: Engine, index: FarIndex, kept: Kept) -> None:
        self.rankd, self.index, self.kept = rankd, index, kept
        self.shared_projector = cast("SharedProjector", rankd.projector)

    def writer(self, *, entries: int = 10) -> TopListWriter:
        return TopListWriter(self.shared_projector, TopListSettings(self.kept, entries, SECONDS))


@asynccontextmanager
async def world(clock: SetClock | None = None) -> AsyncIterator[World]:
    index, kept = FarIndex(), Kept()
    async with running(
        ledger=SharedLedger(),
        build=bare,
        clock=clock or SetClock(),
        reading=nullcontext(),
        shared=SharedHome(cast("Any", index)),
        manages=False,
    ) as rankd:
        yield World(rankd, index, kept)


async def test_only_boards_that_changed_are_copied_again() -> None:
    async with world() as found:
        await found.rankd.define("a", {})
        await found.rankd.define("b", {"windows": ["all", "daily"]})
        copier = found.writer()
        await copier.copy()
        assert found.kept.taken() == {"a/all", "b/all", f"b/{DAILY}"}
        await copier.copy()
        assert found.kept.taken() == set()
        await found.rankd.submit("a", [("ann", 1)])
        await copier.copy()
        assert found.kept.taken() == {"a/all"}
        top = found.kept.lists[Ranking("a", "all")]
        assert ([one.player for one in top.entries], top.total) == (["ann"], 1)
        assert top.as_of == found.rankd.position


async def test_a_list_that_is_young_enough_is_left_alone_whoever_took_it() -> None:
    async with world() as found:
        await found.rankd.define("a", {})
        one, other = found.writer(), found.writer()
        await one.copy()
        found.kept.taken()
        await found.rankd.submit("a", [("ann", 1)])
        found.kept.seconds = SECONDS * top_lists.SLACK / 2
        await other.copy()
        assert found.kept.taken() == set()
        found.kept.seconds = SECONDS
        await other.copy()
        assert found.kept.taken() == {"a/all"}


async def test_what_is_said_of_players_may_change_segments_of_any_board() -> None:
    async with world() as found:
        await found.rankd.define("a", {"segments": ["region"]})
        await found.rankd.define("b", {"segments": ["region"]})
        await found.rankd.define("c", {})
        await found.rankd.submit("a", [("ann", 1)])
        await found.rankd.submit("b", [("ann", 1)])
        copier = found.writer()
        await copier.copy()
        found.kept.taken()
        await found.rankd.profile("ann", {"attributes": {"region": "eu"}})
        await copier.copy()
        assert found.kept.taken() == {"a/all/region:eu", "b/all/region:eu"}
        us = {"player": "ann", "score": 2, "attributes": {"region": "us"}}
        await found.rankd.submit("a", [us])
        await copier.copy()
        assert found.kept.taken() == {"a/all", "a/all/region:us", "b/all/region:us"}
        assert Ranking("b", "all", "region:eu") not in found.kept.lists  # It was left by all.


async def test_a_closed_window_is_copied_once_more_and_dropped_with_its_window() -> None:
    clock = SetClock()
    async with world(clock) as found:
        await found.rankd.define("b", {"windows": ["daily"], "retention": {"daily": "2d"}})
        copier = found.writer()
        await copier.copy()
        await found.rankd.submit("b", [("ann", 1)])
        clock.time += DAY
        await found.rankd.sealer.turn()
        await copier.copy()
        (sealed,) = found.rankd.state.boards["b"].sealed.values()
        assert found.kept.lists[sealed.ranking].as_of >= sealed.through
        assert found.kept.lists[sealed.ranking].total == 1
        found.kept.taken()
        await found.rankd.submit("b", [("ann", 1)])
        await copier.copy()
        assert found.kept.taken() == {"b/daily:2026-11-15"}
        for _ in range(3):
            clock.time += DAY
            await found.rankd.sealer.turn()
        await copier.copy()
        assert sealed.ranking not in found.kept.lists


async def test_lists_of_a_board_that_is_gone_are_dropped() -> None:
    async with world() as found:
        await found.rankd.define("a", {})
        await found.rankd.define("b", {})
        copier = found.writer()
        await copier.copy()
        await found.rankd.retire("b")
        await copier.copy()
        assert set(found.kept.lists) == {Ranking("a", "all")}
        assert "b" not in found.shared_projector.touched


async def test_what_this_node_has_not_read_of_yet_is_not_dropped() -> None:
    async with world() as found:
        await found.rankd.define("a", {})
        later = Position(found.rankd.position + 1)
        ahead = TopList(Ranking("new", "all"), (), 0, later)
        await found.kept.keep_lists([ahead])
        await found.writer().copy()
        assert ahead.ranking in found.kept.lists


async def test_at_a_time_so_many_are_taken_and_the_oldest_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(top_lists, "LISTS_AT_A_TIME", 5)
    monkeypatch.setattr(top_lists, "LISTS_TOGETHER", 2)
    async with world() as found:
        boards = [f"b{number}" for number in range(8)]
        for board in boards:
            await found.rankd.define(board, {})
        copier = found.writer()
        await copier.copy()
        assert [len(some) for some in found.kept.together] == [2, 2, 1]
        first = found.kept.taken()
        for board in boards:
            await found.rankd.submit(board, [("ann", 1)])
        await copier.copy()
        second = found.kept.taken()
        assert {f"{board}/all" for board in boards} - first < second
        assert len(second) == 5


async def test_so_many_lists_are_kept_and_those_of_everybody_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(top_lists, "LISTS_MAX", 3)
    async with world() as found:
        await found.rankd.define("a", {"segments": ["region"]})
        await found.rankd.define("b", {})
        for number in range(4):
            item = {"player": f"p{number}", "score": 1, "attributes": {"region": f"r{number}"}}
            await found.rankd.submit("a", [item])
        copier = found.writer()
        await copier.copy()
        assert set(map(str, found.kept.lists)) == {"a/all", "b/all", "a/all/region:r0"}
        await found.rankd.define("c", {})
        await copier.copy()
        assert set(map(str, found.kept.lists)) == {"a/all", "b/all", "c/all"}


async def test_it_ends_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(top_lists, "LISTS_TOGETHER", 1)
    async with world() as found:
        for board in ("a", "b", "c"):
            await found.rankd.define(board, {})
        copier = TopListWriter(found.shared_projector, TopListSettings(found.kept, 10, 0.0))
        await copier.copy()
        assert len(found.kept.taken()) == 1
        await copier.copy()
        assert len(found.kept.taken()) == 1


@pytest.mark.parametrize(("entries", "length"), [(1, 1), (5, 5), (6, 6), (7, 7), (9, 7)])
async def test_a_list_is_so_long_however_often_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, entries: int, length: int
) -> None:
    monkeypatch.setattr(top_lists, "PAGE_LIMIT_MAX", 3)
    async with world() as found:
        await found.rankd.define("a", {})
        await found.rankd.submit("a", [(f"p{number}", -number) for number in range(7)])
        await found.writer(entries=entries).copy()
        top = found.kept.lists[Ranking("a", "all")]
        assert [one.player for one in top.entries] == [f"p{number}" for number in range(length)]
        assert (top.total, top.whole) == (7, length == 7)


async def test_a_list_has_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(top_lists, "LIST_BYTES_MAX", 3 * (2 + 16))
    async with world() as found:
        await found.rankd.define("a", {})
        await found.rankd.submit("a", [(f"p{number}", -number) for number in range(7)])
        await found.writer().copy()
        top = found.kept.lists[Ranking("a", "all")]
        assert ([one.player for one in top.entries], top.total) == (["p0", "p1", "p2"], 7)


async def test_a_list_is_as_of_one_position_or_shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever writes between two reads of it makes the second one forgotten."""
    monkeypatch.setattr(top_lists, "PAGE_LIMIT_MAX", 3)
    async with world() as found:
        await found.rankd.define("a", {})
        await found.rankd.submit("a", [(f"p{number}", -number) for number in range(7)])
        read = found.index.there.read

        async def forgetful(ranking: Ranking, *, at: Position | None = None, **named: Any) -> Any:
            if at is not None:
                raise IndexForgot(position=at, checkpoint=at + 1)
            return await read(ranking, **named)

        monkeypatch.setattr(found.index.there, "read", forgetful)
        await found.writer().copy()
        top = found.kept.lists[Ranking("a", "all")]
        assert ([one.player for one in top.entries], top.total) == (["p0", "p1", "p2"], 7)


async def test_an_index_that_was_emptied_empties_no_list() -> None:
    async with world() as found:
        await found.rankd.define("a", {"segments": ["region"]})
        item = {"player": "ann", "score": 1, "attributes": {"region": "eu"}}
        await found.rankd.submit("a", [item])
        await found.writer().copy()
        taken = dict(found.kept.lists)
        assert len(taken) == 2
        found.index.empty()
        with pytest.raises(IndexUnavailable, match="fell back"):
            await found.writer().copy()
        assert found.kept.lists == taken


async def test_an_index_that_was_emptied_is_not_copied() -> None:
    async with world() as found:
        await found.rankd.define("a", {})
        await found.rankd.submit("a", [("ann", 1)])
        found.index.empty()
        with pytest.raises(IndexUnavailable, match="fell back"):
            await found.writer().copy()
        assert not found.kept.lists


async def test_without_the_index_nothing_is_asked_or_dropped() -> None:
    async with world() as found:
        await found.rankd.define("a", {})
        await found.writer().copy()
        taken = dict(found.kept.lists)
        found.index.cut = True
        with pytest.raises(IndexUnavailable):
            await found.shared_projector.lost()
        await found.rankd.retire("a")
        calls = found.index.calls
        await found.writer().copy()
        assert found.kept.lists == taken
        assert found.index.calls == calls


async def test_a_failure_is_followed_by_another_try() -> None:
    async with world() as found:
        await found.rankd.define("a", {})
        found.index.cut = True
        running_one = asyncio.create_task(
            TopListWriter(found.shared_projector, TopListSettings(found.kept, 10, 0.001)).run()
        )
        await asyncio.sleep(0.01)
        assert not found.kept.lists
        found.index.cut = False
        async with asyncio.timeout(60):
            while not found.kept.lists:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.001)
        running_one.cancel()
        await asyncio.gather(running_one, return_exceptions=True)


async def test_a_player_that_is_banned_leaves_lists_of_every_board_and_closed_window() -> None:
    clock = SetClock()
    async with world(clock) as found:
        rankd = found.rankd
        for board in ("a", "b"):
            await rankd.define(board, {"windows": ["daily"], "segments": ["region"]})
            item = {"player": "ann", "score": 1, "attributes": {"region": "eu"}}
            await rankd.submit(board, [item])
            await rankd.submit(board, [("bob", 2)])
        copier = found.writer()
        await copier.copy()
        clock.time += DAY
        await rankd.sealer.turn()
        await rankd.submit("b", [("ann", 3)])
        await copier.copy()
        assert found.kept.lists[Ranking("a", DAILY)].total == 2
        found.kept.taken()
        await rankd.corrections.set_player_state("ann", "banned", {})
        await copier.copy()
        today = {f"{board}/daily:2026-11-15" for board in ("a", "b")}
        closed = {f"{board}/{DAILY}" for board in ("a", "b")}
        assert today | closed <= found.kept.taken()
        assert all(ranking.readable for ranking in found.kept.lists)
        for top in found.kept.lists.values():
            assert "ann" not in [entry.player for entry in top.entries]
        found.kept.taken()
        await rankd.corrections.set_player_state("bob", "hidden", {"boards": ["a"]})
        await copier.copy()
        assert f"a/{DAILY}" in found.kept.taken()
        assert found.kept.lists[Ranking("a", DAILY)].total == 0
        assert found.kept.lists[Ranking("b", DAILY)].total == 1

"""Without the index, what is kept answers as the index would have, or not at all.

Method: an engine over an index that can be cut off, and what is kept of it in memory. Every read
is made while the index answers, and again without it: the answers must be equal, as of the same
position, or be refused because more is asked for than is kept.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext, suppress
from typing import Any, cast

import msgspec
import pytest
from tests.unit.core.doubles import DAY, FarIndex, SetClock, SharedLedger, bare

from rankd.adapters.memory.archive import MemoryArchive
from rankd.core.assembly import running
from rankd.core.cluster import fallback_index
from rankd.core.cluster import managers as cluster_managers
from rankd.core.cluster.recovery import SharedHome
from rankd.core.cluster.shared_projector import SharedProjector
from rankd.core.cluster.top_lists import TopListSettings, TopListWriter
from rankd.core.engine import Engine
from rankd.core.managers import Archiver
from rankd.core.reader import FoundStandings, Page, Reader
from rankd.errors import (
    IndexBehind,
    IndexUnavailable,
    LedgerUnavailable,
    NotKept,
    NotRanked,
)
from rankd.model.facts import Position
from rankd.model.standing import Offset, Rank
from rankd.model.window import WindowState
from rankd.ports import Ranking, TopList

pytestmark = pytest.mark.anyio

PLAYERS = 30
TIES = ("ordinal", "standard", "dense")
YESTERDAY = "daily:2026-11-14"
PATIENCE_SECONDS = 60.0
"""Nothing takes so long; it only ends a test that would never end."""


@pytest.fixture(autouse=True)
def _nothing_is_believed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fallback_index, "MOMENT_SECONDS", 0.0)


@pytest.fixture(autouse=True)
def _nobody_looks_at_the_index_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_managers, "MEND_SECONDS", 3_600.0)


@pytest.fixture
def mended(monkeypatch: pytest.MonkeyPatch, _nobody_looks_at_the_index_unasked: None) -> None:
    """Somebody does, all the time."""
    monkeypatch.setattr(cluster_managers, "MEND_SECONDS", 0.001)


class World:
    """An engine, its index, and what is kept."""

    def __init__(self, rankd: Engine, index: FarIndex, kept: MemoryArchive, entries: int) -> None:
        self.rankd, self.index, self.kept = rankd, index, kept
        self.shared_projector = cast("SharedProjector", rankd.projector)
        self._listing = TopListSettings(kept, entries, 3_600.0)
        self._archiver = Archiver(rankd.reader, kept)

    @property
    def reader(self) -> Reader:
        return self.rankd.reader

    async def copy(self) -> None:
        """Keep what is to be kept, as things stand."""
        self.kept.seconds = 3_600.0
        await TopListWriter(self.shared_projector, self._listing).copy()
        for page in self.rankd.state.boards.values():
            for sealed in page.sealed.values():
                await self._archiver.keep(sealed)

    async def lose(self) -> None:
        """Cut the index off, and have that noticed."""
        self.index.cut = True
        with suppress(IndexUnavailable):
            await self.shared_projector.lost()
        assert self.shared_projector.failure is not None


@asynccontextmanager
async def world(
    ties: str = "ordinal", *, entries: int = PLAYERS, clock: SetClock | None = None
) -> AsyncIterator[World]:
    index, kept = FarIndex(), MemoryArchive()
    async with running(
        ledger=SharedLedger(),
        build=bare,
        clock=clock or SetClock(),
        reading=nullcontext(),
        shared=SharedHome(cast("Any", index)),
        archive=kept,
        listing=TopListSettings(kept, entries, 3_600.0),
        manages=False,
    ) as rankd:
        found = World(rankd, index, kept, entries)
        definition = {"windows": ["all", "daily"], "segments": ["region"], "ties": ties}
        await rankd.define("b", definition)
        await fill(rankd)
        yield found


async def fill(rankd: Engine) -> None:
    """Let players have scores of which every three are equal, some with something beside them."""
    for number in range(PLAYERS):
        item: dict[str, Any] = {"player": f"p{number:02}", "score": 100 - number // 3}
        if number % 4 == 0:
            item["metadata"] = {"run": number}
        if number % 2 == 0:
            item["attributes"] = {"region": "eu"}
        await rankd.submit("b", [item])
    await rankd.set_friends("p03", ["p01", "p29", "nobody"])


Read = Callable[[Reader, str | None], Awaitable[Any]]

READS: dict[str, Read] = {
    "top": lambda reader, window: reader.page("b", window=window, limit=10),
    "offset": lambda reader, window: reader.page("b", window=window, limit=7, offset=Offset(4)),
    "from a rank": lambda reader, window: reader.page(
        "b", window=window, limit=7, from_rank=Rank(8)
    ),
    "standing": lambda reader, window: reader.standing("b", "p07", window=window),
    "around": lambda reader, window: reader.around("b", "p08", window=window, above=3, below=2),
    "around a rank": lambda reader, window: reader.around_rank(
        "b", Rank(9), window=window, reach=3
    ),
    "lookup": lambda reader, window: reader.lookup("b", ["p09", "p02", "p09"], window=window),
    "ranks": lambda reader, window: reader.ranks("b", ["p10", "p04"], window=window),
    "rank of a score": lambda reader, window: reader.rank_for("b", (97,), window=window),
    "score of a rank": lambda reader, window: reader.scores_for("b", rank=Rank(5), window=window),
    "next": lambda reader, window: paged(reader, window, 2),
    "previous": lambda reader, window: paged(reader, window, 2, back=True),
}
"""All within the first fourteen."""

BEYOND: dict[str, Read] = {
    "last page": lambda reader, window: reader.page("b", window=window, offset=Offset(20)),
    "longer page": lambda reader, window: reader.page("b", window=window, limit=21),
    "behind everybody": lambda reader, window: reader.page("b", window=window, offset=Offset(99)),
    "last": lambda reader, window: reader.standing("b", "p29", window=window),
    "around the last": lambda reader, window: reader.around("b", "p28", window=window),
    "lookup of some": lambda reader, window: reader.lookup("b", ["p02", "p29"], window=window),
    "lookup of nobody": lambda reader, window: reader.lookup("b", ["p02", "no"], window=window),
    "friends": lambda reader, window: reader.friends("b", "p03", window=window),
    "rank of a low score": lambda reader, window: reader.rank_for("b", (1,), window=window),
    "score of a percentile": lambda reader, window: reader.scores_for(
        "b", percentile=10.0, window=window
    ),
    "score of no rank": lambda reader, window: reader.scores_for("b", rank=Rank(31), window=window),
    "page by page": lambda reader, window: paged(reader, window, 4),
}
"""What takes a list of everybody."""


async def paged(reader: Reader, window: str | None, pages: int, *, back: bool = False) -> Page:
    """Go on from cursor to cursor, and perhaps one back."""
    page = await reader.page("b", window=window, limit=6)
    for _ in range(pages - 1):
        page = await reader.page("b", window=window, limit=6, cursor=page.next_cursor)
    if back:
        page = await reader.page("b", window=window, limit=6, cursor=page.prev_cursor)
    return page


async def told(reads: dict[str, Read], reader: Reader, window: str | None = None) -> dict[str, Any]:
    return {name: await read(reader, window) for name, read in reads.items()}


def stale(answer: Any) -> Any:
    """The same answers, which say that they may be old."""
    if isinstance(answer, dict):
        return {name: stale(one) for name, one in answer.items()}
    if isinstance(answer, list):
        return answer  # Ranks, as a program asks for them.
    if isinstance(answer, FoundStandings):
        standings = [stale(one) for one in answer.standings]
        return msgspec.structs.replace(answer, standings=standings, stale=True)
    return msgspec.structs.replace(answer, stale=True)


@pytest.mark.parametrize("ties", TIES)
async def test_a_list_of_everybody_answers_everything(ties: str) -> None:
    async with world(ties) as found:
        await found.copy()
        expected = stale(await told(READS | BEYOND, found.reader))
        await found.lose()
        assert await told(READS | BEYOND, found.reader) == expected


@pytest.mark.parametrize("ties", TIES)
async def test_a_list_answers_as_of_when_it_was_taken_and_says_so(ties: str) -> None:
    async with world(ties) as found:
        await found.copy()
        expected = await told(READS, found.reader)
        await found.rankd.submit("b", [("p29", 1_000), ("new", 2_000)])
        assert await told(READS, found.reader) != expected
        await found.lose()
        assert await told(READS, found.reader) == stale(expected)


@pytest.mark.parametrize("ties", TIES)
async def test_what_lies_beyond_a_list_is_refused(ties: str) -> None:
    async with world(ties, entries=15) as found:
        await found.copy()
        expected = stale(await told(READS, found.reader))
        await found.lose()
        assert await told(READS, found.reader) == expected
        for name, read in BEYOND.items():
            if name in ("behind everybody", "score of no rank"):  # It is known that there is none.
                await read(found.reader, None)
                continue
            with pytest.raises(NotKept, match=r"only the first 15 of 30 are kept, as of"):
                await read(found.reader, None)


@pytest.mark.parametrize("ties", TIES)
async def test_a_closed_window_is_answered_exactly_from_the_archive(ties: str) -> None:
    clock = SetClock()
    async with world(ties, entries=5, clock=clock) as found:
        clock.time += DAY
        await found.rankd.sealer.turn()
        await found.copy()
        found.kept.lists.clear()
        expected = stale(await told(READS | BEYOND, found.reader, YESTERDAY))
        await found.lose()
        assert await told(READS | BEYOND, found.reader, YESTERDAY) == expected
        assert await found.reader.standing("b", "nobody", window=YESTERDAY) is None
        with pytest.raises(NotRanked):
            await found.reader.around("b", "nobody", window=YESTERDAY)


async def test_a_closed_window_is_true_at_every_later_position() -> None:
    clock = SetClock()
    async with world(clock=clock) as found:
        clock.time += DAY
        await found.rankd.sealer.turn()
        await found.copy()
        await found.lose()
        await found.rankd.submit("b", [("p29", 1_000)])  # Of another day.
        page = await found.reader.page("b", window=YESTERDAY)
        assert page.as_of == found.rankd.position


async def test_rows_of_a_closed_window_are_fetched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """They never change; and no fetch is longer than it may be."""
    monkeypatch.setattr("rankd.core.cluster.fallback_index.ROWS_TOGETHER", 4)
    clock = SetClock()
    async with world("dense", clock=clock) as found:
        clock.time += DAY
        await found.rankd.sealer.turn()
        await found.copy()
        expected = stale(await told(READS | BEYOND, found.reader, YESTERDAY))
        await found.lose()
        assert await told(READS | BEYOND, found.reader, YESTERDAY) == expected
        fallback = cast("Any", found.shared_projector.fallback)
        fetches = fallback._memory.fetches
        assert await told(READS | BEYOND, found.reader, YESTERDAY) == expected
        assert fallback._memory.fetches == fetches


async def test_a_closed_window_that_is_not_archived_whole_is_answered_from_its_list() -> None:
    clock = SetClock()
    async with world(entries=10, clock=clock) as found:
        await found.copy()
        before = await found.reader.page("b", window="daily", limit=10)
        clock.time += DAY
        await found.rankd.sealer.turn()
        (sealed,) = found.rankd.state.boards["b"].sealed.values()
        await found.kept.keep_standings("b", YESTERDAY, (), since=sealed.through)
        await found.lose()
        sealed_page = msgspec.structs.replace(stale(before), state=WindowState.SEALED)
        assert await found.reader.page("b", window=YESTERDAY, limit=10) == sealed_page
        with pytest.raises(NotKept, match="only the first 10"):
            await found.reader.page("b", window=YESTERDAY, limit=11)


async def test_a_window_without_a_fact_is_empty_without_the_index() -> None:
    clock = SetClock()
    async with world(clock=clock) as found:
        await found.lose()
        clock.time += 2 * DAY
        for window, state in (("daily:-1", "sealed"), ("daily:2026-11-20", "scheduled")):
            page = await found.reader.page("b", window=window)
            assert (page.total, page.stale, page.state) == (0, True, state)
            assert await found.reader.standing("b", "p01", window=window) is None


async def test_segments_have_lists_of_their_own() -> None:
    async with world() as found:
        await found.copy()
        expected = await found.reader.page("b", segment="region:eu")
        assert expected.total == PLAYERS / 2
        await found.lose()
        assert await found.reader.page("b", segment="region:eu") == stale(expected)
        with pytest.raises(NotKept, match="nothing is kept of this ranking"):
            await found.reader.page("b", segment="region:us")


async def test_that_somebody_is_not_ranked_is_not_told_by_an_old_list() -> None:
    """There is nobody who could be told how old that is."""
    async with world() as found:
        await found.copy()
        await found.lose()
        await found.rankd.submit("b", [("new", 5)])
        with pytest.raises(NotKept, match="was not ranked at"):
            await found.reader.standing("b", "new")
        with pytest.raises(NotKept, match="was not ranked at"):
            await found.reader.around("b", "new")
        assert list((await found.reader.lookup("b", ["new"])).not_found) == ["new"]


async def test_a_list_from_under_another_definition_says_nothing() -> None:
    """Its keys mean something else, or its board was another of the same name."""
    async with world() as found:
        await found.copy()
        taken = dict(found.kept.lists)
        definition = {"windows": ["all", "daily"], "segments": ["region"], "direction": "lower"}
        await found.rankd.redefine("b", definition)
        await found.lose()
        with pytest.raises(NotKept, match="nothing is kept"):
            await found.reader.page("b")
        assert found.kept.lists == taken


async def test_the_list_of_a_board_that_was_retired_is_not_that_of_the_next() -> None:
    async with world() as found:
        await found.copy()
        await found.rankd.retire("b")
        await found.rankd.define("b", {})
        await found.lose()
        with pytest.raises(NotKept, match="nothing is kept"):
            await found.reader.page("b")


async def test_the_first_who_finds_the_index_gone_is_answered_too() -> None:
    async with world() as found:
        await found.copy()
        expected = stale(await told(READS, found.reader))
        found.index.cut = True
        assert await told(READS, found.reader) == expected
        assert found.shared_projector.failure is None, "nobody had noticed"


async def test_a_read_whose_index_goes_away_half_way_begins_anew_without_it() -> None:
    async with world("dense") as found:
        await found.copy()
        await found.rankd.submit("b", [("new", 2_000)])
        for name, read in READS.items():
            healthy = await read(found.reader, None)
            start = found.index.calls
            await read(found.reader, None)
            for calls in range(1, found.index.calls - start + 1):
                left = iter(range(calls - 1))

                def cut_after(left: Any = left) -> None:
                    found.index.cut = next(left, None) is None

                found.index.before_call = cut_after
                without = await read(found.reader, None)
                found.index.before_call, found.index.cut = lambda: None, False
                if not isinstance(without, list):
                    assert without.stale, name
                assert without != healthy, name


@pytest.mark.usefixtures("mended")
async def test_it_is_read_from_the_index_again_once_that_is_back() -> None:
    async with world() as found:
        await found.copy()
        await found.lose()
        await found.rankd.submit("b", [("new", 2_000)])
        assert (await found.reader.page("b")).players[0] == "p00"
        found.index.empty()
        found.index.cut = False
        async with asyncio.timeout(60):
            while found.shared_projector.failure is not None:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)
        page = await found.reader.page("b")
        assert (page.players[0], page.as_of, page.stale) == ("new", found.rankd.position, False)


async def test_an_index_that_fell_back_is_not_believed_and_not_copied() -> None:
    async with world() as found:
        await found.copy()
        expected = await found.reader.page("b")
        taken = dict(found.kept.lists)
        found.index.empty()
        assert await found.reader.page("b") == stale(expected)
        assert found.shared_projector.failure is not None
        await found.copy()
        assert found.kept.lists == taken


async def test_a_list_that_is_replaced_under_a_read_is_read_whole_or_not_at_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another node may have the index for a moment longer than this one."""
    async with world("dense", entries=PLAYERS + 1) as found:
        await found.copy()
        before, older = await told(READS | BEYOND, found.reader), dict(found.kept.lists)
        await found.rankd.submit("b", [("new", 2_000), ("p29", 99)])
        await found.copy()
        after, newer = await told(READS | BEYOND, found.reader), dict(found.kept.lists)
        await found.lose()
        for name, read in (READS | BEYOND).items():
            if name in ("next", "previous", "page by page"):
                continue  # These are several reads.
            for fetches in range(4):
                lists = [older] * fetches

                async def list_of(ranking: Ranking, lists: Any = lists) -> TopList | None:
                    return (lists.pop() if lists else newer)[ranking]

                monkeypatch.setattr(found.kept, "list_of", list_of)
                answer = await read(found.reader, None)
                assert answer in (stale(before[name]), stale(after[name])), name


async def test_without_lists_only_closed_windows_are_answered() -> None:
    clock = SetClock()
    async with world(clock=clock) as found:
        clock.time += DAY
        await found.rankd.sealer.turn()
        await found.copy()
        found.shared_projector.set_fallback(found.kept, None)
        await found.lose()
        assert (await found.reader.page("b", window=YESTERDAY)).total == PLAYERS
        with pytest.raises(NotKept, match="nothing is kept"):
            await found.reader.page("b")


async def test_where_neither_can_be_reached_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    async def gone(ranking: Ranking) -> TopList | None:
        raise LedgerUnavailable("gone", applied="no")

    async with world() as found:
        await found.copy()
        monkeypatch.setattr(found.kept, "list_of", gone)
        await found.lose()
        with pytest.raises(IndexUnavailable, match="so is what is kept of it: gone"):
            await found.reader.page("b")


@pytest.mark.usefixtures("mended")
async def test_a_position_is_waited_for_in_the_ranking_that_is_read() -> None:
    async with world() as found:
        await found.copy()
        here = found.rankd.position
        await found.rankd.submit("b", [("new", 2_000)])
        await found.lose()
        known = Ranking("b", "all")

        async def reached(position: int, within_seconds: float) -> None:
            await found.rankd.reached(
                Position(position), within_seconds=within_seconds, ranking=lambda: known
            )

        await reached(here, 60)
        with pytest.raises(IndexBehind) as caught:
            await reached(here + 1, 0.01)
        assert (caught.value.position, caught.value.checkpoint) == (here + 1, here)
        waiting = asyncio.create_task(reached(here + 1, 60))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        found.index.cut = False  # And somebody notices.
        await waiting


async def test_a_spare_copy_goes_before_what_is_kept() -> None:
    index, kept = FarIndex(), MemoryArchive()
    async with running(
        ledger=SharedLedger(),
        build=bare,
        clock=SetClock(),
        reading=nullcontext(),
        shared=SharedHome(cast("Any", index), spare=True),
        archive=kept,
        listing=TopListSettings(kept, 10, 3_600.0),
        manages=False,
    ) as rankd:
        await rankd.define("b", {})
        await rankd.submit("b", [("ann", 1)])
        index.cut = True
        page = await rankd.reader.page("b")
        assert (page.players, page.as_of, page.stale) == (["ann"], rankd.position, True)


async def test_a_spare_copy_keeps_up_with_the_book_that_explains_it() -> None:
    async with running(
        ledger=SharedLedger(),
        build=bare,
        clock=SetClock(),
        reading=nullcontext(),
        shared=SharedHome(cast("Any", FarIndex()), spare=True),
        manages=False,
    ) as rankd:
        await rankd.define("b", {"ties": "dense", "windows": ["all", "daily"]})
        shared_projector = rankd.reader.projector
        assert isinstance(shared_projector, SharedProjector)
        assert shared_projector.spare is not None
        submitting = asyncio.create_task(rankd.submit("b", [(f"p{n}", n) for n in range(2_000)]))
        while not submitting.done():
            assert shared_projector.spare.checkpoint == shared_projector.checkpoint
            await asyncio.sleep(0)


@pytest.mark.usefixtures("mended")
async def test_an_index_that_cannot_be_reached_is_noticed_although_nobody_uses_it() -> None:
    """Also where its server, which may be another one by now, cannot be looked at again."""
    async with world() as found:
        found.index.cut = True
        async with asyncio.timeout(PATIENCE_SECONDS):
            while found.rankd.failure is None:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.001)
        assert isinstance(found.rankd.failure, IndexUnavailable)


STATES = ("banned", "hidden", "shadowed")


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("window", [None, YESTERDAY])
async def test_players_that_are_not_ranked_by_now_are_left_out(
    ties: str, window: str | None
) -> None:
    """Of the list and of the archive, whatever they had when these were made."""
    clock = SetClock()
    async with world(ties, entries=PLAYERS, clock=clock) as found:
        clock.time += DAY
        await found.rankd.sealer.turn()
        await found.copy()
        for number, state in enumerate(STATES):
            player = f"p{3 * number:02}"
            await found.rankd.corrections.set_player_state(player, cast("Any", state), {})
        if window is not None:
            found.kept.lists.clear()
        reads = dict(READS | BEYOND)
        if window is None:  # An old list does not tell that a player is not ranked.
            del reads["friends"]
        expected = stale(await told(reads, found.reader, window))
        await found.lose()
        shown = await told(reads, found.reader, window)
        assert placed(shown) == placed(expected)
        if window is None:
            with pytest.raises(NotKept, match="was not ranked at"):
                await found.reader.standing("b", "p03")
        else:
            assert await found.reader.standing("b", "p03", window=window) is None


def placed(answers: dict[str, Any]) -> list[str]:
    """Return answers without their positions: a list is of an earlier one than the index."""
    return [re.sub(r"as_of=\d+", "", repr(answer)) for answer in answers.values()]


async def test_the_archive_is_not_asked_once_a_player_is_ranked_again() -> None:
    """It may have been made without the player; nor once another edition was made."""
    clock = SetClock()
    async with world(clock=clock) as found:
        clock.time += DAY
        await found.rankd.sealer.turn()
        await found.rankd.corrections.set_player_state("p00", "hidden", {})
        await found.copy()
        found.kept.lists.clear()
        await found.rankd.corrections.set_player_state("p00", "active", {"boards": ["c"]})
        await found.lose()
        assert (await found.reader.page("b", window=YESTERDAY)).players[0] == "p01"
        found.index.cut = False
        await found.rankd.corrections.set_player_state("p00", "active", {})
        await found.lose()
        with pytest.raises(NotKept):
            await found.reader.page("b", window=YESTERDAY)

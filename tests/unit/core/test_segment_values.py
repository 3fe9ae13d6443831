"""The bound on a segment's values: what is beyond it is refused, and freed values count no more."""

from collections.abc import AsyncIterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from tests.unit.core.doubles import FarIndex, SetClock, SharedLedger, kept_in

from rankd.adapters.memory.index import NativeIndex
from rankd.adapters.memory.ledger import MemoryLedger
from rankd.core import segment_values
from rankd.core.assembly import running
from rankd.core.cluster.recovery import SharedHome
from rankd.core.engine import Engine
from rankd.core.segment_values import SegmentValues
from rankd.errors import TooManySegmentValues
from rankd.ports import Ranking

pytestmark = pytest.mark.anyio

VALUES_MAX = 3
BOARD = {"rule": "best", "windows": ["all", "daily"], "segments": ["clan"]}
PLAIN = {"rule": "best", "windows": ["all"]}
BOARDS, NEW_VALUES = 10, 3_000


@pytest.fixture(autouse=True)
def recounted_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_values, "RECOUNT_SECONDS", 0.0)


@pytest.fixture
async def rankd(tmp_path: Path) -> AsyncIterator[Engine]:
    async with running(
        ledger=MemoryLedger(),
        build=kept_in(tmp_path),
        clock=SetClock(),
        reading=nullcontext(),
        segment_values_max=VALUES_MAX,
    ) as rankd:
        await rankd.define("arena", BOARD)
        await rankd.define("plain", PLAIN)
        yield rankd


def item(player: str, clan: str | None = None) -> dict[str, object]:
    return {"player": player, "score": 1, "attributes": None if clan is None else {"clan": clan}}


async def fill(rankd: Engine) -> None:
    await rankd.submit("arena", [item(f"p{n}", f"c{n}") for n in range(VALUES_MAX)])


async def clans(rankd: Engine) -> set[str | None]:
    rankings = await rankd.reader.projector.index.rankings("arena")
    return {ranking.segment for ranking in rankings} - {None}


async def test_a_value_beyond_the_bound_is_refused(rankd: Engine) -> None:
    await fill(rankd)
    before = rankd.position
    with pytest.raises(TooManySegmentValues) as refused:
        await rankd.submit("arena", [item("new", "c0"), item("new", "other")])
    error = refused.value
    assert (error.board, error.segment, error.values_max, error.places) == (
        "arena",
        "clan",
        VALUES_MAX,
        (1,),
    )
    assert rankd.position == before
    await rankd.submit("arena", [item("new", "c0"), item("other")])


async def test_a_value_that_no_player_has_any_more_makes_room(rankd: Engine) -> None:
    await fill(rankd)
    await rankd.profile("p0", {"attributes": {"clan": "c1"}})
    await rankd.submit("arena", [item("new", "other")])
    assert await clans(rankd) == {"clan:c1", "clan:c2", "clan:other"}


async def test_ever_new_values_of_one_player_leave_nothing(rankd: Engine) -> None:
    for number in range(5 * VALUES_MAX):
        await rankd.submit("arena", [item("ann", f"c{number}")])
        assert await clans(rankd) == {f"clan:c{number}"}


async def test_ever_new_values_take_no_memory_and_no_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_values, "BROUGHT_VALUES_MIN", 100)
    async with running(
        ledger=MemoryLedger(), build=kept_in(tmp_path), clock=SetClock(), reading=nullcontext()
    ) as rankd:
        for number in range(BOARDS):
            await rankd.define(f"b{number}", BOARD)
            await rankd.submit(f"b{number}", [item("ann", "first")])
        held = await held_by(rankd, tmp_path)
        for number in range(NEW_VALUES):
            await rankd.submit("b0", [item("ann", f"v{number:04}")])
        assert await held_by(rankd, tmp_path) == held
        counted = rankd._writer._segment_values._values.values()
        assert sum(len(values) for board in counted for values in board.values()) < 200
        for number in range(BOARDS):
            await rankd.retire(f"b{number}")
        assert await held_by(rankd, tmp_path) == (0, 0, 0)


async def held_by(rankd: Engine, folder: Path) -> tuple[int, int, int]:
    """Return how many rankings, players and entries an index has, loaded from a snapshot too."""
    held = []
    await rankd.save()
    living, saved = rankd.reader.projector.index, kept_in(folder)()
    assert saved.snapshots is not None
    await saved.snapshots.load(lambda _: None)
    for index in (living, saved.index):
        assert isinstance(index, NativeIndex)
        lists = index.state.rankings.values()
        entries = sum(len(one.ranks) for one in lists)
        held.append((len(lists), len(index.state.players), entries))
    assert held[0] == held[1]
    return held[0]


async def test_profiles_are_bound_where_their_player_is(rankd: Engine) -> None:
    await fill(rankd)
    for change in (rankd.profile, rankd.merge_profile):
        with pytest.raises(TooManySegmentValues):
            await change("p0", {"attributes": {"clan": "other"}})
        await change("elsewhere", {"attributes": {"clan": "other"}})
    with pytest.raises(TooManySegmentValues):
        await rankd.submit("arena", [item("elsewhere")])
    with pytest.raises(TooManySegmentValues):
        await rankd.submit("plain", [item("p0", "other")])


@pytest.mark.parametrize("entered_first", [True, False])
async def test_values_are_counted_that_only_one_batch_puts_together(
    rankd: Engine, entered_first: bool
) -> None:
    await fill(rankd)
    bodies = [("arena", item("new")), ("plain", item("new", "other"))]
    told = await rankd.submit_each(bodies if entered_first else bodies[::-1])
    assert [isinstance(one, TooManySegmentValues) for one in told] == [False, True]


async def test_of_a_batch_only_what_is_beyond_the_bound_is_refused(rankd: Engine) -> None:
    await fill(rankd)
    bodies = [("arena", item("a", "c0")), ("arena", item("b", "new")), ("arena", item("c"))]
    told = await rankd.submit_each(bodies)
    assert [isinstance(one, TooManySegmentValues) for one in told] == [False, True, False]
    assert await rankd.reader.projector.index.count(Ranking("arena", "all")) == VALUES_MAX + 2


async def test_one_batch_does_not_bring_more_values_than_the_bound(rankd: Engine) -> None:
    await rankd.submit("arena", [item("p0", "c0")])
    told = await rankd.submit_each(
        [("arena", item(f"q{n}", f"d{n}")) for n in range(2 * VALUES_MAX)]
    )
    assert sum(isinstance(one, TooManySegmentValues) for one in told) == VALUES_MAX + 1
    assert len(await clans(rankd)) == VALUES_MAX


async def test_values_are_known_after_a_start(tmp_path: Path) -> None:
    ledger = MemoryLedger()
    for started in range(2):
        async with running(
            ledger=ledger,
            build=kept_in(tmp_path),
            clock=SetClock(),
            reading=nullcontext(),
            segment_values_max=VALUES_MAX,
        ) as rankd:
            if not started:
                await rankd.define("arena", BOARD)
                await fill(rankd)
            with pytest.raises(TooManySegmentValues):
                await rankd.submit("arena", [item("new", "other")])


async def test_submissions_are_taken_while_values_cannot_be_counted(tmp_path: Path) -> None:
    far = FarIndex()
    async with running(
        ledger=SharedLedger(),
        build=kept_in(tmp_path),
        clock=SetClock(),
        reading=nullcontext(),
        shared=SharedHome(far),
        segment_values_max=VALUES_MAX,
    ) as rankd:
        await rankd.define("arena", BOARD)
        far.cut = True
        await fill(rankd)


async def test_values_are_recounted_once_in_a_while(
    rankd: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_values, "RECOUNT_SECONDS", 1.0)
    time, state, index = [0.0], rankd.state, rankd.reader.projector.index
    values = SegmentValues(1, elapsed=lambda: time[0])
    await values.begin(state, index)
    page = state.page("arena")
    await values.take(page, "clan", "a", index)
    await values.begin(state, index)
    await values.take(page, "clan", "b", index)  # It is counted again: nobody is in a.
    with pytest.raises(TooManySegmentValues):
        await values.take(page, "clan", "c", index)
    time[0] += 1.0
    await values.begin(state, index)
    await values.take(page, "clan", "c", index)


async def test_retired_boards_are_forgotten(rankd: Engine) -> None:
    values = SegmentValues(VALUES_MAX)
    index = rankd.reader.projector.index
    await values.begin(rankd.state, index)
    for number in range(10):
        await rankd.define(f"b{number}", BOARD)
        await values.take(rankd.state.page(f"b{number}"), "clan", "a", index)
        await rankd.retire(f"b{number}")
    await values.begin(rankd.state, index)
    assert not values._values

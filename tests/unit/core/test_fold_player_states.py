"""States of players in the fold: ranks in their receipts, their ends, later boards, restarts.

Method: beside an engine in which a player has a state runs one in which it has none, or one that
never heard of that player. What both show must be equal, except for positions.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.unit.core.callers import scores, submit
from tests.unit.core.doubles import DAY, NOON, MovesIndex, SetClock, engine, verified

from rankd.adapters.memory.index import NativeIndex
from rankd.adapters.memory.ledger import MemoryLedger
from rankd.adapters.memory.snapshot_folder import SnapshotFolder
from rankd.core.engine import Engine
from rankd.core.recovery import IndexHome
from rankd.errors import InvalidBoard, PlayerBanned, TooManySegmentValues
from rankd.model.facts import PlayerStateSet, Position
from rankd.model.standing import Rank

if TYPE_CHECKING:
    from rankd.model.receipt import Receipt

pytestmark = pytest.mark.anyio

UNRANKED = ("banned", "hidden", "shadowed")
WINDOWS = {"windows": ["all", "daily"], "segments": ["region"]}


@pytest.fixture
async def rankd() -> AsyncIterator[Engine]:
    async with engine(MemoryLedger()) as rankd:
        yield rankd


GAMES = [
    [("ann", 10), ("eve", 20), ("bob", 20), ("eve", 15)],
    [("cyd", 30), ("eve", 40), ("bob", 40), ("eve", 40), ("ann", 41)],
    [("eve", 41), ("cyd", 5)],
]
"""Batches, each of one commit."""


async def receipts(index: Callable[[], Any], board: dict[str, Any], state: str) -> Any:
    """Return the receipts of each player, in a game in which eve has a state or never plays."""
    told: dict[str, list[Receipt]] = {}
    async with engine(MemoryLedger(), build=lambda: IndexHome(index(), None)) as rankd:
        await rankd.define("b", board)
        if state != "never":
            await submit(rankd, "eve", 1)
            await rankd.corrections.set_player_state("eve", state, {})  # type: ignore[arg-type]
        for batch in GAMES:
            items = [item for item in batch if state != "never" or item[0] != "eve"]
            for answer in await rankd.submit("b", items):
                assert answer.receipt is not None
                timeless = msgspec.structs.replace(answer.receipt, position=Position(1))
                told.setdefault(timeless.player, []).append(timeless)
        await verified(rankd)
    return told


@pytest.mark.parametrize("ties", ["ordinal", "standard", "dense"])
@pytest.mark.parametrize("rule", ["best", "latest", "sum"])
@pytest.mark.parametrize("index", [NativeIndex, MovesIndex])
async def test_receipts_of_a_shadowed_player_are_as_if_nothing_had_happened(
    ties: str, rule: str, index: Callable[[], Any]
) -> None:
    """And those of others as if it had never played, also within one batch."""
    board = {**WINDOWS, "ties": ties, "rule": rule}
    active = await receipts(index, board, "active")
    never = await receipts(index, board, "never")
    for state in ("shadowed", "hidden"):
        told = await receipts(index, board, state)
        own = told.pop("eve")
        assert told == never
        if state == "shadowed":
            assert own == active["eve"]
            continue
        for receipt in own:
            for window in receipt.windows.values():
                assert (window.rank, window.previous_rank) == (None, None)


async def test_a_ban_holds_on_boards_that_are_defined_later(rankd: Engine) -> None:
    await rankd.corrections.set_player_state("ann", "banned", {})
    await rankd.corrections.set_player_state("bob", "hidden", {"boards": ["b"]})
    await rankd.define("b", WINDOWS)
    await rankd.define("other", WINDOWS)
    with pytest.raises(PlayerBanned):
        await submit(rankd, "ann", 1)
    await submit(rankd, "bob", 1)
    await rankd.submit("other", [("bob", 2)])
    assert await scores(rankd) == {}
    assert await scores(rankd, "other") == {"bob": 2}
    await rankd.corrections.set_player_state("bob", "active", {"boards": ["b"]})
    assert await scores(rankd) == {"bob": 1}


async def test_states_hold_on_windows_that_open_later_and_in_closed_ones() -> None:
    clock = SetClock()
    async with engine(MemoryLedger(), clock=clock) as rankd:
        await rankd.define("b", WINDOWS)
        await submit(rankd, "ann", 1)
        await submit(rankd, "bob", 2)
        clock.time += DAY
        await submit(rankd, "cyd", 3)
        await rankd.corrections.set_player_state("ann", "shadowed", {})
        assert list((await rankd.reader.page("b", window="daily:-1")).players) == ["bob"]
        await submit(rankd, "ann", 5)
        clock.time += DAY
        await submit(rankd, "ann", 6)
        for window in ("all", "daily", "daily:-1", "daily:-2"):
            assert "ann" not in (await rankd.reader.page("b", window=window)).players
        await rankd.corrections.set_player_state("ann", "active", {})
        for window in ("all", "daily", "daily:-1", "daily:-2"):
            assert "ann" in (await rankd.reader.page("b", window=window)).players
        await verified(rankd)


async def test_a_state_ends_once_though_two_nodes_end_it(rankd: Engine) -> None:
    """The second fact changes nothing, not even a state that was set meanwhile."""
    await rankd.define("b", WINDOWS)
    await submit(rankd, "ann", 1)
    until = {"until": "2026-11-14T13:00:00Z"}
    at = await rankd.corrections.set_player_state("ann", "banned", until)
    end = PlayerStateSet("ann", "active", ends=at)
    for _ in range(2):
        await rankd.corrections._put(end)
        assert await scores(rankd) == {"ann": 1}
        assert not rankd.state.player_states and not rankd.state.players_timed
    await rankd.corrections.set_player_state("ann", "banned", {})
    await rankd.corrections._put(end)
    assert await scores(rankd) == {}


async def test_of_several_states_each_ends_in_its_time() -> None:
    clock = SetClock()
    async with engine(MemoryLedger(), clock=clock) as rankd:
        await rankd.define("b", WINDOWS)
        await rankd.define("c", WINDOWS)
        for board in ("b", "c"):
            await rankd.submit(board, [("ann", 1)])
        one, two = ({"until": f"2026-11-14T{hour}:00:00Z"} for hour in (13, 14))
        await rankd.corrections.set_player_state("ann", "banned", two)
        await rankd.corrections.set_player_state("ann", "hidden", {**one, "boards": ["b"]})
        await submit(rankd, "ann", 2)
        clock.time = NOON + DAY // 24
        await rankd.sealer.turn()
        with pytest.raises(PlayerBanned):  # On b the ban is in force again.
            await submit(rankd, "ann", 3)
        clock.time = NOON + DAY // 12
        await rankd.sealer.turn()
        assert (await scores(rankd), await scores(rankd, "c")) == ({"ann": 2}, {"ann": 1})


@pytest.mark.parametrize("state", UNRANKED)
async def test_states_are_in_snapshots(tmp_path: Path, state: Any) -> None:
    ledger = MemoryLedger()

    def build() -> IndexHome:
        index = NativeIndex()
        return IndexHome(index, SnapshotFolder(tmp_path, index))

    async with engine(ledger, build=build) as rankd:
        await rankd.define("b", WINDOWS)
        await rankd.submit("b", [{"player": "ann", "score": 1, "attributes": {"region": "eu"}}])
        await submit(rankd, "bob", 2)
        until = {"until": "2026-11-15T13:00:00Z"}
        await rankd.corrections.set_player_state("ann", state, until)
        await rankd.corrections.set_player_state("bob", "hidden", {})
        await rankd.corrections.set_player_state("bob", "active", {})
        await rankd.snapshotter.save()
        before = rankd.state
    async with engine(ledger, build=build) as rankd:
        assert rankd.snapshotter.saved == rankd.position
        assert rankd.state.player_states == before.player_states
        assert rankd.state.restored == before.restored
        assert await scores(rankd) == {"bob": 2}
        await verified(rankd)
        await rankd.corrections.set_player_state("ann", "active", {})
        assert list((await rankd.reader.page("b", segment="region:eu")).players) == ["ann"]


async def test_a_redefinition_loses_nothing_of_players_that_are_not_ranked(rankd: Engine) -> None:
    await rankd.define("b", {"decimals": 1, "windows": ["all"]})
    await rankd.submit("b", [("ann", "9000000000000000.5")])
    await rankd.corrections.set_player_state("ann", "hidden", {})
    with pytest.raises(InvalidBoard):
        await rankd.redefine("b", {"decimals": 4, "windows": ["all"]})


async def test_segments_of_players_that_are_not_ranked_are_counted() -> None:
    ledger = MemoryLedger()
    async with engine(ledger, segment_values_max=2) as rankd:
        await rankd.define("b", WINDOWS)
        for number in range(2):
            attributes = {"region": f"r{number}"}
            item = {"player": f"p{number}", "score": 1, "attributes": attributes}
            await rankd.submit("b", [item])
            await rankd.corrections.set_player_state(f"p{number}", "hidden", {})
    async with engine(ledger, segment_values_max=2) as rankd:
        item = {"player": "p2", "score": 1, "attributes": {"region": "r2"}}
        with pytest.raises(TooManySegmentValues):
            await rankd.submit("b", [item])


async def everything(rankd: Engine) -> Sequence[object]:
    """Return all entries, by ranking."""
    index = rankd.projector.index
    rankings = sorted(await index.rankings("b"), key=str)
    pages = [await index.read(one, first=Rank(1), limit=1_000) for one in rankings]
    return [(one, page.entries) for one, page in zip(rankings, pages, strict=True) if page.entries]


async def test_restoring_leaves_what_would_be_there_without_the_state() -> None:
    found = []
    for player in ("ann", "another"):
        async with engine(MemoryLedger()) as rankd:
            await rankd.define("b", {**WINDOWS, "rule": "sum"})
            await rankd.submit("b", [{"player": "ann", "score": 1, "metadata": {"car": 1}}])
            for state in UNRANKED[1:]:
                await rankd.corrections.set_player_state(player, state, {})  # type: ignore[arg-type]
                item = {"player": "ann", "score": 2, "metadata": {"car": 2}}
                await rankd.submit("b", [{**item, "attributes": {"region": "eu"}}])
            await rankd.corrections.set_player_state(player, "active", {})
            found.append(await everything(rankd))
    assert found[0] == found[1]


async def test_a_ban_whose_time_is_over_refuses_nothing_though_nothing_ended_it_yet() -> None:
    clock = SetClock()
    async with engine(MemoryLedger(), clock=clock) as rankd:
        await rankd.define("b", WINDOWS)
        await rankd.corrections.set_player_state("ann", "banned", {"until": "2026-11-14T13:00:00Z"})
        with pytest.raises(PlayerBanned):
            await submit(rankd, "ann", 1)
        clock.time = NOON + DAY // 24
        assert (await submit(rankd, "ann", 2)).receipt is not None
        assert await scores(rankd) == {"ann": 2}

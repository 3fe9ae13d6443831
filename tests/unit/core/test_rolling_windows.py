"""Rolling windows: today's counts and is read, tomorrow's is prepared beside it."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.unit.core.doubles import (
    DAY,
    HOUR,
    FaultyLedger,
    SetClock,
    SharedLedger,
    bare,
    bare_in_moves,
    engine,
    facts_of,
    kept_in,
    verified,
)

from rankd.adapters.memory.ledger import MemoryLedger
from rankd.adapters.memory.shared_index import MemorySharedIndex, SharedMemory
from rankd.core.cluster.recovery import SharedHome
from rankd.core.engine import Engine
from rankd.core.follower import following
from rankd.core.rolling_windows import RollingDrafts, coming_windows
from rankd.errors import InvalidRequest, UnknownWindow
from rankd.model.facts import Position, WindowOpened, WindowPrepared
from rankd.model.window import Instant, WindowState

pytestmark = pytest.mark.anyio

NOON = Instant(datetime(2026, 11, 19, 12, tzinfo=UTC).timestamp()) * 1_000_000
LAST3 = {"name": "last3", "rolling": "3d"}
BOARD = {"rule": "best", "windows": ["all", LAST3]}


@pytest.fixture(autouse=True)
def idle(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test say when windows are prepared, unless it is about that."""
    if "background" not in request.node.name:
        monkeypatch.setattr(RollingDrafts, "run", _for_ever)


async def _for_ever(_drafts: RollingDrafts) -> None:
    await asyncio.Event().wait()


def clock() -> SetClock:
    return SetClock(NOON)


async def shown(rankd: Engine, window: str = "last3", **more: Any) -> list[tuple[str, int]]:
    page = await rankd.reader.page("b", window=window, limit=100, **more)
    return [(one, score[0]) for one, score in zip(page.players, page.scores, strict=True)]


async def until(holds: Callable[[], bool]) -> None:
    """Let background work go on until something holds."""
    while not holds():  # noqa: ASYNC110 - nothing tells of it
        await asyncio.sleep(0.001)


def prepared(rankd: Engine) -> list[str]:
    return [one.window.id for one in rankd.state.page("b").prepared.values()]


def state_of(rankd: Engine, closed: str) -> WindowState:
    return rankd.state.page("b").sealed[closed].state


async def kinds(rankd: Engine, ledger: MemoryLedger | FaultyLedger) -> Sequence[tuple[str, str]]:
    del rankd
    return [
        (type(one.fact).__name__, one.fact.window)
        for one in await facts_of(ledger)
        if isinstance(one.fact, WindowOpened | WindowPrepared)
    ]


async def test_a_day_leaves_the_window_at_midnight() -> None:
    time = clock()
    async with engine(MemoryLedger(), time) as rankd:
        await rankd.define("b", BOARD)
        await rankd.submit("b", [("ann", 9), ("bob", 1)])
        time.time += DAY
        await rankd.submit("b", [("ann", 5)])
        time.time += DAY
        assert await shown(rankd) == [("ann", 9), ("bob", 1)]
        time.time += DAY
        await rankd.sealer.turn()
        assert await shown(rankd) == [("ann", 5)]
        assert await shown(rankd, "all") == [("ann", 9), ("bob", 1)]
        await verified(rankd)


async def test_the_coming_window_is_prepared_once_and_opened_by_a_pointer() -> None:
    time, ledger = clock(), MemoryLedger()
    async with engine(ledger, time) as rankd:
        await rankd.define("b", BOARD)
        await rankd.submit("b", [("ann", 9)])
        await asyncio.gather(rankd.rolling.look(), rankd.rolling.look())
        assert prepared(rankd) == ["last3:2026-11-20"]
        (answer,) = await rankd.submit("b", [("bob", 7)])
        assert answer.receipt is not None
        assert list(answer.receipt.windows) == ["all", "last3"]
        ranking = rankd.state.page("b").prepared["last3"].ranking
        assert await rankd.projector.index.count(ranking) == 2
        time.time += DAY
        before = await ledger.head()
        await rankd.sealer.turn()
        names = [type(one.fact).__name__ for one in (await facts_of(ledger))[before:]]
        assert names == ["WindowSealed", "WindowOpened"]
        assert rankd.state.page("b").windows["last3"].ranking == ranking
        assert await shown(rankd) == [("ann", 9), ("bob", 7)]
        await verified(rankd)


async def test_background_work_prepares_without_being_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rankd.core.rolling_windows.PREPARE_SECONDS", 0.001)
    async with engine(MemoryLedger(), clock()) as rankd:
        await rankd.define("b", BOARD)
        await until(lambda: bool(prepared(rankd)))


async def test_nothing_is_prepared_of_which_today_is_no_part() -> None:
    async with engine(MemoryLedger(), clock()) as rankd:
        await rankd.define("b", {"rule": "sum", "windows": [{"name": "today", "rolling": "1d"}]})
        await rankd.rolling.look()
        assert prepared(rankd) == []


async def test_the_window_before_is_kept_for_a_day() -> None:
    time = clock()
    async with engine(MemoryLedger(), time) as rankd:
        await rankd.define("b", BOARD)
        await rankd.submit("b", [("ann", 9)])
        time.time += DAY
        await rankd.submit("b", [("bob", 7)])
        assert await shown(rankd, "last3:-1") == await shown(rankd, "last3:2026-11-19")
        assert await shown(rankd, "last3:-1") == [("ann", 9)]
        assert (await rankd.reader.page("b", window="last3:-1")).state is WindowState.SEALED
        time.time += DAY
        await rankd.sealer.turn()
        await rankd.sealer.turn()
        with pytest.raises(UnknownWindow):
            await shown(rankd, "last3:2026-11-19")
        await verified(rankd)


async def test_a_coming_window_is_scheduled_also_while_it_is_prepared() -> None:
    async with engine(MemoryLedger(), clock()) as rankd:
        await rankd.define("b", BOARD)
        await rankd.submit("b", [("ann", 9)])
        await rankd.rolling.look()
        page = await rankd.reader.page("b", window="last3:2026-11-20")
        assert (page.state, page.total) == (WindowState.SCHEDULED, 0)
        assert page.opens_at == NOON + DAY // 2


async def test_a_start_after_days_folds_the_window_of_today_and_knows_no_other() -> None:
    time, ledger = clock(), MemoryLedger()
    async with engine(ledger, time) as rankd:
        await rankd.define("b", BOARD)
        await rankd.submit("b", [("ann", 9)])
        await rankd.rolling.look()
        time.time += DAY
        await rankd.submit("b", [("bob", 7)])
    time.time += 2 * DAY
    async with engine(ledger, time) as rankd:
        await rankd.sealer.turn()
        assert await shown(rankd) == [("bob", 7)]
        with pytest.raises(UnknownWindow):
            await shown(rankd, "last3:-1")
        assert (await kinds(rankd, ledger))[-2:] == [
            ("WindowPrepared", "last3:2026-11-22"),
            ("WindowOpened", "last3:2026-11-22"),
        ]
        await verified(rankd)


async def test_a_prepared_window_outlives_a_restart(tmp_path: Path) -> None:
    time, ledger = clock(), MemoryLedger()
    async with engine(ledger, time, kept_in(tmp_path)) as rankd:
        await rankd.define("b", BOARD)
        await rankd.submit("b", [("ann", 9)])
        await rankd.rolling.look()
        await rankd.save()
    time.time += DAY
    async with engine(ledger, time, kept_in(tmp_path)) as rankd:
        await rankd.submit("b", [("bob", 7)])
        assert await shown(rankd) == [("ann", 9), ("bob", 7)]
        assert [kind for kind, _ in await kinds(rankd, ledger)] == [
            "WindowPrepared",
            "WindowOpened",
        ]
        await verified(rankd)


async def test_a_submission_that_todays_window_refuses_counts_in_no_later_one() -> None:
    time = clock()
    for build in (bare, bare_in_moves):
        time.time = NOON
        async with engine(MemoryLedger(), time, build) as rankd:
            limits = {"score_max": 10}
            await rankd.define("b", {"rule": "sum", "windows": [LAST3], "limits": limits})
            await rankd.submit("b", [("ann", 8)])
            time.time += 2 * DAY
            await rankd.sealer.turn()
            await rankd.rolling.look()
            (refused,) = await rankd.submit("b", [("ann", 5)])
            assert refused.receipt is not None and refused.receipt.rejected
            await rankd.submit("b", [("ann", 1)])
            time.time += DAY
            await rankd.sealer.turn()
            assert await shown(rankd) == [("ann", 1)]
            await rankd.corrections.adjust("b", {"player": "ann", "delta": 2, "reason": "owed"})
            await verified(rankd)


async def test_attempts_are_those_of_the_days_of_the_window() -> None:
    time = clock()
    async with engine(MemoryLedger(), time) as rankd:
        limits = {"attempts_max": 2}
        await rankd.define("b", {"rule": "best", "windows": [LAST3], "limits": limits})
        counted = []
        for _ in range(7):
            (answer,) = await rankd.submit("b", [("ann", 1)])
            assert answer.receipt is not None
            counted.append(not answer.receipt.rejected)
            time.time += DAY
        # The first attempt counts until its day has left.
        assert counted == [True, True, False, True, True, False, True]
        await verified(rankd)


async def test_corrections_reach_the_window_of_today_and_the_prepared_one() -> None:
    time = clock()
    async with engine(MemoryLedger(), time) as rankd:
        await rankd.define("b", BOARD)
        await rankd.submit("b", [("ann", 3), ("bob", 1)])
        time.time += DAY
        (cheat,) = await rankd.submit("b", [("ann", 99)])
        await rankd.rolling.look()
        effect = await rankd.corrections.retract("b", {"position": cheat.position, "reason": "x"})
        windows = {change.window for change in effect.changes}
        assert windows == {"all", "last3:2026-11-20"}
        await rankd.corrections.set_player_state("bob", "hidden", {"reason": "x"})
        time.time += DAY
        await rankd.sealer.turn()
        assert await shown(rankd) == [("ann", 3)]
        await rankd.corrections.set_player_state("bob", "active", {"reason": "x"})
        assert await shown(rankd) == [("ann", 3), ("bob", 1)]
        time.time += DAY
        await rankd.sealer.turn()
        assert await shown(rankd) == []
        await verified(rankd)


async def test_a_redefinition_adds_changes_and_removes_rolling_windows() -> None:
    time = clock()
    async with engine(MemoryLedger(), time) as rankd:
        await rankd.define("b", {"rule": "best", "windows": ["all"]})
        await rankd.submit("b", [("ann", 9)])
        time.time += 2 * DAY
        await rankd.submit("b", [("bob", 7)])
        await rankd.redefine("b", BOARD)
        assert await shown(rankd) == [("ann", 9), ("bob", 7)]
        await rankd.rolling.look()
        assert prepared(rankd) == ["last3:2026-11-22"]
        await rankd.redefine("b", {**BOARD, "windows": ["all", {**LAST3, "rolling": "2d"}]})
        assert (await shown(rankd), prepared(rankd)) == ([("bob", 7)], [])
        await rankd.rolling.look()
        await rankd.redefine("b", {**BOARD, "title": "The last two days", "windows": ["all"]})
        assert prepared(rankd) == []
        assert not [one for one in await rankd.projector.index.rankings("b") if "22" in one.window]
        await verified(rankd)


async def test_another_title_leaves_the_prepared_window_as_it_is() -> None:
    async with engine(MemoryLedger(), clock()) as rankd:
        await rankd.define("b", BOARD)
        await rankd.submit("b", [("ann", 9)])
        await rankd.rolling.look()
        await rankd.redefine("b", {**BOARD, "title": "Three days"})
        assert prepared(rankd) == ["last3:2026-11-20"]
        await verified(rankd)


@pytest.mark.parametrize("step", ["reset_window", "freeze_window", "settle_window"])
async def test_an_open_one_is_not_closed_by_operators(step: str) -> None:
    async with engine(MemoryLedger(), clock()) as rankd:
        await rankd.define("b", BOARD)
        with pytest.raises(InvalidRequest, match="rolling window"):
            await getattr(rankd, step)("b", {"window": "last3", "reason": "because"})


async def test_a_closed_one_can_be_settled() -> None:
    time = clock()
    async with engine(MemoryLedger(), time) as rankd:
        await rankd.define("b", BOARD)
        await rankd.submit("b", [("ann", 9)])
        time.time += DAY
        await rankd.sealer.turn()
        done = await rankd.settle_window("b", {"window": "last3:-1", "reason": "over"})
        assert done.window.state is WindowState.FINAL


async def test_a_grace_keeps_the_closed_one_unsealed_while_the_next_counts() -> None:
    time = clock()
    async with engine(MemoryLedger(), time) as rankd:
        await rankd.define("b", {**BOARD, "windows": [{**LAST3, "grace": "1h"}]})
        await rankd.submit("b", [("ann", 9)])
        await rankd.rolling.look()
        time.time = NOON + DAY // 2
        await rankd.submit("b", [("bob", 7)])
        assert state_of(rankd, "last3:2026-11-19") is WindowState.GRACE
        assert await shown(rankd) == [("ann", 9), ("bob", 7)]
        time.time += HOUR
        await rankd.sealer.turn()
        assert state_of(rankd, "last3:2026-11-19") is WindowState.SEALED
        await verified(rankd)


async def test_midnight_in_the_middle_of_a_preparation_folds_the_rest() -> None:
    time, ledger = clock(), FaultyLedger()
    async with engine(ledger, time) as rankd:
        await rankd.define("b", BOARD)
        await rankd.submit("b", [("ann", 9)])
        window = next(iter(_coming(rankd)))
        await rankd.rolling._pursue_head("b", window)
        assert list(rankd.projector.rolling) == [("b", "last3:2026-11-20")]
        time.time += DAY
        await rankd.submit("b", [("bob", 7)])
        assert (await shown(rankd), rankd.projector.rolling) == ([("ann", 9), ("bob", 7)], {})
        await verified(rankd)


async def test_a_correction_overtakes_a_draft_which_is_begun_anew() -> None:
    async with engine(MemoryLedger(), clock()) as rankd:
        await rankd.define("b", BOARD)
        (cheat,) = await rankd.submit("b", [("ann", 9)])
        await rankd.rolling._pursue_head("b", next(iter(_coming(rankd))))
        draft = rankd.projector.rolling["b", "last3:2026-11-20"]
        await rankd.corrections.retract("b", {"position": cheat.position, "reason": "x"})
        await rankd.rolling.look()
        assert (draft.position, prepared(rankd)) == (cheat.position, ["last3:2026-11-20"])
        await verified(rankd)


def _coming(rankd: Engine) -> list[Any]:
    return list(coming_windows(rankd.state.page("b")))


@pytest.mark.parametrize("shared", [False, True])
async def test_nodes_race_to_prepare_and_one_fact_is_recorded(shared: bool) -> None:
    time, ledger, memory = clock(), SharedLedger(), SharedMemory()
    async with AsyncExitStack() as stack:
        nodes = []
        for _ in range(3):
            home = SharedHome(MemorySharedIndex(memory)) if shared else None
            nodes.append(await stack.enter_async_context(engine(ledger, time, shared=home)))
        await nodes[0].define("b", BOARD)
        await nodes[1].submit("b", [("ann", 9)])
        for node in nodes:
            await caught_up(node)
        await asyncio.gather(*(node.rolling.look() for node in nodes))
        time.time += DAY
        await asyncio.gather(*(node.sealer.turn() for node in nodes))
        await nodes[2].submit("b", [("bob", 7)])
        for node in nodes:
            await caught_up(node)
            assert await shown(node) == [("ann", 9), ("bob", 7)]
            await verified(node)
        assert await kinds(nodes[0], ledger) == [
            ("WindowPrepared", "last3:2026-11-20"),
            ("WindowOpened", "last3:2026-11-20"),
        ]


async def caught_up(node: Engine) -> None:
    async with node._writer.turn():
        await node._writer.catch_up_others()


async def test_a_follower_has_its_own_draft_ready(tmp_path: Path) -> None:
    time, ledger = clock(), MemoryLedger()
    async with engine(ledger, time, kept_in(tmp_path)) as rankd:
        await rankd.define("b", BOARD)
        await rankd.submit("b", [("ann", 9)])
        async with following(
            ledger=ledger, build=kept_in(tmp_path / "other"), clock=time, tell=lambda _: None
        ) as follower:
            await RollingDrafts(ledger, lambda: follower.projector).look()
            assert follower.projector.rolling
            await rankd.rolling.look()
            time.time += DAY
            await rankd.submit("b", [("bob", 7)])
            follower.hear(rankd.position)
            await follower.follow_to(Position(rankd.position))
            assert not follower.projector.rolling
            page = await follower.reader.page("b", window="last3", limit=10)
            assert list(page.players) == ["ann", "bob"]

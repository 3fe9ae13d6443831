"""Turns: a window closes once, opens once and is dropped once, whatever was redefined meanwhile."""

import asyncio
import gc
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from tests.unit.core.doubles import (
    DAY,
    HOUR,
    NOON,
    FaultyLedger,
    MovesIndex,
    SetClock,
    SharedLedger,
    engine,
    facts_of,
    state_of,
    verified,
)

from rankd.adapters.memory.index import NativeIndex
from rankd.core.engine import Engine
from rankd.core.recovery import IndexHome
from rankd.core.state import State
from rankd.core.window_schedule import (
    EXPIRED,
    HEAP_SLACK,
    NEVER,
    Schedule,
    _DueTimes,
    windows_at,
)
from rankd.errors import InvalidBoard, UnknownBoard
from rankd.model.board import Board
from rankd.model.facts import (
    BoardDefined,
    BoardExpired,
    BoardRetired,
    Fact,
    Position,
    Recorded,
    WindowDropped,
    WindowOpened,
    WindowSealed,
)
from rankd.model.window import Instant

pytestmark = pytest.mark.anyio
DAILY: Mapping[str, Any] = {"rule": "sum", "windows": ["daily"], "retention": {"daily": "1h"}}


def shift(every: str, **more: str) -> dict[str, str]:
    return {"name": "shift", "start": "2026-11-14T00:00:00Z", "every": every, **more}


class Lived:
    """An engine with a clock that is set."""

    def __init__(self, rankd: Engine, clock: SetClock, ledger: FaultyLedger) -> None:
        self.rankd, self.clock, self.ledger = rankd, clock, ledger

    async def at(self, time: Instant) -> None:
        """Let it be so late, and windows turn."""
        self.clock.time = time
        await self.rankd.sealer.turn()
        assert not Schedule().due(self.rankd.state, time)
        assert Schedule().next(self.rankd.state, time) > time

    def open(self) -> list[str]:
        return [window.id for window, *_ in self.rankd.state.page("b").windows.values()]

    def sealed(self) -> list[str]:
        return list(self.rankd.state.page("b").sealed)

    async def submit(self, score: int = 1) -> None:
        await self.rankd.submit("b", [{"player": "p", "score": score}])

    async def kinds(self) -> list[tuple[str, str]]:
        turns = (WindowOpened, WindowSealed, WindowDropped)
        return [
            (type(one.fact).__name__.removeprefix("Window"), one.fact.window)
            for one in await facts_of(self.ledger)
            if isinstance(one.fact, turns)
        ]


async def lived(story: Any) -> None:
    clock, ledger = SetClock(), FaultyLedger()
    async with engine(ledger, clock) as rankd:
        await story(Lived(rankd, clock, ledger))
        await verified(rankd)
        living = state_of(rankd.reader.projector)
    async with engine(ledger.anew(), clock) as rankd:
        assert state_of(rankd.reader.projector) == living


async def test_days_that_nobody_played_are_passed_over() -> None:
    async def story(life: Lived) -> None:
        await life.rankd.define("b", {"rule": "sum", "windows": ["daily"]})
        await life.at(NOON + 3 * DAY)
        assert life.open() == ["daily:2026-11-17"]
        assert life.sealed() == ["daily:2026-11-14"]
        assert await life.kinds() == [
            ("Sealed", "daily:2026-11-14"),
            ("Opened", "daily:2026-11-17"),
        ]

    await lived(story)


async def test_a_closed_window_is_dropped_when_it_was_kept_enough_and_never_an_open_one() -> None:
    async def story(life: Lived) -> None:
        await life.rankd.define("b", DAILY)
        await life.submit()
        await life.at(NOON + 12 * HOUR)
        assert (life.open(), life.sealed()) == (["daily:2026-11-15"], ["daily:2026-11-14"])
        await life.submit()
        await life.at(NOON + 13 * HOUR - 1)
        assert life.sealed() == ["daily:2026-11-14"]
        await life.at(NOON + 13 * HOUR)
        assert (life.open(), life.sealed()) == (["daily:2026-11-15"], [])
        index = life.rankd.reader.projector.index
        assert [ranking.window for ranking in await index.rankings("b")] == ["daily:2026-11-15"]
        assert (await life.rankd.reader.page("b")).total == 1

    await lived(story)


async def test_a_window_with_a_gap_opens_after_it() -> None:
    async def story(life: Lived) -> None:
        definition = {"rule": "sum", "windows": [shift("6h", gap="6h")]}
        await life.rankd.define("b", definition)  # At noon a shift begins.
        assert len(life.open()) == 1
        await life.at(NOON + 7 * HOUR)
        assert life.open() == []
        await life.submit()  # It counts nowhere, and is answered.
        assert Schedule().next(life.rankd.state, life.clock.time) == NOON + 12 * HOUR
        await life.at(NOON + 12 * HOUR)
        assert len(life.open()) == 1
        assert (await life.rankd.reader.page("b")).total == 0

    await lived(story)


async def test_a_window_under_a_used_id_closes_when_its_time_is_over() -> None:
    """Shifts are numbered: the third of one definition was dropped, and then comes another's."""

    async def story(life: Lived) -> None:
        rules = {"rule": "sum", "retention": {"shift": "1h"}}
        await life.rankd.define("b", {**rules, "windows": [shift("6h")]})
        assert life.open() == ["shift:3"]
        await life.at(NOON + 6 * HOUR)
        await life.at(NOON + 7 * HOUR)
        other = {**shift("6h"), "start": "2026-11-14T05:00:00Z"}
        await life.rankd.redefine("b", {**rules, "windows": [other]})
        assert life.open() == ["shift:3"]
        await life.submit(1)
        await life.at(NOON + 11 * HOUR)
        await life.submit(10)
        assert (life.open(), life.sealed()) == (["shift:4~2"], ["shift:3"])
        page = await life.rankd.reader.page("b")
        assert [one.scores for one in page.standings] == [(10,)]
        await life.at(NOON + 12 * HOUR)
        assert life.sealed() == []

    await lived(story)


async def test_a_window_of_the_same_time_goes_on_under_its_id() -> None:
    async def story(life: Lived) -> None:
        await life.rankd.define("b", {"rule": "sum", "windows": ["all", "daily"]})
        await life.submit(5)
        await life.rankd.redefine("b", {"rule": "best", "windows": ["daily", "all"]})
        assert life.open() == ["daily:2026-11-14", "all"]
        assert life.sealed() == []

    await lived(story)


async def test_a_board_of_the_same_name_has_windows_of_its_own() -> None:
    async def story(life: Lived) -> None:
        for _ in range(3):
            await life.rankd.define("b", DAILY)
            await life.submit()
            await life.rankd.retire("b")
        await life.rankd.define("b", DAILY)
        await life.at(NOON + 12 * HOUR)
        assert life.open() == ["daily:2026-11-15"]
        await life.rankd.retire("b")
        await life.rankd.define("b", DAILY)
        await life.at(NOON + 36 * HOUR)
        assert life.open() == ["daily:2026-11-16"]

    await lived(story)


async def test_who_notices_at_the_same_time_turns_once() -> None:
    async def story(life: Lived) -> None:
        await life.rankd.define("b", {"rule": "sum", "windows": ["daily"]})
        life.clock.time += DAY
        await asyncio.gather(*[life.rankd.sealer.turn() for _ in range(3)], life.submit())
        assert len(await life.kinds()) == 2

    await lived(story)


def test_an_empty_book_never_turns() -> None:
    assert Schedule().due(State(), NOON) == []
    assert Schedule().next(State(), NOON) == NEVER


def test_a_new_board_opens_the_windows_of_its_time() -> None:
    board = Board.define("b", {"rule": "sum", "windows": ["all", "daily", shift("6h", gap="6h")]})
    assert [one.window for one in windows_at(None, board, NOON)][:2] == ["all", "daily:2026-11-14"]
    assert len(windows_at(None, board, NOON)) == 3
    assert len(windows_at(None, board, NOON + 7 * HOUR)) == 2


# --------------------------------------------------------------------------------- cost


def closed(boards: int, windows: int) -> State:
    """Return a state of boards with hourly windows, so many of each closed before noon."""
    state = State()
    position = count(1)

    def note(at: Instant, fact: Fact) -> None:
        state.note(Recorded(Position(next(position)), at, fact))

    hourly = [{"name": "hour", "start": "2020-01-01T00:00:00Z", "every": "1h"}]
    definition = Board.define("b", {"windows": hourly, "retention": {"hour": "400d"}}).definition()
    for name in (f"b{number}" for number in range(boards)):
        note(NOON - windows * HOUR, BoardDefined(name, definition))
        (recurrence,) = state.boards[name].board.windows
        for number in range(windows + 1):
            start = NOON - (windows - number) * HOUR
            window = recurrence.window_at(start)
            assert window is not None
            note(start, WindowOpened(name, window.id, window.start, window.end))
            if number < windows:
                note(start + HOUR, WindowSealed(name, window.id))
    return state


def calls_of_a_turn(state: State) -> int:
    """Return how many functions it takes to turn the window of one board, all others resting."""
    schedule = Schedule()
    for name in [*state.boards][1:]:
        page = state.boards[name]
        page.windows = {
            "hour": page.windows["hour"]._replace(
                window=replace(page.windows["hour"].window, end=NOON + DAY)
            )
        }
    assert schedule.next(state, NOON) == NOON + HOUR
    calls = 0

    def tell(_frame: object, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    gc.disable()  # A collection may call functions of its own: Hypothesis measures each.
    sys.setprofile(tell)
    try:
        facts = schedule.due(state, NOON + HOUR)
        for position, fact in enumerate(facts, 1_000_000):
            state.note(Recorded(Position(position), NOON + HOUR, fact))
        coming = schedule.next(state, NOON + HOUR, None, ["b0"])
    finally:
        sys.setprofile(None)
        gc.enable()
    assert [type(fact) for fact in facts] == [WindowSealed, WindowOpened]
    assert coming == NOON + 2 * HOUR
    return calls


def test_turn_costs_the_same_however_many_windows_are_closed() -> None:
    calls_of_a_turn(closed(1, 20))  # Fills the caches of the calendar.
    assert calls_of_a_turn(closed(1, 20)) == calls_of_a_turn(closed(1, 2_000))


def test_turn_costs_the_same_however_many_boards_rest() -> None:
    calls_of_a_turn(closed(2, 1))  # Fills the caches of the calendar.
    assert calls_of_a_turn(closed(2, 1)) == calls_of_a_turn(closed(200, 1))


def test_schedule_agrees_with_one_made_anew() -> None:
    """Whatever turns, is retired or is defined, what is due is what a new schedule finds."""
    state, schedule = closed(5, 3), Schedule()
    position = 2_000_000
    assert schedule.next(state, NOON) == Schedule().next(state, NOON)
    for hour in range(1, 30):
        now = NOON + hour * HOUR
        facts = schedule.due(state, now)
        assert facts == schedule.due(state, now), "they stay due until the next is asked for"
        assert sorted(map(repr, facts)) == sorted(map(repr, Schedule().due(state, now)))
        if hour == 10:
            facts = [*facts, BoardRetired("b2")]
        for fact in facts:
            position += 1
            state.note(Recorded(Position(position), now, fact))
        boards = {fact.board for fact in facts}  # type: ignore[attr-defined]
        assert schedule.next(state, now, None, boards) == Schedule().next(state, now) == now + HOUR


EXPIRING: Mapping[str, Any] = {"windows": ["all", "daily"], "expires": "2026-11-16T06:00:00Z"}
EXPIRY = NOON + DAY + 18 * HOUR


def expiries_in(facts: Sequence[Recorded]) -> list[BoardExpired]:
    return [one.fact for one in facts if isinstance(one.fact, BoardExpired)]


async def test_a_board_expires_at_its_time_and_once() -> None:
    clock, ledger = SetClock(), FaultyLedger()
    async with engine(ledger, clock) as rankd:
        await rankd.define("b", EXPIRING)
        await rankd.submit("b", [{"player": "p", "score": 1}])
        for time, there in ((EXPIRY - 1, True), (EXPIRY, False), (EXPIRY + DAY, False)):
            clock.time = time
            await rankd.sealer.turn()
            assert ("b" in rankd.state.boards) is there
        assert [one.reason for one in expiries_in(await facts_of(ledger))] == [EXPIRED]
        assert not await rankd.reader.projector.index.rankings("b")
        await verified(rankd)
    async with engine(ledger.anew(), clock) as rankd:
        assert not rankd.state.boards


async def test_a_submission_at_the_time_of_expiry_finds_no_board() -> None:
    clock, ledger = SetClock(), FaultyLedger()
    async with engine(ledger, clock) as rankd:
        await rankd.define("b", EXPIRING)
        clock.time = EXPIRY
        (answer,) = await rankd.submit("b", [{"player": "p", "score": 1}])
        assert answer.receipt is None
        with pytest.raises(UnknownBoard):
            await rankd.submit("b", [{"player": "p", "score": 1}])


async def test_a_board_that_is_over_cannot_be_defined_and_one_that_lives_on_can() -> None:
    clock, ledger = SetClock(), FaultyLedger()
    async with engine(ledger, clock) as rankd:
        past = {**EXPIRING, "expires": "2026-11-14T12:00:00Z"}
        with pytest.raises(InvalidBoard, match="expires"):
            await rankd.define("b", past)
        await rankd.define("b", EXPIRING)
        for refused in (rankd.redefine, rankd.preview):
            with pytest.raises(InvalidBoard, match="later than now"):
                await refused("b", past)
        await rankd.submit("b", [{"player": "p", "score": 1}])
        await rankd.redefine("b", {**EXPIRING, "expires": "2026-11-18T00:00:00Z"})
        clock.time = EXPIRY
        await rankd.sealer.turn()
        assert await rankd.reader.standing("b", "p") is not None
        clock.time = NOON + 4 * DAY
        await rankd.sealer.turn()
        assert "b" not in rankd.state.boards
        await rankd.define("b", {"windows": ["all"]})
        await verified(rankd)


@pytest.mark.parametrize("index", [NativeIndex, MovesIndex])
async def test_an_expiry_of_an_earlier_definition_retires_nothing(
    index: Callable[[], NativeIndex],
) -> None:
    """A node that had not heard of the new definition may record it."""
    clock, ledger = SetClock(), FaultyLedger()
    async with engine(ledger, clock, lambda: IndexHome(index(), None)) as rankd:
        await rankd.define("b", EXPIRING)
        since = rankd.state.page("b").defined_at
        await rankd.redefine("b", {"windows": ["all", "daily"]})
        await rankd.submit("b", [{"player": "p", "score": 1}])
        await rankd._put(BoardExpired("b", since=since))
        assert await rankd.reader.standing("b", "p") is not None
        await verified(rankd)


async def test_two_nodes_that_notice_together_retire_a_board_once() -> None:
    clock, ledger = SetClock(), SharedLedger()
    async with engine(ledger, clock) as one, engine(ledger, clock) as other:
        await one.define("b", EXPIRING)
        await other.submit("b", [{"player": "p", "score": 1}])
        clock.time = EXPIRY
        await asyncio.gather(one.sealer.turn(), other.sealer.turn())
        assert not one.state.boards
        assert not other.state.boards
        assert len(expiries_in(await facts_of(ledger))) == 1


def test_many_changes_leave_no_outlived_times() -> None:
    due = _DueTimes()
    for at in range(100_000):
        due.put("b", at)
    assert len(due._heap) <= 2 + HEAP_SLACK
    assert (due.next(), due.take(100_000), due.next()) == (99_999, ["b"], NEVER)

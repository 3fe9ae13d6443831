"""Correcting the time: windows and archives as if it had never been wrong."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from tests.unit.core.doubles import (
    DAY,
    HOUR,
    NOON,
    FaultyLedger,
    MachineClock,
    SetClock,
    SharedLedger,
    engine,
    facts_of,
    state_of,
    verified,
)

from rankd.core.engine import Engine
from rankd.errors import InvalidRequest
from rankd.model.facts import (
    Position,
    TimeCorrected,
    WindowDropped,
    WindowOpened,
    WindowsCorrected,
    WindowSealed,
)
from rankd.model.window import Instant

pytestmark = pytest.mark.anyio

TURNS = (WindowOpened, WindowSealed, WindowDropped)
YEAR = 365 * DAY
SEASON = {"name": "season", "start": "2026-01-01T00:00:00Z"}
BOARD = {"rule": "sum", "windows": ["all", "daily", "monthly"], "retention": {"daily": "3d"}}
DECAYS: list[dict[str, Any] | None] = [
    None,
    {"half_life": "1d"},
    {"linear": {"points": 3, "per": "1d"}, "floor": 0},
]


async def standings_of(rankd: Engine) -> Mapping[str, Mapping[str, Any]]:
    """Return every window of every board with its standings."""
    found: dict[str, dict[str, Any]] = {}
    for name, page in rankd.state.boards.items():
        windows = [*page.sealed, *(opened.window.id for opened in page.windows.values())]
        found[name] = {}
        for id in windows:
            listed = await rankd.reader.page(name, window=id, limit=1_000)
            found[name][id] = [
                (one.rank, one.player, one.scores, one.raw) for one in listed.standings
            ]
    return found


async def submit(rankd: Engine, player: str, score: int, board: str = "b") -> None:
    await rankd.submit(board, [{"player": player, "score": score}])


async def first_at(rankd: Engine, time: Instant) -> Position:
    """Return the first position of a time or later."""
    facts = await facts_of(rankd._ledger)
    return next(one.position for one in facts if one.at >= time)


async def play(
    rankd: Engine, clock: SetClock, *, ahead: int = 0, decay: dict[str, Any] | None = None
) -> None:
    """Play for six days, with a clock that is ahead on two of them until it is corrected."""
    await rankd.define("b", {**BOARD, "decay": decay})
    for day in range(6):
        for hour in (1, 5):
            offset = ahead if day in (3, 4) else 0
            clock.time = Instant(NOON + day * DAY + hour * HOUR + offset)
            await rankd.sealer.turn()
            await submit(rankd, f"p{day}", 10)
            await submit(rankd, "p", day + hour)
        if day == 4 and ahead:
            clock.time = Instant(NOON + day * DAY + 6 * HOUR)
            first = await first_at(rankd, NOON + 3 * DAY + ahead) if ahead == DAY else None
            done = await rankd.correct_time(first=first, ahead=ahead)
            assert [fact.board for fact in done.boards] == ["b"]
            assert rankd.ledger_time == clock.time


@pytest.mark.parametrize("decay", DECAYS)
@pytest.mark.parametrize("ahead", [DAY, 60 * DAY, 10 * YEAR])
async def test_windows_are_as_if_the_time_had_been_right(
    ahead: int, decay: dict[str, Any] | None
) -> None:
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        await play(rankd, clock, decay=decay)
        expected = await standings_of(rankd)
    ledger, clock = FaultyLedger(), SetClock()
    async with engine(ledger, clock) as rankd:
        await play(rankd, clock, ahead=ahead, decay=decay)
        assert await standings_of(rankd) == expected
        await verified(rankd)
        state = state_of(rankd.projector)
    async with engine(ledger.anew(), clock) as rankd:
        assert state_of(rankd.projector) == state


async def test_preview_tells_what_a_correction_changes_and_changes_nothing() -> None:
    clock, ledger = SetClock(), FaultyLedger()
    async with engine(ledger, clock) as rankd:
        await rankd.define("b", BOARD)
        await rankd.define("c", {"windows": ["all"]})
        await submit(rankd, "p", 1)
        clock.time = Instant(NOON + 10 * YEAR)
        await submit(rankd, "p", 2)
        clock.time = Instant(NOON + HOUR)
        before = state_of(rankd.projector)
        seen = await rankd.preview_correction()
        (board,) = seen.boards
        assert (seen.wrong.first, seen.wrong.ahead, seen.position) == (4, 10 * YEAR, None)
        assert (seen.submissions, board.board, board.kept) == (1, "b", ("all",))
        assert [one.window for one in board.windows] == [
            "all",
            "daily:2026-11-14",
            "monthly:2026-11",
        ]
        assert board.removed == ("daily:2026-11-14", "monthly:2026-11")
        assert state_of(rankd.projector) == before
        done = await rankd.correct_time(actor="admin", reason="a leap")
        assert [one.board for one in done.boards] == ["b"]
        facts = [one.fact for one in await facts_of(ledger)]
        assert [type(one) for one in facts[-2:]] == [TimeCorrected, WindowsCorrected]
        assert isinstance(facts[-2], TimeCorrected) and facts[-2].reason == "a leap"
        standing = await rankd.reader.standing("b", "p", window="daily")
        assert standing is not None and standing.scores == (3,)


async def test_correction_is_refused_where_nothing_is_wrong() -> None:
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        await rankd.define("b", BOARD)
        await submit(rankd, "p", 1)
        for first in (None, Position(3)):
            with pytest.raises(InvalidRequest, match="from"):
                await rankd.correct_time(first=first)
        clock.time = Instant(NOON - HOUR)
        with pytest.raises(InvalidRequest, match="the fact before is later"):
            await rankd.correct_time(first=Position(2))


async def test_correction_is_refused_while_a_step_is_doubted() -> None:
    machine = MachineClock(Instant(NOON + YEAR))
    async with engine(FaultyLedger(), machine) as rankd:
        await rankd.define("b", BOARD)
        machine.step(-YEAR)
        with pytest.raises(InvalidRequest, match="rankd clock confirm"):
            await rankd.correct_time()
        rankd.confirm_clock()
        await rankd.correct_time()
        assert rankd.ledger_time == NOON
        assert rankd.clock_problem is None


async def test_correction_that_was_broken_off_goes_on() -> None:
    clock, ledger = SetClock(), FaultyLedger()
    async with engine(ledger, clock) as rankd:
        for name in ("b", "c"):
            await rankd.define(name, BOARD)
        clock.time = Instant(NOON + 10 * YEAR)
        await submit(rankd, "p", 2)
        clock.time = Instant(NOON + HOUR)
        corrector = rankd._corrector
        wrong = await corrector._stretch(None, None)
        await corrector._record(TimeCorrected(wrong))
        await submit(rankd, "p", 3)
    async with engine(ledger.anew(), clock) as rankd:
        assert [one.board for one in (await rankd.correct_time()).boards] == ["b", "c"]
        assert (await rankd.correct_time()).boards == []
        assert (await rankd.correct_time(first=Position(3))).boards == []
        standing = await rankd.reader.standing("b", "p", window="daily:2026-11-14")
        assert standing is not None and standing.scores == (5,)
        await verified(rankd)


async def test_correction_that_is_asked_for_again_leaves_boards_alone() -> None:
    clock, ledger = SetClock(), FaultyLedger()
    async with engine(ledger, clock) as rankd:
        for name in ("b", "c"):
            await rankd.define(name, BOARD)
        await rankd.define("season", {"windows": [{**SEASON, "every": "100w"}]})
        clock.time = Instant(NOON + 60 * DAY)
        await submit(rankd, "p", 2)
        clock.time = Instant(NOON + HOUR)
        assert [one.board for one in (await rankd.correct_time()).boards] == ["b", "c"]
        for day in range(3):
            clock.time = Instant(NOON + day * DAY)
            await submit(rankd, "p", 1)
            await rankd.define(f"new{day}", BOARD)
        await rankd.retire("c")
        await rankd.redefine("b", {**BOARD, "rule": "best"})
        position = rankd.position
        assert (await rankd.correct_time()).boards == []
        assert rankd.position == position


async def test_second_correction_begins_earlier() -> None:
    clock, ledger = SetClock(), FaultyLedger()
    async with engine(ledger, clock) as rankd:
        await rankd.define("b", BOARD)
        await submit(rankd, "p", 1)
        clock.time = Instant(NOON + DAY)
        await submit(rankd, "p", 2)
        first = Position(rankd.position)
        clock.time = Instant(NOON + 60 * DAY)
        await submit(rankd, "p", 3)
        clock.time = Instant(NOON + 2 * DAY)
        await rankd.correct_time()
        await submit(rankd, "p", 4)
        wrongly = await rankd.reader.standing("b", "p", window="daily:2026-11-15")
        assert wrongly is not None and wrongly.scores == (5,)
        await rankd.correct_time(first=Position(first - 2), ahead=DAY)
        found = {
            id: await rankd.reader.standing("b", "p", window=id)
            for id in ("daily:2026-11-14", "daily:2026-11-16")
        }
        assert {id: one and one.scores for id, one in found.items()} == {
            "daily:2026-11-14": (3,),
            "daily:2026-11-16": (7,),
        }
        await verified(rankd)


async def test_turns_of_a_node_that_has_not_heard_of_a_correction_are_void() -> None:
    clock, ledger = SetClock(), FaultyLedger()
    async with engine(ledger, clock) as rankd:
        await rankd.define("b", BOARD)
        clock.time = Instant(NOON + 10 * YEAR)
        await submit(rankd, "p", 1)
        stale = [one.fact for one in await facts_of(ledger) if isinstance(one.fact, TURNS)]
        clock.time = Instant(NOON + HOUR)
        await rankd.correct_time()
        before = state_of(rankd.projector)
        late = [msgspec.structs.replace(one, window=f"{one.window}~2") for one in stale]
        await rankd._writer.put(late)
        after = state_of(rankd.projector)
        assert (after["index"], after["boards"]) == (before["index"], before["boards"])


async def test_other_nodes_go_back_in_time_too() -> None:
    clock, ledger = SetClock(), SharedLedger()
    async with engine(ledger, clock) as ours, engine(ledger, clock) as theirs:
        await ours.define("b", BOARD)
        clock.time = Instant(NOON + 10 * YEAR)
        await submit(theirs, "p", 1)
        clock.time = Instant(NOON + HOUR)
        await ours.correct_time()
        await submit(theirs, "p", 2)
        await submit(ours, "p", 4)
        assert {one.at for one in (await facts_of(ledger))[-2:]} == {clock.time}
        for node in (ours, theirs):
            assert node.ledger_time == clock.time
            standing = await node.reader.standing("b", "p", window="daily:2026-11-14")
            assert standing is not None and standing.scores in ((3,), (7,))
            await verified(node)


async def test_board_that_is_redefined_later_is_folded_by_the_right_time() -> None:
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        await play(rankd, clock)
        await rankd.redefine("b", {**BOARD, "rule": "best"})
        expected = await standings_of(rankd)
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        await play(rankd, clock, ahead=60 * DAY)
        await rankd.redefine("b", {**BOARD, "rule": "best"})
        assert await standings_of(rankd) == expected
        await verified(rankd)

"""Past standings of an engine: moments, bounds, the cache, and players that are ranked no more."""

import asyncio

import pytest
from tests.unit.core.callers import submit
from tests.unit.core.doubles import DAY, HOUR, NOON, FaultyLedger, SetClock, engine

from rankd.adapters.memory.ledger import MemoryLedger
from rankd.core import past
from rankd.core.engine import Engine
from rankd.core.past import PastLimits
from rankd.core.visibility import ANONYMOUS
from rankd.errors import (
    InvalidPage,
    LedgerUnavailable,
    Overloaded,
    PastOutOfReach,
    TooOld,
    UnknownBoard,
    UnknownWindow,
)
from rankd.model.facts import Position
from rankd.model.standing import Standing

pytestmark = pytest.mark.anyio


async def told(
    rankd: Engine,
    as_of: int | None = None,
    at: int | None = None,
    window: str | None = None,
    itself: str | None = None,
    segment: str | None = None,
) -> dict[str, int]:
    moment = await rankd.past.moment(as_of, at)
    reader = await rankd.past.reader("b", moment, window=window, segment=segment, itself=itself)
    page = await reader.page("b", window=window, segment=segment)
    assert page.as_of == moment.position
    return {one.player: one.scores[0] for one in page.standings}


async def standing_of(rankd: Engine, player: str, as_of: int) -> Standing | None:
    moment = await rankd.past.moment(as_of, None)
    reader = await rankd.past.reader("b", moment)
    return await reader.standing("b", player)


async def three_scores(rankd: Engine, clock: SetClock) -> list[Position]:
    """Define a board, and submit a score an hour; return their positions."""
    await rankd.define("b", {"windows": ["all", "daily"]})
    positions = []
    for score in (10, 20, 30):
        clock.time += HOUR
        positions.append((await submit(rankd, "ann", score)).position)
    return positions


async def test_a_moment_is_a_position_or_a_time() -> None:
    clock = SetClock()
    async with engine(MemoryLedger(), clock=clock) as rankd:
        first, second, third = await three_scores(rankd, clock)
        assert [await told(rankd, one) for one in (first, second, third)] == [
            {"ann": 10},
            {"ann": 20},
            {"ann": 30},
        ]
        assert await told(rankd, at=NOON + HOUR) == {"ann": 10}
        assert await told(rankd, at=NOON + 2 * HOUR - 1) == {"ann": 10}
        assert await told(rankd, at=NOON + 2 * HOUR) == {"ann": 20}
        assert await told(rankd, at=NOON) == {}


async def test_a_moment_names_the_windows_of_its_time() -> None:
    clock = SetClock()
    async with engine(MemoryLedger(), clock=clock) as rankd:
        _, second, _ = await three_scores(rankd, clock)
        clock.time += DAY
        today = await submit(rankd, "bob", 5)
        assert await told(rankd, second, window="daily") == {"ann": 20}
        assert await told(rankd, today.position, window="daily") == {"bob": 5}
        assert await told(rankd, today.position, window="daily:-1") == {"ann": 30}
        with pytest.raises(UnknownWindow):
            await told(rankd, second, window="daily:-1")


async def test_moments_that_are_none_are_refused() -> None:
    clock = SetClock()
    async with engine(MemoryLedger(), clock=clock) as rankd:
        *_, third = await three_scores(rankd, clock)
        for as_of, at, problem in [
            (third + 1, None, "as_of must be from 0"),
            (-1, None, "as_of must be from 0"),
            (None, clock.time + 1, "at must not be in the future"),
            (third, clock.time, "at cannot be combined"),
        ]:
            with pytest.raises(InvalidPage, match=problem):
                await told(rankd, as_of, at)
        for as_of, at in [(0, None), (None, NOON - 1)]:
            with pytest.raises(TooOld):
                await told(rankd, as_of, at)
        with pytest.raises(UnknownBoard):
            await rankd.past.reader("c", await rankd.past.moment(third, None))


async def test_attributes_told_on_another_board_change_segments_in_the_past_too() -> None:
    async with engine(MemoryLedger()) as rankd:
        await rankd.define("b", {"segments": ["region", "level"]})
        await rankd.define("other", {})
        positions = []
        for board, attributes in (
            ("b", {"region": "eu", "level": 7}),
            ("other", {"region": "us"}),
            ("other", {"region": "asia"}),
            ("b", {"region": "eu"}),
        ):
            item = {"player": "ann", "score": 5, "attributes": attributes}
            (answer,) = await rankd.submit(board, [item])
            positions.append(answer.position)
        for position, there in zip(positions, ("eu", "us", "asia", "eu"), strict=True):
            for region in ("eu", "us", "asia"):
                found = await told(rankd, position, segment=f"region:{region}")
                assert found == ({"ann": 5} if region == there else {}), position
            assert await told(rankd, position, segment="level:7") == {"ann": 5}


async def test_an_earlier_board_of_the_same_name_is_seen() -> None:
    clock = SetClock()
    async with engine(MemoryLedger(), clock=clock) as rankd:
        first, *_ = await three_scores(rankd, clock)
        await rankd.retire("b")
        await rankd.define("b", {"rule": "sum"})
        assert await told(rankd, first) == {"ann": 10}
        assert await told(rankd, rankd.position) == {}


async def test_a_later_retraction_does_not_change_what_was() -> None:
    clock = SetClock()
    async with engine(MemoryLedger(), clock=clock) as rankd:
        *_, third = await three_scores(rankd, clock)
        await rankd.corrections.retract("b", {"position": third})
        assert await told(rankd, third) == {"ann": 30}
        assert await told(rankd, rankd.position) == {"ann": 20}


async def test_a_player_that_is_ranked_no_more_is_not_named() -> None:
    clock = SetClock()
    async with engine(MemoryLedger(), clock=clock) as rankd:
        *_, third = await three_scores(rankd, clock)
        await submit(rankd, "bob", 1)
        after = rankd.position
        await rankd.corrections.set_player_state("ann", "shadowed", {"reason": "a bot"})
        assert await told(rankd, after) == {ANONYMOUS: 30, "bob": 1}
        assert await told(rankd, after, itself="ann") == {"ann": 30, "bob": 1}
        assert await standing_of(rankd, "ann", after) is None
        bob = await standing_of(rankd, "bob", after)
        assert bob is not None
        assert bob.rank == 2
        await rankd.corrections.set_player_state("ann", "banned", {"reason": "a bot"})
        assert await told(rankd, after, itself="ann") == {ANONYMOUS: 30, "bob": 1}
        assert third < after


async def test_names_are_those_of_the_present_also_after_an_erasure() -> None:
    clock = SetClock()
    async with engine(MemoryLedger(), clock=clock) as rankd:
        await rankd.define("b", {})
        item = {"player": "ann", "score": 1, "metadata": {"home": "Paris"}}
        (answer,) = await rankd.submit("b", [item])
        await rankd.profile("ann", {"name": "Ann"})
        found = await standing_of(rankd, "ann", answer.position)
        assert found is not None
        assert (found.name, found.metadata) == ("Ann", {"home": "Paris"})
        await rankd.erase("ann")
        found = await standing_of(rankd, "ann", answer.position)
        assert found is not None
        assert (found.rank, found.name, found.metadata) == (1, None, None)


async def test_more_work_than_granted_is_refused_with_the_command() -> None:
    clock = SetClock()
    async with engine(MemoryLedger(), clock=clock) as rankd:
        first, *_ = await three_scores(rankd, clock)
        rankd.past.limits = PastLimits(facts=first - 1)
        with pytest.raises(PastOutOfReach, match=f"rankd top b --as-of {first} --data DIR"):
            await told(rankd, first)
        rankd.past.limits = PastLimits(facts=first)
        assert await told(rankd, first) == {"ann": 10}


async def test_more_entries_than_granted_are_refused() -> None:
    async with engine(MemoryLedger()) as rankd:
        await rankd.define("b", {"windows": ["all"]})
        for player in ("ann", "bob"):
            await submit(rankd, player, 1)
        rankd.past.limits = PastLimits(entries=1)
        with pytest.raises(PastOutOfReach, match="it has 2 entries"):
            await told(rankd, rankd.position)
        assert await told(rankd, rankd.position - 1) == {"ann": 1}


async def test_the_boards_that_were_read_last_are_kept() -> None:
    async with engine(MemoryLedger()) as rankd:
        await rankd.define("b", {"windows": ["all"]})
        for player in ("ann", "bob", "cyd"):
            await submit(rankd, player, 1)
        head = rankd.position
        rankd.past.limits = PastLimits(entries=4)
        for position in (head - 2, head - 1, head - 2, head):
            await told(rankd, position)
            assert rankd.past.entries <= 4
        assert rankd.past.entries == 1 + 3, "of the one that was read twice, and of the last"


async def test_one_past_board_is_made_once_for_many() -> None:
    ledger = FaultyLedger()
    async with engine(ledger) as rankd:
        await rankd.define("b", {"windows": ["all"]})
        await submit(rankd, "ann", 1)
        moment = await rankd.past.moment(rankd.position, None)
        readers = await asyncio.gather(*[rankd.past.reader("b", moment) for _ in range(5)])
        assert len({id(reader.projector) for reader in readers}) == 1


async def test_a_failure_of_the_ledger_is_told_and_passes() -> None:
    ledger = FaultyLedger()
    async with engine(ledger) as rankd:
        await rankd.define("b", {"windows": ["all"]})
        answer = await submit(rankd, "ann", 1)
        await submit(rankd, "ann", 2)
        moment = await rankd.past.moment(answer.position, None)
        ledger.read_failure = LedgerUnavailable("injected", applied="no")
        with pytest.raises(LedgerUnavailable):
            await rankd.past.reader("b", moment)
        ledger.read_failure = None
        assert await told(rankd, answer.position) == {"ann": 1}


async def test_too_many_waiting_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past, "WAITING_MAX", 2)
    async with engine(MemoryLedger()) as rankd:
        await rankd.define("b", {"windows": ["all"]})
        for score in range(4):
            await submit(rankd, "ann", score)
        moments = [await rankd.past.moment(rankd.position - back, None) for back in range(4)]
        done = await asyncio.gather(
            *[rankd.past.reader("b", one) for one in moments], return_exceptions=True
        )
        assert [type(one) for one in done[2:]] == [Overloaded, Overloaded]
        assert not [one for one in done[:2] if isinstance(one, BaseException)]

"""A follower: the same fold over the same ledger, as true as the writer at that position."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.unit.core.doubles import (
    DAY,
    NOON,
    FaultyLedger,
    MachineClock,
    SetClock,
    bare,
    engine,
    kept_in,
    state_of,
)

from rankd.adapters.memory.ledger import MemoryLedger
from rankd.core import follower as module
from rankd.core.follower import following
from rankd.core.recovery import IndexHome
from rankd.errors import IndexBehind, LedgerUnavailable, SnapshotDamaged
from rankd.model.facts import Position, Recorded
from rankd.ports import Progress

pytestmark = pytest.mark.anyio
HOURS = 3_600.0
PATIENCE_SECONDS = 60.0


async def test_a_follower_sees_what_the_writer_wrote() -> None:
    ledger, clock = FaultyLedger(), SetClock()
    async with engine(ledger, clock) as rankd:
        await rankd.define("b", {"rule": "sum", "windows": ["all", "daily"]})
        async with following(
            ledger=ledger.anew(), build=bare, clock=clock, tell=lambda _: None
        ) as follower:
            assert follower.position == 1
            for number in range(5):
                await rankd.submit("b", [{"player": "p", "score": number, "key": f"k{number}"}])
                if number == 2:
                    await rankd.redefine("b", {"rule": "best", "windows": ["all", "daily"]})
                follower.hear(rankd.position)
            await follower.reached(rankd.position, within_seconds=PATIENCE_SECONDS)
            assert state_of(follower.projector) == state_of(rankd.projector)
            assert follower.failure is None


async def test_a_follower_that_can_read_no_more_says_so_and_still_answers() -> None:
    ledger, clock = FaultyLedger(), SetClock()
    async with engine(ledger, clock) as rankd:
        await rankd.define("b", {"rule": "sum", "windows": ["all"]})
        read = ledger.anew()
        async with following(ledger=read, build=bare, clock=clock, tell=lambda _: None) as follower:
            read.read_failure = LedgerUnavailable("injected", applied="no")
            await rankd.submit("b", [{"player": "p", "score": 1}])
            follower.hear(rankd.position)
            async with asyncio.timeout(PATIENCE_SECONDS):
                while follower.failure is None:  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(0.001)
            assert follower.position == Position(1)
            assert (await follower.reader.page("b")).total == 0


async def test_a_follower_goes_on_once_the_ledger_can_be_read_again() -> None:
    ledger, clock = FaultyLedger(), SetClock()
    async with engine(ledger, clock) as rankd:
        await rankd.define("b", {"rule": "sum", "windows": ["all"]})
        read = ledger.anew()
        async with following(ledger=read, build=bare, clock=clock, tell=lambda _: None) as follower:
            read.read_failure = LedgerUnavailable("injected", applied="no")
            await rankd.submit("b", [{"player": "p", "score": 1}])
            await until(lambda: follower.failure is not None)
            read.read_failure = None
            await follower.reached(rankd.position, within_seconds=PATIENCE_SECONDS)
            await until(lambda: follower.failure is None)
            assert state_of(follower.projector) == state_of(rankd.projector)


async def test_what_cannot_be_folded_ends_a_follower_and_is_told(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a fold may be done by then: to try it again could count it twice."""
    ledger, clock = FaultyLedger(), SetClock()
    async with engine(ledger, clock) as rankd:
        await rankd.define("b", {"rule": "sum", "windows": ["all"]})
        async with following(
            ledger=ledger.anew(), build=bare, clock=clock, tell=lambda _: None
        ) as follower:
            folds = 0

            async def fold(_facts: object) -> None:
                nonlocal folds
                folds += 1
                raise LedgerUnavailable("injected", applied="no")

            monkeypatch.setattr(follower.projector, "fold", fold)
            await rankd.submit("b", [{"player": "p", "score": 1}])
            await until(lambda: follower.failure is not None)
            for _ in range(3):
                follower.hear(rankd.position)
                await asyncio.sleep(0.001)
            assert folds == 1
    assert "can be followed no longer" in caplog.text


async def test_whoever_follows_to_a_position_reads_it_then() -> None:
    ledger, clock = FaultyLedger(), SetClock()
    async with engine(ledger, clock) as rankd:
        await rankd.define("b", {"rule": "sum", "windows": ["all"]})
        async with following(
            ledger=ledger.anew(), build=bare, clock=clock, tell=lambda _: None
        ) as follower:
            for number in range(1, 20):
                await rankd.submit("b", [{"player": "p", "score": 1}])
                await follower.follow_to(rankd.position)
                standing = await follower.reader.standing("b", "p")
                assert standing is not None and standing.scores == (number,)
                assert not follower.stale


async def test_a_follower_that_is_behind_for_long_says_so_until_it_has_caught_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The bound is tried both ways: by whoever waits for a position, and without anybody."""
    monkeypatch.setattr(module, "BEHIND_SECONDS_MAX", 0.05)
    ledger, clock = FaultyLedger(), SetClock()
    async with engine(ledger, clock) as rankd:
        await rankd.define("b", {"rule": "sum", "windows": ["all"]})
        read = HeldLedger(ledger.inner)
        async with following(ledger=read, build=bare, clock=clock, tell=lambda _: None) as follower:
            for waits in (True, False):
                read.may_read.clear()
                await rankd.submit("b", [{"player": "p", "score": 1}])
                before = follower.state.revision
                if waits:
                    await follower.follow_to(rankd.position)
                while not follower.stale:
                    follower.hear(rankd.position)
                    await asyncio.sleep(0.001)
                assert isinstance(follower.index_failure, IndexBehind)
                assert follower.ledger_failure is None
                assert follower.state.revision > before, "answers that are prepared do not last"
                await follower.follow_to(rankd.position)  # Nobody waits again for what is told.
                read.may_read.set()
                await until(lambda: not follower.stale)
                assert follower.position == rankd.position
    assert "the index is behind the writer" in caplog.text


async def test_what_the_writer_says_of_itself_is_told_until_it_says_otherwise() -> None:
    ledger, clock = FaultyLedger(), SetClock()
    async with following(ledger=ledger, build=bare, clock=clock, tell=lambda _: None) as follower:
        follower.hear(Position(0), "its disk hangs", ended=True)
        assert follower.ended
        assert "its disk hangs" in str(follower.ledger_failure)
        assert (follower.stale, follower.writable, follower.writer_answers) == (True, False, True)
        follower.hear(Position(0))
        assert (follower.stale, follower.writable) == (False, True)
        before = follower.state.revision
        follower.miss(LedgerUnavailable("it is silent", applied="no"))
        assert (follower.stale, follower.writable, follower.writer_answers) == (True, False, False)
        assert follower.state.revision > before
        follower.hear(Position(0))
        assert (follower.stale, follower.writable, follower.writer_answers) == (False, True, True)


async def test_loops_that_fail_in_the_writer_are_told_until_they_run() -> None:
    ledger, clock = FaultyLedger(), SetClock()
    async with following(ledger=ledger, build=bare, clock=clock, tell=lambda _: None) as follower:
        assert follower.loop_problems == []
        follower.hear(Position(0), loop_problems=["sealer fails"])
        assert follower.loop_problems == ["in the process that writes, sealer fails"]
        assert not follower.stale, "what is read is as it was"
        follower.hear(Position(0))
        assert follower.loop_problems == []


class HeldLedger(FaultyLedger):
    """A ledger whose reads can be held."""

    def __init__(self, inner: MemoryLedger) -> None:
        super().__init__(inner)
        self.may_read = asyncio.Event()
        self.may_read.set()

    async def read(self, *, after: Position, limit: int) -> Sequence[Recorded]:
        await self.may_read.wait()
        return await super().read(after=after, limit=limit)


async def test_follower_confirms_a_step_that_was_confirmed_to_the_writer() -> None:
    machine = MachineClock()
    async with following(
        ledger=FaultyLedger(), build=bare, clock=machine, tell=lambda _: None
    ) as follower:
        follower.hear(Position(0), clock_confirmations=3)
        machine.step(DAY)
        assert follower.ledger_time == NOON
        follower.hear(Position(0), clock_confirmations=3)
        assert follower.ledger_time == NOON
        follower.hear(Position(0), clock_confirmations=4)
        assert follower.ledger_time == NOON + DAY


async def test_a_snapshot_that_is_replaced_while_it_is_loaded_is_not_taken_for_damaged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ledger, clock = FaultyLedger(), SetClock()
    build = kept_in(tmp_path)
    async with engine(ledger, clock, build) as rankd:
        await rankd.define("b", {"rule": "sum", "windows": ["all"]})
        await rankd.submit("b", [{"player": "p", "score": 1}])
        await rankd.save()
        loads = 0

        def replaced() -> IndexHome:
            """A home whose first load finds its files gone, for another save took their place."""
            home = build()
            assert home.snapshots is not None
            load = home.snapshots.load

            async def loaded(tell: Callable[[Progress], None]) -> Sequence[bytes] | None:
                nonlocal loads
                loads += 1
                if loads == 1:
                    await rankd.submit("b", [{"player": "p", "score": 1}])
                    raise SnapshotDamaged("gone")
                return await load(tell)

            home.snapshots.load = loaded  # type: ignore[method-assign]
            return home

        async with following(
            ledger=ledger.anew(), build=replaced, clock=clock, tell=lambda _: None
        ) as follower:
            await follower.reached(rankd.position, within_seconds=PATIENCE_SECONDS)
            assert loads == 2
            assert state_of(follower.projector) == state_of(rankd.projector)
    assert "folded again" not in caplog.text


async def test_a_snapshot_that_is_damaged_is_folded_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ledger, clock = FaultyLedger(), SetClock()
    build = kept_in(tmp_path)
    async with engine(ledger, clock, build) as rankd:
        await rankd.define("b", {"rule": "sum", "windows": ["all"]})
        await rankd.submit("b", [{"player": "p", "score": 1}])
        await rankd.save()
        damage(tmp_path)
        async with following(
            ledger=ledger.anew(), build=build, clock=clock, tell=lambda _: None
        ) as follower:
            assert state_of(follower.projector) == state_of(rankd.projector)
    assert "everything is folded again" in caplog.text


def damage(folder: Path) -> None:
    """Change a byte of what was saved."""
    (base,) = folder.glob("*/base")
    base.write_bytes(base.read_bytes()[:-1] + b"?")


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not holds():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.001)

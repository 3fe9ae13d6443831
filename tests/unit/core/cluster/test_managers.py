"""The managers of one node among several: copies of the state, and an index that is filled."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, cast

import pytest
from tests.unit.core.doubles import (
    FarIndex,
    FaultyLedger,
    SetClock,
    SharedLedger,
    bare,
    engine,
)

from rankd.adapters.memory.archive import MemoryStateSnapshots
from rankd.core.assembly import running
from rankd.core.cluster import managers
from rankd.core.cluster.recovery import SharedHome
from rankd.core.cluster.shared_projector import newest_copy
from rankd.core.engine import Engine
from rankd.errors import IndexUnavailable, LedgerUnavailable
from rankd.model.facts import Position

pytestmark = pytest.mark.anyio
BOARD: dict[str, Any] = {"rule": "sum", "windows": ["daily"]}
PATIENCE_SECONDS = 60.0
"""Nothing takes so long; it only ends a test that would never end."""


@pytest.fixture(autouse=True)
def _managers_that_hardly_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(managers, "SLEEP_SECONDS_MAX", 0.001)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not true():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.001)


def state_snapshotter(
    rankd: Engine, ledger: FaultyLedger, copies: MemoryStateSnapshots
) -> managers.StateSnapshotter:
    return managers.StateSnapshotter(rankd._writer, ledger, copies, every_facts=5)


async def test_a_copy_of_the_book_is_kept_each_time_enough_is_new() -> None:
    ledger, copies = FaultyLedger(), MemoryStateSnapshots()
    async with engine(ledger) as rankd:
        mine, another = (
            state_snapshotter(rankd, ledger, copies),
            state_snapshotter(rankd, ledger, copies),
        )
        await rankd.define("b", BOARD)
        await rankd.submit("b", [{"player": "p", "score": 1}] * 3)
        assert not await mine.copy()
        await rankd.profile("p", {"name": "Ann"})
        assert await mine.copy()
        assert not await another.copy(), "somebody did it"
        await rankd.submit("b", [{"player": "p", "score": 1}] * 5)
        assert await another.copy() and not await mine.copy()
        assert list(await copies.kept()) == [10, 5]
        found = await newest_copy(copies, ledger, through=Position(9))
        assert (found.heading.checkpoint, found.state.profile("p").name) == (5, "Ann")
        assert list(found.state.page("b").windows) == ["daily"]


async def test_of_many_players_copies_are_kept_less_often() -> None:
    ledger, copies = FaultyLedger(), MemoryStateSnapshots()
    async with engine(ledger) as rankd:
        mine = state_snapshotter(rankd, ledger, copies)
        for number in range(7):
            await rankd.profile(f"p{number}", {"name": "x"})
        assert await mine.copy()
        await rankd.define("b", BOARD)
        await rankd.submit("b", [{"player": "p", "score": 1}] * 5)
        assert not await mine.copy()
        await rankd.submit("b", [{"player": "p", "score": 1}])
        assert await mine.copy()


async def test_a_copy_is_of_the_end_of_an_append() -> None:
    """Only there the hash chain tells which ledger it is of."""
    ledger, copies = FaultyLedger(), MemoryStateSnapshots()
    async with engine(ledger) as rankd:
        await rankd.define("b", BOARD)
        await rankd.submit("b", [{"player": "p", "score": 1}] * 9)
        rankd.projector.checkpoint = Position(9)  # As one who follows others may stop anywhere.
        assert not await state_snapshotter(rankd, ledger, copies).copy()
        rankd.projector.checkpoint = Position(10)
        assert await state_snapshotter(rankd, ledger, copies).copy()


async def test_a_copy_that_fails_is_told_and_not_tried_at_once_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Failing(MemoryStateSnapshots):
        asked = 0

        async def kept(self) -> Sequence[Position]:
            self.asked += 1
            raise LedgerUnavailable("injected", applied="no")

    ledger, copies = FaultyLedger(), Failing()
    async with engine(ledger) as rankd:
        await rankd.define("b", BOARD)
        await rankd.submit("b", [{"player": "p", "score": 1}] * 9)
        loop = asyncio.create_task(state_snapshotter(rankd, ledger, copies).run())
        await until(lambda: bool(caplog.records))
        await asyncio.sleep(0.02)
        loop.cancel()
        assert copies.asked == 1
        assert "no copy of the state could be kept" in caplog.text


async def test_an_index_that_cannot_be_filled_is_told_once_and_then_seldom(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As one that is full: it says where it is, and takes nothing."""
    monkeypatch.setattr(managers, "MEND_SECONDS", 0.001)
    index = FarIndex()
    async with running(
        ledger=SharedLedger(),
        build=bare,
        clock=SetClock(),
        reading=nullcontext(),
        shared=SharedHome(cast("Any", index)),
    ) as rankd:
        await rankd.define("b", BOARD)
        tries = 0

        async def full(*_given: object, **_named: object) -> None:
            nonlocal tries
            tries += 1
            raise IndexUnavailable("it is full")

        monkeypatch.setattr(index.there, "apply", full)
        with caplog.at_level(logging.WARNING):
            await rankd.submit("b", [{"player": "p", "score": 1}])
            await until(lambda: tries > 20)
            assert caplog.text.count("the index is behind; it is being filled") == 1
            assert "cannot be filled" not in caplog.text
            monkeypatch.setattr(managers, "LOG_AGAIN_SECONDS", 0.0)
            await until(lambda: "cannot be filled: it is full" in caplog.text)
            monkeypatch.setattr(managers, "LOG_AGAIN_SECONDS", 3_600.0)
            monkeypatch.delattr(index.there, "apply")
            await until(lambda: rankd.index_failure is None)
            await until(lambda: "where it should be again" in caplog.text)
            index.empty()
            await until(lambda: caplog.text.count("where it should be again") == 2)
            assert caplog.text.count("the index is behind; it is being filled") == 2

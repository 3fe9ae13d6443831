"""Copies of the state: the newest that can be believed is where a node begins."""

import logging
from collections.abc import Sequence

import pytest

from rankd.adapters.memory.archive import MemoryStateSnapshots
from rankd.adapters.memory.ledger import MemoryLedger
from rankd.core.cluster.shared_projector import newest_copy
from rankd.core.state import State
from rankd.core.state_codec import VERSION, Heading, take_notes
from rankd.errors import SnapshotDamaged
from rankd.model.facts import PlayerProfiled, Position
from rankd.model.window import Instant

pytestmark = pytest.mark.anyio


class SomeDamaged(MemoryStateSnapshots):
    """Copies of which some cannot be read any more."""

    def __init__(self, *damaged: int) -> None:
        super().__init__()
        self._damaged = damaged

    async def load(self, position: Position) -> Sequence[bytes]:
        if position in self._damaged:
            raise SnapshotDamaged("injected")
        return await super().load(position)


async def ledger_of(count: int, name: str = "p") -> MemoryLedger:
    ledger = MemoryLedger()
    for number in range(count):
        await ledger.append([PlayerProfiled(f"{name}{number}", "x")], now=Instant(1))
    return ledger


async def copy(
    copies: MemoryStateSnapshots,
    ledger: MemoryLedger,
    position: int,
    version: int = VERSION,
    says: int | None = None,
) -> None:
    state, at = State(), Position(position)
    for recorded in await ledger.read(after=Position(0), limit=position):
        state.note(recorded)
    link = await ledger.link_at(at)
    assert link is not None
    heading = Heading(version, Position(says or position), 1, link, state.profiled_at, {})
    assert await copies.keep(at, take_notes(state, heading), unless_after=Position(at - 1))


async def test_the_newest_is_where_one_begins() -> None:
    ledger, copies = await ledger_of(9), MemoryStateSnapshots()
    for position in (3, 5, 8):
        await copy(copies, ledger, position)
    for through, expected in ((2, 0), (3, 3), (4, 3), (7, 5), (8, 8), (100, 8)):
        found = await newest_copy(copies, ledger, through=Position(through))
        assert (found.heading.checkpoint, len(found.state.profiles)) == (expected, expected)
        assert found.state.profiled_at == expected


async def test_without_any_one_begins_with_nothing() -> None:
    ledger = await ledger_of(3)
    for copies in (None, MemoryStateSnapshots()):
        found = await newest_copy(copies, ledger, through=Position(3))
        assert (found.heading.checkpoint, found.heading.at, found.state.profiles) == (0, 0, {})


async def test_a_damaged_one_is_told_and_left_aside(caplog: pytest.LogCaptureFixture) -> None:
    ledger, copies = await ledger_of(9), SomeDamaged(8)
    for position in (3, 5, 8):
        await copy(copies, ledger, position)
    found = await newest_copy(copies, ledger, through=Position(9))
    assert found.heading.checkpoint == 5
    assert [(one.levelno, one.message) for one in caplog.records] == [
        (logging.WARNING, "a copy of the state cannot be used: injected")
    ]


async def test_one_of_another_ledger_or_position_or_version_is_left_aside(
    caplog: pytest.LogCaptureFixture,
) -> None:
    copies = MemoryStateSnapshots()
    ledger, other = await ledger_of(9), await ledger_of(9, "q")
    await copy(copies, other, 5)
    await copy(copies, ledger, 6, says=7)
    await copy(copies, ledger, 7, version=VERSION + 1)
    found = await newest_copy(copies, ledger, through=Position(9))
    assert found.heading.checkpoint == 0
    assert len(caplog.records) == 3

"""A history lived on SQLite and copied into PostgreSQL folds to the same, bit for bit.

Whatever can happen to an engine happens; the copy is broken off wherever it may be and goes on; and
then an index and a state that are folded from each are compared by their digests, and a retry of
every key is answered from each with the same receipt.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.simulation.postgres_servers import new_ledger, postgres
from tests.unit.core.doubles import SetClock, engine, facts_of, state_of
from tests.unit.core.histories import STEPS, History, Step

from rankd.adapters.memory.index import NativeIndex
from rankd.adapters.postgres import PostgresLedger
from rankd.adapters.sqlite import SQLiteLedger
from rankd.core.projector import Projector
from rankd.core.state import State
from rankd.core.transfer import Transfer
from rankd.model.facts import Position, Recorded, ScoreSubmitted, encode
from rankd.ports import Ledger
from rankd.testing.servers import PostgresServer


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres() as server:
        yield server


class BrokenOff(Exception):
    """Somebody pressed ctrl-c, or the machine went."""


async def copy(source: Ledger, url: str, *, steps: int | None = None) -> None:
    """Copy, or begin to: as many steps as are given."""
    async with PostgresLedger.open(url, copying=True) as target:
        running = Transfer(source, target, named="old", into="new").run()
        taken = 0
        async for _ in running:
            taken += 1
            if taken == steps:
                raise BrokenOff


async def folded(facts: Sequence[Recorded], ledger: Ledger) -> dict[str, object]:
    projector = Projector(ledger=ledger, index=NativeIndex(), state=State())
    await projector.fold(facts)
    return state_of(projector)


async def lived_and_copied(
    url: str, folder: Path, steps: Sequence[Sequence[Step]], cuts: Sequence[int]
) -> None:
    clock = SetClock()
    async with SQLiteLedger.open(folder) as source:
        async with engine(source, clock) as rankd:
            await History(rankd, clock).live(steps)
        for cut in cuts:
            with suppress(BrokenOff):
                await copy(source, url, steps=cut)
        await copy(source, url)
        async with PostgresLedger.open(url) as target:
            ours, theirs = await facts_of(source), await facts_of(target)
            assert [(one.position, one.at, encode(one.fact)) for one in theirs] == [
                (one.position, one.at, encode(one.fact)) for one in ours
            ]
            assert await folded(theirs, target) == await folded(ours, source)
            for one in ours:
                if isinstance(one.fact, ScoreSubmitted) and one.fact.key is not None:
                    name = {"board": one.fact.board, "key": one.fact.key}
                    use = await source.first_use(**name)
                    assert use is not None  # The last receipts are folded again at a start.
                    assert await target.first_use(**name) == use
            kept = [
                await one.kept_receipts(after=Position(0), limit=9_999) for one in (source, target)
            ]
            assert list(kept[0]) == list(kept[1])


@pytest.mark.timeout(120)
@settings(max_examples=15, deadline=None)
@given(steps=STEPS, cuts=st.lists(st.integers(1, 12), max_size=2))
def test_both_fold_to_the_same(
    server: PostgresServer, steps: Sequence[Sequence[Step]], cuts: Sequence[int]
) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr("rankd.core.transfer.PAGE_FACTS", 4)
        asyncio.run(lived_and_copied(new_ledger(server.url), Path(folder), steps, cuts))

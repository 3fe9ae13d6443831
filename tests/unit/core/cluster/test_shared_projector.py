"""A node over an index that others fold into: whose index it is, and what it need not ask of it."""

from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

import pytest
from tests.unit.core.doubles import SetClock, SharedLedger, bare, verified

from rankd.adapters.memory.shared_index import MemorySharedIndex, SharedMemory
from rankd.core.assembly import running
from rankd.core.cluster import managers as cluster_managers
from rankd.core.cluster import shared_projector
from rankd.core.cluster.recovery import SharedHome
from rankd.core.cluster.shared_projector import SharedProjector
from rankd.core.engine import Engine
from rankd.errors import InvalidSetting

pytestmark = pytest.mark.anyio


@pytest.fixture
def memory() -> SharedMemory:
    return SharedMemory()


@pytest.fixture(autouse=True)
def _nobody_mends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking after the index is done by hand here, when it is due."""
    monkeypatch.setattr(cluster_managers, "MEND_SECONDS", 3_600.0)


def over(ledger: SharedLedger, memory: SharedMemory) -> AbstractAsyncContextManager[Engine]:
    home = SharedHome(MemorySharedIndex(memory))
    return running(ledger=ledger, build=bare, clock=SetClock(), reading=nullcontext(), shared=home)


def joint_of(rankd: Engine) -> SharedProjector:
    assert isinstance(rankd.projector, SharedProjector)
    return rankd.projector


async def submit(rankd: Engine, *players: str) -> Any:
    return await rankd.submit("b", [{"player": player, "score": 1} for player in players])


async def players(rankd: Engine) -> list[str]:
    return list((await rankd.reader.page("b")).players)


async def test_an_index_of_another_ledger_is_refused_at_the_start(memory: SharedMemory) -> None:
    """Otherwise two boards of one name would stand in one list, and neither ledger explain it."""
    production, staging, empty = SharedLedger(), SharedLedger(), SharedLedger()
    async with over(production, memory) as rankd:
        await rankd.define("b", {})
        await submit(rankd, "ann")
        async with over(staging, SharedMemory()) as another:
            await another.define("b", {"title": "staging"})
        for ledger in (staging, empty):
            with pytest.raises(InvalidSetting, match="index of another ledger"):
                async with over(ledger, memory):
                    pass
        assert await players(rankd) == ["ann"]
        await verified(rankd)
    async with over(production, memory) as rankd:
        assert await players(rankd) == ["ann"]


async def test_of_two_ledgers_that_begin_over_one_index_one_has_it(memory: SharedMemory) -> None:
    one, two = SharedLedger(), SharedLedger()
    async with over(one, memory) as ours, over(two, memory) as theirs:
        await ours.define("b", {})
        await theirs.define("b", {"title": "theirs"})
        await submit(ours, "ann")
        (answer,) = await submit(theirs, "bob")
        assert answer.pending is not None, "recorded, and nobody can say what it did"
        assert joint_of(theirs).failure is not None
        assert "another ledger" in str(joint_of(theirs).failure)
        assert await players(ours) == ["ann"]
        await verified(ours)


async def test_an_index_that_another_ledger_took_after_it_was_emptied_is_left_to_it(
    memory: SharedMemory,
) -> None:
    ledger = SharedLedger()
    async with over(ledger, memory) as rankd:
        await rankd.define("b", {})
        await submit(rankd, "ann")
        memory.ledger = "another"
        with pytest.raises(shared_projector.OtherLedger):
            await joint_of(rankd).lost()
        assert joint_of(rankd).failure is not None


async def test_what_others_appended_and_folded_long_ago_is_only_noted(
    memory: SharedMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To be told what each did would cost more, the further the index is past it."""
    monkeypatch.setattr(shared_projector, "PASSED_FACTS", 20)
    ledger = SharedLedger()
    async with over(ledger, memory) as writer, over(ledger, memory) as reader:
        await writer.define("b", {"windows": ["all", "daily"]})
        async with reader._writer.turn():  # It sees nothing meanwhile.
            for number in range(60):
                await submit(writer, f"p{number:02}")
            asked: list[int] = []
            second: Any = joint_of(reader).shared
            entries_of = second.order_keys

            async def order_keys(entries: Any, at: Any = None) -> Any:
                asked.append(at)
                return await entries_of(entries, at)

            monkeypatch.setattr(second, "order_keys", order_keys)
            await reader._writer.catch_up_others()
        assert len(asked) <= 20, "each step was made again"
        assert joint_of(reader).shown_to == joint_of(writer).shown_to
        (answer,) = await submit(reader, "zoe")
        assert answer.receipt is not None
        assert answer.receipt.rank == 61
        await verified(reader)

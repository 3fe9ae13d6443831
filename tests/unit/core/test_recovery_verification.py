"""Comparing an index with the ledger, where other nodes fold into it all the while."""

from contextlib import AbstractAsyncContextManager, nullcontext

import pytest
from tests.unit.core.doubles import FaultyLedger, SetClock, SharedLedger, bare, engine, verified

from rankd.adapters.memory.shared_index import MemorySharedIndex, SharedMemory
from rankd.core import recovery
from rankd.core.assembly import running
from rankd.core.cluster import managers as cluster_managers
from rankd.core.cluster.recovery import SharedHome
from rankd.core.engine import Engine
from rankd.errors import IndexUnavailable

pytestmark = pytest.mark.anyio


def over(ledger: SharedLedger, memory: SharedMemory) -> AbstractAsyncContextManager[Engine]:
    home = SharedHome(MemorySharedIndex(memory))
    return running(ledger=ledger, build=bare, clock=SetClock(), reading=nullcontext(), shared=home)


async def test_an_index_is_compared_while_another_node_writes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recovery, "COMPARED_TOGETHER", 7)
    ledger, memory = SharedLedger(), SharedMemory()
    async with over(ledger, memory) as rankd, over(ledger, memory) as another:
        await rankd.define("b", {"windows": ["all", "daily"], "segments": ["region"]})
        await rankd.submit("b", [{"player": f"p{n}", "score": n} for n in range(60)])
        compared = 0
        async for progress in rankd.verify():
            compared = max(compared, progress.done)
            await another.submit("b", [{"player": f"q{progress.done}", "score": progress.done}])
        assert compared > 120


async def test_an_index_that_is_behind_is_not_called_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_managers, "MEND_SECONDS", 3_600.0)
    ledger, memory = SharedLedger(), SharedMemory()
    async with over(ledger, memory) as node:
        await node.define("b", {})
        await node.submit("b", [{"player": "ann", "score": 1}])
        await verified(node)
        memory.empty()
        with pytest.raises(IndexUnavailable):
            await verified(node)


async def test_progress_of_a_comparison_never_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "COMPARED_TOGETHER", 7)
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {"windows": ["all", "daily", "weekly"]})
        await rankd.submit("b", [{"player": f"p{n}", "score": n} for n in range(60)])
        steps = [step async for step in rankd.verify() if step.stage == "comparing"]
    shares = [step.done / step.total for step in steps]
    assert len(shares) == 27 and shares == sorted(shares)
    assert shares[0] < 0.05 and shares[-1] == 1.0

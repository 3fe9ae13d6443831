"""Readiness and metrics of a node whose background loops fail, one after the other."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any, cast

import pytest
from tests.unit.api.handling import Working
from tests.unit.api.test_metrics import samples
from tests.unit.core.doubles import FarIndex, LosableLedger, SetClock, bare

from rankd.adapters.memory.archive import MemoryArchive, MemoryStateSnapshots
from rankd.adapters.sqlite.spool import SpoolFile
from rankd.api.auth import Authenticator
from rankd.api.context import ServiceContext
from rankd.api.exposition import render
from rankd.api.metrics import collect
from rankd.core import supervisor
from rankd.core.assembly import running
from rankd.core.cluster.managers import (
    IndexRepair,
    LedgerHealth,
    LedgerTail,
    ReceiptRepair,
    SpoolSender,
    StateSnapshotter,
)
from rankd.core.cluster.recovery import SharedHome
from rankd.core.cluster.shared_writer import SharedWriter
from rankd.core.cluster.top_lists import TopListSettings, TopListWriter
from rankd.core.erasure import Eraser
from rankd.core.managers import Archiver, Snapshotter, WindowSealer
from rankd.core.movement import Movement
from rankd.core.rolling_windows import RollingDrafts
from rankd.core.steady_clock import ClockMonitor
from rankd.core.webhook_delivery import EventCallbacks
from rankd.core.window_archiver import WindowArchiver
from rankd.errors import LedgerUnavailable

pytestmark = pytest.mark.anyio

LOOPS: dict[str, tuple[type, str]] = {
    "writer": (SharedWriter, "run"),
    "refuser": (SharedWriter, "_refuse_while_lost"),
    "snapshotter": (Snapshotter, "run"),
    "sealer": (WindowSealer, "run"),
    "index_repair": (IndexRepair, "run"),
    "state_snapshotter": (StateSnapshotter, "run"),
    "spool_sender": (SpoolSender, "run"),
    "ledger_tail": (LedgerTail, "run"),
    "ledger_health": (LedgerHealth, "run"),
    "receipt_repair": (ReceiptRepair, "run"),
    "archiver": (Archiver, "run"),
    "top_list_writer": (TopListWriter, "run"),
    "clock": (ClockMonitor, "run"),
    "eraser": (Eraser, "run"),
    "callbacks": (EventCallbacks, "run"),
    "movement": (Movement, "run"),
    "window_archiver": (WindowArchiver, "run"),
    "rolling_windows": (RollingDrafts, "run"),
}
"""Every background loop of an engine, and where it is."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _restarts_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "RESTART_SECONDS_MIN", 0.001)
    monkeypatch.setattr(supervisor, "STEADY_SECONDS", 0.0)


@asynccontextmanager
async def node(spool: Path) -> AsyncIterator[Working]:
    """A node with everything that a node may have."""
    ledger, clock, kept = LosableLedger(), SetClock(), MemoryArchive()
    async with AsyncExitStack() as stack:
        rankd = await stack.enter_async_context(
            running(
                ledger=ledger,
                build=bare,
                clock=clock,
                reading=nullcontext(),
                shared=SharedHome(cast("Any", FarIndex()), False, MemoryStateSnapshots()),
                spool=await stack.enter_async_context(SpoolFile.open(spool)),
                archive=kept,
                listing=TopListSettings(kept, 10, 0.01),
            )
        )
        auth = Authenticator(lambda: rankd.state, loopback=True)
        service = ServiceContext(rankd, ledger, auth, clock, False, rankd)
        yield Working(service, clock, cast("Any", ledger))


async def health(at: Working) -> tuple[int, str, str]:
    answer = await at.ask("readyz")
    body = json.loads(answer.body)
    return answer.status, body["status"], body.get("problem") or ""


async def until(true: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await true():  # noqa: ASYNC110 - nothing signals it
            await asyncio.sleep(0.001)


def plant(monkeypatch: pytest.MonkeyPatch, name: str) -> asyncio.Event:
    """Have a loop fail whenever it is started, until the event is set."""
    where, method = LOOPS[name]
    original, mended = getattr(where, method), asyncio.Event()

    async def fail(self: Any) -> None:
        if not mended.is_set():
            raise ZeroDivisionError("planted")
        await original(self)

    monkeypatch.setattr(where, method, fail)
    return mended


async def test_every_loop_of_an_engine_is_supervised_and_in_the_list(tmp_path: Path) -> None:
    async with node(tmp_path) as at:
        await at.define()
        states = at.service.rankd.supervisor.states()
        assert {state.name for state in states} == set(LOOPS)


async def _is_ready(at: Working) -> bool:
    return await health(at) == (200, "ready", "")


@pytest.mark.parametrize("name", LOOPS)
async def test_failing_loop_is_told_restarted_and_forgotten(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    mended = plant(monkeypatch, name)
    async with node(tmp_path) as at:
        told = f"{name} fails (ZeroDivisionError: planted) and is restarted"

        async def fails() -> bool:
            return await health(at) == (503, "unavailable", told)

        await until(fails)
        assert samples(render(collect(at.service)))[f'rankd_manager_up{{manager="{name}"}}'] == 0
        mended.set()
        await until(lambda: _is_ready(at))
        figures = samples(render(collect(at.service)))
        assert figures[f'rankd_manager_up{{manager="{name}"}}'] == 1
        assert figures[f'rankd_manager_restarts_total{{manager="{name}"}}'] >= 1
        assert f"{name} failed; restart in" in caplog.text and "Traceback" in caplog.text
        await at.define()
        assert (await at.submit("p", 1))["position"] > 0


async def test_callers_of_a_writer_that_fails_are_told_and_the_next_are_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with node(tmp_path) as at:
        await at.define()
        original = SharedWriter._serve

        async def fail(*_: object) -> None:
            monkeypatch.setattr(SharedWriter, "_serve", original)
            raise ZeroDivisionError("planted")

        monkeypatch.setattr(SharedWriter, "_serve", fail)
        async with asyncio.timeout(60):
            with pytest.raises(LedgerUnavailable, match="planted") as refusal:
                await at.submit("p", 1)
            assert refusal.value.applied == "unknown"
            assert (await at.submit("p", 2))["position"] > 0


async def test_callers_wait_no_longer_once_an_engine_stops_whose_writer_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, "writer")
    async with asyncio.timeout(60):
        async with node(tmp_path) as at:
            waiting = asyncio.create_task(at.service.writer.set_friends("p", []))
            await asyncio.sleep(0.01)
        with pytest.raises(LedgerUnavailable):
            await waiting

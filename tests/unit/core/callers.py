"""Callers of an writer, an engine's or one by itself: they submit, wait, look and are refused."""

import asyncio
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import pytest
from tests.unit.core.doubles import FaultyLedger, LosableLedger, SetClock

from rankd.adapters.memory.index import NativeIndex
from rankd.core.cluster.shared_writer import SharedWriter
from rankd.core.engine import Engine
from rankd.core.projector import Projector
from rankd.core.receipts import ReceiptBuffer
from rankd.core.state import State
from rankd.core.supervisor import Supervisor
from rankd.core.writer import Writer, WriteResult
from rankd.errors import LedgerUnavailable
from rankd.model.facts import Fact, FriendsSet

BOARD: Mapping[str, object] = {"rule": "sum", "windows": ["all"]}


async def submit(rankd: Engine, player: str, score: int, key: str | None = None) -> WriteResult:
    (answer,) = await rankd.submit("b", [{"player": player, "score": score, "key": key}])
    return answer


async def scores(rankd: Engine, board: str = "b") -> dict[str, int]:
    page = await rankd.reader.page(board, limit=1000)
    return {one.player: one.scores[0] for one in page.standings}


async def until_waiting(*tasks: "asyncio.Task[Any]") -> None:
    """Let tasks run until they wait for somebody else."""
    for _ in range(10):
        await asyncio.sleep(0)
    assert not any(task.done() for task in tasks)


def intake_of(ledger: FaultyLedger, *, waiting_max: int = 100, batch_max: int = 100) -> Writer:
    parts: dict[str, Any] = {
        "projector": Projector(ledger=ledger, index=NativeIndex(), state=State()),
        "clock": SetClock(),
        "reading": nullcontext(),
        "receipts": ReceiptBuffer(),
        "waiting_max": waiting_max,
        "batch_max": batch_max,
    }
    if isinstance(ledger, LosableLedger):
        return SharedWriter(ledger=ledger, spool=None, supervisor=Supervisor(), **parts)
    return Writer(ledger=ledger, **parts)


def friends(number: int) -> list[Fact]:
    return [FriendsSet(f"p{number}", ("ann",))]


async def refused(rankd: Engine) -> None:
    with pytest.raises(LedgerUnavailable) as refusal:
        await submit(rankd, "p", 1)
    assert refusal.value.applied == "no"

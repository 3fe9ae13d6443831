"""What a node says of itself: what is lost, why, what that means, and whether to ask it at all."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest
from tests.unit.api.handling import Working
from tests.unit.api.test_metrics import samples
from tests.unit.core.doubles import FarIndex, LosableLedger, SetClock, bare

from rankd.adapters.memory.archive import MemoryArchive
from rankd.adapters.sqlite.spool import SpoolFile
from rankd.api.auth import Authenticator
from rankd.api.context import ServiceContext
from rankd.api.exposition import render
from rankd.api.metrics import collect
from rankd.core.assembly import running
from rankd.core.cluster import managers as cluster_managers
from rankd.core.cluster.recovery import SharedHome
from rankd.core.cluster.shared_projector import SharedProjector
from rankd.errors import IndexUnavailable, LedgerUnavailable

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _nobody_looks_at_the_index_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_managers, "MEND_SECONDS", 3_600.0)


@dataclass(frozen=True)
class Node:
    """A node over a ledger and an index that may be lost."""

    at: Working
    ledger: LosableLedger
    index: FarIndex

    async def health(self, role: str = "all") -> tuple[int, str, str]:
        service = replace(self.at.service, role=role)
        answer = await self.at._replace(service=service).ask("readyz")
        body = json.loads(answer.body)
        return answer.status, body["status"], body.get("problem") or ""

    def figures(self) -> dict[str, float]:
        return samples(render(collect(self.at.service)))

    async def lose_ledger(self) -> None:
        self.ledger.lose()
        await until(lambda: self.at.service.rankd.ledger_failure is not None)

    async def lose_index(self) -> None:
        self.index.cut = True
        shared_projector = self.at.service.rankd.projector
        assert isinstance(shared_projector, SharedProjector)
        with suppress(IndexUnavailable):
            await shared_projector.lost()


async def until(true: Any) -> None:
    async with asyncio.timeout(30):
        while not true():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.001)


@asynccontextmanager
async def node(
    spool: Path | None = None, *, spare: bool = False, kept: bool = True
) -> AsyncIterator[Node]:
    ledger, index, clock = LosableLedger(), FarIndex(), SetClock()
    async with AsyncExitStack() as stack:
        waiting = None
        if spool is not None:
            waiting = await stack.enter_async_context(SpoolFile.open(spool))
        rankd = await stack.enter_async_context(
            running(
                ledger=ledger,
                build=bare,
                clock=clock,
                reading=nullcontext(),
                shared=SharedHome(cast("Any", index), spare),
                spool=waiting,
                archive=MemoryArchive() if kept else None,
                manages=False,
            )
        )
        auth = Authenticator(lambda: rankd.state, loopback=True)
        service = ServiceContext(rankd, ledger, auth, clock, False, rankd)
        at = Working(service, clock, cast("Any", ledger))
        await at.define()
        await at.submit("p", 1)
        yield Node(at, ledger, index)


async def test_a_node_that_has_all_is_ready() -> None:
    async with node() as found:
        assert await found.health() == (200, "ready", "")
        figures = found.figures()
        assert [figures[f"rankd_{name}"] for name in ("up", "ledger_up", "index_up")] == [1, 1, 1]


async def test_ledger_time_ahead_of_the_clock_is_told() -> None:
    async with node() as found:
        assert found.figures()["rankd_clock_offset_seconds"] == 0
        found.at.clock.time -= 3_600_000_000
        code, status, problem = await found.health()
        assert (code, status) == (200, "degraded")
        assert "ledger time is +3,600.0 s against the clock" in problem
        assert found.figures()["rankd_clock_offset_seconds"] == 3_600


async def test_without_a_ledger_it_says_why_and_that_writes_are_refused() -> None:
    async with node() as found:
        await found.lose_ledger()
        status, said, problem = await found.health()
        assert (status, said) == (200, "degraded")
        assert problem == (
            "the ledger is lost (it is lost): writes are refused, and reads may be stale"
        )
        figures = found.figures()
        assert [figures[f"rankd_{name}"] for name in ("up", "ledger_up", "index_up")] == [0, 0, 1]


async def test_with_a_spool_it_says_that_scores_wait_and_how_many(tmp_path: Path) -> None:
    async with node(tmp_path) as found:
        await found.lose_ledger()
        for score in range(3):
            told = await found.at.ask(
                "submit_score", {"board": "b"}, {"player": "q", "score": score}
            )
            assert told.status == 202
        status, said, problem = await found.health()
        assert (status, said) == (200, "degraded")
        assert "scores wait on this node's disk (3 now), other writes are refused" in problem
        figures = found.figures()
        assert [figures[f"rankd_{name}"] for name in ("up", "ledger_up")] == [1, 0]
        assert figures["rankd_spooled_facts"] == figures["rankd_spooled_total"] == 3


async def test_why_the_index_is_lost_is_told_as_it_is_known() -> None:
    async with node() as found:
        await found.lose_index()
        means = "scores are recorded, and counted when it is back"
        problem = f"the index is lost or behind (injected): {means}"
        assert await found.health() == (200, "degraded", problem)
        found.index.cut = False
        found.index.empty()
        shared_projector = cast("SharedProjector", found.at.service.rankd.projector)
        await shared_projector.lost()
        assert "the index fell back from 2 to 0" in (await found.health())[2]
        figures = found.figures()
        assert [figures[f"rankd_{name}"] for name in ("up", "ledger_up", "index_up")] == [1, 1, 0]


async def test_without_both_it_names_both_and_is_not_to_be_asked() -> None:
    async with node() as found:
        await found.lose_index()
        await found.lose_ledger()
        status, said, problem = await found.health()
        assert (status, said) == (503, "unavailable")
        assert problem == (
            "the ledger is lost (it is lost): writes are refused, and reads may be stale; "
            "the index is lost or behind (injected): reads are refused"
        )
        figures = found.figures()
        assert [figures[f"rankd_{name}"] for name in ("up", "ledger_up", "index_up")] == [0, 0, 0]


@pytest.mark.parametrize(
    ("spooled", "spare", "roles"),
    [
        (False, False, ""),
        (False, True, "all api query manager"),
        (True, False, "all api ingest manager"),
        (True, True, "all api query ingest manager"),
    ],
)
async def test_without_both_it_is_asked_for_what_its_role_still_answers(
    tmp_path: Path, spooled: bool, spare: bool, roles: str
) -> None:
    async with node(tmp_path if spooled else None, spare=spare) as found:
        await found.lose_index()
        await found.lose_ledger()
        asked = [
            role
            for role in ("all", "api", "query", "ingest", "manager")
            if (await found.health(role))[0] == 200
        ]
        assert asked == roles.split()


async def test_a_worker_says_that_scores_wait_where_the_writer_lets_them() -> None:
    async with node() as found:
        await found.lose_ledger()
        for spools, writes in ((True, "scores wait on this node's disk, other"), (False, "writes")):
            service = replace(found.at.service, engine=None, spools=spools)
            body = json.loads((await found.at._replace(service=service).ask("readyz")).body)
            assert f"(it is lost): {writes}" in body["problem"]
            assert samples(render(collect(service)))["rankd_up"] == spools


async def test_what_waited_is_told_when_it_was_handed_in(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Also what counts nowhere, of which whoever submitted it was told that it was accepted."""
    async with node(tmp_path) as found:
        await found.at.submit("q", 1, key="used for a score of one")
        await found.lose_ledger()
        with caplog.at_level(logging.WARNING, logger="rankd"):
            await found.at.submit("q", 2, key="new")
            await found.at.submit("q", 3, key="used for a score of one")
            assert "scores wait on this node's disk" in caplog.text
            found.ledger.find()
            await until(lambda: "handed in" in caplog.text)
        assert "handed in 2, of which 1 count nowhere; waiting still: 0" in caplog.text
        assert "b, 'used for a score': its key was used for another" in caplog.text
        figures = found.figures()
        assert figures["rankd_spooled_facts"] == 0
        assert figures["rankd_handed_in_total"] == figures["rankd_spooled_total"] == 2
        assert figures["rankd_dropped_total"] == 1


# ----------------------------------------------------------------------------- batches


def batch(*boards: str) -> dict[str, Any]:
    return {"scores": [{"board": name, "player": "p", "score": 7} for name in boards]}


async def test_in_a_batch_that_waits_each_is_told_for_itself(tmp_path: Path) -> None:
    """Whether there is a board that this node does not know, only the ledger could say."""
    async with node(tmp_path) as found:
        at, here = found.at, found.at.service.rankd.position
        await found.lose_ledger()
        told = await at.ask("submit_scores", {}, batch("b", "unknown", "b"))
        body = json.loads(told.body)
        assert (told.status, body["position"]) == (200, here)
        assert [one["verdict"] for one in body["results"]] == ["accepted", "refused", "accepted"]
        assert [one.get("position") for one in body["results"]] == [None, None, None]
        refusal = body["results"][1]
        assert (refusal["code"], refusal["applied"]) == ("ledger_unavailable", "no")
        with pytest.raises(LedgerUnavailable):
            await at.ask("submit_scores", {}, batch("unknown"))
        found.ledger.find()
        await until(lambda: at.service.rankd.ledger_failure is None)
        body = json.loads((await at.ask("submit_scores", {}, batch("b", "unknown"))).body)
        assert body["results"][1]["code"] == "unknown_board"

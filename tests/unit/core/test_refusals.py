"""A refusal is final: no later definition makes a refused submission count."""

from typing import Any

import pytest
from tests.unit.core.doubles import DAY, FaultyLedger, SetClock, SharedLedger, engine, verified

from rankd.core import refusals as module
from rankd.core.engine import Engine
from rankd.core.window_schedule import windows_at
from rankd.core.writer import WriteResult
from rankd.model.board import Board
from rankd.model.facts import BoardDefined, Fact

pytestmark = pytest.mark.anyio
CUP: dict[str, Any] = {
    "name": "cup",
    "start": "2026-11-20T00:00:00Z",
    "end": "2026-11-25T00:00:00Z",
}


async def submit(rankd: Engine, player: str, **body: Any) -> WriteResult:
    (answer,) = await rankd.submit("b", [{"player": player, **body}])
    return answer


async def refused(rankd: Engine, player: str, **body: Any) -> bool:
    receipt = (await submit(rankd, player, **body)).receipt
    assert receipt is not None
    return receipt.rejected


async def scores(rankd: Engine, window: str = "all") -> dict[str, Any]:
    page = await rankd.reader.page("b", window=window)
    return {one.player: one.scores for one in page.standings}


async def test_a_submission_without_an_open_window_never_counts() -> None:
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {"windows": [CUP]})
        assert await refused(rankd, "ann", score=5, key="k")
        await rankd.redefine("b", {"windows": [CUP, "all", "daily"]})
        assert await scores(rankd) == await scores(rankd, "daily") == {}
        again = await submit(rankd, "ann", score=5, key="k")
        assert again.duplicate and again.receipt is not None and again.receipt.rejected
        assert await scores(rankd) == {}, "the same key goes on telling the refusal"
        assert not await refused(rankd, "ann", score=5, key="another")
        assert await scores(rankd) == {"ann": (5,)}
        await verified(rankd)


async def test_a_preview_counts_no_refused_submission() -> None:
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {"windows": [CUP]})
        assert await refused(rankd, "ann", score=5)
        shown = await rankd.preview("b", {"windows": [CUP, "all"]})
        assert [(one.window, one.total_after) for one in shown.windows] == [("all", 0)]


@pytest.mark.parametrize("rule", ["best", "latest", "first"])
async def test_a_sum_that_left_its_bounds_counts_under_no_other_rule(rule: str) -> None:
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {"rule": "sum", "limits": {"score_max": 10}})
        assert not await refused(rankd, "ann", score=6)
        assert await refused(rankd, "ann", score=7)
        assert await refused(rankd, "bob", score=11)
        assert not await refused(rankd, "cyd", score=10)
        await rankd.redefine("b", {"rule": rule})
        assert await scores(rankd) == {"ann": (6,), "cyd": (10,)}
        await verified(rankd)


async def test_a_sum_that_left_64_bits_counts_under_no_other_rule() -> None:
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {"rule": "sum", "direction": "lower"})
        assert not await refused(rankd, "ann", score=2**63 - 1)
        assert await refused(rankd, "ann", score=1)
        await rankd.redefine("b", {"rule": "best", "direction": "lower"})
        assert await scores(rankd) == {"ann": (2**63 - 1,)}
        await verified(rankd)


async def test_what_one_window_refused_never_counts_in_that_window() -> None:
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        bounded = {"rule": "sum", "limits": {"score_max": 10}}
        await rankd.define("b", {**bounded, "windows": ["all", "daily"]})
        assert not await refused(rankd, "ann", score=6)
        clock.time += DAY
        assert not await refused(rankd, "ann", score=9), "today counts it"
        await rankd.redefine("b", {"rule": "best", "windows": ["all", "daily", "weekly"]})
        assert await scores(rankd) == {"ann": (6,)}
        assert await scores(rankd, "daily") == await scores(rankd, "weekly") == {"ann": (9,)}
        await verified(rankd)


async def test_refusals_of_every_definition_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is judged by the scores that the definition of its time had made of the facts before."""
    monkeypatch.setattr(module, "FACTS_TOGETHER_MAX", 3)
    async with engine(FaultyLedger()) as rankd:
        purse: dict[str, Any] = {"rule": "latest", "limits": {"score_min": 0}}
        await rankd.define("b", purse)
        assert not await refused(rankd, "ann", score=5)
        assert await refused(rankd, "ann", delta=-6), "more than there is"
        assert not await refused(rankd, "ann", delta=-5)
        await rankd.redefine("b", {**purse, "rule": "best", "decimals": 1})
        assert not await refused(rankd, "ann", score=3)
        assert await refused(rankd, "ann", delta=-4)
        assert not await refused(rankd, "ann", delta=-2)
        await rankd.redefine("b", {**purse, "rule": "sum", "decimals": 1})
        assert await refused(rankd, "ann", delta=-5)
        await rankd.redefine("b", {"rule": "sum", "decimals": 1, "windows": ["all", "daily"]})
        assert await scores(rankd) == await scores(rankd, "daily") == {"ann": (10,)}
        await verified(rankd)


async def test_attributes_of_a_refused_submission_hold() -> None:
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {"windows": [CUP], "segments": ["region"]})
        assert await refused(rankd, "ann", score=5, attributes={"region": "eu"})
        await rankd.redefine("b", {"windows": ["all"], "segments": ["region"]})
        await submit(rankd, "ann", score=1)
        page = await rankd.reader.page("b", segment="region:eu")
        assert [one.scores for one in page.standings] == [(1,)]
        await verified(rankd)


async def test_a_redefinition_of_an_older_ledger_counts_what_it_counted() -> None:
    """Its standings were answered for years; what was refused since then stays refused."""
    ledger, clock = SharedLedger(), SetClock()
    async with engine(ledger, clock) as rankd:
        bounded = Board.define("b", {"rule": "sum", "limits": {"score_max": 10}})
        facts: list[Fact] = [
            BoardDefined("b", bounded.definition(), None, windows_at(None, bounded, clock.time))
        ]
        await ledger.append(facts, now=clock.time)
        assert not await refused(rankd, "ann", score=4)
        assert await refused(rankd, "ann", score=9)
        best = Board.define("b", {"rule": "best", "limits": {"score_max": 10}})
        windows = windows_at(rankd.state.page("b"), best, clock.time)
        await ledger.append([BoardDefined("b", best.definition(), None, windows)], now=clock.time)
        assert await refused(rankd, "ann", delta=2), "9 and 2 are more than 10"
        assert await scores(rankd) == {"ann": (9,)}
        await rankd.redefine("b", {"rule": "sum"})
        assert await scores(rankd) == {"ann": (4,)}
        await verified(rankd)

"""Rules that a definition brings to a board know the submissions before it, on every node."""

from pathlib import Path
from typing import Any

import pytest
from tests.unit.core.callers import submit
from tests.unit.core.doubles import (
    SetClock,
    SharedLedger,
    bare,
    bare_in_moves,
    engine,
    facts_of,
    kept_in,
    verified,
)
from tests.unit.core.test_attempts import node

from rankd.adapters.memory.ledger import MemoryLedger
from rankd.adapters.memory.shared_index import SharedMemory
from rankd.core import rule_past
from rankd.core.recovery import Build
from rankd.model.facts import BoardRedefined, BoardRelearned

pytestmark = pytest.mark.anyio

FIRST = {"rule": "first_score", "max": 50, "then": "refuse"}
GAIN = {"rule": "gain_per_minute", "max": 10, "then": "hold"}
RULES: dict[str, Any] = {"rules": [FIRST, GAIN]}


def verdict(answer: Any) -> str:
    assert answer.receipt is not None
    return str(answer.receipt.verdict)


@pytest.mark.parametrize("build", [bare, bare_in_moves], ids=["in place", "in moves"])
async def test_new_rules_know_the_players(build: Build) -> None:
    async with engine(MemoryLedger(), build=build) as rankd:
        await rankd.define("b", {})
        await submit(rankd, "ann", 90)
        await rankd.redefine("b", RULES)
        assert verdict(await submit(rankd, "ann", 95)) == "counted", "it is not her first score"
        assert verdict(await submit(rankd, "ann", 120)) == "held", "it is 30 more than a minute ago"
        assert verdict(await submit(rankd, "bob", 51)) == "rejected"
        await verified(rankd)


async def test_what_does_not_count_is_no_past() -> None:
    async with engine(MemoryLedger()) as rankd:
        await rankd.define("b", {})
        await submit(rankd, "bob", 10)
        gone = await submit(rankd, "ann", 90)
        await rankd.corrections.retract("b", {"position": gone.position})
        await rankd.corrections.adjust("b", {"player": "bob", "score": 100})
        await rankd.redefine("b", RULES)
        assert verdict(await submit(rankd, "ann", 51)) == "rejected", "it is her first score"
        assert verdict(await submit(rankd, "bob", 105)) == "counted", "it gains 5, not 95"


async def test_all_rules_are_kept_that_know_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    async with engine(ledger := MemoryLedger()) as rankd:
        await rankd.define("b", RULES)
        await submit(rankd, "ann", 40)
        other = {"rules": [{**FIRST, "max": 45}, GAIN]}
        await rankd.redefine("b", other)
        assert await kinds(ledger) == [BoardRedefined]
        await rankd.redefine("b", {"rules": [{**FIRST, "max": 45}]})
        assert await kinds(ledger) == [BoardRedefined, BoardRelearned]
        assert verdict(await submit(rankd, "ann", 49)) == "counted"
        monkeypatch.setattr(rule_past, "PAST_FACTS_MAX", 2)
        await rankd.redefine("b", RULES)
        assert (await kinds(ledger))[-1] is BoardRedefined, "the past is too long"


async def kinds(ledger: MemoryLedger) -> list[type]:
    found = [type(one.fact) for one in await facts_of(ledger)]
    return [kind for kind in found if kind in (BoardRedefined, BoardRelearned)]


@pytest.mark.parametrize("shared", [True, False], ids=["shared index", "index each"])
async def test_every_node_learns_the_same(monkeypatch: pytest.MonkeyPatch, shared: bool) -> None:
    """Also of what another node retracts after the past was read."""
    clock, ledger, memory = SetClock(), SharedLedger(), SharedMemory() if shared else None
    async with node(ledger, clock, memory) as one, node(ledger, clock, memory) as other:
        await one.define("b", {})
        await submit(one, "ann", 90)
        await submit(one, "cyd", 80)
        read = rule_past.RulePast.read

        async def read_and_retract(self: Any, through: Any, tell: Any) -> None:
            await read(self, through, tell)
            await other.corrections.retract("b", {"player": "ann"})

        monkeypatch.setattr(rule_past.RulePast, "read", read_and_retract)
        await one.redefine("b", RULES)
        assert verdict(await submit(other, "ann", 95)) == "rejected"
        assert verdict(await submit(other, "cyd", 99)) == "held"
        async with node(ledger, clock, memory) as late:
            assert verdict(await submit(late, "bob", 51)) == "rejected"
            states = [each.state.reviews.rules["b"].save() for each in (one, other, late)]
            await submit(one, "cyd", 81)
            for each in (one, other, late):
                await verified(each)
        assert len(set(states)) == 1


@pytest.mark.parametrize("saved", [True, False])
async def test_the_past_is_known_after_a_restart(tmp_path: Path, saved: bool) -> None:
    ledger, build = MemoryLedger(), kept_in(tmp_path)
    async with engine(ledger, build=build) as rankd:
        await rankd.define("b", {})
        await submit(rankd, "ann", 90)
        await rankd.redefine("b", RULES)
        if saved:
            await rankd.save()
    async with engine(ledger, build=build) as rankd:
        assert verdict(await submit(rankd, "ann", 120)) == "held"
        assert verdict(await submit(rankd, "bob", 51)) == "rejected"

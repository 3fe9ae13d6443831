"""The preview of rules: what they would have caught of the scores that were counted."""

import pytest
from tests.unit.core.callers import scores, submit
from tests.unit.core.doubles import SetClock, engine

from rankd.adapters.memory.ledger import MemoryLedger
from rankd.core import rule_past, rule_preview
from rankd.errors import UnknownBoard
from rankd.model.rules import Reason

pytestmark = pytest.mark.anyio
PAUSE = {"rule": "seconds_between", "min": 2, "then": "refuse"}
FIRST = {"rule": "first_score", "max": 5, "then": "hold"}


async def test_rules_are_tried_on_the_scores_that_counted() -> None:
    clock = SetClock()
    async with engine(MemoryLedger(), clock) as rankd:
        await rankd.define("b", {"rule": "best"})
        await rankd.define("other", {"rule": "best"})
        await rankd.submit("other", [{"player": "ann", "score": 99}])
        for seconds, score in ((0, 9), (1, 10), (5, 11), (1, 12)):
            clock.time += seconds * 1_000_000
            await submit(rankd, "ann", score)
        cheat = await submit(rankd, "bob", 99)
        await rankd.corrections.retract("b", {"position": cheat.position})
        before = rankd.position
        told = []
        rules = {"rule": "best", "rules": [PAUSE, FIRST]}
        found = await rankd.preview_rules("b", rules, tell=lambda step: told.append(step.done))
        assert (found.submissions, found.caught, found.through) == (4, 3, before)
        pause, first = found.rules
        assert (pause.caught, first.caught) == (2, 1)
        assert pause.examples[0].reason == Reason("seconds_between", 1_000_000, 2_000_000)
        assert first.examples == [(4, "ann", Reason("first_score", 9, 5))]
        assert told[-1] == before
        assert rankd.position == before and await scores(rankd) == {"ann": 12}
        assert rankd.state.reviews.rules == {} and not rankd.state.reviews.listed

        finer = await rankd.preview_rules("b", {**rules, "decimals": 1})
        assert finer.rules[1].examples[0].reason == Reason("first_score", 90, 50)
        with pytest.raises(UnknownBoard):
            await rankd.preview_rules("nowhere", {})


async def test_examples_are_bounded_and_refused_scores_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rule_preview, "EXAMPLES_MAX", 1)
    monkeypatch.setattr(rule_past, "FACTS_TOGETHER", 2)
    async with engine(MemoryLedger()) as rankd:
        await rankd.define("b", {"rule": "best", "rules": [FIRST]})
        for player in ("ann", "bob", "cyd"):
            await submit(rankd, player, 3)
            await submit(rankd, player, 4)
        await submit(rankd, "dan", 9)
        definition = {"rule": "best", "rules": [PAUSE]}
        found = await rankd.preview_rules("b", definition)
        assert found.submissions == 6, "the held one does not count"
        (pause,) = found.rules
        assert (pause.caught, len(pause.examples)) == (3, 1)
        await rankd.redefine("b", definition)
        again = await rankd.preview_rules("b", definition)
        assert again.rules[0].caught == 3

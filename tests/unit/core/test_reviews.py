"""Rules in the fold, and reviews: the answers, their repetition, the bounds, and redefinitions."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
from tests.unit.core.callers import scores, submit
from tests.unit.core.doubles import (
    MovesIndex,
    SetClock,
    bare,
    bare_in_moves,
    engine,
    facts_of,
    kept_in,
    verified,
)

from rankd.adapters.memory.index import NativeIndex
from rankd.adapters.memory.ledger import MemoryLedger
from rankd.core import reviews
from rankd.core.engine import Engine
from rankd.core.projector import Projector
from rankd.core.state import Savepoint, State
from rankd.core.state_codec import VERSION, Heading, read_notes, take_notes
from rankd.errors import SnapshotDamaged, UnknownReview
from rankd.model.facts import BoardDefined, OpenWindow, Position, Recorded, ScoreSubmitted
from rankd.model.rules import Reason
from rankd.ports import RankIndex

pytestmark = pytest.mark.anyio

SECOND = 1_000_000
PAUSE = {"rule": "seconds_between", "min": 2}
GAIN = {"rule": "gain_per_minute", "max": 50}


def best(*rules: Mapping[str, object]) -> dict[str, object]:
    return {"rule": "best", "windows": ["all", "daily"], "rules": list(rules)}


@pytest.fixture(params=["in place", "in moves"])
async def rankd(request: pytest.FixtureRequest) -> AsyncIterator[Engine]:
    build = bare if request.param == "in place" else bare_in_moves
    async with engine(MemoryLedger(), build=build) as rankd:
        yield rankd


async def test_broken_rules_are_counted(rankd: Engine) -> None:
    """Every rule that a submission breaks, the ones with a weaker consequence included."""
    await rankd.define("b", best({**GAIN, "then": "hold"}, {**PAUSE, "then": "flag"}))
    await submit(rankd, "ann", 10)
    for score in (20, 90, 95):
        await submit(rankd, "ann", score)
    await submit(rankd, "ann", 96, key="k")
    await submit(rankd, "ann", 96, key="k")
    broken = rankd.state.reviews.broken
    assert broken == {("b", "gain_per_minute", "hold"): 3, ("b", "seconds_between", "flag"): 4}
    savepoint = Savepoint(rankd.state)
    rankd.state.reviews.retire("b", rankd.state.journal)
    assert not +broken
    savepoint.go_back()
    assert sum(broken.values()) == 7


async def test_rules_broken_before_a_start_are_not_counted() -> None:
    ledger = MemoryLedger()
    for expected in (1, 0):
        async with engine(ledger) as rankd:
            if expected:
                await rankd.define("b", best({"rule": "first_score", "max": 5, "then": "refuse"}))
                await submit(rankd, "ann", 10)
            assert sum(rankd.state.reviews.broken.values()) == expected


async def test_a_held_submission_waits_and_counts_at_its_own_position(rankd: Engine) -> None:
    await rankd.define("b", best({**GAIN, "then": "hold"}))
    await submit(rankd, "ann", 10)
    held = await submit(rankd, "ann", 90, key="k")
    assert held.receipt is not None
    assert (held.receipt.verdict, held.receipt.review) == ("held", str(held.position))
    assert held.receipt.reasons == (Reason("gain_per_minute", 80, 50),)
    assert held.receipt.windows["daily"].scores == (10,)
    again = await submit(rankd, "ann", 90, key="k")
    assert again.duplicate and again.receipt == held.receipt and again.receipt is not None
    assert again.receipt.reasons == held.receipt.reasons

    await submit(rankd, "bob", 90)
    assert await scores(rankd) == {"bob": 90, "ann": 10}
    review = rankd.state.reviews.listed[held.position]
    assert (review.state, review.scores, review.player) == ("held", (90,), "ann")
    assert rankd.state.reviews.open_count == 1

    effect = await rankd.corrections.decide_review(review.id, approved=True, actor="mod")
    assert [one.scores for one in effect.changes] == [(90,), (90,)]
    page = await rankd.reader.page("b", limit=10)
    assert list(page.players) == ["ann", "bob"], "ann was first, at its own position"
    assert rankd.state.reviews.open_count == 0
    decided = rankd.state.reviews.listed[held.position]
    assert (decided.state, decided.decided_by) == ("approved", "mod")
    other = await rankd.corrections.decide_review(review.id, approved=False)
    assert (other.position, other.submissions) == (None, 0), "the first decision stays"
    await verified(rankd)


async def test_a_refused_submission_never_counts(rankd: Engine) -> None:
    await rankd.define("b", best({**GAIN, "then": "refuse"}))
    await submit(rankd, "ann", 10)
    refused = await submit(rankd, "ann", 90, key="k")
    assert refused.receipt is not None and refused.receipt.rejected
    assert refused.receipt.first.code == "rule_broken"
    again = await submit(rankd, "ann", 90, key="k")
    assert again.receipt is not None and again.receipt.rejected
    assert again.receipt.reasons == (Reason("gain_per_minute", 80, 50),)
    await rankd.redefine("b", {**best(), "rule": "latest"})
    assert await scores(rankd) == {"ann": 10}, "a refusal is final"
    with pytest.raises(UnknownReview):
        await rankd.corrections.decide_review(str(refused.position), approved=True)
    await verified(rankd)


async def test_a_flagged_submission_counts_until_it_is_rejected(rankd: Engine) -> None:
    await rankd.define("b", best({**GAIN, "then": "flag"}))
    await submit(rankd, "ann", 10)
    flagged = await submit(rankd, "ann", 90)
    assert flagged.receipt is not None and flagged.receipt.verdict == "counted"
    assert flagged.receipt.reasons == (), "the sender is not told"
    assert await scores(rankd) == {"ann": 90}
    id = rankd.state.reviews.listed[flagged.position].id
    effect = await rankd.corrections.decide_review(id, approved=False, reason="a bot")
    assert await scores(rankd) == {"ann": 10}
    assert effect.position is not None
    await verified(rankd)
    await rankd.corrections.undo_retraction("b", effect.position)
    assert await scores(rankd) == {"ann": 90}
    await verified(rankd)


@pytest.mark.parametrize("index", [NativeIndex, MovesIndex])
async def test_rules_go_by_the_time_of_each_fact(index: type[RankIndex]) -> None:
    clock, ledger = SetClock(), MemoryLedger()
    async with engine(ledger, clock) as rankd:
        await rankd.define("b", best({**PAUSE, "then": "refuse"}))
        for score, seconds in ((1, 0), (2, 1), (3, 3), (4, 1), (5, 2)):
            clock.time += seconds * SECOND
            await submit(rankd, "ann", score)
        assert await scores(rankd) == {"ann": 5}
        refused = [*rankd.state.refused._positions]
    projector = Projector(ledger=ledger, index=index(), state=State())
    await projector.fold(await facts_of(ledger))
    assert [*projector.state.refused._positions] == refused
    assert len(refused) == 2


async def test_rules_go_on_after_a_restart_from_a_snapshot(tmp_path: Path) -> None:
    clock, ledger = SetClock(), MemoryLedger()
    async with engine(ledger, clock, kept_in(tmp_path)) as rankd:
        await rankd.define("b", best({**GAIN, "then": "hold"}, {**PAUSE, "then": "refuse"}))
        await submit(rankd, "ann", 10)
        clock.time += 3 * SECOND
        held = await submit(rankd, "ann", 90)
        await rankd.save()
    async with engine(ledger, clock, kept_in(tmp_path)) as rankd:
        assert rankd.state.reviews.listed[held.position].state == "held"
        hasty = await submit(rankd, "ann", 11)
        assert hasty.receipt is not None and hasty.receipt.rejected
        clock.time += 3 * SECOND
        again = await submit(rankd, "ann", 80)
        assert again.receipt is not None and again.receipt.verdict == "held"
        await rankd.corrections.decide_review(str(held.position), approved=True)
        assert await scores(rankd) == {"ann": 90}


async def test_reviews_are_bounded_and_a_dropped_one_can_still_be_decided(
    rankd: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reviews, "REVIEWS_MAX", 4)
    monkeypatch.setattr(reviews, "REVIEWS_DROPPED", 2)
    await rankd.define(
        "b", best({**GAIN, "then": "hold"}, {"rule": "first_score", "max": 5, "then": "flag"})
    )
    await submit(rankd, "ann", 10)
    await submit(rankd, "bob", 5)
    held = [(await submit(rankd, "bob", 100 + n)).position for n in range(5)]
    state = rankd.state.reviews
    assert list(state.listed) == held[1:], "the flagged one went first, then the oldest"
    assert state.open_count == 5
    await rankd.corrections.decide_review(str(held[0]), approved=True)
    assert (await scores(rankd))["bob"] == 100
    assert state.open_count == 4
    await verified(rankd)


async def test_a_redefinition_keeps_what_still_fits(rankd: Engine) -> None:
    await rankd.define("b", best({**GAIN, "then": "flag"}))
    await submit(rankd, "ann", 10)
    await rankd.redefine("b", best({**GAIN, "then": "refuse"}))
    gained = await submit(rankd, "ann", 70)
    assert gained.receipt is not None and gained.receipt.rejected, "of 10, which it knows"
    await rankd.redefine("b", {**best({**GAIN, "then": "refuse"}), "decimals": 1})
    gained = await submit(rankd, "ann", 61)
    assert gained.receipt is not None
    assert gained.receipt.reasons == (Reason("gain_per_minute", 510, 500),)
    await rankd.redefine("b", {**best(), "decimals": 1})
    assert rankd.state.reviews.rules == {}
    counted = await submit(rankd, "ann", 70)
    assert counted.receipt is not None and counted.receipt.verdict == "counted"
    await rankd.retire("b")
    await rankd.define("b", best({**GAIN, "then": "refuse"}))
    assert len(rankd.state.reviews.rules["b"]) == 0


async def test_limits_are_rules_that_refuse(rankd: Engine) -> None:
    limits = {"gain_per_minute_max": 50, "submissions_per_minute_max": 2}
    await rankd.define("b", {"rule": "sum", "limits": limits})
    assert (await submit(rankd, "ann", 40)).receipt.rejected is False  # type: ignore[union-attr]
    both = (await submit(rankd, "ann", 20)).receipt
    assert both is not None and both.reasons == (Reason("gain_per_minute", 60, 50),)
    often = (await submit(rankd, "ann", 1)).receipt
    assert often is not None and often.reasons == (Reason("submissions_per_minute", 3, 2),)


async def test_an_adjustment_is_not_judged(rankd: Engine) -> None:
    await rankd.define("b", best({"rule": "first_score", "max": 5, "then": "refuse"}))
    await rankd.corrections.adjust("b", {"player": "ann", "score": 50, "reason": "a gift"})
    assert await scores(rankd) == {"ann": 50}


async def test_a_mass_retraction_leaves_out_what_does_not_count(
    rankd: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rankd.core.mass_retraction.REFOLDED_PLAYERS_MAX", 1)
    await rankd.define("b", best({**GAIN, "then": "hold"}))
    for player in ("ann", "bob", "cyd"):
        await rankd.submit("b", [{"player": player, "score": 1}])
        await rankd.submit("b", [{"player": player, "score": 10, "build": "bad"}])
        await rankd.submit("b", [{"player": player, "score": 90, "build": "bad"}])
    effect = await rankd.corrections.retract("b", {"build": "bad"})
    assert (effect.submissions, effect.players) == (3, 3), "the held ones counted nowhere"
    assert await scores(rankd) == {"ann": 1, "bob": 1, "cyd": 1}
    await verified(rankd)


def test_a_snapshot_without_the_state_of_rules_is_damaged() -> None:
    state = State()
    definition = best({**GAIN, "then": "hold"})
    fact = BoardDefined("b", definition, None, (OpenWindow("all", None, None),))
    state.note(Recorded(Position(1), 0, fact))
    heading = Heading(VERSION, Position(1), 0, b"", Position(0), {})
    frames = list(take_notes(state, heading))
    assert "b" in read_notes(frames).state.reviews.rules
    with pytest.raises(SnapshotDamaged):
        read_notes([frame for frame in frames if b"RKRS" not in frame])


def test_a_submission_without_a_score_to_judge_has_no_columns() -> None:
    assert reviews.columns_of(ScoreSubmitted("b", "ann", (), None)) is None


async def test_an_approved_score_and_an_adjustment_are_known_to_the_rules(rankd: Engine) -> None:
    first = {"rule": "first_score", "max": 5, "then": "hold"}
    await rankd.define("b", best(first, {**GAIN, "then": "refuse"}))
    held = await submit(rankd, "ann", 90)
    await rankd.corrections.decide_review(str(held.position), approved=True)
    counted = await submit(rankd, "ann", 100)
    assert counted.receipt is not None and counted.receipt.verdict == "counted"
    beyond = await submit(rankd, "ann", 141)
    assert beyond.receipt is not None
    assert beyond.receipt.reasons == (Reason("gain_per_minute", 51, 50),), "of 90 approved"
    await rankd.corrections.adjust("b", {"player": "bob", "score": 200})
    counted = await submit(rankd, "bob", 210)
    assert counted.receipt is not None and counted.receipt.verdict == "counted"
    await verified(rankd)


async def test_what_lies_out_of_bounds_gives_no_room_for_gains(rankd: Engine) -> None:
    definition = {**best({**GAIN, "then": "flag"}), "limits": {"score_max": 1000}}
    await rankd.define("b", definition)
    await submit(rankd, "ann", 10)
    (far,) = await rankd.submit("b", [{"player": "ann", "delta": 5000}])
    assert far.receipt is not None and far.receipt.rejected
    await submit(rankd, "ann", 900)
    reasons = [one.reasons[0].observed for one in rankd.state.reviews.listed.values()]
    assert reasons == [5000, 890]

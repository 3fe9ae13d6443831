"""Verifiers: what a board holds for one counts once it approves, where it was submitted."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from tests.unit.core.doubles import FaultyLedger, SetClock, SharedLedger, bare, kept_in, verified

from rankd.core import verifiers as module
from rankd.core.assembly import running
from rankd.core.engine import Engine
from rankd.core.recovery import Build
from rankd.core.verifiers import CallableVerifier, VerifierFunction
from rankd.core.writer import WriteResult
from rankd.errors import Overloaded
from rankd.ports import HeldSubmission, Ledger, Verification

pytestmark = pytest.mark.anyio

SECOND = 1_000_000
WITH = {"verifier": {"name": "replay"}}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(module, "RETRY_SECONDS_MIN", 0.01)


@asynccontextmanager
async def engine(
    function: VerifierFunction | None,
    ledger: Ledger | None = None,
    clock: SetClock | None = None,
    build: Build = bare,
) -> AsyncIterator[Engine]:
    named = {} if function is None else {"replay": CallableVerifier(function)}
    async with running(
        ledger=ledger or FaultyLedger(),
        build=build,
        clock=clock or SetClock(),
        reading=nullcontext(),
        verifiers=named,
    ) as rankd:
        yield rankd


async def submit(rankd: Engine, player: str, score: int, **more: Any) -> WriteResult:
    (answer,) = await rankd.submit("b", [{"player": player, "score": score, **more}])
    return answer


async def scores(rankd: Engine) -> Mapping[str, int]:
    page = await rankd.reader.page("b")
    return {one.player: one.scores[0] for one in page.standings}


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 - state, which tells nobody
            await asyncio.sleep(0.005)


def decided(rankd: Engine, count: int) -> Callable[[], bool]:
    return lambda: len(rankd.state.reviews.decisions) >= count


async def test_a_score_counts_once_its_verifier_has_approved_it() -> None:
    async def check(held: HeldSubmission) -> bool:
        assert isinstance(held.score, int)
        return held.score < 10

    async with engine(check) as rankd:
        await rankd.define("b", WITH)
        answers = [await submit(rankd, "ann", 5), await submit(rankd, "bob", 50)]
        for answer in answers:
            assert answer.receipt is not None and answer.receipt.verdict == "held"
            assert answer.receipt.review == str(answer.position)
        await until(decided(rankd, 2))
        assert await scores(rankd) == {"ann": 5}
        reviews = rankd.state.reviews.listed
        assert [one.state for one in reviews.values()] == ["approved", "rejected"]
        assert {one.decided_by for one in reviews.values()} == {"verifier:replay"}
        await verified(rankd)


async def test_an_approved_score_counts_at_its_original_position() -> None:
    release = asyncio.Event()

    async def check(held: HeldSubmission) -> bool:
        if held.player == "slow":
            await release.wait()
        return True

    async with engine(check) as rankd:
        await rankd.define("b", WITH)
        await submit(rankd, "slow", 5)
        await submit(rankd, "quick", 5)
        await until(decided(rankd, 1))
        release.set()
        await until(decided(rankd, 2))
        assert list(await scores(rankd)) == ["slow", "quick"], "the first to reach it is ahead"


async def test_a_verifier_gets_what_it_needs_to_play_the_run_again() -> None:
    seen: list[HeldSubmission] = []
    clock = SetClock()

    def check(held: HeldSubmission) -> tuple[bool, str]:
        seen.append(held)
        return True, "played again"

    async with engine(check, clock=clock) as rankd:
        await rankd.define("b", {**WITH, "decimals": 2})
        started = await rankd.runs.start("b", "ann")
        clock.time += 30 * SECOND
        more = {"metadata": {"moves": [1, 2]}, "build": "1.2", "key": "k"}
        answer = await submit(rankd, "ann", 5, run=started.run, **more)
        await until(decided(rankd, 1))
        (held,) = seen
        assert (held.id, held.board, held.player) == (str(answer.position), "b", "ann")
        assert str(held.score) == "5.00" and held.delta is None
        assert (held.metadata, held.build, held.key) == ({"moves": [1, 2]}, "1.2", "k")
        assert (held.seed, held.run_seconds) == (started.seed, 30.0)
        (review,) = rankd.state.reviews.listed.values()
        assert review.why == "played again"


async def test_a_verifier_that_fails_is_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    tries: list[int] = []

    async def check(_held: HeldSubmission) -> Any:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("out of reach")
        return "perhaps" if len(tries) == 2 else True

    with caplog.at_level(logging.WARNING):
        async with engine(check) as rankd:
            await rankd.define("b", WITH)
            await submit(rankd, "ann", 5)
            await until(decided(rankd, 1))
            assert await scores(rankd) == {"ann": 5}
    assert len(tries) == 3
    assert "OSError: out of reach" in caplog.text and "not str" in caplog.text


async def test_a_verifier_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "VERIFY_SECONDS_MAX", 0.02)
    tries: list[int] = []

    async def check(_held: HeldSubmission) -> bool:
        tries.append(1)
        if len(tries) < 3:
            await asyncio.Event().wait()
        return True

    async with engine(check) as rankd:
        await rankd.define("b", WITH)
        await submit(rankd, "ann", 5)
        await until(decided(rankd, 1))


async def test_a_moderator_may_decide_first() -> None:
    asked, release = asyncio.Event(), asyncio.Event()

    async def check(_held: HeldSubmission) -> bool:
        asked.set()
        await release.wait()
        return False

    async with engine(check) as rankd:
        await rankd.define("b", WITH)
        answer = await submit(rankd, "ann", 5)
        await asked.wait()
        await rankd.corrections.decide_review(str(answer.position), approved=True, actor="eve")
        release.set()
        await until(lambda: not rankd.verification._asked)
        assert await scores(rankd) == {"ann": 5}
        (review,) = rankd.state.reviews.listed.values()
        assert review.decided_by == "eve"


async def test_calls_of_a_verifier_are_bounded() -> None:
    running_now, most = [0], [0]

    async def check(_held: HeldSubmission) -> bool:
        running_now[0] += 1
        most[0] = max(most[0], running_now[0])
        await asyncio.sleep(0.002)
        running_now[0] -= 1
        return True

    async with engine(check) as rankd:
        await rankd.define("b", WITH)
        await rankd.submit("b", [(f"p{n}", n) for n in range(60)])
        await until(decided(rankd, 60))
        assert most[0] == module.VERIFIED_TOGETHER_MAX
        assert (await rankd.reader.page("b")).total == 60


async def test_too_many_waiting_submissions_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "VERIFICATIONS_WAITING_MAX", 3)
    async with engine(None) as rankd:
        await rankd.define("b", WITH)
        await rankd.define("c", {})
        for number in range(3):
            await submit(rankd, f"p{number}", 1)
        with pytest.raises(Overloaded):
            await submit(rankd, "ann", 1)
        with pytest.raises(Overloaded):
            await rankd.submit_each([("b", {"player": "ann", "score": 1})])
        await rankd.submit("c", [("ann", 1)])
        await rankd.corrections.decide_review(
            str(min(rankd.state.reviews.listed)), approved=True, actor="eve"
        )
        await submit(rankd, "ann", 1)


@pytest.mark.parametrize("saved", [True, False], ids=["from a snapshot", "from the ledger"])
async def test_what_waits_is_found_again_after_a_restart(tmp_path: Path, saved: bool) -> None:
    ledger, clock = FaultyLedger(), SetClock()
    async with engine(None, ledger, clock, kept_in(tmp_path)) as rankd:
        await rankd.define("b", WITH)
        await submit(rankd, "ann", 5)
        if saved:
            await rankd.save()
    seen: list[str] = []

    async def check(held: HeldSubmission) -> bool:
        seen.append(held.player)
        return True

    async with engine(check, ledger.anew(), clock, kept_in(tmp_path)) as rankd:
        await asyncio.sleep(0.05)
        assert seen == [], "another node may be asking"
        clock.time += int(module.TAKEOVER_SECONDS) * SECOND
        await until(decided(rankd, 1))
        assert (seen, await scores(rankd)) == (["ann"], {"ann": 5})
        await verified(rankd)


async def test_the_node_that_recorded_it_asks_and_another_takes_over() -> None:
    ledger, clock = SharedLedger(), SetClock()
    seen: list[str] = []

    def checking(node: str, *, answers: bool) -> VerifierFunction:
        async def check(held: HeldSubmission) -> bool:
            seen.append(f"{node} {held.player}")
            if not answers:
                await asyncio.Event().wait()
            return True

        return check

    async with (
        engine(checking("one", answers=True), ledger, clock) as one,
        engine(checking("other", answers=False), ledger, clock) as other,
    ):
        await one.define("b", WITH)
        await submit(one, "ann", 1)
        await until(decided(one, 1))
        await submit(other, "bob", 1)
        await until(lambda: "other bob" in seen)
        await one.submit("b", [("cyd", 1)])
        await until(decided(one, 2))
        clock.time += int(module.TAKEOVER_SECONDS) * SECOND
        await until(decided(one, 3))
        assert sorted(seen) == ["one ann", "one bob", "one cyd", "other bob"]
        assert set(await scores(one)) == {"ann", "bob", "cyd"}
        await verified(one)


async def test_rules_come_before_the_verifier() -> None:
    seen: list[str] = []

    async def check(held: HeldSubmission) -> bool:
        seen.append(held.player)
        return True

    async with engine(check) as rankd:
        rules = [
            {"rule": "first_score", "max": 10, "then": "hold"},
            {"rule": "first_score", "max": 100, "then": "refuse"},
            {"rule": "first_score", "max": 5, "then": "flag"},
        ]
        await rankd.define("b", {**WITH, "rules": rules})
        for player, score in (("held", 50), ("refused", 500), ("flagged", 7), ("ann", 1)):
            await submit(rankd, player, score)
        await until(decided(rankd, 2))
        assert sorted(seen) == ["ann", "flagged"], "a person decides about the others"
        assert await scores(rankd) == {"flagged": 7, "ann": 1}
        reasons = {
            one.player: [reason.rule for reason in one.reasons]
            for one in rankd.state.reviews.listed.values()
        }
        assert reasons == {
            "held": ["first_score", "first_score"],
            "flagged": ["first_score", "verifier"],
            "ann": ["verifier"],
        }
        await verified(rankd)


async def test_adjustments_need_no_verifier_and_a_board_may_lose_it() -> None:
    async with engine(None) as rankd:
        await rankd.define("b", WITH)
        await rankd.corrections.adjust("b", {"player": "ann", "score": 3, "reason": "a prize"})
        assert await scores(rankd) == {"ann": 3}
        held = await submit(rankd, "bob", 2)
        await rankd.redefine("b", {})
        await submit(rankd, "cyd", 1)
        assert await scores(rankd) == {"ann": 3, "cyd": 1}
        await rankd.corrections.decide_review(str(held.position), approved=True, actor="eve")
        assert await scores(rankd) == {"ann": 3, "bob": 2, "cyd": 1}
        await verified(rankd)


async def test_a_callable_answers_with_a_bool_or_with_a_reason() -> None:
    held = HeldSubmission("1", "b", "p", {"score": 1}, None, None, None, None, None, None)

    async def verify(function: VerifierFunction) -> Verification:
        return await CallableVerifier(function).verify(held)

    assert await verify(lambda _: True) == Verification(True)
    assert await verify(lambda _: (False, "no")) == Verification(False, "no")
    assert held.score == 1 and held._replace(columns=None, delta=2).score is None
    for wrong in (None, 1, "yes"):
        with pytest.raises(TypeError):
            await verify(lambda _, wrong=wrong: wrong)  # type: ignore[misc]

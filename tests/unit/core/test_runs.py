"""Runs: each counts once, in its time, for its player and board, on every node."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from tests.unit.core.doubles import (
    DAY,
    HOUR,
    FaultyLedger,
    SetClock,
    SharedLedger,
    bare,
    bare_in_moves,
    engine,
    kept_in,
    verified,
)

from rankd.adapters.memory.shared_index import MemorySharedIndex, SharedMemory
from rankd.core.assembly import running
from rankd.core.cluster.recovery import SharedHome
from rankd.core.engine import Engine
from rankd.core.recovery import Build
from rankd.core.runs import KEY_MICROSECONDS
from rankd.core.state import RUN_KEYS_MAX
from rankd.core.writer import WriteResult
from rankd.errors import (
    InvalidProfile,
    InvalidSubmission,
    RankdError,
    RunExpired,
    RunInvalid,
    RunRequired,
    RunTooEarly,
    RunUsed,
    UnknownBoard,
)
from rankd.model.facts import ScoreSubmitted
from rankd.model.runs import RUN_LATE_SECONDS, read_run_token

pytestmark = pytest.mark.anyio
Running = AbstractAsyncContextManager[Engine]
SECOND = 1_000_000
TIMED = {"runs": {"seconds_min": 10, "seconds_max": 60}, "rule": "sum"}


async def submit(rankd: Engine, player: str = "ann", score: int = 5, **more: Any) -> WriteResult:
    (answer,) = await rankd.submit("b", [{"player": player, "score": score, **more}])
    return answer


def error_of(rankd: Engine, answer: WriteResult) -> RankdError | None:
    assert answer.receipt is not None
    return rankd.rejection(answer.receipt) if answer.receipt.rejected else None


async def totals(rankd: Engine) -> dict[str, Any]:
    page = await rankd.reader.page("b")
    return {one.player: one.scores[0] for one in page.standings}


@pytest.mark.parametrize("build", [bare, bare_in_moves], ids=["in place", "in moves"])
async def test_a_run_counts_once(build: Build) -> None:
    async with engine(FaultyLedger(), build=build) as rankd:
        await rankd.define("b", {"rule": "sum"})
        run = (await rankd.runs.start("b", "ann")).run
        assert error_of(rankd, await submit(rankd, run=run)) is None
        assert type(error_of(rankd, await submit(rankd, run=run))) is RunUsed
        assert type(error_of(rankd, await submit(rankd, score=9, run=run, key="k"))) is RunUsed
        assert await totals(rankd) == {"ann": 5}
        await rankd.redefine("b", {"rule": "latest"})
        assert await totals(rankd) == {"ann": 5}, "a refusal is final"
        await verified(rankd)


async def test_one_of_many_in_a_commit_uses_the_run() -> None:
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {"rule": "sum"})
        run = (await rankd.runs.start("b", "ann")).run
        items = [{"player": "ann", "score": 2**n, "run": run} for n in range(8)]
        plain = [{"player": "ann", "score": 1_000}] * 3
        answers = await rankd.submit("b", [*plain, *items, *plain])
        refused = [error_of(rankd, answer) is not None for answer in answers]
        assert refused == [False] * 4 + [True] * 7 + [False] * 3
        assert await totals(rankd) == {"ann": 6_001}
        await verified(rankd)


async def test_a_run_is_of_one_player_and_one_board() -> None:
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {})
        await rankd.define("c", {})
        run = (await rankd.runs.start("b", "ann")).run
        elsewhere = (await rankd.runs.start("c", "ann")).run
        before = rankd.position
        for player, wrong in (("bob", run), ("ann", elsewhere)):
            with pytest.raises(RunInvalid):
                await submit(rankd, player, run=wrong)
        with pytest.raises(InvalidSubmission):
            await submit(rankd, run="bogus")
        (refusal,) = await rankd.submit_each([("c", {"player": "ann", "score": 1, "run": run})])
        assert isinstance(refusal, RunInvalid)
        assert rankd.position == before, "nothing of it is recorded"
        assert error_of(rankd, await submit(rankd, run=run)) is None


async def test_a_run_has_its_time() -> None:
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        await rankd.define("b", TIMED)
        started = await rankd.runs.start("b", "ann")
        assert started.not_before - clock.time == 10 * SECOND
        assert started.expires_at - clock.time == 60 * SECOND
        with pytest.raises(RunTooEarly):
            await submit(rankd, run=started.run)
        clock.time = started.not_before
        assert error_of(rankd, await submit(rankd, run=started.run, key="k")) is None
        late = await rankd.runs.start("b", "ann")
        clock.time = late.expires_at
        with pytest.raises(RunExpired):
            await submit(rankd, run=late.run)
        with pytest.raises(RunExpired):
            await submit(rankd, run=late.run, key="another")
        again = await submit(rankd, run=started.run, key="k")
        assert again.duplicate and error_of(rankd, again) is None, "a retry has its first answer"
        other = await submit(rankd, score=6, run=started.run, key="k")
        assert other.error is not None and other.error.code == "key_reused"
        await verified(rankd)


async def test_a_repetition_needs_no_run_that_it_had_none_of() -> None:
    """Else a retry is told that nothing was done, when the first try counts."""
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {})
        first = await submit(rankd, key="k")
        await rankd.redefine("b", {"runs": {"required": True}})
        again = await submit(rankd, key="k")
        assert (again.position, again.duplicate) == (first.position, True)
        with pytest.raises(RunRequired):
            await submit(rankd, key="other")


async def test_a_board_may_require_runs() -> None:
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {"runs": {"required": True}})
        with pytest.raises(RunRequired):
            await submit(rankd)
        with pytest.raises(RunRequired):
            await rankd.submit("b", [("ann", 5)])
        (refusal,) = await rankd.submit_each([("b", {"player": "ann", "score": 1})])
        assert isinstance(refusal, RunRequired)
        run = (await rankd.runs.start("b", "ann")).run
        assert error_of(rankd, await submit(rankd, run=run)) is None


async def test_what_cannot_play_starts_no_run() -> None:
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {})
        with pytest.raises(UnknownBoard):
            await rankd.runs.start("c", "ann")
        with pytest.raises(InvalidProfile):
            await rankd.runs.start("b", "")


async def test_starting_runs_records_one_key_and_no_more() -> None:
    clock, ledger = SetClock(), FaultyLedger()
    async with engine(ledger, clock) as rankd:
        await rankd.define("b", {"runs": {"seconds_max": 86_400}})
        before = rankd.position
        runs = [(await rankd.runs.start("b", f"p{n}")).run for n in range(20)]
        assert len(set(runs)) == 20
        assert rankd.position == before + 1
        clock.time += KEY_MICROSECONDS - HOUR
        last = (await rankd.runs.start("b", "ann")).run
        clock.time += 2 * HOUR
        await rankd.runs.start("b", "bob")
        assert len(rankd.state.signing_keys) == 2
        assert error_of(rankd, await submit(rankd, run=last)) is None, "of the former key"
        for _ in range(RUN_KEYS_MAX):
            clock.time += KEY_MICROSECONDS
            await rankd.runs.start("b", "bob")
        assert len(rankd.state.signing_keys) == RUN_KEYS_MAX
        await verified(rankd)


async def test_a_revoked_key_ends_its_runs() -> None:
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {})
        run = (await rankd.runs.start("b", "ann")).run
        token = read_run_token(run)
        assert token is not None
        await rankd.revoke_key(token.key)
        with pytest.raises(RunInvalid):
            await submit(rankd, run=run)
        another = (await rankd.runs.start("b", "ann")).run
        assert error_of(rankd, await submit(rankd, run=another)) is None


@pytest.mark.parametrize("saved", [True, False], ids=["from a snapshot", "from the ledger"])
async def test_a_used_run_stays_used_after_a_restart(tmp_path: Path, saved: bool) -> None:
    ledger = FaultyLedger()
    async with engine(ledger, build=kept_in(tmp_path)) as rankd:
        await rankd.define("b", {"rule": "sum"})
        used = (await rankd.runs.start("b", "ann")).run
        unused = (await rankd.runs.start("b", "ann")).run
        await submit(rankd, run=used)
        if saved:
            await rankd.save()
    async with engine(ledger.anew(), build=kept_in(tmp_path)) as rankd:
        assert type(error_of(rankd, await submit(rankd, run=used))) is RunUsed
        assert error_of(rankd, await submit(rankd, run=unused)) is None
        assert await totals(rankd) == {"ann": 10}
        await verified(rankd)


def with_its_own_index(ledger: SharedLedger, _memory: SharedMemory) -> Running:
    return engine(ledger)


def over_a_shared_index(ledger: SharedLedger, memory: SharedMemory) -> Running:
    home = SharedHome(MemorySharedIndex(memory))
    return running(ledger=ledger, build=bare, clock=SetClock(), reading=nullcontext(), shared=home)


@pytest.mark.parametrize("node", [with_its_own_index, over_a_shared_index])
async def test_a_run_that_races_on_two_nodes_counts_once(
    node: Callable[[SharedLedger, SharedMemory], Running],
) -> None:
    ledger, memory = SharedLedger(), SharedMemory()
    async with node(ledger, memory) as one, node(ledger, memory) as other:
        await one.define("b", {"rule": "sum"})
        for turn in range(10):
            run = (await one.runs.start("b", "ann")).run
            answers = await asyncio.gather(
                *(submit(node, run=run, score=1) for node in (one, other, one, other))
            )
            refused = [answer.receipt is not None and answer.receipt.rejected for answer in answers]
            assert refused.count(False) == 1, turn
        assert await totals(one) == await totals(other) == {"ann": 10}
        await verified(one)
        await verified(other)


async def test_a_node_checks_the_runs_of_another_at_once() -> None:
    ledger = SharedLedger()
    async with engine(ledger) as one, engine(ledger) as other:
        await one.define("b", {})
        run = (await one.runs.start("b", "ann")).run
        assert error_of(other, await submit(other, run=run)) is None


def recorded(run: str, **more: Any) -> ScoreSubmitted:
    token = read_run_token(run)
    assert token is not None
    return ScoreSubmitted("b", "ann", (1,), run=token.run.text, **more)


async def test_used_runs_are_forgotten_when_no_submission_can_have_them_any_more() -> None:
    clock, ledger = SetClock(), SharedLedger()
    async with engine(ledger, clock) as rankd:
        await rankd.define("b", {"rule": "sum"})
        runs = []
        for _ in range(48):
            runs.append((await rankd.runs.start("b", "ann")).run)
            await submit(rankd, run=runs[-1], score=1)
            clock.time += HOUR // 2
            assert len(rankd.state.used_runs) <= 8
        for run in runs:  # As a node might append them whose queue was long.
            await ledger.append([recorded(run)], now=clock.time)
        await rankd.submit("b", [("bob", 1)])
        assert await totals(rankd) == {"ann": 48, "bob": 1}
        await verified(rankd)


async def test_a_submission_that_waited_is_recorded_for_an_hour_after_its_run() -> None:
    clock, ledger = SetClock(), SharedLedger()
    async with engine(ledger, clock) as rankd:
        await rankd.define("b", {"rule": "sum", **TIMED})
        soon, late = [(await rankd.runs.start("b", "ann")) for _ in range(2)]
        at = soon.expires_at + RUN_LATE_SECONDS * SECOND - 1
        await ledger.append([recorded(soon.run)], now=at)
        await ledger.append([recorded(late.run)], now=at + HOUR + 1)
        clock.time = at + DAY
        await rankd.submit("b", [("bob", 1)])
        assert await totals(rankd) == {"ann": 1, "bob": 1}


async def test_a_wrong_time_brings_no_used_run_back() -> None:
    """It makes used runs forgotten; after it is corrected they are refused as expired."""
    clock, ledger = SetClock(), FaultyLedger()
    async with engine(ledger, clock) as rankd:
        await rankd.define("b", {"rule": "sum"})
        run = (await rankd.runs.start("b", "ann")).run
        await submit(rankd, run=run)
        right = clock.time
        clock.time += 3 * DAY
        later = (await rankd.runs.start("b", "bob")).run
        await submit(rankd, "bob", run=later)
        clock.time = right + SECOND
        await rankd.correct_time(reason="the clock was wrong")
        again = await submit(rankd, run=run)
        assert type(error_of(rankd, again)) is RunExpired
        fresh = (await rankd.runs.start("b", "ann")).run
        assert error_of(rankd, await submit(rankd, run=fresh)) is None
        assert type(error_of(rankd, await submit(rankd, run=fresh))) is RunUsed
        assert await totals(rankd) == {"ann": 10, "bob": 5}
        await verified(rankd)

"""Rankd: what belongs together is done together, and to its end, whoever goes away meanwhile."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.unit.core.doubles import (
    DAY,
    FaultyLedger,
    SetClock,
    digest_of,
    engine,
    facts_of,
    kept_in,
    state_of,
    verified,
)

from rankd.adapters.memory.index import NativeIndex
from rankd.core.engine import Engine
from rankd.core.writer import WriteResult
from rankd.errors import (
    BoardDiffers,
    IndexDiffers,
    InvalidBoard,
    InvalidSubmission,
    LedgerUnavailable,
    SubmissionKeyReused,
    UnknownBoard,
)
from rankd.model.facts import BoardDefined, ScoreSubmitted

pytestmark = pytest.mark.anyio
BOARD: dict[str, Any] = {"rule": "sum", "windows": ["all", "daily"]}
BEST: dict[str, Any] = {**BOARD, "rule": "best"}


async def submit(rankd: Engine, player: str, score: object, key: str | None = None) -> WriteResult:
    (answer,) = await rankd.submit("b", [{"player": player, "score": score, "key": key}])
    return answer


async def definitions(ledger: FaultyLedger) -> list[str]:
    return [
        one.fact.definition["rule"]
        for one in await facts_of(ledger)
        if isinstance(one.fact, BoardDefined)
    ]


async def many_turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


# ------------------------------------------------------------------------------- boards


async def test_a_board_is_defined_once_however_many_ask() -> None:
    ledger = FaultyLedger()
    async with engine(ledger) as rankd:
        boards = await asyncio.gather(*[rankd.define("b", BOARD) for _ in range(5)])
        assert all(board is boards[0] for board in boards)
        with pytest.raises(BoardDiffers):
            await rankd.define("b", BEST)
        assert await definitions(ledger) == ["sum"]


async def test_of_two_different_definitions_at_once_one_is_refused() -> None:
    ledger = FaultyLedger()
    async with engine(ledger) as rankd:
        told = await asyncio.gather(
            rankd.define("b", BOARD), rankd.define("b", BEST), return_exceptions=True
        )
        assert [isinstance(one, BoardDiffers) for one in told] == [False, True]
        assert await definitions(ledger) == ["sum"]


async def test_a_board_is_expected_as_it_is_defined_and_nothing_is_recorded() -> None:
    ledger = FaultyLedger()
    async with engine(ledger) as rankd:
        for definition in ({}, BOARD, {"rule": "none"}):
            with pytest.raises(UnknownBoard):
                rankd.expect("b", definition)
        board = await rankd.define("b", BOARD)
        assert rankd.expect("b", {}) is rankd.expect("b", BOARD) is board
        with pytest.raises(BoardDiffers) as refusal:
            rankd.expect("b", BEST)
        assert refusal.value.fields == ("rule",)
        with pytest.raises(InvalidBoard):
            rankd.expect("b", {"rule": "none"})
        assert await definitions(ledger) == ["sum"]


@pytest.mark.parametrize("leaves_at", ["the turns", "the definition"])
async def test_a_redefinition_is_done_to_its_end_though_who_asked_goes_away(
    leaves_at: str,
) -> None:
    ledger, clock = FaultyLedger(), SetClock()
    async with engine(ledger, clock) as rankd:
        await rankd.define("b", BOARD)
        await submit(rankd, "p", 1, "k")
        await submit(rankd, "p", 2)
        if leaves_at == "the turns":
            clock.time += DAY
        before = ledger.begun
        ledger.hold()
        redefining = asyncio.create_task(rankd.redefine("b", BEST))
        await ledger.asked(before + 1)
        redefining.cancel()
        await asyncio.gather(redefining, return_exceptions=True)
        waiting = asyncio.create_task(submit(rankd, "p", 3))
        await many_turns()
        ledger.release()
        await waiting
        assert rankd.state.page("b").board.rule == "best"
        assert not rankd.projector.drafts
        standing = await rankd.reader.standing("b", "p", window="all")
        assert standing is not None
        assert standing.scores == (3,)
        await verified(rankd)
        digest_of(rankd.projector.index)


async def test_closing_waits_for_a_redefinition_under_way() -> None:
    ledger = FaultyLedger()
    async with engine(ledger) as rankd:
        await rankd.define("b", BOARD)
        await submit(rankd, "p", 1)
        before = ledger.begun
        ledger.hold()
        redefining = asyncio.create_task(rankd.redefine("b", BEST))
        await ledger.asked(before + 1)
        asyncio.get_running_loop().call_soon(ledger.release)
    assert [change.field for change in (await redefining).changes] == ["rule"]
    assert await definitions(ledger) == ["sum", "best"]


async def test_closing_waits_for_a_redefinition_that_waits_for_its_turn() -> None:
    ledger = FaultyLedger()
    async with engine(ledger) as rankd:
        await rankd.define("b", BOARD)
        before = ledger.begun
        ledger.hold()
        submitting = asyncio.create_task(submit(rankd, "p", 1))
        await ledger.asked(before + 1)
        redefining = asyncio.create_task(rankd.redefine("b", BEST))
        await many_turns()
        asyncio.get_running_loop().call_soon(ledger.release)
    assert (await submitting).receipt is not None
    assert [change.field for change in (await redefining).changes] == ["rule"]


async def test_a_redefinition_that_is_not_recorded_leaves_the_board_as_it_is() -> None:
    ledger = FaultyLedger()
    async with engine(ledger) as rankd:
        await rankd.define("b", BOARD)
        await submit(rankd, "p", 1)
        await submit(rankd, "p", 2)
        living = state_of(rankd.projector)
        ledger.fail(applied="no")
        with pytest.raises(LedgerUnavailable) as refusal:
            await rankd.redefine("b", BEST)
        assert refusal.value.applied == "no"
        assert state_of(rankd.projector) == living  # No draft is left either.
        assert not rankd.projector.drafts


async def test_everything_at_once_comes_to_what_the_ledger_says(tmp_path: Path) -> None:
    ledger, clock = FaultyLedger(), SetClock()
    async with engine(ledger, clock, kept_in(tmp_path)) as rankd:
        await rankd.define("b", BOARD)
        for number in range(12):
            clock.time += DAY // 5
            definition = (BOARD, BEST, {**BEST, "segments": ["region"]})[number % 3]
            bodies = [
                {"player": f"p{n}", "score": n, "key": f"{number}/{n}"} for n in range(number)
            ]
            await asyncio.gather(
                rankd.redefine("b", definition),
                rankd.submit("b", bodies),
                rankd.save(),
                rankd.profile("p1", {"attributes": {"region": f"r{number % 2}"}}),
                rankd.preview("b", BEST),
                rankd.sealer.turn(),
                verified(rankd),
                rankd.submit("b", bodies),
            )
        await verified(rankd)
        living = state_of(rankd.projector)
    for build in (kept_in(tmp_path), kept_in(tmp_path / "none")):
        async with engine(ledger.anew(), clock, build) as rankd:
            assert state_of(rankd.projector) == living


async def test_a_board_that_is_retired_while_it_is_previewed_is_found_or_not() -> None:
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", BOARD)
        await submit(rankd, "p", 1)
        await asyncio.gather(rankd.preview("b", BEST), rankd.retire("b"))
        with pytest.raises(UnknownBoard):
            await rankd.preview("b", BEST)
        with pytest.raises(UnknownBoard):
            await rankd.retire("b")
        digest_of(rankd.projector.index)


async def test_a_prize_board_takes_no_scores_of_clients() -> None:
    async with engine(FaultyLedger()) as rankd:
        with pytest.raises(InvalidBoard, match="prize board"):
            await rankd.define("b", {**BOARD, "prize": True, "writes": "client"})
        await rankd.define("b", {**BOARD, "prize": True})
        with pytest.raises(InvalidBoard, match="prize board"):
            await rankd.redefine("b", {**BOARD, "prize": True, "writes": "client"})


# -------------------------------------------------------------------------- submissions


async def test_one_malformed_submission_and_nothing_of_the_request_is_recorded() -> None:
    ledger = FaultyLedger()
    async with engine(ledger) as rankd:
        await rankd.define("b", BOARD)
        with pytest.raises(InvalidSubmission):
            await rankd.submit("b", [{"player": "p", "score": 1}, {"player": "", "score": 1}])
        assert await ledger.head() == 1


async def test_submissions_to_many_boards_are_each_told_for_themselves() -> None:
    ledger = FaultyLedger()
    async with engine(ledger) as rankd:
        await rankd.define("b", BOARD)
        await rankd.define("c", BOARD)
        told = await rankd.submit_each(
            [
                ("b", {"player": "p", "score": 1}),
                ("none", {"player": "p", "score": 1}),
                ("c", {"player": "", "score": 1}),
                ("c", {"player": "q", "score": 1}),
            ]
        )
        assert [type(one) for one in told] == [
            WriteResult,
            UnknownBoard,
            InvalidSubmission,
            WriteResult,
        ]
        submitted = [one for one in await facts_of(ledger) if isinstance(one.fact, ScoreSubmitted)]
        assert len(submitted) == 2


async def test_a_repeat_is_known_after_the_unit_of_scores_was_changed() -> None:
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {"rule": "sum", "windows": ["all"]})
        first = await submit(rankd, "p", 7, "k")
        await rankd.redefine("b", {"rule": "sum", "windows": ["all"], "decimals": 2})
        again = await submit(rankd, "p", 7, "k")
        assert (again.duplicate, again.error, again.receipt) == (True, None, first.receipt)
        (each,) = await rankd.submit_each([("b", {"player": "p", "score": 7, "key": "k"})])
        assert isinstance(each, WriteResult)
        assert each.receipt == first.receipt
        assert isinstance((await submit(rankd, "p", 8, "k")).error, SubmissionKeyReused)
        fresh = await submit(rankd, "p", "0.5", "l")
        assert fresh.receipt is not None
        assert fresh.receipt.first.scores == (750,)


# --------------------------------------------------------------------------------- care


async def test_verify_finds_an_index_that_says_something_else() -> None:
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", BOARD)
        for number in range(5):
            await submit(rankd, f"p{number}", number)
        await verified(rankd)
        index = rankd.projector.index
        assert isinstance(index, NativeIndex)
        entries = next(iter(index.state.rankings.values()))
        entries.metadata[2] = b"1"
        with pytest.raises(IndexDiffers):
            await verified(rankd)


async def test_verify_goes_on_beside_writes() -> None:
    ledger = FaultyLedger()
    async with engine(ledger) as rankd:
        await rankd.define("b", BOARD)
        async for _ in rankd.verify():
            await submit(rankd, "p", 1)
            if rankd.position % 3 == 0 and rankd.position < 20:
                await rankd.redefine("b", BEST if rankd.position % 2 else BOARD)
        await verified(rankd)


async def test_a_rebuilt_index_goes_on_where_the_old_one_was() -> None:
    ledger = FaultyLedger()
    async with engine(ledger) as rankd:
        await rankd.define("b", BOARD)
        await submit(rankd, "p", 1, "k")
        before = rankd.projector
        async for _ in rankd.rebuild():
            await submit(rankd, "q", 1)
        assert rankd.projector is rankd.reader.projector is rankd._writer.projector
        assert rankd.projector is not before
        assert (await submit(rankd, "p", 1, "k")).duplicate
        await submit(rankd, "p", 2)
        await verified(rankd)
        assert (await rankd.reader.page("b")).total == 2


async def test_submissions_that_wait_while_the_index_is_replaced_are_counted() -> None:
    ledger = FaultyLedger()
    async with engine(ledger) as rankd:
        await rankd.define("b", BOARD)

        async def rebuild() -> None:
            async for _ in rankd.rebuild():
                pass

        await asyncio.gather(*[submit(rankd, f"p{n}", n) for n in range(50)], rebuild(), rebuild())
        assert (await rankd.reader.page("b")).total == 50
        await verified(rankd)

"""The writer: whoever handed in is told once, in order, and what was true at its position."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from tests.unit.core.callers import BOARD, friends, intake_of, scores, submit, until_waiting
from tests.unit.core.doubles import DAY, FaultyLedger, SetClock, engine, facts_of

from rankd.core import writer as module
from rankd.core.engine import Engine
from rankd.core.writer import DefinitionChanged, WriteResult
from rankd.errors import LedgerUnavailable, Overloaded
from rankd.model.facts import BoardRetired, ScoreSubmitted

pytestmark = pytest.mark.anyio

# ------------------------------------------------------------------------------ handed in

SCORE = ScoreSubmitted("b", "p", (7,), None)


class Heard(list[Any]):
    """What was told of what was handed in, in the order it was told."""

    def __call__(self, told: Sequence[WriteResult] | Exception) -> None:
        self.append(told)


async def test_what_is_handed_in_is_told_once_and_in_the_order_it_came() -> None:
    ledger, heard = FaultyLedger(), Heard()
    writer = intake_of(ledger)
    writer.hand_in(friends(1), heard)
    put = asyncio.create_task(writer.put(friends(2)))
    await until_waiting(put)
    writer.hand_in([*friends(3), *friends(4)], heard)
    assert (heard, writer.waiting) == ([], 4)
    writer.close()
    await writer.run()
    assert [[one.position for one in answers] for answers in (*heard, await put)] == [
        [1],
        [3, 4],
        [2],
    ]
    assert writer.waiting == 0


async def test_handing_in_what_finds_no_room_raises_and_tells_nobody() -> None:
    ledger, heard = FaultyLedger(), Heard()
    writer = intake_of(ledger, waiting_max=2)
    writer.hand_in(friends(1), heard)
    with pytest.raises(Overloaded):
        writer.hand_in([*friends(2), *friends(3)], heard)
    writer.hand_in(friends(4), heard)
    writer.close()
    with pytest.raises(LedgerUnavailable) as refusal:
        writer.hand_in(friends(5), heard)
    assert refusal.value.applied == "no"
    await writer.run()
    assert [len(answers) for answers in heard] == [1, 1]
    assert await ledger.head() == 2


def _note(told: list[int], number: int, _answers: object) -> None:
    told.append(number)


async def test_so_many_are_told_in_a_turn_and_the_next_commit_does_not_wait() -> None:
    """Who only reads gets its turn between them, and the disk its next batch."""
    ledger = FaultyLedger()
    writer = intake_of(ledger, waiting_max=1000, batch_max=1000)
    told: list[int] = []
    count = 2 * module.TOLD_TOGETHER_MAX + 5
    for number in range(count):
        writer.hand_in(friends(number), partial(_note, told, number))
    serving = asyncio.create_task(writer.run())
    while not told:  # noqa: ASYNC110 - turns of the loop are what is counted
        await asyncio.sleep(0)
    assert told == list(range(module.TOLD_TOGETHER_MAX))
    ledger.hold()
    before = ledger.begun
    writer.hand_in(friends(count), partial(_note, told, count))
    await ledger.asked(before + 1)
    for _ in range(5):
        await asyncio.sleep(0)
    assert told == list(range(count)), "somebody waits for a commit that is not his own"
    ledger.release()
    writer.close()
    await serving
    assert told == [*range(count), count]


async def test_all_are_told_before_the_intake_ends() -> None:
    writer = intake_of(FaultyLedger(), waiting_max=1000, batch_max=1000)
    told: list[int] = []
    count = 3 * module.TOLD_TOGETHER_MAX
    for number in range(count):
        writer.hand_in(friends(number), partial(_note, told, number))
    writer.close()
    await writer.run()
    assert told == list(range(count))


async def test_who_handed_in_wakes_a_writer_that_sleeps() -> None:
    ledger, heard = FaultyLedger(), Heard()
    writer = intake_of(ledger)
    serving = asyncio.create_task(writer.run())
    await until_waiting(serving)
    writer.hand_in(friends(1), heard)
    await ledger.asked(1)
    await writer.put(friends(2))
    assert [answers[0].position for answers in heard] == [1]
    writer.close()
    await serving


@pytest.mark.parametrize(("applied", "done"), [("no", False), ("unknown", True)])
async def test_a_failed_append_is_told_to_who_handed_in(applied: Any, done: bool) -> None:
    ledger, heard = FaultyLedger(), Heard()
    async with engine(ledger) as rankd:
        await rankd.define("b", {})
        board = rankd.state.page("b").board
        ledger.hold()
        before = ledger.begun
        ledger.fail(applied=applied, done=done)
        rankd.submitter_of(board)([SCORE], heard)
        await ledger.asked(before + 1)
        rankd.submitter_of(board)([SCORE], heard)
        waiting = asyncio.create_task(submit(rankd, "p", 1))
        await until_waiting(waiting)
        ledger.release()
        with pytest.raises(LedgerUnavailable):
            await waiting
        assert [(type(one), one.applied) for one in heard] == [
            (LedgerUnavailable, applied),
            (LedgerUnavailable, "no"),
        ]
        with pytest.raises(LedgerUnavailable):
            rankd.submitter_of(board)([SCORE], heard)


@pytest.mark.parametrize("change", ["redefined", "retired", "defined anew"])
async def test_what_was_read_for_another_board_is_told_so_and_not_recorded(change: str) -> None:
    ledger, heard = FaultyLedger(), Heard()
    async with engine(ledger) as rankd:
        board = await rankd.define("b", {})
        await rankd.define("c", {})
        ledger.hold()
        before = ledger.begun
        if change == "redefined":
            changing = asyncio.create_task(rankd.redefine("b", {"decimals": 2}))
        else:
            changing = asyncio.create_task(rankd.retire("b"))  # type: ignore[arg-type]
        await ledger.asked(before + 1)
        rankd.submitter_of(board)([SCORE], heard)
        other = asyncio.create_task(rankd.submit_read([SCORE], [board]))
        unharmed = asyncio.create_task(rankd.submit("c", [("q", 1)]))
        await until_waiting(changing, other, unharmed)
        ledger.release()
        await changing
        with pytest.raises(DefinitionChanged):
            await other
        assert (await unharmed)[0].receipt is not None
        if change == "defined anew":
            await rankd.define("b", {})
            rankd.submitter_of(board)([SCORE], heard)  # Alike, and yet another one.
            await rankd.submit("c", [("q", 2)])
        assert set(map(type, heard)) == {DefinitionChanged}
        facts = [one.fact for one in await facts_of(ledger)]
        assert {fact.board for fact in facts if isinstance(fact, ScoreSubmitted)} == {"c"}


async def test_what_was_read_is_counted_as_what_is_submitted() -> None:
    answers: list[list[Any]] = []
    for way in ("submit", "read", "handed in"):
        heard = Heard()
        async with engine(FaultyLedger()) as rankd:
            board = await rankd.define("b", {"windows": ["all", "daily"]})
            for score, key in ((5, None), (9, "k"), (3, None), (9, "k"), (8, "k")):
                fact = ScoreSubmitted("b", "p", (score,), None, key)
                if way == "submit":
                    heard(await rankd.submit("b", [{"player": "p", "score": score, "key": key}]))
                elif way == "read":
                    heard(await rankd.submit_read([fact], [board]))
                else:
                    rankd.submitter_of(board)([fact], heard)
                    await rankd.set_friends("q", [])
            answers.append([_without_positions(told[0]) for told in heard])
    assert answers[0] == answers[1] == answers[2]
    assert [told[0] for told in answers[0]] == [False, False, False, True, False]


def _without_positions(answer: WriteResult) -> tuple[object, ...]:
    receipt = None if answer.receipt is None else answer.receipt
    windows = None if receipt is None else dict(receipt.windows)
    return answer.duplicate, windows, type(answer.error)


async def test_a_caller_that_cannot_be_told_ends_nobody_elses_turn() -> None:
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", BOARD)
        page = rankd.state.page("b")

        def broken(_told: object) -> None:
            raise RuntimeError("a mistake of the caller")

        rankd.submitter_of(page.board)([ScoreSubmitted("b", "ann", (1,))], broken)
        assert (await submit(rankd, "bob", 2)).receipt is not None
        assert await scores(rankd) == {"ann": 1, "bob": 2}


# ---------------------------------------------------------------- those who are told late


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nearly everybody be told late."""
    monkeypatch.setattr(module, "TOLD_TOGETHER_MAX", 2)


Late = list[tuple[int, Sequence[WriteResult] | Exception]]


def hand_in_many(rankd: Engine, numbers: range, heard: Late) -> None:
    page = rankd.state.page("b")

    def hear(number: int, told: Sequence[WriteResult] | Exception) -> None:
        heard.append((number, told))

    for number in numbers:
        fact = ScoreSubmitted("b", f"p{number:03}", (number,), key=f"k{number}")
        rankd.submitter_of(page.board)([fact], partial(hear, number))


async def first_told(heard: Late) -> None:
    while not heard:  # noqa: ASYNC110 - turns of the loop are what is counted
        await asyncio.sleep(0)
    assert len(heard) == module.TOLD_TOGETHER_MAX


async def all_told(heard: Late, count: int) -> None:
    for _ in range(10 * count):
        await asyncio.sleep(0)
    assert [number for number, _ in heard] == list(range(count))


def receipts_heard(heard: Late) -> list[Any]:
    answers = [told[0] for _, told in heard if isinstance(told, list)]
    assert all(answer.receipt is not None for answer in answers)
    return [answer.receipt for answer in answers]


@pytest.mark.usefixtures("few")
async def test_batches_behind_one_another_are_told_in_order_and_each_once() -> None:
    ledger, heard = FaultyLedger(), Late()
    async with engine(ledger) as rankd:
        await rankd.define("b", BOARD)
        start = rankd.position
        for batch in range(5):
            hand_in_many(rankd, range(6 * batch, 6 * batch + 6), heard)
            await ledger.asked(batch + 2)
        await all_told(heard, 30)
        told = receipts_heard(heard)
        assert [one.position for one in told] == list(range(start + 1, start + 31))
        assert [one.player for one in told] == [f"p{number:03}" for number in range(30)]
        assert [one.total for one in told] == list(range(1, 31))


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("done", [False, True])
async def test_a_ledger_that_fails_meanwhile_takes_back_nothing(done: bool) -> None:
    """Of the batch before it is known what became, and of its own it is not."""
    ledger, heard = FaultyLedger(), Late()
    async with engine(ledger) as rankd:
        await rankd.define("b", BOARD)
        hand_in_many(rankd, range(9), heard)
        await first_told(heard)
        ledger.fail(done=done)
        hand_in_many(rankd, range(9, 12), heard)
        await all_told(heard, 12)
        assert [one.rank for one in receipts_heard(heard)] == [1] * 9
        refused = [told for _, told in heard[9:]]
        assert [getattr(one, "applied", None) for one in refused] == ["unknown"] * 3


async def turn_the_day(rankd: Engine, clock: SetClock) -> None:
    clock.time += DAY
    await rankd.sealer.turn()


async def redefine(rankd: Engine, _: SetClock) -> None:
    await rankd.redefine("b", {"direction": "lower", "decimals": 2})


async def retire(rankd: Engine, _: SetClock) -> None:
    await rankd.retire("b")


async def submit_more(rankd: Engine, _: SetClock) -> None:
    await rankd.submit("b", [("q", 1000), ("p199", 2000)])


LATER = {"turned": turn_the_day, "redefined": redefine, "retired": retire, "more": submit_more}


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("change", LATER)
async def test_whoever_is_told_late_is_told_what_was_true_at_its_position(change: str) -> None:
    clock, ledger, heard = SetClock(), FaultyLedger(), Late()
    async with engine(ledger, clock) as rankd:
        await rankd.define("b", {"rule": "best", "windows": ["all", "daily"]})
        hand_in_many(rankd, range(200), heard)
        await first_told(heard)
        head = rankd.position
        changing = asyncio.create_task(LATER[change](rankd, clock))
        while rankd.position == head:  # noqa: ASYNC110 - turns of the loop are what is counted
            await asyncio.sleep(0)
        assert len(heard) < 200, "nobody was told late"
        await changing
        await all_told(heard, 200)
        for number, receipt in enumerate(receipts_heard(heard)):
            daily = receipt.windows["daily"]
            assert (daily.window, daily.rank, daily.total) == ("daily:2026-11-14", 1, number + 1)
            assert (receipt.score, receipt.previous_rank) == (number, None)


@pytest.mark.usefixtures("few")
async def test_who_was_overtaken_is_told_behind_those_before() -> None:
    ledger, heard = FaultyLedger(), Late()
    async with engine(ledger) as rankd:
        await rankd.define("b", BOARD)
        ledger.hold()
        before = ledger.begun
        retiring = asyncio.create_task(rankd.retire("b"))
        await ledger.asked(before + 1)
        hand_in_many(rankd, range(9), heard)
        ledger.release()
        await retiring
        await all_told(heard, 9)
        assert [type(told) for _, told in heard] == [DefinitionChanged] * 9
        assert (await facts_of(ledger))[-1].fact == BoardRetired("b", None, None)


@pytest.mark.usefixtures("few")
async def test_whoever_repeats_before_the_first_was_told_gets_the_same_receipt() -> None:
    ledger, heard = FaultyLedger(), Late()
    async with engine(ledger) as rankd:
        await rankd.define("b", BOARD)
        hand_in_many(rankd, range(9), heard)
        await first_told(heard)
        again = Late()
        hand_in_many(rankd, range(9), again)
        await all_told(heard, 9)
        await all_told(again, 9)
        assert receipts_heard(again) == receipts_heard(heard)
        assert all(one.duplicate for one in receipts_heard(again))
        assert not any(one.duplicate for one in receipts_heard(heard))


@pytest.mark.usefixtures("few")
async def test_whoever_goes_away_untold_leaves_the_others_their_answers() -> None:
    ledger = FaultyLedger()
    async with engine(ledger) as rankd:
        await rankd.define("b", BOARD)
        tasks = [asyncio.create_task(submit(rankd, f"p{n}", n, f"k{n}")) for n in range(9)]
        while not tasks[0].done():  # noqa: ASYNC110 - turns of the loop are what is counted
            await asyncio.sleep(0)
        assert not tasks[5].done()
        tasks[5].cancel()
        told = await asyncio.gather(*tasks, return_exceptions=True)
        assert [isinstance(one, WriteResult) for one in told] == [n != 5 for n in range(9)]
        assert (await submit(rankd, "p5", 5, "k5")).duplicate


@pytest.mark.usefixtures("few")
async def test_closing_tells_everybody_also_of_the_last_commit() -> None:
    ledger, heard = FaultyLedger(), Late()
    async with engine(ledger) as rankd:
        await rankd.define("b", BOARD)
        hand_in_many(rankd, range(9), heard)
        await first_told(heard)
        hand_in_many(rankd, range(9, 18), heard)
    assert [number for number, _ in heard] == list(range(18))
    assert len(receipts_heard(heard)) == 18

"""The writer: one order for many callers, whatever comes between them."""

import asyncio

import pytest
from tests.unit.core.callers import (
    BOARD,
    friends,
    intake_of,
    refused,
    scores,
    submit,
    until_waiting,
)
from tests.unit.core.doubles import (
    DAY,
    HOUR,
    NOON,
    FaultyLedger,
    SetClock,
    engine,
    facts_of,
    state_of,
    verified,
)

from rankd.adapters.memory.index import PLAYERS_RELEASED_PER_APPLY, NativeIndex
from rankd.core.writer import DefinitionChanged, WriteResult
from rankd.errors import Overloaded, SubmissionKeyReused, UnknownBoard
from rankd.model.facts import ScoreSubmitted, WindowOpened, WindowSealed
from rankd.model.receipt import Receipt
from rankd.model.standing import Rank

pytestmark = pytest.mark.anyio

# -------------------------------------------------------------------------------- resting


@pytest.mark.parametrize("way", ["retired", "redefined"])
async def test_what_a_dropped_board_held_is_freed_though_nothing_is_written(way: str) -> None:
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {"rule": "best", "windows": ["all"]})
        index = rankd.reader.projector.index
        assert isinstance(index, NativeIndex)
        count = 2 * PLAYERS_RELEASED_PER_APPLY + 1
        await rankd.submit("b", [{"player": f"p{n}", "score": n} for n in range(count)])
        if way == "retired":
            await rankd.retire("b")
        else:
            await rankd.redefine("b", {"rule": "latest", "windows": ["all"]})
        for _ in range(20):  # Far more turns than it takes.
            await asyncio.sleep(0)
        assert not index._leaving
        assert len(index.state.players) == (0 if way == "retired" else count)
        index.check()


# -------------------------------------------------------------------------------- batches


async def test_what_gathers_behind_a_commit_shares_the_next() -> None:
    ledger = FaultyLedger()
    async with engine(ledger) as rankd:
        await rankd.define("b", BOARD)
        before = ledger.begun
        ledger.hold()
        first = asyncio.create_task(submit(rankd, "p", 1))
        await ledger.asked(before + 1)
        others = [asyncio.create_task(submit(rankd, "p", 1)) for _ in range(20)]
        await until_waiting(first, *others)
        ledger.release()
        await asyncio.gather(first, *others)
        assert ledger.begun == before + 2
        assert [answer.result().position for answer in others] == list(range(3, 23))
        assert await scores(rankd) == {"p": 21}


async def test_a_batch_is_bounded_and_no_request_is_parted() -> None:
    ledger = FaultyLedger()
    writer = intake_of(ledger, batch_max=3)
    puts = [
        asyncio.create_task(writer.put([*friends(n), *friends(n)] if n % 2 else friends(n)))
        for n in range(5)
    ]
    big = asyncio.create_task(writer.put([fact for n in range(7) for fact in friends(n)]))
    await until_waiting(*puts, big)
    writer.close()
    await writer.run()
    assert [len(batch) for batch in ledger.batches] == [3, 3, 1, 7]
    told = await asyncio.gather(*puts, big)
    positions = [answer.position for answers in told for answer in answers]
    assert positions == list(range(1, 15))


async def test_more_than_may_wait_is_refused_and_nothing_of_it_is_done() -> None:
    ledger = FaultyLedger()
    writer = intake_of(ledger, waiting_max=3)
    waiting = [asyncio.create_task(writer.put(friends(n))) for n in range(3)]
    await until_waiting(*waiting)
    with pytest.raises(Overloaded):
        await writer.put(friends(9))
    writer.close()
    await writer.run()
    assert await ledger.head() == 3
    assert [len(answers) for answers in await asyncio.gather(*waiting)] == [1, 1, 1]


async def test_room_is_given_back_when_what_waited_was_taken() -> None:
    ledger = FaultyLedger()
    writer = intake_of(ledger, waiting_max=2)
    serving = asyncio.create_task(writer.run())
    for number in range(10):
        await asyncio.gather(writer.put(friends(number)), writer.put(friends(number)))
    writer.close()
    await serving
    assert await ledger.head() == 20


async def test_requests_of_no_facts_are_answered() -> None:
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", BOARD)
        assert await rankd.submit("b", []) == []
        assert await rankd.submit_each([]) == []


# --------------------------------------------------------------------- callers that leave


@pytest.mark.parametrize("under_way", [False, True])
async def test_a_caller_that_goes_away_takes_nothing_with_it(under_way: bool) -> None:
    ledger = FaultyLedger()
    async with engine(ledger) as rankd:
        await rankd.define("b", BOARD)
        before = ledger.begun
        ledger.hold()
        first = asyncio.create_task(submit(rankd, "first", 1, "k1"))
        await ledger.asked(before + 1)
        second = asyncio.create_task(submit(rankd, "second", 2, "k2"))
        third = asyncio.create_task(submit(rankd, "third", 3))
        await until_waiting(first, second, third)
        leaving = first if under_way else second
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        assert leaving.cancelled()
        ledger.release()
        await third
        assert await scores(rankd) == {"first": 1, "second": 2, "third": 3}
        again = (
            await submit(rankd, "first", 1, "k1")
            if under_way
            else await submit(rankd, "second", 2, "k2")
        )
        assert again.duplicate
        assert again.receipt is not None
        assert again.receipt.rank == Rank(1)
        await verified(rankd)


async def test_everybody_leaving_stops_nothing() -> None:
    ledger = FaultyLedger()
    async with engine(ledger) as rankd:
        await rankd.define("b", BOARD)
        before = ledger.begun
        ledger.hold()
        leaving = [asyncio.create_task(submit(rankd, f"p{n}", n)) for n in range(5)]
        await ledger.asked(before + 1)
        for task in leaving:
            task.cancel()
        await asyncio.gather(*leaving, return_exceptions=True)
        ledger.release()
        await submit(rankd, "last", 9)
        assert await scores(rankd) == {"last": 9, **{f"p{n}": n for n in range(5)}}


# ----------------------------------------------------------------------------------- keys


async def test_one_key_counts_once_within_a_batch_across_batches_and_lives() -> None:
    ledger = FaultyLedger()
    async with engine(ledger) as rankd:
        await rankd.define("b", BOARD)
        item = {"player": "p", "score": 5, "key": "k"}
        first, again = await rankd.submit("b", [item, item])
        assert (first.duplicate, again.duplicate) == (False, True)
        assert first.receipt == again.receipt
        assert first.receipt is not None
        assert again.receipt is not None
        assert (first.receipt.duplicate, again.receipt.duplicate) == (False, True)
        for _ in range(3):  # Owed, handed in with this append, kept.
            (later,) = await rankd.submit("b", [item])
            assert (later.position, later.receipt) == (first.position, first.receipt)
    for _ in range(2):
        async with engine(ledger.anew()) as rankd:
            (later,) = await rankd.submit("b", [item])
            assert (later.duplicate, later.receipt) == (True, first.receipt)
            assert await scores(rankd) == {"p": 5}


async def test_a_key_used_for_something_else_is_refused_and_the_rest_counts() -> None:
    ledger = FaultyLedger()
    async with engine(ledger) as rankd:
        await rankd.define("b", BOARD)
        await submit(rankd, "p", 5, "k")
        other, fresh = await rankd.submit(
            "b", [{"player": "p", "score": 6, "key": "k"}, {"player": "q", "score": 1, "key": "l"}]
        )
        assert isinstance(other.error, SubmissionKeyReused)
        assert (fresh.error, fresh.duplicate) == (None, False)
        assert await scores(rankd) == {"p": 5, "q": 1}


async def test_a_retry_may_say_another_time_or_none() -> None:
    """It is data that decides nothing, and many a client stamps each try anew."""
    ledger = FaultyLedger()
    item = {"player": "p", "score": 5, "key": "k", "at": "2026-11-14T09:30:00Z"}
    async with engine(ledger) as rankd:
        await rankd.define("b", BOARD)
        (first,) = await rankd.submit("b", [item])
        for at in ("2026-11-14T09:30:01Z", None):
            (later,) = await rankd.submit("b", [{**item, "at": at}])
            assert (later.duplicate, later.error) == (True, None)
            assert later.position == first.position
        (other,) = await rankd.submit("b", [{**item, "score": 6}])
        assert isinstance(other.error, SubmissionKeyReused)


async def test_a_key_outlives_the_retirement_of_its_board() -> None:
    """Keys are remembered for the ledger's life: a late retry must not count on a new board."""
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", BOARD)
        first = await submit(rankd, "p", 5, "k")
        await rankd.retire("b")
        await rankd.define("b", BOARD)
        again = await submit(rankd, "p", 5, "k")
        assert (again.duplicate, again.receipt) == (True, first.receipt)
        assert await scores(rankd) == {}


async def test_receipts_are_handed_in_with_the_next_append() -> None:
    ledger = FaultyLedger()
    async with engine(ledger) as rankd:
        await rankd.define("b", BOARD)
        (one, two) = await rankd.submit("b", [{"player": "p", "score": 5, "key": k} for k in "kl"])
        assert await ledger.receipts_through() == 0
        await submit(rankd, "p", 5)
        assert await ledger.receipts_through() == two.position
        for key, answer in (("k", one), ("l", two)):
            kept = await ledger.first_use(board="b", key=key)
            assert kept is not None
            assert answer.receipt is not None
            assert kept.receipt is not None
            assert Receipt.decode(kept.receipt) == answer.receipt


# ------------------------------------------------------------------------------ overtaken


async def test_what_was_checked_against_another_definition_is_checked_again() -> None:
    ledger = FaultyLedger()
    async with engine(ledger) as rankd:
        await rankd.define("b", {"rule": "best", "windows": ["all"]})
        ledger.hold()
        before = ledger.begun
        redefining = asyncio.create_task(rankd.redefine("b", {"rule": "best", "decimals": 2}))
        await ledger.asked(before + 1)
        waiting = asyncio.create_task(submit(rankd, "p", 7))
        every = asyncio.create_task(rankd.submit_each([("b", {"player": "q", "score": 8})]))
        await until_waiting(redefining, waiting, every)
        ledger.release()
        await asyncio.gather(redefining, waiting, every)
        assert await scores(rankd) == {"p": 700, "q": 800}


async def test_what_waited_for_a_board_that_was_retired_is_refused() -> None:
    ledger = FaultyLedger()
    async with engine(ledger) as rankd:
        await rankd.define("b", BOARD)
        before = ledger.begun
        ledger.hold()
        retiring = asyncio.create_task(rankd.retire("b"))
        await ledger.asked(before + 1)
        waiting = asyncio.create_task(submit(rankd, "p", 7))
        await until_waiting(retiring, waiting)
        ledger.release()
        await retiring
        with pytest.raises(UnknownBoard):
            await waiting
        assert not [one for one in await facts_of(ledger) if isinstance(one.fact, ScoreSubmitted)]


async def test_what_shares_a_batch_with_the_retirement_counts_before_it_and_not_after() -> None:
    ledger = FaultyLedger()
    async with engine(ledger) as rankd:
        await rankd.define("b", BOARD)
        before = ledger.begun
        ledger.hold()
        first = asyncio.create_task(rankd.set_friends("p", ["ann"]))
        await ledger.asked(before + 1)
        earlier = asyncio.create_task(submit(rankd, "p", 1, "k"))
        await until_waiting(earlier)
        retiring = asyncio.create_task(rankd.retire("b"))
        await until_waiting(retiring)
        later = asyncio.create_task(submit(rankd, "p", 2, "l"))
        await until_waiting(first, earlier, retiring, later)
        ledger.release()
        await asyncio.gather(first, earlier, retiring, later)
        assert ledger.begun == before + 2
        assert earlier.result().receipt is not None
        assert (later.result().receipt, later.result().error) == (None, None)
        again = await facts_of(ledger)
        assert len([one for one in again if isinstance(one.fact, ScoreSubmitted)]) == 2
    async with engine(ledger.anew()) as rankd:
        await rankd.define("b", BOARD)
        assert await scores(rankd) == {}
        assert (await submit(rankd, "p", 2, "l")).duplicate


async def test_overtaken_names_boards_by_what_they_are_not_by_what_they_say() -> None:
    ledger = FaultyLedger()
    async with engine(ledger) as rankd:
        await rankd.define("b", BOARD)
        stale = rankd.state.page("b").board
        await rankd.retire("b")
        await rankd.define("b", BOARD)
        with pytest.raises(DefinitionChanged):
            await rankd._writer.put(friends(1), boards=(stale,))


# -------------------------------------------------------------------------------- windows


async def test_windows_turn_before_what_shares_their_commit() -> None:
    clock, ledger = SetClock(), FaultyLedger()
    async with engine(ledger, clock) as rankd:
        await rankd.define("b", {"rule": "sum", "windows": ["all", "daily"]})
        await submit(rankd, "p", 1)
        clock.time += DAY
        answer = await submit(rankd, "p", 2)
        kinds = [type(fact) for fact in ledger.batches[-1]]
        assert kinds == [WindowSealed, WindowOpened, ScoreSubmitted]
        assert answer.position == 5
        assert answer.receipt is not None
        told = answer.receipt.windows
        assert (told["all"].scores, told["daily"].scores) == ((3,), (2,))
        assert told["daily"].window == "daily:2026-11-15"
        await verified(rankd)


async def test_ledger_time_never_goes_back_for_windows_either() -> None:
    """A repeat is no fact, but the ledger has its time all the same."""
    clock, ledger = SetClock(), FaultyLedger()
    shift = {"name": "shift", "start": "2026-11-14T00:00:00Z", "every": "6h", "gap": "6h"}
    async with engine(ledger, clock) as rankd:
        await rankd.define("b", BOARD)
        await submit(rankd, "p", 1, "k")
        clock.time = NOON + 7 * HOUR
        assert (await submit(rankd, "p", 1, "k")).duplicate
        clock.time = NOON
        await rankd.define("gapped", {"rule": "sum", "windows": [shift]})
        (answer,) = await rankd.submit("gapped", [{"player": "p", "score": 3}])
        assert answer.receipt is not None
        await rankd.redefine("gapped", {"rule": "best", "windows": [shift]})
        await verified(rankd)
        opened = state_of(rankd.reader.projector)
    async with engine(ledger.anew(), clock) as rankd:
        assert state_of(rankd.reader.projector) == opened


# -------------------------------------------------------------------------------- closing


async def test_closing_serves_what_waits_and_takes_nothing_more() -> None:
    ledger = FaultyLedger()
    tasks: list[asyncio.Task[WriteResult]] = []
    async with engine(ledger) as rankd:
        await rankd.define("b", BOARD)
        before = ledger.begun
        ledger.hold()
        tasks = [asyncio.create_task(submit(rankd, "p", 1)) for _ in range(3)]
        await ledger.asked(before + 1)
        tasks += [asyncio.create_task(submit(rankd, "p", 1)) for _ in range(3)]
        await until_waiting(*tasks)
        asyncio.get_running_loop().call_soon(ledger.release)
    assert [(await task).receipt is not None for task in tasks] == [True] * 6
    await refused(rankd)
    async with engine(ledger.anew()) as rankd:
        assert await scores(rankd) == {"p": 6}


async def test_closing_while_windows_turn_serves_what_waits() -> None:
    """The sealer is told to stop while its facts are on their way to the disk."""
    clock, ledger = SetClock(), FaultyLedger()
    async with engine(ledger, clock) as rankd:
        await rankd.define("b", {"rule": "sum", "windows": ["all", "daily"]})
        before = ledger.begun
        ledger.hold()
        clock.time += DAY
        turning = asyncio.create_task(rankd.sealer.turn())
        await ledger.asked(before + 1)
        waiting = asyncio.create_task(submit(rankd, "p", 1))
        await until_waiting(turning, waiting)
        turning.cancel()
        await asyncio.gather(turning, return_exceptions=True)
        assert rankd.failure is None
        ledger.release()
        assert (await waiting).receipt is not None
        assert rankd.state.page("b").windows["daily"].window.id == "daily:2026-11-15"
        assert await scores(rankd) == {"p": 1}
        await verified(rankd)

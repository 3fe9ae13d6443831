"""The contracts of Ledger and of CopyTarget, a ledger that another one is copied into.

Subclass ``LedgerContract`` and provide ``ledger`` and ``reopen``.

Promises that need a crash to be seen (1, and the half of 6 that says ``unknown``) are proved by
the simulations; here a ledger is only closed and opened again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import count, pairwise, product

import pytest

from rankd.errors import LedgerNotCopied
from rankd.model.facts import (
    AttributesSet,
    BoardDefined,
    Fact,
    FriendsSet,
    NameSet,
    PlayerErased,
    PlayerProfiled,
    Position,
    Recorded,
    ScoreSubmitted,
    TimeCorrected,
    WindowDropped,
    WindowOpened,
    WindowSealed,
    WrongTime,
    encode,
)
from rankd.model.window import Instant
from rankd.ports import CopyTarget, FirstUse, Ledger, StoredReceipt
from rankd.testing.contracts.redaction import RedactionContract

NOW = Instant(1_763_000_000_000_000)

_numbers = count()


def submitted(player: str = "ann", *, key: str | None = None, board: str = "b") -> ScoreSubmitted:
    """Return a submission that differs from every other."""
    return ScoreSubmitted(board, player, scores=(next(_numbers),), key=key)


async def read_all(ledger: Ledger, *, limit: int = 100) -> list[Recorded]:
    """Return every fact, page by page."""
    found: list[Recorded] = []
    after = Position(0)
    while page := await ledger.read(after=after, limit=limit):
        assert len(page) <= limit
        found += page
        after = page[-1].position
    return found


async def facts_of(ledger: Ledger) -> list[Fact]:
    """Return every fact, without its place."""
    return [recorded.fact for recorded in await read_all(ledger)]


async def assert_facts_of_players(
    ledger: Ledger, players: Sequence[str], boards: Sequence[str | None]
) -> None:
    """Compare ``facts_of`` with a scan, page by page, newest and oldest first."""
    everything = await read_all(ledger, limit=5_000)
    head = everything[-1].position if everything else 0
    edges = sorted({0, 1, 2, head // 2, head - 1, head, head + 1, head + 99})
    for player, board in product(players, boards):
        about = [one for one in everything if one.fact.is_about(player, board)]
        assert await _paged(ledger, player, board, max(len(about) // 3, 1)) == about[::-1]
        for after, before in product(edges, (None, *edges)):
            between = [
                one
                for one in about
                if one.position > after and (before is None or one.position < before)
            ]
            bounds = (Position(max(after, 0)), None if before is None else Position(before))
            for newest_first in (True, False):
                page = await ledger.facts_of(
                    board=board,
                    player=player,
                    after=bounds[0],
                    before=bounds[1],
                    limit=7,
                    newest_first=newest_first,
                )
                assert list(page) == (between[::-1] if newest_first else between)[:7]


async def _paged(ledger: Ledger, player: str, board: str | None, limit: int) -> list[Recorded]:
    found: list[Recorded] = []
    before: Position | None = None
    while page := await ledger.facts_of(board=board, player=player, before=before, limit=limit):
        found += page
        before = page[-1].position
    return found


async def verify(ledger: Ledger) -> None:
    """Verify to the end."""
    async for progress in ledger.verify():
        assert 0 <= progress.done <= progress.total


@pytest.mark.anyio
class LedgerContract(RedactionContract):
    """The promises of ``rankd.ports.Ledger``, by their numbers."""

    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"

    @pytest.fixture
    def reopen(self) -> Callable[[], Awaitable[Ledger]] | None:
        """Close the ledger and open it anew; None where nothing is kept."""
        return None

    # -------------------------------------------------------------- (1) what is kept

    async def test_what_was_acknowledged_is_there_after_reopening(
        self, ledger: Ledger, reopen: Callable[[], Awaitable[Ledger]] | None
    ) -> None:
        if reopen is None:
            assert not ledger.durable
            return
        first = submitted(key="k")
        await ledger.append([first, submitted()], now=NOW)
        await ledger.append(
            [submitted()], now=Instant(NOW + 5), receipts=[StoredReceipt(Position(1), b"r")]
        )
        before = await read_all(ledger)

        ledger = await reopen()

        assert await read_all(ledger) == before
        assert await ledger.head() == before[-1].position
        use = FirstUse(Position(1), first.fingerprint(), b"r")
        assert await ledger.first_use(board="b", key="k") == use
        again = await ledger.append([submitted(key="k"), submitted()], now=NOW)
        assert again.first_uses == {0: use}
        assert again.positions[1] > before[-1].position
        assert again.at == NOW + 5
        await verify(ledger)

    # ---------------------------------------------------------- (2) order of positions

    async def test_an_empty_ledger_has_its_head_at_0(self, ledger: Ledger) -> None:
        assert await ledger.head() == 0
        assert list(await ledger.read(after=Position(0), limit=10)) == []
        await verify(ledger)

    async def test_a_reader_meets_every_fact_once_and_in_order(self, ledger: Ledger) -> None:
        facts = [submitted() for _ in range(5)]
        first = await ledger.append(facts[:3], now=NOW)
        second = await ledger.append(facts[3:], now=NOW)

        recorded = await read_all(ledger, limit=2)

        assert [found.fact for found in recorded] == facts
        assert [found.position for found in recorded] == [*first.positions, *second.positions]
        assert recorded[0].position == 1
        assert all(a.position < b.position for a, b in pairwise(recorded))
        assert recorded[-1].position == await ledger.head()

    async def test_pages_are_the_same_facts_for_any_limit(self, ledger: Ledger) -> None:
        for size in (1, 2, 3, 2_500, 4):
            await ledger.append([submitted() for _ in range(size)], now=NOW)
        whole = list(await ledger.read(after=Position(0), limit=10_000))
        assert len(whole) == 2_510
        for limit in (1_000, 999, 400, 2_510, 2_509):
            assert await read_all(ledger, limit=limit) == whole
        for after in (0, 1, 5, 6, 7, 1_005, 1_006, 1_007, 2_505, 2_506, 2_509, 2_510, 9_999):
            page = await ledger.read(after=Position(after), limit=3)
            assert list(page) == whole[after : after + 3]

    async def test_no_reader_is_overtaken_by_a_slow_writer(self, ledger: Ledger) -> None:
        """Twenty appenders, and a reader at their heels that never looks back."""
        appends = 15

        async def appender(number: int) -> list[Position]:
            positions: list[Position] = []
            for turn in range(appends):
                batch = [submitted(f"p{number}") for _ in range(turn % 3 + 1)]
                positions += (await ledger.append(batch, now=NOW)).positions
            return positions

        async def tail(wanted: int) -> list[Position]:
            seen: list[Position] = []
            while len(seen) < wanted:
                after = seen[-1] if seen else Position(0)
                seen += [found.position for found in await ledger.read(after=after, limit=7)]
                await asyncio.sleep(0)
            return seen

        async with asyncio.timeout(60):
            facts = 20 * sum(turn % 3 + 1 for turn in range(appends))
            seen, *given = await asyncio.gather(tail(facts), *map(appender, range(20)))

        assert sorted(position for positions in given for position in positions) == seen
        assert all(positions == sorted(positions) for positions in given)
        await verify(ledger)

    # ---------------------------------------------------- (3) whole, and (4) each key once

    async def test_an_append_without_facts_changes_nothing(self, ledger: Ledger) -> None:
        appended = await ledger.append([], now=NOW)
        assert (list(appended.positions), dict(appended.first_uses)) == ([], {})
        assert await ledger.head() == 0

    async def test_a_key_that_was_used_is_left_out_and_the_others_are_appended(
        self, ledger: Ledger
    ) -> None:
        first = submitted(key="k1")
        await ledger.append([submitted(), first], now=NOW)
        others = [submitted(), submitted(key="k1"), submitted(key="k2")]

        appended = await ledger.append(others, now=NOW)

        assert appended.first_uses == {1: FirstUse(Position(2), first.fingerprint(), None)}
        assert appended.positions[1] == 2
        facts = await facts_of(ledger)
        assert facts[1:] == [first, others[0], others[2]]
        assert await ledger.head() == appended.positions[2]

    async def test_facts_are_read_at_positions(self, ledger: Ledger) -> None:
        for number in range(1, 8):
            await ledger.append([submitted(player=f"p{n}") for n in range(number)], now=NOW)
        everything = await read_all(ledger)
        for some in (everything[:1], everything[2::5], everything[-3:], everything):
            assert list(await ledger.read_at([one.position for one in some])) == some

    async def test_of_two_facts_with_one_key_in_one_append_the_first_wins(
        self, ledger: Ledger
    ) -> None:
        a, b, c = submitted(key="k"), submitted(), submitted(key="k")
        appended = await ledger.append([a, b, c], now=NOW)
        assert appended.first_uses == {2: FirstUse(Position(1), a.fingerprint(), None)}
        assert appended.positions[2] == 1
        assert await facts_of(ledger) == [a, b]

    async def test_an_append_of_nothing_but_used_keys_adds_nothing(self, ledger: Ledger) -> None:
        fact = submitted(key="k")
        await ledger.append([fact], now=NOW)
        for _ in range(3):
            again = await ledger.append([fact, fact], now=NOW)
            assert list(again.positions) == [1, 1]
            assert sorted(again.first_uses) == [0, 1]
        assert await facts_of(ledger) == [fact]

    async def test_the_same_key_on_another_board_is_another_key(self, ledger: Ledger) -> None:
        facts = [submitted(key="k", board="one"), submitted(key="k", board="two")]
        appended = await ledger.append(facts, now=NOW)
        assert not appended.first_uses
        assert await facts_of(ledger) == facts
        found = await ledger.first_use(board="two", key="k")
        assert found is not None
        assert found.position == appended.positions[1]
        assert await ledger.first_use(board="three", key="k") is None

    async def test_boards_and_keys_that_run_together_are_told_apart(self, ledger: Ledger) -> None:
        names = [("a", "bc"), ("ab", "c"), ("a", "Bc"), ("a", "bc "), ("ä", "b"), ("a\u0308", "b")]
        for board, key in names:
            appended = await ledger.append([submitted(board=board, key=key)], now=NOW)
            assert not appended.first_uses, (board, key)
        assert await ledger.head() == len(names)

    async def test_a_window_opens_and_is_sealed_once(self, ledger: Ledger) -> None:
        opened = WindowOpened("b", "daily:2026-11-14", Instant(0), Instant(5))
        sealed = WindowSealed("b", "daily:2026-11-14")
        appended = await ledger.append([opened, sealed, opened], now=NOW)
        assert appended.first_uses == {2: FirstUse(Position(1), b"", None)}
        again = await ledger.append([WindowSealed("b", "daily:2026-11-14", "somebody")], now=NOW)
        assert again.first_uses == {0: FirstUse(Position(2), b"", None)}
        assert await facts_of(ledger) == [opened, sealed]

    async def test_a_window_of_a_board_that_began_anew_is_another(self, ledger: Ledger) -> None:
        facts: list[Fact] = [
            kind("b", "daily:2026-11-14", since=Position(since))
            for kind in (WindowOpened, WindowSealed, WindowDropped)
            for since in (1, 7)
        ]
        assert not (await ledger.append(facts, now=NOW)).first_uses
        again = await ledger.append(facts, now=NOW)
        assert list(again.positions) == [1, 2, 3, 4, 5, 6]
        assert await facts_of(ledger) == facts

    async def test_many_who_race_with_one_key_are_told_of_one_position(
        self, ledger: Ledger
    ) -> None:
        racers = [submitted(f"p{n}", key="prize") for n in range(25)]
        appends = await asyncio.gather(*(ledger.append([fact], now=NOW) for fact in racers))
        assert {appended.positions[0] for appended in appends} == {1}
        assert sum(not appended.first_uses for appended in appends) == 1
        assert len(await facts_of(ledger)) == 1

    async def test_an_append_that_cannot_be_written_leaves_nothing(self, ledger: Ledger) -> None:
        """A lone surrogate has no UTF-8; that it comes last must not save the facts before it."""
        with pytest.raises(UnicodeError):
            await ledger.append([submitted(key="k"), submitted("\ud800")], now=NOW)
        assert await ledger.head() == 0
        assert await ledger.first_use(board="b", key="k") is None
        assert not (await ledger.append([submitted(key="k")], now=NOW)).first_uses
        await verify(ledger)

    async def test_an_append_may_be_large(self, ledger: Ledger) -> None:
        facts = [submitted(key=f"k{n}" if n % 3 else None) for n in range(3_456)]
        repeats = [fact for fact in facts[::5] if fact.key]
        appended = await ledger.append([*facts, *repeats], now=NOW)
        assert len(appended.first_uses) == len(repeats)
        assert await facts_of(ledger) == facts
        await verify(ledger)

    # ------------------------------------------------------------- only behind the head

    async def test_an_append_behind_the_head_is_an_append(self, ledger: Ledger) -> None:
        first, second = submitted(key="a"), submitted()
        appended = await ledger.append([first], now=NOW, after=Position(0))
        assert appended is not None
        assert list(appended.positions) == [1]
        appended = await ledger.append([first, second], now=NOW, after=Position(1))
        assert appended is not None
        assert list(appended.positions) == [1, 2]
        assert sorted(appended.first_uses) == [0]
        assert await facts_of(ledger) == [first, second]

    async def test_an_append_that_is_not_behind_the_head_changes_nothing(
        self, ledger: Ledger
    ) -> None:
        await ledger.append([submitted(key="a"), submitted()], now=NOW)
        before = await read_all(ledger)
        for after in (0, 1, 3, 99):
            appended = await ledger.append(
                [submitted(key="b"), submitted()],
                now=Instant(NOW + 9),
                receipts=[StoredReceipt(Position(1), b"r")],
                after=Position(after),
            )
            assert appended is None
        assert await read_all(ledger) == before
        assert await ledger.first_use(board="b", key="b") is None
        assert await _receipts(ledger, "a") == [None]
        assert (await ledger.append([submitted()], now=NOW)).at == NOW
        await verify(ledger)

    async def test_of_those_who_race_for_one_place_behind_the_head_one_gets_it(
        self, ledger: Ledger
    ) -> None:
        await ledger.append([submitted()], now=NOW)
        racers = [submitted(f"p{n}") for n in range(10)]
        appends = await asyncio.gather(
            *(ledger.append([fact], now=NOW, after=Position(1)) for fact in racers)
        )
        won = [place for place, appended in enumerate(appends) if appended is not None]
        assert len(won) == 1
        assert (await facts_of(ledger))[1:] == [racers[won[0]]]

    # ------------------------------------------------------------------ receipts

    async def test_a_receipt_is_kept_with_an_append_or_alone(self, ledger: Ledger) -> None:
        facts = [submitted(key=key) for key in "abc"]
        await ledger.append(facts, now=NOW)
        await ledger.append([submitted()], now=NOW, receipts=[StoredReceipt(Position(1), b"one")])
        await ledger.keep_receipts([StoredReceipt(Position(2), b"")])
        assert await _receipts(ledger, "abc") == [b"one", b"", None]
        appended = await ledger.append(facts, now=NOW)
        assert [use.receipt for use in appended.first_uses.values()] == [b"one", b"", None]

    async def test_the_first_receipt_stands(self, ledger: Ledger) -> None:
        await ledger.append([submitted(key="a")], now=NOW)
        await ledger.keep_receipts(
            [StoredReceipt(Position(1), b"first"), StoredReceipt(Position(1), b"second")]
        )
        await ledger.keep_receipts([StoredReceipt(Position(1), b"third")])
        assert await _receipts(ledger, "a") == [b"first"]
        await verify(ledger)

    async def test_receipts_reach_as_far_as_the_last_one_kept(
        self, ledger: Ledger, reopen: Callable[[], Awaitable[Ledger]] | None
    ) -> None:
        assert await ledger.receipts_through() == 0
        await ledger.append([submitted(key="a"), submitted(), submitted(key="b")], now=NOW)
        assert await ledger.receipts_through() == 0
        earned = [StoredReceipt(Position(1), b"one"), StoredReceipt(Position(3), b"three")]
        await ledger.append([submitted(key="c"), submitted(key="d")], now=NOW, receipts=earned)
        assert await ledger.receipts_through() == 3
        if reopen is not None:
            ledger = await reopen()
            assert await ledger.receipts_through() == 3
        await ledger.keep_receipts([StoredReceipt(Position(4), b"four")])
        assert await ledger.receipts_through() == 4
        await ledger.append([submitted()], now=NOW, receipts=earned)
        assert await ledger.receipts_through() == 4

    async def test_it_can_be_asked_which_submissions_lack_a_receipt(self, ledger: Ledger) -> None:
        opened = WindowOpened("b", "daily:2026-11-14")
        facts = [submitted(key="a"), submitted(), submitted(key="c"), opened, submitted(key="e")]
        await ledger.append(facts, now=NOW)
        every = [Position(number) for number in (5, 1, 2, 3, 4)]
        assert list(await ledger.lacking_receipts(every)) == [5, 1, 3]
        await ledger.keep_receipts(
            [StoredReceipt(Position(3), b"three"), StoredReceipt(Position(1), b"")]
        )
        assert list(await ledger.lacking_receipts(every)) == [5]
        assert list(await ledger.lacking_receipts(every[1:])) == []
        assert list(await ledger.lacking_receipts([])) == []

    async def test_receipts_are_read_in_the_order_of_what_earned_them(self, ledger: Ledger) -> None:
        assert list(await ledger.kept_receipts(after=Position(0), limit=9)) == []
        await ledger.append([submitted(key=key) for key in "abcde"], now=NOW)
        kept = [StoredReceipt(Position(number), bytes([number])) for number in (1, 2, 4, 5)]
        await ledger.keep_receipts(kept[2:])
        await ledger.keep_receipts(kept[:2])
        assert list(await ledger.kept_receipts(after=Position(0), limit=9)) == kept
        assert list(await ledger.kept_receipts(after=Position(1), limit=2)) == kept[1:3]
        assert list(await ledger.kept_receipts(after=Position(5), limit=9)) == []

    # ------------------------------------------------------------ (8) facts of a player

    async def test_the_facts_of_a_player_are_found_newest_first(self, ledger: Ledger) -> None:
        facts: list[Fact] = [
            BoardDefined("b", {}),
            submitted("ann"),
            submitted("ann", board="c"),
            submitted("bob"),
            NameSet("ann", "Ann"),
            FriendsSet("bob", ("ann",)),
            submitted("ann", key="k"),
            WindowOpened("b", "daily:2026-11-14"),
            AttributesSet("ann", attributes={"region": "eu"}),
            PlayerErased("ann"),
            submitted("an"),
            submitted("ann "),
        ]
        await ledger.append(facts[:4], now=NOW)
        await ledger.append(facts[4:], now=Instant(NOW + 1))

        async def found(board: str | None, player: str) -> list[int]:
            page = await ledger.facts_of(board=board, player=player, before=None, limit=100)
            for recorded in page:
                assert recorded in await ledger.read(after=Position(recorded.position - 1), limit=1)
            return [recorded.position for recorded in page]

        assert await found(None, "ann") == [10, 9, 7, 5, 3, 2]
        assert await found("b", "ann") == [7, 2]
        assert await found("c", "ann") == [3]
        assert await found(None, "bob") == [6, 4]
        assert await found("c", "bob") == []
        assert await found("d", "ann") == []
        assert await found(None, "nobody") == []
        assert await found(None, "") == []
        assert await found("\0", "\0") == []

    async def test_the_facts_of_a_player_come_in_pages_in_both_directions(
        self, ledger: Ledger, reopen: Callable[[], Awaitable[Ledger]] | None
    ) -> None:
        for size in (1, 1, 3, 2_100, 7, 1):
            facts = [submitted(f"p{n % 3}", board="bc"[n % 2]) for n in range(size)]
            await ledger.append(facts, now=NOW)
        await assert_facts_of_players(ledger, ["p0", "p1", "p2"], ["b", "c", None])
        if reopen is not None:
            ledger = await reopen()
            await assert_facts_of_players(ledger, ["p0", "p1", "p2"], ["b", "c", None])

    async def test_what_is_appended_is_found_at_once(self, ledger: Ledger) -> None:
        for number in range(1, 40):
            await ledger.append([submitted(f"p{number % 4}")], now=NOW)
            page = await ledger.facts_of(
                board="b", player=f"p{number % 4}", before=None, limit=number
            )
            assert [found.position for found in page] == list(range(number, 0, -4))

    # --------------------------------------------------------------------- being woken

    async def test_whoever_waits_for_the_head_to_move_is_woken(self, ledger: Ledger) -> None:
        await ledger.append([submitted()], now=NOW)
        async with asyncio.timeout(30):  # Far less than it is told to wait.
            await ledger.changed(after=Position(0), within_seconds=3_600)
            waiting = [
                asyncio.create_task(ledger.changed(after=Position(1), within_seconds=3_600))
                for _ in range(3)
            ]
            await asyncio.sleep(0)
            await ledger.append([submitted()], now=NOW)
            await asyncio.gather(*waiting)

    async def test_whoever_waits_in_vain_waits_no_longer_than_it_said(self, ledger: Ledger) -> None:
        await ledger.append([submitted()], now=NOW)
        async with asyncio.timeout(30):
            for seconds in (0.0, 0.01):
                await ledger.changed(after=Position(1), within_seconds=seconds)
        assert await ledger.head() == 1

    # ---------------------------------------------------------------------- (5) time

    async def test_ledger_time_never_goes_back(self, ledger: Ledger) -> None:
        clock = [NOW, NOW - 60_000_000, NOW + 1, 0, NOW + 2, NOW + 2]
        times = [(await ledger.append([submitted()], now=Instant(now))).at for now in clock]
        assert times == [NOW, NOW, NOW + 1, NOW + 1, NOW + 2, NOW + 2]
        assert [found.at for found in await read_all(ledger)] == times

    async def test_ledger_time_goes_back_where_it_is_corrected(self, ledger: Ledger) -> None:
        far, right = Instant(NOW + 3_653 * 86_400_000_000), Instant(NOW + 5_000_000)
        corrected = TimeCorrected(
            WrongTime(Position(3), Position(6), far - NOW, Instant(NOW + 1), right), "admin"
        )
        await ledger.append([submitted(player="p1")], now=NOW)
        await ledger.append([submitted(player="p2")], now=Instant(NOW + 1))
        await ledger.append([submitted(player=f"p{n}") for n in (3, 4)], now=far)
        await ledger.append([submitted(player="p5")], now=NOW)
        await ledger.append([], now=Instant(far + 1))
        await ledger.append([submitted(player="p6")], now=NOW)
        assert (await ledger.append([corrected], now=right)).at == right
        assert (await ledger.append([submitted(player="p8")], now=NOW)).at == right
        later = Instant(right + 1)
        assert (await ledger.append([submitted(player="p9")], now=later)).at == later
        facts = await read_all(ledger)
        assert [one.position for one in facts] == list(range(1, 10))
        times = [one.at - NOW for one in facts]
        assert times[:4] == [0, 1, far - NOW, far - NOW]
        assert times[4] in (far - NOW, far - NOW + 1)
        assert times[6:] == [5_000_000, 5_000_000, 5_000_001]
        for after in range(10):
            found = await ledger.read(after=Position(after), limit=2)
            assert list(found) == list(facts[after : after + 2])
        await verify(ledger)

    async def test_facts_of_one_append_have_one_time(self, ledger: Ledger) -> None:
        appended = await ledger.append([submitted() for _ in range(3)], now=NOW)
        assert {found.at for found in await read_all(ledger)} == {appended.at}

    # ---------------------------------------------------------------- (6) known outcome

    async def test_cancelling_whoever_waits_never_cancels_the_append(self, ledger: Ledger) -> None:
        kept = submitted(key="kept")
        tasks = [
            asyncio.create_task(ledger.append([fact], now=NOW))
            for fact in (submitted(), kept, submitted())
        ]
        await asyncio.sleep(0)  # All are handed over.
        tasks[1].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

        again = await ledger.append([kept], now=NOW)
        assert again.first_uses[0].position == 2
        assert await ledger.head() == 3

    # ---------------------------------------------------------- (7) byte for byte

    async def test_every_kind_of_fact_comes_back_as_it_was(self, ledger: Ledger) -> None:
        facts: list[Fact] = [
            ScoreSubmitted(
                "b",
                "p",
                scores=(-(2**63), 2**63 - 1),
                key="k",
                metadata=b'{"seed":"\xc3\xa9"}',
                attributes={"region": "eu", "level": 3, "new": True},
                build="1.2",
                at=NOW,
                run="r",
                actor="server",
            ),
            ScoreSubmitted("b", "p", delta=-5),
            BoardDefined("b", {"name": "b", "nested": {"list": [1, 2.5, None, "x"]}}, "admin"),
            NameSet("p", "Ada"),
            AttributesSet("p", attributes={"region": "eu"}),
            FriendsSet("p", tuple(f"f{n}" for n in range(200))),
            WindowSealed("b", "forever", "admin", "the end", since=Position(3)),
            WindowDropped("b", "forever", since=Position(3)),
        ]
        await ledger.append(facts, now=NOW)
        found = await facts_of(ledger)
        assert found == facts
        assert [encode(fact) for fact in found] == [encode(fact) for fact in facts]

    async def test_a_link_stands_for_everything_up_to_where_an_append_ended(
        self, ledger: Ledger, reopen: Callable[[], Awaitable[Ledger]] | None
    ) -> None:
        assert await ledger.link_at(Position(0)) is None
        same = submitted()
        await ledger.append([same, same], now=NOW)
        first = await ledger.link_at(Position(2))
        assert first
        await ledger.append([same, same], now=NOW)
        await ledger.append([], now=NOW)
        links = [await ledger.link_at(Position(number)) for number in range(1, 6)]
        assert [bool(link) for link in links] == [False, True, False, True, False]
        assert links[1] == first != links[3]
        if reopen is not None:
            ledger = await reopen()
            assert [await ledger.link_at(Position(number)) for number in range(1, 6)] == links

    async def test_verify_passes_over_what_was_written_and_tells_how_far_it_is(
        self, ledger: Ledger
    ) -> None:
        for turn in range(5):
            await ledger.append([submitted(key=f"{turn}/{n}") for n in range(50)], now=NOW)
        steps = [progress async for progress in ledger.verify()]
        facts = [progress for progress in steps if progress.stage == "facts"]
        assert facts[0] == steps[0]
        assert (facts[-1].done, facts[-1].total) == (250, 250)

    # --------------------------------------------------------------------------- close

    async def test_closing_twice_is_closing_once(self, ledger: Ledger) -> None:
        await ledger.append([submitted()], now=NOW)
        await ledger.close()
        await ledger.close()


async def _receipts(ledger: Ledger, keys: Sequence[str]) -> list[bytes | None]:
    uses = [await ledger.first_use(board="b", key=key) for key in keys]
    return [use.receipt if use else None for use in uses]


MONTH = 31 * 24 * 3_600 * 1_000_000
"""In microseconds."""

Reopen = Callable[[bool], Awaitable[CopyTarget]]


def recorded(*facts: tuple[int, Fact], first: int = 1) -> list[Recorded]:
    """Return facts with the times they are given with, after ``NOW``."""
    return [
        Recorded(Position(position), Instant(NOW + later), fact)
        for position, (later, fact) in enumerate(facts, first)
    ]


@pytest.mark.anyio
class CopyTargetContract:
    """The promises of ``rankd.ports.CopyTarget``, by their numbers."""

    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"

    # ------------------------------------------------------------------- (1) as it was

    async def test_facts_keep_their_positions_times_and_keys(self, ledger: CopyTarget) -> None:
        keyed = submitted("ann", key="k")
        facts = recorded(
            (-14 * MONTH, BoardDefined("b", {"name": "b"})),
            (-14 * MONTH, keyed),
            (-14 * MONTH + 1, PlayerProfiled("ann", "Ann", {"region": "eu"})),
            (-3 * MONTH, WindowOpened("b", "daily:2026-11-14")),
            (0, ScoreSubmitted("b", "bob", scores=(1,), attributes={"new": True})),
            (0, submitted()),
            (9 * MONTH, submitted()),
        )
        kept = [StoredReceipt(Position(2), b"told")]

        await ledger.take_over(facts[:4], receipts=kept)
        await ledger.take_over([])
        await ledger.take_over(facts[4:])

        assert await read_all(ledger) == facts
        assert list(await ledger.kept_receipts(after=Position(0), limit=9)) == kept
        use = FirstUse(Position(2), keyed.fingerprint(), b"told")
        assert await ledger.first_use(board="b", key="k") == use
        again = await ledger.append([keyed, submitted()], now=NOW)
        assert (list(again.positions), dict(again.first_uses)) == ([2, 8], {0: use})
        assert again.at == NOW + 9 * MONTH
        await verify(ledger)

    # ------------------------------------------------------------------------ (2) whole

    @pytest.mark.parametrize("spoiled", ["gap", "early", "late", "key", "twice", "text"])
    async def test_what_cannot_be_as_it_was_leaves_nothing(
        self, ledger: CopyTarget, spoiled: str
    ) -> None:
        before = recorded((5, submitted(key="used")), (6, submitted()))
        await ledger.take_over(before)
        first, last = submitted(key="fresh"), submitted()
        facts = recorded((7, first), (8, last), first=3)
        if spoiled == "gap":
            facts[1:] = recorded((8, last), first=5)
        elif spoiled == "early":
            facts = recorded((7, first), (8, last), first=2)
        elif spoiled == "late":
            facts = recorded((4, first), (8, last), first=3)
        elif spoiled == "key":
            facts[1:] = recorded((8, submitted(key="used")), first=4)
        elif spoiled == "twice":
            facts[1:] = recorded((8, submitted(key="fresh")), first=4)
        else:
            facts[1:] = recorded((8, submitted("\ud800")), first=4)

        with pytest.raises(UnicodeError if spoiled == "text" else LedgerNotCopied):
            await ledger.take_over(facts, receipts=[StoredReceipt(Position(1), b"r")])

        assert await read_all(ledger) == before
        assert list(await ledger.kept_receipts(after=Position(0), limit=9)) == []
        assert await ledger.first_use(board="b", key="fresh") is None
        await ledger.take_over(recorded((7, first), (8, last), first=3))
        await verify(ledger)

    # -------------------------------------------------------------------- (3) unfinished

    async def test_until_it_is_whole_it_is_opened_only_to_go_on(
        self, ledger: CopyTarget, reopen: Reopen
    ) -> None:
        await ledger.begin_copy("the old folder")
        with pytest.raises(LedgerNotCopied, match="the old folder"):
            await reopen(False)
        ledger = await reopen(True)
        await ledger.begin_copy("the old folder")
        await ledger.take_over(recorded((0, submitted())))
        with pytest.raises(LedgerNotCopied, match="the old folder"):
            await reopen(False)
        ledger = await reopen(True)
        await ledger.end_copy()
        ledger = await reopen(False)
        assert await ledger.head() == 1

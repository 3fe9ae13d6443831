"""The contract of CopyTarget, a ledger that another one is copied into."""

from collections.abc import Awaitable, Callable

import pytest

from rankd.errors import LedgerNotCopied
from rankd.model.facts import (
    BoardDefined,
    Fact,
    PlayerProfiled,
    Position,
    Recorded,
    ScoreSubmitted,
    WindowOpened,
)
from rankd.model.window import Instant
from rankd.ports import CopyTarget, FirstUse, StoredReceipt
from rankd.testing.contracts.ledger import NOW, read_all, submitted, verify

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

"""A ledger in another: whole, or begun and refused; and never what somebody else wrote."""

from collections.abc import Awaitable, Callable
from contextlib import nullcontext

import pytest
from tests.unit.core.doubles import ReceivingLedger, facts_of

from rankd.adapters.memory.ledger import MemoryLedger
from rankd.core import transfer
from rankd.core.transfer import Transfer, insist_on_copied
from rankd.errors import LedgerCorrupt, LedgerNotCopied, LedgerUnavailable
from rankd.model.facts import Position, ScoreSubmitted
from rankd.model.window import Instant
from rankd.ports import Ledger, Progress, StoredReceipt

pytestmark = pytest.mark.anyio

Spoil = Callable[[ReceivingLedger], Awaitable[object]]


@pytest.fixture(autouse=True)
def pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "PAGE_FACTS", 3)


def submission(number: int) -> ScoreSubmitted:
    return ScoreSubmitted("b", f"p{number}", scores=(number,), key=f"k{number}")


async def filled(facts: int, ledger: MemoryLedger | None = None) -> MemoryLedger:
    """Return a ledger of facts of which two have one time, with receipts for every second."""
    ledger = ledger or MemoryLedger()
    first = len(await facts_of(ledger))
    for number in range(first, facts):
        await ledger.append([submission(number)], now=Instant(100 * (number // 2)))
    kept = [StoredReceipt(Position(at), b"%d" % at) for at in range(2, facts + 1, 2)]
    await ledger.keep_receipts(kept)
    return ledger


async def copied(source: Ledger, target: ReceivingLedger) -> list[Progress]:
    running = Transfer(source, target, named="old", into="new").run()
    return [progress async for progress in running]


async def receipts_of(ledger: Ledger) -> list[StoredReceipt]:
    return list(await ledger.kept_receipts(after=Position(0), limit=1_000))


async def assert_same(source: Ledger, target: Ledger) -> None:
    assert await facts_of(target) == await facts_of(source)
    assert await receipts_of(target) == await receipts_of(source)


async def test_every_fact_and_receipt_is_copied_and_only_then_is_it_whole() -> None:
    source, target = await filled(11), ReceivingLedger()
    steps = await copied(source, target)
    await assert_same(source, target)
    assert target.told == ["begun: old", "took 3", "took 3", "took 3", "took 2", "ended"]
    stages = list(dict.fromkeys(progress.stage for progress in steps))
    assert stages == ["source facts", "copied", "compared", "copy facts"]
    assert all(progress.done <= progress.total for progress in steps)


@pytest.mark.parametrize("taken", range(4))
async def test_a_copy_that_was_broken_off_goes_on_where_it_ended(taken: int) -> None:
    source, target = await filled(11), ReceivingLedger(fails_after=taken)
    with pytest.raises(LedgerUnavailable):
        await copied(source, target)
    assert await target.head() == 3 * taken
    assert "ended" not in target.told

    target.told.clear()
    await copied(source, target)
    await assert_same(source, target)
    assert len(target.told) == 2 + 4 - taken


async def test_what_came_since_an_earlier_copy_is_copied_behind_it() -> None:
    source, target = await filled(5), ReceivingLedger()
    await copied(source, target)
    await source.keep_receipts([StoredReceipt(Position(3), b"late")])
    await filled(9, source)
    await copied(source, target)
    await assert_same(source, target)


async def test_a_copy_that_is_whole_is_looked_at_once_more() -> None:
    source, target = await filled(7), ReceivingLedger()
    await copied(source, target)
    target.told.clear()
    await copied(source, target)
    assert target.told == ["begun: old", "ended"]
    await assert_same(source, target)


async def append_another(target: ReceivingLedger) -> None:
    await target.append([submission(77)], now=Instant(0))


async def append_the_first_later(target: ReceivingLedger) -> None:
    await target.append([submission(0)], now=Instant(1))


async def append_another_behind(target: ReceivingLedger) -> None:
    await filled(4, target)
    await append_another(target)


async def keep_another_receipt(target: ReceivingLedger) -> None:
    await target.append([submission(0), submission(1)], now=Instant(0))
    await target.keep_receipts([StoredReceipt(Position(2), b"another")])


@pytest.mark.parametrize(
    "spoil",
    [append_another, append_the_first_later, append_another_behind, keep_another_receipt],
)
async def test_what_holds_other_facts_is_refused_and_left_as_it_is(spoil: Spoil) -> None:
    source, target = await filled(7), ReceivingLedger()
    await spoil(target)
    before = await facts_of(target), await receipts_of(target)
    with pytest.raises(LedgerNotCopied, match="new holds facts already, and not those of old"):
        await copied(source, target)
    assert (await facts_of(target), await receipts_of(target)) == before
    assert target.told == []


async def test_a_copy_that_is_in_use_is_left_alone() -> None:
    source, target = await filled(7), ReceivingLedger()
    await copied(source, target)
    await target.append([submission(50), submission(51)], now=Instant(10_000))
    with pytest.raises(LedgerNotCopied, match="all 7 facts of old and 2 that came since"):
        await copied(source, target)


async def test_nothing_is_no_ledger_to_copy() -> None:
    with pytest.raises(LedgerNotCopied, match="nothing to copy"):
        await copied(MemoryLedger(), ReceivingLedger())


async def test_a_damaged_source_is_found_before_anything_is_copied() -> None:
    source, target = await filled(7), ReceivingLedger()
    source._digests[4] = b""
    with pytest.raises(LedgerCorrupt):
        await copied(source, target)
    assert target.told == []


async def test_text_that_cannot_be_kept_is_named_by_its_place() -> None:
    source, target = await filled(7), ReceivingLedger(keeps_not="p4")
    with pytest.raises(LedgerNotCopied, match="a fact at 4 to 6 cannot be kept"):
        await copied(source, target)
    assert await target.head() == 3


@pytest.mark.parametrize("lost", [1, 4, 7])
async def test_a_fact_that_was_acknowledged_and_is_not_there_is_missed(lost: int) -> None:
    source, target = await filled(7), ReceivingLedger(loses=lost)
    with pytest.raises(LedgerNotCopied, match=r"missing|differ"):
        await copied(source, target)
    assert "ended" not in target.told


async def test_a_source_that_ends_before_its_head_is_no_source() -> None:
    class Cut(MemoryLedger):
        async def head(self) -> Position:
            return Position(9)

    with pytest.raises(LedgerNotCopied, match="missing up to position 9"):
        await copied(await filled(7, Cut()), ReceivingLedger())


# ------------------------------------------------------------------------- left in a folder


async def insist(here: Ledger, there: Ledger) -> None:
    left = nullcontext(here)
    await insist_on_copied(left, there, named="old", into="new", command="copy old new")


async def test_a_node_does_not_begin_anew_beside_a_ledger_with_facts() -> None:
    with pytest.raises(
        LedgerNotCopied, match="old holds a ledger of 7 facts, and new none"
    ) as told:
        await insist(await filled(7), MemoryLedger())
    assert "`copy old new`" in str(told.value)


async def test_nor_with_a_part_of_it() -> None:
    with pytest.raises(LedgerNotCopied, match="only the first 5"):
        await insist(await filled(7), await filled(5))


async def test_what_was_copied_or_never_belonged_together_is_served() -> None:
    await insist(MemoryLedger(), MemoryLedger())
    await insist(await filled(7), await filled(7))
    await insist(await filled(7), await filled(9))
    others = MemoryLedger()
    await others.append([submission(8), submission(9)], now=Instant(0))
    await insist(await filled(7), others)


async def test_a_folder_that_cannot_be_read_keeps_nobody_from_serving_other_facts() -> None:
    class Unreadable(MemoryLedger):
        async def head(self) -> Position:
            raise LedgerCorrupt("no ledger")

    await insist(Unreadable(), await filled(1))
    with pytest.raises(LedgerCorrupt):
        await insist(Unreadable(), MemoryLedger())

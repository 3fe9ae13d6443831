"""Receipts of keyed submissions are in one place until the ledger has stored them."""

from collections.abc import Sequence
from typing import Any

import pytest

from rankd.adapters.memory.ledger import MemoryLedger
from rankd.core.receipts import ReceiptBuffer
from rankd.errors import LedgerUnavailable
from rankd.model.facts import Position, ScoreSubmitted
from rankd.model.window import Instant
from rankd.ports import StoredReceipt

pytestmark = pytest.mark.anyio


def receipts(*positions: int) -> dict[Position, bytes]:
    return {Position(position): b"%d" % position for position in positions}


async def ledger_of(count: int, kind: type[MemoryLedger] = MemoryLedger) -> Any:
    """Return a ledger with keyed submissions and none of their receipts."""
    ledger = kind()
    facts = [ScoreSubmitted("b", "p", (1,), key=f"k{number}") for number in range(count)]
    await ledger.append(facts, now=Instant(1))
    return ledger


async def stored_in(ledger: MemoryLedger) -> dict[Position, bytes]:
    return dict(await ledger.kept_receipts(after=Position(0), limit=1_000))


def test_own_receipts_remain_until_an_append_has_stored_them() -> None:
    buffer = ReceiptBuffer(receipts(1))
    buffer.add(receipts(2))
    sent = buffer.outgoing()
    assert sent == [StoredReceipt(Position(1), b"1"), StoredReceipt(Position(2), b"2")]
    assert buffer.due
    assert buffer.outgoing() == sent, "an append that failed is made again"
    buffer.add(receipts(3))  # The receipts of the append itself.
    buffer.stored([position for position, _ in sent])
    assert dict(buffer) == receipts(3)
    buffer.stored([Position(3), Position(4)])
    assert not buffer.due
    assert not dict(buffer)


def test_a_receipt_is_found_wherever_it_came_from() -> None:
    buffer = ReceiptBuffer(receipts(1))
    buffer.add_others(receipts(2))
    assert [buffer.find(Position(position)) for position in (1, 2, 3)] == [b"1", b"2", None]
    assert dict(buffer) == receipts(1, 2)


def test_receipts_of_others_do_not_go_with_an_append() -> None:
    buffer = ReceiptBuffer()
    buffer.add_others(receipts(1, 2))
    assert not buffer.due
    assert buffer.outgoing() == []
    assert buffer.others() == [1, 2]


def test_the_oldest_receipts_of_others_are_dropped_and_own_ones_never() -> None:
    buffer = ReceiptBuffer(receipts(1, 2, 3, 4), others_max=3)
    buffer.add_others(receipts(5))
    assert not buffer.crowded
    buffer.add_others(receipts(6, 7, 8, 9))
    assert buffer.crowded
    assert dict(buffer) == receipts(1, 2, 3, 4, 7, 8, 9)


async def test_the_receipts_that_a_ledger_lacks_are_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rankd.core.receipts.STORED_TOGETHER_MAX", 2)
    ledger = await ledger_of(5)
    await ledger.keep_receipts([StoredReceipt(Position(2), b"its own")])
    buffer = ReceiptBuffer()
    buffer.add_others(receipts(1, 2, 3, 4, 5))
    due = buffer.others()[:4]
    buffer.stored([Position(4)])  # By another task since.
    await buffer.store_missing(ledger, due)
    assert await stored_in(ledger) == {**receipts(1, 3), Position(2): b"its own"}
    assert buffer.others() == [5]


class Failing(MemoryLedger):
    """A ledger that stores no receipts."""

    async def keep_receipts(self, receipts: Sequence[StoredReceipt]) -> None:
        raise LedgerUnavailable("injected", applied="no")


async def test_receipts_that_could_not_be_stored_remain() -> None:
    ledger = await ledger_of(2, Failing)
    buffer = ReceiptBuffer()
    buffer.add_others(receipts(1, 2))
    with pytest.raises(LedgerUnavailable):
        await buffer.store_missing(ledger, buffer.others())
    assert buffer.others() == [1, 2]

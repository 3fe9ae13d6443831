"""Facts of another ledger, taken over as they are.

Each has the time of the append it came with, and the server gives all facts of an append one time:
so facts of one time are sent as an append, and many appends as one transaction. A correction of the
time always begins an append. To commit each by itself would be to wait for the disk as often as the
other ledger did in all its life.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import accumulate, groupby
from typing import Any, NamedTuple

from rankd.adapters.postgres.batch import AppendBatch, appended, as_time, prepared, receipt_columns
from rankd.adapters.postgres.database import VENDOR, DriverConnection
from rankd.errors import LedgerNotCopied
from rankd.model.facts import Position, Recorded, TimeCorrected
from rankd.model.window import Instant
from rankd.ports import StoredReceipt


class BulkAppend(NamedTuple):
    """Facts of one time, and the arguments of the append."""

    batch: AppendBatch
    first: Position
    last: Position
    at: Instant
    asked: Sequence[Any]
    """The arguments of ``rankd.append_facts`` from the time on."""


def takings_of(facts: Sequence[Recorded], receipts: Sequence[StoredReceipt]) -> list[BulkAppend]:
    """Return the appends, in order. Receipts go with the last. Raises UnicodeError."""
    corrections = accumulate(isinstance(one.fact, TimeCorrected) for one in facts)
    numbered = zip(corrections, facts, strict=True)
    runs = [
        [recorded for _, recorded in run]
        for _, run in groupby(numbered, lambda one: (one[0], one[1].at))
    ]
    return [
        _taking(run, receipts if number == len(runs) else ())
        for number, run in enumerate(runs, start=1)
    ]


def _taking(run: Sequence[Recorded], receipts: Sequence[StoredReceipt]) -> BulkAppend:
    first, last, at = run[0].position, run[-1].position, run[0].at
    batch = prepared([recorded.fact for recorded in run])
    asked = (as_time(at), first - 1, *batch.columns, *receipt_columns(receipts))
    return BulkAppend(batch, first, last, at, asked)


def insist_on_places(takings: Sequence[BulkAppend], told: Sequence[Any]) -> None:
    """Refuse, while it can be undone, facts that did not come to lie where they were."""
    for taking, (answer,) in zip(takings, told, strict=True):
        if answer is None:
            raise LedgerNotCopied(
                f"the ledger does not end before position {taking.first}: somebody else appends "
                "to it, or a fact was left out"
            )
        placed = appended(taking.batch, answer)
        if placed.first_uses:
            raise LedgerNotCopied(f"a key at {taking.first} to {taking.last} was used before")
        if placed.at != taking.at or placed.positions[-1] != taking.last:
            raise LedgerNotCopied(
                f"the ledger has another place or a later time for the facts at {taking.first} to "
                f"{taking.last}"
            )


@asynccontextmanager
async def whole(connection: DriverConnection) -> AsyncIterator[None]:
    """A transaction around the block. A lost connection raises the error that lost it."""
    transaction = connection.transaction()
    await transaction.start()
    try:
        yield
    except BaseException:
        with suppress(*VENDOR):  # The server does it, where it cannot be asked any more.
            await transaction.rollback()
        raise
    await transaction.commit()

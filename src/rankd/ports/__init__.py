"""The ports: the protocols between the core and its adapters, with their numbered contracts.

    writer ──append──▶ Ledger ──read──▶ projector ──apply──▶ RankIndex ◀──read── reader
                                                    Clock

Each numbered rule has a test in ``rankd.testing.contracts``. An adapter is a class that passes them
and raises only errors of ``rankd.errors``, never those of its driver.

Calls are asynchronous because a ledger waits for a disk and an index may be across a network. They
take batches because a round trip costs the same for one item as for a thousand. An adapter with
``immediate`` set never suspends, and callers rely on that.
"""

from rankd.ports.index import (
    APPLIES_REMEMBERED,
    COUNTED,
    DRAFT,
    HELD,
    NOT_BETTER,
    OUT_OF_BOUNDS,
    OVERFLOW,
    REFUSED,
    STAY,
    EntryColumns,
    EntryRange,
    ImmediateIndex,
    Move,
    Moved,
    Placed,
    Places,
    Ranked,
    RankIndex,
    Ranking,
    RankingShape,
    Run,
    SharedIndex,
    Verdicts,
)
from rankd.ports.ledger import (
    Appended,
    CopyTarget,
    FirstUse,
    KnownState,
    Knows,
    Ledger,
    LedgerReader,
    ProfileTable,
    ReopenableLedger,
    SharedLedger,
    Spool,
    StoredReceipt,
    TimeServer,
)
from rankd.ports.operations import Clock, CountingClock, Finding, Loop, Progress, StartLoop
from rankd.ports.sender import Message, MessageSender, SendResult
from rankd.ports.snapshots import (
    COPIES_KEPT,
    NOTHING_HELD,
    Archive,
    SealedName,
    SealedRow,
    Snapshots,
    StateSnapshots,
    TopList,
    TopListAge,
    TopLists,
)
from rankd.ports.verifier import HeldSubmission, Verification, Verifier

__all__ = [
    "APPLIES_REMEMBERED",
    "COPIES_KEPT",
    "COUNTED",
    "DRAFT",
    "HELD",
    "NOTHING_HELD",
    "NOT_BETTER",
    "OUT_OF_BOUNDS",
    "OVERFLOW",
    "REFUSED",
    "STAY",
    "Appended",
    "Archive",
    "Clock",
    "CopyTarget",
    "CountingClock",
    "EntryColumns",
    "EntryRange",
    "Finding",
    "FirstUse",
    "HeldSubmission",
    "ImmediateIndex",
    "KnownState",
    "Knows",
    "Ledger",
    "LedgerReader",
    "Loop",
    "Message",
    "MessageSender",
    "Move",
    "Moved",
    "Placed",
    "Places",
    "ProfileTable",
    "Progress",
    "RankIndex",
    "Ranked",
    "Ranking",
    "RankingShape",
    "ReopenableLedger",
    "Run",
    "SealedName",
    "SealedRow",
    "SendResult",
    "SharedIndex",
    "SharedLedger",
    "Snapshots",
    "Spool",
    "StartLoop",
    "StateSnapshots",
    "StoredReceipt",
    "TimeServer",
    "TopList",
    "TopListAge",
    "TopLists",
    "Verdicts",
    "Verification",
    "Verifier",
]

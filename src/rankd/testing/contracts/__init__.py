"""Contract tests of the ports: one class of tests for each port.

An adapter's test is a fixture and a subclass; the names of the tests are the port's sentences.
"""

from rankd.testing.contracts.index import RankIndexContract
from rankd.testing.contracts.ledger import CopyTargetContract, LedgerContract
from rankd.testing.contracts.snapshots import CopiesContract, SnapshotsContract, StandingsContract

__all__ = [
    "CopiesContract",
    "CopyTargetContract",
    "LedgerContract",
    "RankIndexContract",
    "SnapshotsContract",
    "StandingsContract",
]

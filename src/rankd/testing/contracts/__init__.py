"""What it means to keep a port's promises: one class of tests for each port.

An adapter's test is a fixture and a subclass; the names of the tests are the port's sentences.
"""

from rankd.testing.contracts.index import RankIndexContract
from rankd.testing.contracts.ledger import LedgerContract
from rankd.testing.contracts.snapshots import SnapshotsContract

__all__ = ["LedgerContract", "RankIndexContract", "SnapshotsContract"]

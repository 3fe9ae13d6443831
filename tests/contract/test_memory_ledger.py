"""The ledger in memory keeps the promises of a ledger, but for surviving."""

import pytest

from rankd.adapters.memory.ledger import MemoryLedger
from rankd.testing.contracts import LedgerContract


class TestMemoryLedger(LedgerContract):
    @pytest.fixture
    def ledger(self) -> MemoryLedger:
        return MemoryLedger()

"""The ledger in memory keeps the promises of a ledger, but for surviving."""

import pytest

from rankd.adapters.memory.ledger import MemoryLedger
from rankd.ports import Ledger
from rankd.testing.contracts import LedgerContract

_: type[Ledger] = MemoryLedger  # mypy sees whether the methods are those of the port.


class TestMemoryLedger(LedgerContract):
    @pytest.fixture
    def ledger(self) -> MemoryLedger:
        return MemoryLedger()

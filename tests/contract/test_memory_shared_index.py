"""The shared index in memory keeps the promises of an index, and those of one that is shared."""

import pytest

from rankd.adapters.memory.shared_index import MemorySharedIndex, SharedMemory
from rankd.ports import RankIndex, SharedIndex
from rankd.testing.contracts import RankIndexContract

_: type[RankIndex] = MemorySharedIndex  # mypy sees whether the methods are those of the port.
__: type[SharedIndex] = MemorySharedIndex


class TestMemorySharedIndex(RankIndexContract):
    @pytest.fixture
    def index(self) -> MemorySharedIndex:
        return MemorySharedIndex(SharedMemory())

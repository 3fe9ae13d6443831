"""The contract of RankIndex. Subclass it and provide ``index``.

The promises are grouped by subject, a module for each group, and sections have the numbers of
``rankd.ports.RankIndex``; ``moves`` has the test data. The tenth, judging in place, is held to a
model of its own: ``tests/property/test_judging.py``.
"""

import pytest

from rankd.testing.contracts.index.applies import ApplyPromises
from rankd.testing.contracts.index.order import OrderPromises
from rankd.testing.contracts.index.rankings import RankingPromises
from rankd.testing.contracts.index.reads import ReadPromises
from rankd.testing.contracts.index.several_nodes import SharingPromises


@pytest.mark.anyio
class RankIndexContract(
    ApplyPromises, OrderPromises, ReadPromises, RankingPromises, SharingPromises
):
    """The promises of ``rankd.ports.RankIndex``, by their numbers."""

    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"

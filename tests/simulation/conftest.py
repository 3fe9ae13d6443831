"""What the simulations share: asyncio, and a folder in which syncs cost nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.simulation.power_loss import scratch_folder


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def scratch() -> Iterator[Path]:
    with scratch_folder() as folder:
        yield folder

"""What the tests of the core share: asyncio, because the engine is written for it."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"

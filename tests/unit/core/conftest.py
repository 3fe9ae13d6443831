"""What the tests of the core share: asyncio, because the engine is written for it."""

import pytest

# It judges for many tests; what it found is worth showing.
pytest.register_assert_rewrite("tests.unit.core.callers")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"

"""Indexes that do not meet, in the Redis that all tests of a process share."""

from collections.abc import Callable
from itertools import count

import pytest

from rankd.testing.servers import RedisServer

_prefixes = count(1)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def server(shared_redis: RedisServer) -> RedisServer:
    return shared_redis


@pytest.fixture
def url_of(server: RedisServer) -> Callable[[int], str]:
    """Return the URL of an index that is this test's own, given its partitions."""
    prefix = f"u{next(_prefixes)}"
    return lambda partitions: f"{server.url}?partitions={partitions}&prefix={prefix}&timeout=30"

"""One server for a module of tests, and indexes in it that do not meet."""

from collections.abc import Callable, Iterator
from itertools import count

import pytest

from rankd.testing.servers import RedisServer, redis_server

_prefixes = count(1)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with redis_server() as running:
        yield running


@pytest.fixture
def url_of(server: RedisServer) -> Callable[[int], str]:
    """Return the URL of an index that is this test's own, given its partitions."""
    prefix = f"u{next(_prefixes)}"
    return lambda partitions: f"{server.url}?partitions={partitions}&prefix={prefix}&timeout=30"

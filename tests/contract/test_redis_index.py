"""The index in Redis keeps the promises of an index: alone, in parts, in a cluster, watched."""

from collections.abc import AsyncIterator, Iterator

import pytest

from rankd.adapters.redis import RedisIndex
from rankd.ports import RankIndex
from rankd.testing.contracts import RankIndexContract
from rankd.testing.servers import RedisServer, redis_server

_: type[RankIndex] = RedisIndex  # mypy sees whether the methods are those of the port.


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with redis_server() as running:
        yield running


class RedisContract(RankIndexContract):
    partitions = 1

    @pytest.fixture
    async def index(
        self, server: RedisServer, request: pytest.FixtureRequest
    ) -> AsyncIterator[RedisIndex]:
        url = f"{server.url}?partitions={self.partitions}&prefix=t{abs(hash(request.node.nodeid))}"
        async with RedisIndex.open(url) as index:
            yield index


class TestRedisIndex(RedisContract):
    pass


class TestRedisIndexInParts(RedisContract):
    partitions = 3

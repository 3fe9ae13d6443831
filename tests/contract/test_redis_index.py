"""The index in Redis keeps the promises of an index: alone, in parts, in a cluster, watched.

On every version of the server that is found on the machine; the oldest one that is taken comes as a
wheel with `make test`.
"""

from collections.abc import AsyncIterator, Iterator
from itertools import count
from typing import ClassVar

import pytest

from rankd.adapters.redis import RedisIndex
from rankd.ports import RankIndex, SharedIndex
from rankd.testing.contracts import RankIndexContract
from rankd.testing.redis_servers import of_binary, redis_binaries, redis_cluster, watched_redis
from rankd.testing.servers import redis_server

_: type[RankIndex] = RedisIndex  # mypy sees whether the methods are those of the port.
__: type[SharedIndex] = RedisIndex

VERSIONS = sorted(redis_binaries())
_prefixes = count(1)


@pytest.fixture(scope="module")
def single(request: pytest.FixtureRequest) -> Iterator[str]:
    """Return the URL of a server of the version asked for."""
    with of_binary(redis_binaries()[request.param]), redis_server() as server:
        yield server.url


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[str]:
    """Return the URL of a cluster of servers of the version asked for."""
    with of_binary(redis_binaries()[request.param]), redis_cluster() as running:
        yield running.url


@pytest.fixture(scope="module")
def watched() -> Iterator[str]:
    with watched_redis() as running:
        yield running.url


class RedisContract(RankIndexContract):
    partitions: ClassVar[int]

    @pytest.fixture
    async def index(self, url: str) -> AsyncIterator[RedisIndex]:
        options = f"partitions={self.partitions}&prefix=p{next(_prefixes)}&timeout=30"
        async with RedisIndex.open(f"{url}?{options}") as index:
            yield index


@pytest.mark.parametrize("single", VERSIONS, indirect=True, scope="module")
class TestRedisIndex(RedisContract):
    partitions = 1

    @pytest.fixture
    def url(self, single: str) -> str:
        return single


@pytest.mark.parametrize("single", VERSIONS, indirect=True, scope="module")
class TestRedisIndexInParts(RedisContract):
    partitions = 3
    forgets_emptied = False

    @pytest.fixture
    def url(self, single: str) -> str:
        return single


@pytest.mark.parametrize("cluster", VERSIONS, indirect=True, scope="module")
class TestRedisIndexInACluster(RedisContract):
    partitions = 8
    forgets_emptied = False

    @pytest.fixture
    def url(self, cluster: str) -> str:
        return cluster


class TestRedisIndexWatched(RedisContract):
    partitions = 1

    @pytest.fixture
    def url(self, watched: str) -> str:
        return watched

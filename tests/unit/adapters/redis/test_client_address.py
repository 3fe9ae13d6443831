"""URLs are read as they are meant, and what is wrong with one is said."""

import pytest

from rankd.adapters.redis.client import PARTITIONS_MAX, RedisAddress
from rankd.errors import InvalidSetting


def test_the_plainest_url_says_all_there_is() -> None:
    assert RedisAddress.read("redis://board.example") == RedisAddress(
        kind="single", hosts=(("board.example", 6379),)
    )


def test_a_url_with_everything() -> None:
    url = "rediss://us%40er:p%3Ass@[::1]:7000/3?prefix=a-b:c&partitions=5&timeout=0.5&tls_ca=/x/ca"
    assert RedisAddress.read(url) == RedisAddress(
        kind="single",
        hosts=(("::1", 7000),),
        tls=True,
        tls_ca="/x/ca",
        user="us@er",
        password="p:ss",
        db=3,
        prefix="a-b:c",
        partitions=5,
        call_seconds_max=0.5,
    )


def test_sentinels_and_the_service_they_watch() -> None:
    url = "redis+sentinel://:secret@one:1,two/board/2?sentinel_password=other&tls=true"
    assert RedisAddress.read(url) == RedisAddress(
        kind="sentinel",
        hosts=(("one", 1), ("two", 26379)),
        tls=True,
        password="secret",
        sentinel_password="other",
        service="board",
        db=2,
    )


def test_a_cluster_has_several_partitions_unless_it_is_told() -> None:
    cluster = RedisAddress.read("redis+cluster://one,two:7001")
    assert (cluster.hosts, cluster.partitions) == ((("one", 6379), ("two", 7001)), 8)
    assert RedisAddress.read("redis+cluster://one?partitions=2").partitions == 2


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://x", "must begin with"),
        ("redis:x", "must begin with"),
        ("redis://", "must name a host"),
        ("redis://a,b", "several hosts"),
        ("redis://a:b", "must name a host"),
        ("redis://a/b", "number of a database"),
        ("redis://a/1/2", "number of a database"),
        ("redis+sentinel://a", "must name the service"),
        ("redis+cluster://a/1", "only one"),
        ("redis://a?colour=red", "not known: colour"),
        ("redis://a?prefix={x}", "prefix"),
        ("redis://a?prefix=", "prefix"),
        ("redis://a?partitions=0", "partitions"),
        (f"redis://a?partitions={PARTITIONS_MAX + 1}", "partitions"),
        ("redis://a?partitions=many", "partitions"),
        ("redis://a?timeout=0", "timeout"),
        ("redis://a?timeout=-1", "timeout"),
        ("redis://a?tls=yes", "tls"),
    ],
)
def test_what_is_wrong_with_a_url_is_said(url: str, problem: str) -> None:
    with pytest.raises(InvalidSetting, match=problem):
        RedisAddress.read(url)


def test_nothing_secret_is_shown() -> None:
    address = RedisAddress.read("redis+sentinel://u:secret@a/b?sentinel_password=hidden")
    for shown in (str(address), repr(address)):
        assert "secret" not in shown
        assert "hidden" not in shown
    assert str(address) == "Redis at a:26379 (b)"

"""Care of an index that nodes share: made anew while they serve, and looked at by the doctor."""

from collections.abc import Iterator

import pytest
from tests.cli.running import run
from tests.simulation.postgres_servers import new_ledger
from tests.standins import PURE

import rankd
from rankd.testing.redis_servers import say
from rankd.testing.servers import PostgresServer, RedisServer, postgres_server, redis_server


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server(durable=True) as server:
        yield server


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


def test_a_shared_index_is_made_anew_over_as_many_partitions_as_are_named(
    postgres: PostgresServer, redis: RedisServer
) -> None:
    with rankd.open(postgres.url) as ranks:
        ranks.board("arena").submit("ann", 4800)
        ranks.board("arena").submit("bob", 4700)
        position = ranks.position
        for partitions in (1, 3):
            index = f"{redis.url}?partitions={partitions}"
            done = run("rebuild", "--data", postgres.url, "--index", index)
            assert done.code == 0, done.err
            assert f"is new as of {position}; all nodes use it" in done.out
            assert say(redis, "GET", "rankd:epoch").endswith(f":{partitions}")
        names = say(redis, "KEYS", "{rankd:*}z*").splitlines()
        assert sum(int(say(redis, "ZCARD", name)) for name in names) == 2


def test_a_shared_index_is_compared_with_the_ledger(
    postgres: PostgresServer, redis: RedisServer
) -> None:
    """Whatever was changed in it is found: one too few, one too many, one not found by player."""
    ledger = new_ledger(postgres.url)
    options = "--data", ledger, "--index", f"{redis.url}?prefix=compared"
    with rankd.open(ledger) as ranks:
        ranks.board("arena").submit_many([(f"p{n}", n) for n in range(300)])
    assert run("rebuild", *options).code == 0
    done = run("verify", *options)
    assert done.code == 0, done.err
    assert "is whole" in done.out
    assert f"the index in {redis.url} agrees" in done.out

    for spoil in (_lose_an_entry, _add_an_entry, _forget_where_players_are):
        spoil(redis, "compared")
        done = run("verify", *options)
        assert done.code == 1
        assert "arena/all differs from the ledger at rank" in done.err
        assert run("rebuild", *options).code == 0
        assert run("verify", *options).code == 0


def _lose_an_entry(redis: RedisServer, prefix: str) -> None:
    (entries,) = say(redis, "KEYS", f"{{{prefix}:*}}z*").splitlines()
    assert say(redis, "ZREMRANGEBYRANK", entries, 100, 100) == "1"


def _add_an_entry(redis: RedisServer, prefix: str) -> None:
    (entries,) = say(redis, "KEYS", f"{{{prefix}:*}}z*").splitlines()
    assert say(redis, "ZADD", entries, 0, bytes(16) + b"ghost") == "1"


def _forget_where_players_are(redis: RedisServer, prefix: str) -> None:
    some, *_ = say(redis, "KEYS", f"{{{prefix}:*}}b*").splitlines()
    assert say(redis, "DEL", some) == "1"


def test_where_there_is_no_index_to_rebuild_that_is_said(
    postgres: PostgresServer, redis: RedisServer
) -> None:
    done = run("rebuild", "--data", postgres.url)
    assert done.code == 1
    assert "no index" in done.err
    assert "--index redis://" in done.err
    assert run("board", "apply", "b", "--data", "d").code == 0
    done = run("rebuild", "--data", "d", "--index", redis.url)
    assert done.code == 1
    assert "leave out --index" in done.err
    done = run("rebuild", "--data", postgres.url, "--index", "memcached://x")
    assert done.code in (1, 2)
    assert "or a URL of redis://" in done.err


def test_the_doctor_looks_at_the_servers(postgres: PostgresServer, redis: RedisServer) -> None:
    done = run("doctor", "--data", postgres.url, "--index", f"{redis.url}?prefix=none")
    lines = {line.split()[1]: line for line in done.out.splitlines()}
    assert set(lines) >= {"Python", "PostgreSQL", "durability", "schema", "Redis", "eviction"}
    assert "fsync on" in lines["durability"]
    assert "synchronous_commit on" in lines["durability"]
    assert "noeviction" in lines["eviction"]
    assert "writes nothing to disk" in lines["persistence"]
    assert "none yet" in lines["index"]
    for slow in (lines.pop("rank"), lines.pop("answers")):
        assert slow.startswith("warn" if PURE else "ok"), done.out
    assert all(line.startswith("ok") for name, line in lines.items() if name != "open"), done.out
    assert not say(redis, "KEYS", "none:*"), "nothing is made there"


def test_the_doctor_warns_of_what_would_lose_something() -> None:
    with (
        postgres_server() as postgres,
        redis_server(options={"maxmemory-policy": "allkeys-lru"}) as redis,
    ):
        done = run("doctor", "--data", postgres.url, "--index", redis.url)
        assert done.code == 1
        assert "turn it on" in done.out, "fsync is off there"
        lines = {line.split()[1]: line for line in done.out.splitlines()}
        assert lines["eviction"].startswith("warn")
        assert "CONFIG SET maxmemory-policy noeviction" in lines["eviction"]
        assert lines["Redis"].startswith("ok")
        assert "writes nothing to disk" in lines["persistence"]
        say(redis, "CONFIG", "SET", "save", "60 1")
        assert "saves now and then (save 60 1)" in run("doctor", "--index", redis.url).out
        assert "with no ledger in it yet" in done.out
    done = run("doctor", "--data", postgres.url, "--index", redis.url)
    assert done.code == 1
    assert done.out.count("can be reached from here") == 2


def test_the_doctor_tells_a_refused_password_from_a_server_that_is_away(
    postgres: PostgresServer,
) -> None:
    with redis_server() as redis:
        say(redis, "CONFIG", "SET", "requirepass", "secret")
        wrong = redis.url.replace("redis://", "redis://:wrong@")
        for url, said in ((redis.url, "wants a password"), (wrong, "refused the password")):
            done = run("doctor", "--data", postgres.url, "--index", url)
            assert done.code == 1
            assert f"it runs, and {said}" in done.out
            assert "can be reached from here" not in done.out
    nobody = postgres.url.replace("rankd@", "nobody:wrong@")
    done = run("doctor", "--data", nobody)
    assert done.code == 1
    assert "it runs, and refused the role or its password" in done.out
    assert "wrong" not in done.out


def test_a_password_is_not_printed(redis: RedisServer) -> None:
    url = "postgresql://rankd:topsecret@127.0.0.1:1/rankd"
    secret = redis.url.replace("redis://", "redis://rankd:topsecret@")
    for command in ("doctor", "rebuild"):
        done = run(command, "--data", url, "--index", secret)
        assert done.code == 1
        assert "topsecret" not in done.out + done.err

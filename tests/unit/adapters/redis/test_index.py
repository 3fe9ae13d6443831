"""What the index in Redis promises beyond the port: it is shared, bounded, and never the truth."""

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from redis import Redis

from rankd.adapters.memory.index import NativeIndex
from rankd.adapters.redis import RedisIndex, reads, writes
from rankd.adapters.redis import index as module
from rankd.adapters.redis.generations import Partitions
from rankd.adapters.redis.protocol import ScriptArgs, ScriptReply, partition_key
from rankd.errors import IndexForgot, IndexUnavailable
from rankd.model.facts import Position
from rankd.model.standing import Rank, TieRule
from rankd.ports import (
    APPLIES_REMEMBERED,
    DRAFT,
    EntryRange,
    Move,
    Moved,
    Ranked,
    RankIndex,
    Ranking,
    RankingShape,
)
from rankd.testing.redis_servers import (
    catch_up,
    fail_over,
    redis_cluster,
    replicated_redis,
    say,
    watched_redis,
)
from rankd.testing.servers import RedisServer, redis_server

pytestmark = [pytest.mark.anyio, pytest.mark.servers]
each_spread = pytest.mark.parametrize("partitions", [1, 3])

UrlOf = Callable[[int], str]
FOREVER = Ranking("race", "forever")
DAILY = Ranking("race", "daily")
REDONE = Ranking(DRAFT + "race", "forever")
PLAIN = RankingShape(16, dense=False)
DENSE = RankingShape(16, dense=True)


def key(score: int, tie: int = 0) -> bytes:
    return score.to_bytes(8, "big") + tie.to_bytes(8, "big")


def put(player: str, score: int, at: Ranking = FOREVER) -> Move:
    return Move(at, player, key(score))


async def fold(
    index: RankIndex,
    *moves: Move,
    opened: Mapping[Ranking, RankingShape] | None = None,
    **rest: Any,
) -> Sequence[Moved] | None:
    """Apply in turn, one position further."""
    after = await index.checkpoint()
    through = Position(after + 1)
    return await index.apply(moves, after=after, through=through, opened=opened or {}, **rest)


async def filled(index: RankIndex, applies: int = 5) -> None:
    """Make some applies, each of three players."""
    await fold(index, opened={FOREVER: PLAIN})
    for turn in range(1, applies):
        await fold(index, *(put(f"{turn}/{n}", turn * n) for n in range(3)))


async def players(index: RankIndex, ranking: Ranking = FOREVER) -> list[str]:
    page = await index.read(ranking, first=Rank(1), limit=1000)
    return [entry.player for entry in page.entries]


def keys_of(server: RedisServer, index: RedisIndex) -> list[str]:
    """Return the keys of an index's generation."""
    tag = f"{{{index._link.address.prefix}:{index._filling.generation.id}:"
    return [name for name in say(server, "KEYS", "*").splitlines() if name.startswith(tag)]


# ------------------------------------------------------------------------------ never the truth


@each_spread
async def test_an_emptied_redis_is_noticed_and_filled_anew(partitions: int) -> None:
    with redis_server() as server:
        async with AsyncExitStack() as stack:
            url = f"{server.url}?partitions={partitions}&timeout=30"
            one, two = [await stack.enter_async_context(RedisIndex.open(url)) for _ in range(2)]
            for ask in (
                lambda: one.read(FOREVER, first=Rank(1), limit=5),
                lambda: one.checkpoint(),
                lambda: one.rank(FOREVER, "1/1"),
                lambda: one.apply([put("x", 1)], after=Position(5), through=Position(6)),
            ):
                await filled(one)
                say(server, "FLUSHALL")
                assert await ask() in (None, 0, EntryRange([], 0, Position(0)))
                assert await two.checkpoint() == 0
                assert await two.unfinished() is None
            await filled(two)
            assert await players(one) == await players(two) != []


class Switch:
    """A door to one of several servers; whoever is inside is shown out when it changes."""

    def __init__(self, to: RedisServer) -> None:
        self.to = to
        self.port = 0
        self._inside: set[asyncio.StreamWriter] = set()
        self._passing: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Switch"]:
        door = await asyncio.start_server(self._enter, "127.0.0.1", 0)
        self.port = door.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            door.close()
            await self.switch(self.to)
            await door.wait_closed()

    async def switch(self, to: RedisServer) -> None:
        self.to = to
        for writer in self._inside:
            writer.close()
        await asyncio.gather(*self._passing, return_exceptions=True)
        self._inside.clear()

    async def _enter(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection(self.to.host, self.to.port)
        self._inside |= {writer, inner_writer}
        for source, target in ((reader, inner_writer), (inner_reader, writer)):
            task = asyncio.create_task(_pass_on(source, target))
            self._passing.add(task)
            task.add_done_callback(self._passing.discard)


async def _pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
    except OSError:
        pass
    finally:
        target.close()


@each_spread
async def test_a_replica_that_lagged_and_was_promoted_goes_on_from_where_it_is(
    partitions: int,
) -> None:
    judge = NativeIndex()
    await filled(judge, 8)
    with replicated_redis() as (master, replica):
        async with Switch(master).open() as switch:
            url = f"redis://127.0.0.1:{switch.port}?partitions={partitions}&timeout=30"
            async with RedisIndex.open(url) as index:
                await filled(index, 6)
                catch_up(replica, with_master=master)
                say(replica, "REPLICAOF", "NO", "ONE")
                for turn in (6, 7):
                    await fold(index, *(put(f"{turn}/{n}", turn * n) for n in range(3)))
                assert await index.checkpoint() == 8
                await switch.switch(replica)
                assert await index.checkpoint() == 6
                lost = await index.apply([put("x", 1)], after=Position(8), through=Position(9))
                assert lost is None
                for turn in (6, 7):
                    await fold(index, *(put(f"{turn}/{n}", turn * n) for n in range(3)))
                assert await index.digest() == judge.digest()


@each_spread
async def test_a_redis_that_came_back_empty_is_filled_anew(partitions: int) -> None:
    with redis_server() as one, redis_server() as two:
        async with Switch(one).open() as switch:
            url = f"redis://127.0.0.1:{switch.port}?partitions={partitions}&timeout=30"
            async with RedisIndex.open(url) as index:
                await filled(index)
                before = await index.digest()
                await switch.switch(two)
                assert await index.rank(FOREVER, "1/1") is None
                assert await index.checkpoint() == 0
                await filled(index)
                assert await index.digest() == before


# ------------------------------------------------------------------------- partitions that part


def saved(server: RedisServer, index: RedisIndex, partition: int) -> list[tuple[bytes, bytes]]:
    """Return all of a partition, as DUMP gives it."""
    with Redis(host=server.host, port=server.port) as redis:
        tag = partition_key(index._link.address.prefix, index._filling.generation, partition)[:-1]
        found: Any = redis.keys(tag + b"*")
        return [(name, redis.dump(name)) for name in found]


def put_back(
    server: RedisServer, index: RedisIndex, partition: int, kept: list[tuple[bytes, bytes]]
) -> None:
    with Redis(host=server.host, port=server.port) as redis:
        tag = partition_key(index._link.address.prefix, index._filling.generation, partition)[:-1]
        there: Any = redis.keys(tag + b"*")
        redis.delete(*there)
        for name, value in kept:
            redis.restore(name, 0, value)


@pytest.mark.parametrize("partition", [0, 1, 2])
async def test_a_partition_that_fell_back_is_brought_up_by_making_its_applies_again(
    server: RedisServer, url_of: UrlOf, partition: int
) -> None:
    judge = NativeIndex()
    async with RedisIndex.open(url_of(3)) as index:
        await filled(index, 4)
        kept = saved(server, index, partition)
        for turn in range(4, 9):
            await fold(index, *(put(f"{turn}/{n}", turn * n) for n in range(3)))
        await filled(judge, 4)
        before = await judge.read(FOREVER, first=Rank(1), limit=100)
        put_back(server, index, partition, kept)
        assert await index.read(FOREVER, first=Rank(1), limit=100) == before
        assert await index.checkpoint() == 4
        for turn in range(4, 9):
            assert await index.unfinished() == (turn, turn + 1)
            assert await index.step_after(Position(turn)) == turn + 1
            assert await index.apply([], after=Position(turn), through=Position(99)) is None
            moves = [put(f"{turn}/{n}", turn * n) for n in range(3)]
            assert await fold(index, *moves) == await fold(judge, *moves)
        assert await index.unfinished() is None
        assert await index.digest() == judge.digest()


async def test_partitions_that_have_parted_for_good_are_filled_anew(
    server: RedisServer, url_of: UrlOf
) -> None:
    """One fell back further than the others remember."""
    async with RedisIndex.open(url_of(2)) as index:
        await filled(index, 3)
        kept = saved(server, index, 1)
        for _ in range(APPLIES_REMEMBERED + 1):
            await fold(index)
        put_back(server, index, 1, kept)
        assert await index.rank(FOREVER, "1/1") is None
        assert await index.checkpoint() == 0
        await filled(index, 3)
        assert await index.checkpoint() == 3


async def test_a_partition_that_is_gone_takes_the_index_along(
    server: RedisServer, url_of: UrlOf
) -> None:
    async with RedisIndex.open(url_of(3)) as index:
        await filled(index)
        put_back(server, index, 2, [])
        assert await players(index) == []
        assert await index.checkpoint() == 0
        await filled(index)
        assert len(keys_of(server, index)) > 0


@pytest.mark.parametrize("taken", [0, 1, 2, 3])
async def test_whoever_makes_an_apply_again_completes_it(
    url_of: UrlOf, monkeypatch: pytest.MonkeyPatch, taken: int
) -> None:
    """A process ended when so many of three partitions had taken its apply."""
    left = [99]
    write = Partitions.write

    async def dying(filling: Partitions, partition: int, packed: ScriptArgs) -> ScriptReply:
        left[0] -= 1
        if left[0] < 0:
            raise IndexUnavailable("the process is gone")
        return await write(filling, partition, packed)

    monkeypatch.setattr(Partitions, "write", dying)
    async with AsyncExitStack() as stack:
        url = url_of(3)
        one, two = [await stack.enter_async_context(RedisIndex.open(url)) for _ in range(2)]
        await fold(one, *(put(f"p{n}", n) for n in range(30)), opened={FOREVER: DENSE})
        moves = [put(f"p{n}", 29 - n) for n in range(30)]
        moves += [Move(FOREVER, f"p{n}", key(7), None, TieRule.DENSE) for n in range(30)]
        judge = NativeIndex()
        await fold(judge, *(put(f"p{n}", n) for n in range(30)), opened={FOREVER: DENSE})
        expected = await fold(judge, *moves)
        left[0] = taken
        if taken < 3:
            with pytest.raises(IndexUnavailable):
                await one.apply(moves, after=Position(1), through=Position(5))
            left[0] = 99
            begun = None if taken == 0 else (1, 5)
            assert await two.unfinished() == begun
            assert await two.step_after(Position(1)) == (5 if begun else None)
            assert await two.checkpoint() == 1
            if begun:
                assert await two.apply([], after=Position(1), through=Position(2)) is None
        else:
            assert await one.apply(moves, after=Position(1), through=Position(5)) == expected
        left[0] = 99
        assert await two.apply(moves, after=Position(1), through=Position(5)) == expected
        assert await one.apply(moves, after=Position(1), through=Position(5)) == expected
        assert await two.digest() == judge.digest()
        assert await two.unfinished() is None


@pytest.mark.parametrize("near", [0, 512])
@each_spread
async def test_a_page_is_as_before_though_many_have_come_in_front_of_it(
    url_of: UrlOf, monkeypatch: pytest.MonkeyPatch, partitions: int, near: int
) -> None:
    """A process ended within an apply, having put many players before all others."""
    monkeypatch.setattr(writes, "MOVES_TOGETHER_MAX", 60)
    monkeypatch.setattr(reads, "PAGE_SLACK", 1)
    monkeypatch.setattr(reads, "TOP_ENTRIES", near)
    write = Partitions.write

    async def dying(filling: Partitions, partition: int, packed: ScriptArgs) -> ScriptReply:
        await write(filling, partition, packed)
        raise IndexUnavailable("the process is gone")

    async with RedisIndex.open(url_of(partitions)) as index:
        await fold(index, *(put(f"p{n}", 100 + n) for n in range(40)), opened={FOREVER: PLAIN})
        before = [await index.read(FOREVER, first=Rank(n), limit=5) for n in (1, 17, 38)]
        with monkeypatch.context() as patch:
            patch.setattr(Partitions, "write", dying)
            with pytest.raises(IndexUnavailable):
                await fold(index, *(put(f"q{n}", 0) for n in range(80)))
        assert await index.unfinished() == (1, 2)
        for number, first in enumerate((1, 17, 38)):
            page = await index.read(FOREVER, first=Rank(first), limit=5)
            assert page == before[number]


# ----------------------------------------------------------------------------- shared by nodes


@each_spread
async def test_nodes_that_fold_the_same_facts_get_the_same_answers(
    url_of: UrlOf, partitions: int
) -> None:
    judge = NativeIndex()
    applies = [
        [put(f"p{(turn * 7 + n) % 40}", (turn + n) % 9) for n in range(9)] for turn in range(20)
    ]
    opened = {FOREVER: DENSE}

    async def node(index: RankIndex) -> list[Sequence[Moved] | None]:
        return [
            await index.apply(
                moves, after=Position(turn), through=Position(turn + 1), opened=opened
            )
            for turn, moves in enumerate(applies)
        ]

    expected = await node(judge)
    async with AsyncExitStack() as stack:
        url = url_of(partitions)
        nodes = [await stack.enter_async_context(RedisIndex.open(url)) for _ in range(3)]
        for told in await asyncio.gather(*map(node, nodes)):
            assert told == expected
        assert await nodes[0].digest() == judge.digest()


@each_spread
async def test_a_steady_writer_makes_no_read_fail_or_lie(url_of: UrlOf, partitions: int) -> None:
    """In each apply all players change places; what any read tells is true at its position."""
    names = [f"p{n:02}" for n in range(24)]
    applies = 60

    def score(turn: int, n: int) -> int:
        return (n * 5 + turn * 7) % len(names)

    def order(turn: int) -> list[str]:
        return sorted(names, key=lambda name: score(turn, names.index(name)))

    async with AsyncExitStack() as stack:
        url = url_of(partitions)
        writer, reader = [await stack.enter_async_context(RedisIndex.open(url)) for _ in range(2)]

        async def write() -> None:
            for turn in range(1, applies):
                moves = [put(name, score(turn, n)) for n, name in enumerate(names)]
                assert await fold(writer, *moves) is not None

        first = [put(name, score(0, n)) for n, name in enumerate(names)]
        await fold(writer, *first, opened={FOREVER: PLAIN})
        writing = asyncio.create_task(write())
        seen: set[int] = set()
        while not writing.done():
            page, some, one = await asyncio.gather(
                reader.read(FOREVER, first=Rank(5), limit=7),
                reader.ranks(FOREVER, names[:5]),
                reader.rank(FOREVER, "p07"),
            )
            expected = order(page.as_of - 1)
            assert [entry.player for entry in page.entries] == expected[4:11]
            for name, ranked in zip([*names[:5], "p07"], [*some, one], strict=True):
                assert ranked is not None
                assert order(ranked.as_of - 1)[ranked.rank - 1] == name
                assert ranked.total == len(names)
                seen.add(ranked.as_of)
        await writing
        assert len(seen) > 1
        assert await players(reader) == order(applies - 1)


@each_spread
async def test_positions_are_exact_where_a_double_is_not(url_of: UrlOf, partitions: int) -> None:
    far = 2**60
    async with RedisIndex.open(url_of(partitions)) as index:
        await index.apply(
            [put("a", 1)], after=Position(0), through=Position(far), opened={FOREVER: PLAIN}
        )
        assert await index.apply([], after=Position(far + 1), through=Position(far + 2)) is None
        assert await index.apply([], after=Position(far - 1), through=Position(far + 2)) is None
        assert await index.apply([put("a", 2)], after=Position(far), through=Position(far + 1))
        assert await index.checkpoint() == far + 1
        assert list(await index.order_keys([(FOREVER, "a")], at=Position(far))) == [key(1)]


@each_spread
async def test_its_digest_is_the_native_indexs(url_of: UrlOf, partitions: int) -> None:
    judge = NativeIndex()
    everywhere = {FOREVER: PLAIN, DAILY: DENSE, Ranking("race", "w", "s"): PLAIN}
    crowd = [put(f"p{n}", n % 7) for n in range(5000)]
    shown = [Move(DAILY, f"é{n}", key(n), b"m" * n) for n in range(70)]
    async with RedisIndex.open(url_of(partitions)) as index:
        for each in (judge, index):
            await fold(each, *crowd, *shown, opened=everywhere)
        await index.stage([put("x", 1, REDONE)], opened={REDONE: PLAIN})
        assert await index.digest() == judge.digest()
        await fold(index, put("p0", 1))
        assert await index.digest() != judge.digest()


# -------------------------------------------------------------------------------------- drafts


@each_spread
async def test_drafts_of_two_nodes_do_not_meet(url_of: UrlOf, partitions: int) -> None:
    async with AsyncExitStack() as stack:
        url = url_of(partitions)
        one, two = [await stack.enter_async_context(RedisIndex.open(url)) for _ in range(2)]
        await fold(one, put("old", 1), opened={FOREVER: PLAIN})
        for node in (one, two):
            await node.stage([put("new", 2, REDONE)], opened={REDONE: PLAIN})
        assert await one.rankings(REDONE.board) == [REDONE]
        assert await fold(one, adopted={REDONE: FOREVER}) == []
        assert await players(two, REDONE) == ["new"]
        again = await two.apply(
            [], after=Position(1), through=Position(2), adopted={REDONE: FOREVER}
        )
        assert again == []
        assert await two.rankings(REDONE.board) == []
        assert await players(two) == ["new"]


async def test_a_draft_that_nobody_adopted_goes_with_its_maker(
    server: RedisServer, url_of: UrlOf
) -> None:
    async with RedisIndex.open(url_of(1)) as one:
        await fold(one)
        before = sorted(keys_of(server, one))
        async with RedisIndex.open(url_of(1)) as two:
            await two.stage([put("x", 1, REDONE)], opened={REDONE: PLAIN})
            assert len(keys_of(server, one)) > len(before)
        await fold(one)
        assert {re.sub(r"a\d+$", "a", name) for name in keys_of(server, one)} == {
            re.sub(r"a\d+$", "a", name) for name in before
        }


async def test_a_draft_is_lost_with_the_index_it_was_staged_in(
    server: RedisServer, url_of: UrlOf
) -> None:
    async with RedisIndex.open(url_of(2)) as index:
        await index.stage([put("x", 1, REDONE)], opened={REDONE: PLAIN})
        put_back(server, index, 1, [])
        assert await index.checkpoint() == 0
        with pytest.raises(IndexForgot):
            await fold(index, adopted={REDONE: FOREVER})
        with pytest.raises(IndexUnavailable, match="gone with the index"):
            await index.stage([put("y", 1, REDONE)])


# -------------------------------------------------------------------------------------- generations


@each_spread
async def test_others_follow_to_the_index_that_took_over_and_the_old_one_goes(
    server: RedisServer, url_of: UrlOf, partitions: int
) -> None:
    async with AsyncExitStack() as stack:
        url = url_of(partitions)
        one, two = [await stack.enter_async_context(RedisIndex.open(url)) for _ in range(2)]
        await filled(one)
        await one.stage([put("x", 1, REDONE)], opened={REDONE: PLAIN})
        await fold(one, put("d", 1, DAILY), opened={DAILY: DENSE})
        old = keys_of(server, one)
        assert old
        beside = await one.beside()
        await fold(beside, put("only", 1), opened={FOREVER: PLAIN})
        assert await beside.take_over()
        assert await two.rank(FOREVER, "only") == Ranked(Rank(1), key(1), None, 1, Position(1))
        assert await players(one) == ["only"]
        assert set(say(server, "KEYS", "*").splitlines()).isdisjoint(old)
        one._staged.clear()  # It went with the old one.


async def test_of_two_that_want_to_take_over_one_does(url_of: UrlOf) -> None:
    async with RedisIndex.open(url_of(2)) as index:
        first, second = await index.beside(), await index.beside()
        assert first._filling.generation != second._filling.generation
        for number, beside in enumerate((first, second)):
            await fold(beside, put(f"{number}", 1), opened={FOREVER: PLAIN})
        assert await first.take_over()
        assert not await second.take_over()
        assert await players(index) == await players(second) == ["0"]
        third, fourth = await index.beside(), await index.beside()
        assert await third.take_over()
        assert await players(index) == []
        assert not await fourth.take_over(), "the one it was made beside lives no longer"


async def test_what_a_crashed_rebuild_left_is_swept(server: RedisServer, url_of: UrlOf) -> None:
    async with RedisIndex.open(url_of(2)) as index:
        await filled(index)
        crashed, alive = await index.beside(), await index.beside()
        for beside in (crashed, alive):
            await fold(beside, put("x", 1), opened={FOREVER: PLAIN})
        assert await index.sweep() == 0, "each may still be filled"
        await fold(alive, put("y", 1))
        assert await index.sweep() == 1
        assert keys_of(server, crashed) == []
        assert await players(alive) == ["x", "y"]
        assert await index.sweep(at_once=True) == 1
        assert keys_of(server, alive) == []
        with pytest.raises(IndexUnavailable, match="begin again"):
            await alive.checkpoint()
        assert await index.checkpoint() == 5


async def test_a_rebuilt_index_has_the_partitions_that_the_url_says(url_of: UrlOf) -> None:
    async with RedisIndex.open(url_of(2)) as index:
        await filled(index)
    async with RedisIndex.open(url_of(4)) as index:
        assert any("has 2 partitions, not 4" in note for note in index.notes)
        assert await index.checkpoint() == 5
        beside = await index.beside()
        await filled(beside)
        assert await beside.take_over()
        assert index._filling.count == 2
        assert await index.checkpoint() == 5
        assert index._filling.count == 4


# ------------------------------------------------------------------------------------- bounded


@each_spread
async def test_what_is_remembered_is_bounded(
    server: RedisServer, url_of: UrlOf, partitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with RedisIndex.open(url_of(partitions)) as index:
        await filled(index)

        def remembered() -> int:
            return sum("}a" in name for name in keys_of(server, index))

        for _ in range(2 * APPLIES_REMEMBERED):
            await fold(index, put("x", 1))
        assert remembered() == APPLIES_REMEMBERED * partitions
        monkeypatch.setattr(writes, "REMEMBERED_BYTES_MAX", 2000)
        await fold(index, *(put(f"y{n}", n) for n in range(400)))
        assert remembered() == partitions, "the last one is always remembered"
        with pytest.raises(IndexForgot):
            await index.order_keys([(FOREVER, "x")], at=Position(await index.checkpoint() - 2))
        prefix, generation = index._link.address.prefix, index._filling.generation
        for partition in range(partitions):
            name = partition_key(prefix, generation, partition)
            assert 0 < int(say(server, "HGET", name, "bytes")) < 60_000


@each_spread
async def test_what_is_dropped_is_freed_a_little_at_a_time(
    server: RedisServer, url_of: UrlOf, partitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writes, "PLAYERS_PER_BUCKET", 2)
    monkeypatch.setattr(writes, "KEYS_RELEASED_PER_APPLY", 9)
    monkeypatch.setattr(writes, "APPLIES_REMEMBERED", 2)
    async with RedisIndex.open(url_of(partitions)) as index:
        await fold(index, opened={FOREVER: PLAIN})
        crowd = [Move(DAILY, f"p{n}", key(n % 5), b"m") for n in range(100)]
        for _ in range(3):
            await fold(index)
        empty = len(keys_of(server, index))
        await fold(index, *crowd, opened={DAILY: DENSE})
        await fold(index, dropped=[DAILY])
        full = len(keys_of(server, index))
        assert full > empty + 40
        before = full
        for _ in range(30):
            await fold(index)
            now = len(keys_of(server, index))
            assert now >= before - partitions * (9 + 4 + 1)
            before = now
        assert before == empty


async def test_buckets_stay_packed_as_a_ranking_grows(server: RedisServer, url_of: UrlOf) -> None:
    async with RedisIndex.open(url_of(1)) as index:
        await fold(index, opened={FOREVER: PLAIN})
        for start in range(0, 6000, 1500):
            await fold(index, *(put(f"player-{n:09}", n) for n in range(start, start + 1500)))
        buckets = [name for name in keys_of(server, index) if "}b" in name]
        assert len(buckets) == -(-6000 // writes.PLAYERS_PER_BUCKET)
        sizes = [int(say(server, "HLEN", name)) for name in buckets]
        assert sum(sizes) == 6000
        assert max(sizes) < 256
        assert {say(server, "OBJECT", "ENCODING", name) for name in buckets} <= {
            "listpack",
            "ziplist",
        }


@each_spread
async def test_ranks_that_are_wanted_at_once_are_asked_for_together(
    url_of: UrlOf, partitions: int
) -> None:
    async with RedisIndex.open(url_of(partitions)) as index:
        await fold(index, *(put(f"p{n}", n) for n in range(300)), opened={FOREVER: PLAIN})
        calls = index._link.calls
        found = await asyncio.gather(*(index.rank(FOREVER, f"p{n}") for n in range(301)))
        assert [one.rank for one in found if one is not None] == list(range(1, 301))
        assert found[300] is None
        assert index._link.calls - calls == (1 if partitions == 1 else 2 * partitions)


async def test_what_was_told_before_another_node_moved_is_not_relied_on(url_of: UrlOf) -> None:
    async with AsyncExitStack() as stack:
        url = url_of(3)
        one, two = [await stack.enter_async_context(RedisIndex.open(url)) for _ in range(2)]
        await fold(one, *(put(f"p{n}", n) for n in range(9)), opened={FOREVER: PLAIN})
        await one.order_keys([(FOREVER, "p0")])
        await fold(two, put("p0", 50))
        told = await one.apply([put("p0", 3)], after=Position(2), through=Position(3))
        assert told == [Moved(Rank(9), Rank(3), 9)]
        assert (await players(two))[:4] == ["p1", "p2", "p0", "p3"]


@pytest.mark.parametrize("at", [None, Position(5)])
@each_spread
async def test_an_apply_is_one_call_to_each_partition(
    url_of: UrlOf, partitions: int, at: Position | None
) -> None:
    """What was just asked, as of now or of a position, is not asked again."""
    async with RedisIndex.open(url_of(partitions)) as index:
        await filled(index)
        await index.order_keys([(FOREVER, "x")], at=at)
        calls = index._link.calls
        await index.apply([put("x", 1)], after=Position(5), through=Position(6))
        assert index._link.calls - calls == partitions


async def test_whoever_gives_up_waiting_for_a_rank_spoils_nothing(url_of: UrlOf) -> None:
    async with RedisIndex.open(url_of(1)) as index:
        await filled(index)
        waiting = [asyncio.create_task(index.rank(FOREVER, "1/1")) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[1].cancel()
        first, _, last = await asyncio.gather(*waiting, return_exceptions=True)
        assert first == last == await index.rank(FOREVER, "1/1")


async def test_everybody_who_waits_is_told_of_a_failure(
    url_of: UrlOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def failing(*_: Any, **__: Any) -> ScriptReply:
        raise IndexUnavailable("gone")

    async with RedisIndex.open(url_of(1)) as index:
        with monkeypatch.context() as patch:
            patch.setattr(Partitions, "read", failing)
            calls = [index.rank(FOREVER, "x") for _ in range(3)]
            failed = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(one) for one in failed] == [IndexUnavailable] * 3
        assert len(set(map(id, failed))) == 3
        assert await index.rank(FOREVER, "x") is None


async def test_whoever_waits_is_told_when_the_index_is_closed(
    url_of: UrlOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RANKS_TOGETHER_MAX", 1)
    monkeypatch.setattr(module, "RANK_CALLS_MAX", 1)
    async with RedisIndex.open(url_of(1)) as index:
        monkeypatch.setattr(Partitions, "read", never)
        waiting = [asyncio.create_task(index.rank(FOREVER, "x")) for _ in range(3)]
        for _ in range(5):
            await asyncio.sleep(0)
    told = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(one) for one in told] == [IndexUnavailable] * 3


@pytest.mark.parametrize("turns", range(5))
async def test_whoever_waits_is_told_whenever_the_index_is_closed(
    url_of: UrlOf, monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    """Also if the call that was to ask had not begun."""
    monkeypatch.setattr(module, "RANKS_TOGETHER_MAX", 2)
    told: list[Ranked | None] = []
    async with RedisIndex.open(url_of(1)) as index:
        monkeypatch.setattr(Partitions, "read", never)
        waiting = [asyncio.create_task(index.rank(FOREVER, "x")) for _ in range(3)]
        await asyncio.sleep(0)
        assert all(index.ask_rank(FOREVER, "x", told.append) for _ in range(8))
        for _ in range(turns):
            await asyncio.sleep(0)
    async with asyncio.timeout(60):
        failed = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(one) for one in failed] == [IndexUnavailable] * 3
    assert told == [None] * 8


async def test_whoever_is_asked_for_ahead_is_told_later_and_once(url_of: UrlOf) -> None:
    async with RedisIndex.open(url_of(3)) as index:
        await filled(index)
        told: dict[int, list[Ranked | None]] = {}
        names = ["1/1", "nobody", "2/2", "1/1"]
        for place, name in enumerate(names):
            assert index.ask_rank(FOREVER, name, told.setdefault(place, []).append)
        assert not any(told.values())
        expected = [[await index.rank(FOREVER, name)] for name in names]
        assert list(told.values()) == expected


@pytest.mark.parametrize("fails", [False, True])
async def test_a_mistake_of_one_who_is_told_is_none_of_the_others_business(
    url_of: UrlOf, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fails: bool
) -> None:
    async def failing(*_: Any, **__: Any) -> ScriptReply:
        raise IndexUnavailable("gone")

    def mistaken(_: Ranked | None) -> None:
        raise ValueError("injected")

    async with RedisIndex.open(url_of(1)) as index:
        await filled(index)
        expected = None if fails else await index.rank(FOREVER, "1/1")
        told: list[Ranked | None] = []
        with monkeypatch.context() as patch:
            if fails:
                patch.setattr(Partitions, "read", failing)
            for tell in (told.append, mistaken, told.append):
                index.ask_rank(FOREVER, "1/1", tell)
            await asyncio.gather(index.rank(FOREVER, "1/1"), return_exceptions=True)
        assert told == [expected] * 2
        assert "injected" in caplog.text
        assert await index.rank(FOREVER, "1/1") is not None


async def never(*_: Any, **__: Any) -> ScriptReply:
    await asyncio.Event().wait()
    raise AssertionError


async def test_drafts_are_staged_however_fast_others_apply(
    url_of: UrlOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To look up a draft's entries the partitions have to agree, and twice they do not."""
    settled, failures = reads.PartitionReader._settled, [2]

    async def unsettled(reader: reads.PartitionReader, *args: Any, **more: Any) -> Any:
        failures[0] -= 1
        if failures[0] >= 0:
            raise reads.PositionsDiffer
        return await settled(reader, *args, **more)

    async with RedisIndex.open(url_of(2)) as index:
        monkeypatch.setattr(reads.PartitionReader, "_settled", unsettled)
        staged = await index.stage([put("x", 1, REDONE)], opened={REDONE: PLAIN})
        assert staged == [Moved(None, Rank(1), 1)]
        failures[0] = 99
        with pytest.raises(IndexUnavailable):
            await index.stage([put("y", 1, REDONE)])
        failures[0] = 0


async def test_no_more_wait_for_ranks_than_may(
    url_of: UrlOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RANKS_WAITING_MAX", 2)
    async with RedisIndex.open(url_of(1)) as index:
        calls = [index.rank(FOREVER, "x") for _ in range(3)]
        told = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(one) for one in told] == [type(None), type(None), IndexUnavailable]


# ------------------------------------------------------------------------------------ sentinels


async def test_a_failover_is_followed() -> None:
    with watched_redis() as watched:
        async with RedisIndex.open(f"{watched.url}?timeout=30") as index:
            await filled(index)
            before = await index.digest()
            catch_up(watched.replica, with_master=watched.master)
            fail_over(watched)
            os.kill(watched.master.pid, signal.SIGKILL)
            assert await index.checkpoint() == 5
            assert await index.digest() == before
            assert await fold(index, put("0", 0)) == [Moved(None, Rank(1), 13)]
            assert int(say(watched.replica, "DBSIZE")) > 0


# -------------------------------------------------------------------------------------- cluster


async def test_while_a_cluster_moves_a_slot_nothing_is_torn() -> None:
    """Some keys are here, some there: whatever is asked or applied fails, and nothing is lost."""
    with redis_cluster(masters=2) as cluster:
        async with RedisIndex.open(f"{cluster.url}?partitions=1&timeout=30") as index:
            await filled(index)
            before, generation = await index.digest(), index._filling.generation
            slot = int(say(cluster.masters[0], "CLUSTER", "KEYSLOT", index._filling._keys[0]))
            here, there = cluster.masters if slot < 8192 else cluster.masters[::-1]
            names = {server: say(server, "CLUSTER", "MYID") for server in cluster.masters}
            say(there, "CLUSTER", "SETSLOT", slot, "IMPORTING", names[here])
            say(here, "CLUSTER", "SETSLOT", slot, "MIGRATING", names[there])
            keys = sorted(keys_of(here, index))
            for some in ([], [key for key in keys if "}b" in key], keys):
                for name in some:
                    say(here, "MIGRATE", there.host, there.port, name, 0, 30_000)
                if some is not keys:
                    with pytest.raises(IndexUnavailable):
                        await index.apply([put("x", 1)], after=Position(5), through=Position(6))
            for server in (there, here):
                say(server, "CLUSTER", "SETSLOT", slot, "NODE", names[there])
            assert await index.checkpoint() == 5
            assert index._filling.generation == generation
            assert await index.digest() == before
            assert await index.apply([put("x", 1)], after=Position(5), through=Position(6))


async def test_a_pointer_that_was_evicted_is_not_believed_to_be_all_that_was(
    server: RedisServer, url_of: UrlOf
) -> None:
    """Both nodes begin anew, in one index, and of the old one nothing is left."""
    url = url_of(1)
    async with RedisIndex.open(url) as one, RedisIndex.open(url) as two:
        await one.apply(
            [put("ann", 1)], after=Position(0), through=Position(1), opened={FOREVER: PLAIN}
        )
        old = one._filling.generation
        say(server, "DEL", f"{one._link.address.prefix}:epoch")
        await one.look_again()
        await two.look_again()
        assert one._filling.generation == two._filling.generation != old
        assert (await one.checkpoint(), await two.checkpoint()) == (0, 0)
        assert not say(server, "KEYS", f"*{old.id}*")


async def test_an_index_that_took_over_unnoticed_is_gone_over_to(
    server: RedisServer, url_of: UrlOf
) -> None:
    """Though all of the old one is still there, as after its pointer was lost and made again."""
    url = url_of(1)
    async with RedisIndex.open(url) as one:
        await one.apply(
            [put("ann", 1)], after=Position(0), through=Position(1), opened={FOREVER: PLAIN}
        )
        say(server, "DEL", f"{one._link.address.prefix}:epoch")
        async with RedisIndex.open(url) as another:
            await another.apply(
                [put("bob", 1)], after=Position(0), through=Position(2), opened={FOREVER: PLAIN}
            )
            assert await one.checkpoint() == 1
            await one.look_again()
            assert await one.checkpoint() == 2


async def test_the_server_is_checked_now_and_then_though_nothing_happened(
    server: RedisServer, url_of: UrlOf
) -> None:
    async with RedisIndex.open(url_of(1)) as index:
        say(server, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        try:
            await index.look_again()
            assert not any("memory runs out" in note for note in index.notes)
            index._check_at = 0.0
            await index.look_again()
            assert any("memory runs out" in note for note in index.notes)
        finally:
            say(server, "CONFIG", "SET", "maxmemory-policy", "noeviction")

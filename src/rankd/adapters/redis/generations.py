"""Generations of the index and their partitions: which one is live, and removal of the others.

A pointer names the live generation. A generation is listed before any key of it exists, and pointed
to only once all of its partitions exist. So the list contains everything a crash leaves behind, and
a live generation that lacks a partition has lost it.
"""

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Sequence
from functools import lru_cache, partial
from typing import Any, TypeVar

from rankd.adapters.redis.client import APPLY, DROP, FILL, POINT, READ, RedisClient
from rankd.adapters.redis.protocol import (
    Generation,
    PlayerPartition,
    ScriptArgs,
    ScriptReply,
    home_of,
    pack,
    partition_key,
    unpack,
)
from rankd.errors import InvalidSetting

T = TypeVar("T")

HOMES_REMEMBERED = 65_536
"""Cached partitions of players: a player that is looked up is mostly moved next."""


class GenerationGone(Exception):
    """Redis lacks this generation: another one replaced it, or the data was lost."""


class Partitions:
    """Partitions of one generation."""

    def __init__(self, link: RedisClient, generation: Generation) -> None:
        self.generation = generation
        self.count = generation.partitions
        self._link = link
        prefix = link.address.prefix
        self._keys = [partition_key(prefix, generation, number) for number in range(self.count)]
        self.home: Callable[[str], PlayerPartition] = lru_cache(HOMES_REMEMBERED)(
            partial(home_of, generation)
        )
        """Return the partition and hash of a player, cached."""

    async def write(self, partition: int, packed: ScriptArgs) -> ScriptReply:
        """Run apply.lua. Raises GenerationGone, IndexUnavailable."""
        return _living(await self._link.run(APPLY, self._keys[partition], *packed))

    async def fill(self, partition: int, packed: ScriptArgs) -> None:
        """Run fill.lua. Raises GenerationGone, IndexUnavailable."""
        _living(await self._link.run(FILL, self._keys[partition], *packed))

    async def read(
        self, partition: int, packed: ScriptArgs, *, replica: bool = False
    ) -> ScriptReply:
        """Run read.lua. Raises GenerationGone, IndexUnavailable."""
        reply = await self._link.run(READ, self._keys[partition], *packed, replica=replica)
        return _living(reply)


def _living(reply: Sequence[Any]) -> ScriptReply:
    answer = unpack(reply)
    if answer.status == "gone":
        raise GenerationGone
    return answer


async def together(calls: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Await all calls, then raise the first error in their order, if any."""
    if len(calls) == 1:
        return [await calls[0]]
    done = await asyncio.gather(*calls, return_exceptions=True)
    for one in done:
        if isinstance(one, BaseException):
            raise one
    return done  # type: ignore[return-value]


KEYS_DROPPED_TOGETHER = 500
"""Keys freed per call: it blocks Redis for about a millisecond."""

EPOCH_TRIES = 4
"""Times that a call follows the pointer while other nodes move it."""


class Generations:
    """Generations of one index: those with one prefix in one Redis."""

    def __init__(self, link: RedisClient) -> None:
        self._link = link
        prefix = link.address.prefix
        self._prefix = prefix
        self._pointer = f"{prefix}:epoch".encode()
        self._begun = f"{prefix}:epochs".encode()
        self._left = f"{prefix}:left".encode()
        self._rebuilder = f"{prefix}:filler".encode()
        self._owner = f"{prefix}:ledger".encode()

    async def living(self) -> Generation:
        """Return the live generation; begin one if there is none."""
        found = await self.pointed()
        return found if found is not None else await self.replace(None)

    async def pointed(self) -> Generation | None:
        """Return the generation pointed to, None without a pointer. Raises InvalidSetting."""
        reply = await self._link.command("GET", self._pointer)
        if reply is None:
            return None
        found = Generation.read(reply.decode())
        if found is None:
            raise InvalidSetting(
                setting="index",
                source=str(self._link.address),
                problem=f"holds an index of another version under the prefix {self._prefix!r}: "
                "give this one another prefix",
            )
        return found

    async def begin(self) -> Generation:
        """Create an empty generation, not pointed to yet."""
        generation = Generation(secrets.token_hex(5), self._link.address.partitions)
        await self._link.command("SADD", self._begun, str(generation))
        for partition in range(generation.partitions):
            key = partition_key(self._prefix, generation, partition)
            await self._link.command("HSET", key, "at", "0", "gens", "0", "epoch", generation.id)
        return generation

    async def replace(self, lost: Generation | None) -> Generation:
        """Replace a lost generation by an empty one; return the generation that is now live."""
        fresh = await self.begin()
        living = await self.point(of=lost, to=fresh)
        if living != fresh:  # Another node was first.
            await self.drop(fresh)
        if lost is not None:
            await self.drop(lost)
        return living

    async def point(self, *, of: Generation | None, to: Generation) -> Generation:
        """Compare-and-set the pointer from ``of`` to ``to``; return the generation it now names."""
        believed = "" if of is None else str(of)
        reply = await self._link.run(POINT, self._pointer, believed.encode(), str(to).encode())
        found = Generation.read(reply.decode())
        assert found is not None, "the pointer leads to an index of another version"
        return found

    async def drop(self, generation: Generation) -> None:
        """Delete a generation, a few keys per call."""
        for partition in range(generation.partitions):
            key = partition_key(self._prefix, generation, partition)
            more = True
            while more:
                more = (await self._link.run(DROP, key, *pack([KEYS_DROPPED_TOGETHER])))[
                    0
                ] == b"more"
        await self._link.command("SREM", self._begun, str(generation))
        await self._link.command("HDEL", self._left, str(generation))

    async def claim(self, who: str, *, seconds: float) -> bool:
        """Take or renew the lease to rebuild the index; False if another node has it."""
        milliseconds = max(1, round(seconds * 1000))
        words = ("SET", self._rebuilder, who, "NX", "PX", milliseconds)
        if await self._link.command(*words) is not None:
            return True
        if await self._link.command("GET", self._rebuilder) != who.encode():
            return False
        await self._link.command("PEXPIRE", self._rebuilder, milliseconds)
        return True

    async def release(self, who: str) -> None:
        """Give up the lease, if this node has it."""
        if await self._link.command("GET", self._rebuilder) == who.encode():
            await self._link.command("DEL", self._rebuilder)

    async def belong(self, ledger: str) -> bool:
        """Record the ledger that the index is built from; False if another is recorded."""
        if ledger:
            await self._link.command("SET", self._owner, ledger, "NX")
        owner = await self._link.command("GET", self._owner)
        return owner is None or owner == ledger.encode()

    async def sweep(self, *, at_once: bool) -> list[Generation]:
        """Drop generations that are not live and did not grow since last time; ``at_once`` all."""
        living, dropped = await self.living(), []
        for name in await self._link.command("SMEMBERS", self._begun):
            generation = Generation.read(name.decode())
            if generation is None or generation == living:
                continue
            if at_once or not await self._has_moved(generation):
                await self.drop(generation)
                dropped.append(generation)
        return dropped

    async def _has_moved(self, generation: Generation) -> bool:
        """Record how far a generation has come; return whether that changed since the last call."""
        positions = []
        for partition in range(generation.partitions):
            key = partition_key(self._prefix, generation, partition)
            reply: Any = await self._link.command("HMGET", key, "at", "filled")
            positions += [word or b"-" for word in reply]
        now = b" ".join(positions)
        before = await self._link.command("HGET", self._left, str(generation))
        await self._link.command("HSET", self._left, str(generation), now)
        return bool(before != now)

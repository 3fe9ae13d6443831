"""Partitions of one generation of the index, and the scripts run on them."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import lru_cache, partial
from typing import Any, TypeVar

from rankd.adapters.redis.client import APPLY, FILL, READ, RedisClient
from rankd.adapters.redis.codec import ScriptArgs, ScriptReply, unpack
from rankd.adapters.redis.keys import Generation, PlayerPartition, home_of, partition_key

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

"""Bulk load: copy an in-process index into Redis, entry by entry, to rebuild a lost one.

Folding a ledger into Redis looks up and counts entries for every fact. An in-process index folds it
in a tenth of the time; then only the final entries matter, so the copy looks up, counts and
remembers nothing. The number of buckets of a ranking is known before its first entry is written, so
none is ever split. The copy is read only once it is complete.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple, cast

from rankd.adapters.redis.generations import Partitions, together
from rankd.adapters.redis.protocol import (
    ABSENT,
    PlayerPartition,
    ScriptArgs,
    home_of,
    name_of,
    pack,
    partition_of_score,
    shape_text,
)
from rankd.adapters.redis.writes import PLAYERS_PER_BUCKET
from rankd.model.facts import Position
from rankd.model.order import TIE_BREAK_BYTES
from rankd.model.standing import Rank
from rankd.ports import EntryColumns, ImmediateIndex, Progress, RankIndex, Ranking, RankingShape

COPIED_TOGETHER = 1_000
"""Entries per script: it blocks Redis for some four milliseconds."""

COPY_CALLS_MAX = 4
"""Concurrent scripts, so that Redis never waits for the next."""


@dataclass(slots=True)
class _TiedScore:
    """Score of the last entries of a page: the next page may continue it."""

    score: bytes = b""
    entries: int = 0


@dataclass(slots=True)
class _Block:
    """Consecutive entries of one ranking, with their partitions."""

    ranking: Ranking
    shape: RankingShape
    buckets: int
    """Buckets of the ranking in each partition."""
    columns: EntryColumns
    homes: list[PlayerPartition]
    scores: list[tuple[bytes, int]]
    """Distinct scores counted completely, with their number of entries; for dense rankings."""
    bucket_of: Callable[[int], int] = field(init=False)

    def __post_init__(self) -> None:
        self.bucket_of = _bucketing(self.buckets)


class _PartitionLoad(NamedTuple):
    """Part of a block that is sent to one partition."""

    head: list[Any]
    strings: list[bytes]


async def copy(source: RankIndex, to: Partitions) -> AsyncIterator[Progress]:
    """Copy all rankings and yield the progress. The source must not change meanwhile.

    Raises GenerationGone, IndexUnavailable.
    """
    at, shapes = await source.checkpoint(), await source.shapes()
    total = sum([await source.count(ranking) for ranking in shapes])
    done = 0
    under_way: set[asyncio.Task[None]] = set()
    try:
        async for blocks in _gathered(_blocks(source, shapes, to, at)):
            under_way.add(asyncio.create_task(_send(to, blocks)))
            await asyncio.sleep(0)  # Send it: the next is read while Redis works.
            if len(under_way) == COPY_CALLS_MAX:
                sent, under_way = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
                for call in sent:
                    call.result()
            done += sum(len(block.homes) for block in blocks)
            yield Progress(done, total, "copying", "standing")
        for call in under_way:
            await call
    finally:
        for call in under_way:
            call.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)


# ------------------------------------------------------------------------------ reading


async def _blocks(
    source: RankIndex, shapes: Mapping[Ranking, RankingShape], to: Partitions, at: Position
) -> AsyncIterator[_Block]:
    for ranking, shape in shapes.items():
        first, last = Rank(1), _TiedScore()
        while True:
            columns = await _read(source, ranking, first)
            assert columns.as_of == at, f"the index that is copied moved from {at}"
            first = Rank(first + len(columns.players))
            ended = first > columns.total
            homes = [home_of(to.generation, player) for player in columns.players]
            scores = _scores(columns, shape, last, ended=ended) if shape.dense else []
            yield _Block(ranking, shape, _buckets(columns.total, to), columns, homes, scores)
            if ended:
                break


async def _gathered(blocks: AsyncIterator[_Block]) -> AsyncIterator[list[_Block]]:
    """Join blocks until they are worth a call: there may be many small rankings."""
    gathered: list[_Block] = []
    count = 0
    async for block in blocks:
        gathered.append(block)
        count += 1 + len(block.homes)
        if count >= COPIED_TOGETHER:
            yield gathered
            gathered, count = [], 0
    if gathered:
        yield gathered


async def _read(source: RankIndex, ranking: Ranking, first: Rank) -> EntryColumns:
    if source.immediate:
        near = cast("ImmediateIndex", source)
        return near.read_now(ranking, first=first, limit=COPIED_TOGETHER)
    entries, total, as_of = await source.read(ranking, first=first, limit=COPIED_TOGETHER)
    players = [entry.player for entry in entries]
    keys = b"".join(entry.order_key for entry in entries)
    beside = [entry.metadata for entry in entries]
    return EntryColumns(players, keys, beside if any(beside) else None, total, as_of)


def _scores(
    columns: EntryColumns, shape: RankingShape, last: _TiedScore, *, ended: bool
) -> list[tuple[bytes, int]]:
    """Return the distinct scores that a page completes; its last one waits for the next page.

    So each score is sent once, and a repeated call counts no entry twice.
    """
    keys, width = columns.order_keys, shape.key_bytes
    length = width - TIE_BREAK_BYTES
    parts = (keys[at : at + length] for at in range(0, len(keys), width))
    done: list[tuple[bytes, int]] = []
    for score, entries in groupby(parts):
        count = sum(1 for _ in entries)
        if last.entries and score != last.score:
            done.append((last.score, last.entries))
            last.entries = 0
        last.score, last.entries = score, last.entries + count
    if ended and last.entries:
        done.append((last.score, last.entries))
    return done


# ------------------------------------------------------------------------------ sending


async def _send(to: Partitions, blocks: Sequence[_Block]) -> None:
    await together([to.fill(number, _packed(to, blocks, number)) for number in range(to.count)])


def _packed(to: Partitions, blocks: Sequence[_Block], partition: int) -> ScriptArgs:
    parts = [_part(to, block, partition) for block in blocks]
    strings = [string for part in parts for string in part.strings]
    return pack([[part.head for part in parts]], strings)


def _part(to: Partitions, block: _Block, partition: int) -> _PartitionLoad:
    columns, homes = block.columns, block.homes
    players, keys, beside = columns.players, columns.order_keys, columns.metadata
    if to.count > 1:
        here = [at for at, home in enumerate(homes) if home.partition == partition]
        players, homes = [players[at] for at in here], [homes[at] for at in here]
        width = block.shape.key_bytes
        keys = b"".join([keys[at * width : (at + 1) * width] for at in here])
        beside = None if beside is None else [beside[at] for at in here]
    ids = [player.encode() for player in players]
    shown = beside or []
    scores = [one for one in block.scores if partition_of_score(to.generation, one[0]) == partition]
    head = [
        block.ranking.board,
        name_of(block.ranking),
        shape_text(block.shape),
        block.buckets,
        [*map(len, ids)],
        [block.bucket_of(home.hash) for home in homes],
        [ABSENT if one is None else len(one) for one in shown],
        [entries for _, entries in scores],
    ]
    metadata = b"".join(one for one in shown if one is not None)
    return _PartitionLoad(
        head, [keys, b"".join(ids), metadata, b"".join(score for score, _ in scores)]
    )


def _buckets(total: int, to: Partitions) -> int:
    """Return the number of buckets of a ranking in each partition. It need not be exact."""
    return max(1, -(-total // (to.count * PLAYERS_PER_BUCKET)))


def _bucketing(buckets: int) -> Callable[[int], int]:
    """Return a function from a player's hash to its bucket, as ``bucket_of`` in partition.lua."""
    size = 1 << (buckets - 1).bit_length()
    all_bits, half = size - 1, size // 2 - 1

    def bucket_of(hash: int) -> int:
        number = hash & all_bits
        return number if number < buckets else hash & half

    return bucket_of

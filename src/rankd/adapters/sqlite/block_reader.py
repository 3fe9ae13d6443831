"""Facts read from blocks: in order for a fold, or at given positions."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import repeat

import apsw

from rankd.adapters.sqlite.blocks import BLOCK_FACTS_MAX, Block, pick, unpack
from rankd.adapters.sqlite.queries import QUERIES, fetch
from rankd.errors import LedgerCorrupt
from rankd.model.facts import Fact, Position, Recorded

PAGE_BLOCKS = 64
"""Blocks read by one statement: two megabytes of full ones."""


class BlockReader:
    """Sequential reader. Facts of a block beyond the limit are buffered for the next read.

    Each fact is returned once: facts hold dictionaries, which a caller may have changed.
    """

    def __init__(self) -> None:
        self._rest: list[Recorded] = []
        """Less than one block."""

    def read(self, database: apsw.Connection, *, after: Position, limit: int) -> list[Recorded]:
        """Return up to ``limit`` facts after ``after``, oldest first."""
        found = self._take_rest(after)
        if len(found) < limit:
            found += _read(database, after=Position(after + len(found)), many=limit - len(found))
        self._rest = found[limit:]
        del found[limit:]
        return found

    def _take_rest(self, after: Position) -> list[Recorded]:
        rest, self._rest = self._rest, []
        return rest if rest and rest[0].position == after + 1 else []


def _read(database: apsw.Connection, *, after: Position, many: int) -> list[Recorded]:
    """Return ``many`` facts or more, if there are so many: the last block is not cut."""
    found: list[Recorded] = []
    cursor = database.cursor()
    try:
        for row in cursor.execute(QUERIES["read_blocks"], {"after": after}):
            found += _after(Block(*row), after)
            if len(found) >= many:
                break
    finally:
        cursor.close()  # An open one would keep the WAL from being emptied.
    return found


def _after(block: Block, after: Position) -> list[Recorded]:
    facts = unpack(block)
    skipped = max(after + 1 - block.first, 0)
    positions = range(block.first + skipped, block.last + 1)
    return list(map(Recorded, positions, repeat(block.at), facts[skipped:]))  # type: ignore[arg-type]


def blocks_after(database: apsw.Connection, last: Position) -> Iterator[Block]:
    """Yield each block after a position; one statement each, so that no read lasts long."""
    while rows := fetch(database, QUERIES["read_block"], after=last):
        block = Block(*rows[0])
        yield block
        last = block.last


def pages_after(
    database: apsw.Connection, after: Position, through: Position
) -> Iterator[list[Block]]:
    """Yield the blocks with facts after one position and up to another, some at a time."""
    while after < through:
        bounds = {"after": after, "through": through, "limit": PAGE_BLOCKS}
        page = [Block(*row) for row in fetch(database, QUERIES["page_blocks"], **bounds)]
        if not page:
            return
        yield page
        after = page[-1].last


def pages_before(
    database: apsw.Connection, before: Position, after: Position
) -> Iterator[list[Block]]:
    """Yield the blocks with facts before one position and after another, the newest first."""
    while before > after + 1:
        bounds = {"before": before, "after": after, "limit": PAGE_BLOCKS}
        bounds["last"] = before + BLOCK_FACTS_MAX
        page = [Block(*row) for row in fetch(database, QUERIES["page_blocks_back"], **bounds)]
        if not page:
            return
        yield page
        before = page[-1].first


def facts_at(database: apsw.Connection, positions: Sequence[int]) -> Iterator[Fact]:
    """Yield the facts at sorted positions. Each block is read once."""
    for recorded in recorded_at(database, positions):
        yield recorded.fact


def recorded_at(database: apsw.Connection, positions: Sequence[int]) -> Iterator[Recorded]:
    """Yield the facts at sorted positions, with their times. Each block is read once."""
    start = 0
    while start < len(positions):
        block = _block_with(database, positions[start])
        end = bisect_right(positions, block.last, start)
        wanted = positions[start:end]
        for position, fact in zip(wanted, pick(block, wanted), strict=True):
            yield Recorded(Position(position), block.at, fact)
        start = end


def _block_with(database: apsw.Connection, position: int) -> Block:
    for row in fetch(database, QUERIES["read_block"], after=position - 1):
        block = Block(*row)
        if block.first <= position:
            return block
    raise LedgerCorrupt("an index names a fact that is not there", position=position)

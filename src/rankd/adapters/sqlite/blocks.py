"""Blocks: facts as bytes, many per row, their hash chain, and how facts are read from them.

A row for each fact costs more in the database than the fact does, so a row holds a block: up to
``BLOCK_FACTS_MAX`` facts of one append. A larger append becomes several blocks in one transaction,
so that neither a reader nor ``verify`` ever holds more than one in memory.

The bytes of a block are a MessagePack array of runs. A run is a kind and the bodies of facts of
that kind which follow one another, exactly as ``model.facts`` writes them:

    [["score_submitted.1", [body, body, body]], ["window_sealed.1", [body]], …]

A block from which personal data was erased may begin with the byte 0xC1 instead, which begins no
MessagePack: then come the length of the array in four bytes, the array, and zeros. So the row keeps
its size, and is overwritten where it is.

Each block has a link: the SHA-256 of the link before it and of the block's other columns. A block
that is changed, left out, added or moved breaks the chain there, and the last link covers the whole
ledger: two copies with the same last link are the same.
"""

import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from itertools import groupby, repeat
from operator import attrgetter, itemgetter
from typing import NamedTuple

import apsw
import msgspec

from rankd.adapters.sqlite.queries import QUERIES, fetch
from rankd.errors import LedgerCorrupt, UnreadableFact
from rankd.model.facts import FACTS, Fact, Position, Recorded, ScoreSubmitted, decode
from rankd.model.window import Instant

BLOCK_FACTS_MAX = 1_000
"""A plain submission takes some thirty bytes, so a block of them is some thirty kilobytes."""

GENESIS = bytes(32)
"""Link before the first block."""

_PLACE = struct.Struct(">qqq")  # First and last position, and time: any number SQLite can hold.
_PADDING = struct.Struct(">cI")
_PADDED = b"\xc1"
_kind = attrgetter("kind")
# Byte for byte the output of model.facts.encode for each fact; tests compare the two.
_encode = msgspec.msgpack.Encoder(order="deterministic").encode
# Prefix of a block that holds only submissions, as most do; the rest of it is their list. To find
# the end of a run takes a fifth of the time of decoding it, and is not needed here.
_ALONE = _encode([(ScoreSubmitted.kind, [])])[:-1]
_runs = msgspec.msgpack.Decoder(list[tuple[str, msgspec.Raw]])
_bodies = msgspec.msgpack.Decoder(list[msgspec.Raw])
_decoders: dict[str, msgspec.msgpack.Decoder[list[Fact]]] = {
    fact.kind: msgspec.msgpack.Decoder(list[fact])  # type: ignore[valid-type]
    for fact in FACTS
}


class Block(NamedTuple):
    """One row of the ledger."""

    first: Position
    last: Position
    at: Instant
    facts: bytes
    link: bytes


def seal(facts: Sequence[Fact], *, first: Position, at: Instant, previous_link: bytes) -> Block:
    """Make a block of consecutive facts, linked to the block before."""
    assert 0 < len(facts) <= BLOCK_FACTS_MAX
    data = _encode([(kind, list(run)) for kind, run in groupby(facts, _kind)])
    last = Position(first + len(facts) - 1)
    return Block(first, last, at, data, _link(previous_link, first, last, at, data))


def _link(previous: bytes, first: int, last: int, at: int, data: bytes) -> bytes:
    # Everything but the facts has a fixed width, so no two blocks are hashed alike.
    digest = sha256(previous)
    digest.update(_PLACE.pack(first, last, at))
    digest.update(data)
    return digest.digest()


def follows(block: Block, previous_link: bytes) -> bool:
    """Return whether the block's link is correct, given the link before it."""
    first, last, at, data, link = block
    return link == _link(previous_link, first, last, at, data)


def unpack(block: Block) -> list[Fact]:
    """Return the facts. Raises LedgerCorrupt if the bytes are not a block's."""
    facts: list[Fact] = []
    for kind, bodies in runs_of(block):
        facts += _unpack_run(block, kind, bodies, first=Position(block.first + len(facts)))
    _insist_on_count(block, len(facts))
    return facts


def _unpack_run(block: Block, kind: str, bodies: msgspec.Raw, *, first: Position) -> Sequence[Fact]:
    """Decode a run at once: fact by fact takes three times as long."""
    decoder = _decoders.get(kind)
    if decoder is not None:
        try:
            return decoder.decode(bodies)
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass  # The loop below finds the bad fact.
    return list(_unpack_singly(block, kind, bodies, first))


def _unpack_singly(block: Block, kind: str, bodies: msgspec.Raw, first: Position) -> Iterator[Fact]:
    for position, body in enumerate(_bodies_of(block, bodies), first):
        try:
            yield decode(kind, body)
        except UnreadableFact as exc:
            raise LedgerCorrupt(str(exc), position=position) from exc


def pick(block: Block, positions: Sequence[int]) -> list[Fact]:
    """Return the facts at some of a block's positions, and decode no others."""
    bodies = [(kind, body) for kind, run in runs_of(block) for body in _bodies_of(block, run)]
    _insist_on_count(block, len(bodies))
    return [decode(*bodies[position - block.first]) for position in positions]


def _insist_on_count(block: Block, many: int) -> None:
    if many != block.last + 1 - block.first:
        raise LedgerCorrupt("the block has not as many facts as positions", position=block.first)


def runs_of(block: Block) -> list[tuple[str, msgspec.Raw]]:
    """Return each run's kind and its bodies, still packed. Raises LedgerCorrupt."""
    data = block.facts
    if data.startswith(_PADDED):
        _, size = _PADDING.unpack_from(data.ljust(_PADDING.size))
        data = data[_PADDING.size : _PADDING.size + size]
    if data.startswith(_ALONE):
        return [(ScoreSubmitted.kind, msgspec.Raw(memoryview(data)[len(_ALONE) :]))]
    with _readable(block):
        return _runs.decode(data)


def bodies_of(block: Block) -> list[tuple[str, bytes]]:
    """Return the kind and the bytes of each fact. Raises LedgerCorrupt."""
    bodies = [
        (kind, bytes(body)) for kind, run in runs_of(block) for body in _bodies_of(block, run)
    ]
    _insist_on_count(block, len(bodies))
    return bodies


def repacked(bodies: Sequence[tuple[str, bytes]], size: int) -> bytes:
    """Return the bytes of a block of these facts, of a size if they fit into it."""
    runs = groupby(bodies, itemgetter(0))
    data = _encode([(kind, [msgspec.Raw(body) for _, body in run]) for kind, run in runs])
    if len(data) + _PADDING.size > size:
        return data
    return (_PADDING.pack(_PADDED, len(data)) + data).ljust(size, b"\0")


def _bodies_of(block: Block, run: msgspec.Raw) -> list[msgspec.Raw]:
    with _readable(block):
        return _bodies.decode(run)


@contextmanager
def _readable(block: Block) -> Iterator[None]:
    try:
        yield
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise LedgerCorrupt(f"the block cannot be read: {exc}", position=block.first) from exc


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

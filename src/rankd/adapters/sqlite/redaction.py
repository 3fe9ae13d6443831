"""Redaction: the personal data of an erased player, taken out of blocks that are written.

A block keeps its link, which is made over the facts as they were, so the chain after it holds.
``FactsRedacted``, a fact in that same chain, has a digest of its present facts, over the
link before it, its own link and its row. So a later change of any of these is found.

Blocks are overwritten in place (``blocks.repacked``), so no page is left over that has their bytes.
The row of a player moves between pages as others are written, and leaves copies in the unused part
of pages, so the table of players is made anew. SQLite overwrites freed pages with zeros
(``secure_delete``), and the ledger empties the WAL.
"""

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256

import apsw

from rankd.adapters.sqlite.blocks import (
    GENESIS,
    Block,
    blocks_after,
    bodies_of,
    repacked,
    unpack,
)
from rankd.adapters.sqlite.queries import QUERIES, fetch
from rankd.errors import LedgerCorrupt, LedgerUnavailable
from rankd.model.facts import CODEC, Fact, FactsRedacted, Position, RedactedPart, decode

_PLACE = struct.Struct(">qqq")
_KIND = FactsRedacted.kind.encode()


def digest(block: Block, previous_link: bytes) -> bytes:
    """Return the digest of a redacted block."""
    place = _PLACE.pack(block.first, block.last, block.at)
    return sha256(previous_link + block.link + place + block.facts).digest()


def redacted(block: Block, player: str, through: Position) -> Block:
    """Return a block with the facts about a player up to a position redacted."""
    bodies = bodies_of(block)
    named = player.encode()
    for place, (kind, body) in enumerate(bodies):
        if block.first + place <= through and named in body:
            fact = decode(kind, body)
            if fact.is_about(player) and fact.redacted() is not fact:
                bodies[place] = CODEC.redacted(kind, body)
    return block._replace(facts=repacked(bodies, len(block.facts)))


def parts_with(
    database: apsw.Connection, positions: Sequence[Position], player: str, through: Position
) -> tuple[RedactedPart, ...]:
    """Return the parts of the ledger with some facts of a player, as they will be."""
    found: list[RedactedPart] = []
    for position in sorted(positions):
        if found and position <= found[-1].last:
            continue
        block, previous = _block_at(database, position)
        digested = digest(redacted(block, player, through), previous)
        found.append(RedactedPart(block.last, block.link, digested))
    return tuple(found)


def redact(database: apsw.Connection, facts: Sequence[Fact]) -> bool:
    """Rewrite blocks as facts tell, in their transaction; return whether a player is done with."""
    complete = False
    for fact in redactions_in(facts):
        _redact(database, fact)
        complete |= fact.complete
    if complete:
        scrub_players(database)
    return complete


def _redact(database: apsw.Connection, fact: FactsRedacted) -> None:
    for part in fact.parts:
        block, previous = _block_at(database, part.last)
        after = redacted(block, fact.player, fact.through)
        if block.link != part.link or digest(after, previous) != part.digest:
            raise LedgerUnavailable("the facts to be redacted were changed meanwhile", applied="no")
        database.execute(QUERIES["redact_block"], {"last": block.last, "facts": after.facts})


def scrub_players(database: apsw.Connection) -> None:
    """Make the table of players anew, on pages that are zeroed first."""
    database.execute(QUERIES["hold_players"])
    database.execute(QUERIES["clear_players"])
    database.execute(QUERIES["return_players"])
    database.execute(QUERIES["release_players"])


def _block_at(database: apsw.Connection, position: Position) -> tuple[Block, bytes]:
    """Return the block with a position, and the link of the block before it."""
    rows = fetch(database, QUERIES["read_block"], after=position - 1)
    if not rows:
        raise LedgerCorrupt("a redacted fact is not there", position=position)
    block = Block(*rows[0])
    before = fetch(database, QUERIES["read_link"], position=block.first - 1)
    return block, before[0][0] if before else GENESIS


class RedactedBlocks:
    """The blocks that differ from their links, each as its last redaction tells."""

    def __init__(self, database: apsw.Connection) -> None:
        self._database = database
        self._told: dict[Position, RedactedPart] = {}
        """By last position, the last redaction of each block."""
        self._explained: set[Position] = set()
        self._scanned = Position(0)

    def explain(self, last: Position) -> bool:
        """Whether a block that differs from its link is as the last redaction tells."""
        with _snapshot(self._database):
            self._scan()
            part = self._told.get(last)
            if part is None:
                return False
            block, previous = _block_at(self._database, last)
        explained = block.link == part.link and digest(block, previous) == part.digest
        self._explained.update([last] if explained else [])
        return explained

    def check(self) -> None:
        """Check that each block is as the last redaction of it tells. Raises LedgerCorrupt."""
        with _snapshot(self._database):
            self._scan()
            for part in self._told.values():
                if part.last in self._explained:
                    continue
                block, previous = _block_at(self._database, part.last)
                # With another link it is a fact that was copied from another ledger.
                if block.link == part.link and digest(block, previous) != part.digest:
                    raise LedgerCorrupt("erased data is back", position=block.first)

    def _scan(self) -> None:
        """Read the redactions recorded since the last scan."""
        for block in blocks_after(self._database, self._scanned):
            self._scanned = block.last
            if _KIND not in block.facts:
                continue
            with suppress(LedgerCorrupt):  # It is found when its turn comes.
                for fact in redactions_in(unpack(block)):
                    for part in fact.parts:
                        self._told[part.last] = part
                        self._explained.discard(part.last)


@contextmanager
def _snapshot(database: apsw.Connection) -> Iterator[None]:
    """Read from one state of the database."""
    database.execute("BEGIN")
    try:
        yield
    finally:
        if database.in_transaction:  # Some errors end it by themselves.
            database.execute("ROLLBACK")


def redactions_in(facts: Sequence[Fact]) -> Iterator[FactsRedacted]:
    """Yield the redactions among facts."""
    return (fact for fact in facts if type(fact) is FactsRedacted)

"""Check that a ledger's file holds exactly the data that was written to it.

The blocks are read from the first to the last, some at a time. Checks:

1. SQLite finds its own structures intact (``quick_check``).
2. The schema is the one this program makes.
3. Each block's link is the hash of the link before it and of the block's other columns; or else
   its last redaction has the digest of its present facts.
4. Positions begin at 1 and have no holes; times go back only where they were corrected.
5. Every body can be decoded as a fact of its kind.
6. The key tables have an entry for each fact with a key, and no other.
7. Every receipt has its checksum and belongs to a fact.
8. The table of players equals the fold of the facts.

No file can prove by itself that nothing was cut off its end: that takes the last link, stored
elsewhere.
"""

from collections.abc import Iterator
from functools import cache
from hashlib import blake2b
from itertools import islice, pairwise

import apsw
import msgspec

from rankd.adapters import broken_chain
from rankd.adapters.player_rows import StoredPlayer, fold
from rankd.adapters.sqlite.blocks import GENESIS, Block, blocks_after, facts_at, follows, unpack
from rankd.adapters.sqlite.players import changes
from rankd.adapters.sqlite.queries import MIGRATIONS, QUERIES, fetch
from rankd.adapters.sqlite.recent_keys import hash_of, identities_of, plain
from rankd.adapters.sqlite.redaction import RedactedBlocks
from rankd.errors import LedgerCorrupt
from rankd.model.facts import Position, corrects_time
from rankd.ports import Progress

CHECKSUM_BYTES = 8

PAGE_ROWS = 1_000
"""Keys and receipts read per query."""

STEP_BLOCKS = 100
"""Blocks per progress report; a few megabytes at most are held at a time."""


def checksum(position: int, body: bytes) -> bytes:
    """Return the checksum of a receipt at a position."""
    return blake2b(position.to_bytes(8, "big") + body, digest_size=CHECKSUM_BYTES).digest()


def verification(
    database: apsw.Connection, head: Position, *, structures: bool = True
) -> Iterator[Progress]:
    """Check everything up to a position; yield the progress of each step. Raises LedgerCorrupt.

    Without ``structures`` check 1 is skipped: it is one read of the whole file, during which
    another process that writes could not empty its WAL.
    """
    yield Progress(0, head, "facts", "fact")
    if structures:
        _check_structures(database)
    if _schema(database) != _expected_schema():
        raise LedgerCorrupt("the schema is not the one rankd makes")
    keyed, players = 0, dict[str, StoredPlayer]()
    redacted = RedactedBlocks(database)
    blocks = _chain(database, head, redacted)
    while step := list(islice(blocks, STEP_BLOCKS)):
        keyed += sum(_check_facts(database, block, players) for block in step)
        yield Progress(step[-1].last, head, "facts", "fact")
    redacted.check()
    yield from _check_keys(database, head, keyed)
    yield Progress(0, len(players), "players", "player")
    _check_players(database, head, players)
    yield Progress(len(players), len(players), "players", "player")


def _check_keys(database: apsw.Connection, head: Position, keyed: int) -> Iterator[Progress]:
    """Check that the key tables have ``keyed`` entries up to the head; then check the receipts."""
    recent = _recent_keys(database)  # First: a key moved meanwhile is in both, and counts once.
    found = sum(position <= head for _, position in recent)
    yield Progress(min(found, keyed), keyed, "keys", "key")
    for count in _key_pages(database, head, recent):
        found += count
        yield Progress(min(found, keyed), keyed, "keys", "key")
    if found != keyed:
        raise LedgerCorrupt(f"{keyed} facts have a key, the key tables have {found}")
    for _ in _receipt_pages(database):
        yield Progress(keyed, keyed, "keys", "key")


def _check_structures(database: apsw.Connection) -> None:
    for (problem,) in database.execute("PRAGMA quick_check(1)"):
        if problem != "ok":
            raise LedgerCorrupt(f"SQLite finds: {problem}")


def _chain(database: apsw.Connection, head: Position, redacted: RedactedBlocks) -> Iterator[Block]:
    """Yield each block that follows the one before; in the end raise for those that do not.

    A block is checked against the stored link before it, so an edit is found in its own block.
    """
    last, at, link = Position(0), 0, GENESIS
    edited: list[tuple[int, int]] = []
    while last < head:
        # One statement each, so that no read lasts long and the WAL can be emptied in between.
        rows = fetch(database, QUERIES["read_block"], after=last)
        if not rows:
            raise LedgerCorrupt(f"facts are missing up to {head}", position=last + 1)
        block = Block(*rows[0])
        if block.first != last + 1 or block.last < block.first:
            if edited:
                raise broken_chain(edited)
            raise LedgerCorrupt("the block does not follow the one before", position=last + 1)
        if not follows(block, link) and not redacted.explain(block.last):
            edited.append((block.first, block.last))
        elif block.at < at and not edited and not corrects_time(unpack(block)):
            raise LedgerCorrupt("the block does not follow the one before", position=last + 1)
        else:
            yield block
        last, at, link = block.last, block.at, block.link
    if edited:
        raise broken_chain(edited)


def _check_facts(database: apsw.Connection, block: Block, players: dict[str, StoredPlayer]) -> int:
    """Decode each fact of a block and look its key up. Return the number of keys."""
    facts = unpack(block)
    if plain(facts):
        return 0
    fold(players, changes(facts, first=block.first))
    hashes = [None if name is None else hash_of(*name) for name in identities_of(facts)]
    listed = msgspec.json.encode(hashes).decode()
    rows = fetch(database, QUERIES["check_keys"], hashes=listed, first=block.first)
    keyed = {block.first + offset for offset, hashed in enumerate(hashes) if hashed is not None}
    if missing := keyed - {position for (position,) in rows}:
        raise LedgerCorrupt("the key is in no key table", position=min(missing))
    return len(keyed)


def _check_players(
    database: apsw.Connection, head: Position, players: dict[str, StoredPlayer]
) -> None:
    """Compare the table with the fold of the facts, those appended meanwhile included."""
    database.execute("BEGIN")  # The reads from here on see one snapshot.
    try:
        for block in blocks_after(database, head):
            fold(players, changes(unpack(block), first=block.first))
        left = dict(players)
        for row in database.execute(QUERIES["read_players"]):
            found = StoredPlayer(*row)
            if left.pop(found.player, None) != found:
                raise _wrong_player(found, players.get(found.player))
        for missing in left.values():
            raise _wrong_player(missing, None)
    finally:
        if database.in_transaction:  # Some errors end it by themselves.
            database.execute("ROLLBACK")


def _wrong_player(row: StoredPlayer, expected: StoredPlayer | None) -> LedgerCorrupt:
    position = (expected or row).position
    return LedgerCorrupt("the player is not as the facts tell", position=position)


Entry = tuple[int, int]
"""Hash and position of a key."""


def _recent_keys(database: apsw.Connection) -> set[Entry]:
    """Return the keys on their way into the key table: two generations at most."""
    rows = fetch(database, QUERIES["read_recent_keys"])
    entries = sorted((hashed, position) for position, hashed, _ in rows)
    for (before, first), (after, second) in pairwise(entries):
        if before == after:
            _check_different_keys(database, first, second)
    if rows and rows[-1][0] > rows[-1][2]:
        raise _no_such_fact(rows[-1][0])
    return set(entries)


def _key_pages(database: apsw.Connection, head: Position, recent: set[Entry]) -> Iterator[int]:
    """Yield, page by page, how many other entries the key table has for facts up to the head."""
    by_hash = dict(recent)
    hashed, position = -(2**63), 0
    while rows := fetch(
        database, QUERIES["page_keys"], hash=hashed, position=position, limit=PAGE_ROWS
    ):
        for before, (after, used, last) in pairwise([(hashed, position, 0), *rows]):
            if used > last:
                raise _no_such_fact(used)
            if before[0] == after and before[1]:
                _check_different_keys(database, before[1], used)
            if by_hash.get(after, used) != used and (after, used) not in recent:
                _check_different_keys(database, by_hash[after], used)
        hashed, position, _ = rows[-1]
        yield sum(used <= head and (after, used) not in recent for after, used, _ in rows)


def _no_such_fact(position: int) -> LedgerCorrupt:
    return LedgerCorrupt("the key table names a fact that is not there", position=position)


def _check_different_keys(database: apsw.Connection, first: int, second: int) -> None:
    names = {fact.identity() for fact in facts_at(database, sorted((first, second)))}
    if len(names) != 2:
        first, second = sorted((first, second))
        raise LedgerCorrupt(f"the key was used at {first} already", position=second)


def _receipt_pages(database: apsw.Connection) -> Iterator[None]:
    after = 0
    while rows := fetch(database, QUERIES["page_receipts"], after=after, limit=PAGE_ROWS):
        for position, body, found, last in rows:
            if found != checksum(position, body) or position > last:
                raise LedgerCorrupt("the receipt is not the one kept", position=position)
        after = rows[-1][0]
        yield


def _schema(database: apsw.Connection) -> list[tuple[object, ...]]:
    return fetch(database, QUERIES["read_schema"])


@cache
def _expected_schema() -> list[tuple[object, ...]]:
    database = apsw.Connection(":memory:")
    try:
        for version in sorted(MIGRATIONS):
            database.execute(MIGRATIONS[version])
        return _schema(database)
    finally:
        database.close()

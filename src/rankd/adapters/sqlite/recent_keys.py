"""Keys of facts: their hashes, and their way into the key table, moved by ranges of hashes.

The key table is in the order of hashes, and keys come in no order. Inserted there at once, nearly
every key changes a page of its own, and a commit writes whole pages: four kilobytes for sixteen
bytes, and the same again at the next checkpoint (docs/decisions/0015).

So a commit writes its keys at the end of ``recent_key``, and they are held in memory by hash. A
full generation of keys is moved step by step: each append moves a narrow range of its hashes, whose
keys share few pages, and once all of them are in the key table, appends delete its rows in parts.
So no append waits for a whole generation.

At every moment that another connection or a crash can see, a key is in one table or in both.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from hashlib import blake2b

import apsw
import msgspec

from rankd.adapters.sqlite.queries import QUERIES, fetch
from rankd.errors import LedgerCorrupt
from rankd.model.facts import Fact, Identity, Position, ScoreSubmitted


def identities_of(facts: Sequence[Fact]) -> list[Identity | None]:
    """Return the identity of each fact. Skips the call for submissions, the usual case."""
    return [
        fact.identity()
        if type(fact) is not ScoreSubmitted
        else None
        if fact.key is None
        else _identity((fact.board, fact.key))
        for fact in facts
    ]


_identity: Callable[[tuple[str, str]], Identity] = partial(tuple.__new__, Identity)


def plain(facts: Sequence[Fact]) -> bool:
    """Return whether all facts are submissions without a key and without attributes.

    Most are: then there is nothing to look up, and only the facts to write.
    """
    for fact in facts:  # A plain loop is the fastest form.
        if type(fact) is not ScoreSubmitted or fact.key is not None or fact.attributes:
            return False
    return True


def hash_of(board: str, key: str) -> int:
    """Return the hash of an identity. Two identities may share it; their facts differ."""
    digest = blake2b(f"{board}\x1f{key}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


GENERATION_KEYS = 131_072
"""Keys of one generation, moved while the next one is collected: some 15 MB each."""

RANGES = 1_024
"""Ranges of hashes; each is moved at once."""

MOVED_FOR_EACH = 2
"""Keys moved per added key; twice as many are deleted. So a generation is gone before the next one
is full."""

_SHIFT, _MIDDLE = 64 - (RANGES.bit_length() - 1), RANGES // 2


class _Generation:
    """Keys by hash, in ranges."""

    def __init__(self) -> None:
        self.ranges: list[dict[int, Position]] = [{} for _ in range(RANGES)]
        self.others: list[tuple[int, Position]] = []
        """Keys whose hash another key has: there are hardly ever any."""
        self.count = 0
        self.through = Position(0)
        """Last position of these keys."""

    def extend(self, keys: Iterable[tuple[Position, int | None]]) -> None:
        """Add keys by position; None for a fact without one."""
        ranges, count, through = self.ranges, 0, self.through
        for position, hashed in keys:
            if hashed is None:
                continue
            if ranges[(hashed >> _SHIFT) + _MIDDLE].setdefault(hashed, position) != position:
                self.others.append((hashed, position))
            count, through = count + 1, position
        self.count += count
        self.through = through

    def find(self, hashes: Iterable[int]) -> list[Position]:
        ranges = self.ranges
        found = [ranges[(hashed >> _SHIFT) + _MIDDLE].get(hashed) for hashed in hashes]
        found += [position for hashed, position in self.others if hashed in hashes]
        return [position for position in found if position is not None]

    def range(self, number: int) -> list[tuple[int, Position]]:
        """Return the keys of a range in the order of the key table."""
        others = self.others if number == 0 else []
        return sorted([*self.ranges[number].items(), *others])


class RecentKeys:
    """Keys that may not be in the key table yet.

    A writer holds them in memory; a reader does not, and queries ``recent_key``.
    """

    def __init__(self) -> None:
        self._gathering: _Generation | None = None
        """None if the keys are not in memory."""
        self._leaving: _Generation | None = None
        self._moved = 0
        """Ranges of the leaving generation that are in the key table."""
        self._gone = Position(0)
        """Rows of ``recent_key`` up to here are all in the key table, and may be deleted."""

    def load(self, database: apsw.Connection) -> None:
        """Load the keys of the file before a write, unless they are in memory.

        The progress of a move is not stored. Rows that were moved are deleted here instead:
        otherwise a process stopped again and again during a move would never complete one.
        """
        if self._gathering is not None:
            return
        loaded = _Generation()
        database.execute(QUERIES["drop_moved_keys"])
        rows = fetch(database, QUERIES["read_recent_keys"])
        for position, hashed, _ in rows:
            if hashed is None:  # The column never is, unless a byte of the file was changed.
                raise LedgerCorrupt("the key has no hash", position=position)
        loaded.extend((position, hashed) for position, hashed, _ in rows)
        self._leaving, self._moved, self._gone = None, 0, Position(0)
        self._gathering = loaded

    def forget(self) -> None:
        """Discard the keys in memory: after a failed transaction they may differ from the file."""
        self._gathering = None

    def find(self, database: apsw.Connection, hashes: Sequence[int]) -> list[Position]:
        """Return positions at which any of these hashes were used.

        May be called on any thread, with a connection of that thread. Call this before a lookup in
        the key table: a key moved in between is then found there.
        """
        gathering = self._gathering  # Before _leaving, because it may become that one.
        leaving = self._leaving
        if gathering is None:
            listed = msgspec.json.encode(hashes).decode()
            rows = fetch(database, QUERIES["find_recent_keys"], hashes=listed)
            return [position for (position,) in rows]
        found = gathering.find(hashes)
        return found if leaving is None else found + leaving.find(hashes)

    # ------------------------------------------------------------------------- writing

    def add(self, database: apsw.Connection, hashes: Sequence[int | None], first: Position) -> None:
        """Write the keys of facts from a position on, in the transaction of the facts.

        If that fails, call ``forget``.
        """
        gathering = self._gathering
        assert gathering is not None, "it was loaded"
        listed = msgspec.json.encode(hashes).decode()
        database.execute(QUERIES["add_recent_keys"], {"hashes": listed, "first": first})
        positions = range(first, first + len(hashes))
        gathering.extend(zip(positions, hashes, strict=True))  # type: ignore[arg-type]

    def move(self, database: apsw.Connection, count: int) -> None:
        """Move or delete keys in proportion to the ``count`` of a transaction; once in each."""
        if not count:
            return
        if self._leaving is not None and self._moved == RANGES:
            # In earlier transactions: readers find all of it in the key table.
            self._gone, self._leaving = self._leaving.through, None
        if self._gone:
            self._delete(database, 2 * MOVED_FOR_EACH * count)
            return
        if self._leaving is None:
            self._part()
        if self._leaving is not None:
            self._move(database, self._leaving, MOVED_FOR_EACH * count)

    def _move(self, database: apsw.Connection, leaving: _Generation, many: int) -> None:
        keys: list[tuple[int, Position]] = []
        while len(keys) < many and self._moved < RANGES:
            keys += leaving.range(self._moved)
            self._moved += 1
        listed = msgspec.json.encode(keys).decode()
        database.execute(QUERIES["move_keys"], {"keys": listed})

    def _delete(self, database: apsw.Connection, many: int) -> None:
        database.execute(QUERIES["drop_recent_keys"], {"through": self._gone, "many": many})
        if database.changes() < many:
            self._gone = Position(0)

    def _part(self) -> None:
        """Start moving a generation if it is full."""
        gathering = self._gathering
        assert gathering is not None
        if gathering.count >= GENERATION_KEYS:
            self._leaving, self._moved = gathering, 0  # First, so that find misses no key.
            self._gathering = _Generation()

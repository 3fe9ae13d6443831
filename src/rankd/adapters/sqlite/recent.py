"""Keys on their way into the key table: written as they come, moved by ranges of hashes.

The key table is in the order of hashes, and keys come in no order. Put where it belongs at once,
nearly every key changes a page of its own, and a commit writes whole pages: four kilobytes for
sixteen bytes, and the same again at the next checkpoint (docs/decisions/0015).

So a commit writes its keys at the end of ``recent_key``, and they are held in memory by their
hashes. When a generation has gathered it leaves: each append moves a narrow range of its hashes,
whose keys share few pages, and once all of them are in the key table deletes some of its rows. So
nobody waits for a whole generation.

At every moment that another connection or a crash can see, a key is in one table or in both.
"""

from collections.abc import Iterable, Sequence

import apsw
import msgspec

from rankd.adapters.sqlite.statements import QUERIES, fetch
from rankd.model.facts import Position

GENERATION_KEYS = 131_072
"""As many leave together, while the next gather: some 15 MB each."""

RANGES = 1_024
"""Of hashes, each moved at once."""

MOVED_FOR_EACH = 2
"""How many are moved for each that comes, and twice as many deleted: a generation has left before
the next one has gathered."""

_SHIFT, _MIDDLE = 64 - (RANGES.bit_length() - 1), RANGES // 2


class _Generation:
    """Keys by their hashes, in ranges."""

    def __init__(self) -> None:
        self.ranges: list[dict[int, Position]] = [{} for _ in range(RANGES)]
        self.others: list[tuple[int, Position]] = []
        """Those whose hash another one has: there are hardly ever any."""
        self.count = 0
        self.through = Position(0)
        """The last of their positions."""

    def add(self, hashed: int, position: Position) -> None:
        if self.ranges[(hashed >> _SHIFT) + _MIDDLE].setdefault(hashed, position) != position:
            self.others.append((hashed, position))
        self.count += 1
        self.through = position

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
    """The keys that may not be in the key table yet.

    Whoever writes has them in memory; whoever only reads has not, and looks into ``recent_key``.
    """

    def __init__(self) -> None:
        self._gathering: _Generation | None = None
        """None where nothing is in memory."""
        self._leaving: _Generation | None = None
        self._moved = 0
        """Ranges of the leaving generation that are in the key table."""
        self._gone = Position(0)
        """Rows of ``recent_key`` up to here are all in the key table, and may be deleted."""

    def load(self, database: apsw.Connection) -> None:
        """Have in memory what the file has, unless it is there: for whoever is about to write.

        How far a generation had left is not noted anywhere. What was moved is deleted here instead:
        otherwise one that is stopped again and again before the end would never have left.
        """
        if self._gathering is not None:
            return
        loaded = _Generation()
        database.execute(QUERIES["drop_moved_keys"])
        for position, hashed, _ in fetch(database, QUERIES["read_recent_keys"]):
            loaded.add(hashed, position)
        self._leaving, self._moved, self._gone = None, 0, Position(0)
        self._gathering = loaded

    def forget(self) -> None:
        """Have nothing in memory: it may not be what the file has, a transaction having failed."""
        self._gathering = None

    def find(self, database: apsw.Connection, hashes: Sequence[int]) -> list[Position]:
        """Return where any of these were used. On any thread, with a connection of that thread.

        Look here first, and then into the key table: what leaves in between is found there.
        """
        gathering = self._gathering  # Before the leaving one, which it may become.
        leaving = self._leaving
        if gathering is None:
            listed = msgspec.json.encode(hashes).decode()
            rows = fetch(database, QUERIES["find_recent_keys"], hashes=listed)
            return [position for (position,) in rows]
        found = gathering.find(hashes)
        return found if leaving is None else found + leaving.find(hashes)

    # ------------------------------------------------------------------------- writing

    def add(self, database: apsw.Connection, hashes: Sequence[int | None], first: Position) -> None:
        """Write the keys of facts from a position on, in the transaction that brings the facts.

        If that fails, ``forget``.
        """
        gathering = self._gathering
        assert gathering is not None, "it was loaded"
        listed = msgspec.json.encode(hashes).decode()
        database.execute(QUERIES["add_recent_keys"], {"hashes": listed, "first": first})
        for position, hashed in enumerate(hashes, first):
            if hashed is not None:
                gathering.add(hashed, Position(position))

    def move(self, database: apsw.Connection, count: int) -> None:
        """Do the part of the moving that falls to a transaction with so many keys. Once in each."""
        if not count:
            return
        if self._leaving is not None and self._moved == RANGES:
            # By transactions before this one: readers of the key table find all of it.
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
        """Let a generation leave if it has gathered."""
        gathering = self._gathering
        assert gathering is not None
        if gathering.count >= GENERATION_KEYS:
            self._leaving, self._moved = gathering, 0  # First: whoever looks misses nothing.
            self._gathering = _Generation()

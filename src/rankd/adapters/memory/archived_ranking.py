"""A ranking of a sealed window: an archive, and the few entries that corrections changed since.

The archive never changes. Entries that a correction moves are kept beside it, in memory and in
snapshots, and every read combines the two. An archive with many changes is written anew.
"""

from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from itertools import chain, islice, pairwise
from typing import NamedTuple

import msgspec

from rankd.adapters.memory.archive_format import BLOCK_ENTRIES, ArchiveReader
from rankd.adapters.memory.archive_store import StoredArchive
from rankd.model.order import TIE_BREAK_BYTES
from rankd.model.standing import Rank, TieRule
from rankd.ports import STAY, Moved, RankingShape
from rankd.rank import ID_BYTES_MAX

Entry = tuple[bytes, bytes | None]
"""An order key, and metadata."""

Row = tuple[bytes, bytes, bytes | None]
"""An order key, the id of a player, and metadata."""


class PackedEntries(NamedTuple):
    """Consecutive entries, as an ArchiveWriter takes them."""

    keys: bytes
    text: bytes
    lengths: "array[int]"
    beside: dict[int, bytes]
    """Metadata by place."""


class ChangedPlayer(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """An entry that a correction changed, as snapshots have it."""

    player: bytes
    order_key: bytes | None
    """None if the player has no entry any more."""
    metadata: bytes | None


class _Changes:
    """The changes since an archive was written."""

    __slots__ = ("added", "entries", "removed", "scores", "shown")

    def __init__(self) -> None:
        self.entries: dict[bytes, Entry | None] = {}
        """By player, as it is now; None without an entry."""
        self.removed: list[int] = []
        """The rows of the archive that hold no more, in order."""
        self.added: list[tuple[bytes, bytes]] = []
        """Order key and player of the entries there are instead, in order."""
        self.scores: dict[bytes, int] = {}
        """Scores that there are now and were not, 1, or that were and are no more, -1."""
        self.shown = 0
        """How many more entries have metadata."""

    def copy(self) -> "_Changes":
        """Return the same changes, to be changed on their own."""
        twin = _Changes()
        twin.entries, twin.scores = dict(self.entries), dict(self.scores)
        twin.removed, twin.added, twin.shown = list(self.removed), list(self.added), self.shown
        return twin


class ArchivedRanking:
    """One ranking, whose entries are in an archive. Every call may raise WindowArchiveDamaged."""

    __slots__ = ("_base", "_changes", "archive", "changes")

    def __init__(self, archive: StoredArchive, changed: Sequence[ChangedPlayer] = ()) -> None:
        self.archive = archive
        self._base: ArchiveReader = archive.reader
        self._changes: _Changes | None = None
        self.changes = 0
        """A number that grows with every change."""
        for player, order_key, metadata in map(msgspec.structs.astuple, changed):
            self._change(player, None if order_key is None else (order_key, metadata))

    def __len__(self) -> int:
        known = self._changes
        return len(self._base) + (len(known.added) - len(known.removed) if known else 0)

    @property
    def shape(self) -> RankingShape:
        """The shape it was opened with."""
        return RankingShape(self._base.head.key_bytes, self._base.head.dense)

    @property
    def changed(self) -> int:
        """How many players have another entry than in the archive."""
        return len(self._changes.entries) if self._changes else 0

    @property
    def removed(self) -> int:
        """How many rows of the archive hold no more."""
        return len(self._changes.removed) if self._changes else 0

    @property
    def has_metadata(self) -> bool:
        """Whether any entry has metadata."""
        return self._base.head.shown + (self._changes.shown if self._changes else 0) > 0

    def changed_entries(self) -> list[ChangedPlayer]:
        """Return the changes, as snapshots have them."""
        known = self._changes.entries if self._changes else {}
        return [ChangedPlayer(player, *(entry or (None, None))) for player, entry in known.items()]

    # ------------------------------------------------------------------------ reading

    def find(self, player: str) -> tuple[int, bytes, bytes | None] | None:
        """Return how many entries are before a player's, its order key and its metadata."""
        id, known = player.encode(), self._changes
        if known is not None and id in known.entries:
            entry = known.entries[id]
            return None if entry is None else (self._count_before(entry[0], id), *entry)
        row = self._base.find(id)
        if row is None:
            return None
        order_key, _, metadata = self._base.entry(row)
        return row + self._moved_before(row, order_key, id), order_key, metadata

    def entry(self, player: str) -> Entry | None:
        """Return a player's order key and metadata; None without an entry."""
        id, known = player.encode(), self._changes
        if known is not None and id in known.entries:
            return known.entries[id]
        row = self._base.find(id)
        if row is None:
            return None
        order_key, _, metadata = self._base.entry(row)
        return order_key, metadata

    def _moved_before(self, row: int, order_key: bytes, id: bytes) -> int:
        """Return how many entries more than in the archive are before a place."""
        known = self._changes
        if known is None:
            return 0
        return bisect_left(known.added, (order_key, id)) - bisect_left(known.removed, row)

    def _count_before(self, order_key: bytes, id: bytes) -> int:
        row = self._base.count_before(order_key, id)
        return row + self._moved_before(row, order_key, id)

    def count_before(self, order_key: bytes, player: str = "") -> int:
        """Count the entries before a place, which may be free. O(log n)."""
        return self._count_before(order_key, player.encode())

    def scores_below(self, order_key: bytes) -> int:
        """Count the distinct scores that are less than the key's. Only where dense."""
        below = self._base.scores_below(order_key)
        if self._changes is not None:
            score = order_key[:-TIE_BREAK_BYTES]
            below += sum(by for one, by in self._changes.scores.items() if one < score)
        return below

    def shown_rank(self, order_key: bytes, before: int, ties: TieRule) -> int:
        """Return the rank of an entry, counted by a rule for ties."""
        if ties is TieRule.ORDINAL:
            return before + 1
        if ties is TieRule.DENSE:
            return self.scores_below(order_key) + 1
        return self._count_before(_first_of(order_key), b"") + 1

    def rows(self, first: int, last: int) -> Iterator[Row]:
        """Yield the entries from one place to before another, counted from 0."""
        known = self._changes
        if known is None:
            return self._base.entries(first, min(last, len(self._base)))
        return islice(self._merged(known, first), max(last - first, 0))

    def _merged(self, known: _Changes, first: int) -> Iterator[Row]:
        """Yield all entries from a place on."""
        places = range(len(known.added))
        start = bisect_left(
            places, first, key=lambda place: self._count_before(*known.added[place])
        )
        left = first - start
        gone = bisect_right(
            range(len(known.removed)), left, key=lambda place: known.removed[place] - place
        )
        added = ((*place, self._metadata_of(known, place[1])) for place in known.added[start:])
        return _in_order(self._remaining(known, left + gone), added)

    def _metadata_of(self, known: _Changes, id: bytes) -> bytes | None:
        entry = known.entries[id]
        assert entry is not None, "it was added"
        return entry[1]

    def _remaining(self, known: _Changes, first: int) -> Iterator[Row]:
        """Yield the rows of the archive that hold, from one on."""
        removed = set(known.removed[bisect_left(known.removed, first) :])
        rows = enumerate(self._base.entries(first, len(self._base)), start=first)
        return (entry for row, entry in rows if row not in removed)

    def columns(self, size: int) -> Iterator[PackedEntries]:
        """Yield all entries in parts of so many."""
        assert size % BLOCK_ENTRIES == 0, "whole blocks"
        for first in range(0, len(self), size):
            yield self.columns_at(first, size)

    def columns_at(self, first: int, size: int) -> PackedEntries:
        """Return up to so many entries from a place on, counted from 0."""
        if self._changes is None and first % BLOCK_ENTRIES == 0:
            return self._blocks(first, size)
        rows = list(self.rows(first, first + size))
        return PackedEntries(
            b"".join([key for key, _, _ in rows]),
            b"".join([id for _, id, _ in rows]),
            array("H", [len(id) for _, id, _ in rows]),
            {at: beside for at, (_, _, beside) in enumerate(rows) if beside is not None},
        )

    def _blocks(self, first: int, size: int) -> PackedEntries:
        last = min(first + size, len(self._base))
        numbers = range(first // BLOCK_ENTRIES, -(-last // BLOCK_ENTRIES))
        blocks = [self._base.block(number) for number in numbers]
        lengths = array("H")
        beside: dict[int, bytes] = {}
        for block in blocks:
            start = len(lengths)
            ends = chain([0], block.ends)
            lengths.extend([end - before for before, end in pairwise(ends)])
            beside |= {start + at: value for at, value in block.metadata.items()}
        return PackedEntries(
            b"".join([block.keys for block in blocks]),
            b"".join([block.text for block in blocks]),
            lengths,
            beside,
        )

    # ------------------------------------------------------------------------ changing

    def move(
        self, player: str, order_key: bytes | None, metadata: bytes | None, ties: TieRule
    ) -> Moved:
        """Put an entry in place of a player's, or take it out, as ``RankIndex.apply`` does."""
        id = _id_of(player)
        width = self._base.head.key_bytes
        assert not order_key or len(order_key) == width, f"keys have {width} bytes"
        before = self._rank(player, ties)
        if order_key == STAY:
            return Moved(before, before, len(self))
        if order_key is not None or before is not None:
            entry = None if order_key is None else (order_key, metadata)
            self._change(id, entry)
        return Moved(before, self._rank(player, ties), len(self))

    def _rank(self, player: str, ties: TieRule) -> Rank | None:
        found = self.find(player)
        return None if found is None else Rank(self.shown_rank(found[1], found[0], ties))

    def savepoint(self) -> "_Changes | None":
        """Return the changes, to come back to."""
        return None if self._changes is None else self._changes.copy()

    def restore(self, changes: "_Changes | None") -> None:
        """Come back to changes."""
        self._changes = changes

    def _change(self, id: bytes, after: Entry | None) -> None:
        row = self._base.find(id)
        found = None if row is None else self._base.entry(row)
        then = None if found is None else (found[0], found[2])
        known = self._changes or _Changes()
        before = known.entries.get(id, then)
        if id in known.entries:
            if before is not None:
                del known.added[bisect_left(known.added, (before[0], id))]
            del known.entries[id]
            if row is not None:
                del known.removed[bisect_left(known.removed, row)]
        if after != then:
            known.entries[id] = after
            if row is not None:
                insort(known.removed, row)
            if after is not None:
                insort(known.added, (after[0], id))
        known.shown += _is_shown(after) - _is_shown(before)
        if self._base.head.dense:
            for entry in (before, after):
                if entry is not None:
                    self._count_score(known, entry[0])
        self._changes = known if known.entries else None
        self.changes += 1

    def _count_score(self, known: _Changes, order_key: bytes) -> None:
        """Note whether a score is there now, and was in the archive."""
        score, first, last = order_key[:-TIE_BREAK_BYTES], _first_of(order_key), _last_of(order_key)
        start = self._base.count_before(first)
        end = self._base.count_before(last, b"\xff")
        removed = bisect_left(known.removed, end) - bisect_left(known.removed, start)
        added = bisect_right(known.added, (last, b"\xff")) - bisect_left(known.added, (first, b""))
        by = (end - start - removed + added > 0) - (end > start)
        known.scores.pop(score, None)
        if by:
            known.scores[score] = by


def _id_of(player: str) -> bytes:
    """Return the bytes of an id. Raises ValueError if it cannot be one."""
    id = player.encode()
    if not 1 <= len(id) <= ID_BYTES_MAX:
        raise ValueError(f"a player id has 1 to {ID_BYTES_MAX} bytes of UTF-8, not {len(id)}")
    return id


def _is_shown(entry: Entry | None) -> int:
    return int(entry is not None and entry[1] is not None)


def _first_of(order_key: bytes) -> bytes:
    """Return the least key of the same score."""
    return order_key[:-TIE_BREAK_BYTES] + bytes(TIE_BREAK_BYTES)


def _last_of(order_key: bytes) -> bytes:
    """Return the greatest key of the same score."""
    return order_key[:-TIE_BREAK_BYTES] + b"\xff" * TIE_BREAK_BYTES


def _in_order(ours: Iterator[Row], theirs: Iterator[Row]) -> Iterator[Row]:
    """Merge rows that are in order."""
    one, other = next(ours, None), next(theirs, None)
    while one is not None and other is not None:
        if one[:2] < other[:2]:
            yield one
            one = next(ours, None)
        else:
            yield other
            other = next(theirs, None)
    if one is not None:
        yield one
    yield from ours
    if other is not None:
        yield other
    yield from theirs

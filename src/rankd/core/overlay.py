"""A read-only view of one ranking with a few entries added, removed or replaced.

The base index has some entries that the view lacks, and lacks others that the view has. An entry's
rank in the view is its rank in the base, shifted by the changes before it: these are sorted, so
that one bisection finds the shift. A page is one stretch of the base, read far enough for the
changes in it, without the removed entries and with the added ones. So a read costs O(log n + k) for
k changes, most often with one call of the base.

Distinct scores are different: whether a changed score is new or lost depends on the other entries
with it. They are counted in the base, once for each position, as far as reads need them.
"""

import asyncio
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import ClassVar, NamedTuple

from rankd.model.facts import Position
from rankd.model.order import TIE_BREAK_BYTES, score_part
from rankd.model.standing import Offset, Rank
from rankd.ports import EntryRange, Placed, Ranked, RankIndex, Ranking, RankingShape

UNPLACED_MAX = 32
"""Changes that a page may be read past without knowing their ranks in the base: at either end so
many more entries are read. Of k changes, log2(2 k / 32) calls leave no more than these."""

CALLS_TOGETHER_MAX = 64
"""Concurrent calls of a base that suspends."""

Place = tuple[bytes, str]
"""An order key and a player: entries sort by it, as code points sort like their UTF-8."""

_BEST_TIE, _WORST_TIE = bytes(TIE_BREAK_BYTES), b"\xff" * TIE_BREAK_BYTES


class EntryChange(NamedTuple):
    """One player's entry in the base ranking and in the view; None for no entry."""

    before: Placed | None
    after: Placed | None


class _ScoreCounts(NamedTuple):
    """The changed scores, best first, as far as they were counted in the base."""

    at: Position
    gained: Sequence[int]
    """For each number of scores, how many more of the first ones the view has than the base."""


class Overlay:
    """The reads of an index, with one of its rankings changed. Its writes have to go to the index.

    It is exact at every position at which the base has the entries ``before``, and no entry of a
    player without one; this is not checked. Positions and errors are those of the base.
    """

    immediate: ClassVar[bool] = False
    judges: ClassVar[bool] = False
    shared: ClassVar[bool] = False

    def __init__(
        self, base: RankIndex, ranking: Ranking, changes: Mapping[str, EntryChange]
    ) -> None:
        """Make a view; ``changes`` are by player. O(k log k)."""
        self.base, self.ranking = base, ranking
        self._changes = dict(changes)
        for player, (before, after) in changes.items():
            assert all(one is None or one.player == player for one in (before, after)), (
                f"the change of {player} is of another player's entry"
            )
        removed = {_place(one.before) for one in changes.values() if one.before is not None}
        self._removed = {player for _, player in removed}
        """The players whose entries in the base are not in the view."""
        self._added = sorted(
            [one.after for one in changes.values() if one.after is not None], key=_place
        )
        added = {_place(entry) for entry in self._added}
        self._places = sorted(removed | added)
        steps = [(place in added) - (place in removed) for place in self._places]
        self._shifts = list(accumulate(steps, initial=0))
        """For each number of places, how many more entries the view has at the first ones."""
        self._scores = _open_scores(removed, added)
        self._counted = _ScoreCounts(Position(0), [0])

    # ---------------------------------------------------------------------- one player

    async def rank(
        self, ranking: Ranking, player: str, at: Position | None = None
    ) -> Ranked | None:
        """Return a player's rank and entry; None without an entry."""
        if ranking == self.ranking and player in self._changes:
            return (await self.ranks(ranking, [player], at))[0]
        found = await self.base.rank(ranking, player, at)
        if found is None or ranking != self.ranking:
            return found
        return self._shifted(player, found)

    async def ranks(
        self, ranking: Ranking, players: Sequence[str], at: Position | None = None
    ) -> Sequence[Ranked | None]:
        """Return the ranks and entries of many players, all as of one position."""
        if ranking != self.ranking:
            return await self.base.ranks(ranking, players, at)
        changed = {player for player in players if player in self._changes}
        if not changed:
            found = await self.base.ranks(ranking, players, at)
            return list(map(self._shifted, players, found))
        total, at = await self._size(at)
        others = [player for player in players if player not in changed]
        there = iter(await self.base.ranks(ranking, others, at) if others else ())
        entries = [entry for one in changed if (entry := self._changes[one].after) is not None]
        before = await self._count_below([_place(entry) for entry in entries], at)
        ranked: dict[str, Ranked] = {}
        for entry, count in zip(entries, before, strict=True):
            place = Rank(count + self._shift(_place(entry)) + 1)
            size = total + self._shifts[-1]
            ranked[entry.player] = Ranked(place, entry.order_key, entry.metadata, size, at)
        return [
            ranked.get(player) if player in changed else self._shifted(player, next(there))
            for player in players
        ]

    def _shifted(self, player: str, found: Ranked | None) -> Ranked | None:
        """Return the rank in the view of an entry that the base has, too."""
        if found is None:
            return None
        rank, order_key, metadata, total, as_of = found
        rank = Rank(rank + self._shift((order_key, player)))
        return Ranked(rank, order_key, metadata, total + self._shifts[-1], as_of)

    async def order_keys(
        self, entries: Sequence[tuple[Ranking, str]], at: Position | None = None
    ) -> Sequence[bytes | None]:
        """Return the order key of each player in each ranking; None without an entry."""
        keys = list(await self.base.order_keys(entries, at))
        for number, entry in self._entries_among(entries):
            keys[number] = None if entry is None else entry.order_key
        return keys

    async def metadata(
        self, entries: Sequence[tuple[Ranking, str]], at: Position | None = None
    ) -> Sequence[bytes | None]:
        """Return each player's metadata in each ranking."""
        metadata = list(await self.base.metadata(entries, at))
        for number, entry in self._entries_among(entries):
            metadata[number] = None if entry is None else entry.metadata
        return metadata

    def _entries_among(
        self, entries: Sequence[tuple[Ranking, str]]
    ) -> Sequence[tuple[int, Placed | None]]:
        """Return the changed entries in the view, with their indexes in a list."""
        return [
            (number, self._changes[player].after)
            for number, (ranking, player) in enumerate(entries)
            if ranking == self.ranking and player in self._changes
        ]

    # -------------------------------------------------------------------------- counts

    async def checkpoint(self) -> Position:
        """Return the last position applied to the base."""
        return await self.base.checkpoint()

    async def count(self, ranking: Ranking, at: Position | None = None) -> int:
        """Return the number of entries."""
        total = await self.base.count(ranking, at)
        return total + self._shifts[-1] if ranking == self.ranking else total

    async def count_below(
        self, ranking: Ranking, order_key: bytes, player: str = "", at: Position | None = None
    ) -> Offset:
        """Return the number of entries before (``order_key``, ``player``), which need not exist."""
        before = await self.base.count_below(ranking, order_key, player, at)
        if ranking != self.ranking:
            return before
        return Offset(before + self._shift((order_key, player)))

    async def scores_below(
        self, ranking: Ranking, order_key: bytes, at: Position | None = None
    ) -> Offset:
        """Return the number of distinct scores better than the key's. Only in a dense ranking.

        After a change of position it counts the k changed scores that are better: O(k log n).
        """
        if ranking != self.ranking:
            return await self.base.scores_below(ranking, order_key, at)
        better = bisect_left(self._scores, score_part(order_key), key=_score)
        if not better:
            return await self.base.scores_below(ranking, order_key, at)
        _, at = await self._size(at)
        gained = (await self._count_scores(better, at))[better]
        return Offset(await self.base.scores_below(ranking, order_key, at) + gained)

    async def _count_scores(self, count: int, at: Position) -> Sequence[int]:
        """Return ``_ScoreCounts.gained`` for at least the first ``count`` changed scores."""
        gained = list(self._counted.gained) if self._counted.at == at else [0]
        missing = self._scores[len(gained) - 1 : count]
        bounds = [(score + tie, "") for score, _ in missing for tie in (_BEST_TIE, _WORST_TIE)]
        below = await self._count_below(bounds, at) if missing else ()
        sizes = [end - begin for begin, end in zip(below[::2], below[1::2], strict=True)]
        for (_, removed), size in zip(missing, sizes, strict=True):
            gained.append(gained[-1] + (-(size == removed) if removed else not size))
        if missing:
            self._counted = _ScoreCounts(at, gained)
        return gained

    def _shift(self, place: Place) -> int:
        """Return how many more entries before a place the view has than the base."""
        return self._shifts[bisect_left(self._places, place)]

    async def _size(self, at: Position | None) -> tuple[int, Position]:
        """Return the number of entries in the base, and the position it is as of."""
        _, total, as_of = await self.base.read(self.ranking, first=Rank(1), limit=0, at=at)
        return total, as_of

    async def _count_below(self, places: Sequence[Place], at: Position) -> list[Offset]:
        """Return the number of entries in the base before each place."""
        count_below = self.base.count_below
        if self.base.immediate or len(places) == 1:
            return [await count_below(self.ranking, *place, at) for place in places]
        counts: list[Offset] = []
        for start in range(0, len(places), CALLS_TOGETHER_MAX):
            some = places[start : start + CALLS_TOGETHER_MAX]
            calls = [count_below(self.ranking, *place, at) for place in some]
            counts += await asyncio.gather(*calls)
        return counts

    # --------------------------------------------------------------------------- pages

    async def read(
        self, ranking: Ranking, *, first: Rank, limit: int, at: Position | None = None
    ) -> EntryRange:
        """Return up to ``limit`` entries from rank ``first`` on, best first."""
        if ranking != self.ranking or not self._places:
            return await self.base.read(ranking, first=first, limit=limit, at=at)
        offset = first - 1
        if limit <= 0 or len(self._places) > UNPLACED_MAX:
            total, at = await self._size(at)
            total += self._shifts[-1]
            if limit <= 0 or offset >= total:
                return EntryRange([], total, at)
        begin, end = await self._stretch(offset, limit, at)
        entries, total, as_of = await self.base.read(
            ranking, first=Rank(begin + 1), limit=end - begin, at=at
        )
        shown = self._merge(entries, begin, offset, limit)
        return EntryRange(shown, total + self._shifts[-1], as_of)

    async def _stretch(self, offset: int, limit: int, at: Position | None) -> tuple[int, int]:
        """Return the offsets in the base between which a page of the view lies.

        Before an entry at offset ``o`` of the view the base has ``o - shift`` entries.
        """
        low, high = await self._changes_near(offset, 0, at)
        begin = max(offset - max(self._shifts[low : high + 1]), 0)
        low, high = await self._changes_near(offset + limit - 1, low, at)
        return begin, offset + limit - min(self._shifts[low : high + 1])

    async def _changes_near(self, offset: int, low: int, at: Position | None) -> tuple[int, int]:
        """Return two numbers of changed places; between these many lie before an offset.

        They differ by UNPLACED_MAX at most. ``low`` is known not to be too great.
        """
        high = len(self._places)
        while high - low > UNPLACED_MAX:
            middle = (low + high) // 2
            key, player = self._places[middle]
            before = await self.base.count_below(self.ranking, key, player, at)
            if before + self._shifts[middle] <= offset:
                low = middle
            else:
                high = middle
        return low, high

    def _merge(
        self, stretch: Sequence[Placed], begin: int, offset: int, limit: int
    ) -> Sequence[Placed]:
        """Return the entries of the view at an offset from a stretch of the base.

        ``begin`` is the offset of the stretch in the base. If the stretch is empty, it is the end
        of the base, or the page is beyond the end of the view.
        """
        added, shift = len(self._added), self._shifts[-1]
        if stretch:
            added = bisect_left(self._added, _place(stretch[0]), key=_place)
            shift = self._shift(_place(stretch[0]))
        # Entries of the stretch before the page; or less than 0: added ones on it before those.
        surplus = offset - (begin + shift)
        added += min(surplus, 0)
        skipped = max(surplus, 0)
        page = [entry for entry in stretch if entry.player not in self._removed]
        at = 0
        for entry in self._added[added : added + skipped + limit]:
            at = bisect_left(page, _place(entry), lo=at, key=_place)
            page.insert(at, entry)
        return page[skipped : skipped + limit]

    # ------------------------------------------------------------------------ rankings

    async def rankings(self, board: str) -> Sequence[Ranking]:
        """Return the rankings of a board, in any order; one that the view empties stays."""
        found = await self.base.rankings(board)
        if self._added and board == self.ranking.board and self.ranking not in found:
            return [*found, self.ranking]
        return found

    async def shapes(self) -> Mapping[Ranking, RankingShape]:
        """Return all rankings with their shapes; one that the base lacks counts its scores."""
        shapes = await self.base.shapes()
        if self._added and self.ranking not in shapes:
            shape = RankingShape(len(self._added[0].order_key), dense=True)
            return {**shapes, self.ranking: shape}
        return shapes


def _place(entry: Placed) -> Place:
    return entry.order_key, entry.player


_ScoreChange = tuple[bytes, int]
"""A score, and how many entries with it were removed; 0 if some were added."""


def _score(change: _ScoreChange) -> bytes:
    return change[0]


def _open_scores(removed: set[Place], added: set[Place]) -> list[_ScoreChange]:
    """Return the scores that only one of base and view may have, best first.

    A score with both an added and a removed entry is in both.
    """
    new = {score_part(key) for key, _ in added}
    counts = dict.fromkeys(new, 0)
    for key, _ in removed:
        score = score_part(key)
        counts[score] = counts.get(score, 0) + 1
    return sorted((score, count) for score, count in counts.items() if not (count and score in new))

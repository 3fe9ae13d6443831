"""Rank at each move of a piece, computed from counts made once before the whole piece.

Redis counts once, in the state before a piece of an apply: for each place that a move leaves or
takes, the number of entries before it. The changes made by earlier moves of the same piece are
tracked here. The rank at a move is therefore the count, plus the places taken before it, minus the
places left before it.
"""

from bisect import bisect_left, insort
from collections.abc import Mapping
from typing import NamedTuple

from rankd.model.order import TIE_BREAK_BYTES, score_part
from rankd.model.standing import Rank, TieRule
from rankd.ports import STAY, Move, Moved

_LOWEST_TIE = bytes(TIE_BREAK_BYTES)


def place_of(order_key: bytes, player: str) -> bytes:
    """Return the sort key of an entry: its order key, then its player."""
    return order_key + player.encode()


def floor_of(order_key: bytes) -> bytes:
    """Return the first place of this key's score: after all better entries, before its own."""
    return score_part(order_key) + _LOWEST_TIE


class DistinctScore(NamedTuple):
    """A distinct score in the state before the piece."""

    better: int
    """Number of better distinct scores."""
    entries: int
    """Number of entries with this score."""


class BatchRanks:
    """Ranks of one ranking while the moves of a piece are replayed in order."""

    def __init__(
        self,
        total: int,
        entries: Mapping[str, bytes | None],
        counts: Mapping[bytes, int],
        scores: Mapping[bytes, DistinctScore],
    ) -> None:
        self._total = total
        self._now = dict(entries)
        self._counts = counts
        self._scores = scores
        self._there = {place_of(key, player) for player, key in entries.items() if key is not None}
        """Places held before the piece by the players that it moves."""
        self._come: list[bytes] = []
        self._gone: list[bytes] = []
        self._having = {score: known.entries for score, known in scores.items()}
        self._new_scores: list[bytes] = []
        self._lost_scores: list[bytes] = []

    def take(self, move: Move) -> Moved:
        """Replay a move; return its ranks before and after, and the total."""
        _, player, new, _, ties = move
        old, id = self._now[player], player.encode()
        before = None if old is None else self._rank(old, id, ties)
        if new == STAY:
            return Moved(before, before, self._total)
        if old != new:
            if old is not None:
                self._leave(old, id)
            if new is not None:
                self._join(new, id)
            self._now[player] = new
        after = None if new is None else self._rank(new, id, ties)
        return Moved(before, after, self._total)

    def _rank(self, key: bytes, id: bytes, ties: TieRule) -> Rank:
        if ties is TieRule.DENSE:
            return self._dense(score_part(key))
        place = key + id if ties is TieRule.ORDINAL else floor_of(key)
        come, gone = bisect_left(self._come, place), bisect_left(self._gone, place)
        return Rank(self._counts[place] + come - gone + 1)

    def _dense(self, score: bytes) -> Rank:
        new = bisect_left(self._new_scores, score)
        lost = bisect_left(self._lost_scores, score)
        return Rank(self._scores[score].better + new - lost + 1)

    def _leave(self, key: bytes, id: bytes) -> None:
        place = key + id
        if place in self._there:
            insort(self._gone, place)
        else:
            _remove(self._come, place)
        self._total -= 1
        if self._scores:
            self._change_score(score_part(key), -1)

    def _join(self, key: bytes, id: bytes) -> None:
        place = key + id
        if place in self._there:
            _remove(self._gone, place)
        else:
            insort(self._come, place)
        self._total += 1
        if self._scores:
            self._change_score(score_part(key), +1)

    def _change_score(self, score: bytes, by: int) -> None:
        had = self._having[score]
        self._having[score] = has = had + by
        if (had > 0) == (has > 0):
            return
        was_there = self._scores[score].entries > 0
        if was_there:
            insort(self._lost_scores, score) if not has else _remove(self._lost_scores, score)
        else:
            insort(self._new_scores, score) if has else _remove(self._new_scores, score)


def _remove(ordered: list[bytes], value: bytes) -> None:
    at = bisect_left(ordered, value)
    assert ordered[at] == value, "a place is given up that nobody took"
    del ordered[at]

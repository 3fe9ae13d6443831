"""Which of two entries is better: decided here and nowhere else.

Every index must agree on order to the last bit: the native list in this process, a sorted set in
Redis, an ORDER BY in PostgreSQL. If each compared scores in its own way, a player would change
rank by changing backend. So order is worked out once, as bytes whose plain comparison *is* the
ranking; an index compares these and nothing else.

Layout: big-endian, smaller is better, 16 bytes for one column and 8 more for each further one.

    8  a column's score, shifted to unsigned; complemented when higher wins     (1 to 4 times)
    8  the tie-break:
           first    the position at which the score was reached
           latest   its complement
           player   zero: the player's id, which every index keeps behind the key, decides

A position belongs to one fact and so to one player: under ``first`` and ``latest`` no two keys of
a ranking are equal. That two players are *tied* is a matter of how ranks are shown (standing.py);
it is told by equal score parts, never by equal keys.

Why not one float, as Redis keeps beside a member? A double is exact up to 2**53 only. Past that,
or with a tie-break packed into the fraction, different scores become one and the player's name
decides.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

from rankd.model.board import Board, Direction, Scores, TieBreak
from rankd.model.facts import Position

POSITION_MAX = 2**64 - 1
"""The unsigned 64-bit range: at a million facts a second, half a million years."""

TIE_BREAK_BYTES = 8
_LOWEST_TIE = bytes(TIE_BREAK_BYTES)
_HIGHEST_TIE = b"\xff" * TIE_BREAK_BYTES
_ANY_POSITION = Position(1)

# XOR with these turns a number packed in two's complement into its part of the key.
_LOWER_WINS = 1 << 63  # Flips the sign: negative numbers now come first.
_HIGHER_WINS = _LOWER_WINS - 1  # Flips all the rest as well: the complement of the line above.
_KEPT = 0
_COMPLEMENTED = POSITION_MAX


@dataclass(frozen=True, slots=True)
class Order:
    """How the entries of a board are ordered, and the keys that say so."""

    directions: tuple[Direction, ...]
    tie_break: TieBreak

    key_bytes: int = field(init=False, repr=False, compare=False)
    """The length of every key of this order."""
    key: Callable[[Scores, Position], bytes] = field(init=False, repr=False, compare=False)
    """Return the key an entry sorts by, given the position at which it reached its scores."""
    scores: Callable[[bytes], Scores] = field(init=False, repr=False, compare=False)
    """Return the scores a key was made from."""
    scores_of: Callable[[bytes], list[Scores]] = field(init=False, repr=False, compare=False)
    """Return the scores of each of some keys that lie end to end."""
    masks: tuple[int, ...] = field(init=False, repr=False, compare=False)
    """XOR masks between the words of a key and the scores and position it encodes."""
    _layout: struct.Struct = field(init=False, repr=False, compare=False)
    _mask: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        flips = [
            _HIGHER_WINS if direction is Direction.HIGHER else _LOWER_WINS
            for direction in self.directions
        ]
        flips.append(_COMPLEMENTED if self.tie_break is TieBreak.LATEST else _KEPT)
        mask = struct.pack(f">{len(flips)}Q", *flips)
        remember = object.__setattr__  # The order is frozen from the next line on.
        remember(self, "key_bytes", len(mask))
        remember(self, "masks", tuple(flips))
        remember(self, "_layout", struct.Struct(f">{len(self.directions)}qQ"))
        remember(self, "_mask", int.from_bytes(mask, "big"))
        narrow = len(self.directions) == 1
        remember(self, "key", _narrow_key(self) if narrow else _wide_key(self))
        remember(self, "scores", _narrow_scores(self) if narrow else _wide_scores(self))
        remember(self, "scores_of", _narrow_scores_of(self) if narrow else _wide_scores_of(self))

    @staticmethod
    def of(board: Board) -> "Order":
        """Return the order of a board's entries. Boards that order alike share one."""
        return _order(board.directions, board.tie_break)

    def position(self, key: bytes) -> Position | None:
        """Return the position a key was made from, or None where the player decides ties."""
        return Position(self._unpack(key)[-1]) if self.tie_break is not TieBreak.PLAYER else None

    def parted(self, keys: bytes) -> list[bytes]:
        """Return keys that lie end to end, one by one."""
        width = self.key_bytes
        return [keys[at : at + width] for at in range(0, len(keys), width)]

    def floor(self, scores: Scores) -> bytes:
        """Return a key that no entry with these scores is below, and every better one is.

        How many entries lie below it is how many are strictly better: the standard rank, less one.
        """
        return self._score_part(scores) + _LOWEST_TIE

    def ceiling(self, scores: Scores) -> bytes:
        """Return a key that no entry with these scores is above, and every worse one is."""
        return self._score_part(scores) + _HIGHEST_TIE

    def span(self, low: int | None, high: int | None) -> tuple[bytes, bytes]:
        """Return the bounds of the entries whose first column lies in a range, both inclusive.

        No such entry is below the first key; every entry below the second, and not below the first,
        is one. None is no bound.
        """
        higher = self.directions[0] is Direction.HIGHER
        best, worst = (high, low) if higher else (low, high)
        begin = bytes(8) if best is None else self._first_word(best)
        end = b"\xff" * 8 if worst is None else self._first_word(worst)
        rest = self.key_bytes - 8
        return begin + bytes(rest), end + b"\xff" * rest

    def newcomer(self, scores: Scores) -> bytes:
        """Return a key at the place a newcomer with these scores would take among its equals.

        Where the later is ahead that is before them all; otherwise behind them.
        """
        latest = self.tie_break is TieBreak.LATEST
        return self.floor(scores) if latest else self.ceiling(scores)

    def _first_word(self, score: int) -> bytes:
        others = (0,) * (len(self.directions) - 1)
        return self.key((score, *others), _ANY_POSITION)[:8]

    def _score_part(self, scores: Scores) -> bytes:
        return score_part(self.key(scores, _ANY_POSITION))

    def _unpack(self, key: bytes) -> tuple[int, ...]:
        packed = (int.from_bytes(key, "big") ^ self._mask).to_bytes(self.key_bytes, "big")
        return self._layout.unpack(packed)


def score_part(key: bytes) -> bytes:
    """Return the part of a key that tied entries share, under any order."""
    return key[:-TIE_BREAK_BYTES]


def _wide_key(order: Order) -> Callable[[Scores, Position], bytes]:
    """Make keys of any number of columns, all at once: one XOR over the packed numbers."""
    pack, mask, key_bytes = order._layout.pack, order._mask, order.key_bytes
    factor = 0 if order.tie_break is TieBreak.PLAYER else 1

    def key(scores: Scores, position: Position) -> bytes:
        assert position > 0, position
        packed = pack(*scores, position * factor)
        return (int.from_bytes(packed, "big") ^ mask).to_bytes(key_bytes, "big")

    return key


def _narrow_key(order: Order) -> Callable[[Scores, Position], bytes]:
    """Make the same keys of one column in half the time: by far the most boards have one.

    On a single number the XOR is a sum or a difference: n XOR 2**63 is n + 2**63, and a complement
    is the difference to 2**64 - 1.
    """
    pack = struct.Struct(">QQ").pack
    start, sign = (2**63 - 1, -1) if order.directions[0] is Direction.HIGHER else (2**63, 1)
    tie_start, tie_sign = {
        TieBreak.FIRST: (0, 1),
        TieBreak.LATEST: (POSITION_MAX, -1),
        TieBreak.PLAYER: (0, 0),
    }[order.tie_break]

    def key(scores: Scores, position: Position) -> bytes:
        assert position > 0, position
        (score,) = scores
        return pack(start + sign * score, tie_start + tie_sign * position)

    return key


def _wide_scores(order: Order) -> Callable[[bytes], Scores]:
    def scores(key: bytes) -> Scores:
        return order._unpack(key)[:-1]

    return scores


def _narrow_scores(order: Order) -> Callable[[bytes], Scores]:
    """Return the inverse of ``_narrow_key``: it runs for every row of every page."""
    unpack = struct.Struct(">Q8x").unpack
    if order.directions[0] is Direction.HIGHER:
        return lambda key: (_HIGHER_WINS - unpack(key)[0],)
    return lambda key: (unpack(key)[0] - _LOWER_WINS,)


def _wide_scores_of(order: Order) -> Callable[[bytes], list[Scores]]:
    def scores_of(keys: bytes) -> list[Scores]:
        return list(map(order.scores, order.parted(keys)))

    return scores_of


def _narrow_scores_of(order: Order) -> Callable[[bytes], list[Scores]]:
    unpack = struct.Struct(">Q8x").iter_unpack
    if order.directions[0] is Direction.HIGHER:
        return lambda keys: [(_HIGHER_WINS - word,) for (word,) in unpack(keys)]
    return lambda keys: [(word - _LOWER_WINS,) for (word,) in unpack(keys)]


_order = cache(Order)

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

Under decay an entry is an amount at an instant (decay.py), and the key of its single column is

   16  the word that orders it, shifted to unsigned and complemented
    8  the instant, complemented when the latest of equals is ahead
   16  under half-life only: the amount, shifted to unsigned and complemented
    8  the tie-break

Time goes on with positions. So entries that are equal but for their instants, by chance and then
for ever, are in the order of their positions, as the tie-break has it.

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
from rankd.model.decay import Amount, Decay, LinearDecay
from rankd.model.facts import Position
from rankd.model.window import Instant

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
    """XOR masks between the words of a key and the scores and position it encodes. None under
    decay."""
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
        if board.decay is not None:
            return _decay_order(board.directions, board.tie_break, board.decay)
        return _order(board.directions, board.tie_break)

    @property
    def decays(self) -> bool:
        """Whether the scores that are shown depend on the time."""
        return False

    @property
    def identity(self) -> str:
        """Everything that makes keys comparable, as text."""
        return f"{','.join(self.directions)}/{self.tie_break}"

    def entry(self, scores: Scores, _at: Instant) -> Scores:
        """Return the entry of scores that are recorded at an instant."""
        return scores

    def shown(self, entry: Scores, _at: Instant) -> Scores:
        """Return the scores of an entry to show at an instant."""
        return entry

    def recorded(self, _entry: Scores) -> int | None:
        """Return the score of an entry as it was recorded; None without decay, as it is shown."""
        return None

    def shown_of(self, keys: bytes, _at: Instant) -> list[Scores]:
        """Return the scores to show of each of some keys that lie end to end."""
        return self.scores_of(keys)

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

    def floor_of(self, key: bytes) -> bytes:
        """Return the floor of the scores that a key was made from."""
        return score_part(key) + _LOWEST_TIE

    def ceiling(self, scores: Scores) -> bytes:
        """Return a key that no entry with these scores is above, and every worse one is."""
        return self._score_part(scores) + _HIGHEST_TIE

    def span(self, low: int | None, high: int | None, _at: Instant) -> tuple[bytes, bytes]:
        """Return the bounds of the entries whose first column lies in a range, both inclusive.

        No such entry is below the first key; every entry below the second, and not below the first,
        is one. None is no bound. Under decay the column is the score that is shown at an instant.
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


_WORD_MAX = 2**127 - 1
_WORD_LIMIT = 2**128
_INSTANT_MAX = 2**64 - 1


@dataclass(frozen=True, slots=True)
class DecayOrder(Order):
    """The order of entries whose scores become less with time. Their ``Scores`` are an Amount."""

    decay: Decay

    def __post_init__(self) -> None:
        assert self.directions == (Direction.HIGHER,), "decay needs one column, higher wins"
        remember = object.__setattr__
        remember(self, "key_bytes", 32 if isinstance(self.decay, LinearDecay) else 48)
        remember(self, "masks", ())
        remember(self, "key", self._key)
        remember(self, "scores", self._entry)
        remember(self, "scores_of", self._entries)

    @property
    def decays(self) -> bool:
        """Always."""
        return True

    @property
    def identity(self) -> str:
        """Everything that makes keys comparable, as text."""
        return f"{self.tie_break}/{self.decay}"

    def entry(self, scores: Scores, at: Instant) -> Scores:
        """Return the entry of a score that is recorded at an instant."""
        return self.decay.entry(scores[0] * self.decay.scale, at)

    def shown(self, entry: Scores, at: Instant) -> Scores:
        """Return the value of an entry at an instant."""
        return (self.decay.score(Amount(*entry), at),)

    def recorded(self, entry: Scores) -> int | None:
        """Return the score of an entry as it was recorded."""
        amount = Amount(*entry)
        return self.decay.score(amount, amount.at)

    def shown_of(self, keys: bytes, at: Instant) -> list[Scores]:
        """Return the values at an instant of each of some keys that lie end to end."""
        return [self.shown(self._entry(key), at) for key in self.parted(keys)]

    def position(self, key: bytes) -> Position | None:
        """Return the position a key was made from, or None where the player decides ties."""
        if self.tie_break is TieBreak.PLAYER:
            return None
        tie = int.from_bytes(key[-TIE_BREAK_BYTES:], "big")
        return Position(POSITION_MAX - tie if self.tie_break is TieBreak.LATEST else tie)

    def span(self, low: int | None, high: int | None, at: Instant) -> tuple[bytes, bytes]:
        """Return the bounds of the entries whose shown score lies in a range, both inclusive.

        A shown score is at least n if the value is n - 1/2 or more, and that itself if n is even.
        """
        bound, width = self.decay.bound, self.key_bytes
        begin, end = bytes(width), b"\xff" * width
        if high is not None:
            fill = b"\xff" if high & 1 else b"\0"
            begin = _word_bytes(bound(2 * high + 1, at)) + fill * (width - 16)
        if low is not None:
            fill = b"\0" if low & 1 else b"\xff"
            end = _word_bytes(bound(2 * low - 1, at)) + fill * (width - 16)
        return begin, end

    def _key(self, scores: Scores, position: Position) -> bytes:
        assert position > 0, position
        entry, latest = Amount(*scores), self.tie_break is TieBreak.LATEST
        tie = {TieBreak.FIRST: position, TieBreak.LATEST: POSITION_MAX - position}
        parts = [
            _word_bytes(self.decay.word(entry)),
            (_INSTANT_MAX - entry.at if latest else entry.at).to_bytes(8, "big"),
            b"" if isinstance(self.decay, LinearDecay) else _word_bytes(entry.amount),
            tie.get(self.tie_break, 0).to_bytes(TIE_BREAK_BYTES, "big"),
        ]
        return b"".join(parts)

    def _entry(self, key: bytes) -> Scores:
        at = int.from_bytes(key[16:24], "big")
        if self.tie_break is TieBreak.LATEST:
            at = _INSTANT_MAX - at
        if isinstance(self.decay, LinearDecay):
            return self.decay.entry_of(_WORD_MAX - int.from_bytes(key[:16], "big"), at)
        return Amount(_WORD_MAX - int.from_bytes(key[24:40], "big"), at)

    def _entries(self, keys: bytes) -> list[Scores]:
        return [self._entry(key) for key in self.parted(keys)]


def _word_bytes(word: int) -> bytes:
    """Return a signed number of 128 bits as bytes, the greatest first."""
    return (_WORD_MAX - word).to_bytes(16, "big")


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
_decay_order = cache(DecayOrder)

"""The rules of judging in plain numbers, as a rank list takes them."""

from collections.abc import Sequence
from typing import NamedTuple

BEST, LATEST, SUM, FIRST = range(4)
"""How new scores combine with those a player has: the better stays, all columns compared as one;
the new ones replace the old; they are added, column by column; the old ones stay."""


HELD, REFUSED = 4, 5
"""Verdicts of barred submissions: those that judging itself reaches are smaller."""

ORDINAL, STANDARD, DENSE = range(3)
"""How equal scores share ranks: 1 2 3 4, 1 2 2 4, or 1 2 2 3, which needs a dense list."""


class Rules(NamedTuple):
    """How a list judges submissions, and makes keys of scores."""

    rule: int
    """BEST, LATEST, SUM or FIRST."""
    masks: Sequence[int]
    """One for each word of a key: the word is the score, as 64 bits, XOR its mask, and the last one
    the position times ``tie_factor``, XOR the last mask. A lesser word is the better."""
    tie_factor: int
    """1 where positions order equal scores, 0 where the players do."""
    low: int
    high: int
    """Bounds of the first column, both included."""
    ties: int = ORDINAL
    """ORDINAL, STANDARD or DENSE: how the ranks before and after are counted."""

"""A ranking, the moves of its entries, and the values that an index returns."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from rankd.model.board import Board
from rankd.model.facts import Position
from rankd.model.standing import Rank, TieRule

if TYPE_CHECKING:
    from array import array


class Ranking(msgspec.Struct, frozen=True, gc=False):
    """The identity of one ranking: a board, one of its windows, and a segment or all players."""

    board: str
    window: str
    """The window's id, such as ``daily:2026-11-14``."""
    segment: str | None = None
    """An attribute and its value, ``region:eu``; None for all players."""

    @property
    def identity(self) -> str:
        """The id in cursors and between nodes. Never change it: both outlive a version of rankd."""
        return f"{self.board}/{self.window}/{self.segment or ''}"

    def __str__(self) -> str:
        """Return the name shown to people, whose format may change."""
        everybody = f"{self.board}/{self.window}"
        return everybody if self.segment is None else f"{everybody}/{self.segment}"


class RankingShape(NamedTuple):
    """The parameters with which an index creates a ranking."""

    key_bytes: int
    dense: bool
    """Whether distinct scores are counted, for dense ranks."""


class Move(NamedTuple):
    """A player's new entry in one ranking, or its removal."""

    ranking: Ranking
    player: str
    order_key: bytes | None
    """None removes the player; STAY changes nothing and only returns its rank."""
    metadata: bytes | None = None
    """Shown beside the entry. It belongs to the submission that counts."""
    ties: TieRule = TieRule.ORDINAL
    """The tie rule for the ranks in ``Moved``. DENSE needs a dense ranking."""


STAY = b""
"""The player's present order key. No real order key is empty."""


DRAFT = "\x1f"
"""The prefix of the board's name in a draft ranking. No real board's name begins with it."""


class Moved(NamedTuple):
    """The result of a move. Ranks follow its tie rule; None where there is no entry."""

    previous_rank: Rank | None
    rank: Rank | None
    total: int


class Placed(NamedTuple):
    """An entry as an index stores it. Only the model interprets the order key."""

    player: str
    order_key: bytes
    metadata: bytes | None


class Ranked(NamedTuple):
    """One player's rank and entry in one ranking."""

    rank: Rank
    """Ordinal, counted from 1."""
    order_key: bytes
    metadata: bytes | None
    total: int
    as_of: Position


class Places(NamedTuple):
    """The ranks and entries of some players in one ranking, as columns."""

    ranks: Sequence[int]
    """As in ``Ranked``; 0 for a player without an entry."""
    order_keys: bytes
    """Concatenated; zeros for a player without an entry."""
    metadata: Sequence[bytes | None] | None
    """None if no entry has any."""
    total: int
    as_of: Position


class EntryRange(NamedTuple):
    """Consecutive entries of one ranking."""

    entries: Sequence[Placed]
    total: int
    """The size of the whole ranking."""
    as_of: Position


class EntryColumns(NamedTuple):
    """Consecutive entries as columns, to be rendered without an object for each."""

    players: Sequence[str]
    order_keys: bytes
    """Concatenated."""
    metadata: Sequence[bytes | None] | None
    """None if no entry has any."""
    total: int
    as_of: Position


class Run(NamedTuple):
    """Submissions to one board by position, for the index to judge in place."""

    board: Board
    rankings: Sequence[Ranking]
    """One for each open window; each is judged separately."""
    players: Sequence[str]
    scores: "array[int]"
    """Type ``q``: a value for each score column of each submission; a delta is padded with zeros.
    """
    deltas: bytes | None
    """For each submission 1 if it is a delta, else 0; None if none is."""
    positions: "array[int]"
    """Type ``Q``."""
    metadata: Sequence[bytes | None] | None
    """None if no submission has any."""
    segments: Sequence[Sequence[str]] | None = None
    """The segments of each submission's player, which its entries are in too; None if the board has
    none. No submission of the run changes them."""


COUNTED, NOT_BETTER, OUT_OF_BOUNDS, OVERFLOW = range(4)
"""The verdicts in ``Verdicts``, equal to those of ``model.submission.judge``."""


class Verdicts(NamedTuple):
    """The results of a run in one ranking, as columns with a row for each submission."""

    verdicts: bytes
    scores: "array[int]"
    """The entry's scores afterwards, one for each score column; undefined where the rank is 0."""
    previous_scores: "array[int]"
    """The scores before; undefined where the previous rank is 0."""
    ranks: "array[int]"
    """By the board's tie rule; 0 without an entry."""
    previous_ranks: "array[int]"
    totals: "array[int]"

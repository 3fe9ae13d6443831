"""The answer to a submission: what it did, in every window it fell in.

A receipt is kept under the submission's key and given again, unchanged, to whoever repeats it, also
years later by another version of this program. So it holds what was true at its position and
nothing that is looked up when it is read; and its bytes, like those of facts, only ever grow at
the end.
"""

from decimal import Decimal
from typing import Literal

import msgspec

from rankd.model.facts import Position
from rankd.model.standing import Rank, percentile, shown_score

VerdictName = Literal["counted", "not_better", "held", "rejected"]


class InWindow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a submission did in one window, and where the player stands there after it."""

    window: str
    """The window's id, such as ``daily:2026-11-14``."""
    verdict: VerdictName
    scores: tuple[int, ...] | None = None
    """In smallest units; absent where the player has no entry."""
    previous_scores: tuple[int, ...] | None = None
    rank: Rank | None = None
    """As the board shows ties; absent where the player has no entry."""
    previous_rank: Rank | None = None
    total: int = 0
    """How many entries the window's ranking has."""
    code: str | None = None
    message: str | None = None
    """Why, where it was rejected or held."""

    @property
    def rank_change(self) -> int | None:
        """How many ranks the player rose; absent where there was none before."""
        if self.rank is None or self.previous_rank is None:
            return None
        return self.previous_rank - self.rank

    @property
    def percentile(self) -> float | None:
        """The share of the ranking at or below the player, in percent."""
        return None if self.rank is None else percentile(self.rank, self.total)


class Receipt(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one submission did. The board's first window speaks for the whole."""

    board: str
    player: str
    position: Position
    decimals: int
    """Of the board's scores at the time."""
    windows: dict[str, InWindow]
    """By the name of their recurrence, in the order of the board's definition."""

    @property
    def first(self) -> InWindow:
        """The window that speaks for the whole. A board has at least one."""
        return next(iter(self.windows.values()))

    @property
    def verdict(self) -> VerdictName:
        """What judging it decided, in the first window."""
        return self.first.verdict

    @property
    def score(self) -> int | Decimal | None:
        """The player's score after it, as people see it."""
        return self.shown(self.first.scores)

    @property
    def previous_score(self) -> int | Decimal | None:
        """The player's score before it."""
        return self.shown(self.first.previous_scores)

    @property
    def rank(self) -> Rank | None:
        """The player's rank after it."""
        return self.first.rank

    @property
    def previous_rank(self) -> Rank | None:
        """The player's rank before it."""
        return self.first.previous_rank

    @property
    def rank_change(self) -> int | None:
        """How many ranks the player rose."""
        return self.first.rank_change

    @property
    def total(self) -> int:
        """How many entries there are."""
        return self.first.total

    @property
    def percentile(self) -> float | None:
        """The share of the ranking at or below the player, in percent."""
        return self.first.percentile

    def shown(self, scores: tuple[int, ...] | None) -> int | Decimal | None:
        """Return the first column as people see it."""
        return None if scores is None else shown_score(scores[0], self.decimals)

    def encode(self) -> bytes:
        """Return the bytes to keep it by."""
        return _encode(self)

    @staticmethod
    def decode(body: bytes) -> "Receipt":
        """Return the receipt that was kept."""
        return _decode(body)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Receipt).decode

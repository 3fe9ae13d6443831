"""Receipts: the outcome of a submission in every window it fell in.

A receipt is stored under the submission's key and returned, unchanged, to every repetition, also
years later by another version of this program. So it holds only values that were true at its
position, and none that are looked up when it is read; and its bytes, like those of facts, only ever
grow at the end.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Literal

import msgspec

from rankd.model.facts import Position
from rankd.model.rules import Reason
from rankd.model.standing import Rank, ReprMixin, Words, percentile, shown_score
from rankd.model.window import Instant

VerdictName = Literal["counted", "not_better", "held", "rejected"]


class InWindow(ReprMixin, msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The outcome of a submission in one window, and the player's standing after it."""

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
    raw: int | None = None
    """On boards with decay the score as it was recorded, in smallest units."""

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

    def _words(self) -> Words:
        yield "window", self.window
        yield "verdict", self.verdict
        yield "scores", self.scores
        yield "previous_scores", self.previous_scores
        yield "rank", self.rank
        yield "previous_rank", self.previous_rank
        yield "total", self.total
        yield "code", self.code, None
        yield "message", self.message, None
        yield "raw", self.raw, None


NOWHERE = InWindow(
    "", "rejected", code="no_window", message="no window of the board was open when it came"
)


class Receipt(ReprMixin, msgspec.Struct, frozen=True, eq=False, gc=False):
    """The outcome of one submission. Its first window gives the summary."""

    board: str
    player: str
    position: Position
    decimals: int
    """Of the board's scores at the time."""
    windows: Mapping[str, InWindow]
    """By the name of their recurrence, in the order of the board's definition. Empty only if the
    board had no window open, or was retired before the submission's turn came."""
    rejected: bool = False
    """Whether it counts nowhere: every window rejects it."""
    duplicate: bool = False
    """Whether this is the answer to an earlier submission with the same key."""
    reasons: tuple[Reason, ...] = ()
    """The rules against cheating that refused it, or held it for review."""
    expires: Instant | None = None
    """When it counts no more; None for never."""

    @property
    def review(self) -> str | None:
        """The id of its review if it was held: its position, in digits."""
        return str(self.position) if self.verdict == "held" else None

    @property
    def first(self) -> InWindow:
        """The window that speaks for the whole: ``all``, or the first of the definition."""
        if (overall := self.windows.get("all")) is not None:
            return overall
        return next(iter(self.windows.values()), NOWHERE)

    @property
    def verdict(self) -> VerdictName:
        """The verdict in the first window."""
        return self.first.verdict

    @property
    def score(self) -> int | Decimal | None:
        """The player's score after it, as people see it."""
        return self.shown(self.first.scores)

    @property
    def raw_score(self) -> int | Decimal | None:
        """On boards with decay the score after it as it was recorded; else None."""
        return None if self.first.raw is None else shown_score(self.first.raw, self.decimals)

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

    def _words(self) -> Words:
        yield "board", self.board
        yield "player", self.player
        yield "verdict", self.verdict
        yield "score", self.score
        yield "raw_score", self.raw_score, None
        yield "previous_score", self.previous_score
        yield "rank", self.rank
        yield "previous_rank", self.previous_rank
        yield "rank_change", self.rank_change
        yield "total", self.total
        yield "percentile", self.percentile
        yield "position", self.position
        yield "duplicate", self.duplicate, False
        yield "reasons", self.reasons, ()
        yield "expires", self.expires, None
        if len(self.windows) > 1 or len(self.first.scores or ()) > 1:  # Else that is all.
            yield "windows", dict(self.windows)

    def __eq__(self, other: object) -> bool:
        """Whether both are answers to one submission: a repetition gets an equal one."""
        if not isinstance(other, Receipt):
            return NotImplemented
        return self._head() == other._head() and self.windows == other.windows

    def __hash__(self) -> int:
        return hash(self._head())

    def shown(self, scores: tuple[int, ...] | None) -> int | Decimal | None:
        """Return the first column as people see it."""
        return None if scores is None else shown_score(scores[0], self.decimals)

    def encode(self) -> bytes:
        """Return the bytes to keep it by."""
        if self.reasons or self.expires is not None:
            rest = dict(self.windows), self.reasons, self.expires
            return _encode(_StoredWhole(*self._head(), *rest))
        return _encode(_Stored(*self._head(), dict(self.windows)))

    def _head(self) -> tuple[str, str, Position, int]:
        return self.board, self.player, self.position, self.decimals

    @staticmethod
    def decode(body: bytes) -> "Receipt":
        """Return a stored receipt, as ``encode`` wrote it or as a form was filled in."""
        if not body.startswith(b"["):  # With which no receipt in MessagePack begins.
            stored = _decode(body)
            return _receipt(stored, stored.windows, stored.reasons, stored.expires)
        filled = _decode_filled(body)
        return _receipt(filled, {name: each.in_window() for name, each in filled.windows.items()})


def is_rejected(windows: Mapping[str, InWindow]) -> bool:
    """Whether a submission counts nowhere."""
    return all(each.verdict == "rejected" for each in windows.values())


class _Head(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The beginning of a stored receipt. Fields are only ever added at the end of the whole."""

    board: str
    player: str
    position: Position
    decimals: int


class _Stored(_Head, frozen=True, array_like=True, gc=False):
    windows: dict[str, InWindow]


class _StoredWhole(_Stored, frozen=True, array_like=True, gc=False):
    """A stored receipt of a submission with a term, or that rules refused or held; or of any."""

    reasons: tuple[Reason, ...] = ()
    expires: Instant | None = None


class _FilledInWindow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An ``InWindow`` out of a form, in which a list that there is not is a list of null."""

    window: str
    verdict: VerdictName
    scores: tuple[int | None, ...]
    previous_scores: tuple[int | None, ...]
    rank: Rank | None
    previous_rank: Rank | None
    total: int
    code: str | None
    message: str | None

    def in_window(self) -> InWindow:
        return InWindow(
            self.window,
            self.verdict,
            _known(self.scores),
            _known(self.previous_scores),
            self.rank,
            self.previous_rank,
            self.total,
            self.code,
            self.message,
        )


class _Filled(_Head, frozen=True, array_like=True, gc=False):
    windows: dict[str, _FilledInWindow]


def _known(scores: tuple[int | None, ...]) -> tuple[int, ...] | None:
    return None if None in scores else scores  # type: ignore[return-value]


def _receipt(
    head: _Head,
    windows: dict[str, InWindow],
    reasons: tuple[Reason, ...] = (),
    expires: Instant | None = None,
) -> Receipt:
    fields = head.board, head.player, head.position, head.decimals
    return Receipt(*fields, windows, is_rejected(windows), reasons=reasons, expires=expires)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_StoredWhole).decode
_decode_filled = msgspec.json.Decoder(_Filled).decode

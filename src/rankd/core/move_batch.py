"""Batches of moves: the intermediate result of folding facts in moves, and its receipts."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rankd.core.board_state import BoardState
from rankd.model.board import Scores
from rankd.model.facts import Position, ScoreSubmitted
from rankd.model.receipt import InWindow, Receipt, VerdictName, is_rejected
from rankd.model.rules import Reason
from rankd.model.standing import TieRule
from rankd.model.submission import OVERFLOW, Counted, Held, NotBetter, Rejected, Verdict
from rankd.model.window import Instant
from rankd.ports import STAY, Move, Moved, Ranking, RankingShape

Place = tuple[Ranking, str]
Entries = dict[Place, bytes | None]


class WindowOutcome(NamedTuple):
    """The verdict in one window, and the number of the move that returns its ranks."""

    window: str
    verdict: Verdict
    before: Scores | None
    after: Scores | None
    move: int
    raw: int | None = None
    """On boards with decay the score afterwards, as it was recorded."""


class Judged(NamedTuple):
    """A submission with its outcome in each window."""

    page: BoardState
    fact: ScoreSubmitted
    position: Position
    outcomes: dict[str, WindowOutcome]
    reasons: tuple[Reason, ...] = ()
    """The rules that bar it."""
    expires: Instant | None = None
    """When its term is over, if it has one."""


@dataclass(slots=True)
class MoveBatch:
    """The intermediate result of folding some facts in moves."""

    entries: dict[Place, bytes | None] = field(default_factory=dict)
    """The order keys as the facts so far have made them."""
    beside: dict[Place, bytes | None] = field(default_factory=dict)
    """The metadata that they brought."""
    moves: list[Move] = field(default_factory=list)
    opened: dict[Ranking, RankingShape] = field(default_factory=dict)
    dropped: list[Ranking] = field(default_factory=list)
    adopted: dict[Ranking, Ranking] = field(default_factory=dict)
    judged: list[Judged] = field(default_factory=list)
    fresh: set[Ranking] = field(default_factory=set)
    """Windows that the facts have opened, still empty."""
    at: Position | None = None
    """The position that entries are looked up at; None for drafts, which have none."""

    def clear(self) -> None:
        """Forget moves and rankings that were staged."""
        self.entries, self.beside, self.moves, self.judged = {}, {}, [], []
        self.opened, self.dropped, self.adopted, self.fresh = {}, [], {}, set()

    def put(
        self,
        place: Place,
        order_key: bytes | None,
        metadata: bytes | None = None,
        ties: TieRule = TieRule.ORDINAL,
    ) -> int:
        """Move a player; return which move it is."""
        self.entries[place] = order_key
        self.beside[place] = metadata
        self.moves.append(Move(*place, order_key, metadata, ties))
        return len(self.moves) - 1

    def overflowed(self) -> list[str]:
        """Return the windows in which the last submission came to more than 64 bits."""
        outcomes = self.judged[-1].outcomes
        return [name for name, outcome in outcomes.items() if outcome.verdict is OVERFLOW]

    def ask(self, place: Place, ties: TieRule) -> int:
        """Ask for a player's rank at this moment; return which move tells it."""
        self.moves.append(Move(*place, STAY, None, ties))
        return len(self.moves) - 1


def receipt_of(judged: Judged, moved: Sequence[Moved]) -> Receipt:
    """Return the receipt of a submission from the ranks that its moves told."""
    windows = {
        name: _in_window(outcome, each)
        for (name, outcome), each in zip(judged.outcomes.items(), moved, strict=True)
    }
    fact, decimals = judged.fact, judged.page.board.decimals
    return Receipt(
        fact.board,
        fact.player,
        judged.position,
        decimals,
        windows,
        is_rejected(windows),
        reasons=judged.reasons,
        expires=judged.expires,
    )


def _in_window(outcome: WindowOutcome, moved: Moved) -> InWindow:
    name, code, message = _named(outcome.verdict)
    return InWindow(
        outcome.window,
        name,
        outcome.after,
        outcome.before,
        moved.rank,
        moved.previous_rank,
        moved.total,
        code,
        message,
        outcome.raw,
    )


def _named(verdict: Verdict) -> tuple[VerdictName, str | None, str | None]:
    match verdict:
        case Counted():
            return "counted", None, None
        case NotBetter():
            return "not_better", None, None
        case Held(reason):
            return "held", reason, None
        case Rejected(code, message):
            return "rejected", code, message

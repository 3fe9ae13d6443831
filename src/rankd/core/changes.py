"""Changes of a projector: the boards that the fold changed since the last look, and by which facts.

The fold notes them only while there are streams, so a service without any pays nothing.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from rankd.core.receipts import Receipts, RunReceipts
from rankd.model.facts import Fact, Position, Recorded

MOVES_MAX = 1_000
"""Judged submissions of one board that are remembered between two looks; the oldest go first."""

EVERY_BOARD = None
"""In place of a board, for a fact that may concern any: a profile, or a state of a player."""


class JudgedMove(NamedTuple):
    """A judged submission: its player, and its ranks in one window after it and before it."""

    position: Position
    player: str
    rank: int
    previous_rank: int | None


class RankingChanges:
    """The boards changed since the last look, with their last positions."""

    def __init__(self, since: Position) -> None:
        self.since = since
        """The log knows of every change after this position."""
        self.last: dict[str | None, Position] = {}
        """Of each board the position of its last change; of None, that of all boards."""
        self.fresh: set[str | None] = set()
        """Boards that changed since the last look."""
        self.watched: Callable[[str], bool] = lambda _board: False
        """Whether the moves of a board are remembered."""
        self._judged: dict[str, deque[tuple[Sequence[Recorded], Receipts]]] = {}

    def note(self, facts: Sequence[Recorded], receipts: Receipts) -> None:
        """Note facts that were folded, with the receipts of submissions among them."""
        if type(receipts) is RunReceipts and len(receipts) == len(facts):
            self._note_board(receipts.judged.run.board.name, facts[-1].position)
        else:
            for recorded in facts:
                for board in _boards_of(recorded.fact):
                    self._note_board(board, recorded.position)
        if receipts:
            self._note_moves(facts, receipts)

    def note_all(self, position: Position) -> None:
        """Note that every board may have changed."""
        self._note_board(EVERY_BOARD, position)

    def take(self) -> set[str | None]:
        """Return the boards that changed since the last look."""
        fresh, self.fresh = self.fresh, set()
        return fresh

    def is_unchanged(self, board: str, since: Position) -> bool:
        """Whether a board is known not to have changed after a position."""
        last = max(self.last.get(board, self.since), self.last.get(EVERY_BOARD, self.since))
        return last <= since

    def moves(self, board: str, window: str, since: Position) -> Iterator[JudgedMove]:
        """Yield the remembered moves in a window after a position, newest first."""
        for facts, receipts in reversed(self._judged.get(board, ())):
            for recorded in reversed(facts):
                if recorded.position <= since:
                    return
                receipt = receipts.get(recorded.position)
                if receipt is None or receipt.board != board:
                    continue
                outcome = receipt.windows.get(window)
                if outcome is not None and outcome.rank is not None:
                    ranks = outcome.rank, outcome.previous_rank
                    yield JudgedMove(recorded.position, receipt.player, *ranks)

    def forget_moves(self, board: str, through: Position) -> None:
        """Forget the moves of a board up to a position."""
        judged = self._judged.get(board)
        while judged and judged[0][0][-1].position <= through:
            judged.popleft()
        if judged is not None and not judged:
            del self._judged[board]

    def _note_board(self, board: str | None, position: Position) -> None:
        self.last[board] = position
        self.fresh.add(board)

    def _note_moves(self, facts: Sequence[Recorded], receipts: Receipts) -> None:
        boards = {getattr(recorded.fact, "board", "") for recorded in facts}
        for board in boards:
            if self.watched(board):
                judged = self._judged.setdefault(board, deque())
                judged.append((facts[-MOVES_MAX:], receipts))
                while len(judged) > 1 and sum(len(facts) for facts, _ in judged) > MOVES_MAX:
                    judged.popleft()


def _boards_of(fact: Fact) -> Sequence[str | None]:
    """Return the boards whose rankings a fact may change, or how they are shown."""
    board: str | None = getattr(fact, "board", None)
    if board is not None:
        return (board,)
    boards: Sequence[str] | None = getattr(fact, "boards", None)
    return boards if fact.correction and boards else (EVERY_BOARD,)

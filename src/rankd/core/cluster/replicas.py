"""Reads from replicas of a shared index, which may be behind.

Which boards may be read so is the operator's choice. An answer older than this node's position is
marked stale. A replica does not answer if it would interpret old entries by a new definition, or
report a player as absent that may be new: such reads, and reads at a position, go to the primary.
"""

import asyncio
from collections.abc import Collection

from rankd.core.board_state import BoardState
from rankd.core.reader import RankingView, Reader
from rankd.errors import IndexForgot
from rankd.model.facts import Position
from rankd.ports import Ranked, RankIndex

EVERY_BOARD = "*"

REST_SECONDS = 1.0
"""How long replicas are left alone that did not answer: each further reader would wait for them."""


class Replicas:
    """Replicas of a shared index, and which boards may be read from them."""

    def __init__(self, index: RankIndex, boards: Collection[str]) -> None:
        self.index = index
        self._boards = frozenset(boards)
        self._rests_until = 0.0

    def may_serve(self, board: str) -> bool:
        """Whether this board may be read from them."""
        return board in self._boards or EVERY_BOARD in self._boards

    def serve(self, board: str) -> bool:
        """Whether it may, and they answer as far as is known."""
        return self.may_serve(board) and asyncio.get_running_loop().time() >= self._rests_until

    def reader_of(self, page: BoardState, primary: Reader) -> Reader | None:
        """Return a reader of one board's replicas; None if the primary has to be read."""
        if not self.serve(page.board.name):
            return None
        corrected = primary.projector.state.last_correction
        return ReplicaReader(primary, self, since=max(page.turned_since, corrected))

    def rest(self) -> None:
        """Leave them alone for a while."""
        self._rests_until = asyncio.get_running_loop().time() + REST_SECONDS


class ReplicaReader(Reader):
    """Answers questions about one board from replicas or, if they cannot, where is written."""

    def __init__(self, written: Reader, replicas: Replicas, *, since: Position) -> None:
        """Read from replicas that are at ``since`` or later.

        There the board was defined, or a correction was made: of a player that was banned there is
        no answer of before.
        """
        super().__init__(projector=written.projector, clock=written._clock, index=replicas.index)
        self.written, self._replicas, self._since = written, replicas, since

    def give_up(self) -> None:
        self._replicas.rest()

    def _is_stale(self, as_of: Position) -> bool:
        return as_of < self.projector.floor

    async def _rank(self, where: RankingView, player: str) -> Ranked | None:
        found = await super()._rank(where, player)
        if found is None:  # It is not said as of when, and "nobody" cannot be called stale.
            raise IndexForgot(position=self.projector.floor, checkpoint=0)
        return found

    async def _vouch(self, as_of: Position | None, _floor: Position) -> None:
        if as_of is not None and as_of < self._since:
            raise IndexForgot(position=self._since, checkpoint=as_of)

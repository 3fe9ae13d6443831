"""Rankd: the assembled whole. Opening recovers, closing leaves nothing undone.

submit ─▶ intake ─▶ ledger ─▶ projector ─▶ index ◀─ reader ◀─ standing, page, around
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any

from rankd.core.book import Book
from rankd.core.intake import Answer, Intake, opening_facts
from rankd.core.projector import Projector
from rankd.core.reader import Reader
from rankd.errors import BoardDiffers, FieldError, InvalidBoard
from rankd.model.board import Board
from rankd.model.facts import (
    BoardDefined,
    Fact,
    FriendsSet,
    PlayerProfiled,
    Position,
    Recorded,
)
from rankd.model.receipt import Receipt
from rankd.model.submission import Submission
from rankd.ports import Clock, Ledger, Progress, RankIndex


class Rankd:
    """A leaderboard engine: boards, submissions and standings over one ledger and one index."""

    def __init__(
        self, *, ledger: Ledger, index: RankIndex, book: Book, intake: Intake, clock: Clock
    ) -> None:
        self.book = book
        self.reader = Reader(index=index, book=book, clock=clock)
        self._ledger = ledger
        self._intake = intake
        self._clock = clock

    # ------------------------------------------------------------------------- boards

    async def define(self, name: str, definition: Mapping[str, object]) -> Board:
        """Define a board, or return it if it is defined just so. Raises BoardDiffers."""
        board = Board.define(name, definition)
        _refuse_unbuilt(board)
        known = self.book.boards.get(name)
        if known is not None:
            if changes := known.board.changes(board):
                raise BoardDiffers(board=name, fields=tuple(change.field for change in changes))
            return known.board
        await self._intake.put([BoardDefined(name, board.definition())])
        await self._intake.put(opening_facts(self.book.page(name), self._intake.last_at))
        return board

    # -------------------------------------------------------------------- submissions

    async def submit(self, submissions: Sequence[Submission]) -> list[Answer]:
        """Have submissions recorded, judged and counted; return what became of each."""
        return await self._intake.put([submission.fact() for submission in submissions])

    # ------------------------------------------------------------------------ players

    async def profile(
        self,
        player: str,
        *,
        name: str | None = None,
        attributes: Mapping[str, str | int | bool] | None = None,
    ) -> Position:
        """Set a player's profile, whole."""
        return await self._put(PlayerProfiled(player, name, dict(attributes or {})))

    async def set_friends(self, player: str, friends: Sequence[str]) -> Position:
        """Set a player's friends, all of them."""
        return await self._put(FriendsSet(player, tuple(friends)))

    async def _put(self, fact: Fact) -> Position:
        (answer,) = await self._intake.put([fact])
        return answer.position


def _refuse_unbuilt(board: Board) -> None:
    """Refuse what a definition may say and this engine does not do: ignoring it would be a lie."""
    limits = board.limits
    asked = {
        "decay": board.decay is not None,
        "retention": bool(board.retention),
        "prize": board.prize,
        "limits.gain_per_minute_max": limits.gain_per_minute_max is not None,
        "limits.submissions_per_minute_max": limits.submissions_per_minute_max is not None,
    }
    errors = [FieldError(name, "is not supported yet") for name, given in asked.items() if given]
    if errors:
        raise InvalidBoard(errors)


@asynccontextmanager
async def running(
    *,
    ledger: Ledger,
    index: RankIndex,
    clock: Clock,
    turn: AbstractContextManager[Any],
    progress: Callable[[Progress], None] = lambda _: None,
) -> AsyncIterator[Rankd]:
    """Recover from the ledger, serve, and stop once everything accepted has been answered."""
    book = Book()
    projector = Projector(ledger=ledger, index=index, book=book)
    recovered = await projector.recover(progress)

    async def fold(batch: Sequence[Recorded], *, after: Position) -> Mapping[Position, Receipt]:
        with turn:  # Readers of other threads wait; the fold of an index in memory never does.
            return await projector.fold(batch, after=after)

    intake = Intake(
        ledger,
        fold,
        book,
        clock,
        checkpoint=recovered.checkpoint,
        owed=recovered.owed,
        last_at=recovered.at,
    )
    writer = asyncio.create_task(intake.run(), name="intake")
    try:
        yield Rankd(ledger=ledger, index=index, book=book, intake=intake, clock=clock)
    finally:
        intake.close()
        await writer

"""Synchronous reads, for an index in this process.

Such an index never suspends, so the coroutine of a read runs to its end in one step: directly in a
program with an event loop, and under the fold's lock in a program with threads.
"""

from collections.abc import Coroutine, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from rankd.core.reader import FoundStandings, Page, Projected
from rankd.embedded.async_api import BoardHandle, RanksHandle, RemoteBoard, RemoteRanks
from rankd.embedded.board_ref import BoardRef
from rankd.embedded.handles import OpenEngine
from rankd.model.standing import NEIGHBOURS_DEFAULT, PAGE_LIMIT_DEFAULT, Rank, Standing
from rankd.model.window import ListedWindow

T = TypeVar("T")


class Answer(Protocol):
    """A function that runs the coroutine of a read to its end."""

    def __call__(self, asked: Coroutine[Any, Any, T], /) -> T:
        """Return the coroutine's result."""


class AnsweredBoard(BoardHandle):
    """The synchronous reads of a board."""

    def __init__(
        self, wanted: BoardRef, answer: Answer, reading: AbstractContextManager[Any]
    ) -> None:
        super().__init__(wanted)
        self._board = RemoteBoard(wanted)
        self._answer = answer
        self._reading = reading
        """Held by a read of an index in this process that runs without a coroutine."""

    def top(
        self,
        count: int = PAGE_LIMIT_DEFAULT,
        *,
        window: str | None = None,
        segment: str | None = None,
    ) -> list[Standing]:
        """Return the best standings."""
        return self._answer(self._board.top(count, window=window, segment=segment))

    def page(
        self,
        *,
        limit: int = PAGE_LIMIT_DEFAULT,
        offset: int | None = None,
        from_rank: int | None = None,
        cursor: str | None = None,
        window: str | None = None,
        segment: str | None = None,
    ) -> Page:
        """Return a page that begins at a rank, an offset or a cursor."""
        return self._answer(
            self._board.page(
                limit=limit,
                offset=offset,
                from_rank=from_rank,
                cursor=cursor,
                window=window,
                segment=segment,
            )
        )

    def standing(
        self, player: str, *, window: str | None = None, segment: str | None = None
    ) -> Standing | None:
        """Return a player's standing; None if it is not ranked."""
        reader = self._wanted.there().reader
        if not reader.immediate:
            return self._answer(self._board.standing(player, window=window, segment=segment))
        with self._reading:
            return reader.standing_now(reader.where(self.name, window, segment), player)

    def ranks(
        self, players: Sequence[str], *, window: str | None = None, segment: str | None = None
    ) -> list[Rank | None]:
        """Return the ranks of many players; None for each that is not ranked."""
        return self._answer(self._board.ranks(players, window=window, segment=segment))

    def around(
        self,
        player: str,
        *,
        above: int = NEIGHBOURS_DEFAULT,
        below: int = NEIGHBOURS_DEFAULT,
        window: str | None = None,
        segment: str | None = None,
    ) -> list[Standing]:
        """Return a player's neighbourhood, filled up at the edges. Raises NotRanked."""
        return self._answer(
            self._board.around(player, above=above, below=below, window=window, segment=segment)
        )

    def around_rank(
        self,
        rank: int,
        *,
        reach: int = NEIGHBOURS_DEFAULT,
        window: str | None = None,
        segment: str | None = None,
    ) -> list[Standing]:
        """Return the standings from ``rank - reach`` to ``rank + reach``."""
        return self._answer(
            self._board.around_rank(rank, reach=reach, window=window, segment=segment)
        )

    def lookup(
        self, players: Sequence[str], *, window: str | None = None, segment: str | None = None
    ) -> FoundStandings:
        """Return some players' standings, best first, and the players that are not ranked."""
        return self._answer(self._board.lookup(players, window=window, segment=segment))

    def friends(
        self, player: str, *, window: str | None = None, segment: str | None = None
    ) -> FoundStandings:
        """Return a player and its friends, ranked among themselves."""
        return self._answer(self._board.friends(player, window=window, segment=segment))

    def rank_for(
        self,
        score: object = None,
        *,
        columns: Sequence[object] | None = None,
        window: str | None = None,
        segment: str | None = None,
    ) -> Projected:
        """Return the rank that a new player with this score would get now."""
        return self._answer(
            self._board.rank_for(score, columns=columns, window=window, segment=segment)
        )

    def score_for(
        self,
        *,
        rank: int | None = None,
        percentile: float | None = None,
        window: str | None = None,
        segment: str | None = None,
    ) -> Projected:
        """Return the scores that hold a rank now, or the last rank of a percentile."""
        return self._answer(
            self._board.score_for(rank=rank, percentile=percentile, window=window, segment=segment)
        )

    def windows(self) -> list[ListedWindow]:
        """Return the sealed windows, oldest first, then the open ones, then the scheduled ones."""
        return self._answer(self._board.windows())


class AnsweredRanks(RanksHandle):
    """The synchronous reads of an engine."""

    def __init__(self, opened: OpenEngine, answer: Answer) -> None:
        super().__init__(opened)
        self._ranks = RemoteRanks(opened)
        self._answer = answer

    def boards(self) -> list[str]:
        """Return the names of the boards."""
        return self._answer(self._ranks.boards())

    def standings(self, player: str, *, window: str | None = None) -> dict[str, Standing]:
        """Return a player's standings by board, on every board with the window."""
        return self._answer(self._ranks.standings(player, window=window))

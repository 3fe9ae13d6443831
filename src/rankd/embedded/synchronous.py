"""The engine for a program without an event loop: the same calls, and each waits by itself.

Writes are handed to the engine's own thread. Reads never wait there, so they are answered at once
on the caller's thread, between two changes of the index.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from rankd.core.preview import Preview
from rankd.core.reader import Found, Page, Projected
from rankd.embedded.asynchronous import AsyncBoard, AsyncRanks
from rankd.errors import LedgerUnavailable
from rankd.model.facts import Position
from rankd.model.receipt import Receipt
from rankd.model.standing import NEIGHBOURS_DEFAULT, PAGE_LIMIT_DEFAULT, Rank, Standing
from rankd.model.submission import Item
from rankd.model.window import Window
from rankd.terminal import Show
from rankd.wiring import Folder

T = TypeVar("T")


class Board:
    """One board of an open engine. Threads may share it."""

    def __init__(self, owner: "Ranks", board: AsyncBoard) -> None:
        self.name = board.name
        self._owner = owner
        self._board = board

    @property
    def definition(self) -> dict[str, object]:
        """What the board is defined as, with every default written out."""
        return self._board.definition

    def submit(  # noqa: PLR0913 - what a submission may say
        self,
        player: str,
        score: object = None,
        *,
        delta: object = None,
        key: str | None = None,
        columns: Mapping[str, object] | None = None,
        metadata: object = None,
        attributes: Mapping[str, str | int | bool] | None = None,
        build: str | None = None,
        at: str | None = None,
    ) -> Receipt:
        """Have a score counted; return what it did. Raises Refused and Unavailable.

        It is on stable storage by then. A ``key`` makes it safe to send again: it counts once.
        """
        return self._owner.write(
            self._board.submit(
                player,
                score,
                delta=delta,
                key=key,
                columns=columns,
                metadata=metadata,
                attributes=attributes,
                build=build,
                at=at,
            )
        )

    def submit_many(self, items: Iterable[Item]) -> list[Receipt]:
        """Have many scores counted, one commit for each BATCH_FACTS_MAX; return what each did.

        If one is malformed, none of its commit is recorded; the error names the item. If one is
        refused when its turn comes, or reuses a key, the others count all the same and the first
        refusal is raised.
        """
        return self._owner.write(self._board.submit_many(items))

    def top(
        self,
        count: int = PAGE_LIMIT_DEFAULT,
        *,
        window: str | None = None,
        segment: str | None = None,
    ) -> Sequence[Standing]:
        """Return the best standings."""
        return self._owner.read(self._board.top(count, window=window, segment=segment))

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
        """Return a page, begun at a rank, an offset or a cursor."""
        return self._owner.read(
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
        """Return where a player stands, None where it does not."""
        return self._owner.read(self._board.standing(player, window=window, segment=segment))

    def ranks(
        self, players: Sequence[str], *, window: str | None = None, segment: str | None = None
    ) -> list[Rank | None]:
        """Return the ranks of many players, None for who has none."""
        return self._owner.read(self._board.ranks(players, window=window, segment=segment))

    def around(
        self,
        player: str,
        *,
        above: int = NEIGHBOURS_DEFAULT,
        below: int = NEIGHBOURS_DEFAULT,
        window: str | None = None,
        segment: str | None = None,
    ) -> Sequence[Standing]:
        """Return a player's neighbourhood, the edges made up. Raises NotRanked."""
        return self._owner.read(
            self._board.around(player, above=above, below=below, window=window, segment=segment)
        )

    def around_rank(
        self,
        rank: int,
        *,
        reach: int = NEIGHBOURS_DEFAULT,
        window: str | None = None,
        segment: str | None = None,
    ) -> Sequence[Standing]:
        """Return the standings from ``rank - reach`` to ``rank + reach``."""
        return self._owner.read(
            self._board.around_rank(rank, reach=reach, window=window, segment=segment)
        )

    def lookup(
        self, players: Sequence[str], *, window: str | None = None, segment: str | None = None
    ) -> Found:
        """Return some players' standings, best first, and who has none."""
        return self._owner.read(self._board.lookup(players, window=window, segment=segment))

    def friends(
        self, player: str, *, window: str | None = None, segment: str | None = None
    ) -> Found:
        """Return a player and its friends, ranked among themselves."""
        return self._owner.read(self._board.friends(player, window=window, segment=segment))

    def rank_for(
        self,
        score: object = None,
        *,
        columns: Sequence[object] | None = None,
        window: str | None = None,
        segment: str | None = None,
    ) -> Projected:
        """Return the rank that a newcomer with this score would get now."""
        return self._owner.read(
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
        return self._owner.read(
            self._board.score_for(rank=rank, percentile=percentile, window=window, segment=segment)
        )

    def windows(self) -> list[Window]:
        """Return the windows that can be read: the closed ones, oldest first, then the open."""
        return self._owner.read(self._board.windows())

    def preview(self, **definition: object) -> Preview:
        """Return what ``redefine`` with the same words would change. Nothing is changed."""
        return self._owner.write(self._board.preview(**definition))

    def redefine(self, *, progress: Show = None, **definition: object) -> None:
        """Change the board's definition in what is given; the rest stays.

        Windows that it changes are folded again from the ledger while everything goes on, and
        then switched at one moment.
        """
        self._owner.write(self._board.redefine(progress=progress, **definition))

    def retire(self, *, reason: str | None = None) -> None:
        """Take the board out of use. Its facts stay in the ledger."""
        self._owner.write(self._board.retire(reason=reason))


class Ranks:
    """An open engine. Threads may share it."""

    def __init__(
        self,
        ranks: AsyncRanks,
        loop: asyncio.AbstractEventLoop,
        reading: AbstractContextManager[Any],
    ) -> None:
        self.closed = False
        self._ranks = ranks
        self._loop = loop
        self._reading = reading

    @property
    def position(self) -> Position:
        """The position that reads are true at."""
        return self._ranks.position

    @property
    def durable(self) -> bool:
        """Whether anything outlives the process."""
        return self._ranks.durable

    def board(self, name: str, **definition: object) -> Board:
        """Get a board; define it first, with defaults for what is not said, if it is not there.

        Raises BoardDiffers if it is there and defined otherwise.
        """
        return Board(self, self.write(self._ranks.board(name, **definition)))

    def boards(self) -> list[str]:
        """Return the names of the boards there are."""
        return self.read(self._ranks.boards())

    def profile(
        self,
        player: str,
        *,
        name: str | None = None,
        attributes: Mapping[str, str | int | bool] | None = None,
    ) -> Position:
        """Set what a player is called and what it is ranked by: all of it, whole."""
        return self.write(self._ranks.profile(player, name=name, attributes=attributes))

    def set_friends(self, player: str, friends: Sequence[str]) -> Position:
        """Set a player's friends, all of them."""
        return self.write(self._ranks.set_friends(player, friends))

    def erase(self, player: str, *, reason: str | None = None) -> Position:
        """Forget a person: the profile and the friends go, entries stay without a name."""
        return self.write(self._ranks.erase(player, reason=reason))

    def standings(self, player: str) -> dict[str, Standing]:
        """Return where a player stands on every board, by the board's name."""
        return self.read(self._ranks.standings(player))

    def save(self, *, progress: Show = None) -> Position:
        """Save the index, so that the next start is quick; return the position it is saved at."""
        return self.write(self._ranks.save(progress=progress))

    def verify(self, *, progress: Show = None) -> None:
        """Check every fact, and the index against all of them. Raises Corrupt."""
        self.write(self._ranks.verify(progress=progress))

    def rebuild(self, *, progress: Show = None) -> None:
        """Fold the whole ledger into a new index, and go on with that."""
        self.write(self._ranks.rebuild(progress=progress))

    def backup(self, folder: Folder, *, progress: Show = None) -> None:
        """Copy the ledger into an empty folder while everything goes on, and verify the copy."""
        self.write(self._ranks.backup(folder, progress=progress))

    # ------------------------------------------------------------------- between threads

    def write(self, work: Coroutine[Any, Any, T]) -> T:
        """Hand work to the engine's loop and wait for it."""
        self._refuse_if_closed(work)
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def read(self, work: Coroutine[Any, Any, T]) -> T:
        """Do work that never waits, here and now, between two changes of the index."""
        self._refuse_if_closed(work)
        with self._reading:
            try:
                work.send(None)
            except StopIteration as done:
                result: T = done.value
                return result
            work.close()
            raise AssertionError("the native index never waits")

    def _refuse_if_closed(self, work: Coroutine[Any, Any, T]) -> None:
        if self.closed:
            work.close()
            raise LedgerUnavailable("the engine is closed; open it anew", applied="no")

"""The engine for a program without an event loop: the same calls, and each waits by itself.

Writes are handed to the engine's own thread. Reads never wait there, so they are answered at once
on the caller's thread, between two changes of the index.
"""

import asyncio
import threading
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Self, TypeVar

from msgspec import UNSET, UnsetType

from rankd.core.preview import Preview
from rankd.core.reader import at_once
from rankd.core.search import FoundPlayer
from rankd.embedded.answered import AnsweredBoard, AnsweredRanks
from rankd.embedded.opening import Opened
from rankd.embedded.wanted import Wanted
from rankd.errors import LedgerUnavailable
from rankd.model.facts import Position
from rankd.model.receipt import Receipt
from rankd.model.standing import PAGE_LIMIT_DEFAULT
from rankd.model.submission import Item
from rankd.terminal import Show
from rankd.wiring import Folder

T = TypeVar("T")


class EngineThread:
    """The thread that serves an engine, and the calls that are handed to it."""

    def __init__(
        self,
        opened: Opened,
        thread: threading.Thread,
        reading: AbstractContextManager[Any],
    ) -> None:
        self.opened = opened
        self._thread = thread
        self._reading = reading
        self._handing = threading.RLock()
        """Held while work is handed over, so that none is behind the stop and never answered."""

    def write(self, work: Coroutine[Any, Any, T]) -> T:
        """Hand work to the engine's loop and wait for it. Raises LedgerUnavailable once closed."""
        with self._handing:
            self._refuse_if_closed(work)
            done = asyncio.run_coroutine_threadsafe(work, self.opened.running.loop)
        try:
            return done.result()
        except CancelledError:
            message = "the engine was closed meanwhile; open it anew"
            raise LedgerUnavailable(message, applied="unknown") from None

    def read(self, work: Coroutine[Any, Any, T], /) -> T:
        """Do work that never waits, here and now, between two changes of the index.

        What has to ask an index across a network is handed to the engine's loop instead.
        """
        if not self.opened.immediate:
            return self.write(work)
        self._refuse_if_closed(work)
        with self._reading:
            return at_once(work)

    def close(self) -> None:
        """Close the engine and wait for the end of its thread."""
        with self._handing:
            self.opened.stop()
        self._thread.join()

    def _refuse_if_closed(self, work: Coroutine[Any, Any, T]) -> None:
        try:
            self.opened.refuse_if_closed()
        except LedgerUnavailable:
            work.close()
            raise


class Board(AnsweredBoard):
    """One board of an open engine. Threads may share it."""

    def __init__(self, thread: EngineThread, wanted: Wanted) -> None:
        super().__init__(wanted, thread.read)
        self._thread = thread

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
        return self._thread.write(
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
        return self._thread.write(self._board.submit_many(items))

    def preview(self, **definition: object) -> Preview:
        """Return what ``redefine`` with the same words would change. Nothing is changed."""
        return self._thread.write(self._board.preview(**definition))

    def redefine(
        self, *, drop_scores: bool = False, progress: Show = None, **definition: object
    ) -> None:
        """Change the board's definition in what is given; the rest stays.

        Windows that it changes are folded again from the ledger while everything goes on, and
        then switched at one moment. Raises DropsScores if scores cannot be ranked any
        more, as where a column is new, unless ``drop_scores`` agrees to that.
        """
        self._thread.write(
            self._board.redefine(drop_scores=drop_scores, progress=progress, **definition)
        )

    def retire(self, *, reason: str | None = None) -> None:
        """Take the board out of use. Its facts stay in the ledger."""
        self._thread.write(self._board.retire(reason=reason))


class Ranks(AnsweredRanks):
    """An open engine. Threads may share it. ``with`` closes it at its end."""

    def __init__(self, thread: EngineThread) -> None:
        super().__init__(thread.opened, thread.read)
        self._thread = thread

    def __enter__(self) -> Self:
        self._opened.refuse_if_closed()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the engine and free its folder; nothing if it is closed already.

        Waits for submissions under way. Calls that come later raise LedgerUnavailable.
        """
        self._thread.close()

    def board(self, name: str, **definition: object) -> Board:
        """Get a board; define it first, with defaults for what is not said, if it is not there.

        Raises BoardDiffers if it is there and defined otherwise.
        """
        wanted = Wanted(self._opened, name, definition)
        self._thread.write(wanted.made())
        return Board(self._thread, wanted)

    def profile(
        self,
        player: str,
        *,
        name: str | UnsetType | None = UNSET,
        attributes: Mapping[str, str | int | bool] | UnsetType | None = UNSET,
    ) -> Position:
        """Set what a player is called or what it is ranked by, all of that.

        What is not given stays as it is; None forgets it.
        """
        return self._thread.write(self._ranks.profile(player, name=name, attributes=attributes))

    def merge_profile(
        self,
        player: str,
        *,
        name: str | UnsetType | None = UNSET,
        attributes: Mapping[str, str | int | bool | None] | UnsetType | None = UNSET,
    ) -> Position:
        """Change a player's name or some of its attributes; those that are not named stay.

        An attribute that is None is forgotten. A call that changes nothing records nothing.
        """
        return self._thread.write(
            self._ranks.merge_profile(player, name=name, attributes=attributes)
        )

    def players(
        self, query: str, *, limit: int = PAGE_LIMIT_DEFAULT, after: str | None = None
    ) -> list[FoundPlayer]:
        """Return players whose name or id begins so, in the order of their ids.

        ``after`` is the last id of the page before. Raises InvalidPage.
        """
        return self._thread.write(self._ranks.players(query, limit=limit, after=after))

    def set_friends(self, player: str, friends: Sequence[str]) -> Position:
        """Set a player's friends, all of them."""
        return self._thread.write(self._ranks.set_friends(player, friends))

    def erase(self, player: str, *, reason: str | None = None) -> Position:
        """Forget a person: the profile and the friends go, entries stay without a name."""
        return self._thread.write(self._ranks.erase(player, reason=reason))

    def confirm_clock(self) -> float | None:
        """Believe a step of the clock now instead of once it has lasted.

        Return its seconds; None if there is no step that is being doubted.
        """
        return self._thread.write(self._ranks.confirm_clock())

    def save(self, *, progress: Show = None) -> Position:
        """Save the index, so that the next start is quick; return the position it is saved at."""
        return self._thread.write(self._ranks.save(progress=progress))

    def verify(self, *, progress: Show = None) -> None:
        """Check every fact, and the index against all of them. Raises Corrupt."""
        self._thread.write(self._ranks.verify(progress=progress))

    def rebuild(self, *, progress: Show = None) -> None:
        """Fold the whole ledger into a new index, and go on with that."""
        self._thread.write(self._ranks.rebuild(progress=progress))

    def backup(self, folder: Folder, *, progress: Show = None) -> None:
        """Copy the ledger into an empty folder while everything goes on, and verify the copy."""
        self._thread.write(self._ranks.backup(folder, progress=progress))

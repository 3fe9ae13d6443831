"""The engine inside another program: ``rankd.open()`` and ``rankd.aopen()``.

``aopen`` runs in the caller's event loop. ``open`` is for programs without one: a thread of its own
runs the loop, writes are handed to it, and reads are answered where they are asked, under a lock
that the fold holds while it moves entries. So a reader never sees half of a change, and a read
costs no hop between threads.
"""

import asyncio
import threading
import time
import warnings
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import (
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    nullcontext,
    suppress,
)
from os import PathLike
from typing import Any, TypeVar

from rankd.core.intake import BATCH_FACTS_MAX, Answer
from rankd.core.reader import Found, Page
from rankd.core.service import Rankd
from rankd.errors import (
    FieldError,
    InvalidSubmission,
    LedgerUnavailable,
    SubmissionRejected,
)
from rankd.model.receipt import Receipt
from rankd.model.standing import (
    NEIGHBOURS_DEFAULT,
    PAGE_LIMIT_DEFAULT,
    Offset,
    Rank,
    Standing,
)
from rankd.model.submission import Submission
from rankd.model.window import Instant
from rankd.wiring import engine

T = TypeVar("T")
Folder = str | PathLike[str]
Item = tuple[str, object] | Mapping[str, object]


class WallClock:
    """The machine's own clock."""

    def now(self) -> Instant:
        """Return the time in microseconds since 1970."""
        return time.time_ns() // 1000


class AsyncBoard:
    """One board, for a program with an event loop. Writes are awaited, and so are reads."""

    def __init__(self, rankd: Rankd, name: str) -> None:
        self._rankd = rankd
        self.name = name

    async def submit(
        self, player: str, score: object = None, *, delta: object = None, **more: object
    ) -> Receipt:
        """Have a score counted; return what it did. Raises Refused and Unavailable."""
        board = self._rankd.book.page(self.name).board
        body = {"player": player, "score": score, "delta": delta, **more}
        (answer,) = await self._rankd.submit([Submission.of(board, body)])
        return _receipt(answer)

    async def submit_many(self, items: Iterable[Item]) -> list[Receipt]:
        """Have many scores counted, one commit for each BATCH_FACTS_MAX; return what each did.

        An item is a player with a score, or a mapping as ``submit`` takes arguments. If one is
        malformed, nothing is recorded. If one is refused when its turn comes, or reuses a key, the
        others count all the same and the first refusal is raised.
        """
        board = self._rankd.book.page(self.name).board
        wanted = [Submission.of(board, _body(item)) for item in items]
        answers: list[Answer] = []
        for first in range(0, len(wanted), BATCH_FACTS_MAX):
            answers += await self._rankd.submit(wanted[first : first + BATCH_FACTS_MAX])
        return [_receipt(answer) for answer in answers]

    async def top(self, count: int = PAGE_LIMIT_DEFAULT, **which: Any) -> Sequence[Standing]:
        """Return the best standings."""
        return (await self._rankd.reader.page(self.name, limit=count, **which)).standings

    async def page(self, **which: Any) -> Page:
        """Return a page: ``limit`` with ``offset``, ``from_rank`` or ``cursor``."""
        return await self._rankd.reader.page(self.name, **which)

    async def standing(self, player: str, **which: Any) -> Standing | None:
        """Return where a player stands, None where it does not."""
        return await self._rankd.reader.standing(self.name, player, **which)

    async def around(
        self,
        player: str,
        *,
        above: int = NEIGHBOURS_DEFAULT,
        below: int = NEIGHBOURS_DEFAULT,
        **which: Any,
    ) -> Sequence[Standing]:
        """Return a player's neighbourhood, the edges made up. Raises NotRanked."""
        page = await self._rankd.reader.around(self.name, player, above=above, below=below, **which)
        return page.standings

    async def lookup(self, players: Sequence[str], **which: Any) -> Found:
        """Return some players' standings, best first, and who has none."""
        return await self._rankd.reader.lookup(self.name, players, **which)


class AsyncRanks:
    """An open engine, for a program with an event loop."""

    def __init__(self, rankd: Rankd) -> None:
        self._rankd = rankd

    async def board(self, name: str, **definition: object) -> AsyncBoard:
        """Get a board; define it first, with defaults for what is not said, if it is not there.

        Raises BoardDiffers if it is there and defined otherwise.
        """
        if definition or name not in self._rankd.book.boards:
            await self._rankd.define(name, definition)
        return AsyncBoard(self._rankd, name)


class Board:
    """One board, for a program without an event loop."""

    def __init__(self, ranks: "Ranks", board: AsyncBoard) -> None:
        self._ranks = ranks
        self._board = board
        self.name = board.name

    def submit(
        self, player: str, score: object = None, *, delta: object = None, **more: object
    ) -> Receipt:
        """Have a score counted; return what it did."""
        return self._ranks.write(self._board.submit(player, score, delta=delta, **more))

    def submit_many(self, items: Iterable[Item]) -> list[Receipt]:
        """Have many scores counted together; return what each did. See AsyncBoard."""
        return self._ranks.write(self._board.submit_many(items))

    def top(self, count: int = PAGE_LIMIT_DEFAULT, **which: Any) -> Sequence[Standing]:
        """Return the best standings."""
        return self._ranks.read(self._board.top(count, **which))

    def page(
        self,
        *,
        limit: int = PAGE_LIMIT_DEFAULT,
        offset: int | None = None,
        from_rank: int | None = None,
        **which: Any,
    ) -> Page:
        """Return a page, begun at a rank, an offset or a cursor."""
        start = None if offset is None else Offset(offset)
        first = None if from_rank is None else Rank(from_rank)
        return self._ranks.read(
            self._board.page(limit=limit, offset=start, from_rank=first, **which)
        )

    def standing(self, player: str, **which: Any) -> Standing | None:
        """Return where a player stands, None where it does not."""
        return self._ranks.read(self._board.standing(player, **which))

    def around(self, player: str, **which: Any) -> Sequence[Standing]:
        """Return a player's neighbourhood, the edges made up."""
        return self._ranks.read(self._board.around(player, **which))

    def lookup(self, players: Sequence[str], **which: Any) -> Found:
        """Return some players' standings, best first, and who has none."""
        return self._ranks.read(self._board.lookup(players, **which))


class Ranks:
    """An open engine, for a program without an event loop. Threads may share it."""

    def __init__(
        self,
        ranks: AsyncRanks,
        loop: asyncio.AbstractEventLoop,
        turn: AbstractContextManager[Any],
    ) -> None:
        self._ranks = ranks
        self._loop = loop
        self._turn = turn
        self.closed = False

    def board(self, name: str, **definition: object) -> Board:
        """Get a board; define it first, with defaults for what is not said, if it is not there.

        Raises BoardDiffers if it is there and defined otherwise.
        """
        return Board(self, self.write(self._ranks.board(name, **definition)))

    def write(self, work: Coroutine[Any, Any, T]) -> T:
        """Hand work to the engine's loop and wait for it."""
        self._refuse_if_closed(work)
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def read(self, work: Coroutine[Any, Any, T]) -> T:
        """Do work that never waits, here and now, between two changes of the index."""
        self._refuse_if_closed(work)
        with self._turn:
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


def _body(item: Item) -> Mapping[str, object]:
    if not isinstance(item, tuple):
        return item
    if len(item) != 2:
        raise InvalidSubmission([FieldError("", "must be a player and a score, or an object")])
    return {"player": item[0], "score": item[1]}


def _receipt(answer: Answer) -> Receipt:
    if answer.error is not None:
        raise answer.error
    assert answer.receipt is not None
    first = answer.receipt.first
    if first.verdict == "rejected":
        raise SubmissionRejected(reason=first.code or "", message=first.message or "")
    return answer.receipt


@asynccontextmanager
async def aopen(
    folder: Folder | None = None,
    *,
    clock: Any = None,
    _turn: AbstractContextManager[Any] | None = None,
) -> AsyncIterator[AsyncRanks]:
    """Open the engine in a folder; without one, in memory, where nothing outlives it."""
    if folder is None:
        warnings.warn(
            "rankd keeps everything in memory: give open() a folder to keep it",
            RuntimeWarning,
            stacklevel=3,
        )
    async with engine(folder, clock=clock or WallClock(), turn=_turn or nullcontext()) as rankd:
        yield AsyncRanks(rankd)


@contextmanager
def open(folder: Folder | None = None, *, clock: Any = None) -> Iterator[Ranks]:
    """Open the engine in a folder; without one, in memory, where nothing outlives it."""
    turn = threading.RLock()
    begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[None]]] = Future()
    opened: Future[AsyncRanks] = Future()

    async def serve() -> None:
        task = asyncio.current_task()
        assert task is not None
        begun.set_result((asyncio.get_running_loop(), task))
        async with aopen(folder, clock=clock, _turn=turn) as ranks:
            opened.set_result(ranks)
            with suppress(asyncio.CancelledError):  # How it is told to close.
                await asyncio.Event().wait()

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as exc:
            if opened.done():
                raise
            opened.set_exception(exc)

    thread = threading.Thread(target=run, name="rankd", daemon=True)
    thread.start()
    loop, task = begun.result()
    ranks: Ranks | None = None
    try:
        ranks = Ranks(opened.result(), loop, turn)
        yield ranks
    finally:  # Also when opening was interrupted: the folder must not stay locked.
        if ranks is not None:
            ranks.closed = True
        if thread.is_alive():
            loop.call_soon_threadsafe(task.cancel)
        thread.join()

"""The lifetime of an open engine: a thread or a task serves it until it is closed.

Handles (`Ranks`, `Board` and their asynchronous twins) share one ``OpenEngine``. The thread or task
that serves the engine does not refer to it, so it is collected with the last handle, and warns then
if ``close`` was never called.
"""

import asyncio
import os
import sys
import warnings
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from rankd.bootstrap import RunningEngine
from rankd.core.engine import Engine
from rankd.core.read_engine import PlayerSearch, ReadEngine
from rankd.core.writer import WriteResult
from rankd.errors import IndexUnavailable, LedgerUnavailable, RankdError, Refused, UnknownBoard
from rankd.model.facts import Position
from rankd.model.receipt import Receipt
from rankd.model.standing import ReprMixin, Words


class CallSite(NamedTuple):
    """A line of the caller's program."""

    filename: str
    line: int

    @classmethod
    def of_caller(cls) -> "CallSite":
        """Return the line that called the function which calls this one."""
        frame = sys._getframe(2)
        return cls(frame.f_code.co_filename, frame.f_lineno)


class ServedEngine:
    """An engine that is being served, with a stop for any thread."""

    def __init__(self, engine: RunningEngine) -> None:
        self.engine = engine
        self.loop = asyncio.get_running_loop()
        self.ended = False
        """Whether it was stopped or cancelled."""
        self._task = asyncio.current_task()
        self._end = asyncio.Event()

    async def wait(self) -> None:
        """Return once ``stop`` was called."""
        try:
            await self._end.wait()
        finally:
            self.ended = True

    def stop(self) -> None:
        """Make the engine close; return at once."""
        with suppress(RuntimeError):  # The loop is closed, and the engine with it.
            self.loop.call_soon_threadsafe(self._end.set)

    async def join(self) -> None:
        """Return once it is closed. Cancelling the caller does not interrupt the closing."""
        assert self._task is not None, "made in a task"
        await asyncio.shield(self._task)


async def serve(
    engine: AbstractAsyncContextManager[RunningEngine], started: Callable[[ServedEngine], object]
) -> None:
    """Open an engine, pass it to ``started``, and close it when it is stopped or cancelled."""
    async with engine as opened:
        running = ServedEngine(opened)
        started(running)
        await running.wait()


class _Process:
    """This process. Its id is read by every call: to ask the system each time takes 0.3 us."""

    id: ClassVar[int] = os.getpid()

    @classmethod
    def forked(cls) -> None:
        """Note that this is a child now."""
        cls.id = os.getpid()


os.register_at_fork(after_in_child=_Process.forked)


class OpenEngine:
    """An open engine, shared by its handles."""

    def __init__(self, running: ServedEngine, origin: CallSite) -> None:
        self.engine = running.engine
        self.immediate = running.engine.rankd.immediate
        """Whether no read ever suspends. It stays the same while open, also with a fallback index.
        """
        self.running = running
        self.search = PlayerSearch(running.engine.rankd)
        self._origin = origin
        self._process = _Process.id
        self._stopped = False

    @property
    def closed(self) -> bool:
        """Whether it refuses all calls."""
        return self._stopped or self.running.ended

    @property
    def rankd(self) -> Engine:
        """The engine. Raises LedgerUnavailable once it is closed, and in a forked child."""
        if self._stopped or self.running.ended or self._process != _Process.id:
            self.refuse_if_closed()
        return self.engine.rankd

    def refuse_if_closed(self) -> None:
        """Raise LedgerUnavailable once it is closed, and in a forked child.

        A child has no thread that would do the work, and two processes must not write one file.
        """
        if self.closed:
            raise LedgerUnavailable("the engine is closed; open it anew", applied="no")
        if self._process != _Process.id:
            raise LedgerUnavailable(
                "the engine was opened before this process was forked: open it after the fork, in "
                "one process, or speak to a service",
                applied="no",
            )

    def stop(self) -> None:
        """Refuse further calls and make the engine close; return at once."""
        self._stopped = True
        self.running.stop()

    def __del__(self) -> None:
        if self._stopped or self._process != _Process.id:  # A fork has handles, no engine.
            return
        try:
            warnings.warn_explicit(
                "rankd: an engine was not closed: call close(), or open it by `with`",
                ResourceWarning,
                *self._origin,
                source=self,
            )
        finally:
            self.stop()


class Closable(Protocol):
    """A handle that is closed by a coroutine."""

    async def close(self) -> None:
        """Close it."""


R_co = TypeVar("R_co", bound=Closable, covariant=True)


class AsyncOpening(Generic[R_co]):
    """An engine that is not open yet: ``await`` opens it, ``async with`` also closes it."""

    way = "ranks = await rankd.aopen(...)"

    def __init__(self, opening: Callable[[], Awaitable[R_co]]) -> None:
        self._opening = opening
        self._ranks: R_co | None = None

    def __await__(self) -> Generator[Any, None, R_co]:
        return self._opening().__await__()

    async def __aenter__(self) -> R_co:
        self._ranks = ranks = await self
        return ranks

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._ranks is not None, "entered before"
        await self._ranks.close()

    if not TYPE_CHECKING:  # Type checkers report missing names themselves.

        def __getattr__(self, name: str) -> object:
            if name.startswith("_"):  # Looked up by tools, which need no advice.
                raise AttributeError(name)
            raise AttributeError(f"the engine is not open, so it has no {name!r}: use `{self.way}`")

    def __repr__(self) -> str:
        return f"<an engine that is not open: use `{self.way}`>"


class BoardRef:
    """A board of an open engine, by its name and its expected definition. It may not exist yet.

    Making a reference takes no time; defining a board does, because that is a fact on the disk. So
    a program gets the reference at once, and the board is defined when it is awaited, or with the
    first write.
    """

    def __init__(self, opened: OpenEngine, name: str, definition: Mapping[str, object]) -> None:
        self.name = name
        self._opened = opened
        self._definition: Mapping[str, object] | None = definition
        """None once the board existed with this definition; later changes to it are not undone."""
        with suppress(Refused):  # Raised again by a read or a write.
            self.there()

    def there(self) -> Engine:
        """Return the engine, if it has the board with this definition.

        Raises UnknownBoard, BoardDiffers and InvalidBoard.
        """
        rankd = self._opened.rankd
        if self._definition is not None:
            rankd.expect(self.name, self._definition)
            self._definition = None
        return rankd

    async def made(self) -> Engine:
        """Return the engine after defining the board. Raises BoardDiffers and InvalidBoard."""
        rankd = self._opened.rankd
        if self._definition is not None:
            if self._definition or self.name not in rankd.state.boards:
                await rankd.define(self.name, self._definition)
            self._definition = None
        return rankd


class BoardHandle:
    """A board, by its name."""

    def __init__(self, wanted: BoardRef) -> None:
        self._wanted = wanted

    @property
    def name(self) -> str:
        """The board's name."""
        return self._wanted.name

    @property
    def definition(self) -> dict[str, object]:
        """The board's definition, with every default written out."""
        return self._wanted.there().state.page(self.name).board.definition()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class RanksHandle(ReprMixin):
    """An open engine: its position and its condition."""

    def __init__(self, opened: OpenEngine) -> None:
        self._opened = opened

    @property
    def position(self) -> Position:
        """The position at which reads are true."""
        return self._opened.engine.rankd.position

    @property
    def durable(self) -> bool:
        """Whether the ledger outlives the process."""
        return self._opened.engine.durable

    @property
    def clock_problem(self) -> str | None:
        """The difference between ledger time and the clock, with advice; None if they agree."""
        return self._opened.engine.rankd.clock_problem

    def _words(self) -> Words:
        yield "boards", list(self._opened.engine.rankd.state.boards)
        yield "position", self.position
        yield "durable", self.durable, True
        yield "closed", self._opened.closed, False


def receipt_of(answer: WriteResult, board: str, rankd: ReadEngine) -> Receipt:
    """Return the receipt of a write's result, or raise its error."""
    error: RankdError | None = answer.error
    receipt = answer.receipt
    if answer.pending is not None:
        raise IndexUnavailable("the score is recorded, and its rank is not known now")
    if error is None and receipt is None:
        error = UnknownBoard(board)
    elif receipt is not None and receipt.rejected:
        error = rankd.rejection(receipt)
    if error is not None:
        raise error
    assert receipt is not None
    return receipt

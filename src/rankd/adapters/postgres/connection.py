"""Connection that reopens itself, used by one task at a time.

A task uses the connection exclusively. If the connection is lost, a background task reopens it,
retrying until it succeeds. Tasks that arrive meanwhile wait ``notice_seconds``, in case only the
connection was lost; then the server counts as gone, and all are refused at once until it is back.

A server may also fall silent without an error: its host hangs, or the network drops every packet.
The request under way waits on, because its reply may come; but after ``silence_seconds`` the server
counts as gone for all other requests, until it replies. It only counts as busy if others are seen
to get replies. If the connection is dropped meanwhile, a new one must prove that the server replies
before it is used.

Server health is shared by all connections of this process: once one has detected that the server is
unreachable, requests on the others are refused without a wait of their own.

The address may lead to another server from one connection to the next: a standby that lagged when
it was promoted, or a restored backup. An append there would assign positions a second time. So each
new connection is compared with the history that this process has seen before it is used, and each
append once more, in its own statement: behind a pooler a server is replaced under a connection.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

from rankd.adapters.postgres.database import (
    QUERIES,
    VENDOR,
    DriverConnection,
    PostgresAddress,
    is_certain,
    leave,
    translated,
)
from rankd.adapters.postgres.rows import GENESIS
from rankd.errors import LedgerUnavailable, RankdError
from rankd.model.facts import Position
from rankd.ports import Loop, StartLoop

_log = logging.getLogger(__name__)


class ServerHealth:
    """Components that cannot reach the server, with the error of each."""

    def __init__(self) -> None:
        self._missed: dict[object, RankdError] = {}
        self._since = 0.0
        """Time at which the first of them lost the server, by the loop's clock."""
        self._lost = asyncio.Event()
        self._there = asyncio.Event()
        self._there.set()

    @property
    def loss(self) -> LedgerUnavailable | None:
        """Error for all requests while any component cannot reach the server; else None."""
        for error in self._missed.values():
            refusal = LedgerUnavailable(str(error), applied="no")
            refusal.__cause__ = error
            return refusal
        return None

    def miss(self, who: object, error: RankdError) -> None:
        """Record that a component cannot reach the server."""
        if not self._missed:
            self._since = asyncio.get_running_loop().time()
            _log.warning("PostgreSQL is gone: %s", error)
        self._missed[who] = error
        self._lost.set()
        self._there.clear()

    def find(self, who: object) -> None:
        """Record that a component gets replies again."""
        missed = self._missed.pop(who, None)
        if missed is not None and not self._missed:
            seconds = asyncio.get_running_loop().time() - self._since
            _log.warning("PostgreSQL is there again, after %.1f seconds", seconds)
        if not self._missed:
            self._lost.clear()
            self._there.set()

    async def lost(self) -> LedgerUnavailable:
        """Wait until a component loses the server, and return the error."""
        while (loss := self.loss) is None:
            await self._lost.wait()
        return loss

    async def regained(self) -> None:
        """Wait until every component reaches the server."""
        while self._missed:
            await self._there.wait()


OTHER_HISTORY = ""
"""Reply of a server to an append if it lacks the last append seen."""


class AppendEnd(NamedTuple):
    """An append by its last position and its link, which covers everything up to it."""

    last: Position
    link: bytes


class LedgerHistory:
    """Highest append and highest fact that this process has seen."""

    def __init__(self) -> None:
        self.append = AppendEnd(Position(0), GENESIS)
        self.position = Position(0)
        """Position of the highest fact, which may be of a later append."""

    def note(self, last: Position, link: bytes) -> None:
        """Record an append that was made or found."""
        if last > self.append.last:
            self.append = AppendEnd(last, link)
        self.note_fact(last)

    def note_fact(self, position: Position) -> None:
        """Record that a fact was read."""
        self.position = max(self.position, position)

    async def compare(
        self, connection: DriverConnection, address: PostgresAddress, *, seconds_max: float
    ) -> None:
        """Raise LedgerUnavailable unless the server has the seen history."""
        seen, position = self.append, self.position
        found = await connection.fetchrow(
            address.sql(QUERIES["compare_history"]), seen.last, timeout=seconds_max
        )
        if found["head"] < position:
            raise LedgerUnavailable(
                f"the ledger of this PostgreSQL ends at {found['head']:,}, and this node has seen "
                f"position {position:,}: it is an older copy; {_REMEDY}",
                applied="no",
            )
        if seen.last and found["link"] != seen.link:
            raise LedgerUnavailable(
                f"this PostgreSQL has another ledger: it differs at or before position "
                f"{seen.last:,}; {_REMEDY}",
                applied="no",
            )


_REMEDY = "nothing is appended until the right one is back (to go on with this one, restart)"


T = TypeVar("T")

STALL = 0.25
"""Fraction of the silence limit by which a timer may be late. A later one is ignored, because then
this process was stalled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Time limits of a connection, in seconds. A server that hangs is reported within them."""

    connect_seconds: float = 2.0
    """Limit for connecting."""
    notice_seconds: float = 0.2
    """Limit for a lost connection to be reopened, before the server counts as gone."""
    silence_seconds: float = 1.0
    """Limit for the reply to an append. After it the server counts as gone, and only that append
    waits."""
    pulse_seconds: float = 0.5
    """Interval of the health checks (notifications.py)."""
    statement_seconds: float = 4.0
    """Limit for an append, from the first byte sent."""
    lock_seconds: float = 3.0
    """Limit for the lock on the head, which other processes' appends hold; part of the
    statement."""
    settle_seconds: float = 5.0
    """Limit for finding the outcome of an append whose reply was lost, while the server is
    reachable."""
    doubt_seconds: float = 0.1
    """Limit for a server that is gone to come back, before the outcome of such an append is
    unknown."""
    read_seconds: float = 30.0
    """Limit for a read."""
    leave_seconds: float = 1.0
    """Limit for closing a connection."""
    retry_seconds_min: float = 0.02
    retry_seconds_max: float = 2.0
    """Bounds of the pause between attempts to connect, which doubles each time."""

    @classmethod
    def of_silence(cls, seconds: float) -> "Timeouts":
        """Return the default limits with another one for a server that does not reply."""
        usual = cls()
        longer = max(seconds - usual.silence_seconds, 0.0)
        return replace(
            usual,
            silence_seconds=seconds,
            pulse_seconds=seconds / 2,
            statement_seconds=usual.statement_seconds + longer,
        )


async def _believed(_connection: DriverConnection) -> None:
    """Accept a connection without proof."""


def _never() -> float:
    return 0.0


def start_task(name: str, run: Loop) -> asyncio.Task[None]:
    """Run a loop without a supervisor that restarts it."""
    return asyncio.create_task(run(), name=name)


class SerialConnection:
    """One connection, used by one task at a time in the order of arrival."""

    def __init__(  # noqa: PLR0913 - its parts
        self,
        connect: Callable[[], Awaitable[DriverConnection]],
        timeouts: Timeouts,
        *,
        presence: ServerHealth | None = None,
        prove: Callable[[DriverConnection], Awaitable[None]] = _believed,
        moved: Callable[[], float] = _never,
        where: str = "",
        name: str = "postgres",
        start: StartLoop = start_task,
    ) -> None:
        self._connect = connect
        self._timeouts = timeouts
        self._presence = presence or ServerHealth()
        self._prove = prove
        """Raises if the server does not reply properly on a connection opened after a silence."""
        self._moved = moved
        """Returns when an append of any process was last seen, by the loop's clock."""
        self._where = where
        """Name of the server for error messages."""
        self._name, self._start = name, start
        self._alarm: asyncio.TimerHandle | None = None
        self._connection: DriverConnection | None = None
        self._back = asyncio.Event()
        """Set while there is a connection."""
        self._known = asyncio.Event()
        """Set while there is a connection, or the server counts as gone."""
        self._returning: asyncio.Task[None] | None = None
        self._gone: RankdError | None = None
        """Reason why the server counts as gone; None if it does not."""
        self._silent = False
        """Whether it counts as gone because a request got no reply."""
        self._taken = False
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._closed = False

    async def open(self) -> None:
        """Open the first connection. Raises the driver's errors."""
        self._adopt(await self._connect())

    async def close(self) -> None:
        """Refuse waiting tasks, and close the connection."""
        self._closed = True
        self.refuse_waiting(self._refusal)
        if self._returning is not None:
            self._returning.cancel()
            await asyncio.gather(self._returning, return_exceptions=True)
        connection, self._connection = self._connection, None
        self._back.clear()
        if connection is not None:
            await leave(connection, seconds_max=self._timeouts.leave_seconds)

    # --------------------------------------------------------------------------- turns

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for exclusive use. Raises LedgerUnavailable at once if the server is gone."""
        await self._wait_in_line()
        try:
            yield
        finally:
            self._pass_on()

    async def _wait_in_line(self) -> None:
        self._refuse_if_gone()
        if not self._taken:
            self._taken = True
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled() and place.exception() is None:
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                return
        self._taken = False

    def refuse_waiting(self, why: Callable[[], LedgerUnavailable]) -> None:
        """Refuse the tasks that wait for exclusive use, each with an error of its own."""
        waiting, self._waiting = self._waiting, deque()
        for place in waiting:
            if not place.done():
                place.set_exception(why())

    def _refuse_if_gone(self) -> None:
        if self._closed or self._gone is not None:
            raise self._refusal()

    def _refusal(self) -> LedgerUnavailable:
        if self._closed or self._gone is None:
            return LedgerUnavailable("the ledger is closed", applied="no")
        refusal = LedgerUnavailable(str(self._gone), applied="no")
        refusal.__cause__ = self._gone
        return refusal

    # -------------------------------------------------------------------------- silence

    async def answer(self, asked: Awaitable[T]) -> T:
        """Await a reply; without one in time the server counts as gone. Needs exclusive use.

        Any reply of the server, an ERROR included, ends the silence.
        """
        self._watch(asyncio.get_running_loop().time())
        try:
            told = await asked
        except VENDOR as exc:
            if is_certain(exc):
                self._hear()
            raise
        finally:
            if self._alarm is not None:
                self._alarm.cancel()
        self._hear()
        return told

    def _watch(self, since: float) -> None:
        """Set the timer for the end of the silence limit, from the last append seen anywhere."""
        loop = asyncio.get_running_loop()
        due = max(since, self._moved()) + self._timeouts.silence_seconds
        if due > loop.time():
            self._alarm = loop.call_at(due, self._watch, since)
        elif loop.time() - due > STALL * self._timeouts.silence_seconds:
            # This process was stalled: the reply may have arrived and not been read yet.
            self._watch(loop.time())
        else:
            self._fall_silent()

    def _fall_silent(self) -> None:
        self._silent = True
        seconds = self._timeouts.silence_seconds
        self._note(TimeoutError(f"no answer for {seconds:g} s"))

    def _hear(self) -> None:
        if self._silent:
            self._silent, self._gone = False, None
            self._presence.find(self)

    def miss(self, error: BaseException) -> None:
        """Drop the connection, because another one has found the server silent."""
        self.drop()
        self._note(error)

    # ---------------------------------------------------------------------- connection

    async def connection(self) -> DriverConnection:
        """Return the connection, or wait shortly for a lost one. Needs exclusive use."""
        connection = await self.returned(self._timeouts.notice_seconds, once_gone=0)
        if connection is None:
            if self._gone is None:
                self._note(TimeoutError("the connection was lost"))
            raise self._refusal()
        return connection

    async def returned(self, seconds_max: float, *, once_gone: float) -> DriverConnection | None:
        """Return the connection once it is open; None if that takes too long.

        ``once_gone`` is a second limit, from the moment at which the server counts as gone.
        """
        if self._connection is not None and self._connection.is_closed():
            self._lose(self._connection)
        if not self._closed:
            try:
                async with asyncio.timeout(seconds_max):
                    await self._known.wait()
                    async with asyncio.timeout(once_gone):
                        await self._back.wait()
            except TimeoutError:
                return None
        return self._connection

    def drop(self) -> None:
        """Abort the connection and its request, and open another."""
        if (connection := self._connection) is not None:
            self._lose(connection)
            connection.terminate()

    def _adopt(self, connection: DriverConnection) -> None:
        self._connection, self._gone, self._silent = connection, None, False
        connection.add_termination_listener(self._lose)
        self._back.set()
        self._known.set()
        self._presence.find(self)

    def _lose(self, connection: DriverConnection) -> None:
        if connection is not self._connection:
            return
        self._connection = None
        self._back.clear()
        self._known.clear()
        if not self._closed:
            self._returning = self._start(f"{self._name}-return", self._return)

    async def _return(self) -> None:
        pause = self._timeouts.retry_seconds_min
        while True:
            try:
                self._adopt(await self._proven())
                return
            except (*VENDOR, RankdError) as exc:
                self._note(exc)
            await asyncio.sleep(pause)
            pause = min(2 * pause, self._timeouts.retry_seconds_max)

    async def _proven(self) -> DriverConnection:
        connection = await self._connect()
        if self._silent:
            try:
                await self._prove(connection)
            except BaseException:
                connection.terminate()
                raise
        return connection

    def translated(self, error: BaseException) -> RankdError:
        """Translate an error on this connection."""
        return translated(error, where=self._where)

    def _note(self, error: BaseException) -> None:
        """Mark the server as gone."""
        self._gone = error if isinstance(error, RankdError) else self.translated(error)
        self._known.set()
        self._presence.miss(self, self._gone)
        self.refuse_waiting(self._refusal)

"""A connection that comes back by itself, used by one after another.

Whoever has its turn uses the connection alone. If the connection is lost, a task opens another,
again and again until it can. Whoever comes meanwhile waits a moment, in case it was only the
connection; then the server is known to be gone, and everybody is refused at once until it is back.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from rankd.adapters.postgres.database import Connection, leave
from rankd.adapters.postgres.failures import VENDOR, translated
from rankd.errors import LedgerUnavailable, RankdError

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait for what. A server that is stuck means refusal within these."""

    connect_seconds: float = 2.0
    """For a connection."""
    notice_seconds: float = 0.2
    """For a connection that was lost to come back, before the server counts as gone."""
    statement_seconds: float = 10.0
    """For an append, from the first byte sent."""
    lock_seconds: float = 5.0
    """For the head, while other processes append; within the statement."""
    settle_seconds: float = 5.0
    """To find out what became of an append whose answer was lost."""
    read_seconds: float = 30.0
    """For a read."""
    leave_seconds: float = 1.0
    """To take leave of a server."""
    retry_seconds_min: float = 0.05
    retry_seconds_max: float = 2.0
    """Between two attempts to reach a server, from the first on."""


class Line:
    """One connection at a time, and turns at it in the order of coming."""

    def __init__(self, connect: Callable[[], Awaitable[Connection]], patience: Patience) -> None:
        self._connect = connect
        self._patience = patience
        self._connection: Connection | None = None
        self._back = asyncio.Event()
        """Set while there is a connection."""
        self._returning: asyncio.Task[None] | None = None
        self._gone: RankdError | None = None
        """Why the server counts as gone, if it does."""
        self._taken = False
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._closed = False

    async def open(self) -> None:
        """Open the first connection. Raises what the driver raises."""
        self._adopt(await self._connect())

    async def close(self) -> None:
        """Refuse whoever waits, and let go of the connection."""
        self._closed = True
        self._refuse_waiting()
        if self._returning is not None:
            self._returning.cancel()
            await asyncio.gather(self._returning, return_exceptions=True)
        connection, self._connection = self._connection, None
        self._back.clear()
        if connection is not None:
            await leave(connection, seconds_max=self._patience.leave_seconds)

    # --------------------------------------------------------------------------- turns

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for one's turn. Raises LedgerUnavailable at once if the server is gone."""
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

    def _refuse_waiting(self) -> None:
        waiting, self._waiting = self._waiting, deque()
        for place in waiting:
            if not place.done():
                place.set_exception(self._refusal())

    def _refuse_if_gone(self) -> None:
        if self._closed or self._gone is not None:
            raise self._refusal()

    def _refusal(self) -> LedgerUnavailable:
        if self._closed or self._gone is None:
            return LedgerUnavailable("the ledger is closed", applied="no")
        refusal = LedgerUnavailable(str(self._gone), applied="no")
        refusal.__cause__ = self._gone
        return refusal

    # ---------------------------------------------------------------------- connection

    async def connection(self) -> Connection:
        """Return the connection, if it is there or comes back in a moment. In one's turn."""
        connection = await self.returned(self._patience.notice_seconds)
        if connection is None:
            if self._gone is None:
                self._note(TimeoutError("the connection was lost"))
            raise self._refusal()
        return connection

    async def returned(self, seconds_max: float) -> Connection | None:
        """Return the connection once it is there, None if it does not come in time."""
        if self._connection is not None and self._connection.is_closed():
            self._lose(self._connection)
        if not self._back.is_set() and not self._closed:
            try:
                async with asyncio.timeout(seconds_max):
                    await self._back.wait()
            except TimeoutError:
                return None
        return self._connection

    def drop(self) -> None:
        """Break the connection off, whatever it is doing, and have another opened."""
        if (connection := self._connection) is not None:
            self._lose(connection)
            connection.terminate()

    def _adopt(self, connection: Connection) -> None:
        self._connection, self._gone = connection, None
        connection.add_termination_listener(self._lose)
        self._back.set()

    def _lose(self, connection: Connection) -> None:
        if connection is not self._connection:
            return
        self._connection = None
        self._back.clear()
        if not self._closed:
            self._returning = asyncio.create_task(self._return(), name="postgres-return")

    async def _return(self) -> None:
        pause = self._patience.retry_seconds_min
        while True:
            try:
                self._adopt(await self._connect())
                return
            except (*VENDOR, RankdError) as exc:
                self._note(exc)
            await asyncio.sleep(pause)
            pause = min(2 * pause, self._patience.retry_seconds_max)

    def _note(self, error: BaseException) -> None:
        """From here on the server counts as gone."""
        if self._gone is None:
            _log.warning("PostgreSQL is gone: %s", error)
        self._gone = error if isinstance(error, RankdError) else translated(error)
        self._refuse_waiting()

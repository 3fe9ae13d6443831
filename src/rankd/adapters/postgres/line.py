"""A connection that comes back by itself, used by one after another.

Whoever has its turn uses the connection alone. If the connection is lost, a task opens another,
again and again until it can. Whoever comes meanwhile waits a moment, in case it was only the
connection; then the server is known to be gone, and everybody is refused at once until it is back.

A server may also fall silent: its host stands still, or the network loses everything, and no
connection says so. Who has asked waits on, for the answer may come; but after a short while the
server counts as gone for everybody else, until it answers. Unless others are seen to be answered:
then it is only busy. If the connection is broken off meanwhile, the next one must prove that it is
answered before it is used.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

from rankd.adapters.postgres.database import Connection, leave
from rankd.adapters.postgres.failures import VENDOR, is_certain, translated
from rankd.adapters.postgres.presence import Presence
from rankd.errors import LedgerUnavailable, RankdError
from rankd.ports import Loop, StartLoop

T = TypeVar("T")

STALL = 0.25
"""How late an alarm may ring, as a part of the silence it is about, before it says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait for what. A server that is stuck means refusal within these."""

    connect_seconds: float = 2.0
    """For a connection."""
    notice_seconds: float = 0.2
    """For a connection that was lost to come back, before the server counts as gone."""
    silence_seconds: float = 1.0
    """For any answer to an append. Then the server counts as gone, and only who has asked waits."""
    pulse_seconds: float = 0.5
    """Between two looks whether it answers at all, while nobody has anything to ask."""
    statement_seconds: float = 4.0
    """For an append, from the first byte sent."""
    lock_seconds: float = 3.0
    """For the head, while other processes append; within the statement."""
    settle_seconds: float = 5.0
    """To find out what became of an append whose answer was lost, as long as there is a server."""
    doubt_seconds: float = 0.1
    """For a server that is gone to come back, before such an append is called unknown."""
    read_seconds: float = 30.0
    """For a read."""
    leave_seconds: float = 1.0
    """To take leave of a server."""
    retry_seconds_min: float = 0.02
    retry_seconds_max: float = 2.0
    """Between two attempts to reach a server, from the first on."""

    @classmethod
    def of_silence(cls, seconds: float) -> "Patience":
        """Return the usual patience, but for a server that does not answer."""
        usual = cls()
        longer = max(seconds - usual.silence_seconds, 0.0)
        return replace(
            usual,
            silence_seconds=seconds,
            pulse_seconds=seconds / 2,
            statement_seconds=usual.statement_seconds + longer,
        )


async def _believed(_connection: Connection) -> None:
    """Ask for no proof."""


def _never() -> float:
    return 0.0


def start_task(name: str, run: Loop) -> asyncio.Task[None]:
    """Run a loop that nothing restarts."""
    return asyncio.create_task(run(), name=name)


class Line:
    """One connection at a time, and turns at it in the order of coming."""

    def __init__(  # noqa: PLR0913 - what it is put together from
        self,
        connect: Callable[[], Awaitable[Connection]],
        patience: Patience,
        *,
        presence: Presence | None = None,
        prove: Callable[[Connection], Awaitable[None]] = _believed,
        moved: Callable[[], float] = _never,
        where: str = "",
        name: str = "postgres",
        start: StartLoop = start_task,
    ) -> None:
        self._connect = connect
        self._patience = patience
        self._presence = presence or Presence()
        self._prove = prove
        """Raises if a connection after a silence is not answered what it is there for."""
        self._moved = moved
        """Returns when somebody, anywhere, was last seen to be answered, by the loop's clock."""
        self._where = where
        """Which server, for those who are told that it is gone."""
        self._name, self._start = name, start
        self._alarm: asyncio.TimerHandle | None = None
        self._connection: Connection | None = None
        self._back = asyncio.Event()
        """Set while there is a connection."""
        self._known = asyncio.Event()
        """Set while there is one, or the server counts as gone."""
        self._returning: asyncio.Task[None] | None = None
        self._gone: RankdError | None = None
        """Why the server counts as gone, if it does."""
        self._silent = False
        """Whether it does because somebody asked and had no answer."""
        self._taken = False
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._closed = False

    async def open(self) -> None:
        """Open the first connection. Raises what the driver raises."""
        self._adopt(await self._connect())

    async def close(self) -> None:
        """Refuse whoever waits, and let go of the connection."""
        self._closed = True
        self.refuse_waiting(self._refusal)
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

    def refuse_waiting(self, why: Callable[[], LedgerUnavailable]) -> None:
        """Let nobody wait any more who has not had its turn; each is told for itself."""
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
        """Wait for an answer; after a while without one the server counts as gone. In one's turn.

        Whatever it says then, also that something is wrong, it is there again.
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
        """Look when silence would have lasted long enough, were nobody answered from now on."""
        loop = asyncio.get_running_loop()
        due = max(since, self._moved()) + self._patience.silence_seconds
        if due > loop.time():
            self._alarm = loop.call_at(due, self._watch, since)
        elif loop.time() - due > STALL * self._patience.silence_seconds:
            # It was this process that stood still: the answer may have come, and wait to be read.
            self._watch(loop.time())
        else:
            self._fall_silent()

    def _fall_silent(self) -> None:
        self._silent = True
        seconds = self._patience.silence_seconds
        self._note(TimeoutError(f"no answer for {seconds:g} s"))

    def _hear(self) -> None:
        if self._silent:
            self._silent, self._gone = False, None
            self._presence.find(self)

    def miss(self, error: BaseException) -> None:
        """Break off whatever waits for a server that others know to be silent."""
        self.drop()
        self._note(error)

    # ---------------------------------------------------------------------- connection

    async def connection(self) -> Connection:
        """Return the connection, if it is there or comes back in a moment. In one's turn."""
        connection = await self.returned(self._patience.notice_seconds, once_gone=0)
        if connection is None:
            if self._gone is None:
                self._note(TimeoutError("the connection was lost"))
            raise self._refusal()
        return connection

    async def returned(self, seconds_max: float, *, once_gone: float) -> Connection | None:
        """Return the connection once it is there, None if it does not come in time.

        ``once_gone`` is the time it has from when the server counts as gone, if that is sooner.
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
        """Break the connection off, whatever it is doing, and have another opened."""
        if (connection := self._connection) is not None:
            self._lose(connection)
            connection.terminate()

    def _adopt(self, connection: Connection) -> None:
        self._connection, self._gone, self._silent = connection, None, False
        connection.add_termination_listener(self._lose)
        self._back.set()
        self._known.set()
        self._presence.find(self)

    def _lose(self, connection: Connection) -> None:
        if connection is not self._connection:
            return
        self._connection = None
        self._back.clear()
        self._known.clear()
        if not self._closed:
            self._returning = self._start(f"{self._name}-return", self._return)

    async def _return(self) -> None:
        pause = self._patience.retry_seconds_min
        while True:
            try:
                self._adopt(await self._proven())
                return
            except (*VENDOR, RankdError) as exc:
                self._note(exc)
            await asyncio.sleep(pause)
            pause = min(2 * pause, self._patience.retry_seconds_max)

    async def _proven(self) -> Connection:
        connection = await self._connect()
        if self._silent:
            try:
                await self._prove(connection)
            except BaseException:
                connection.terminate()
                raise
        return connection

    def translated(self, error: BaseException) -> RankdError:
        """Return what an error on this line means to a caller."""
        return translated(error, where=self._where)

    def _note(self, error: BaseException) -> None:
        """From here on the server counts as gone."""
        self._gone = error if isinstance(error, RankdError) else self.translated(error)
        self._known.set()
        self._presence.miss(self, self._gone)
        self.refuse_waiting(self._refusal)

"""Notifications of other processes' appends.

Each append sends a notification, received on a dedicated connection. A notification only wakes a
reader, so a lost one costs time and never a fact: readers also poll, more often while there is no
such connection, as behind a pooler or until a lost one is reopened. The same connection is used to
check that the server replies.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol

from rankd.adapters.postgres.connection import STALL, Timeouts
from rankd.adapters.postgres.database import VENDOR, DriverConnection, leave, said
from rankd.errors import RankdError

POLL_SECONDS = 0.05
"""Poll interval without notifications."""

LOOK_SECONDS = 1.0
"""Poll interval with notifications: the connection may be dead without an error."""

_log = logging.getLogger(__name__)


class AppendSignal:
    """Signal that the ledger has grown."""

    def __init__(self) -> None:
        self.newest = 0
        """Highest position reported."""
        self.moved_at = 0.0
        """Time at which that position rose last, by the loop's clock."""
        self.listening = False
        self._heard = asyncio.Event()

    def tell(self, position: int = 0) -> None:
        """Wake all waiting tasks."""
        if position > self.newest:
            self.newest, self.moved_at = position, asyncio.get_running_loop().time()
        heard, self._heard = self._heard, asyncio.Event()
        heard.set()

    async def wait(self, seconds_max: float) -> None:
        """Return at a signal, when it is time to poll, or when the time is over."""
        heard = self._heard
        look = LOOK_SECONDS if self.listening else POLL_SECONDS
        with suppress(TimeoutError):
            async with asyncio.timeout(min(look, seconds_max)):
                await heard.wait()


class HealthCallback(Protocol):
    """Callbacks for the health of the server."""

    def silent(self, error: BaseException) -> None:
        """Called if it does not reply."""

    def heard(self) -> None:
        """Called if it replies."""

    @property
    def seen(self) -> int:
        """Highest position read or appended by this process."""

    def fallen_back(self) -> None:
        """Called if the server's ledger ends before that position."""


class Listener:
    """Listens on a connection of its own, if there is a channel, and checks the server's health.

    A connection to a host that hangs looks idle. So the end of the ledger is queried twice within
    the silence limit; a waiting append sees from it, too, whether others get replies.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[DriverConnection]],
        channel: str | None,
        news: AppendSignal,
        timeouts: Timeouts,
        told: HealthCallback,
        *,
        head: str,
    ) -> None:
        self._connect = connect
        self._channel = channel
        self._news = news
        self._timeouts = timeouts
        self._told = told
        self._head = head
        """Query for the end of the ledger."""
        self._said = ""
        """Last logged reason for not listening: each is logged once."""

    async def run(self) -> None:
        """Listen until cancelled; reopen a lost connection."""
        pause = self._timeouts.retry_seconds_min
        while True:
            try:
                await self._listen_once()
                pause = self._timeouts.retry_seconds_min
            except (*VENDOR, RankdError) as exc:
                if (why := said(exc)) != self._said:
                    _log.info("nobody listens to PostgreSQL: %s", why)
                self._said = why
                if isinstance(exc, TimeoutError):
                    self._told.silent(exc)
            await asyncio.sleep(pause)
            pause = min(2 * pause, self._timeouts.retry_seconds_max)

    async def _listen_once(self) -> None:
        connection, lost = await self._connect(), asyncio.Event()
        try:
            connection.add_termination_listener(lambda _connection: lost.set())
            await self._feel(connection)
            self._said = ""
            if self._channel is not None:
                async with asyncio.timeout(self._timeouts.silence_seconds):
                    await connection.add_listener(self._channel, self._hear)
                self._news.listening = True
            self._news.tell()  # Readers look for earlier appends.
            while not await _happens(lost, within_seconds=self._timeouts.pulse_seconds):
                await self._feel(connection)
        except TimeoutError:
            connection.terminate()
            raise
        finally:
            self._news.listening = False
            self._news.tell()
            await leave(connection, seconds_max=self._timeouts.leave_seconds)

    async def _feel(self, connection: DriverConnection) -> None:
        seconds, clock = self._timeouts.silence_seconds, asyncio.get_running_loop()
        asked_at, seen = clock.time(), self._told.seen
        try:
            head = await connection.fetchval(self._head, timeout=seconds)
        except TimeoutError as exc:
            if clock.time() - asked_at > seconds * (1 + STALL):
                raise ConnectionError("this process stood still") from exc
            raise
        self._told.heard()
        if (head or 0) < seen:
            self._told.fallen_back()
        if head is not None and head > self._news.newest:
            self._news.tell(head)

    def _hear(self, _connection: DriverConnection, _pid: int, _channel: str, payload: str) -> None:
        self._news.tell(int(payload) if payload.isdigit() else 0)


async def _happens(event: asyncio.Event, *, within_seconds: float) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(within_seconds):
            await event.wait()
    return event.is_set()

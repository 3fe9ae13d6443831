"""Being told of what others append.

Each append notifies whoever listens, on a connection kept for that alone. What is heard only wakes
a reader: a notification that is lost costs a moment, never a fact. So whoever waits looks for
itself now and then, often while nobody can listen: behind a pooler, or until a lost connection is
back. The same connection tells whether the server answers at all.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol

from rankd.adapters.postgres.database import Connection, leave
from rankd.adapters.postgres.failures import VENDOR, said
from rankd.adapters.postgres.line import STALL, Patience
from rankd.errors import RankdError

POLL_SECONDS = 0.05
"""How often to look while nobody listens."""

LOOK_SECONDS = 1.0
"""How often to look while somebody does: a connection may be dead without anybody knowing."""

_log = logging.getLogger(__name__)


class News:
    """Word that the ledger has grown, for all who wait by then."""

    def __init__(self) -> None:
        self.newest = 0
        """The furthest position anybody spoke of."""
        self.moved_at = 0.0
        """When somebody spoke of a further one than before, by the loop's clock."""
        self.listening = False
        self._heard = asyncio.Event()

    def tell(self, position: int = 0) -> None:
        """Wake whoever waits."""
        if position > self.newest:
            self.newest, self.moved_at = position, asyncio.get_running_loop().time()
        heard, self._heard = self._heard, asyncio.Event()
        heard.set()

    async def wait(self, seconds_max: float) -> None:
        """Return when there is word, when it is time to look, or when the time is over."""
        heard = self._heard
        look = LOOK_SECONDS if self.listening else POLL_SECONDS
        with suppress(TimeoutError):
            async with asyncio.timeout(min(look, seconds_max)):
                await heard.wait()


class Told(Protocol):
    """Who is told whether the server answers."""

    def silent(self, error: BaseException) -> None:
        """Hear that it does not."""

    def heard(self) -> None:
        """Hear that it does."""

    @property
    def seen(self) -> int:
        """The furthest position that was read or appended here."""

    def fallen_back(self) -> None:
        """Hear that the server's ledger ends before that."""


class Listener:
    """Listens on a connection of its own, if there is a channel, and feels the server's pulse.

    A connection to a host that stands still looks like one on which nothing happens. So it is asked
    where the ledger ends, twice in the time after which silence counts; who waits for an answer
    sees by that, too, whether others get theirs.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[Connection]],
        channel: str | None,
        news: News,
        patience: Patience,
        told: Told,
        *,
        head: str,
    ) -> None:
        self._connect = connect
        self._channel = channel
        self._news = news
        self._patience = patience
        self._told = told
        self._head = head
        """The question where the ledger ends."""
        self._said = ""
        """Why nobody listens, as the log has it: it is said once."""

    async def run(self) -> None:
        """Listen until cancelled; what is lost on the way is opened anew."""
        pause = self._patience.retry_seconds_min
        while True:
            try:
                await self._listen_once()
                pause = self._patience.retry_seconds_min
            except (*VENDOR, RankdError) as exc:
                if (why := said(exc)) != self._said:
                    _log.info("nobody listens to PostgreSQL: %s", why)
                self._said = why
                if isinstance(exc, TimeoutError):
                    self._told.silent(exc)
            await asyncio.sleep(pause)
            pause = min(2 * pause, self._patience.retry_seconds_max)

    async def _listen_once(self) -> None:
        connection, lost = await self._connect(), asyncio.Event()
        try:
            connection.add_termination_listener(lambda _connection: lost.set())
            await self._feel(connection)
            self._said = ""
            if self._channel is not None:
                async with asyncio.timeout(self._patience.silence_seconds):
                    await connection.add_listener(self._channel, self._hear)
                self._news.listening = True
            self._news.tell()  # What came before is looked for.
            while not await _happens(lost, within_seconds=self._patience.pulse_seconds):
                await self._feel(connection)
        except TimeoutError:
            connection.terminate()
            raise
        finally:
            self._news.listening = False
            self._news.tell()
            await leave(connection, seconds_max=self._patience.leave_seconds)

    async def _feel(self, connection: Connection) -> None:
        seconds, clock = self._patience.silence_seconds, asyncio.get_running_loop()
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

    def _hear(self, _connection: Connection, _pid: int, _channel: str, payload: str) -> None:
        self._news.tell(int(payload) if payload.isdigit() else 0)


async def _happens(event: asyncio.Event, *, within_seconds: float) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(within_seconds):
            await event.wait()
    return event.is_set()

"""Being told of what others append.

Each append notifies whoever listens, on a connection kept for that alone. What is heard only wakes
a reader: a notification that is lost costs a moment, never a fact. So whoever waits looks for
itself now and then, often while nobody can listen: behind a pooler, or until a lost connection is
back.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from rankd.adapters.postgres.database import Connection, leave
from rankd.adapters.postgres.failures import VENDOR
from rankd.adapters.postgres.line import Patience
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
        self.listening = False
        self._heard = asyncio.Event()

    def tell(self, position: int = 0) -> None:
        """Wake whoever waits."""
        self.newest = max(self.newest, position)
        heard, self._heard = self._heard, asyncio.Event()
        heard.set()

    async def wait(self, seconds_max: float) -> None:
        """Return when there is word, when it is time to look, or when the time is over."""
        heard = self._heard
        look = LOOK_SECONDS if self.listening else POLL_SECONDS
        with suppress(TimeoutError):
            async with asyncio.timeout(min(look, seconds_max)):
                await heard.wait()


async def listen(
    connect: Callable[[], Awaitable[Connection]], channel: str, news: News, patience: Patience
) -> None:
    """Listen until cancelled; what is lost on the way is opened anew."""
    pause = patience.retry_seconds_min
    while True:
        try:
            await _listen_once(connect, channel, news, patience)
            pause = patience.retry_seconds_min
        except (*VENDOR, RankdError) as exc:
            _log.info("nobody listens to PostgreSQL: %s", exc)
        await asyncio.sleep(pause)
        pause = min(2 * pause, patience.retry_seconds_max)


async def _listen_once(
    connect: Callable[[], Awaitable[Connection]], channel: str, news: News, patience: Patience
) -> None:
    def heard(_connection: Connection, _pid: int, _channel: str, payload: str) -> None:
        news.tell(int(payload) if payload.isdigit() else 0)

    connection, lost = await connect(), asyncio.Event()
    try:
        connection.add_termination_listener(lambda _connection: lost.set())
        await connection.add_listener(channel, heard)
        news.listening = True
        news.tell()  # What came before is looked for.
        await lost.wait()
    finally:
        news.listening = False
        news.tell()
        await leave(connection, seconds_max=patience.leave_seconds)

"""Whether the server is there, as far as anybody knows who speaks with it.

Each connection finds out for itself that nobody answers. What one of them knows all should know: a
server that is silent to one who asks is not worth a wait for the others.
"""

import asyncio
import logging

from rankd.errors import LedgerUnavailable, RankdError

_log = logging.getLogger(__name__)


class Presence:
    """Who misses the server, and why."""

    def __init__(self) -> None:
        self._missed: dict[object, RankdError] = {}
        self._since = 0.0
        """When the first of them began to miss it, by the loop's clock."""
        self._lost = asyncio.Event()
        self._there = asyncio.Event()
        self._there.set()

    @property
    def loss(self) -> LedgerUnavailable | None:
        """What everybody is refused with while anybody misses the server."""
        for error in self._missed.values():
            refusal = LedgerUnavailable(str(error), applied="no")
            refusal.__cause__ = error
            return refusal
        return None

    def miss(self, who: object, error: RankdError) -> None:
        """Note that one cannot reach the server."""
        if not self._missed:
            self._since = asyncio.get_running_loop().time()
            _log.warning("PostgreSQL is gone: %s", error)
        self._missed[who] = error
        self._lost.set()
        self._there.clear()

    def find(self, who: object) -> None:
        """Note that one is answered again."""
        missed = self._missed.pop(who, None)
        if missed is not None and not self._missed:
            seconds = asyncio.get_running_loop().time() - self._since
            _log.warning("PostgreSQL is there again, after %.1f seconds", seconds)
        if not self._missed:
            self._lost.clear()
            self._there.set()

    async def lost(self) -> LedgerUnavailable:
        """Wait until somebody misses the server, and return why."""
        while (loss := self.loss) is None:
            await self._lost.wait()
        return loss

    async def regained(self) -> None:
        """Wait until nobody misses it."""
        while self._missed:
            await self._there.wait()

"""Server health, shared by all connections of this process.

Each connection detects an unreachable server by itself. Once one has, requests on the others are
refused without a wait of their own.
"""

import asyncio
import logging

from rankd.errors import LedgerUnavailable, RankdError

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

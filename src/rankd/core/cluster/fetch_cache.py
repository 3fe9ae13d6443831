"""A cache of remote values, held for a moment, so that many readers share one fetch.

It bounds its size, the number of concurrent fetches, the number of waiting readers, and the time of
a fetch. Failures are cached too: of a thousand reads of a lost server, one waits for it.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, NamedTuple

from rankd.errors import IndexUnavailable, RankdError

WEIGHT_MAX = 100_000
"""How many entries of rankings are held, of all that was fetched: some twenty megabytes, unless
much is shown beside them."""

MOMENT_SECONDS = 1.0
"""How long a value that may change is used."""

FETCH_SECONDS_MAX = 2.0
"""How long a reader waits for a fetch."""

FETCHES_AT_ONCE = 2
"""So few that folding, which reads on the same connection, hardly waits."""

WAITING_MAX = 256
"""How many wait for a fetch; one more is refused at once."""


class _Cached(NamedTuple):
    value: Any
    weight: int
    until: float
    """By the clock of the event loop."""
    failure: IndexUnavailable | None = None


class FetchCache:
    """Values by their keys, some for good and some for a moment."""

    def __init__(self) -> None:
        self.fetches = 0
        """How many there were."""
        self._known: OrderedDict[Hashable, _Cached] = OrderedDict()
        self._weight = 0
        self._turns = asyncio.Semaphore(FETCHES_AT_ONCE)
        self._waiting = 0

    async def get(
        self,
        key: Hashable,
        fetch: Callable[[], Awaitable[Any]],
        *,
        weigh: Callable[[Any], int],
        lasts: Callable[[Any], bool],
    ) -> Any:
        """Return a value that is known, or fetch it. Raises IndexUnavailable.

        If the fetch fails, an outdated value is returned where there is one.
        """
        known = self._fresh(key)
        if known is None:
            known = await self._in_turn(key, fetch, weigh, lasts)
        if known.failure is not None:
            raise IndexUnavailable(known.failure.problem) from known.failure
        return known.value

    async def _in_turn(
        self,
        key: Hashable,
        fetch: Callable[[], Awaitable[Any]],
        weigh: Callable[[Any], int],
        lasts: Callable[[Any], bool],
    ) -> _Cached:
        if self._waiting >= WAITING_MAX:
            raise IndexUnavailable(
                "the index is out of reach, and too many ask for what is kept of it"
            )
        self._waiting += 1
        try:
            async with self._turns:
                known = self._fresh(key)  # Whoever was before may have fetched it.
                if known is None:
                    known = await self._fetched(key, fetch, weigh, lasts)
                    self._remember(key, known)
                return known
        finally:
            self._waiting -= 1

    async def _fetched(
        self,
        key: Hashable,
        fetch: Callable[[], Awaitable[Any]],
        weigh: Callable[[Any], int],
        lasts: Callable[[Any], bool],
    ) -> _Cached:
        self.fetches += 1
        try:
            async with asyncio.timeout(FETCH_SECONDS_MAX):
                value = await fetch()
        except (RankdError, TimeoutError) as exc:
            before, until = self._known.get(key), _now() + MOMENT_SECONDS
            if before is not None and before.failure is None:
                return before._replace(until=until)
            why = "it took too long" if isinstance(exc, TimeoutError) else str(exc)
            problem = f"the index is out of reach, and so is what is kept of it: {why}"
            return _Cached(None, 1, until, IndexUnavailable(problem))
        until = float("inf") if lasts(value) else _now() + MOMENT_SECONDS
        return _Cached(value, 1 + weigh(value), until)

    def _fresh(self, key: Hashable) -> _Cached | None:
        known = self._known.get(key)
        if known is None or known.until <= _now():
            return None
        self._known.move_to_end(key)
        return known

    def _remember(self, key: Hashable, known: _Cached) -> None:
        before = self._known.pop(key, None)
        self._weight += known.weight - (0 if before is None else before.weight)
        self._known[key] = known
        while self._weight > WEIGHT_MAX and len(self._known) > 1:
            _, oldest = self._known.popitem(last=False)
            self._weight -= oldest.weight


def _now() -> float:
    return asyncio.get_running_loop().time()

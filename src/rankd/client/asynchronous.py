"""The client for programs with an event loop: the same calls, all awaited."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from rankd.client import calls
from rankd.client.calls import BATCH_SCORES, Call, Item, PagedList, Result
from rankd.client.responses import Attempts, RetryPolicy, UnansweredCall
from rankd.client.synchronous import (
    CONNECTIONS_MAX,
    TIMEOUT_SECONDS,
    URL_DEFAULT,
    described,
    endpoint_of,
    lost,
    request_of,
)
from rankd.errors import RankdError, count
from rankd.http_client import AsyncTransport, AwaitableTransport, HttpResponse, TransportError

S = ParamSpec("S")
T = TypeVar("T")
P = TypeVar("P")
R = TypeVar("R")


def _calling(
    build: Callable[S, Call[T]],
) -> Callable[Concatenate["AsyncClient", S], Coroutine[Any, Any, T]]:
    @wraps(build)
    async def method(self: "AsyncClient", *args: S.args, **kwargs: S.kwargs) -> T:
        return await self.send(build(*args, **kwargs))

    return described(method, build)


def _walking(
    build: Callable[S, PagedList[P, R]],
) -> Callable[Concatenate["AsyncClient", S], AsyncIterator[R]]:
    @wraps(build)
    def method(self: "AsyncClient", *args: S.args, **kwargs: S.kwargs) -> AsyncIterator[R]:
        return self._walk(build(*args, **kwargs))

    return described(method, build)


class AsyncClient:
    """A client of a service, for one event loop; its tasks may share it.

    Calls that the service cannot accept now, or does not answer, are sent again a few times, with
    the same submission key. Refusals are raised: see ``rankd.errors``.
    """

    def __init__(
        self,
        url: str = URL_DEFAULT,
        key: str | None = None,
        *,
        timeout: float = TIMEOUT_SECONDS,
        policy: RetryPolicy | None = None,
        ssl_context: ssl.SSLContext | None = None,
        transport: AwaitableTransport | None = None,
    ) -> None:
        self._endpoint = endpoint_of(url, key, ssl_context)
        self._policy = policy or RetryPolicy()
        self._transport = transport or AsyncTransport(
            self._endpoint, timeout=timeout, connections_max=CONNECTIONS_MAX
        )

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()

    async def send(self, call: Call[T]) -> T:
        """Send a call, with retries, and return its result."""
        attempts = Attempts(call, self._policy)
        wait = attempts.judge(await self._try(call))
        while wait is not None:
            await asyncio.sleep(wait)
            wait = attempts.judge(await self._try(call))
        return attempts.result

    async def _try(self, call: Call[T]) -> HttpResponse | UnansweredCall:
        try:
            return await self._transport.send(request_of(call))
        except TransportError as exc:
            return lost(exc, self._endpoint)

    async def _walk(self, pages: PagedList[P, R]) -> AsyncIterator[R]:
        call: Call[P] | None = pages.first
        while call is not None:
            found = await self.send(call)
            for row in pages.rows(found):
                yield row
            call = pages.following(found)

    async def submit_many(
        self, items: Iterable[Item], *, board: str | None = None, batch: int = BATCH_SCORES
    ) -> list[Result]:
        """Submit any number of scores, ``batch`` in each commit; return their receipts or refusals.

        An item is a player and a score, or a mapping with the fields of a submission; without
        ``board`` each has its own. A refused item has a Refusal in its place.
        """
        results: list[Result] = []
        try:
            for call in calls.batches(items, board=board, batch=batch):
                some = await self.send(call)
                results += some
        except RankdError as exc:
            exc.add_note(f"answered before: {count(len(results), 'submission')}")
            raise
        return results

    boards = _calling(calls.boards)
    board = _calling(calls.board)
    define = _calling(calls.define)
    retire = _calling(calls.retire)
    windows = _calling(calls.windows)
    submit = _calling(calls.submit)
    submit_batch = _calling(calls.submit_batch)
    top = _calling(calls.top)
    page = _calling(calls.page)
    poll = _calling(calls.poll)
    standing = _calling(calls.standing)
    around = _calling(calls.around)
    around_rank = _calling(calls.around_rank)
    lookup = _calling(calls.lookup)
    friends = _calling(calls.friends)
    projection = _calling(calls.projection)
    standings = _calling(calls.standings)
    walk = _walking(calls.walk)
    history = _calling(calls.history)
    walk_history = _walking(calls.walk_history)
    facts = _calling(calls.facts)
    walk_facts = _walking(calls.walk_facts)
    profile = _calling(calls.profile)
    set_profile = _calling(calls.set_profile)
    merge_profile = _calling(calls.merge_profile)
    players = _calling(calls.players)
    walk_players = _walking(calls.walk_players)
    lookup_players = _calling(calls.lookup_players)
    set_friends = _calling(calls.set_friends)
    erase = _calling(calls.erase)
    create_key = _calling(calls.create_key)
    keys = _calling(calls.keys)
    revoke_key = _calling(calls.revoke_key)
    clock = _calling(calls.clock)
    confirm_clock = _calling(calls.confirm_clock)
    correct_clock = _calling(calls.correct_clock)
    health = _calling(calls.health)
    ready = _calling(calls.ready)
    status = _calling(calls.status)

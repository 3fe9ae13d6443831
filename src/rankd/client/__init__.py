"""The Python client of the service: ``Client``, and ``AsyncClient`` for an event loop.

``calls`` builds requests and reads results, ``responses`` decides on errors and retries; neither
touches a socket. The two classes connect them to a transport.
"""

import asyncio
import inspect
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from contextlib import aclosing, contextmanager
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from rankd._version import __version__
from rankd.client import calls, corrections, streams
from rankd.client.calls import BATCH_SCORES, Call, Item, PagedList, Result
from rankd.client.corrections import LongCall
from rankd.client.responses import (
    Attempts,
    RetryPolicy,
    ServiceError,
    UnansweredCall,
    Unreachable,
    endless_attempts,
    service_error,
)
from rankd.client.stream_transport import AsyncStream, SyncStream
from rankd.client.streams import (
    SILENCE_SECONDS,
    Event,
    EventParser,
    LiveBoard,
    read_events,
    resumed,
)
from rankd.errors import RankdError, count
from rankd.http_client import (
    AsyncTransport,
    AwaitableTransport,
    Endpoint,
    HttpRequest,
    HttpResponse,
    SyncTransport,
    Transport,
    TransportError,
)
from rankd.signatures import SigningKey

__all__ = [
    "AsyncClient",
    "Client",
    "LiveBoard",
    "RetryPolicy",
    "ServiceError",
    "SigningKey",
    "Unreachable",
    "service_error",
]

TIMEOUT_SECONDS = 10.0
"""For one attempt: to connect, to send, and between any two bytes of the response."""

CONNECTIONS_MAX = 100
"""Open at once; a further call waits for a free one."""

KEY_LENGTH_MAX = 4096

URL_DEFAULT = "http://127.0.0.1:8700"

S = ParamSpec("S")
T = TypeVar("T")
P = TypeVar("P")
R = TypeVar("R")

Lost = Callable[[str], None]


def _untold(_problem: str) -> None:
    pass


def problem_of(outcome: HttpResponse | UnansweredCall) -> str:
    """Return why a stream was lost, for people."""
    if isinstance(outcome, UnansweredCall):
        return outcome.problem
    return f"the service answers {outcome.status}"


_JSON = {"content-type": "application/json"}


def endpoint_of(url: str, key: str | None, ssl_context: ssl.SSLContext | None) -> Endpoint:
    """Return the endpoint at a URL, with a key. Raises ValueError that repeats neither."""
    headers = {"user-agent": f"rankd-client/{__version__}", "accept": "application/json"}
    if key is not None:
        if not _is_key(key):
            raise ValueError("the key must be printable ASCII without spaces")
        headers["authorization"] = f"Bearer {key}"
    return Endpoint(url, headers, ssl_context=ssl_context)


def _is_key(key: str) -> bool:
    return key.isascii() and key.isprintable() and " " not in key and 0 < len(key) < KEY_LENGTH_MAX


def request_of(call: Call[T]) -> HttpRequest:
    """Return the HTTP request of a call."""
    headers = call.headers if call.body is None else {**_JSON, **call.headers}
    return HttpRequest(call.method, call.path, headers, call.body, call.timeouts)


def lost(error: TransportError, endpoint: Endpoint) -> UnansweredCall:
    """Return the outcome of a call without a response."""
    return UnansweredCall(f"{endpoint.url} does not answer: {error}", error.sent)


def described(method: Callable[..., T], build: Callable[..., object]) -> Callable[..., T]:
    """Give a method the signature of the function that builds its call, after ``self``."""
    made = inspect.signature(build)
    itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    shown = made.replace(parameters=[itself, *made.parameters.values()])
    method.__signature__ = shown  # type: ignore[attr-defined]
    return method


def _calling(build: Callable[S, Call[T]]) -> Callable[Concatenate["Client", S], T]:
    @wraps(build)
    def method(self: "Client", *args: S.args, **kwargs: S.kwargs) -> T:
        return self.send(build(*args, **kwargs))

    return described(method, build)


def _walking(
    build: Callable[S, PagedList[P, R]],
) -> Callable[Concatenate["Client", S], Iterator[R]]:
    @wraps(build)
    def method(self: "Client", *args: S.args, **kwargs: S.kwargs) -> Iterator[R]:
        return self._walk(build(*args, **kwargs))

    return described(method, build)


def _streaming(
    build: Callable[S, Call[HttpResponse]],
) -> Callable[Concatenate["Client", S], Iterator[Event]]:
    @wraps(build)
    def method(self: "Client", *args: S.args, **kwargs: S.kwargs) -> Iterator[Event]:
        return self.events(build(*args, **kwargs))

    return described(method, build)


def _finishing(build: Callable[S, LongCall[T]]) -> Callable[Concatenate["Client", S], T]:
    @wraps(build)
    def method(self: "Client", *args: S.args, **kwargs: S.kwargs) -> T:
        return self._finish(build(*args, **kwargs))

    return described(method, build)


class Client:
    """A client of a service. Threads may share it; a forked process needs its own.

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
        transport: Transport | None = None,
    ) -> None:
        self._endpoint = endpoint_of(url, key, ssl_context)
        self._policy = policy or RetryPolicy()
        self._transport = transport or SyncTransport(
            self._endpoint, timeout=timeout, connections_max=CONNECTIONS_MAX
        )
        self._streams: set[SyncStream] = set()
        self._closed = threading.Event()

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections, and end the streams, also those that another thread reads."""
        self._closed.set()
        for opened in list(self._streams):
            opened.cut()
        self._transport.close()

    def send(self, call: Call[T]) -> T:
        """Send a call, with retries, and return its result."""
        attempts = Attempts(call, self._policy)
        while (wait := attempts.judge(self._try(call))) is not None:
            time.sleep(wait)
        return attempts.result

    def _try(self, call: Call[T]) -> HttpResponse | UnansweredCall:
        try:
            return self._transport.send(request_of(call))
        except TransportError as exc:
            return lost(exc, self._endpoint)

    def _walk(self, pages: PagedList[P, R]) -> Iterator[R]:
        call: Call[P] | None = pages.first
        while call is not None:
            found = self.send(call)
            yield from pages.rows(found)
            call = pages.following(found)

    def events(self, call: Call[HttpResponse], lost_for: Lost = _untold) -> Iterator[Event]:
        """Yield the events of a call for a stream; ``lost_for`` is told why one is lost."""
        position: int | None = None
        attempts = Attempts(call, self._policy)
        while not self._closed.is_set():
            outcome: HttpResponse | UnansweredCall
            try:
                with self._opened(resumed(call, position)) as opened:
                    if opened.head.status == 200:
                        for event in read_events(opened.parts()):
                            position = event.position
                            yield event
                            attempts = endless_attempts(call, self._policy)
                        raise TransportError("the stream has ended", sent=True)
                    outcome = opened.head._replace(body=b"".join(opened.parts()))
            except TransportError as exc:
                outcome = lost(exc, self._endpoint)
            if self._closed.is_set():
                return
            pause = attempts.judge(outcome)
            lost_for(problem_of(outcome))
            self._closed.wait(pause)

    @contextmanager
    def _opened(self, call: Call[HttpResponse]) -> Iterator[SyncStream]:
        opened = SyncStream(self._endpoint, request_of(call), SILENCE_SECONDS)
        self._streams.add(opened)
        try:
            yield opened
        finally:
            self._streams.discard(opened)
            opened.close()

    def _finish(self, call: LongCall[T]) -> T:
        found = self.send(call.first)
        while (again := call.again(found)) is not None:
            found = self.send(again)
        return call.result(found)

    def submit_many(
        self, items: Iterable[Item], *, board: str | None = None, batch: int = BATCH_SCORES
    ) -> list[Result]:
        """Submit any number of scores, ``batch`` in each commit; return their receipts or refusals.

        An item is a player and a score, or a mapping with the fields of a submission; without
        ``board`` each has its own. A refused item has a Refusal in its place.
        """
        results: list[Result] = []
        try:
            for call in calls.batches(items, board=board, batch=batch):
                some = self.send(call)
                results += some
        except RankdError as exc:
            exc.add_note(f"answered before: {count(len(results), 'submission')}")
            raise
        return results

    boards = _calling(calls.boards)
    board = _calling(calls.board)
    define = _calling(calls.define)
    preview_rules = _calling(calls.preview_rules)
    retire = _calling(calls.retire)
    windows = _calling(calls.windows)
    schedule = _calling(calls.schedule)
    reset_window = _calling(calls.reset_window)
    freeze_window = _calling(calls.freeze_window)
    settle_window = _calling(calls.settle_window)
    certificate = _calling(calls.certificate)
    rewards = _calling(calls.rewards)
    walk_rewards = _walking(calls.walk_rewards)
    claim_reward = _calling(calls.claim_reward)
    submit = _calling(calls.submit)
    start_run = _calling(calls.start_run)
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
    distribution = _calling(calls.distribution)
    standings = _calling(calls.standings)
    walk = _walking(calls.walk)
    stream = _streaming(streams.stream)
    ticket = _calling(streams.ticket)
    history = _calling(calls.history)
    rank_history = _calling(calls.rank_history)
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
    adjust = _calling(corrections.adjust)
    retract = _finishing(corrections.retract)
    undo_retraction = _finishing(corrections.undo_retraction)
    remove = _finishing(corrections.remove)
    set_metadata = _calling(corrections.set_metadata)
    board_corrections = _calling(corrections.board_corrections)
    ban = _calling(corrections.ban)
    hide = _calling(corrections.hide)
    shadow = _calling(corrections.shadow)
    restore = _calling(corrections.restore)
    reviews = _calling(corrections.reviews)
    review = _calling(corrections.review)
    approve_review = _calling(corrections.approve_review)
    reject_review = _calling(corrections.reject_review)
    create_key = _calling(calls.create_key)
    keys = _calling(calls.keys)
    revoke_key = _calling(calls.revoke_key)
    put_webhook = _calling(calls.put_webhook)
    webhooks = _calling(calls.webhooks)
    webhook = _calling(calls.webhook)
    delete_webhook = _calling(calls.delete_webhook)
    deliveries = _calling(calls.deliveries)
    replay_webhook = _calling(calls.replay_webhook)
    clock = _calling(calls.clock)
    confirm_clock = _calling(calls.confirm_clock)
    correct_clock = _calling(calls.correct_clock)
    health = _calling(calls.health)
    ready = _calling(calls.ready)
    status = _calling(calls.status)


def _awaiting(
    build: Callable[S, Call[T]],
) -> Callable[Concatenate["AsyncClient", S], Coroutine[Any, Any, T]]:
    @wraps(build)
    async def method(self: "AsyncClient", *args: S.args, **kwargs: S.kwargs) -> T:
        return await self.send(build(*args, **kwargs))

    return described(method, build)


def _awaiting_long(
    build: Callable[S, LongCall[T]],
) -> Callable[Concatenate["AsyncClient", S], Coroutine[Any, Any, T]]:
    @wraps(build)
    async def method(self: "AsyncClient", *args: S.args, **kwargs: S.kwargs) -> T:
        return await self._finish(build(*args, **kwargs))

    return described(method, build)


def _iterating(
    build: Callable[S, PagedList[P, R]],
) -> Callable[Concatenate["AsyncClient", S], AsyncIterator[R]]:
    @wraps(build)
    def method(self: "AsyncClient", *args: S.args, **kwargs: S.kwargs) -> AsyncIterator[R]:
        return self._walk(build(*args, **kwargs))

    return described(method, build)


def _streaming_async(
    build: Callable[S, Call[HttpResponse]],
) -> Callable[Concatenate["AsyncClient", S], AsyncIterator[Event]]:
    @wraps(build)
    def method(self: "AsyncClient", *args: S.args, **kwargs: S.kwargs) -> AsyncIterator[Event]:
        return self.events(build(*args, **kwargs))

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

    async def events(
        self, call: Call[HttpResponse], lost_for: Lost = _untold
    ) -> AsyncIterator[Event]:
        """Yield the events of a call for a stream; ``lost_for`` is told why one is lost."""
        position: int | None = None
        attempts = Attempts(call, self._policy)
        while True:
            outcome: HttpResponse | UnansweredCall
            try:
                opened = await AsyncStream.open(
                    self._endpoint, request_of(resumed(call, position)), SILENCE_SECONDS
                )
                async with aclosing(opened.parts()) as parts:
                    if opened.head.status == 200:
                        reader = EventParser()
                        async for part in parts:
                            for event in reader.feed(part):
                                position = event.position
                                yield event
                                attempts = endless_attempts(call, self._policy)
                        raise TransportError("the stream has ended", sent=True)
                    body = b"".join([part async for part in parts])
                outcome = opened.head._replace(body=body)
            except TransportError as exc:
                outcome = lost(exc, self._endpoint)
            pause = attempts.judge(outcome)
            lost_for(problem_of(outcome))
            await asyncio.sleep(pause or 0.0)

    async def _finish(self, call: LongCall[T]) -> T:
        found = await self.send(call.first)
        while (again := call.again(found)) is not None:
            found = await self.send(again)
        return call.result(found)

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

    boards = _awaiting(calls.boards)
    board = _awaiting(calls.board)
    define = _awaiting(calls.define)
    preview_rules = _awaiting(calls.preview_rules)
    retire = _awaiting(calls.retire)
    windows = _awaiting(calls.windows)
    schedule = _awaiting(calls.schedule)
    reset_window = _awaiting(calls.reset_window)
    freeze_window = _awaiting(calls.freeze_window)
    settle_window = _awaiting(calls.settle_window)
    certificate = _awaiting(calls.certificate)
    rewards = _awaiting(calls.rewards)
    walk_rewards = _iterating(calls.walk_rewards)
    claim_reward = _awaiting(calls.claim_reward)
    submit = _awaiting(calls.submit)
    start_run = _awaiting(calls.start_run)
    submit_batch = _awaiting(calls.submit_batch)
    top = _awaiting(calls.top)
    page = _awaiting(calls.page)
    poll = _awaiting(calls.poll)
    standing = _awaiting(calls.standing)
    around = _awaiting(calls.around)
    around_rank = _awaiting(calls.around_rank)
    lookup = _awaiting(calls.lookup)
    friends = _awaiting(calls.friends)
    projection = _awaiting(calls.projection)
    distribution = _awaiting(calls.distribution)
    standings = _awaiting(calls.standings)
    walk = _iterating(calls.walk)
    stream = _streaming_async(streams.stream)
    ticket = _awaiting(streams.ticket)
    history = _awaiting(calls.history)
    rank_history = _awaiting(calls.rank_history)
    walk_history = _iterating(calls.walk_history)
    facts = _awaiting(calls.facts)
    walk_facts = _iterating(calls.walk_facts)
    profile = _awaiting(calls.profile)
    set_profile = _awaiting(calls.set_profile)
    merge_profile = _awaiting(calls.merge_profile)
    players = _awaiting(calls.players)
    walk_players = _iterating(calls.walk_players)
    lookup_players = _awaiting(calls.lookup_players)
    set_friends = _awaiting(calls.set_friends)
    erase = _awaiting(calls.erase)
    adjust = _awaiting(corrections.adjust)
    retract = _awaiting_long(corrections.retract)
    undo_retraction = _awaiting_long(corrections.undo_retraction)
    remove = _awaiting_long(corrections.remove)
    set_metadata = _awaiting(corrections.set_metadata)
    board_corrections = _awaiting(corrections.board_corrections)
    ban = _awaiting(corrections.ban)
    hide = _awaiting(corrections.hide)
    shadow = _awaiting(corrections.shadow)
    restore = _awaiting(corrections.restore)
    reviews = _awaiting(corrections.reviews)
    review = _awaiting(corrections.review)
    approve_review = _awaiting(corrections.approve_review)
    reject_review = _awaiting(corrections.reject_review)
    create_key = _awaiting(calls.create_key)
    keys = _awaiting(calls.keys)
    revoke_key = _awaiting(calls.revoke_key)
    put_webhook = _awaiting(calls.put_webhook)
    webhooks = _awaiting(calls.webhooks)
    webhook = _awaiting(calls.webhook)
    delete_webhook = _awaiting(calls.delete_webhook)
    deliveries = _awaiting(calls.deliveries)
    replay_webhook = _awaiting(calls.replay_webhook)
    clock = _awaiting(calls.clock)
    confirm_clock = _awaiting(calls.confirm_clock)
    correct_clock = _awaiting(calls.correct_clock)
    health = _awaiting(calls.health)
    ready = _awaiting(calls.ready)
    status = _awaiting(calls.status)

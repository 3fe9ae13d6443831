"""The client for programs without an event loop. Threads may share one."""

import inspect
import time
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from ipaddress import ip_address
from types import TracebackType
from typing import Concatenate, ParamSpec, TypeVar
from urllib.parse import urlsplit

import httpx

from rankd._version import __version__
from rankd.client import calls
from rankd.client.answers import Attempts, Lost, Policy
from rankd.client.calls import BATCH_SCORES, Answer, Call, Item, Pages, Result
from rankd.errors import RankdError, count

TIMEOUT_SECONDS = 10.0
"""For one attempt: to connect, to send, and between any two bytes of the answer."""

CONNECTIONS_MAX = 100
"""Open at once; one more call waits for its turn."""

KEY_LENGTH_MAX = 4096

URL_DEFAULT = "http://127.0.0.1:8700"

S = ParamSpec("S")
T = TypeVar("T")
P = TypeVar("P")
R = TypeVar("R")

NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
"""What went wrong before a single byte could arrive."""


class Address:
    """Where the service is, and what every request to it carries."""

    def __init__(self, url: str, key: str | None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError("the address must be like http://127.0.0.1:8700")
        if parts.username is not None or parts.query or parts.fragment:
            raise ValueError("the address must have no name, password, query or fragment")
        if key is not None and not _is_key(key):
            raise ValueError("the key must be printable ASCII without spaces")
        self.url = url.rstrip("/")
        self.headers = {"user-agent": f"rankd-client/{__version__}", "accept": "application/json"}
        if key is not None:
            self.headers["authorization"] = f"Bearer {key}"
        self.trust_environment = not _is_loopback(parts.hostname)
        """Whether a proxy named in the environment leads there: to this machine none does."""

    def request(self, call: Call[T]) -> dict[str, object]:
        """Return a request as httpx takes it."""
        headers = {**self.headers, **call.headers}
        if call.body is not None:
            headers["content-type"] = "application/json"
        url = self.url + call.path
        return {"method": call.method, "url": url, "headers": headers, "content": call.body}


def _is_key(key: str) -> bool:
    return key.isascii() and key.isprintable() and " " not in key and 0 < len(key) < KEY_LENGTH_MAX


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def answer_of(response: httpx.Response) -> Answer:
    """Return what came back, without httpx."""
    return Answer(response.status_code, response.headers, response.content)


def lost(error: httpx.TransportError, url: str) -> Lost:
    """Return what it means that nothing came back."""
    said = str(error) or type(error).__name__
    return Lost(f"{url} does not answer: {said}", not isinstance(error, NEVER_SENT))


def described(method: Callable[..., T], build: Callable[..., object]) -> Callable[..., T]:
    """Let a method show the parameters of the function that builds its call, after itself."""
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
    build: Callable[S, Pages[P, R]],
) -> Callable[Concatenate["Client", S], Iterator[R]]:
    @wraps(build)
    def method(self: "Client", *args: S.args, **kwargs: S.kwargs) -> Iterator[R]:
        return self._walk(build(*args, **kwargs))

    return described(method, build)


class Client:
    """A connection to a service. Threads may share it; a process that forks makes its own.

    Calls that the service cannot take now, or does not answer, are sent again a few times, with
    the same submission key. What it refuses is raised: see ``rankd.errors``.
    """

    def __init__(
        self,
        url: str = URL_DEFAULT,
        key: str | None = None,
        *,
        timeout: float = TIMEOUT_SECONDS,
        policy: Policy | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._address = Address(url, key)
        self._policy = policy or Policy()
        self._http = httpx.Client(
            timeout=timeout,
            transport=transport,
            trust_env=self._address.trust_environment,
            limits=httpx.Limits(max_connections=CONNECTIONS_MAX),
        )

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
        """Close the connections."""
        self._http.close()

    def send(self, call: Call[T]) -> T:
        """Send a call, again if need be, and return what its answer says."""
        attempts = Attempts(call, self._policy)
        while (wait := attempts.judge(self._try(call))) is not None:
            time.sleep(wait)
        return attempts.result

    def _try(self, call: Call[T]) -> Answer | Lost:
        try:
            return answer_of(self._http.request(**self._address.request(call)))  # type: ignore[arg-type]
        except httpx.TransportError as exc:
            return lost(exc, self._address.url)

    def _walk(self, pages: Pages[P, R]) -> Iterator[R]:
        call: Call[P] | None = pages.first
        while call is not None:
            found = self.send(call)
            yield from pages.rows(found)
            call = pages.following(found)

    def submit_many(
        self, items: Iterable[Item], *, board: str | None = None, batch: int = BATCH_SCORES
    ) -> list[Result]:
        """Have any number of scores counted, ``batch`` in each commit; return what each became.

        An item is a player and a score, or a mapping with what a submission may say; without
        ``board`` each says its own. What is refused is told in its place, as a Refusal.
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
    set_friends = _calling(calls.set_friends)
    erase = _calling(calls.erase)
    create_key = _calling(calls.create_key)
    keys = _calling(calls.keys)
    revoke_key = _calling(calls.revoke_key)
    health = _calling(calls.health)
    ready = _calling(calls.ready)

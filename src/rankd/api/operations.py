"""Long operations: requests that may be answered before they are done, and asked for again.

A retraction of a million submissions takes longer than proxies and clients wait for a byte. With
the header ``Prefer: respond-async`` (RFC 7240) such a request is answered 202 after at most
``wait`` seconds, with an id; ``POST /v1/operations/{operation}:wait`` then returns its progress
and, in the end, its response. Without the header the response is sent when it is there. The work
goes on in any case, also if the client disconnects.

Operations are in the memory of the process that writes. After a restart their ids are unknown; the
ledger tells whether they were recorded.
"""

import asyncio
import re
import secrets
from collections.abc import Awaitable, Callable

from rankd import schemas
from rankd.api.messages import Request, Response
from rankd.errors import Overloaded, UnknownOperation
from rankd.ports import Progress

OPERATIONS_MAX = 100
"""Operations that are remembered, of which the oldest that is done makes room for the next."""

WAIT_SECONDS_MAX = 30
"""The longest wait for an operation in one request."""

_WAIT = re.compile(rb"wait=([0-9]{1,4})")

Tell = Callable[[Progress], None]
Work = Callable[[Tell], Awaitable[Response]]


class OperationTask:
    """Work under way, its progress, and its response once it is done."""

    def __init__(self, board: str | None, work: Work) -> None:
        self.id = secrets.token_hex(8)
        self.board = board
        """The board that it concerns; None for several."""
        self._progress = Progress(0, 0)
        self._error: Exception | None = None
        self._response: Response | None = None
        self._task = asyncio.create_task(self._run(work))

    async def _run(self, work: Work) -> None:
        try:
            self._response = await work(self._tell)
        except Exception as exc:
            self._error = exc

    def _tell(self, progress: Progress) -> None:
        self._progress = progress

    @property
    def done(self) -> bool:
        """Whether it has succeeded or failed."""
        return self._task.done()

    async def response(self, wait_seconds: float) -> Response:
        """Return its response, or 202 and its progress after a while. Raises its error."""
        await asyncio.wait((self._task,), timeout=wait_seconds)
        if self._error is not None:
            raise self._error
        return self._response or self._accepted()

    def _accepted(self) -> Response:
        done, total, stage, unit = self._progress
        body = schemas.RunningOperation(self.id, "running", stage, done, total, unit)
        return Response(schemas.encode(body), 202)


class Operations:
    """The operations of a process that writes."""

    def __init__(self) -> None:
        self._by_id: dict[str, OperationTask] = {}

    async def respond(self, request: Request, board: str | None, work: Work) -> Response:
        """Do the work of a request; return its response, or 202 if the client would rather ask."""
        wait = _preferred_wait(request)
        if wait is None:
            return await work(_ignore)
        self._make_room()
        operation = OperationTask(board, work)
        self._by_id[operation.id] = operation
        return await operation.response(wait)

    def find(self, id: str) -> OperationTask:
        """Return an operation. Raises UnknownOperation."""
        try:
            return self._by_id[id]
        except KeyError:
            raise UnknownOperation(id) from None

    def _make_room(self) -> None:
        if len(self._by_id) < OPERATIONS_MAX:
            return
        oldest = next((id for id, one in self._by_id.items() if one.done), None)
        if oldest is None:
            raise Overloaded(waiting_max=OPERATIONS_MAX)
        del self._by_id[oldest]


def _ignore(_progress: Progress) -> None:
    pass


def _preferred_wait(request: Request) -> float | None:
    """Return how many seconds to wait before 202; None to wait until the response is there."""
    preferred = request.headers.get(b"prefer", b"").lower()
    if b"respond-async" not in preferred:
        return None
    wait = _WAIT.search(preferred)
    return min(int(wait[1]), WAIT_SECONDS_MAX) if wait else 0

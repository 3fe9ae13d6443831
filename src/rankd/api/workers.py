"""Worker processes of a service: started, restarted and stopped by the writer process.

Each worker listens on the service's port, and the kernel distributes connections. A worker that
dies is restarted; if the service dies, its workers lose the connection to the writer and stop.

A worker answers reads itself and forwards every write request, whole, over a Unix socket. The
writer runs the same handler as for a request of its own and returns the response, so a client
cannot tell which process it reached. In the other direction the writer sends the position of the
ledger after each commit, and the worker reads up to it at once. Each response also carries a
position, and the worker passes the response on when its own index has reached it. So a connection
reads its own writes.

Metrics use the same link: a worker forwards a scrape, and the writer asks each worker for its own
metrics.

The writer sends a message several times a second. After a silence of ``ledger_silence_seconds``
(its process hangs), pending requests are answered with ``applied: unknown``, further writes are
refused, and reads are marked stale, until the next message arrives.

A frame is four bytes of length and a MessagePack body. Many requests are pending at a time, and
neither side can fill the other's memory: a worker refuses requests while the writer is too slow to
read them, and the writer reads no more from a worker that is too slow to read the responses.
"""

import asyncio
import logging
import os
import shutil
import signal
import struct
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from rankd.api import messages
from rankd.api.context import ServiceContext, recorded_with
from rankd.api.exposition import Family, WorkerMetrics, WorkerSession
from rankd.api.logs import RequestLog
from rankd.api.messages import Request, Response
from rankd.api.routes import ROUTES
from rankd.api.routing import Route
from rankd.api.stream_routes import USE_TICKET
from rankd.core.read_engine import ReadEngine
from rankd.core.supervisor import Supervisor
from rankd.errors import LedgerUnavailable, Overloaded, RankdError, RequestTooLarge
from rankd.model.facts import Position
from rankd.model.window import Instant
from rankd.settings import Settings

FRAME_BYTES_MAX = 64 << 20
"""A larger frame is an error. Far more than the largest response or a sensible body."""

BODY_BYTES_MAX = FRAME_BYTES_MAX - (4 << 20)
"""The largest body that is forwarded; the rest of the frame has room for any head."""

UNDERWAY_MAX = 4_096
"""Pending requests of one worker; one more is refused at once."""

UNSENT_BYTES_MAX = 64 << 20
"""Bytes that the other side has not read: beyond this a worker refuses requests at once, and the
writer does not ask a worker for its metrics."""

SOCKET = "writer"
"""The name of the socket, in a temporary folder of its own."""

BEAT_SECONDS = 0.25
"""The longest interval between two messages of the writer, and the step in which a worker counts
its silence. The writer also checks at this interval whether the index was replaced."""

SILENCE_SECONDS = 1.0
"""The default of ``ledger_silence_seconds``: without a message for this long the writer counts as
unavailable."""

_LENGTH = struct.Struct("<I")
_log = logging.getLogger(__name__)


class ForwardedRequest(msgspec.Struct, array_like=True, tag="request"):
    """A request forwarded to the writer."""

    number: int
    operation: str
    method: str
    path: str
    params: dict[str, str]
    query: dict[str, Any]
    headers: dict[bytes, bytes]
    body: bytes
    client: str
    request_id: str = ""


class ForwardedResponse(msgspec.Struct, array_like=True, tag="response"):
    """The writer's response to a forwarded request."""

    number: int
    response: Response
    position: int
    """The writer's position after the request: at its facts or beyond them."""


class WorkerListening(msgspec.Struct, array_like=True, tag="listening"):
    """Sent by a worker once it accepts connections."""

    process: str
    """The name of the worker."""


class FiguresRequest(msgspec.Struct, array_like=True, tag="report"):
    """Asks a worker for its metrics."""

    number: int


class WorkerReport(msgspec.Struct, array_like=True, tag="figures"):
    """The metrics of a worker."""

    number: int
    families: list[Family]


class Used(msgspec.Struct, array_like=True, tag="used"):
    """Last uses of keys in a worker: microseconds since 1970 by key id."""

    keys: dict[str, int]


class WriterPosition(msgspec.Struct, array_like=True, tag="reached"):
    """The writer's position, and whether it takes writes."""

    position: int
    failure: str = ""
    """The reason why the writer takes no writes; empty if it does."""
    clock_confirmations: int = 0
    """The number of confirmed clock steps, which the worker's clock accepts as well."""
    ended: bool = False
    """Whether the writer takes no more writes until it is restarted."""
    loop_problems: list[str] = []
    """The background loops of the writer that fail."""


_encode = msgspec.msgpack.Encoder().encode
_to_writer = msgspec.msgpack.Decoder(
    ForwardedRequest | WorkerListening | WorkerReport | Used
).decode
_to_worker = msgspec.msgpack.Decoder(ForwardedResponse | WriterPosition | FiguresRequest).decode


def _frame(message: msgspec.Struct) -> bytes:
    body = _encode(message)
    return _LENGTH.pack(len(body)) + body


async def _frames(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield the bodies of incoming frames until the other side disconnects."""
    while True:
        try:
            (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
            if length > FRAME_BYTES_MAX:
                _log.error("a frame of %d bytes: the other side is not one of ours", length)
                return
            yield await reader.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError):
            return


def _is_handed_on(route: Route) -> bool:
    """Whether a worker forwards a route to the writer."""
    return route.writes or route.gathers


# ------------------------------------------------------------------------------- writer


class WriterEnd:
    """The writer's end of the link."""

    def __init__(
        self, routes: Iterable[Route], service: ServiceContext, metrics: WorkerMetrics | None = None
    ) -> None:
        self._routes = {route.operation: route for route in routes if _is_handed_on(route)}
        self._service = service
        self._metrics = metrics or WorkerMetrics()
        self._workers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._on_listening: Callable[[], None] = lambda: None
        self._log = RequestLog(every=False)
        self._moving = asyncio.Lock()
        self._folder: Path | None = None
        self._server: asyncio.Server | None = None

    @asynccontextmanager
    async def listening(self, on_listening: Callable[[], None]) -> AsyncIterator[None]:
        """Serve workers; ``on_listening`` is called for each that accepts connections."""
        self._on_listening = on_listening
        telling = self._service.rankd.supervisor.start("forwarding", self._tell)
        try:
            yield
        finally:
            telling.cancel()
            self._stop_listening()
            await asyncio.gather(telling, *self._tasks, return_exceptions=True)
            for worker in self._workers:
                worker.close()

    async def address(self) -> str:
        """Return the path of the socket for workers.

        A cleanup of temporary files may have removed the socket. Existing connections are not
        affected; the next worker gets a new socket.
        """
        async with self._moving:
            if self._folder is None or not (self._folder / SOCKET).exists():
                self._stop_listening()
                self._folder = Path(tempfile.mkdtemp(prefix="rankd-"))  # Mode 0700.
                path = str(self._folder / SOCKET)
                self._server = await asyncio.start_unix_server(self._meet, path)
            return str(self._folder / SOCKET)

    def _stop_listening(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._workers.add(writer)
        room = asyncio.Semaphore(UNDERWAY_MAX)
        session: WorkerSession | None = None
        try:
            async for body in _frames(reader):
                message = _to_writer(body)
                if isinstance(message, WorkerListening):
                    session = self._metrics.join(message.process, partial(_ask_figures, writer))
                    self._on_listening()
                    continue
                if isinstance(message, Used):
                    self._service.auth.note_uses(message.keys)
                    continue
                if isinstance(message, WorkerReport):
                    if session is not None:
                        session.take(message.number, message.families)
                    continue
                await room.acquire()
                await writer.drain()  # Take no more from a worker that reads no responses.
                task = asyncio.create_task(self._serve(message, writer))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
                task.add_done_callback(lambda _: room.release())
        except ConnectionError:
            pass  # The worker disconnected.
        finally:
            self._workers.discard(writer)
            if session is not None:
                self._metrics.leave(session)
            writer.close()

    async def _serve(self, handed: ForwardedRequest, writer: asyncio.StreamWriter) -> None:
        response = await self._respond(handed)
        if not writer.is_closing():
            position = self._service.rankd.position
            writer.write(_frame(ForwardedResponse(handed.number, response, position)))

    async def _respond(self, handed: ForwardedRequest) -> Response:
        request = Request(
            handed.method,
            handed.path,
            handed.params,
            handed.query,
            handed.headers,
            handed.body,
            handed.client,
            handed.request_id,
        )
        route = self._routes[handed.operation]
        try:
            with recorded_with(self._service, request) if route.writes else nullcontext():
                return await route.handler(self._service, request)
        except RankdError as exc:
            response = messages.refusal(exc, request_id=request.request_id, writes=route.writes)
            self._log.refused(
                request.request_id,
                status=response.status,
                code=messages.code_of(exc),
                what=handed.operation,
                why=messages.reason_of(exc),
            )
            return response
        except Exception:
            _log.exception("request %s failed", request.request_id)
            return messages.internal(request_id=request.request_id, writes=route.writes)

    async def _tell(self) -> None:
        """Send the position after each commit, and at least every BEAT_SECONDS."""
        sent = Position(0)
        while True:
            view = self._service.rankd
            with suppress(TimeoutError):
                async with asyncio.timeout(BEAT_SECONDS):
                    await view.projector.reach(Position(sent + 1))
            sent = view.position
            failure = view.ledger_failure
            why = "" if failure is None else str(failure)
            confirmed, failing = view.clock.confirmations, view.loop_problems
            frame = _frame(WriterPosition(sent, why, confirmed, view.ended, failing))
            for worker in self._workers:
                _mention(worker, frame)


def _ask_figures(worker: asyncio.StreamWriter, number: int) -> None:
    """Ask a worker for its metrics, unless too much is unsent to it."""
    if not worker.is_closing() and worker.transport.get_write_buffer_size() <= UNSENT_BYTES_MAX:
        worker.write(_frame(FiguresRequest(number)))


def _mention(worker: asyncio.StreamWriter, frame: bytes) -> None:
    """Send a frame unless one is unsent: workers also follow the ledger by themselves."""
    if not worker.is_closing() and worker.transport.get_write_buffer_size() == 0:
        worker.write(frame)


# ------------------------------------------------------------------------------- worker


class FollowerPart(Protocol):
    """The part of a follower that messages of the writer concern."""

    supervisor: Supervisor

    def hear(
        self,
        position: Position,
        failure: str = "",
        clock_confirmations: int = 0,
        *,
        ended: bool = False,
        loop_problems: Sequence[str] = (),
    ) -> None:
        """Note the writer's position and, if it takes no writes, the reason."""

    def miss(self, failure: RankdError) -> None:
        """Note that the writer is silent."""

    async def follow_to(self, position: Position) -> None:
        """Wait until reads include a position, for a bounded time."""


class WorkerEnd:
    """A worker's end of the link."""

    def __init__(
        self,
        writer: asyncio.StreamWriter,
        follower: FollowerPart,
        silence_seconds: float = SILENCE_SECONDS,
        figures: Callable[[], Iterable[Family]] = tuple,
    ) -> None:
        self._writer = writer
        self._figures = figures
        self._follower = follower
        self._silence_seconds = silence_seconds
        self._silent_seconds = 0.0
        self._underway: dict[int, asyncio.Future[ForwardedResponse]] = {}
        self._number = 0
        self.gone = asyncio.Event()
        """Set when the writer has disconnected: no write can succeed any more."""

    def routes(self, routes: Iterable[Route]) -> tuple[Route, ...]:
        """Return the routes of a worker, with those that write or gather forwarded."""
        return tuple(
            replace(route, handler=self._handler(route), plan=None)
            if _is_handed_on(route)
            else route
            for route in routes
        )

    def _handler(self, route: Route) -> Any:
        async def hand_on(service: ServiceContext, request: Request) -> Response:
            if route.writes:
                return await self._forward(route.operation, request)
            try:
                return (await self._ask(route.operation, request)).response
            except RankdError:
                return await route.handler(service, request)

        hand_on.__doc__ = route.handler.__doc__
        return hand_on

    async def _forward(self, operation: str, request: Request) -> Response:
        answered = await self._ask(operation, request)
        await self._follower.follow_to(Position(answered.position))
        return answered.response

    async def _ask(self, operation: str, request: Request) -> ForwardedResponse:
        if self.gone.is_set():
            raise LedgerUnavailable("the process that writes is gone", applied="no")
        if self._is_silent:
            raise self._silence(applied="no")
        if len(self._underway) >= UNDERWAY_MAX or self._unsent() > UNSENT_BYTES_MAX:
            raise Overloaded(waiting_max=len(self._underway))
        if len(request.body) > BODY_BYTES_MAX:
            raise RequestTooLarge(BODY_BYTES_MAX)
        self._number = number = self._number + 1
        answer: asyncio.Future[ForwardedResponse] = asyncio.get_running_loop().create_future()
        self._underway[number] = answer
        handed = ForwardedRequest(
            number,
            operation,
            request.method,
            request.path,
            dict(request.params),
            dict(request.query),
            _plain(request.headers),
            request.body,
            request.client,
            request.request_id,
        )
        self._writer.write(_frame(handed))
        try:
            return await answer
        finally:
            self._underway.pop(number, None)

    async def use_ticket(self, nonce: bytes, expires: float) -> bool:
        """Have the writer take a ticket, once for all workers. Raises LedgerUnavailable."""
        body = msgspec.msgpack.encode((nonce, expires))
        request = Request("POST", USE_TICKET.path, {}, {}, {}, body)
        answered = await self._ask(USE_TICKET.operation, request)
        return answered.response.body == b"true"

    def _unsent(self) -> int:
        return self._writer.transport.get_write_buffer_size()

    def say_listening(self, process: str) -> None:
        """Report to the writer that this worker accepts connections."""
        self._writer.write(_frame(WorkerListening(process)))

    def tell_uses(self, used: Mapping[str, Instant]) -> None:
        """Report the last uses of keys to the writer, unless too much is unsent."""
        if not self.gone.is_set() and self._unsent() <= UNSENT_BYTES_MAX:
            self._writer.write(_frame(Used(dict(used))))

    async def run(self, reader: asyncio.StreamReader) -> None:
        """Process the writer's messages until it disconnects."""
        try:
            async for body in _frames(reader):
                self._silent_seconds = 0.0
                message = _to_worker(body)
                if isinstance(message, WriterPosition):
                    self._follower.hear(
                        Position(message.position),
                        message.failure,
                        message.clock_confirmations,
                        ended=message.ended,
                        loop_problems=message.loop_problems,
                    )
                elif isinstance(message, FiguresRequest):
                    figures = WorkerReport(message.number, list(self._figures()))
                    self._writer.write(_frame(figures))
                elif (answer := self._underway.get(message.number)) and not answer.done():
                    answer.set_result(message)
        except Exception:
            _log.exception("the writer cannot be understood")
        finally:
            self.gone.set()
            self._give_up("the process that writes went away")

    async def watch(self) -> None:
        """Measure the writer's silence until cancelled.

        Counted in steps, not by the clock: if this process itself was suspended, messages are
        waiting to be read.
        """
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            self._silent_seconds += BEAT_SECONDS
            if self._is_silent and not self.gone.is_set():
                self._follower.miss(self._silence(applied="no"))
                self._give_up(self._silence(applied="unknown").problem)

    @property
    def _is_silent(self) -> bool:
        return self._silent_seconds >= self._silence_seconds

    def _silence(self, *, applied: Literal["no", "unknown"]) -> LedgerUnavailable:
        problem = f"the process that writes has not answered for {self._silence_seconds:g} s"
        return LedgerUnavailable(problem, applied=applied)

    def _give_up(self, problem: str) -> None:
        """Fail the pending requests: each may be applied, now or later."""
        for answer in self._underway.values():
            if not answer.done():
                answer.set_exception(LedgerUnavailable(problem, applied="unknown"))


def _plain(headers: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    return dict(headers)


@asynccontextmanager
async def forwarding(
    path: str,
    follower: FollowerPart,
    silence_seconds: float = SILENCE_SECONDS,
    figures: Callable[[], Iterable[Family]] = tuple,
) -> AsyncIterator[WorkerEnd]:
    """Connect to the writer at a path."""
    reader, writer = await asyncio.open_unix_connection(path)
    forwarder = WorkerEnd(writer, follower, silence_seconds, figures)
    tasks = [
        asyncio.create_task(forwarder.run(reader), name="forwarder"),
        follower.supervisor.start("forwarding", forwarder.watch),
    ]
    try:
        yield forwarder
    finally:
        writer.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


WORKER_VARIABLE = "RANKD_WORKER"
"""The environment variable with a worker's task."""

WORKER_MODULE = "rankd.worker"

HEALTH_SECONDS = 0.25
"""The interval at which the ledger's health is polled."""

RESTART_SECONDS = 1.0
"""The delay before a restart, so that a worker that dies at once is not started in a tight loop."""


class WorkerTask(msgspec.Struct):
    """The parameters of a worker process."""

    settings: dict[str, Any]
    socket: str
    process: str
    """The name of the worker."""


def worker_names(count: int) -> list[str]:
    """Return the names of ``count`` workers."""
    return [f"worker-{number}" for number in range(1, count + 1)]


class Workers:
    """The worker processes of a service."""

    def __init__(
        self,
        settings: Settings,
        address: Callable[[], Awaitable[str]],
        view: ReadEngine,
        count: int,
    ) -> None:
        self._settings = settings
        self._view = view
        self._address = address
        self._count = count
        self._running: set[asyncio.subprocess.Process] = set()
        self._stopping = False
        self._listening = 0
        self._ready = asyncio.Event()

    def note_listening(self) -> None:
        """Count a worker that accepts connections."""
        self._listening += 1
        if self._listening >= self._count:
            self._ready.set()

    def start(self, supervisor: Supervisor) -> list[asyncio.Task[None]]:
        """Start all workers, and restart any that ends."""
        return [
            supervisor.start(name, partial(self._keep_one, name))
            for name in worker_names(self._count)
        ]

    async def _keep_one(self, name: str) -> None:
        while not self._stopping:
            await self._writable()
            # In a session of its own: ctrl-c in the terminal must reach only the service, which
            # lets its workers finish. A worker that stopped by itself would be restarted.
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                WORKER_MODULE,
                env=self._environment(await self._address(), name),
                stdin=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
            self._running.add(process)
            code = await process.wait()
            self._running.discard(process)
            if not self._stopping:
                _log.error("worker %d ended with %d; another is started", process.pid, code)
                await asyncio.sleep(RESTART_SECONDS)

    def _environment(self, socket: str, name: str) -> dict[str, str]:
        task = WorkerTask(asdict(self._settings), socket, name)
        return {**os.environ, WORKER_VARIABLE: msgspec.json.encode(task).decode()}

    async def _writable(self) -> None:
        """Wait for the ledger: on a full disk a worker could not follow it either."""
        while self._view.ledger_failure is not None:  # noqa: ASYNC110 - a view has no event
            await asyncio.sleep(HEALTH_SECONDS)

    async def ready(self) -> None:
        """Wait until every worker accepts connections, unless the ledger is lost."""
        while self._view.ledger_failure is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(HEALTH_SECONDS):
                    await self._ready.wait()
                    return

    async def stop(self) -> None:
        """Let all workers finish their requests; kill those that run out of time."""
        self._stopping = True
        for process in self._running:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        waits = [process.wait() for process in self._running]
        try:
            async with asyncio.timeout(self._settings.stop_seconds_max + RESTART_SECONDS):
                await asyncio.gather(*waits)
        except TimeoutError:
            for process in self._running:
                process.kill()


@asynccontextmanager
async def workers(service: ServiceContext, settings: Settings, count: int) -> AsyncIterator[None]:
    """Run ``count`` workers beside this process, which writes for them."""
    metrics = WorkerMetrics(worker_names(count))
    service.workers = metrics.collect
    receiver = WriterEnd((*ROUTES, USE_TICKET), service, metrics)
    beside = Workers(settings, receiver.address, service.rankd, count)
    async with receiver.listening(beside.note_listening):
        keeping = beside.start(service.rankd.supervisor)
        try:
            await beside.ready()
            yield
        finally:
            await beside.stop()
            for task in keeping:
                task.cancel()
            await asyncio.gather(*keeping, return_exceptions=True)

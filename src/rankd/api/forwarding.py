"""Between the processes of one service: writes go to the one that owns the ledger.

A worker answers reads itself and hands every request that writes on, whole, over a Unix socket. The
writer runs the same handler as for a request of its own and hands the response back, so a
client cannot tell which process it met. In the other direction the writer says how far the ledger
has come, and a worker reads on at once; with each response, too, and the worker hands a response on
when its own index is there. So a connection reads what it wrote.

The figures of all processes go the same way: a worker hands a scrape on, and the writer asks each
worker for its own.

The writer says something several times a second. If it is not heard of for a while (its process
stands still), requests under way are answered ``unknown``, further ones are refused, and reads say
that they may be stale, until it is heard again.

A frame is four bytes of length and so many of MessagePack. Many requests are under way at a time,
and neither side lets the other fill its memory: a worker refuses what the writer is too slow to
take, and the writer takes no more from a worker that is too slow to hear the answers.
"""

import asyncio
import logging
import shutil
import struct
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from rankd.api import problems
from rankd.api.exchange import Request, Response
from rankd.api.exposition import Family
from rankd.api.logs import RequestLog
from rankd.api.routes import Route
from rankd.api.service import Service
from rankd.api.worker_metrics import Session, WorkerMetrics
from rankd.core.supervisor import Supervisor
from rankd.errors import LedgerUnavailable, Overloaded, RankdError, RequestTooLarge
from rankd.model.facts import Position
from rankd.model.window import Instant

FRAME_BYTES_MAX = 64 << 20
"""Far more than the largest answer, and than a body should have; a larger one is refused."""

BODY_BYTES_MAX = FRAME_BYTES_MAX - (4 << 20)
"""Of a request that is handed on: what remains has room for any head there may be."""

UNDERWAY_MAX = 4_096
"""Requests of one worker that wait for the writer; one more is refused at once."""

UNSENT_BYTES_MAX = 64 << 20
"""Waiting in a worker for a writer that does not read; then requests are refused at once. A worker
that leaves so much unread is not asked for its figures."""

SOCKET = "writer"
"""The name of the socket, in a folder that is made for it."""

BEAT_SECONDS = 0.25
"""The longest time between two words of the writer, and how often a worker counts its silence. So
often does the writer look, too, whether the index was replaced."""

SILENCE_SECONDS = 1.0
"""Without a word of the writer, unless the settings say otherwise (``ledger_silence_seconds``)."""

_LENGTH = struct.Struct("<I")
_log = logging.getLogger(__name__)


class Handed(msgspec.Struct, array_like=True, tag="request"):
    """A request on its way to the writer."""

    number: int
    operation: str
    method: str
    path: str
    params: dict[str, str]
    query: dict[str, Any]
    headers: dict[bytes, bytes]
    body: bytes
    client: str


class Answered(msgspec.Struct, array_like=True, tag="response"):
    """A response on its way back."""

    number: int
    response: Response
    position: int
    """Where the writer is by now: at what was written, or behind it."""


class Listening(msgspec.Struct, array_like=True, tag="listening"):
    """A worker takes connections."""

    process: str
    """What it is called."""


class Report(msgspec.Struct, array_like=True, tag="report"):
    """The figures of a worker are wanted."""

    number: int


class Figures(msgspec.Struct, array_like=True, tag="figures"):
    """The figures of a worker."""

    number: int
    families: list[Family]


class Used(msgspec.Struct, array_like=True, tag="used"):
    """Keys were shown to a worker, each last at a time."""

    keys: dict[str, int]


class Reached(msgspec.Struct, array_like=True, tag="reached"):
    """The ledger has come so far, and takes writes or not."""

    position: int
    failure: str = ""
    """Why the writer takes nothing, if that is so."""
    clock_confirmations: int = 0
    """How many steps of the clock were confirmed: the worker's clock makes the same step."""
    ended: bool = False
    """Whether the writer takes nothing for good."""


_encode = msgspec.msgpack.Encoder().encode
_to_writer = msgspec.msgpack.Decoder(Handed | Listening | Figures | Used).decode
_to_worker = msgspec.msgpack.Decoder(Answered | Reached | Report).decode


def _frame(message: msgspec.Struct) -> bytes:
    body = _encode(message)
    return _LENGTH.pack(len(body)) + body


async def _frames(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield what comes in until the other side is gone."""
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
    """Whether a worker leaves a route to the process that writes."""
    return route.writes or route.gathers


# ------------------------------------------------------------------------------- writer


class Receiver:
    """The writer's side."""

    def __init__(
        self, routes: Iterable[Route], service: Service, metrics: WorkerMetrics | None = None
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
        """Take workers; ``on_listening`` is called for each that takes connections."""
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
        """Return where a worker finds this process.

        Whoever tidies temporary files may have removed it since it was asked for last: those who
        are connected do not mind, and who comes next is given a new one.
        """
        async with self._moving:
            if self._folder is None or not (self._folder / SOCKET).exists():
                self._stop_listening()
                self._folder = Path(tempfile.mkdtemp(prefix="rankd-"))  # For this user only.
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
        session: Session | None = None
        try:
            async for body in _frames(reader):
                message = _to_writer(body)
                if isinstance(message, Listening):
                    session = self._metrics.join(message.process, partial(_ask_figures, writer))
                    self._on_listening()
                    continue
                if isinstance(message, Used):
                    self._service.gate.note_uses(message.keys)
                    continue
                if isinstance(message, Figures):
                    if session is not None:
                        session.take(message.number, message.families)
                    continue
                await room.acquire()
                await writer.drain()  # One that hears no answers asks for nothing more.
                task = asyncio.create_task(self._serve(message, writer))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
                task.add_done_callback(lambda _: room.release())
        except ConnectionError:
            pass  # It went away while it was waited for.
        finally:
            self._workers.discard(writer)
            if session is not None:
                self._metrics.leave(session)
            writer.close()

    async def _serve(self, handed: Handed, writer: asyncio.StreamWriter) -> None:
        response = await self._respond(handed)
        if not writer.is_closing():
            position = self._service.rankd.position
            writer.write(_frame(Answered(handed.number, response, position)))

    async def _respond(self, handed: Handed) -> Response:
        request = Request(
            handed.method,
            handed.path,
            handed.params,
            handed.query,
            handed.headers,
            handed.body,
            handed.client,
        )
        route = self._routes[handed.operation]
        try:
            return await route.handler(self._service, request)
        except RankdError as exc:
            response = problems.refusal(exc, request_id=request.request_id, writes=route.writes)
            self._log.refused(
                request.request_id,
                status=response.status,
                code=problems.code_of(exc),
                what=handed.operation,
                why=problems.reason_of(exc),
            )
            return response
        except Exception:
            _log.exception("request %s failed", request.request_id)
            return problems.internal(request_id=request.request_id, writes=route.writes)

    async def _tell(self) -> None:
        """Say how far the ledger has come, after each commit and now and then without one."""
        told = Position(0)
        while True:
            view = self._service.rankd
            with suppress(TimeoutError):
                async with asyncio.timeout(BEAT_SECONDS):
                    await view.projector.reach(Position(told + 1))
            told = view.position
            failure = view.ledger_failure
            why = "" if failure is None else str(failure)
            frame = _frame(Reached(told, why, view.clock.confirmations, view.ended))
            for worker in self._workers:
                _mention(worker, frame)


def _ask_figures(worker: asyncio.StreamWriter, number: int) -> None:
    """Ask, unless the worker has long stopped reading."""
    if not worker.is_closing() and worker.transport.get_write_buffer_size() <= UNSENT_BYTES_MAX:
        worker.write(_frame(Report(number)))


def _mention(worker: asyncio.StreamWriter, frame: bytes) -> None:
    """Tell a worker, unless it has not heard what it was told before: it looks by itself, too."""
    if not worker.is_closing() and worker.transport.get_write_buffer_size() == 0:
        worker.write(frame)


# ------------------------------------------------------------------------------- worker


class Following(Protocol):
    """The part of a follower that word from the writer is for."""

    supervisor: Supervisor

    def hear(
        self,
        position: Position,
        failure: str = "",
        clock_confirmations: int = 0,
        *,
        ended: bool = False,
    ) -> None:
        """Note how far the ledger is, and why the writer takes nothing, if it says so."""

    def miss(self, failure: RankdError) -> None:
        """Note that the writer is silent."""

    async def follow_to(self, position: Position) -> None:
        """Wait until reads include a position, within a bound."""


class Forwarder:
    """A worker's side."""

    def __init__(
        self,
        writer: asyncio.StreamWriter,
        follower: Following,
        silence_seconds: float = SILENCE_SECONDS,
        figures: Callable[[], Iterable[Family]] = tuple,
    ) -> None:
        self._writer = writer
        self._figures = figures
        self._follower = follower
        self._silence_seconds = silence_seconds
        self._silent_seconds = 0.0
        self._underway: dict[int, asyncio.Future[Answered]] = {}
        self._number = 0
        self.gone = asyncio.Event()
        """Set when the writer is: nothing can be written any more."""

    def routes(self, routes: Iterable[Route]) -> tuple[Route, ...]:
        """Return the table of a worker: what writes is handed on."""
        return tuple(
            replace(route, handler=self._handler(route), plan=None)
            if _is_handed_on(route)
            else route
            for route in routes
        )

    def _handler(self, route: Route) -> Any:
        async def hand_on(service: Service, request: Request) -> Response:
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

    async def _ask(self, operation: str, request: Request) -> Answered:
        if self.gone.is_set():
            raise LedgerUnavailable("the process that writes is gone", applied="no")
        if self._is_silent:
            raise self._silence(applied="no")
        if len(self._underway) >= UNDERWAY_MAX or self._unsent() > UNSENT_BYTES_MAX:
            raise Overloaded(waiting_max=len(self._underway))
        if len(request.body) > BODY_BYTES_MAX:
            raise RequestTooLarge(BODY_BYTES_MAX)
        self._number = number = self._number + 1
        answer: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        self._underway[number] = answer
        handed = Handed(
            number,
            operation,
            request.method,
            request.path,
            dict(request.params),
            dict(request.query),
            _plain(request.headers),
            request.body,
            request.client,
        )
        self._writer.write(_frame(handed))
        try:
            return await answer
        finally:
            self._underway.pop(number, None)

    def _unsent(self) -> int:
        return self._writer.transport.get_write_buffer_size()

    def say_listening(self, process: str) -> None:
        """Tell the writer that this worker takes connections."""
        self._writer.write(_frame(Listening(process)))

    def tell_uses(self, used: Mapping[str, Instant]) -> None:
        """Tell the writer when keys were shown here, unless it is too slow to hear it."""
        if not self.gone.is_set() and self._unsent() <= UNSENT_BYTES_MAX:
            self._writer.write(_frame(Used(dict(used))))

    async def run(self, reader: asyncio.StreamReader) -> None:
        """Take what the writer says until it is gone."""
        try:
            async for body in _frames(reader):
                self._silent_seconds = 0.0
                message = _to_worker(body)
                if isinstance(message, Reached):
                    self._follower.hear(
                        Position(message.position),
                        message.failure,
                        message.clock_confirmations,
                        ended=message.ended,
                    )
                elif isinstance(message, Report):
                    figures = Figures(message.number, list(self._figures()))
                    self._writer.write(_frame(figures))
                elif (answer := self._underway.get(message.number)) and not answer.done():
                    answer.set_result(message)
        except Exception:
            _log.exception("the writer cannot be understood")
        finally:
            self.gone.set()
            self._give_up("the process that writes went away")

    async def watch(self) -> None:
        """Count the time without a word of the writer, until cancelled.

        By beats, not by the clock: if this process stood still itself, words wait to be read.
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
        """Answer what is under way: it may be applied, now or later."""
        for answer in self._underway.values():
            if not answer.done():
                answer.set_exception(LedgerUnavailable(problem, applied="unknown"))


def _plain(headers: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    return dict(headers)


@asynccontextmanager
async def forwarding(
    path: str,
    follower: Following,
    silence_seconds: float = SILENCE_SECONDS,
    figures: Callable[[], Iterable[Family]] = tuple,
) -> AsyncIterator[Forwarder]:
    """Reach the writer at a path."""
    reader, writer = await asyncio.open_unix_connection(path)
    forwarder = Forwarder(writer, follower, silence_seconds, figures)
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

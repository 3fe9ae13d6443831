"""The fast lane: a hot request that is complete in one read is answered inside that read.

The main cost of a request in a Python server is neither parsing nor the handler, but the task, the
ASGI scope and the several sends. The hot routes need none of them: the head is parsed, the handler
is started in place, and the answer is sent in one write.

The rule that keeps it correct: *in any doubt, the other lane.* This lane takes only heads that
allow one interpretation (``request_head``), and leaves all others to uvicorn's parser, untouched.
Its answers must equal, byte for byte, those of the other lane; ``tests/http`` compares them.

Requests with an applicable plan (``plans``) are answered in batches; the others go to their
handlers, each in an ``EagerTask``. Answers are sent through the ``ResponseWriter``.
"""

import asyncio
from asyncio.tasks import _enter_task, _leave_task
from collections.abc import Callable, Coroutine, Generator
from time import time
from typing import Any

from rankd.api.app import GZIP_BYTES_MIN, NO_CONTENT, App
from rankd.api.auth import Permit
from rankd.api.connection import (
    ANSWERING,
    DEAD,
    IDLE,
    BoundedConnection,
    ResponseHeads,
    ResponseWriter,
)
from rankd.api.messages import Request, Response
from rankd.api.plans import PLAIN_BYTES_MAX, Batching, Outcome, Plan, PlanCache
from rankd.api.request_head import RequestHead, parse_head
from rankd.api.routing import BodyPlan, PagePlan, RemotePlan
from rankd.api.stream_sinks import ChunkedSink
from rankd.errors import RankdError
from rankd.templates import enclose


class EagerTask:
    """Runs one coroutine without an asyncio task, which would cost more than most handlers.

    It starts the coroutine in place. Most finish there, and ``start`` returns True. If the
    coroutine waits for a future, as a write does for its commit, ``start`` returns False, the
    future's callback resumes it, and ``on_done`` is called at its end. In the words of asyncio's
    manual this is a "third-party task": while it runs it is the current task, so
    ``asyncio.timeout`` and ``asyncio.wait_for`` work in a handler. It is not in
    ``asyncio.all_tasks()``, so the caller must hold a reference to one that waits.

    It may be reused for the next coroutine if the last one never waited: then nothing refers to it.
    """

    __slots__ = (
        "__weakref__",
        "_cancel_wanted",
        "_cancels",
        "_coroutine",
        "_loop",
        "_waits_for",
        "error",
        "on_done",
        "result",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._coroutine: Coroutine[Any, Any, Any]
        self._waits_for: asyncio.Future[Any] | None = None
        self._cancels = 0
        self._cancel_wanted = False
        self.result: Any = None
        self.error: BaseException | None = None
        self.on_done: Callable[[EagerTask], None] | None = None

    def start(self, coroutine: Coroutine[Any, Any, Any]) -> bool:
        """Run until the coroutine ends (True; see ``result`` and ``error``) or waits (False)."""
        self._coroutine = coroutine
        return self._step(None)

    def _step(self, error: BaseException | None) -> bool:
        loop = self._loop
        _enter_task(loop, self)  # type: ignore[arg-type]
        try:
            if error is None:
                waits_for = self._coroutine.send(None)
            else:
                waits_for = self._coroutine.throw(error)
        except StopIteration as done:
            self.result, self.error = done.value, None
            return True
        except (Exception, asyncio.CancelledError) as exc:
            self.result, self.error = None, exc
            return True
        finally:
            _leave_task(loop, self)  # type: ignore[arg-type]
        self._wait_for(waits_for)
        return False

    def _wait_for(self, waits_for: Any) -> None:
        """Resume when the yielded future is done; after a bare yield, in the next iteration."""
        if waits_for is None:
            self._loop.call_soon(self._go_on, None)
            return
        assert getattr(waits_for, "_asyncio_future_blocking", False), "handlers wait on futures"
        waits_for._asyncio_future_blocking = False
        self._waits_for = waits_for
        waits_for.add_done_callback(self._go_on)
        if self._cancel_wanted and waits_for.cancel():
            self._cancel_wanted = False

    def _go_on(self, _future: asyncio.Future[Any] | None) -> None:
        self._waits_for = None
        error = None
        if self._cancel_wanted:
            self._cancel_wanted, error = False, asyncio.CancelledError()
        # The future raises its own error where the coroutine awaits it.
        if self._step(error) and self.on_done is not None:
            self.on_done(self)

    # The interface of a task that asyncio.timeout, TaskGroup and a stopping server use.

    def cancel(self, msg: object = None) -> bool:
        """Cancel the coroutine, through the future it waits for."""
        self._cancels += 1
        if self._waits_for is None or not self._waits_for.cancel(msg=msg):
            self._cancel_wanted = True
        return True

    def cancelling(self) -> int:
        """Return the number of cancellations that were not taken back."""
        return self._cancels

    def uncancel(self) -> int:
        """Take back one cancellation, and return how many are left."""
        self._cancels = max(0, self._cancels - 1)
        return self._cancels

    def done(self) -> bool:
        """Whether the coroutine has ended."""
        return self.result is not None or self.error is not None

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop it runs on."""
        return self._loop

    def get_coro(self) -> Generator[Any, Any, Any] | Coroutine[Any, Any, Any]:
        """Return the coroutine."""
        return self._coroutine

    def get_name(self) -> str:
        """Return its name in logs."""
        return "rankd-drive"


BURST_MAX = 32
"""Pipelined requests of one connection answered per loop iteration, so that others are not delayed.
"""


class FastLaneState:
    """State shared by all connections of one application."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.plans = PlanCache(app)
        self.heads = ResponseHeads(app)
        self.writer: ResponseWriter | None = None
        self.batching: Batching | None = None


class FastConnection(BoundedConnection):
    """A connection that answers hot requests itself and leaves the others to uvicorn."""

    def __init__(self, shared: FastLaneState, **uvicorns: Any) -> None:
        super().__init__(shared.app, **uvicorns)
        self._plans, self._heads = shared.plans, shared.heads
        self._head_bytes_max = self.settings.request_head_bytes_max
        self._headers_max = self.settings.request_headers_max
        self._idle_seconds = self.settings.idle_seconds_max
        self._log = shared.app.log if shared.app.log.every else None
        self._drive = EagerTask(self.loop)
        self._service = shared.app.service
        self._auth: Any = getattr(self._service, "auth", None)
        if shared.writer is None or shared.batching is None:
            shared.writer = ResponseWriter(self.loop)
            shared.batching = Batching(
                self.loop, shared.writer, shared.heads, self.server_state, shared.app.log
            )
        self._writer, self._batching = shared.writer, shared.batching
        self._stream: ChunkedSink | None = None

    def data_received(self, data: bytes) -> None:
        """Answer within this call if possible."""
        if self.phase is IDLE and not self._held:
            self._take(data)
        elif self._stream is not None:
            self.transport.abort()  # No answer follows a stream.
        else:
            super().data_received(data)

    def _take(self, data: bytes) -> None:
        size = 0 if self._head_bytes or self.phase is not IDLE else self._serve(data)
        if size != len(data):
            self._take_rest(data, size)

    def _take_rest(self, data: bytes, size: int) -> None:
        """Go on after the first request, of ``size`` bytes; 0 if it is left to uvicorn."""
        for _ in range(BURST_MAX):
            if not size:
                self._feed(data)
                return
            if size == len(data):
                return
            data = data[size:]
            if self.phase is not IDLE:
                if self.phase is not DEAD:
                    self._hold(data)
                return
            size = self._serve(data)
        if rest := data[size:]:
            self._hold(rest)
            self.loop.call_soon(self._replay)

    def _serve(self, data: bytes) -> int:
        """Serve the first request of these bytes; return its size, 0 to leave it to uvicorn."""
        head = parse_head(data, self._head_bytes_max, self._headers_max)
        if head is None or (plan := self._plans.find(head)) is None:
            return 0
        size = head.end + head.length
        if head.length > plan.body_max or size > len(data):
            return 0
        if size < len(data):
            data = data[:size]
        elif plan.answering is not None and not self._stopping and self._follow(plan, head, data):
            return size
        self._handle(plan, head, data)
        return size

    # ---------------------------------------------------------------------- by a plan

    def _follow(self, plan: Plan, head: RequestHead, data: bytes) -> bool:
        """Answer a request by its plan; False if the handler has to answer."""
        admission = plan.admission(head, time())
        if admission is None:
            return False
        given = plan.read(head, data, admission)
        if given is None:
            return False
        if self._auth.counts and not self._count(plan, head, admission, given):
            return True
        if plan.batched:
            self.phase, self._deadline = ANSWERING, None
            self._batching.add(plan, self, given, head, data)
            return True
        answering = plan.answering
        if isinstance(answering, PagePlan):
            return self._send_page(plan, given, head, data)
        assert isinstance(answering, RemotePlan)
        self.phase, self._deadline = ANSWERING, None
        self._ask(plan, answering, given, head, data)
        return True

    def _count(self, plan: Plan, head: RequestHead, admission: Permit, given: Any) -> bool:
        """Count a request against the rate limits; False if it was refused, which is answered."""
        player = given.player if isinstance(plan.answering, BodyPlan) else None
        try:
            self._auth.count_again(admission, self.client_address, head.forwarded_for, player)
        except RankdError as exc:
            request = plan.request(head, b"", self.client_address)
            self._answer(self.rankd.refuse(exc, request, plan.route), request, head.plain)
            return False
        return True

    def _send_page(self, plan: Plan, offset: int, head: RequestHead, data: bytes) -> bool:
        answer = plan.page(offset, self._heads, self.server_state)
        if answer is None:
            self._handle(plan, head, data, counted=True)
            return True
        if isinstance(answer, Response):
            self._answer(answer, plan.request(head, b"", self.client_address), head.plain)
            return True
        self.server_state.total_requests += 1
        self._writer.write(self, answer)
        self._deadline = self.loop.time() + self._idle_seconds
        if self._log is not None:
            self._log.answered_head(self.client_address, head, 200)
        return True

    def _ask(
        self, plan: Plan, answering: RemotePlan, word: str, head: RequestHead, data: bytes
    ) -> None:
        """Query a remote index, and answer in its callback."""

        def answered(response: Response | Exception | None) -> None:
            body = response.body if type(response) is Response else None
            (answer,) = enclose(self._heads.plain(self.server_state), (body,), PLAIN_BYTES_MAX)
            idle_until = self.loop.time() + self._idle_seconds
            if answer is None or not self.send_plain(answer, idle_until):
                self.answer(response, plan, head, data)
            elif self._log is not None:
                self._log.answered_head(self.client_address, head, 200)

        if not answering.ask(word, answered):
            plan.forget()
            self.answer(None, plan, head, data)

    def send_plain(self, answer: bytes, idle_until: float) -> bool:
        """Send an encoded response and get ready for the next request; False if not possible."""
        if self.phase is not ANSWERING or self._stopping:
            return False
        self.server_state.total_requests += 1
        self.transport.write(answer)
        flow = self.flow
        if self._held or self._at_eof or self._timer is None or flow.write_paused:
            self._ready_for_next()
        else:
            self.phase, self._deadline = IDLE, idle_until
            if flow.read_paused:
                flow.resume_reading()
        return True

    def answer(self, outcome: Outcome, plan: Plan, head: RequestHead, data: bytes) -> None:
        """Answer a request that the plan's plain answer does not cover."""
        if self.phase is DEAD:
            return
        if outcome is None:
            # Not now: the caller may be a running task, and a handler is another.
            self.loop.call_soon(self._handle_again, plan, head, data)
            return
        request = plan.request(head, b"", self.client_address)
        if isinstance(outcome, Exception):
            response = self.rankd.refuse(outcome, request, plan.route)
        else:
            response = Response(outcome) if isinstance(outcome, bytes) else outcome
        self._answer(response, request, plain=True)

    def _handle_again(self, plan: Plan, head: RequestHead, data: bytes) -> None:
        """Let the handler answer a request that its plan could not answer."""
        if self.phase is DEAD:
            return
        self.phase = IDLE
        self._handle(plan, head, data, counted=True)
        if self.phase is IDLE:  # Answered already; held bytes may wait.
            self._ready_for_next()

    # ------------------------------------------------------------------- by a handler

    def _handle(self, plan: Plan, head: RequestHead, data: bytes, *, counted: bool = False) -> None:
        """Let the handler answer: at once (``quick``), in place, or when its future is done."""
        route, body = plan.route, data[head.end :] if head.length else b""
        request = plan.request(head, body, self.client_address, counted=counted)
        if route.quick is not None:
            try:
                response = route.quick(self._service, request)
            except Exception as exc:
                response = self.rankd.refuse(exc, request, route)
            if response is not None:
                self._finish(response, None, plan, head, request)
                return
        drive = self._drive
        if drive.start(route.handler(self._service, request)):
            self._finish(drive.result, drive.error, plan, head, request)
        else:
            self._drive = EagerTask(self.loop)
            self._wait(drive, plan, head, request)

    def _wait(self, drive: EagerTask, plan: Plan, head: RequestHead, request: Request) -> None:
        """Answer the request when its eager task is done."""
        self.phase = ANSWERING
        self.set_deadline(None)
        self.tasks.add(drive)  # type: ignore[arg-type]

        def done(drive: EagerTask) -> None:
            self.tasks.discard(drive)
            self._finish(drive.result, drive.error, plan, head, request)

        drive.on_done = done

    def _finish(
        self,
        response: object,
        error: BaseException | None,
        plan: Plan,
        head: RequestHead,
        request: Request,
    ) -> None:
        """Answer with the handler's response or error; the plan learns from a plain 200."""
        if type(response) is not Response:
            error = error or TypeError(f"{plan.route.operation} answered no Response")
            response = self.rankd.refuse(error, request, plan.route)
        plain = head.plain and not plan.texts
        self._answer(response, request, plain)
        if plan.route.plan is None or response.status != 200 or not plain:
            return
        if len(response.body) < GZIP_BYTES_MIN:
            plan.learn(self._service, request, head.authorization)

    def _answer(self, response: Response, request: Request, plain: bool) -> None:
        """Write the response, and get ready for the next request."""
        if not plain or len(response.body) >= GZIP_BYTES_MIN:
            response = self.rankd.finish(request, response)
        if self._log is not None:
            self._log.answered(request, response.status)
        self.server_state.total_requests += 1
        if response.stream is not None:
            self._begin_stream(response)
            return
        if self.phase is DEAD:
            return
        if self._stopping or response.status in NO_CONTENT:
            self._writer.flush()
            self.transport.write(self.encode(response, closing=self._stopping))
        else:
            self._writer.write(self, self._heads.encode(response, self.server_state))
        if self.phase is IDLE and not self._stopping:
            self._deadline = self.loop.time() + self._idle_seconds
        elif self._stopping:
            self.close()
        elif self.phase is ANSWERING:
            self._ready_for_next()

    # ---------------------------------------------------------------------- as a stream

    def _begin_stream(self, response: Response) -> None:
        """Send the head of a stream, and leave the connection to its events."""
        if self.phase is DEAD or self._stopping or self._held or self._at_eof:
            response.stream.cancel()
            self.transport.abort()
            return
        self._writer.flush()
        self.phase, self._deadline = ANSWERING, None
        self.transport.set_write_buffer_limits(high=self.settings.stream_buffer_bytes)
        self.transport.write(self.encode_head(response))
        self._stream = ChunkedSink(self, response.stream)
        response.stream.attach(self._stream)

    def pause_writing(self) -> None:
        """Send no more events while the client does not read."""
        super().pause_writing()
        if self._stream is not None:
            self._stream.pause()

    def resume_writing(self) -> None:
        """Go on with a client that reads again."""
        super().resume_writing()
        if self._stream is not None and self.phase is ANSWERING:
            self._stream.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the stream, if it is one."""
        if self._stream is not None:
            self._stream.lose()
            self._stream = None
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """End the stream, or finish the current request, and close."""
        if self._stream is not None:
            self._stream.stop()
        else:
            super().shutdown()

    # Pending answers are sent before any other write, and before the connection closes.

    def _feed(self, data: bytes) -> None:
        self._writer.flush()
        super()._feed(data)

    def _refuse(self, error: RankdError, *, linger: bool = True) -> None:
        self._writer.flush()
        super()._refuse(error, linger=linger)

    def eof_received(self) -> bool | None:  # type: ignore[override]
        """Send pending answers before the end of input is handled. A stream has no reader then."""
        self._writer.flush()
        return False if self._stream is not None else super().eof_received()

    def close(self) -> None:
        """Close after the last answer is sent."""
        self._writer.flush()
        super().close()

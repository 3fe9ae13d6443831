"""The fast lane: a hot request that is complete in one read is answered inside that read.

What costs in a Python server is not parsing and not the handler. It is the task, the scope and
the several sends of each request. So for the hot routes none of them is made: the bytes are
looked at, the handler is started in place, and the answer goes out in one write.

The rule that keeps it honest: *in any doubt, the other lane.* This lane reads only heads that are
so plain that there is one way to read them, and leaves everything else to uvicorn's parser,
untouched: other versions, chunks, ``Expect``, ``Upgrade``, any ``Connection`` but keep-alive, a
header that is there twice, a target with a character outside the plainest set, fragments, HEAD,
errors of the path. What it does read it must answer with the bytes the other lane would have
sent; ``tests/http`` compares them.

What a head says is read in ``heads``; requests of a kind that is known already are answered by
``questions``; answers leave through the ``outbox``.
"""

from typing import Any

import msgspec

from rankd.api.app import GZIP_BYTES_MIN, NO_CONTENT, App
from rankd.api.connection import ANSWERING, DEAD, IDLE, Connection
from rankd.api.drive import Drive
from rankd.api.exchange import Request, Response
from rankd.api.heads import Blocks, Lines
from rankd.api.outbox import Heads, Outbox
from rankd.api.questions import NO_QUESTION, Question, Questions, Repetition
from rankd.api.routes import Ask, Route
from rankd.api.together import PLAIN_BYTES_MAX, Kind, Outcome, Together
from rankd.errors import RankdError
from rankd.forms import enclose

BURST_MAX = 32
"""Pipelined requests answered in one go. Then others get their turn."""

_POST = ord("P")


class Memory:
    """What the connections of one application keep together."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.lines = Lines(app)
        self.blocks = Blocks(app.settings.request_headers_max)
        self.heads = Heads(app)
        self.questions = Questions(app)
        self.outbox: Outbox | None = None
        self.together: Together | None = None


class FastLane(Connection):
    """A connection that answers hot requests itself and leaves the others to uvicorn."""

    def __init__(self, memory: Memory, **uvicorns: Any) -> None:
        super().__init__(memory.app, **uvicorns)
        self._lines, self._blocks, self._heads = memory.lines, memory.blocks, memory.heads
        self._questions, self._heading = memory.questions, memory.questions.heading
        self._repeated = memory.questions.repeated
        self._question: Question = NO_QUESTION
        """The kind of the last request: nearly always that of the next one."""
        self._head_max = self.settings.request_head_bytes_max - 4
        self._idle_seconds = self.settings.idle_seconds_max
        self._logs = self.settings.access_log
        self._drive = Drive(self.loop)
        self._service = memory.app.service
        if memory.outbox is None or memory.together is None:
            memory.outbox = Outbox(self.loop)
            memory.together = Together(self.loop, memory.outbox, memory.heads, self.server_state)
        self._outbox, self._gather = memory.outbox, memory.together.gather

    def data_received(self, data: bytes) -> None:
        """Answer on the spot if that is possible."""
        if self.phase is IDLE and not self._held:
            if not (self._take_known(data) if data[0] == _POST else self._ask_known(data)):
                self._take(data)
        else:
            super().data_received(data)

    def _ask_known(self, data: bytes) -> bool:
        """Have a request answered whose kind is known; False if that is in any doubt."""
        question = self._question
        word = question.word_in(data)
        if word is None:
            if (repeated := self._repeated(data)) is not None:
                return self._repeat(repeated)
            self._question = question = self._questions.find(data)
            word = question.word_in(data)
            if word is None:
                return False
        if self._head_bytes or self._stopping:
            return False
        if question.ask is not None:
            return self._ask_alone(question, question.ask, word, data)
        self.phase, self._deadline = ANSWERING, None
        self._gather(question, self, word, data)
        return True

    def _repeat(self, repeated: Repetition) -> bool:
        """Answer a request that came before to the byte; False if that is in any doubt."""
        if self._head_bytes or self._stopping:
            return False
        letter = repeated.letter(self._heads, self.server_state)
        if letter is None:
            return False
        self.server_state.total_requests += 1
        self._outbox.post(self, letter)
        self._deadline = self.loop.time() + self._idle_seconds
        return True

    def _ask_alone(self, question: Question, ask: Ask, word: str, data: bytes) -> bool:
        def answered(response: Response | Exception | None) -> None:
            body = response.body if type(response) is Response else None
            (letter,) = enclose(self._heads.current(self.server_state), (body,), PLAIN_BYTES_MAX)
            if letter is None or not self.be_sent(letter, self.loop.time() + self._idle_seconds):
                self.be_answered(response, data, question)

        if not ask(word, answered):
            return False
        self.phase, self._deadline = ANSWERING, None
        return True

    def _take_known(self, data: bytes) -> bool:
        """Have a request answered whose head is known; False if that is in any doubt."""
        end = data.find(b"\r\n\r\n") + 4
        heading = self._heading(data[:end])
        if heading is None or len(data) != heading.size or self._head_bytes or self._stopping:
            return False
        given = heading.read(data[end:])
        if given is None:
            return False
        self.phase, self._deadline = ANSWERING, None
        self._gather(heading, self, given, data)
        return True

    def be_sent(self, letter: bytes, idle_until: float) -> bool:
        """Send an answer as it is, and be ready for the next request; False if it cannot be."""
        if self.phase is not ANSWERING or self._stopping:
            return False
        self.server_state.total_requests += 1
        self.transport.write(letter)
        flow = self.flow
        if self._held or self._at_eof or self._timer is None or flow.write_paused:
            self._ready_for_next()
        else:
            self.phase, self._deadline = IDLE, idle_until
            if flow.read_paused:
                flow.resume_reading()
        return True

    def be_answered(self, outcome: Outcome, data: bytes, kind: Kind) -> None:
        """Answer a request of a known kind."""
        if self.phase is DEAD:
            return
        if outcome is None:
            # Not now: whoever tells this is a task of its own, and a handler is another.
            self.loop.call_soon(self._look_again, data)
            return
        request = msgspec.structs.replace(
            kind.first, body=b"", client=self.client_address, _request_id=""
        )
        if isinstance(outcome, Exception):
            response = self.rankd.refuse(outcome, request, kind.route)
        else:
            response = Response(outcome) if isinstance(outcome, bytes) else outcome
        self._answer(response, request, plain=True)

    def _look_again(self, data: bytes) -> None:
        """Have the handler look at a request that was taken too early."""
        if self.phase is DEAD:
            return
        self.phase = IDLE
        if self._serve(data) != len(data):
            self._feed(data)
        elif self.phase is IDLE:  # Answered on the spot; what came behind it waits.
            self._ready_for_next()

    # What is about to be written or closed comes after the answers that wait.

    def _feed(self, data: bytes) -> None:
        self._outbox.send()
        super()._feed(data)

    def _refuse(self, error: RankdError, *, linger: bool = True) -> None:
        self._outbox.send()
        super()._refuse(error, linger=linger)

    def eof_received(self) -> bool | None:  # type: ignore[override]
        """Answer first what was asked before the end."""
        self._outbox.send()
        return super().eof_received()

    def close(self) -> None:
        """Close for good, behind the last answer."""
        self._outbox.send()
        super().close()

    def _take(self, data: bytes) -> None:
        for _ in range(BURST_MAX):
            size = 0 if self._head_bytes else self._serve(data)
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
        self._hold(data)
        self.loop.call_soon(self._replay)

    def _serve(self, data: bytes) -> int:
        """Serve the request these bytes begin with; return its size, or 0 to leave it be."""
        end = data.find(b"\r\n\r\n")
        if end < 0 or end > self._head_max or self.phase is not IDLE:
            return 0
        line_end = data.find(b"\r\n")
        block = data[line_end + 2 : end + 2]
        head = self._blocks.get(block) or self._blocks.read(block)
        if head is None:
            return 0
        headers, length, plain = head
        text = data[:line_end]
        line = self._lines.get(text) or self._lines.read(text)
        size = end + 4 + length
        if line is None or length > line.body_max or size > len(data):
            return 0
        method, path, route, params, query, _ = line
        body = data[end + 4 : size] if length else b""
        request = Request(method, path, params, query, headers, body, self.client_address)
        if route.quick is not None:
            try:
                response = route.quick(self._service, request)
            except Exception as exc:
                response = self.rankd.refuse(exc, request, route)
            if response is not None:
                self._answer(response, request, plain)
                if size == len(data):
                    self._prepare(data, route, request, response, plain)
                return size
        if route.prepare_taking is not None and plain and size == len(data) and not self._logs:
            self._questions.prepare_taking(data[: end + 4], length, route, request)
        drive = self._drive
        if drive.start(route.handler(self._service, request)):
            self._finish(drive, request, route, plain)
            if size == len(data):
                self._prepare(data, route, request, drive.result, plain)
        else:
            self._drive = Drive(self.loop)
            self._wait(drive, request, route, plain, data if size == len(data) else b"")
        return size

    def _prepare(
        self, data: bytes, route: Route, request: Request, response: object, plain: bool
    ) -> None:
        """Be quicker with the next request like this one, which is answered."""
        if not isinstance(response, Response) or response.status != 200 or not plain:
            return
        if len(response.body) >= GZIP_BYTES_MIN or self._logs:
            return
        if route.prepare is not None:
            self._questions.prepare(data, route, request)
        elif route.prepare_repeated is not None:
            self._questions.prepare_repeated(data, route, request)

    def _wait(self, drive: Drive, request: Request, route: Route, plain: bool, data: bytes) -> None:
        """Let the request go on when what it waits for is done; its bytes, if it came alone."""
        self.phase = ANSWERING
        self.set_deadline(None)
        self.tasks.add(drive)  # type: ignore[arg-type]

        def done(drive: Drive) -> None:
            self.tasks.discard(drive)
            self._finish(drive, request, route, plain)
            if data:
                self._prepare(data, route, request, drive.result, plain)

        drive.on_done = done

    def _finish(self, drive: Drive, request: Request, route: Route, plain: bool) -> None:
        """Answer with what the handler gave, or with what went wrong."""
        response: Response = drive.result
        if type(response) is not Response:
            error = drive.error or TypeError(f"{route.operation} answered no Response")
            response = self.rankd.refuse(error, request, route)
        self._answer(response, request, plain)

    def _answer(self, response: Response, request: Request, plain: bool) -> None:
        """Write the answer, and be ready for the next request."""
        body = response.body
        if not plain or len(body) >= GZIP_BYTES_MIN:
            response = self.rankd.finish(request, response)
            body = response.body
        if self._logs:
            self.rankd.note(request, response.status)
        state = self.server_state
        state.total_requests += 1
        if self.phase is DEAD:
            return
        if self._stopping or response.status in NO_CONTENT:
            self._outbox.send()
            self.transport.write(self.encode(response, closing=self._stopping))
        else:
            self._outbox.post(self, self._heads.letter(response, state))
        if self.phase is IDLE and not self._stopping:
            self._deadline = self.loop.time() + self._idle_seconds
        elif self._stopping:
            self.close()
        elif self.phase is ANSWERING:
            self._ready_for_next()

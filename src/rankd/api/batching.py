"""Batching: requests of one plan that arrive in one loop iteration are answered together.

A busy service reads from many connections in each iteration. One at a time, each request would wait
for memory and repeat the work that is the same for all; an index finds thirty players in little
more than the time of ten, and a commit takes one list of facts. So a request waits for the end of
the iteration, some microseconds, and then all are looked up, rendered and sent at once; see
docs/decisions/0014.

The connection holds later requests until the answer is sent, as it does for any request.
"""

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

from uvicorn.server import ServerState

from rankd.api.logs import RequestLog
from rankd.api.messages import Response
from rankd.api.plans import PLAIN_BYTES_MAX, Plan
from rankd.api.request_head import RequestHead
from rankd.api.response_writer import ResponseHeads, ResponseWriter
from rankd.api.routing import BodyPlan, WordPlan
from rankd.templates import enclose

_log = logging.getLogger(__name__)

Outcome = bytes | Response | Exception | None
"""The body of a plain 200, another response, or an error; None if the handler must answer."""


class Waiter(Protocol):
    """A connection that waits for the answer to its request."""

    client_address: str

    def send_plain(self, answer: bytes, idle_until: float) -> bool:
        """Send an encoded response; False if the connection cannot send it as it is."""

    def answer(self, outcome: Outcome, plan: Plan, head: RequestHead, data: bytes) -> None:
        """Answer in any other way: ``data`` holds the bytes of the request."""


class Batching:
    """Collects requests by plan and answers each plan's batch at the end of the loop iteration."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        writer: ResponseWriter,
        heads: ResponseHeads,
        state: ServerState,
        log: RequestLog,
    ) -> None:
        self._loop = loop
        self._writer = writer
        self._heads = heads
        self._state = state
        self._log = log if log.every else None
        self._plans: list[Plan] = []

    def add(self, plan: Plan, asker: Waiter, given: Any, head: RequestHead, data: bytes) -> None:
        """Add a request to the batch of its plan."""
        if not plan.given:
            if not self._plans:
                self._loop.call_soon(self._serve)
            self._plans.append(plan)
        plan.given.append(given)
        plan.waiting.append((asker, head, data))

    def _serve(self) -> None:
        self._writer.flush()  # Earlier answers on the same connections go first.
        plans, self._plans = self._plans, []
        for plan in plans:
            given, answered = plan.given, partial(self._answer, plan, plan.waiting)
            plan.given, plan.waiting = [], []
            if not self._serve_plan(plan, given, answered):
                plan.forget()
                answered([None] * len(given))

    def _serve_plan(self, plan: Plan, given: list[Any], answered: Any) -> bool:
        """Answer a batch through the callback; False if the plan is stale."""
        answering = plan.answering
        if isinstance(answering, BodyPlan):
            return answering.submit(given, answered)
        if not isinstance(answering, WordPlan):
            return False
        bodies: Sequence[bytes | None] | None
        try:
            bodies = answering.answer(given)
        except Exception:  # The handler meets the same error, and reports it.
            bodies = [None] * len(given)
        if bodies is None:
            return False
        answered(bodies)
        return True

    def _answer(
        self,
        plan: Plan,
        waiting: Sequence[tuple[Waiter, RequestHead, bytes]],
        outcomes: Sequence[Outcome],
    ) -> None:
        """Send each waiting request its outcome."""
        idle_until = self._loop.time() + self._heads.settings.idle_seconds_max
        answers = enclose(self._heads.plain(self._state), outcomes, PLAIN_BYTES_MAX)
        for (asker, head, data), answer, outcome in zip(waiting, answers, outcomes, strict=True):
            try:
                if answer is None or not asker.send_plain(answer, idle_until):
                    asker.answer(outcome, plan, head, data)
                elif self._log is not None:
                    self._log.answered_head(asker.client_address, head, 200)
            except Exception:  # An error with one request must not leave the others waiting.
                _log.exception("a request could not be answered")

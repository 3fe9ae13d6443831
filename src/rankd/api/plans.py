"""Plans: the common part of answering similar requests, prepared by the first, and their batches.

Requests with the same key (``request_head``) have the same route, parameters and query, so these
are parsed once. If the route supports it, the plan also has a ``RouteAnswering`` with all work that
such requests share; each further request costs only the part that differs: the last parameter of
its path, the offset of its query, or its body.

Authorization (``Permit``), rate limits and expiry still apply to every request. A stale plan is
dropped and made again by the next request.

Requests of one plan that arrive in one loop iteration are answered together. A busy service reads
from many connections in each iteration. One at a time, each request would wait for memory and
repeat the work that is the same for all; an index finds thirty players in little more than the time
of ten, and a commit takes one list of facts. So a request waits for the end of the iteration, some
microseconds, and then all are looked up, rendered and sent at once; see docs/decisions/0014. The
connection holds later requests until the answer is sent, as it does for any request.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from uvicorn.server import ServerState

from rankd.api.app import App
from rankd.api.auth import Permit
from rankd.api.connection import ResponseHeads, ResponseWriter
from rankd.api.logs import RequestLog
from rankd.api.messages import Request, Response
from rankd.api.render import wants_text
from rankd.api.request_head import WORD_SEGMENT, RequestHead
from rankd.api.routing import BodyPlan, PagePlan, Route, RouteAnswering, WordPlan
from rankd.errors import RankdError
from rankd.templates import enclose

PLANS_MAX = 4096
"""Cached plans. All are dropped when there are more: cheaper than keeping an order."""

KEY_BYTES_MAX = 1024
"""A longer key is not cached, which bounds the memory of plans."""

ADMISSIONS_MAX = 8192
"""Cached permits of one plan, by credential; all are dropped when there are more."""

PLAIN_BYTES_MAX = 16 * 1024 - 1
"""Larger bodies may be compressed, depending on the client: no plan answers them."""


class Plan:
    """The prepared answer for requests of one key, and its batch of this loop iteration."""

    __slots__ = (
        "_admissions",
        "_date",
        "_page",
        "_page_bytes",
        "_read_body",
        "answering",
        "batched",
        "body_max",
        "given",
        "method",
        "params",
        "query",
        "route",
        "texts",
        "waiting",
        "word_name",
    )

    def __init__(
        self, route: Route, params: Mapping[str, str], query: Mapping[str, Any], body_max: int
    ) -> None:
        self.route = route
        self.method = route.method
        self.params = params
        """The path parameters; that of the word differs between requests."""
        self.word_name = _word_name(route)
        self.query = query
        self.body_max = body_max
        self.texts = False
        """Whether scores are requested as text: then the handler always answers."""
        self.answering: RouteAnswering | None = None
        self.given: list[Any] = []
        """The value in which each waiting request differs from the others."""
        self.waiting: list[Any] = []
        self.batched = False
        """Whether requests that arrive together are answered together."""
        self._admissions: dict[bytes | None, Permit] = {}
        self._read_body: Callable[[bytes, Any], Any] | None = None
        self._page: Response | None = None
        self._page_bytes = b""
        self._date: object = None

    def request(
        self, head: RequestHead, body: bytes, client: str, *, counted: bool = False
    ) -> Request:
        """Return the request as passed to its handler."""
        params = self.params
        if head.word is not None:
            params = {**params, self.word_name: head.word}
        query = {**self.query, "offset": head.offset} if head.offset else self.query
        return Request(
            self.method, head.path, params, query, head.headers, body, client, counted=counted
        )

    def admission(self, head: RequestHead, now: float) -> Permit | None:
        """Return the permit of the request's credential; None if the handler has to decide."""
        known = self._admissions.get(head.authorization)
        return known if known is not None and now < known.until else None

    def read(self, head: RequestHead, data: bytes, admission: Permit) -> Any:
        """Return the part in which a request differs; None if the handler has to answer."""
        if self._read_body is not None:
            return self._read_body(data[head.end :], admission.actor)
        return head.offset if head.word is None else head.word

    def page(
        self, offset: int, heads: ResponseHeads, state: ServerState
    ) -> bytes | Response | None:
        """Return the page that answers a request, encoded unless it is large; None if not known."""
        assert isinstance(self.answering, PagePlan)
        response = self.answering.find(offset)
        if response is None or len(response.body) > PLAIN_BYTES_MAX:
            return response
        if response is not self._page or state.default_headers is not self._date:
            self._page_bytes = heads.encode(response, state)
            self._page, self._date = response, state.default_headers
        return self._page_bytes

    def learn(self, service: Any, request: Request, credential: bytes | None) -> None:
        """Let the plan answer requests like this one, which was answered with 200, from now on."""
        assert self.route.plan is not None and self.route.scope is not None
        admission = service.auth.admission(request, self.route.scope, request.params.get("board"))
        if admission is None:
            return
        if self.route.scope == "read" and service.viewer(admission.actor) is not None:
            return  # A plan answers all alike.
        if self.answering is None or not self.answering.in_force():
            self.forget()
            self._answer_by(self.route.plan(service, request))
        if self.answering is None:
            return
        if len(self._admissions) >= ADMISSIONS_MAX:
            self._admissions.clear()
        self._admissions[credential] = admission

    def _answer_by(self, answering: RouteAnswering | None) -> None:
        self.answering = answering
        self.batched = isinstance(answering, WordPlan | BodyPlan)
        self._read_body = answering.read if isinstance(answering, BodyPlan) else None

    def forget(self) -> None:
        """Leave every request to the handler, until ``learn`` is called again."""
        self._answer_by(None)
        self._page = None
        self._admissions.clear()


def _word_name(route: Route) -> str:
    segments = route.path.split("/")
    segment = segments[WORD_SEGMENT] if len(segments) > WORD_SEGMENT else ""
    return segment[1:-1] if segment[:1] == "{" and segment[-1:] == "}" else ""


class PlanCache:
    """The plans of one application, by the keys of requests."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._plans: dict[bytes, Plan] = {}
        self._verbs = frozenset(
            route.path.rpartition("}:")[2] for route in app.router.routes if "}:" in route.path
        )
        _check_words(app.router.routes)

    def __len__(self) -> int:
        return len(self._plans)

    def find(self, head: RequestHead) -> Plan | None:
        """Return the plan of a request; None if its route is not hot, or in doubt."""
        if head.colon and head.path.rpartition(":")[2] in self._verbs:
            return None  # It may be another route, with a verb behind the word.
        return self._plans.get(head.key) or self._make(head)

    def _make(self, head: RequestHead) -> Plan | None:
        try:
            route, params = self._app.router.find(head.method, head.path)
            if not route.hot:
                return None
            query = route.read_query(head.query)
        except RankdError:
            return None  # The other lane reports it.
        plan = Plan(route, params, query, self._app.body_max(route))
        plan.texts = wants_text(query, head.headers)  # The key covers all inputs of this.
        if head.word is not None and not plan.word_name:
            return None
        if len(head.key) <= KEY_BYTES_MAX:
            if len(self._plans) >= PLANS_MAX:
                self._plans.clear()
            self._plans[head.key] = plan
        return plan


def _check_words(routes: tuple[Route, ...]) -> None:
    """Assert that no route has a literal in place of a word, because plans do not check it."""
    hot = [route for route in routes if route.hot and _word_name(route)]
    for route in hot:
        segments = route.path.split("/")
        for other in routes:
            others = other.path.split("/")
            alike = other.method == route.method and len(others) == len(segments)
            literal = alike and not others[WORD_SEGMENT].startswith("{")
            assert not literal, f"{other.path} could be taken for {route.path}"


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

"""Requests of one kind that were read in one turn of the loop are answered together.

A busy service reads from many connections in each turn. Whoever answers them one at a time waits
for memory each time, and pays each time for everything that is the same for all of them; an index
finds thirty players in little more than the time of ten, and a commit wants one list of facts. So
a request of a known kind waits for the end of the turn, some microseconds, and then all that came
are looked up, filled in and sent in one go; see docs/decisions/0014.

A connection waits meanwhile as for any other answer: what comes behind the request is held.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from uvicorn.server import ServerState

from rankd.api.app import GZIP_BYTES_MIN
from rankd.api.exchange import Request, Response
from rankd.api.outbox import Heads, Outbox
from rankd.api.routes import AllAnswered, Route
from rankd.forms import enclose

PLAIN_BYTES_MAX = GZIP_BYTES_MIN - 1
"""What goes out as it is, whatever the asker would take it squeezed in."""

_log = logging.getLogger(__name__)

Outcome = bytes | Response | Exception | None
"""The body of a plain answer, another answer, what went wrong; None if the handler must look."""


class Asker(Protocol):
    """A connection that waits for the answer to a request of a known kind."""

    def be_sent(self, letter: bytes, idle_until: float) -> bool:
        """Send an answer as it is; False if it cannot go out like that."""

    def be_answered(self, outcome: Outcome, data: bytes, kind: "Kind") -> None:
        """Answer the request, whose bytes these are."""


class Kind:
    """Requests that differ in one thing, and those of them that wait for the end of this turn."""

    __slots__ = ("askers", "first", "given", "route", "serve")

    def __init__(
        self, serve: Callable[[list[Any], AllAnswered], bool], route: Route, first: Request
    ) -> None:
        self.serve = serve
        """Has those answered who gave these; False if this is not what answers them any more."""
        self.route = route
        self.first = first
        """The first of them."""
        self.askers: list[tuple[Asker, bytes]] = []
        self.given: list[Any] = []
        """The thing they differ in, one for each asker."""

    def end(self) -> None:
        """Let nobody be of this kind any more."""


class Together:
    """Gathers requests, and has them served at the end of the turn."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, outbox: Outbox, heads: Heads, state: ServerState
    ) -> None:
        self._loop = loop
        self._outbox = outbox
        self._heads = heads
        self._state = state
        self._kinds: list[Kind] = []

    def gather(self, kind: Kind, asker: Asker, given: Any, data: bytes) -> None:
        """Let a request wait for the others like it."""
        if not kind.given:
            if not self._kinds:
                self._loop.call_soon(self._serve)
            self._kinds.append(kind)
        kind.given.append(given)
        kind.askers.append((asker, data))

    def _serve(self) -> None:
        self._outbox.send()  # What was answered before on the same connections goes first.
        kinds, self._kinds = self._kinds, []
        for kind in kinds:
            given, answered = kind.given, partial(self._answer, kind, kind.askers)
            kind.given, kind.askers = [], []
            if not kind.serve(given, answered):
                kind.end()
                answered([None] * len(given))

    def _answer(
        self, kind: Kind, askers: Sequence[tuple[Asker, bytes]], outcomes: Sequence[Outcome]
    ) -> None:
        """Answer those who waited, each in its place."""
        idle_until = self._loop.time() + self._heads.settings.idle_seconds_max
        letters = enclose(self._heads.current(self._state), outcomes, PLAIN_BYTES_MAX)
        for (asker, data), letter, outcome in zip(askers, letters, outcomes, strict=True):
            try:
                if letter is None or not asker.be_sent(letter, idle_until):
                    asker.be_answered(outcome, data, kind)
            except Exception:  # A mistake with one must not leave the others waiting.
                _log.exception("a request could not be answered")

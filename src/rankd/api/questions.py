"""Requests that are known: what answers those that differ from an earlier one in a word or a body.

Most requests are of this kind, and what they mean was worked out for the first of them; see
docs/decisions/0012.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from uvicorn.server import ServerState

from rankd.api.app import App
from rankd.api.exchange import Request, Response
from rankd.api.heads import BLOCK_BYTES_MAX, PLAIN
from rankd.api.outbox import Heads
from rankd.api.routes import AllAnswered, Asking, Prepared, Repeated, Route, Take
from rankd.api.together import PLAIN_BYTES_MAX, Kind
from rankd.forms import Gap

QUESTIONS_MAX = 1024
"""Kinds of requests kept with what answers them. Forgotten all at once when full."""

WORD_BYTES_MAX = 256
"""Nobody has a longer id: whoever asks for one is told so by the handler."""


_NOTHING = Gap(b"", b"", b"", 0).word_in


class Question(Kind):
    """Requests that differ in nothing but their path's last parameter."""

    __slots__ = ("ask", "word_in")

    def __init__(self, gap: Gap, prepared: Prepared | Asking, route: Route, first: Request) -> None:
        super().__init__(_at_once(prepared), route, first)
        self.ask = prepared.ask if isinstance(prepared, Asking) else None
        """Asks for one alone, where the answer has to be waited for."""
        self.word_in = gap.word_in
        """Returns the parameter if these bytes are one such request, and nothing else."""

    def end(self) -> None:
        """Find no word in anything any more."""
        self.word_in = _NOTHING


class _NoQuestion(Question):
    def __init__(self) -> None:
        self.end()


NO_QUESTION = _NoQuestion()
"""The kind of no request."""


class Heading(Kind):
    """Requests that differ in nothing but their bodies, which are all of one length."""

    __slots__ = ("read", "size")

    def __init__(self, size: int, take: Take, route: Route, first: Request) -> None:
        super().__init__(take.hand_in, route, first)
        self.read = take.read
        self.size = size
        """Of the head and the body."""


class Repetition:
    """A request that comes again to the byte, and the letter that answered it last."""

    __slots__ = ("_date", "_find", "_letter", "_response")

    def __init__(self, find: Repeated) -> None:
        self._find = find
        self._response: Response | None = None
        self._date: object = None
        """The headers that the letter begins with, which are made anew when the date changes."""
        self._letter = b""

    def letter(self, heads: Heads, state: ServerState) -> bytes | None:
        """Return the answer as it goes out, if it is known."""
        response = self._find()
        if response is None or len(response.body) > PLAIN_BYTES_MAX:
            return None
        if response is not self._response or state.default_headers is not self._date:
            self._letter = heads.letter(response, state)
            self._response, self._date = response, state.default_headers
        return self._letter


def _at_once(prepared: Prepared | Asking) -> Callable[[list[Any], AllAnswered], bool]:
    def serve(words: list[str], answered: AllAnswered) -> bool:
        assert not isinstance(prepared, Asking), "it is asked for one alone"
        bodies: Sequence[bytes | None] | None
        try:
            bodies = prepared(words)
        except Exception:  # The handler meets it, too, and is answered for.
            bodies = [None] * len(words)
        if bodies is None:
            return False
        answered(bodies)
        return True

    return serve


class Questions:
    """Requests that are known, and what answers them.

    The same client asks the same of one player after another. The bytes before and behind the
    player are looked up as they came, headers included, so nothing of such a request is read
    twice; what it means is known since the first one was.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._kept: dict[bytes, Question] = {}
        self._taken: dict[bytes, Heading] = {}
        self._repeated: dict[bytes, Repetition] = {}
        self.heading, self.repeated = self._taken.get, self._repeated.get
        self.cut = _cutting(app.router.routes)

    def find(self, data: bytes) -> Question:
        """Return the kind of a request; if it is not known, the kind of none."""
        cut = self.cut(data)
        if cut is None:
            return NO_QUESTION
        start, end = cut.span(1)
        return self._kept.get(data[:start] + data[end:], NO_QUESTION)

    def prepare(self, data: bytes, route: Route, request: Request) -> None:
        """Keep what answers requests like this one, which has just been answered."""
        assert route.prepare is not None
        cut = self.cut(data)
        if cut is None:
            return
        start, end = cut.span(1)
        before, behind = data[:start], data[end:]
        kind = before + behind
        known = self._kept.pop(kind, None)
        if known is not None:
            known.end()
        prepared = route.prepare(self._app.service, request)
        if prepared is not None and len(kind) <= BLOCK_BYTES_MAX:
            if len(self._kept) >= QUESTIONS_MAX:
                self._kept.clear()
            gap = Gap(before, behind, PLAIN, WORD_BYTES_MAX)
            self._kept[kind] = Question(gap, prepared, route, request)

    def prepare_repeated(self, data: bytes, route: Route, request: Request) -> None:
        """Keep what answers this very request, which has just been answered."""
        assert route.prepare_repeated is not None
        self._repeated.pop(data, None)
        find = route.prepare_repeated(self._app.service, request)
        if find is not None and len(data) <= BLOCK_BYTES_MAX:
            if len(self._repeated) >= QUESTIONS_MAX:
                self._repeated.clear()
            self._repeated[data] = Repetition(find)

    def prepare_taking(self, head: bytes, length: int, route: Route, request: Request) -> None:
        """Keep what takes the bodies of requests with this head, of which one was just begun."""
        assert route.prepare_taking is not None
        self._taken.pop(head, None)
        take = route.prepare_taking(self._app.service, request)
        if take is not None and len(head) <= BLOCK_BYTES_MAX:
            if len(self._taken) >= QUESTIONS_MAX:
                self._taken.clear()
            self._taken[head] = Heading(len(head) + length, take, route, request)


def _cutting(routes: Iterable[Route]) -> Callable[[bytes], re.Match[bytes] | None]:
    """Return what finds the last parameter in the bytes of a request for such a route."""
    plain = rb"[%b]" % re.escape(PLAIN)
    starts = {
        re.sub(rb"\\{\w+\\}", lambda _: plain + b"+", re.escape(_before_last(route)))
        for route in routes
        if route.prepare is not None
    }
    # What ends the parameter must end it for the router, too: ``a:b`` is not the player ``a``.
    return re.compile(rb"(?:%b)(%b+)(?=[ /?])" % (b"|".join(sorted(starts)), plain)).match


def _before_last(route: Route) -> bytes:
    return f"{route.method} {route.path[: route.path.rindex('{')]}".encode()

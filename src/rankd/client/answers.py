"""What an answer means, or its absence: a value, an error of ``rankd.errors``, or another attempt.

The one thing to be careful about is ``applied``. A call that was sent and never answered may have
been done. If a later attempt is refused, its "no" speaks of that attempt alone; so from the first
unanswered one on, an error says "unknown".
"""

import inspect
import random
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from rankd.client.calls import Call
from rankd.client.shapes import Problem
from rankd.errors import Corrupt, FieldError, Invalid, RankdError, Refused, Unavailable
from rankd.http_client.message import Response

RETRY_AFTER_SECONDS_MAX = 30.0
"""However long the service asks one to wait, no longer than this."""

DETAIL_LENGTH_MAX = 2000
"""Of an answer's words in an exception."""

_PASSING = frozenset({408, 425, 429, 502, 503, 504})
"""What may succeed later: ours, and what a proxy says before a service that is not there."""

T = TypeVar("T")


class Policy(NamedTuple):
    """How often and how soon a call is tried again."""

    retries_max: int = 5
    """After the first attempt. With the waits below: some three seconds in all."""
    backoff_seconds: float = 0.1
    """Before the first retry; twice as long before each next one, less a random part."""
    backoff_seconds_max: float = 5.0

    def wait_before(self, retry: int, asked: float) -> float:
        """Return how long to wait before a retry, counted from 0, at least as long as asked."""
        longest = min(self.backoff_seconds_max, self.backoff_seconds * float(1 << retry))
        # Half of it by chance: clients that failed together do not come back together.
        return max(asked, longest / 2) + random.uniform(0, longest / 2)


class Unreachable(Unavailable):
    """The service did not answer, or what answered is not rankd."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class Told(NamedTuple):
    """What the service told of an error."""

    code: str
    status: int | None
    """None if nothing answered."""
    request_id: str | None
    applied: str | None
    """``no`` or ``unknown``; None for a read."""


class Lost(NamedTuple):
    """A call that was not answered."""

    problem: str
    sent: bool
    """Whether it may have arrived."""


def told(error: RankdError) -> Told:
    """Return what the service told of an error that a client raised."""
    found = getattr(error, "told", None)
    if isinstance(found, Told):
        return found
    # Raised here, with nothing sent: of what cannot be said, nothing was done.
    return Told(_code(error), None, None, "no" if isinstance(error, Invalid) else None)


def _code(error: RankdError) -> str:
    return getattr(error, "code", type(error).__name__.lower())


class Attempts(Generic[T]):
    """The attempts at one call."""

    def __init__(self, call: Call[T], policy: Policy) -> None:
        self._call = call
        self._policy = policy
        self._retries = 0
        self._maybe_applied = False
        self.result: T

    def judge(self, outcome: Response | Lost) -> float | None:
        """Return how long to wait before the next attempt; None if ``result`` is there.

        Raises what the last attempt came to.
        """
        error = self._read(outcome)
        if error is None:
            return None
        known = told(error)
        self._maybe_applied |= self._call.writes and known.applied != "no"
        again = isinstance(error, Unavailable) and (
            self._call.repeatable or not self._maybe_applied
        )
        if not again or self._retries >= self._policy.retries_max:
            if self._maybe_applied:
                _tell(error, known._replace(applied="unknown"))
            raise error
        asked = _retry_after(outcome) if isinstance(outcome, Response) else 0.0
        self._retries += 1
        return self._policy.wait_before(self._retries - 1, asked)

    def _read(self, outcome: Response | Lost) -> RankdError | None:
        if isinstance(outcome, Lost):
            return _tell(Unreachable(outcome.problem), self._without_answer(sent=outcome.sent))
        answers = self._call.answers | {304}
        if outcome.status >= 300 and outcome.status not in answers:
            return error_of(outcome, self._call)
        try:
            self.result = self._call.read(outcome)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return _tell(
                Refused("what answered there is not rankd: its answer cannot be read"),
                self._without_answer(sent=True)._replace(status=outcome.status),
            )
        return None

    def _without_answer(self, *, sent: bool) -> Told:
        applied = None if not self._call.writes else "unknown" if sent else "no"
        return Told("unreachable", None, None, applied)


def _retry_after(answer: Response) -> float:
    """Return the seconds that were asked for. A date is not among what we send."""
    asked = answer.headers.get("retry-after", "")
    return min(float(asked), RETRY_AFTER_SECONDS_MAX) if asked.isascii() and asked.isdigit() else 0


def error_of(answer: Response, call: Call[Any]) -> RankdError:
    """Return the error that an answer tells of: that of its code, or the branch of its status."""
    problem = _problem(answer)
    kind = RankdError._taken.get(problem.code) or _branch(answer.status)
    error = kind.__new__(kind, problem.detail)
    known: dict[str, object] = {**call.names, "problem": problem.detail, "message": problem.detail}
    known |= {"retry_after_seconds": int(_retry_after(answer)), "applied": problem.applied}
    error.__dict__.update({name: known.get(name) for name in _fields(kind)})
    if isinstance(error, Invalid):
        error.errors = tuple(FieldError(each.field, each.message) for each in problem.errors or ())
    applied = problem.applied or ("unknown" if call.writes else None)
    return _tell(error, Told(problem.code, answer.status, problem.request_id, applied))


def _fields(kind: type[RankdError]) -> tuple[str, ...]:
    """Return what an error is made with: it is kept under these names, as far as it is known."""
    made = inspect.signature(kind.__init__).parameters
    return tuple(name for name in made if name not in {"self", "args", "kwargs", "errors"})


_decode_problem = msgspec.json.Decoder(Problem).decode


def _problem(answer: Response) -> Problem:
    try:
        found = _decode_problem(answer.body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return Problem(answer.status, f"the answer was {answer.status}", f"http_{answer.status}")
    found.detail = found.detail[:DETAIL_LENGTH_MAX]
    return found


def _branch(status: int) -> type[RankdError]:
    if status in _PASSING:
        return Unavailable
    return Refused if status < 500 else Corrupt


def _tell(error: RankdError, found: Told) -> RankdError:
    """Put what was told onto the error, where ``told`` finds it, and as attributes."""
    error.__dict__.update(
        told=found, code=found.code, request_id=found.request_id, applied=found.applied
    )
    return error

"""The outcome of a call: a value, an error of ``rankd.errors``, or another attempt.

The delicate part is ``applied``. A call that was sent and never answered may have been done. If a
later attempt is refused with "no", that holds for that attempt only; so from the first unanswered
attempt on, an error has "unknown".
"""

import inspect
import random
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from rankd.client.calls import Call
from rankd.client.serialization import Problem
from rankd.errors import (
    BrokenRule,
    Corrupt,
    FieldError,
    Invalid,
    RankdError,
    Refused,
    RuleBroken,
    Unavailable,
)
from rankd.http_client import HttpResponse
from rankd.schemas import Score, WrongField

RETRY_AFTER_SECONDS_MAX = 30.0
"""The longest wait for a Retry-After of the service."""

DETAIL_LENGTH_MAX = 2000
"""Characters of a response's detail in an exception."""

DOUBLINGS_MAX = 32
"""Of a wait: more than any ``backoff_seconds_max`` allows."""

ENDLESS = 2**31
"""Retries of a stream that has begun: it is resumed whenever the service is back."""

_PASSING = frozenset({408, 425, 429, 502, 503, 504})
"""Statuses that may succeed later: those of rankd, and those of a proxy without a service behind
it."""

T = TypeVar("T")


class RetryPolicy(NamedTuple):
    """The number of retries and the waits between them."""

    retries_max: int = 5
    """After the first attempt. With the waits below: some three seconds in all."""
    backoff_seconds: float = 0.1
    """Before the first retry; doubled for each next one, less a random part."""
    backoff_seconds_max: float = 5.0

    def wait_before(self, retry: int, asked: float) -> float:
        """Return the seconds to wait before a retry, counted from 0; at least ``asked``."""
        longest = min(
            self.backoff_seconds_max, self.backoff_seconds * float(1 << min(retry, DOUBLINGS_MAX))
        )
        # Half of it is random: clients that failed together do not come back together.
        return max(asked, longest / 2) + random.uniform(0, longest / 2)


class Unreachable(Unavailable):
    """The service did not answer, or the server there is not rankd."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class ServiceError(NamedTuple):
    """The service's report of an error."""

    code: str
    status: int | None
    """None without a response."""
    request_id: str | None
    applied: str | None
    """``no`` or ``unknown``; None for a read."""


class UnansweredCall(NamedTuple):
    """A call without a response."""

    problem: str
    sent: bool
    """Whether it may have arrived."""


def service_error(error: RankdError) -> ServiceError:
    """Return the service's report of an error that a client raised."""
    found = getattr(error, "service_error", None)
    if isinstance(found, ServiceError):
        return found
    # Raised by the client itself, before anything was sent.
    return ServiceError(_code(error), None, None, "no" if isinstance(error, Invalid) else None)


def _code(error: RankdError) -> str:
    return getattr(error, "code", type(error).__name__.lower())


class Attempts(Generic[T]):
    """The attempts at one call."""

    def __init__(self, call: Call[T], policy: RetryPolicy) -> None:
        self._call = call
        self._policy = policy
        self._retries = 0
        self._maybe_applied = False
        self.result: T

    def judge(self, outcome: HttpResponse | UnansweredCall) -> float | None:
        """Return the seconds to wait before the next attempt; None if ``result`` is set.

        Raises the error of the last attempt.
        """
        error = self._read(outcome)
        if error is None:
            return None
        known = service_error(error)
        self._maybe_applied |= self._call.writes and known.applied != "no"
        again = isinstance(error, Unavailable) and (
            self._call.repeatable or not self._maybe_applied
        )
        if not again or self._retries >= self._policy.retries_max:
            if self._maybe_applied:
                _tell(error, known._replace(applied="unknown"))
            raise error
        asked = _retry_after(outcome) if isinstance(outcome, HttpResponse) else 0.0
        self._retries += 1
        return self._policy.wait_before(self._retries - 1, asked)

    def _read(self, outcome: HttpResponse | UnansweredCall) -> RankdError | None:
        if isinstance(outcome, UnansweredCall):
            return _tell(Unreachable(outcome.problem), self._without_answer(sent=outcome.sent))
        answers = self._call.answers | {304}
        if outcome.status >= 300 and outcome.status not in answers:
            return error_of(outcome, self._call)
        try:
            self.result = self._call.read(outcome)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return _tell(
                Refused("the server there is not rankd: its answer cannot be read"),
                self._without_answer(sent=True)._replace(status=outcome.status),
            )
        return None

    def _without_answer(self, *, sent: bool) -> ServiceError:
        applied = None if not self._call.writes else "unknown" if sent else "no"
        return ServiceError("unreachable", None, None, applied)


def endless_attempts(call: Call[T], policy: RetryPolicy) -> Attempts[T]:
    """Return attempts that end only with a refusal."""
    return Attempts(call, policy._replace(retries_max=ENDLESS))


def _retry_after(answer: HttpResponse) -> float:
    """Return the seconds of Retry-After; 0 for a date, which rankd never sends."""
    asked = answer.headers.get("retry-after", "")
    return min(float(asked), RETRY_AFTER_SECONDS_MAX) if asked.isascii() and asked.isdigit() else 0


def error_of(answer: HttpResponse, call: Call[Any]) -> RankdError:
    """Return the error of a response: by its code or, if that is unknown, by its status."""
    problem = _problem(answer)
    kind = RankdError._taken.get(problem.code) or _branch(answer.status)
    error = kind.__new__(kind, problem.detail)
    known: dict[str, object] = {**call.names, "problem": problem.detail, "message": problem.detail}
    known |= {"retry_after_seconds": int(_retry_after(answer)), "applied": problem.applied}
    error.__dict__.update({name: known.get(name) for name in _fields(kind)})
    if isinstance(error, Invalid):
        error.errors = tuple(FieldError(each.field, each.message) for each in problem.errors or ())
    if isinstance(error, RuleBroken):
        error.reasons = tuple(map(_broken_rule, problem.errors or ()))
    applied = problem.applied or ("unknown" if call.writes else None)
    return _tell(error, ServiceError(problem.code, answer.status, problem.request_id, applied))


def _broken_rule(wrong: WrongField) -> BrokenRule:
    numbers = _number(wrong.observed), _number(wrong.limit)
    return BrokenRule("" if wrong.rule is UNSET else wrong.rule, *numbers, wrong.message)


def _number(sent: Score | UnsetType) -> Score:
    return 0 if sent is UNSET else sent


def _fields(kind: type[RankdError]) -> tuple[str, ...]:
    """Return the names of an error's parameters, which are also its attributes."""
    made = inspect.signature(kind.__init__).parameters
    return tuple(name for name in made if name not in {"self", "args", "kwargs", "errors"})


_decode_problem = msgspec.json.Decoder(Problem).decode


def _problem(answer: HttpResponse) -> Problem:
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


def _tell(error: RankdError, found: ServiceError) -> RankdError:
    """Attach the service's report to an error, for ``service_error`` and as attributes."""
    error.__dict__.update(
        service_error=found, code=found.code, request_id=found.request_id, applied=found.applied
    )
    return error

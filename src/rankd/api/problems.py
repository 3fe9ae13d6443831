"""From the tree of errors to what a client reads: RFC 9457, decided here and nowhere else.

A row gives the status, a title, and sometimes a sentence that stands for the error's own message:
where that message names what a stranger sent. An error without a row takes that of the nearest
class above it, so a new error is answered sensibly before anybody thinks of this table.
"""

from typing import Literal, NamedTuple

import msgspec

from rankd import errors
from rankd.api.exchange import PROBLEM_JSON, Header, Response
from rankd.errors import RankdError

RETRY_AFTER_SECONDS = 1
"""How long to wait before trying an unavailable service again, where nobody knows better."""

INTERNAL = "internal"
"""The code of a mistake of our own. It is in no tree, for no caller can do anything about it."""

Applied = Literal["no", "unknown"]


class Kind(NamedTuple):
    """How a class of errors is answered."""

    status: int
    title: str
    detail: str | None = None
    """What to say instead of the error's own message."""


KINDS: dict[type[RankdError], Kind] = {
    errors.Refused: Kind(409, "Refused", "the request was understood and will not be done"),
    errors.Invalid: Kind(422, "Invalid"),
    errors.InvalidCursor: Kind(422, "Invalid cursor", "start again from the first page"),
    errors.UnknownBoard: Kind(404, "Unknown board", "there is no board of this name"),
    errors.UnknownWindow: Kind(404, "Unknown window", "the board has no such window"),
    errors.NotRanked: Kind(404, "Not ranked", "the player has no entry in this ranking"),
    errors.SubmissionRejected: Kind(422, "Submission rejected"),
    errors.SubmissionKeyReused: Kind(
        422, "Key reused", "this key was used on this board for another submission"
    ),
    errors.BoardDiffers: Kind(409, "Board differs", "the board is defined otherwise"),
    errors.MalformedRequest: Kind(400, "Malformed"),
    errors.NotFound: Kind(404, "Not found"),
    errors.MethodNotAllowed: Kind(405, "Method not allowed"),
    errors.RequestTooLarge: Kind(413, "Too large"),
    errors.HeadTooLarge: Kind(431, "Head too large"),
    errors.UnsupportedMediaType: Kind(415, "Unsupported media type"),
    errors.Unauthenticated: Kind(401, "Unauthenticated"),
    errors.Forbidden: Kind(403, "Forbidden"),
    errors.Misdirected: Kind(421, "Misdirected request"),
    errors.Unavailable: Kind(503, "Unavailable", "this may succeed later"),
    errors.LedgerUnavailable: Kind(503, "Ledger unavailable", "the ledger could not take it now"),
    errors.Overloaded: Kind(503, "Overloaded"),
    errors.IndexBehind: Kind(503, "Index behind"),
    errors.RateLimited: Kind(429, "Rate limited"),
    errors.RequestTimeout: Kind(408, "Request timeout"),
    errors.TooManyConnections: Kind(503, "Too many connections"),
    errors.Stopping: Kind(503, "Stopping"),
    errors.Corrupt: Kind(500, "Corrupt", "a promise does not hold; an operator has to look"),
}


class WrongField(msgspec.Struct):
    """One thing wrong with one field."""

    field: str
    message: str


class Problem(msgspec.Struct, omit_defaults=True):
    """The body of every answer that is not what was asked for."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    request_id: str
    applied: Applied | None = None
    """Whether anything was done, on routes that write."""
    errors: list[WrongField] | None = None


def kind_of(error: RankdError) -> Kind:
    """Return the row of the error's class, or of the nearest one above it that has a row."""
    return next(KINDS[cls] for cls in type(error).__mro__ if cls in KINDS)


def refusal(error: RankdError, *, request_id: str, writes: bool = False) -> Response:
    """Return the answer that tells of an error of ours."""
    kind = kind_of(error)
    code = getattr(error, "code", kind.title.lower())
    problem = Problem(
        type=f"urn:rankd:error:{code}",
        title=kind.title,
        status=kind.status,
        detail=str(error) if kind.detail is None else kind.detail,
        code=code,
        request_id=request_id,
        applied=_applied(error, kind) if writes else None,
        errors=(
            [WrongField(*wrong) for wrong in error.errors]
            if isinstance(error, errors.Invalid)
            else None
        ),
    )
    return _response(problem, _headers(error, kind))


def internal(*, request_id: str, writes: bool = False) -> Response:
    """Return the answer after a mistake of our own. The log explains it; the answer does not."""
    problem = Problem(
        type=f"urn:rankd:error:{INTERNAL}",
        title="Internal error",
        status=500,
        detail="the service made a mistake; its log has the reason under this request_id",
        code=INTERNAL,
        request_id=request_id,
        applied="unknown" if writes else None,
    )
    return _response(problem, ())


def _response(problem: Problem, headers: tuple[Header, ...]) -> Response:
    return Response(
        msgspec.json.encode(problem), problem.status, content_type=PROBLEM_JSON, headers=headers
    )


def _applied(error: RankdError, kind: Kind) -> Applied:
    """Whether a write was done. A refusal says so by itself; damage leaves it open."""
    said: Applied | None = getattr(error, "applied", None)
    return said or ("unknown" if kind.status == 500 else "no")


def _headers(error: RankdError, kind: Kind) -> tuple[Header, ...]:
    if isinstance(error, errors.MethodNotAllowed):
        return ((b"allow", ", ".join(error.allow).encode()),)
    if kind.status == 401:
        return ((b"www-authenticate", b"Bearer"),)
    if kind.status in {429, 503}:
        seconds = getattr(error, "retry_after_seconds", RETRY_AFTER_SECONDS)
        return ((b"retry-after", b"%d" % seconds),)
    return ()

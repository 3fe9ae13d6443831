"""Errors as RFC 9457 problem documents, defined in one table.

A row has the status, a title, and a detail where the error's own message would repeat client input.
An error without a row uses that of its nearest base class, so a new error gets a sensible response
before it has a row.
"""

from typing import Literal, NamedTuple

import msgspec

from rankd import errors
from rankd.api.messages import PROBLEM_JSON, Header, Response
from rankd.errors import FieldError, RankdError
from rankd.schemas import WrongField

RETRY_AFTER_SECONDS = 1
"""The default of Retry-After for an unavailable service."""

INTERNAL = "internal"
"""The code of a bug in this service. It has no error class, because no caller can handle it."""

Applied = Literal["no", "unknown"]


class ProblemKind(NamedTuple):
    """The problem document of an error class."""

    status: int
    title: str
    detail: str | None = None
    """Replaces the error's own message."""


KINDS: dict[type[RankdError], ProblemKind] = {
    errors.Refused: ProblemKind(409, "Refused", "the request was understood and will not be done"),
    errors.Invalid: ProblemKind(422, "Invalid"),
    errors.InvalidBoard: ProblemKind(422, "Invalid board"),
    errors.InvalidSubmission: ProblemKind(422, "Invalid submission"),
    errors.InvalidPage: ProblemKind(422, "Invalid page"),
    errors.InvalidProfile: ProblemKind(422, "Invalid profile"),
    errors.InvalidRequest: ProblemKind(422, "Invalid"),
    errors.ScoreOutOfBounds: ProblemKind(422, "Score out of bounds"),
    errors.InvalidCursor: ProblemKind(422, "Invalid cursor", "start again from the first page"),
    errors.UnknownBoard: ProblemKind(404, "Unknown board", "there is no board of this name"),
    errors.UnknownWindow: ProblemKind(
        404, "Unknown window", "the board has no such window, or keeps it no longer"
    ),
    errors.UnknownPlayer: ProblemKind(
        404, "Unknown player", "there is no profile of this player; it may have scores all the same"
    ),
    errors.UnknownKey: ProblemKind(
        404, "Unknown key", "there is no key of this id, or it was revoked"
    ),
    errors.NotRanked: ProblemKind(404, "Not ranked", "the player has no entry in this ranking"),
    errors.SubmissionRejected: ProblemKind(422, "Submission rejected"),
    errors.SubmissionKeyReused: ProblemKind(
        422, "Key reused", "this key was used on this board for another submission"
    ),
    errors.BoardDiffers: ProblemKind(
        409, "Board differs", "the board was defined otherwise meanwhile; look at it and ask again"
    ),
    errors.DropsScores: ProblemKind(
        409,
        "Drops scores",
        "scores could not be ranked any more, as when a column is new or has another name; "
        "?apply=true&drop_scores=true agrees to that",
    ),
    errors.TooManySegmentValues: ProblemKind(
        409, "Too many segment values", "a segment of the board has as many values as it may"
    ),
    errors.NothingToBackUp: ProblemKind(409, "Nothing to back up"),
    errors.LedgerNotCopied: ProblemKind(409, "Ledger not copied", "the ledger is not whole yet"),
    errors.NoLedger: ProblemKind(409, "No ledger", "there is no ledger where one is needed"),
    errors.LedgerInUse: ProblemKind(409, "Ledger in use", "another process has the ledger open"),
    errors.InvalidSetting: ProblemKind(
        409, "Invalid setting", "a setting has a value it cannot have"
    ),
    errors.MalformedRequest: ProblemKind(400, "Malformed"),
    errors.NotFound: ProblemKind(404, "Not found"),
    errors.MethodNotAllowed: ProblemKind(405, "Method not allowed"),
    errors.RequestTooLarge: ProblemKind(413, "Too large"),
    errors.HeadTooLarge: ProblemKind(431, "Head too large"),
    errors.UnsupportedMediaType: ProblemKind(415, "Unsupported media type"),
    errors.Unauthenticated: ProblemKind(401, "Unauthenticated"),
    errors.Forbidden: ProblemKind(403, "Forbidden"),
    errors.Misdirected: ProblemKind(421, "Misdirected request"),
    errors.Unavailable: ProblemKind(503, "Unavailable", "this may succeed later"),
    errors.LedgerUnavailable: ProblemKind(
        503, "Ledger unavailable", "the ledger could not take it now"
    ),
    errors.Overloaded: ProblemKind(503, "Overloaded"),
    errors.IndexBehind: ProblemKind(503, "Index behind"),
    errors.IndexUnavailable: ProblemKind(
        503, "Index unavailable", "the index could not be asked now"
    ),
    errors.NotKept: ProblemKind(503, "Not kept"),
    errors.IndexForgot: ProblemKind(503, "Index forgot"),
    errors.RateLimited: ProblemKind(429, "Rate limited"),
    errors.RequestTimeout: ProblemKind(408, "Request timeout"),
    errors.TooManyConnections: ProblemKind(503, "Too many connections"),
    errors.Stopping: ProblemKind(503, "Stopping"),
    errors.TokenKeysUnavailable: ProblemKind(503, "Token keys unavailable"),
    **dict.fromkeys(
        (errors.UnknownFact, errors.LedgerTooNew),
        ProblemKind(
            500, "Ledger of a newer version", "this node is older than the ledger: upgrade it"
        ),
    ),
    errors.Corrupt: ProblemKind(500, "Corrupt", "a promise does not hold; an operator has to look"),
    **dict.fromkeys(
        (
            errors.UnreadableFact,
            errors.LedgerCorrupt,
            errors.IndexDiffers,
            errors.SnapshotDamaged,
        ),
        ProblemKind(500, "Corrupt", "a promise does not hold; an operator has to look"),
    ),
}
"""Every error with a code has a row of its own, which a test verifies."""

ABOUT: dict[type[RankdError], FieldError] = {
    errors.InvalidCursor: FieldError("cursor", "must be one of this ranking, just as it came"),
    errors.SubmissionKeyReused: FieldError("key", "must be new for another submission"),
}
"""Errors that always concern the same field."""


class Problem(msgspec.Struct, omit_defaults=True):
    """The body of every error response."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    request_id: str
    applied: Applied | None = None
    """On routes that write: whether anything was applied."""
    errors: list[WrongField] | None = None


def kind_of(error: RankdError) -> ProblemKind:
    """Return the row of the error's class, or of its nearest base class with a row."""
    return next(KINDS[cls] for cls in type(error).__mro__ if cls in KINDS)


def code_of(error: RankdError) -> str:
    """Return the code of an error; a class without one uses the title of its row."""
    return getattr(error, "code", kind_of(error).title.lower())


def detail_of(error: RankdError) -> str:
    """Return the detail for the client: never text that a client sent."""
    said = kind_of(error).detail
    if isinstance(error, errors.UnknownWindow):
        return f"{said}{error.hint()}"
    return str(error) if said is None else said


def reason_of(error: RankdError) -> str | None:
    """Return the reason to log beside the code, for errors whose code is not enough."""
    return error.reason if isinstance(error, errors.Unauthenticated) else None


def wrong_fields(error: RankdError) -> tuple[FieldError, ...]:
    """Return the wrong fields of an error, if it concerns fields."""
    if isinstance(error, errors.Invalid):
        return error.errors
    if isinstance(error, errors.SubmissionRejected):
        return (FieldError("score", f"does not count: {error}"),)
    about = ABOUT.get(type(error))
    return () if about is None else (about,)


def refusal(error: RankdError, *, request_id: str, writes: bool = False) -> Response:
    """Return the response of an error."""
    kind = kind_of(error)
    code = code_of(error)
    problem = Problem(
        type=f"urn:rankd:error:{code}",
        title=kind.title,
        status=kind.status,
        detail=detail_of(error),
        code=code,
        request_id=request_id,
        applied=_applied(error, kind) if writes else None,
        errors=[WrongField(*wrong) for wrong in wrong_fields(error)] or None,
    )
    return _response(problem, _headers(error, kind))


def internal(*, request_id: str, writes: bool = False) -> Response:
    """Return the response after an unexpected exception. Only the log has the reason."""
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


def _applied(error: RankdError, kind: ProblemKind) -> Applied:
    """Return the error's own ``applied``; without one "unknown" for a 500, else "no"."""
    said: Applied | None = getattr(error, "applied", None)
    return said or ("unknown" if kind.status == 500 else "no")


def _headers(error: RankdError, kind: ProblemKind) -> tuple[Header, ...]:
    if isinstance(error, errors.MethodNotAllowed):
        return ((b"allow", ", ".join(error.allow).encode()),)
    if kind.status == 401:
        return ((b"www-authenticate", b"Bearer"),)
    if kind.status in {429, 503}:
        seconds = getattr(error, "retry_after_seconds", RETRY_AFTER_SECONDS)
        return ((b"retry-after", b"%d" % seconds),)
    return ()

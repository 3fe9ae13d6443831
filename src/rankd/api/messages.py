"""The request a handler receives, its JSON body, and the response it returns, errors included.

Plain values, independent of the lane: a handler cannot tell which lane called it. Sockets, parsers
and ASGI stay outside.

Errors become problem documents (RFC 9457), defined in one table. A row has the status, a title, and
a detail where the error's own message would repeat client input. An error without a row uses that
of its nearest base class, so a new error gets a sensible response before it has a row.
"""

import functools
import json
import re
import secrets
from collections.abc import Hashable, Mapping
from decimal import Decimal
from typing import Any, Literal, NamedTuple, TypeVar, cast

import msgspec

from rankd import errors
from rankd.errors import (
    FieldError,
    InvalidRequest,
    MalformedRequest,
    RankdError,
    UnsupportedMediaType,
)
from rankd.model.board import shown_name
from rankd.schemas import WrongField, encode

JSON = b"application/json"
PROBLEM_JSON = b"application/problem+json"
HTML = b"text/html; charset=utf-8"

NO_STORE = b"no-store"
"""The default cache-control: a rank is outdated when it is read."""

Header = tuple[bytes, bytes]


def new_request_id() -> str:
    """Return a unique id: 64 random bits."""
    return secrets.token_hex(8)


class Request(msgspec.Struct, gc=False):
    """One complete request: head parsed, body read, query validated."""

    method: str
    """The method as sent: ``HEAD`` where a route declares ``GET``."""
    path: str
    """Without the query, still percent-encoded."""
    params: Mapping[str, str]
    """The values of the template's parameters, percent-decoded once."""
    query: Mapping[str, Any]
    """Every parameter the route declares, of the type it declares, or its default."""
    headers: Mapping[bytes, bytes]
    """By name in lower case. A header that was repeated is joined with commas."""
    body: bytes = b""
    client: str = ""
    """The address at the other end of the connection; a proxy's, if there is one."""
    _request_id: str = ""
    counted: bool = False
    """Whether rate limits have counted it already."""

    @property
    def request_id(self) -> str:
        """The id of this request in responses and logs, generated at first use."""
        if not self._request_id:
            self._request_id = new_request_id()
        return self._request_id


class Response(msgspec.Struct, frozen=True, gc=False):
    """One response. The lane adds its length, the date and the common headers.

    Frozen, so that a handler may cache and return it again.
    """

    body: bytes = b""
    status: int = 200
    content_type: bytes = JSON
    cache_control: bytes = NO_STORE
    headers: tuple[Header, ...] = ()
    """More headers, names in lower case. Names and values come from the handler, never from a
    client."""
    stream: Any = None
    """The ``Subscription`` whose events follow the head, if it is not one body."""


def squeezed_tag(etag: bytes) -> bytes:
    """Return the ETag of the compressed body. A tag stands for exact bytes: RFC 9110, 8.8.3."""
    return etag[:-1] + b'-gzip"'


def known_tag(request: Request, etag: bytes) -> bytes | None:
    """Return the ETag with which the client has this body cached, plain or compressed; else None.

    ``etag`` is the tag of the uncompressed body in the requested form.
    """
    shown = request.headers.get(b"if-none-match")
    if shown is None:
        return None
    tags = [tag.strip().removeprefix(b"W/") for tag in shown.split(b",")]
    if etag in tags or b"*" in tags:
        return etag
    squeezed = squeezed_tag(etag)
    return squeezed if squeezed in tags else None


# ------------------------------------------------------------------------- JSON bodies
#
# A body that two parsers could read differently is refused. msgspec refuses NaN, Infinity, numbers
# out of range, lone surrogates and trailing bytes. It accepts three things that parsers disagree
# about:
#
# * a key that occurs twice in one object (the last one wins, silently);
# * bytes that are not UTF-8, or numbers out of range, inside a field the type does not have;
# * nesting down to Python's own limit.
#
# So the body is first decoded without a type. Encoding the result again shows in one comparison
# whether a key was lost: a text without backslashes has two quotes for each of its strings, and a
# dropped key takes its quotes along. Both passes are C and cost a third of a microsecond for a
# submission.
#
# Numbers with a point become Decimals with their exact digits, except where a type asks for floats:
# a double keeps fifteen digits, and a score has up to nineteen.


DEPTH_MAX = 32
"""The deepest nesting of arrays and objects: more than any type here needs, metadata included."""

T = TypeVar("T")

_JSON_TYPE = re.compile(
    rb'application/(?:json|[\w.-]+\+json)[ \t]*(?:;[ \t]*charset="?utf-8"?[ \t]*)?', re.IGNORECASE
)
_WHERE = re.compile(r".*( - at `(?:key in )?\$?\.?(.*?)`)", re.DOTALL)
"""Matches the last path in the message: a quoted field name before it may look like one."""
_MISSING = re.compile(r"Object missing required field `(\w+)`")
_OTHERWISE = re.compile(r"Expected `([^`]*)`, got `([^`]*)`")

_WORDS = {
    "array": "a list",
    "bool": "true or false",
    "decimal": "a number",
    "float": "a number with a point",
    "int": "a whole number",
    "object": "an object",
    "str": "text",
}
"""JSON words for the Python type names in msgspec's messages."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def decode_body(request: Request, kind: type[T]) -> T:
    """Return the body as a value of this type.

    Raises UnsupportedMediaType, MalformedRequest (400: not JSON, or not strict) or InvalidRequest
    (422: JSON with fields this type does not accept).
    """
    if request.headers.get(b"content-encoding", b"").lower() not in {b"", b"identity"}:
        raise UnsupportedMediaType("application/json", encoded=True)
    content_type = request.headers.get(b"content-type", b"")
    if content_type != b"application/json" and not _JSON_TYPE.fullmatch(content_type):
        raise UnsupportedMediaType("application/json")
    return decode_json(request.body, kind)


def decode_json(text: bytes, kind: type[T]) -> T:
    """Return a JSON text as a value of this type. Raises as ``decode_body`` does."""
    _check_json(text)
    try:
        value: T = _decoder(cast("Hashable", kind)).decode(text)
    except msgspec.ValidationError as exc:
        raise InvalidRequest(_unknown_fields(text, kind) or [_wrong_field(str(exc))]) from None
    return value


@functools.lru_cache(maxsize=256)
def _decoder(kind: Hashable) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(cast("Any", kind), float_hook=Decimal)


def _check_json(text: bytes) -> None:
    """Raise MalformedRequest unless all JSON parsers decode this text to the same value."""
    try:
        value = _decode(text)
        if text.count(b"{") + text.count(b"[") > DEPTH_MAX:
            _check_depth(value)
        if b"\\" in text:
            json.loads(text, object_pairs_hook=_check_keys)
        elif text.count(b'"') != _encode(value).count(b'"'):
            raise MalformedRequest("the body has an object with the same key twice")
    except RecursionError:
        raise MalformedRequest(_TOO_DEEP) from None
    except (OverflowError, msgspec.ValidationError):  # Without a type, only that is invalid.
        raise MalformedRequest("the body has a number that is too large") from None
    except (ValueError, msgspec.MsgspecError):
        raise MalformedRequest(_unread(text)) from None


_TOO_DEEP = f"the body nests deeper than {DEPTH_MAX}"


def _unread(text: bytes) -> str:
    """Return the reason why a body cannot be decoded, as specific as it is known."""
    if text.startswith(_BYTE_ORDER_MARK):
        return "the body begins with a byte order mark: leave it out"
    try:
        decoded = text.decode()
    except UnicodeDecodeError:
        return "the body is not UTF-8"
    if b"\\ud" in text.lower() and _is_otherwise_json(decoded):
        return "the body has half of a surrogate pair, which is no character"
    return "the body is not JSON"


def _is_otherwise_json(text: str) -> bool:
    """Whether Python's json decodes it, which accepts lone surrogates."""
    try:
        json.loads(text, parse_int=str, parse_float=str, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def _check_keys(pairs: list[tuple[str, Any]]) -> None:
    """Raise MalformedRequest for a repeated key. Returns None: only the keys matter."""
    if len({key for key, _ in pairs}) != len(pairs):
        raise MalformedRequest("the body has an object with the same key twice")


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(DEPTH_MAX):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if type(outer) is dict else outer)
            if type(inner) is dict or type(inner) is list
        ]
        if not level:
            return
    raise MalformedRequest(_TOO_DEEP)


def _unknown_fields(text: bytes, kind: object) -> list[FieldError]:
    """Return errors for unknown and missing fields; an empty list if no field is unknown."""
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return []
    names = kind.__struct_encode_fields__
    given = _decode(text)
    if not kind.__struct_config__.forbid_unknown_fields or not isinstance(given, dict):
        return []
    message = f"is unknown; known are {', '.join(names)}"
    unknown = [FieldError(shown_name(name), message) for name in given if name not in names]
    required = names[: len(names) - len(kind.__struct_defaults__)]
    missing = [FieldError(name, "is required") for name in required if name not in given]
    return [*unknown, *missing] if unknown else []


def _wrong_field(message: str) -> FieldError:
    """Translate msgspec's message into a FieldError, without text quoted from the body."""
    where = _WHERE.fullmatch(message)
    path, said = (where[2], message[: where.start(1)]) if where else ("", message)
    if missing := _MISSING.fullmatch(said):
        return FieldError(f"{path}.{missing[1]}".lstrip("."), "is required")
    if otherwise := _OTHERWISE.fullmatch(said):
        return FieldError(path, f"must be {_in_words(otherwise[1])}, not {_in_words(otherwise[2])}")
    if said.startswith("Object contains unknown field"):
        return FieldError(path, "has a field that is not known here")
    return FieldError(path, "has a value it cannot have")


def _in_words(kinds: str) -> str:
    return " or ".join(_WORDS.get(kind, kind) for kind in kinds.split(" | "))


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
    errors.TooOld: ProblemKind(410, "Too old", "nothing is known so far back"),
    errors.NotRanked: ProblemKind(404, "Not ranked", "the player has no entry in this ranking"),
    errors.PlayerBanned: ProblemKind(
        403, "Player banned", "the player is banned here: nothing was recorded"
    ),
    errors.UnknownSubmission: ProblemKind(
        404, "Unknown submission", "there is no submission of this position or key here"
    ),
    errors.UnknownRetraction: ProblemKind(
        404, "Unknown retraction", "there is no retraction at this position here"
    ),
    errors.UnknownWebhook: ProblemKind(404, "Unknown webhook", "there is no webhook of this name"),
    errors.UnknownReview: ProblemKind(404, "Unknown review", "there is no review of this id"),
    errors.UnknownOperation: ProblemKind(
        404,
        "Unknown operation",
        "this node knows no operation of this id: it took none, or was restarted since",
    ),
    errors.SubmissionRejected: ProblemKind(422, "Submission rejected"),
    errors.RuleBroken: ProblemKind(422, "Rule broken"),
    errors.RunInvalid: ProblemKind(422, "Run invalid"),
    errors.RunRequired: ProblemKind(422, "Run required"),
    errors.RunTooEarly: ProblemKind(422, "Run too early"),
    errors.RunExpired: ProblemKind(422, "Run expired"),
    errors.RunUsed: ProblemKind(409, "Run used"),
    errors.FrozenWindow: ProblemKind(
        409,
        "Window frozen",
        "the windows that the score could count in are frozen; it is recorded and counts nowhere",
    ),
    errors.WrongWindowState: ProblemKind(
        409,
        "Window in another state",
        "the window has not begun, or is over: this step does not lead from its state",
    ),
    errors.AttemptsExhausted: ProblemKind(422, "Attempts exhausted"),
    errors.UnknownReward: ProblemKind(
        404, "Unknown reward", "the window gave no reward with this id"
    ),
    errors.RewardWithdrawn: ProblemKind(
        409, "Reward withdrawn", "another edition of the window was settled that does not give it"
    ),
    errors.TooManyRewards: ProblemKind(
        409, "Too many rewards", "the bands of the window give more rewards than one settlement can"
    ),
    errors.NotSettled: ProblemKind(
        404, "Not settled", "the standings of this window are not final: there is no certificate"
    ),
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
    errors.TooManyLivingScores: ProblemKind(
        409, "Too many living scores", "as many scores with a term are alive as may be at once"
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
    errors.UpgradeRequired: ProblemKind(426, "Upgrade required"),
    errors.Unauthenticated: ProblemKind(401, "Unauthenticated"),
    errors.BadSignature: ProblemKind(401, "Bad signature"),
    errors.Forbidden: ProblemKind(403, "Forbidden"),
    errors.Misdirected: ProblemKind(421, "Misdirected request"),
    errors.ArchiveOfAnotherLedger: ProblemKind(
        409, "Archive of another ledger", "the archive was made of another ledger"
    ),
    errors.Unavailable: ProblemKind(503, "Unavailable", "this may succeed later"),
    errors.ArchiveUnavailable: ProblemKind(
        503, "Archive unavailable", "the archive cannot be used now"
    ),
    errors.LedgerUnavailable: ProblemKind(
        503, "Ledger unavailable", "the ledger could not take it now"
    ),
    errors.Overloaded: ProblemKind(503, "Overloaded"),
    errors.IndexBehind: ProblemKind(503, "Index behind"),
    errors.PastOutOfReach: ProblemKind(
        503,
        "Past out of reach",
        "these standings take more work than a request may ask for; the command "
        "`rankd top BOARD --as-of POSITION --data DIR` takes as long as it needs",
    ),
    errors.IndexUnavailable: ProblemKind(
        503, "Index unavailable", "the index could not be asked now"
    ),
    errors.WindowArchiveDamaged: ProblemKind(
        503,
        "Window archive damaged",
        "the archive of this window cannot be read; it is made anew from the ledger",
    ),
    errors.NotKept: ProblemKind(503, "Not kept"),
    errors.IndexForgot: ProblemKind(503, "Index forgot"),
    errors.RateLimited: ProblemKind(429, "Rate limited"),
    errors.RequestTimeout: ProblemKind(408, "Request timeout"),
    errors.TooManyConnections: ProblemKind(503, "Too many connections"),
    errors.TooManyStreams: ProblemKind(503, "Too many streams"),
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
            errors.CertificateDiffers,
            errors.SnapshotDamaged,
            errors.ArchiveDamaged,
        ),
        ProblemKind(500, "Corrupt", "a promise does not hold; an operator has to look"),
    ),
}
"""Every error with a code has a row of its own, which a test verifies."""

ABOUT: dict[type[RankdError], FieldError] = {
    errors.InvalidCursor: FieldError("cursor", "must be one of this ranking, just as it came"),
    errors.SubmissionKeyReused: FieldError("key", "must be new for another submission"),
    errors.RunRequired: FieldError("run", "is required on this board"),
    errors.RunInvalid: FieldError("run", "must be of this board and player"),
    errors.RunTooEarly: FieldError("run", "must have lasted until its not_before"),
    errors.RunExpired: FieldError("run", "must not be over"),
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


def wrong_fields(error: RankdError) -> list[WrongField]:
    """Return the wrong fields of an error, if it concerns fields."""
    if isinstance(error, errors.Invalid):
        return [WrongField(*each) for each in error.errors]
    if isinstance(error, errors.RuleBroken):
        return [
            WrongField("score", message, rule, observed, limit)
            for rule, observed, limit, message in error.reasons
        ]
    if isinstance(error, errors.SubmissionRejected):
        return [WrongField("score", f"does not count: {error}")]
    about = ABOUT.get(type(error))
    return [] if about is None else [WrongField(*about)]


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
        errors=wrong_fields(error) or None,
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
    return Response(encode(problem), problem.status, content_type=PROBLEM_JSON, headers=headers)


def _applied(error: RankdError, kind: ProblemKind) -> Applied:
    """Return the error's own ``applied``; without one "unknown" for a 500, else "no"."""
    said: Applied | None = getattr(error, "applied", None)
    return said or ("unknown" if kind.status == 500 else "no")


def _headers(error: RankdError, kind: ProblemKind) -> tuple[Header, ...]:
    if isinstance(error, errors.MethodNotAllowed):
        return ((b"allow", ", ".join(error.allow).encode()),)
    if kind.status == 401:
        return ((b"www-authenticate", b"Bearer"),)
    if kind.status == 426:
        return ((b"upgrade", b"websocket"),)
    if kind.status in {429, 503}:
        seconds = getattr(error, "retry_after_seconds", RETRY_AFTER_SECONDS)
        return ((b"retry-after", b"%d" % seconds),)
    return ()

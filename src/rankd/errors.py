"""Every error of this package, by the reaction it calls for.

RankdError
├── Refused        understood, and will not be done: do not retry         (4xx)
│   ├── Invalid    one or more fields are wrong, and each is named        (422)
│   │   ├── InvalidBoard
│   │   ├── InvalidSubmission
│   │   ├── InvalidPage
│   │   ├── InvalidProfile
│   │   ├── InvalidRequest
│   │   └── ScoreOutOfBounds
│   ├── InvalidCursor
│   ├── UnknownBoard
│   ├── UnknownWindow
│   ├── NotRanked
│   ├── TooOld
│   ├── PlayerBanned
│   ├── RunInvalid
│   ├── RunRequired
│   ├── RunTooEarly
│   ├── RunExpired
│   ├── RunUsed
│   ├── UnknownSubmission
│   ├── UnknownRetraction
│   ├── UnknownReview
│   ├── UnknownWebhook
│   ├── UnknownOperation
│   ├── SubmissionRejected
│   │   ├── RuleBroken
│   │   └── AttemptsExhausted
│   ├── SubmissionKeyReused
│   ├── FrozenWindow
│   ├── WrongWindowState
│   ├── NotSettled
│   ├── UnknownReward
│   ├── RewardWithdrawn
│   ├── TooManyRewards
│   ├── BoardDiffers
│   ├── DropsScores
│   ├── TooManySegmentValues
│   ├── TooManyLivingScores
│   ├── MalformedRequest
│   ├── NotFound
│   ├── MethodNotAllowed
│   ├── RequestTooLarge
│   ├── HeadTooLarge
│   ├── UnsupportedMediaType
│   ├── UpgradeRequired
│   ├── Unauthenticated
│   │   └── BadSignature
│   ├── Forbidden
│   ├── Misdirected
│   ├── InvalidSetting
│   ├── UnknownKey
│   ├── UnknownPlayer
│   ├── NothingToBackUp
│   ├── ArchiveOfAnotherLedger
│   ├── LedgerNotCopied
│   ├── NoLedger
│   └── LedgerInUse
├── Unavailable    may succeed later: retry with back-off, same key       (503)
│   ├── LedgerUnavailable
│   ├── Overloaded
│   ├── RateLimited
│   ├── RequestTimeout
│   ├── TooManyConnections
│   ├── TooManyStreams
│   ├── Stopping
│   ├── TokenKeysUnavailable
│   ├── IndexBehind
│   ├── PastOutOfReach
│   ├── IndexUnavailable
│   │   └── NotKept
│   ├── ArchiveUnavailable
│   ├── WindowArchiveDamaged
│   └── IndexForgot
└── Corrupt        a promise does not hold: stop and tell a human         (500)
    ├── UnknownFact
    ├── UnreadableFact
    ├── LedgerCorrupt
    │   └── LedgerTooNew
    ├── IndexDiffers
    ├── CertificateDiffers
    ├── ArchiveDamaged
    └── SnapshotDamaged

Bugs are not in this tree: they are assertions, and are never caught.

A ``code`` is for programs and never changes; a message is for people and may. Neither repeats raw
input, which could be megabytes, or markup.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import ClassVar, Literal, NamedTuple


def count(number: float, noun: str) -> str:
    """Return a number with its noun, for messages: ``1 fact``, ``2,000 facts``."""
    shown = f"{number:,}" if isinstance(number, int) else f"{number:g}"
    return f"{shown} {noun}" if number == 1 else f"{shown} {noun}s"


FIELD_ERRORS_MAX = 100
"""Enough for every field of an honest request, and a bound on the response to a hostile one."""


class FieldError(NamedTuple):
    """One error in one field."""

    field: str
    """Its path in the request: ``limits.score_min``, ``columns[1].name``; empty for the whole."""
    message: str
    """The accepted values, as a sentence that follows the field's name."""


class RankdError(Exception):
    """The base of every error of this package."""

    code: ClassVar[str]
    _taken: ClassVar[dict[str, type["RankdError"]]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if (code := cls.__dict__.get("code")) is not None:
            assert code not in RankdError._taken, f"error code {code!r} is taken"
            RankdError._taken[code] = cls


# ----------------------------------------------------------------------------- refused


class Refused(RankdError):
    """The request was understood and will not be done."""


class Invalid(Refused):
    """One or more fields are wrong. All are named, so that one correction is enough."""

    def __init__(self, errors: list[FieldError] | tuple[FieldError, ...]) -> None:
        assert errors, "an invalid request has at least one wrong field"
        self.errors = tuple(errors[:FIELD_ERRORS_MAX])
        super().__init__("; ".join(f"{field} {message}".lstrip() for field, message in self.errors))


class InvalidBoard(Invalid):
    """The definition of a board is invalid or inconsistent."""

    code = "invalid_board"


class InvalidSubmission(Invalid):
    """A submission is malformed for the board it was made to."""

    code = "invalid_submission"


class InvalidPage(Invalid):
    """The bounds of a page or a neighbourhood are invalid."""

    code = "invalid_page"


class InvalidProfile(Invalid):
    """A player's id, or a field of its profile, cannot be stored."""

    code = "invalid_profile"


class InvalidRequest(Invalid):
    """A query parameter or a field of the body has a value that is not accepted."""

    code = "invalid"


class ScoreOutOfBounds(Invalid):
    """The submitted score lies outside the bounds its board declares."""

    code = "score_out_of_bounds"

    def __init__(self, *, board: str, low: int | Decimal, high: int | Decimal) -> None:
        super().__init__(
            [FieldError("score", f"must lie between {Decimal(low):f} and {Decimal(high):f}")]
        )
        self.board, self.low, self.high = board, low, high


class InvalidCursor(Refused):
    """A cursor is damaged, of another ranking, or was not issued by rankd."""

    code = "invalid_cursor"

    def __init__(self, problem: str) -> None:
        super().__init__(f"the cursor {problem}; start again from the first page")
        self.problem = problem


class UnknownBoard(Refused):
    """No board of this name is defined."""

    code = "unknown_board"

    def __init__(self, board: str) -> None:
        super().__init__(f"there is no board {board!r}")
        self.board = board


class UnknownWindow(Refused):
    """A board has no such window, or no longer stores it."""

    code = "unknown_window"

    def __init__(
        self,
        *,
        board: str,
        window: str,
        known: tuple[str, ...] = (),
        opens_at: Mapping[str, str] | None = None,
    ) -> None:
        self.board, self.window, self.known = board, window, known
        self.opens_at = opens_at or {}
        """The start of the next window, by the name of each recurrence without an open one."""
        super().__init__(f"board {board!r} has no window {window[:64]!r} now{self.hint()}")

    def hint(self) -> str:
        """Return the windows that exist, with the start of those that are not open."""
        opens_at = self.opens_at
        names = [
            f"{name} (opens at {opens_at[name]})" if name in opens_at else name
            for name in self.known
        ]
        return f"; its windows are {', '.join(names)}" if names else ""


class NotRanked(Refused):
    """The player has no entry in this ranking, which is not the same as the last rank."""

    code = "not_ranked"

    def __init__(self, *, board: str, window: str, player: str) -> None:
        super().__init__(f"player {player!r} is not ranked in {board!r}, window {window!r}")
        self.board, self.window, self.player = board, window, player


class TooOld(Refused):
    """Standings were requested as of a position before the board was defined."""

    code = "too_old"

    def __init__(self, *, board: str, position: int) -> None:
        super().__init__(f"nothing is known of the board {board} as far back as {position}")
        self.board = board
        self.position = position


class PlayerBanned(Refused):
    """The player is banned from the board; its submissions count nowhere."""

    code = "player_banned"

    def __init__(self, *, board: str, player: str) -> None:
        super().__init__(f"player {player!r} is banned from board {board!r}")
        self.board, self.player = board, player


class RunInvalid(Refused):
    """The run is of another board or player, or this service did not start it."""

    code = "run_invalid"

    def __init__(self) -> None:
        super().__init__("the run is not one of this board and player, or its key was revoked")


class RunRequired(Refused):
    """The board takes scores with a run only."""

    code = "run_required"

    def __init__(self) -> None:
        super().__init__("this board takes scores with a run only; start one before the game")


class RunTooEarly(Refused):
    """The run has not lasted as long as a game takes on this board. It can still be used later."""

    code = "run_too_early"

    def __init__(self) -> None:
        super().__init__("the run began too short a time ago; see its not_before")


class RunExpired(Refused):
    """The time of the run is over."""

    code = "run_expired"

    def __init__(self) -> None:
        super().__init__("the time of this run is over; see its expires_at")


class RunUsed(Refused):
    """A submission has used the run before: it counts once."""

    code = "run_used"

    def __init__(self) -> None:
        super().__init__("this run was used before, and counts once")


class UnknownSubmission(Refused):
    """No submission has this position or key, or it is not one to this board."""

    code = "unknown_submission"

    def __init__(self, *, board: str | None, named: str) -> None:
        where = "" if board is None else f" to board {board!r}"
        super().__init__(f"there is no submission{where} with {named[:160]}")
        self.board, self.named = board, named


class UnknownRetraction(Refused):
    """No retraction has this position on this board."""

    code = "unknown_retraction"

    def __init__(self, *, board: str | None, position: int) -> None:
        where = "" if board is None else f" on board {board!r}"
        super().__init__(f"there is no retraction at position {position}{where}")
        self.board, self.position = board, position


class UnknownReview(Refused):
    """No submission with this id was held or flagged."""

    code = "unknown_review"

    def __init__(self, id: str) -> None:
        super().__init__(f"there is no review {id[:64]!r}")
        self.id = id


class UnknownWebhook(Refused):
    """There is no webhook of this name."""

    code = "unknown_webhook"

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no webhook {name[:64]!r}")
        self.name = name


class UnknownOperation(Refused):
    """No operation of this id is remembered by this node."""

    code = "unknown_operation"

    def __init__(self, id: str) -> None:
        super().__init__(f"there is no operation {id[:64]!r} here")
        self.id = id


class SubmissionRejected(Refused):
    """The submission is recorded and counts nowhere: it broke a rule when it was judged."""

    code = "submission_rejected"

    def __init__(self, *, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        """The rule, for programs: ``score_overflow``, ``score_out_of_bounds``."""


class BrokenRule(NamedTuple):
    """A rule that a submission broke, in scores, submissions or seconds."""

    rule: str
    observed: int | Decimal
    limit: int | Decimal
    message: str


class RuleBroken(SubmissionRejected):
    """The submission is recorded and never counts: it broke a rule against cheating."""

    code = "rule_broken"

    def __init__(self, *, reasons: tuple[BrokenRule, ...]) -> None:
        broken = "; ".join(reason.message for reason in reasons)
        super().__init__(reason=self.code, message=f"the submission breaks a rule: {broken}")
        self.reasons = reasons


class FrozenWindow(Refused):
    """The only windows that the submission could count in were frozen: it counts nowhere."""

    code = "window_frozen"

    def __init__(self, *, board: str, windows: tuple[str, ...]) -> None:
        super().__init__(f"board {board!r} takes no scores: {', '.join(windows)} is frozen")
        self.board, self.windows = board, windows


class WrongWindowState(Refused):
    """A window is in a state from which this step does not lead."""

    code = "window_state"

    def __init__(self, *, window: str, state: str, step: str) -> None:
        super().__init__(f"window {window!r} is {state}: there is nothing to {step}")
        self.window, self.state, self.step = window, state, step


class AttemptsExhausted(SubmissionRejected):
    """The player has made all attempts that the windows of the board take."""

    code = "attempts_exhausted"


class NotSettled(Refused):
    """The standings of the window are not final, so there is no certificate of them."""

    code = "not_settled"

    def __init__(self, *, board: str, window: str, state: str) -> None:
        super().__init__(f"window {window!r} of board {board!r} is {state}, and not settled")
        self.board, self.window, self.state = board, window, state


class UnknownReward(Refused):
    """No reward of this window has this id."""

    code = "unknown_reward"

    def __init__(self, *, board: str, window: str, id: str) -> None:
        super().__init__(f"there is no reward {id[:64]!r} of this window of board {board!r}")
        self.board, self.window, self.id = board, window, id


class RewardWithdrawn(Refused):
    """The reward is void: another edition of the window was settled that does not give it."""

    code = "reward_withdrawn"

    def __init__(self, id: str) -> None:
        super().__init__(f"reward {id!r} was withdrawn")
        self.id = id


class TooManyRewards(Refused):
    """A settlement would give more rewards than one append can record."""

    code = "too_many_rewards"

    def __init__(self, *, window: str, rewards_max: int) -> None:
        super().__init__(f"the bands of window {window!r} give more than {rewards_max:,} rewards")
        self.window, self.rewards_max = window, rewards_max


class SubmissionKeyReused(Refused):
    """The submission key was used before, for another submission."""

    code = "key_reused"

    def __init__(self, *, board: str, key: str) -> None:
        super().__init__(f"key {key!r} was used on board {board!r} for another submission")
        self.board, self.key = board, key


class BoardDiffers(Refused):
    """The board exists with another definition; a change must be requested explicitly."""

    code = "board_differs"

    def __init__(self, *, board: str, fields: tuple[str, ...]) -> None:
        super().__init__(f"board {board!r} is defined otherwise: {', '.join(fields)}")
        self.board, self.fields = board, fields


class DropsScores(Refused):
    """Scores could not be ranked under a new definition, and ``drop_scores`` was not given."""

    code = "drops_scores"

    def __init__(
        self, *, board: str, windows: tuple[str, ...], columns: tuple[str, ...] = ()
    ) -> None:
        reason = f": they have no column {', '.join(columns)}" if columns else ""
        super().__init__(
            f"scores of board {board!r} could not be ranked any more in {', '.join(windows)}"
            f"{reason}; it is changed only with drop_scores"
        )
        self.board, self.windows, self.columns = board, windows, columns


class TooManySegmentValues(Refused):
    """A segment of a board would exceed its number of values, each of which has a ranking."""

    code = "too_many_segment_values"

    def __init__(self, *, board: str, segment: str, values_max: int) -> None:
        super().__init__(
            f"segment {segment!r} of board {board!r} has {values_max:,} values already, "
            "as many as it may: use an attribute with fewer values, or raise segment_values_max"
        )
        self.board, self.segment, self.values_max = board, segment, values_max
        self.places: tuple[int, ...] = ()
        """The indexes of the submissions in a batch that bring a value too many."""


class TooManyLivingScores(Refused):
    """As many scores with a term are alive as may be at once."""

    code = "too_many_living_scores"

    def __init__(self, *, scores_max: int) -> None:
        super().__init__(f"{scores_max:,} scores with a term are alive, as many as may be at once")
        self.scores_max = scores_max


class UnknownKey(Refused):
    """There is no key with this id, or it was revoked."""

    code = "unknown_key"

    def __init__(self, id: str) -> None:
        super().__init__(f"there is no key {id[:64]!r}")
        self.id = id


class UnknownPlayer(Refused):
    """The player has no profile. It may have scores."""

    code = "unknown_player"

    def __init__(self, player: str) -> None:
        super().__init__(f"there is no profile of {player!r}")
        self.player = player


class NothingToBackUp(Refused):
    """The ledger is not in a folder, so it cannot be backed up by copying."""

    code = "nothing_to_back_up"

    def __init__(self) -> None:
        super().__init__(
            "only a ledger in a folder is copied; one in PostgreSQL is backed up with pg_dump"
        )


class LedgerNotCopied(Refused):
    """A ledger lacks facts of another one that it must contain, or its copy is incomplete."""

    code = "ledger_not_copied"

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class NoLedger(Refused):
    """A folder or database holds no ledger where one is needed, or other content instead."""

    code = "no_ledger"

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class LedgerInUse(Refused):
    """Another process has this folder open."""

    code = "ledger_in_use"

    def __init__(self, folder: str) -> None:
        super().__init__(f"{folder} is open already, here or in another process; one may write")
        self.folder = folder


class MalformedRequest(Refused):
    """The request cannot be parsed: it is not HTTP, not JSON, or not UTF-8."""

    code = "malformed"

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class NotFound(Refused):
    """There is no resource at this path."""

    code = "not_found"

    def __init__(self) -> None:
        super().__init__("nothing lives at this path")


class MethodNotAllowed(Refused):
    """The path exists and accepts other methods."""

    code = "method_not_allowed"

    def __init__(self, allow: tuple[str, ...], *, instead: str | None = None) -> None:
        hint = "" if instead is None else f"; to make one, {instead}"
        super().__init__(f"this path takes {', '.join(allow)}{hint}")
        self.allow, self.instead = allow, instead


class RequestTooLarge(Refused):
    """The body is larger than the limit."""

    code = "too_large"

    def __init__(self, bytes_max: int) -> None:
        super().__init__(f"a body may have at most {bytes_max} bytes")
        self.bytes_max = bytes_max


class HeadTooLarge(Refused):
    """The target and the headers of a request are larger, or more, than the limit."""

    code = "head_too_large"

    def __init__(self, *, bytes_max: int, headers_max: int) -> None:
        super().__init__(
            f"target and headers may have at most {bytes_max} bytes in {headers_max} headers"
        )
        self.bytes_max, self.headers_max = bytes_max, headers_max


class UnsupportedMediaType(Refused):
    """The body has another media type than is accepted, or is compressed."""

    code = "unsupported_media_type"

    def __init__(self, expected: str, *, encoded: bool = False) -> None:
        wanted = f"send the body with Content-Type: {expected}"
        plain = "compressed bodies are not taken: send it as it is, without Content-Encoding"
        super().__init__(plain if encoded else wanted)
        self.expected, self.encoded = expected, encoded


class UpgradeRequired(Refused):
    """The route speaks WebSocket only."""

    code = "upgrade_required"

    def __init__(self) -> None:
        super().__init__("this route speaks WebSocket: GET with Upgrade: websocket")


class Unauthenticated(Refused):
    """The request needs a key or a token, and has none that is valid."""

    code = "unauthenticated"

    def __init__(
        self,
        problem: str = "send a known key as Authorization: Bearer",
        *,
        reason: str | None = None,
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.reason = reason or problem
        """The reason for the log. The client gets less detail, which would help to forge tokens."""


class BadSignature(Unauthenticated):
    """The request has a Rankd-Signature that is malformed, too old, of an unknown key, or wrong."""

    code = "bad_signature"


class Forbidden(Refused):
    """The key or token is valid, and does not permit this request."""

    code = "forbidden"

    def __init__(self, problem: str = "the key does not have the scope this needs") -> None:
        super().__init__(problem)
        self.problem = problem


class Misdirected(Refused):
    """This node's role does not include such requests; another node answers them."""

    code = "misdirected"

    def __init__(self, role: str) -> None:
        super().__init__(f"a node with the role {role} does not answer this; ask another")
        self.role = role


class InvalidSetting(Refused):
    """A setting is unknown, or has a value it cannot have."""

    code = "invalid_setting"

    def __init__(self, *, setting: str, source: str, problem: str) -> None:
        super().__init__(f"{source}: {setting} {problem}")
        self.setting, self.source, self.problem = setting, source, problem


# ------------------------------------------------------------------------- unavailable


class ArchiveOfAnotherLedger(Refused):
    """An archive has facts of another ledger than the one that is to be added to it."""

    code = "archive_of_another_ledger"

    def __init__(self, archive: str, position: int) -> None:
        super().__init__(f"{archive} was made of another ledger: they differ at {position}")
        self.archive, self.position = archive, position


class Unavailable(RankdError):
    """The request may succeed later: retry with back-off and the same submission key."""


class LedgerUnavailable(Unavailable):
    """The ledger failed to append. ``applied`` is ``no`` only if no fact can be in it."""

    code = "ledger_unavailable"

    def __init__(self, problem: str, *, applied: Literal["no", "unknown"]) -> None:
        super().__init__(problem)
        self.problem, self.applied = problem, applied


class ArchiveUnavailable(Unavailable):
    """The folder or the bucket of an archive cannot be read or written."""

    code = "archive_unavailable"

    def __init__(self, archive: str, problem: str) -> None:
        super().__init__(f"{archive} cannot be used: {problem}")
        self.archive, self.problem = archive, problem


class Overloaded(Unavailable):
    """The queue of writes is full. Nothing was done."""

    code = "overloaded"

    def __init__(self, *, waiting_max: int) -> None:
        super().__init__(f"{waiting_max} submissions are waiting already")
        self.waiting_max = waiting_max


class IndexBehind(Unavailable):
    """The index has not reached the requested position."""

    code = "index_behind"

    def __init__(self, *, position: int, checkpoint: int) -> None:
        super().__init__(f"the index is at {checkpoint}, not yet at {position}")
        self.position, self.checkpoint = position, checkpoint


class PastOutOfReach(Unavailable):
    """Past standings were requested that take more work or memory than a request may have."""

    code = "past_out_of_reach"

    def __init__(self, *, board: str, position: int, problem: str) -> None:
        command = f"rankd top {board} --as-of {position} --data DIR"
        super().__init__(
            f"the standings of {board} at {position} are more than a request may ask for: "
            f"{problem}; the command `{command}` takes as long as it needs"
        )
        self.board = board
        self.position = position


class IndexUnavailable(Unavailable):
    """A shared index could not be reached. The outcome of the call is unknown.

    An apply is safe to repeat: it takes effect once.
    """

    code = "index_unavailable"

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class WindowArchiveDamaged(Unavailable):
    """An archive file of a sealed window is damaged or missing. It is rebuilt from the ledger."""

    code = "window_archive_damaged"

    def __init__(self, problem: str) -> None:
        super().__init__(f"an archive file of a sealed window cannot be read: {problem}")
        self.problem = problem


class NotKept(IndexUnavailable):
    """The index could not be reached, and the stored fallback does not cover the request."""

    code = "not_kept"


class IndexForgot(Unavailable):
    """A shared index was read at a position that it does not remember."""

    code = "index_forgot"

    def __init__(self, *, position: int, checkpoint: int) -> None:
        super().__init__(
            f"the index is at {checkpoint} and does not know how entries were at {position}"
        )
        self.position, self.checkpoint = position, checkpoint


class RateLimited(Unavailable):
    """The client has exceeded its rate. Nothing was done."""

    code = "rate_limited"

    def __init__(self, *, retry_after_seconds: int) -> None:
        super().__init__(f"try again in {count(retry_after_seconds, 'second')}")
        self.retry_after_seconds = retry_after_seconds


class RequestTimeout(Unavailable):
    """A request did not arrive completely in time. Nothing was done."""

    code = "request_timeout"

    def __init__(self, *, seconds_max: float) -> None:
        super().__init__(f"a request has to arrive within {count(seconds_max, 'second')}")
        self.seconds_max = seconds_max


class TooManyConnections(Unavailable):
    """The maximum number of connections is open."""

    code = "too_many_connections"

    def __init__(self, *, connections_max: int) -> None:
        super().__init__(f"{connections_max} connections are open already")
        self.connections_max = connections_max


class TooManyStreams(Unavailable):
    """The maximum number of subscriptions is open, of this process or of one connection."""

    code = "too_many_streams"

    def __init__(self, *, streams_max: int) -> None:
        super().__init__(f"{count(streams_max, 'stream')} are open already")
        self.streams_max = streams_max


class Stopping(Unavailable):
    """The service is stopping and accepts no new requests."""

    code = "stopping"

    def __init__(self, *, applied: Literal["no", "unknown"] = "no") -> None:
        super().__init__("the service is stopping")
        self.applied = applied


class TokenKeysUnavailable(Unavailable):
    """The keys that verify players' tokens have not been fetched yet. Nothing was done."""

    code = "token_keys_unavailable"

    def __init__(self) -> None:
        super().__init__("the keys to check tokens with have not been fetched yet")


# ----------------------------------------------------------------------------- corrupt


class Corrupt(RankdError):
    """A guarantee is broken. Stop, and alert an operator."""


class UnknownFact(Corrupt):
    """The ledger holds a kind of fact that this version of rankd cannot read."""

    code = "unknown_fact"

    def __init__(self, kind: str) -> None:
        super().__init__(f"unknown kind of fact {kind!r}: was the ledger written by a newer rankd?")
        self.kind = kind


class UnreadableFact(Corrupt):
    """The bytes of a fact do not match the schema of its kind."""

    code = "unreadable_fact"

    def __init__(self, kind: str, problem: str) -> None:
        super().__init__(f"a fact of kind {kind!r} cannot be read: {problem}")
        self.kind, self.problem = kind, problem


class LedgerCorrupt(Corrupt):
    """The ledger's bytes are not those that were written."""

    code = "ledger_corrupt"

    def __init__(self, problem: str, *, position: int | None = None) -> None:
        super().__init__(problem if position is None else f"at position {position}: {problem}")
        self.problem, self.position = problem, position


class LedgerTooNew(LedgerCorrupt):
    """The ledger's schema is of a newer version of rankd. Nothing is damaged."""

    code = "ledger_too_new"

    def __init__(self, place: str, *, schema: int, known: int) -> None:
        super().__init__(f"{place} has schema {schema}, this rankd knows {known}")
        self.schema, self.known = schema, known


class IndexDiffers(Corrupt):
    """The index differs from the ledger. It can be rebuilt."""

    code = "index_differs"

    def __init__(self, *, ranking: str, rank: int) -> None:
        super().__init__(f"{ranking} differs from the ledger at rank {rank}; rebuild the index")
        self.ranking, self.rank = ranking, rank


class CertificateDiffers(Corrupt):
    """A certificate is not of the standings that its ledger folds to."""

    code = "certificate_differs"

    def __init__(self, fields: tuple[str, ...]) -> None:
        super().__init__(f"the certificate differs from the ledger in {', '.join(fields)}")
        self.fields = fields


class ArchiveDamaged(Corrupt):
    """A file of an archive is missing, or is not as it was written."""

    code = "archive_damaged"

    def __init__(self, archive: str, problem: str) -> None:
        super().__init__(f"{archive}: {problem}")
        self.archive, self.problem = archive, problem


class SnapshotDamaged(Corrupt):
    """A saved index cannot be used. It can be deleted: it is rebuilt from the ledger."""

    code = "snapshot_damaged"

    def __init__(self, problem: str) -> None:
        super().__init__(f"{problem}; remove the snapshot and it is rebuilt from the ledger")
        self.problem = problem

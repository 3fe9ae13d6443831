"""Every error this package raises, and what a caller can do about it.

RankdError
├── Refused        understood, and will not be done: do not retry         (4xx)
│   ├── Invalid    one or more fields are wrong, and each is named        (422)
│   │   ├── InvalidBoard
│   │   ├── InvalidSubmission
│   │   ├── InvalidPage
│   │   └── ScoreOutOfBounds
│   ├── InvalidCursor
│   ├── UnknownBoard
│   ├── UnknownWindow
│   ├── NotRanked
│   ├── SubmissionRejected
│   ├── SubmissionKeyReused
│   ├── BoardDiffers
│   └── LedgerInUse
├── Unavailable    may succeed later: retry with back-off, same key       (503)
│   ├── LedgerUnavailable
│   ├── Overloaded
│   └── IndexBehind
└── Corrupt        a promise does not hold: stop and tell a human         (500)
    ├── UnknownFact
    ├── UnreadableFact
    ├── LedgerCorrupt
    └── SnapshotDamaged

Programming mistakes are not in this tree. They are assertions, and are never caught.

A ``code`` is for programs and never changes; a message is for people and may. Neither ever
repeats raw input: what a stranger sent could be megabytes, or markup.
"""

from decimal import Decimal
from typing import ClassVar, Literal, NamedTuple

FIELD_ERRORS_MAX = 100
"""Enough for every field of an honest request; a hostile one does not choose our answer's size."""


class FieldError(NamedTuple):
    """One thing wrong with one field."""

    field: str
    """Its path in what was sent: ``limits.score_min``, ``columns[1].name``; empty for the whole."""
    message: str
    """What the field accepts, as a sentence that follows the field's name."""


class RankdError(Exception):
    """Base of everything above."""

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
    """One or more fields are wrong. All are named, so that one round of mending is enough."""

    def __init__(self, errors: list[FieldError] | tuple[FieldError, ...]) -> None:
        assert errors, "an invalid request has at least one wrong field"
        self.errors = tuple(errors[:FIELD_ERRORS_MAX])
        super().__init__("; ".join(f"{field} {message}".lstrip() for field, message in self.errors))


class InvalidBoard(Invalid):
    """The definition of a board does not hold together."""

    code = "invalid_board"


class InvalidSubmission(Invalid):
    """A submission is malformed for the board it was made to."""

    code = "invalid_submission"


class InvalidPage(Invalid):
    """A page or neighbourhood was asked for with bounds nobody can serve."""

    code = "invalid_page"


class ScoreOutOfBounds(Invalid):
    """The submitted score lies outside the bounds its board declares."""

    code = "score_out_of_bounds"

    def __init__(self, *, board: str, low: int | Decimal, high: int | Decimal) -> None:
        super().__init__(
            [FieldError("score", f"must lie between {Decimal(low):f} and {Decimal(high):f}")]
        )
        self.board, self.low, self.high = board, low, high


class InvalidCursor(Refused):
    """A cursor is damaged, of another ranking, or was never one of ours."""

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
    """A board has no such window, or keeps it no longer."""

    code = "unknown_window"

    def __init__(self, *, board: str, window: str) -> None:
        super().__init__(f"board {board!r} has no window {window[:64]!r}")
        self.board, self.window = board, window


class NotRanked(Refused):
    """The player has no entry in this ranking. Absent is not the same as last."""

    code = "not_ranked"

    def __init__(self, *, board: str, window: str, player: str) -> None:
        super().__init__(f"player {player!r} is not ranked in {board!r}, window {window!r}")
        self.board, self.window, self.player = board, window, player


class SubmissionRejected(Refused):
    """The submission is recorded and counts nowhere: judged in its turn, it broke a rule."""

    code = "submission_rejected"

    def __init__(self, *, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        """Which rule, for programs: ``score_overflow``, ``score_out_of_bounds``."""


class SubmissionKeyReused(Refused):
    """The submission key was used before, for something else."""

    code = "key_reused"

    def __init__(self, *, board: str, key: str) -> None:
        super().__init__(f"key {key!r} was used on board {board!r} for another submission")
        self.board, self.key = board, key


class BoardDiffers(Refused):
    """The board exists with another definition; changing it has to be asked for."""

    code = "board_differs"

    def __init__(self, *, board: str, fields: tuple[str, ...]) -> None:
        super().__init__(f"board {board!r} is defined otherwise: {', '.join(fields)}")
        self.board, self.fields = board, fields


class LedgerInUse(Refused):
    """Another process has this folder open."""

    code = "ledger_in_use"

    def __init__(self, folder: str) -> None:
        super().__init__(f"{folder} is open already, here or in another process; one may write")
        self.folder = folder


# ------------------------------------------------------------------------- unavailable


class Unavailable(RankdError):
    """The request may succeed later: retry with back-off and the same submission key."""


class LedgerUnavailable(Unavailable):
    """The ledger could not take the facts. ``applied`` says whether it may have all the same."""

    code = "ledger_unavailable"

    def __init__(self, problem: str, *, applied: Literal["no", "unknown"]) -> None:
        super().__init__(problem)
        self.problem, self.applied = problem, applied


class Overloaded(Unavailable):
    """More is waiting than may wait. Nothing was done."""

    code = "overloaded"

    def __init__(self, *, waiting_max: int) -> None:
        super().__init__(f"{waiting_max} submissions are waiting already")
        self.waiting_max = waiting_max


class IndexBehind(Unavailable):
    """The index has not come as far as the position asked for."""

    code = "index_behind"

    def __init__(self, *, position: int, checkpoint: int) -> None:
        super().__init__(f"the index is at {checkpoint}, not yet at {position}")
        self.position, self.checkpoint = position, checkpoint


# ----------------------------------------------------------------------------- corrupt


class Corrupt(RankdError):
    """A promise does not hold. Stop, and tell a human."""


class UnknownFact(Corrupt):
    """The ledger holds a kind of fact that this version of the program cannot read."""

    code = "unknown_fact"

    def __init__(self, kind: str) -> None:
        super().__init__(f"unknown kind of fact {kind!r}: was the ledger written by a newer rankd?")
        self.kind = kind


class UnreadableFact(Corrupt):
    """The bytes of a fact do not have the shape its kind promises."""

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


class SnapshotDamaged(Corrupt):
    """A saved index cannot be used. It can be thrown away: the ledger rebuilds it."""

    code = "snapshot_damaged"

    def __init__(self, problem: str) -> None:
        super().__init__(f"{problem}; remove the snapshot and it is rebuilt from the ledger")
        self.problem = problem

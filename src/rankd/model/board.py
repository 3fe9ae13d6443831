"""A board: a named competition, the rules it is played by, and the unit it is played in.

A board is defined once by a person and then consulted for every submission, so this module has two
faces. ``Board.define`` is patient: it reads everything, names every wrong field and its accepted
values, because people correct definitions by hand. The ``Board`` it returns is quick: frozen, and
with all that the hot path asks for worked out beforehand.

Scores are whole numbers in the board's smallest unit. A board with two decimals keeps 12.34 as
1234, and everything behind this module knows integers only: no sum drifts, no comparison is off
by the last bit. ``parse_score`` and ``show_score`` are the only doors between the two.
"""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

from rankd.errors import FieldError, InvalidBoard
from rankd.model.decay import Decay, HalfLife, read_decay
from rankd.model.json_values import encode_json, json_form
from rankd.model.rewards import RewardBand, read_rewards
from rankd.model.rules import (
    SUBMISSIONS_PER_MINUTE_MAX,
    Consequence,
    Rule,
    RuleName,
    Scoring,
    read_rules,
)
from rankd.model.runs import DEFAULT_RUNS, RUN_SECONDS_DEFAULT, RUN_SECONDS_MAX, RunOptions
from rankd.model.standing import TieRule, shown_score
from rankd.model.urls import URL_FORM, host_of, valid_url
from rankd.model.window import (
    Instant,
    Recurrence,
    RecurrenceError,
    parse_duration,
    parse_instant,
    show_duration,
    show_instant,
    valid_time_zone,
)

BOARD_NAME_LENGTH_MAX = 64
"""Names stand in URLs, store keys and file listings; this fits all of them."""

TITLE_LENGTH_MAX = 128
"""One line of a page."""

COLUMN_NAME_LENGTH_MAX = 32
SEGMENT_NAME_LENGTH_MAX = 32
"""Both are repeated in every answer."""

VERIFIER_NAME_LENGTH_MAX = 64
_KEY_ID = re.compile(r"[0-9a-f]{12}", re.ASCII)

COLUMNS_MAX = 4
"""Each is eight bytes in every order key of every index."""

DECIMALS_MAX = 9
"""Nanoseconds of a second. A 64-bit score then still has nine digits before the point."""

WINDOWS_MAX = 16
"""A submission is folded once into each, so this multiplies the cost of a write."""

ROLLING_RETENTION = timedelta(days=1)
"""How long a closed rolling window is kept unless the board says so: there is another every day."""

SEGMENTS_MAX = 8
"""A submission is folded into every window of each, so this multiplies it again."""

ATTEMPTS_MAX = 1_000_000
"""The largest limit of attempts: more in one window bound nothing."""

SCORE_MIN = -(2**63)
SCORE_MAX = 2**63 - 1
"""The signed 64-bit range: a score in the board's smallest unit."""

SCORE_TEXT_LENGTH_MAX = 32
"""Sign, nineteen digits and a point fit well; longer text is refused unread."""

FLOAT_DIGITS_MAX = 15
"""Any decimal of so many digits survives a double unchanged. With more, the number that was sent
may have become another before we saw it; such scores are sent as text."""


class Direction(StrEnum):
    """Whether higher or lower scores are better."""

    HIGHER = "higher"
    LOWER = "lower"


class ScoreRule(StrEnum):
    """How a new score combines with the one already counted."""

    BEST = "best"
    """The better of the two stays. With several columns the whole tuple is compared."""
    LATEST = "latest"
    """The new one replaces the old."""
    SUM = "sum"
    """They are added, column by column."""
    FIRST = "first"
    """The old one stays."""


class TieBreak(StrEnum):
    """Which of two equal entries is ahead."""

    FIRST = "first"
    """The entry that reached the score first."""
    LATEST = "latest"
    """The entry that reached it last."""
    PLAYER = "player"
    """The player whose id is smaller, byte by byte."""


class Writes(StrEnum):
    """Who may submit: keys alone; or also players, with a run or a signature, or without."""

    SERVER = "server"
    SIGNED = "signed"
    CLIENT = "client"


@dataclass(frozen=True, slots=True)
class Column:
    """One of the numbers an entry is ordered by."""

    name: str
    direction: Direction


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of plausible submissions; None means unbounded. Scores are in smallest units."""

    score_min: int | None = None
    score_max: int | None = None
    gain_per_minute_max: int | None = None
    submissions_per_minute_max: int | None = None
    attempts_max: int | None = None
    """How many submissions of a player each window takes."""

    def rules(self) -> tuple[Rule, ...]:
        """Return the rules that rates stand for: submissions beyond them are refused."""
        rates = {
            RuleName.GAIN_PER_MINUTE: self.gain_per_minute_max,
            RuleName.SUBMISSIONS_PER_MINUTE: self.submissions_per_minute_max,
        }
        return tuple(
            Rule(name, Consequence.REFUSE, limit)
            for name, limit in rates.items()
            if limit is not None
        )


class FieldChange(NamedTuple):
    """One field in which two definitions differ, each side as a definition spells it."""

    field: str
    before: object
    after: object


Scores = tuple[int, ...]
"""One score for each column, in smallest units."""


class VerifierOptions(NamedTuple):
    """The verifier of a board: a function by its name, or a service by its address."""

    name: str | None = None
    url: str | None = None
    key: str | None = None
    """The id of the key that signs requests to the address; None to leave them unsigned."""

    def definition(self) -> dict[str, object]:
        """Return the verifier as a definition spells it."""
        return {"name": self.name} if self.url is None else {"url": self.url, "key": self.key}

    @property
    def actor(self) -> str:
        """The actor of its decisions."""
        return f"verifier:{self.name if self.url is None else host_of(self.url)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A board's rules. Made by ``Board.define``, which alone checks them."""

    name: str
    title: str | None
    columns: tuple[Column, ...]
    rule: ScoreRule
    decimals: int
    ties: TieRule
    tie_break: TieBreak
    windows: tuple[Recurrence, ...]
    time_zone: str
    segments: tuple[str, ...]
    decay: Decay | None
    limits: Limits
    rules: tuple[Rule, ...]
    """As declared; ``rules_in_force`` has those of the limits too."""
    writes: Writes
    runs: RunOptions | None
    """None for the default options."""
    verifier: VerifierOptions | None
    """The verifier that decides about each submission; None for none."""
    prize: bool
    retention: Mapping[str, timedelta] = field(hash=False)
    """How long a closed window is kept, by the name of its recurrence; for ever where absent."""
    expires: Instant | None = None
    """When the board is retired by itself; None for never."""
    public_corrections: bool = False
    """Whether its readers may list the corrections of it, without the players concerned."""
    rewards: tuple[RewardBand, ...] = ()
    """The gifts that a settled window makes."""

    # Worked out once, because every submission asks.
    width: int = field(init=False, repr=False, compare=False)
    """How many columns an entry has."""
    directions: tuple[Direction, ...] = field(init=False, repr=False, compare=False)
    score_low: int = field(init=False, repr=False, compare=False)
    score_high: int = field(init=False, repr=False, compare=False)
    """Bounds of the first column, both inclusive; the 64-bit range where none is declared."""
    rules_in_force: tuple[Rule, ...] = field(init=False, repr=False, compare=False)
    """The declared rules in their order, then those that the limits stand for."""
    is_better: Callable[[Scores, Scores], bool] = field(init=False, repr=False, compare=False)
    """Whether the first tuple is strictly better than the second."""

    def __post_init__(self) -> None:
        directions = tuple(column.direction for column in self.columns)
        low, high = self.limits.score_min, self.limits.score_max
        remember = object.__setattr__  # The board is frozen from the next line on.
        remember(self, "width", len(directions))
        remember(self, "directions", directions)
        remember(self, "score_low", SCORE_MIN if low is None else low)
        remember(self, "score_high", SCORE_MAX if high is None else high)
        remember(self, "rules_in_force", (*self.rules, *self.limits.rules()))
        remember(self, "is_better", _comparison(directions))

    @staticmethod
    def define(name: str, definition: Mapping[str, object]) -> "Board":
        """Return the board a definition describes.

        Every field may be left out or null, which means its default. Raises InvalidBoard, which
        names every field that is wrong.
        """
        return _define(name, definition)

    def definition(self) -> dict[str, Any]:
        """Return the one spelling of this board that ``define`` reads back as its equal.

        It holds plain JSON values only, with every default written out.
        """
        return {
            "title": self.title,
            "direction": self.columns[0].direction.value,
            "columns": [
                {"name": column.name, "direction": column.direction.value}
                for column in self.columns
            ],
            "rule": self.rule.value,
            "decimals": self.decimals,
            "ties": self.ties.value,
            "tie_break": self.tie_break.value,
            "windows": [recurrence.definition() for recurrence in self.windows],
            "time_zone": self.time_zone,
            "segments": list(self.segments),
            "decay": self._decay_definition(),
            "limits": self._limits_definition(),
            "rules": [rule.definition(self._plain_score) for rule in self.rules],
            "writes": self.writes.value,
            "runs": None if self.runs is None else self.runs.definition(),
            "verifier": None if self.verifier is None else self.verifier.definition(),
            "prize": self.prize,
            "retention": {name: show_duration(kept) for name, kept in self.retention.items()},
            "expires": None if self.expires is None else show_instant(self.expires),
            "public_corrections": self.public_corrections,
            "rewards": [band.definition() for band in self.rewards],
        }

    @property
    def run_options(self) -> RunOptions:
        """The options of its runs, the default ones included."""
        return self.runs or DEFAULT_RUNS

    def changes(self, other: "Board") -> tuple[FieldChange, ...]:
        """Return the fields in which ``other`` differs, in the order a definition lists them."""
        before, after = self.definition(), other.definition()
        return tuple(
            FieldChange(name, before[name], after[name])
            for name in before
            if before[name] != after[name]
        )

    def parse_score(self, value: object) -> int:
        """Return a score in smallest units. Raises ValueError with the accepted values.

        Accepts integers, decimals, and text of either. A score with more decimals than the board
        declares is refused, not rounded: two players whose scores differ must never be made equal.
        """
        # By far the commonest, and all that most boards ever see.
        if type(value) is int and self.decimals == 0 and SCORE_MIN <= value <= SCORE_MAX:
            return value
        return parse_scaled(value, self.decimals)

    def show_score(self, scaled: int) -> int | Decimal:
        """Return a score as people see it: an integer, or exactly the declared decimals.

        Never a float: a double holds fifteen digits and a score has up to nineteen. A JSON encoder
        writes a Decimal as a number, digit for digit, when told to.
        """
        return shown_score(scaled, self.decimals)

    def _plain_score(self, scaled: int) -> int | str:
        """Return a score as a definition spells it: text where a JSON number might be rounded."""
        return scaled if self.decimals == 0 else f"{self.show_score(scaled):f}"

    def _limits_definition(self) -> dict[str, int | str]:
        limits = self.limits
        scores = {
            "score_min": limits.score_min,
            "score_max": limits.score_max,
            "gain_per_minute_max": limits.gain_per_minute_max,
        }
        shown = {
            name: self._plain_score(value) for name, value in scores.items() if value is not None
        }
        if limits.submissions_per_minute_max is not None:
            shown["submissions_per_minute_max"] = limits.submissions_per_minute_max
        if limits.attempts_max is not None:
            shown["attempts_max"] = limits.attempts_max
        return shown

    def _decay_definition(self) -> dict[str, object] | None:
        decay = self.decay
        if decay is None:
            return None
        if isinstance(decay, HalfLife):
            return decay.definition()
        return decay.definition(self._plain_score)


# ------------------------------------------------------------------------------ scores

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")
_DIGITS_MAX = len(str(SCORE_MAX))
_NOT_A_NUMBER = "must be a number, or text of one"
_TOO_LARGE = "is larger than a score can be"


def _comparison(directions: tuple[Direction, ...]) -> Callable[[Scores, Scores], bool]:
    if all(direction is Direction.HIGHER for direction in directions):
        return operator.gt
    if all(direction is Direction.LOWER for direction in directions):
        return operator.lt
    higher_wins = tuple(direction is Direction.HIGHER for direction in directions)

    def is_better(scores: Scores, than: Scores) -> bool:
        for higher, ours, theirs in zip(higher_wins, scores, than, strict=True):
            if ours != theirs:
                return (ours > theirs) is higher
        return False

    return is_better


def parse_scaled(value: object, decimals: int) -> int:
    """Return a number as a count of 10**-decimals. Raises ValueError; see ``Board.parse_score``."""
    match value:
        case bool():
            raise ValueError(_NOT_A_NUMBER)
        case int():
            return _in_range(value * 10**decimals)
        case str():
            return _scaled(_decimal_of_text(value), decimals)
        case Decimal():
            return _scaled(value, decimals)
        case float():
            return _scaled_float(value, decimals)
        case _:
            raise ValueError(_NOT_A_NUMBER)


def _decimal_of_text(text: str) -> Decimal:
    if len(text) > SCORE_TEXT_LENGTH_MAX or not _NUMBER.fullmatch(text):
        raise ValueError("must be a number written with digits, such as -12 or 3.50")
    return Decimal(text)


def _scaled_float(value: float, decimals: int) -> int:
    # The repr of a float is the shortest text that means it: the text it was read from, unless
    # that had more digits than a double keeps.
    scaled = _scaled(Decimal(repr(value)), decimals)
    if abs(scaled) >= 10**FLOAT_DIGITS_MAX:
        raise ValueError(f"has more than {FLOAT_DIGITS_MAX} digits: send it as text")
    return scaled


def _scaled(value: Decimal, decimals: int) -> int:
    """Scale by integer arithmetic: that of decimals rounds as its context says."""
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int):
        raise ValueError(_NOT_A_NUMBER)  # Infinity and NaN carry a letter there.
    # Both ends are looked at first, or 10**exponent could fill the memory.
    if value.adjusted() > _DIGITS_MAX:
        raise ValueError(_TOO_LARGE)
    if exponent < -SCORE_TEXT_LENGTH_MAX:
        raise ValueError(_too_fine(decimals))
    numerator, denominator = value.as_integer_ratio()
    scaled, rest = divmod(numerator * 10**decimals, denominator)
    if rest:
        raise ValueError(_too_fine(decimals))
    return _in_range(scaled)


def _in_range(scaled: int) -> int:
    if SCORE_MIN <= scaled <= SCORE_MAX:
        return scaled
    raise ValueError(_TOO_LARGE)


def _too_fine(decimals: int) -> str:
    """Return the message, with its remedy: 58.1 + 0.2 as floats is not 58.3."""
    if decimals == 0:
        return "must be a whole number: the board has no decimals"
    digits = f"{decimals} digit{'s'[: decimals > 1]}"
    return f"must have at most {digits} after the point: round it"


# ------------------------------------------------------------- reading a definition

NAME = re.compile(r"[A-Za-z0-9_.-]+")
"""The characters of every name: safe in a URL, a store's key and a shell without quoting."""

UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Characters that no stored text may contain: control characters, line separators, halves of
surrogate pairs."""

TURNING = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Characters that turn the text after them around, that of other rows included."""

_DEFAULT_COLUMN = "score"
_FIELDS = (
    "title",
    "direction",
    "columns",
    "rule",
    "decimals",
    "ties",
    "tie_break",
    "windows",
    "time_zone",
    "segments",
    "decay",
    "limits",
    "rules",
    "writes",
    "runs",
    "verifier",
    "prize",
    "retention",
    "expires",
    "public_corrections",
    "rewards",
)

_Choice = TypeVar("_Choice", bound=StrEnum)


class _DefinitionReader:
    """Takes a definition apart and remembers everything that is wrong with it.

    Each method returns something usable even when it has found a fault, so that reading goes on and
    the next fault is found too; the results are discarded in the end.
    """

    def __init__(self) -> None:
        self.errors: list[FieldError] = []

    def refuse(self, path: str, message: str) -> None:
        self.errors.append(FieldError(path, message))

    def mapping(
        self, path: str, value: object, known: Sequence[str] | None
    ) -> Mapping[str, object]:
        """Return a mapping, its keys all known where it is told which; null is an empty one."""
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self.refuse(path, "must be an object")
            return {}
        for name in value:
            if known is not None and name not in known:
                self.refuse(
                    _join(path, shown_name(name)), f"is unknown; known are {', '.join(known)}"
                )
        return value

    def items(self, path: str, value: object, *, low: int, high: int) -> Sequence[object]:
        if not isinstance(value, list | tuple) or not low <= len(value) <= high:
            self.refuse(path, f"must be a list of {low} to {high}")
            return ()
        return value

    def choice(self, path: str, value: object, choices: type[_Choice]) -> _Choice | None:
        for choice in choices:
            if value == choice.value:
                return choice
        if value is not None:
            self.refuse(path, f"must be one of {', '.join(choices)}")
        return None

    def flag(self, path: str, value: object) -> bool:
        if value is not None and not isinstance(value, bool):
            self.refuse(path, "must be true or false")
        return value is True

    def json(self, path: str, value: object, *, bytes_max: int) -> bytes | None:
        encoded = encode_json(value, bytes_max=bytes_max)
        if encoded is None:
            self.refuse(path, json_form(bytes_max))
        return encoded

    def integer(self, path: str, value: object, *, low: int, high: int) -> int | None:
        if value is None:
            return None
        if type(value) is int and low <= value <= high:
            return value
        self.refuse(path, f"must be a whole number from {low} to {high}")
        return None

    def score(self, path: str, value: object, decimals: int) -> int | None:
        if value is None:
            return None
        try:
            return parse_scaled(value, decimals)
        except ValueError as exc:
            self.refuse(path, str(exc))
            return None

    def amount(self, path: str, value: object, decimals: int) -> int | None:
        """Read a score that must be more than nothing."""
        amount = self.score(path, value, decimals)
        if amount is not None and amount <= 0:
            self.refuse(path, "must be more than 0")
        return amount

    def duration(self, path: str, value: object) -> timedelta:
        try:
            return parse_duration(value if isinstance(value, str) else "")
        except ValueError as exc:
            self.refuse(path, str(exc))
            return timedelta(0)

    def name(self, path: str, value: object, *, length_max: int, taken: Sequence[object]) -> str:
        if not isinstance(value, str) or len(value) > length_max or not NAME.fullmatch(value):
            self.refuse(path, f"must be 1 to {length_max} of the characters A-Z a-z 0-9 _ . -")
            return ""
        if value in taken:
            self.refuse(path, "is there twice")
        return value


def _define(name: str, definition: Mapping[str, object]) -> Board:
    read = _DefinitionReader()
    _read_board_name(read, name)
    given = read.mapping("", definition, _FIELDS)
    rule = read.choice("rule", given.get("rule"), ScoreRule) or ScoreRule.BEST
    columns = _read_columns(read, given)
    decimals = _read_decimals(read, given)
    time_zone = _read_time_zone(read, given)
    windows = _read_windows(read, given.get("windows"), time_zone)
    prize = read.flag("prize", given.get("prize"))
    limits = _read_limits(read, given.get("limits"), decimals)
    higher_wins = not columns or columns[0].direction is Direction.HIGHER
    scoring = Scoring(decimals, higher_wins, rule is ScoreRule.SUM)
    parts: dict[str, Any] = {
        "title": _read_title(read, given.get("title")),
        "ties": read.choice("ties", given.get("ties"), TieRule) or TieRule.ORDINAL,
        "tie_break": read.choice("tie_break", given.get("tie_break"), TieBreak) or TieBreak.FIRST,
        "segments": _read_segments(read, given.get("segments")),
        "decay": _read_decay(read, given.get("decay"), rule, columns, decimals),
        "limits": limits,
        "rules": read_rules(read, given.get("rules"), scoring, limits.rules()),
        "writes": _read_writes(read, given.get("writes"), prize=prize),
        "runs": _read_runs(read, given.get("runs")),
        "verifier": _read_verifier(read, given.get("verifier")),
        "retention": _read_retention(read, given.get("retention"), windows),
        "expires": _read_expiry(read, given.get("expires"), time_zone),
        "public_corrections": read.flag("public_corrections", given.get("public_corrections")),
        "rewards": read_rewards(read, given.get("rewards"), [one.name for one in windows]),
    }
    if read.errors:
        raise InvalidBoard(read.errors)
    return Board(
        name=name,
        rule=rule,
        columns=columns,
        decimals=decimals,
        time_zone=time_zone,
        windows=windows,
        prize=prize,
        **parts,
    )


def _read_board_name(read: _DefinitionReader, name: object) -> None:
    if name in (".", ".."):
        read.refuse("name", "must not be . or .., which mean something else in a path")
    else:
        read.name("name", name, length_max=BOARD_NAME_LENGTH_MAX, taken=())


def _read_title(read: _DefinitionReader, title: object) -> str | None:
    if title is None:
        return None
    if (
        not isinstance(title, str)
        or not 1 <= len(title) <= TITLE_LENGTH_MAX
        or UNPRINTABLE.search(title)
    ):
        read.refuse("title", f"must be text of 1 to {TITLE_LENGTH_MAX} printable characters")
        return None
    return title


def _read_columns(read: _DefinitionReader, given: Mapping[str, object]) -> tuple[Column, ...]:
    direction = read.choice("direction", given.get("direction"), Direction)
    if given.get("columns") is None:
        return (Column(_DEFAULT_COLUMN, direction or Direction.HIGHER),)
    columns: list[Column] = []
    for number, item in enumerate(read.items("columns", given["columns"], low=1, high=COLUMNS_MAX)):
        path = f"columns[{number}]"
        columns.append(_read_column(read, path, item, columns, direction or Direction.HIGHER))
    if columns and direction not in (None, columns[0].direction):
        read.refuse("direction", "must be that of the first column, or be left out")
    return tuple(columns)


def _read_column(
    read: _DefinitionReader, path: str, item: object, before: Sequence[Column], inherited: Direction
) -> Column:
    given = read.mapping(path, item, ("name", "direction"))
    taken = [column.name for column in before]
    name = read.name(
        f"{path}.name", given.get("name"), length_max=COLUMN_NAME_LENGTH_MAX, taken=taken
    )
    direction = read.choice(f"{path}.direction", given.get("direction"), Direction)
    return Column(name, direction or inherited)


def _read_decimals(read: _DefinitionReader, given: Mapping[str, object]) -> int:
    if given.get("decimals") is None:
        return 0
    decimals = read.integer("decimals", given["decimals"], low=0, high=DECIMALS_MAX)
    return DECIMALS_MAX if decimals is None else decimals  # So that no score is refused with it.


def _read_time_zone(read: _DefinitionReader, given: Mapping[str, object]) -> str:
    zone = given.get("time_zone")
    if zone is None:
        return "UTC"
    if not isinstance(zone, str) or not valid_time_zone(zone):
        read.refuse("time_zone", "must be an IANA name such as UTC or Europe/Berlin")
        return "UTC"
    return zone


def _read_windows(read: _DefinitionReader, given: object, time_zone: str) -> tuple[Recurrence, ...]:
    if given is None:
        given = ["all"]
    recurrences: dict[str, Recurrence] = {}
    for number, item in enumerate(read.items("windows", given, low=1, high=WINDOWS_MAX)):
        path = f"windows[{number}]"
        if not isinstance(item, str | Mapping):
            read.refuse(path, "must be text or an object")
            continue
        try:
            recurrence = Recurrence.parse(item, time_zone=time_zone)
        except RecurrenceError as exc:
            read.refuse(_join(path, exc.field), exc.message)
            continue
        if recurrence.name in recurrences:
            read.refuse(path, "has the name of a window before it")
        recurrences[recurrence.name] = recurrence
    return tuple(recurrences.values())


def _read_segments(read: _DefinitionReader, given: object) -> tuple[str, ...]:
    if given is None:
        return ()
    segments: list[str] = []
    for number, item in enumerate(read.items("segments", given, low=0, high=SEGMENTS_MAX)):
        path = f"segments[{number}]"
        segments.append(read.name(path, item, length_max=SEGMENT_NAME_LENGTH_MAX, taken=segments))
    return tuple(segments)


def _read_decay(
    read: _DefinitionReader,
    given: object,
    rule: ScoreRule,
    columns: tuple[Column, ...],
    decimals: int,
) -> Decay | None:
    if given is None:
        return None
    if len(columns) > 1:
        read.refuse("decay", "needs a board of one column")
    elif any(column.direction is Direction.LOWER for column in columns):
        read.refuse("decay", "needs a board on which higher wins: it makes scores less")
    if rule is ScoreRule.FIRST:
        read.refuse("decay", "cannot be combined with the rule first")
    return read_decay(read, given, decimals)


def _read_limits(read: _DefinitionReader, given: object, decimals: int) -> Limits:
    fields = read.mapping("limits", given, Limits.__slots__)
    low = read.score("limits.score_min", fields.get("score_min"), decimals)
    high = read.score("limits.score_max", fields.get("score_max"), decimals)
    if low is not None and high is not None and low > high:
        read.refuse("limits.score_min", "must not be more than score_max")
    gain = "gain_per_minute_max"
    rate = "submissions_per_minute_max"
    return Limits(
        score_min=low,
        score_max=high,
        gain_per_minute_max=read.amount(f"limits.{gain}", fields.get(gain), decimals),
        submissions_per_minute_max=read.integer(
            f"limits.{rate}", fields.get(rate), low=1, high=SUBMISSIONS_PER_MINUTE_MAX
        ),
        attempts_max=read.integer(
            "limits.attempts_max", fields.get("attempts_max"), low=1, high=ATTEMPTS_MAX
        ),
    )


def _read_writes(read: _DefinitionReader, given: object, *, prize: bool) -> Writes:
    writes = read.choice("writes", given, Writes) or Writes.SERVER
    if prize and writes is Writes.CLIENT:
        read.refuse("writes", "must be server or signed on a prize board")
    return writes


def _read_runs(read: _DefinitionReader, given: object) -> RunOptions | None:
    if given is None:
        return None
    fields = read.mapping("runs", given, RunOptions.__slots__)
    low = read.integer("runs.seconds_min", fields.get("seconds_min"), low=0, high=RUN_SECONDS_MAX)
    high = read.integer("runs.seconds_max", fields.get("seconds_max"), low=1, high=RUN_SECONDS_MAX)
    low, high = low or 0, RUN_SECONDS_DEFAULT if high is None else high
    if low >= high:
        read.refuse("runs.seconds_min", "must be less than seconds_max")
    return RunOptions(low, high, read.flag("runs.required", fields.get("required")))


def _read_verifier(read: _DefinitionReader, given: object) -> VerifierOptions | None:
    if given is None:
        return None
    fields = read.mapping("verifier", given, ("name", "url", "key"))
    name, url, key = fields.get("name"), fields.get("url"), fields.get("key")
    if url is None:
        if key is not None:
            read.refuse("verifier.key", "signs requests to a url, and there is none")
        length_max = VERIFIER_NAME_LENGTH_MAX
        return VerifierOptions(read.name("verifier.name", name, length_max=length_max, taken=()))
    if name is not None:
        read.refuse("verifier.name", "must be absent beside a url")
    if not valid_url(url):
        read.refuse("verifier.url", URL_FORM)
    if key is not None and not (isinstance(key, str) and _KEY_ID.fullmatch(key)):
        read.refuse("verifier.key", "must be the id of a key, 12 hexadecimal digits")
    return VerifierOptions(None, str(url), None if key is None else str(key))


def _read_retention(
    read: _DefinitionReader, given: object, windows: tuple[Recurrence, ...]
) -> Mapping[str, timedelta]:
    kept: dict[str, timedelta] = {}
    fields = read.mapping("retention", given, known=None)
    closing = [recurrence.name for recurrence in windows if recurrence.name != "all"]
    for name in fields:
        if name not in closing:
            path = _join("retention", shown_name(name))
            read.refuse(path, "must be the name of a window of this board that closes")
    for recurrence in windows:
        name = recurrence.name
        if name in closing and fields.get(name) is not None:
            kept[name] = read.duration(f"retention.{name}", fields[name])
        elif recurrence.rolls:
            kept[name] = ROLLING_RETENTION
    return kept


def _read_expiry(read: _DefinitionReader, given: object, time_zone: str) -> Instant | None:
    if given is None:
        return None
    try:
        return parse_instant(given, time_zone)
    except ValueError as exc:
        read.refuse("expires", str(exc))
        return None


def shown_name(name: object) -> str:
    """Return an unknown field's name if it is harmless to repeat, and ``?`` otherwise."""
    if isinstance(name, str) and len(name) <= BOARD_NAME_LENGTH_MAX and NAME.fullmatch(name):
        return name
    return "?"


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path and name else path or name

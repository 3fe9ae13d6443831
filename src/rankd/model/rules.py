"""The rules of a board against cheating: names, parameters, and their spelling in a definition.

A rule compares a number that it observes of a submission with a limit, and tells the consequence:
the submission is flagged, held or refused. Scores, gains and limits are in the board's smallest
unit. The state of the rules is kept by ``rankd.rules``, which reads a ``Rule`` as it is.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from rankd.model.standing import shown_score

RULES_MAX = 16
"""Each is judged for every submission."""

SUBMISSIONS_PER_MINUTE_MAX = 1_000_000
"""Far beyond any player, and small enough for every counter that will hold it."""

SECONDS_BETWEEN_MAX = 86_400
"""A day. Longer pauses are the matter of windows and attempts."""

TIMES_MAX = 1_000_000
"""Beyond it a factor forbids nothing."""

QUANTILE_MIN, QUANTILE_MAX = 5_000, 9_999
"""In ten-thousandths: the median to all but one of ten thousand."""

GAINS_SEEN_MIN = 8
"""So many gains of a player are seen before ``outlier_self`` judges another, unless it says."""

GAINS_SEEN_MAX = 1_000

SCORES_SEEN_MIN = 100
"""So many scores of a board are seen before ``outlier_field`` judges another, unless it says."""

SCORES_SEEN_MAX = 1_000_000

TIMES_DECIMALS, QUANTILE_DECIMALS, SECONDS_DECIMALS = 3, 4, 3
"""How finely factors, quantiles and seconds are told apart."""

_QUANTILE_DEFAULT = 9_900
_TIMES_DEFAULT = 2_000
_MICROSECONDS = 1_000
"""In a millisecond, the unit in which ``min`` is read."""


class RuleName(StrEnum):
    """The number that a rule observes."""

    GAIN_PER_MINUTE = "gain_per_minute"
    """The gain of the first column within a minute."""
    SUBMISSIONS_PER_MINUTE = "submissions_per_minute"
    SECONDS_BETWEEN = "seconds_between"
    """The time since the player's previous submission, here in microseconds."""
    FIRST_SCORE = "first_score"
    """The first score that counts of a player."""
    OUTLIER_SELF = "outlier_self"
    """A gain, beside the player's own usual gain."""
    OUTLIER_FIELD = "outlier_field"
    """A score, beside those of all players."""
    PER_SECOND_OF_RUN = "per_second_of_run"
    """The score per second of the run that the submission names."""


class Consequence(StrEnum):
    """The treatment of a submission that breaks a rule, from the mildest to the strictest."""

    FLAG = "flag"
    """It counts, and is listed."""
    HOLD = "hold"
    """It is held for review."""
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule in force."""

    rule: RuleName
    then: Consequence
    limit: int
    """``max``, in smallest units or submissions; ``min`` in microseconds; or ``times``, in
    thousandths."""
    quantile: int = 0
    """In ten-thousandths; of ``outlier_field`` only."""
    after: int = 0
    """Gains or scores to be seen before the first is judged; of outliers only."""

    def definition(self, show_score: Callable[[int], int | str]) -> dict[str, object]:
        """Return the rule as a definition spells it, defaults written out."""
        shown = _SPELLINGS[self.rule].show(self, show_score)
        return {"rule": self.rule.value, **shown, "then": self.then.value}


VERIFIER = "verifier"
"""Stands for a rule in the review of a submission that waits for the verifier of its board."""


class Reason(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A rule that a submission broke: the number observed, and the limit, in the rule's unit.

    That is the board's smallest unit, a submission, or a microsecond.
    """

    rule: str
    observed: int
    limit: int

    def shown(self, decimals: int) -> tuple[int | Decimal, int | Decimal]:
        """Return both numbers as people see them: scores, submissions, or seconds."""
        if self.rule == RuleName.SUBMISSIONS_PER_MINUTE:
            return self.observed, self.limit
        if self.rule == RuleName.SECONDS_BETWEEN:
            return _seconds(self.observed), _seconds(self.limit)
        return shown_score(self.observed, decimals), shown_score(self.limit, decimals)

    def sentence(self, decimals: int) -> str:
        """Return the reason in words."""
        if self.rule == VERIFIER:
            return "the board holds every submission for its verifier"
        observed, limit = self.shown(decimals)
        below = self.rule == RuleName.SECONDS_BETWEEN or self.observed < self.limit
        return (
            f"{self.rule} is {_text(observed)}, {'less' if below else 'more'} than {_text(limit)}"
        )


def _text(number: int | Decimal) -> str:
    return f"{number:f}" if isinstance(number, Decimal) else str(number)


def _seconds(microseconds: int) -> int | Decimal:
    whole, rest = divmod(microseconds, 1_000_000)
    return Decimal(microseconds).scaleb(-6).normalize() if rest else whole


class Scoring(NamedTuple):
    """The parts of a board's definition that its rules depend on."""

    decimals: int
    higher_wins: bool
    sums: bool
    """Whether its score rule is ``sum``."""


class DefinitionReader(Protocol):
    """The reader of a definition, which remembers every fault that it finds."""

    def refuse(self, path: str, message: str) -> None:
        """Remember a fault."""

    def mapping(
        self, path: str, value: object, known: Sequence[str] | None
    ) -> Mapping[str, object]:
        """Return an object with known fields; an empty one in place of anything else."""

    def items(self, path: str, value: object, *, low: int, high: int) -> Sequence[object]:
        """Return a list of so many items; an empty one in place of anything else."""

    def integer(self, path: str, value: object, *, low: int, high: int) -> int | None:
        """Return a whole number within bounds; None in place of anything else."""

    def score(self, path: str, value: object, decimals: int) -> int | None:
        """Return a number as a count of 10**-decimals; None in place of anything else."""


def read_rules(
    read: DefinitionReader, given: object, scoring: Scoring, limits: Sequence[Rule]
) -> tuple[Rule, ...]:
    """Return the rules of a definition, in its order. ``limits`` are those its limits stand for."""
    if given is None:
        return ()
    rules: list[Rule] = []
    for number, item in enumerate(read.items("rules", given, low=0, high=RULES_MAX)):
        path = f"rules[{number}]"
        rule = _read_rule(read, path, item, scoring)
        if rule is None:
            continue
        if _is_among(rule, rules):
            read.refuse(path, f"is there twice with then {rule.then}")
        if _is_among(rule, limits):
            read.refuse(path, f"is given by limits.{rule.rule}_max as well: leave one out")
        rules.append(rule)
    return tuple(rules)


def _is_among(rule: Rule, others: Sequence[Rule]) -> bool:
    return any((rule.rule, rule.then) == (other.rule, other.then) for other in others)


def _read_rule(read: DefinitionReader, path: str, item: object, scoring: Scoring) -> Rule | None:
    if not isinstance(item, Mapping):
        read.refuse(path, "must be an object")
        return None
    name = _choice(read, f"{path}.rule", item.get("rule"), RuleName)
    then = _choice(read, f"{path}.then", item.get("then"), Consequence)
    if name is None:
        return None
    spelling = _SPELLINGS[name]
    given = read.mapping(path, item, ("rule", *spelling.parameters, "then"))
    if name is RuleName.PER_SECOND_OF_RUN and not (scoring.higher_wins or scoring.sums):
        read.refuse(path, "needs a board where higher wins, or one of the rule sum")
    numbers = spelling.read(_Parameters(read, path, given), scoring.decimals)
    return None if then is None else Rule(name, then, *numbers)


_Choice = TypeVar("_Choice", RuleName, Consequence)


def _choice(
    read: DefinitionReader, path: str, value: object, choices: type[_Choice]
) -> _Choice | None:
    for choice in choices:
        if value == choice.value:
            return choice
    read.refuse(path, f"must be one of {', '.join(choices)}")
    return None


# ------------------------------------------------------------------------- parameters


class _Parameters(NamedTuple):
    """The fields of one rule, and its place in the definition."""

    reader: DefinitionReader
    path: str
    given: Mapping[str, object]

    def score(self, name: str, decimals: int, *, positive: bool = True) -> int:
        path = f"{self.path}.{name}"
        if self.given.get(name) is None:
            self.reader.refuse(path, "must be given")
            return 1
        value = self.reader.score(path, self.given[name], decimals)
        if positive and value is not None and value <= 0:
            self.reader.refuse(path, "must be more than 0")
        return 1 if value is None else value

    def number(self, name: str, default: int | None, bounds: tuple[int, int], decimals: int) -> int:
        """Return a number within bounds, all as counts of 10**-decimals."""
        value = self.given.get(name)
        path, (low, high) = f"{self.path}.{name}", bounds
        if value is None and default is not None:
            return default
        found = None if value is None else self.reader.score(path, value, decimals)
        if value is None:
            self.reader.refuse(path, "must be given")
        elif found is not None and not low <= found <= high:
            shown = f"{_shown(low, decimals)} to {_shown(high, decimals)}"
            self.reader.refuse(path, f"must be a number from {shown}")
        return low if found is None else found

    def whole_number(self, name: str, default: int | None, high: int) -> int:
        value = self.given.get(name)
        if value is None:
            if default is None:
                self.reader.refuse(f"{self.path}.{name}", "must be given")
            return default or 1
        return self.reader.integer(f"{self.path}.{name}", value, low=1, high=high) or 1


def _shown(scaled: int, decimals: int) -> int | float:
    """Return a parameter as a definition spells it: whole where it can be.

    A double has room for all of them: none has more than ten digits.
    """
    whole, rest = divmod(scaled, 10**decimals)
    return whole if rest == 0 else float(Decimal(scaled).scaleb(-decimals))


_ShowScore = Callable[[int], int | str]
_Numbers = tuple[int, int, int]
"""Limit, quantile and number of those seen before, as a ``Rule`` takes them."""


class _Spelling(NamedTuple):
    """How the parameters of a rule are read and shown."""

    parameters: tuple[str, ...]
    read: Callable[[_Parameters, int], _Numbers]
    show: Callable[[Rule, _ShowScore], dict[str, object]]


def _read_gain(given: _Parameters, decimals: int) -> _Numbers:
    return given.score("max", decimals), 0, 0


def _read_first(given: _Parameters, decimals: int) -> _Numbers:
    return given.score("max", decimals, positive=False), 0, 0


def _show_score_max(rule: Rule, show_score: _ShowScore) -> dict[str, object]:
    return {"max": show_score(rule.limit)}


def _read_submissions(given: _Parameters, _decimals: int) -> _Numbers:
    return given.whole_number("max", None, SUBMISSIONS_PER_MINUTE_MAX), 0, 0


def _show_submissions(rule: Rule, _show: _ShowScore) -> dict[str, object]:
    return {"max": rule.limit}


def _read_seconds(given: _Parameters, _decimals: int) -> _Numbers:
    bounds = 1, SECONDS_BETWEEN_MAX * 10**SECONDS_DECIMALS
    return given.number("min", None, bounds, SECONDS_DECIMALS) * _MICROSECONDS, 0, 0


def _show_seconds(rule: Rule, _show: _ShowScore) -> dict[str, object]:
    return {"min": _shown(rule.limit // _MICROSECONDS, SECONDS_DECIMALS)}


def _read_self(given: _Parameters, _decimals: int) -> _Numbers:
    bounds = 1_001, TIMES_MAX * 10**TIMES_DECIMALS
    times = given.number("times", None, bounds, TIMES_DECIMALS)
    return times, 0, given.whole_number("after", GAINS_SEEN_MIN, GAINS_SEEN_MAX)


def _show_self(rule: Rule, _show: _ShowScore) -> dict[str, object]:
    return {"times": _shown(rule.limit, TIMES_DECIMALS), "after": rule.after}


def _read_field(given: _Parameters, _decimals: int) -> _Numbers:
    bounds = 10**TIMES_DECIMALS, TIMES_MAX * 10**TIMES_DECIMALS
    times = given.number("times", _TIMES_DEFAULT, bounds, TIMES_DECIMALS)
    quantiles = QUANTILE_MIN, QUANTILE_MAX
    quantile = given.number("quantile", _QUANTILE_DEFAULT, quantiles, QUANTILE_DECIMALS)
    return times, quantile, given.whole_number("after", SCORES_SEEN_MIN, SCORES_SEEN_MAX)


def _show_field(rule: Rule, _show: _ShowScore) -> dict[str, object]:
    return {
        "quantile": _shown(rule.quantile, QUANTILE_DECIMALS),
        "times": _shown(rule.limit, TIMES_DECIMALS),
        "after": rule.after,
    }


_SPELLINGS: Mapping[RuleName, _Spelling] = {
    RuleName.GAIN_PER_MINUTE: _Spelling(("max",), _read_gain, _show_score_max),
    RuleName.SUBMISSIONS_PER_MINUTE: _Spelling(("max",), _read_submissions, _show_submissions),
    RuleName.SECONDS_BETWEEN: _Spelling(("min",), _read_seconds, _show_seconds),
    RuleName.FIRST_SCORE: _Spelling(("max",), _read_first, _show_score_max),
    RuleName.OUTLIER_SELF: _Spelling(("times", "after"), _read_self, _show_self),
    RuleName.OUTLIER_FIELD: _Spelling(("quantile", "times", "after"), _read_field, _show_field),
    RuleName.PER_SECOND_OF_RUN: _Spelling(("max",), _read_gain, _show_score_max),
}

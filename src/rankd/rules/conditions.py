"""The rules of a board in plain numbers, and the fields of a player's row that they need.

A row has only the fields of the rules in force, in this order, little-endian:

========  ========  ===========================================================================
FLAGS     1 byte    SEEN, COUNTED, VALUED; every row has it
TIME      8 bytes   time of the latest submission, in microseconds
VALUE     8 bytes   the score that counts: the best, or the latest
GAINS     6 slots   gains in the minute, by slots of ten seconds
COUNTS    6 slots   submissions in the minute, likewise
USUAL     6 bytes   the usual gain, its latest step, and the number of gains seen
========  ========  ===========================================================================

A slot is an unsigned number of 2, 4 or 8 bytes that stops at its largest value: the smallest in
which every limit can be exceeded.
"""

from collections.abc import Sequence
from enum import IntEnum, IntFlag
from typing import NamedTuple, Protocol

ROW_RULES_MAX = 24
"""Sixteen that a definition may declare, two that its limits stand for, and some to spare."""

SLOT_MICROSECONDS = 10_000_000
SLOTS = 6
"""A minute is the slot of now and the five before it: fifty to sixty seconds."""

ID_BYTES_MAX = 256
"""Of a player id, in UTF-8."""

RULES = (
    "gain_per_minute",
    "submissions_per_minute",
    "seconds_between",
    "first_score",
    "outlier_self",
    "outlier_field",
    "per_second_of_run",
)
"""Their place is their number."""

CONSEQUENCES = ("fine", "flag", "hold", "refuse")
"""Their place is their number in the answer of a judged run."""

SCORE_RULES = ("best", "latest", "sum", "first")

KINDS = ("score", "delta", "replaces")
"""Of submissions that are not judged: an approved score or delta, or an operator's score."""

UNBOUNDED = (-(2**63), 2**63 - 1)


class RuleNumber(IntEnum):
    """The rules by number."""

    GAIN_PER_MINUTE = 0
    SUBMISSIONS_PER_MINUTE = 1
    SECONDS_BETWEEN = 2
    FIRST_SCORE = 3
    OUTLIER_SELF = 4
    OUTLIER_FIELD = 5
    PER_SECOND_OF_RUN = 6


class Field(IntFlag):
    """The fields of a row; the last one is the board's histogram."""

    FLAGS = 1
    TIME = 2
    VALUE = 4
    GAINS = 8
    COUNTS = 16
    USUAL = 32
    HISTOGRAM = 64


SEEN, COUNTED, VALUED = 1, 2, 4
"""Flags: a submission was judged; one of them counts; VALUE is known."""


class DeclaredRule(Protocol):
    """A rule as a board's definition has it."""

    @property
    def rule(self) -> str:
        """One of ``RULES``."""

    @property
    def then(self) -> str:
        """One of ``CONSEQUENCES`` but the first."""

    @property
    def limit(self) -> int:
        """In smallest units, submissions or microseconds; factors in thousandths."""

    @property
    def quantile(self) -> int:
        """In ten-thousandths."""

    @property
    def after(self) -> int:
        """The gains or scores to be seen before the first is judged."""


class Condition(NamedTuple):
    """A rule in plain numbers."""

    rule: int
    then: int
    limit: int
    quantile: int
    after: int


class Layout(NamedTuple):
    """The fields of a row."""

    fields: int
    gain_bytes: int
    """Of one slot of GAINS; 0 without that field."""
    count_bytes: int
    row_bytes: int


def read_conditions(rules: Sequence[DeclaredRule]) -> tuple[Condition, ...]:
    """Return declared rules in plain numbers. Raises ValueError for one that cannot be judged."""
    if len(rules) > ROW_RULES_MAX:
        raise ValueError(f"there are at most {ROW_RULES_MAX} rules, not {len(rules)}")
    return tuple(map(_read_condition, rules))


def _read_condition(rule: DeclaredRule) -> Condition:
    number, then = RULES.index(rule.rule), CONSEQUENCES.index(rule.then, 1)
    low = -(2**63) if number == RuleNumber.FIRST_SCORE else 1
    if not low <= rule.limit < 2**63:
        raise ValueError(f"the limit of {rule.rule} must be {low} to {2**63 - 1}")
    if number == RuleNumber.OUTLIER_FIELD and not 0 < rule.quantile < 10_000:
        raise ValueError(f"the quantile of {rule.rule} must be 1 to 9999 ten-thousandths")
    if not 0 <= rule.after < 2**32:
        raise ValueError(f"after of {rule.rule} must be 0 to {2**32 - 1}")
    return Condition(number, then, rule.limit, rule.quantile, rule.after)


_NEEDS = {
    RuleNumber.GAIN_PER_MINUTE: Field.TIME | Field.VALUE | Field.GAINS,
    RuleNumber.SUBMISSIONS_PER_MINUTE: Field.TIME | Field.COUNTS,
    RuleNumber.SECONDS_BETWEEN: Field.TIME,
    RuleNumber.FIRST_SCORE: Field.FLAGS,
    RuleNumber.OUTLIER_SELF: Field.VALUE | Field.USUAL,
    RuleNumber.OUTLIER_FIELD: Field.VALUE | Field.HISTOGRAM,
    RuleNumber.PER_SECOND_OF_RUN: Field(0),
}

_SLOT_BYTES = ((2, 2**16 - 1), (4, 2**32 - 1), (8, 2**63 - 1))
"""The widths of a slot, and the values at which it stops."""


def slot_max(slot_bytes: int) -> int:
    """Return the value at which a slot stops."""
    return dict(_SLOT_BYTES)[slot_bytes]


def layout_of(conditions: Sequence[Condition], rule_of_board: str) -> Layout:
    """Return the fields of a row. Boards that sum, or keep the first score, need no VALUE."""
    fields = Field(0)
    for condition in conditions:
        fields |= _NEEDS[RuleNumber(condition.rule)]
    if rule_of_board not in ("best", "latest"):
        fields &= ~Field.VALUE
    if fields & ~Field.HISTOGRAM:
        fields |= Field.FLAGS
    gain_bytes = _slot_bytes(conditions, RuleNumber.GAIN_PER_MINUTE)
    count_bytes = _slot_bytes(conditions, RuleNumber.SUBMISSIONS_PER_MINUTE)
    sizes = {
        Field.FLAGS: 1,
        Field.TIME: 8,
        Field.VALUE: 8,
        Field.GAINS: SLOTS * gain_bytes,
        Field.COUNTS: SLOTS * count_bytes,
        Field.USUAL: 6,
    }
    row_bytes = sum(size for field, size in sizes.items() if fields & field)
    return Layout(int(fields), gain_bytes, count_bytes, row_bytes)


def _slot_bytes(conditions: Sequence[Condition], rule: RuleNumber) -> int:
    limits = [condition.limit for condition in conditions if condition.rule == rule]
    if not limits:
        return 0
    return next((size for size, top in _SLOT_BYTES if max(limits) < top), 8)

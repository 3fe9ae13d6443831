"""What the rules of a board say of a submission, worked out from lists of everything they saw.

The judge of the model: of each player it has the time of every submission, the gain of every one
that counts, and the score that later gains are measured from; of the board every score that counts.
A rule looks through them. Nothing is shared with the engine, which has a few bytes of a player.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import isqrt
from typing import Any

SECOND = 1_000_000
SLOT = 10 * SECOND
SLOTS = 6
"""A minute is the ten seconds of now, and the five before."""
SLOT_MAX = 65_535
"""A count of small limits stops here."""
SCORE_MIN, SCORE_MAX = -(2**63), 2**63 - 1
STRICTNESS = ("flag", "hold", "refuse")

Definition = dict[str, object]
Reason = tuple[str, Any, Any]
"""A rule, the number that it observed, and the limit."""

REMEMBERED = {
    "gain_per_minute": {"times", "value", "slots of gains"},
    "submissions_per_minute": {"times", "slots of counts"},
    "seconds_between": {"times"},
    "first_score": {"players"},
    "outlier_self": {"value", "usual"},
    "outlier_field": {"value", "scores"},
}
"""What has to be known for each rule: where two definitions need the same, nothing is forgotten."""


@dataclass(frozen=True)
class Check:
    """One rule of a definition, in whole scores, submissions, seconds, or times the usual."""

    rule: str
    limit: int
    then: str
    after: int = 1
    """So many gains or scores are seen before an outlier is one."""

    def words(self) -> Definition:
        if self.rule == "seconds_between":
            return {"rule": self.rule, "min": self.limit, "then": self.then}
        if self.rule in ("outlier_self", "outlier_field"):
            more = {"quantile": 0.5} if self.rule == "outlier_field" else {}
            times = {"times": self.limit, "after": self.after}
            return {"rule": self.rule, **more, **times, "then": self.then}
        return {"rule": self.rule, "max": self.limit, "then": self.then}


@dataclass(frozen=True)
class Terms:
    """What a judge has to know of a board's definition."""

    checks: tuple[Check, ...]
    rule: str
    higher_wins: bool
    decimals: int
    low: int
    high: int

    @property
    def remembered(self) -> set[str]:
        every = set().union(*(REMEMBERED[check.rule] for check in self.checks))
        return every if self.rule in ("best", "latest") else every - {"value"}

    def limit(self, check: Check) -> int:
        if check.rule in ("gain_per_minute", "first_score"):
            return int(check.limit * 10**self.decimals)
        return check.limit * SECOND if check.rule == "seconds_between" else check.limit

    def winning(self, number: int) -> int:
        return clipped(number if self.higher_wins else -number)

    def beyond(self, number: int, limit: int) -> bool:
        return number > limit if self.higher_wins else number < limit


@dataclass
class Known:
    """What is known of one player."""

    times: list[int] = field(default_factory=list)
    gained: list[tuple[int, int]] = field(default_factory=list)
    """When, and how much."""
    gains: list[int] = field(default_factory=list)
    counted: bool = False
    value: int | None = None


@dataclass(frozen=True)
class Attempt:
    """A submission as rules see it: its first column, or what it adds."""

    player: str
    number: int
    delta: bool
    at: int


@dataclass
class Judge:
    """The rules of one board, and what they have seen."""

    terms: Terms
    players: dict[str, Known] = field(default_factory=dict)
    scores: list[int] = field(default_factory=list)

    def redefined(self, terms: Terms) -> "Judge | None":
        """The judge from a redefinition on; None if it has to learn the past again."""
        was = self.terms
        if not terms.checks:
            return Judge(terms)
        kinds = [(one.rule, one.higher_wins, one.decimals) for one in (was, terms)]
        if not was.checks or kinds[0] != kinds[1] or was.remembered != terms.remembered:
            return None
        return Judge(terms, self.players, self.scores)

    @classmethod
    def learned(cls, terms: Terms, past: Iterable[tuple["Attempt", bool]]) -> "Judge":
        """A judge that knows submissions as if each rule only flagged them; and adjustments."""
        flags = tuple(replace(check, then="flag") for check in terms.checks)
        judge = Judge(replace(terms, checks=flags))
        for attempt, adjusts in past:
            if adjusts:
                judge.count(attempt, replaces=not attempt.delta)
            else:
                judge.judge(attempt)
        judge.terms = terms
        return judge

    # ...... judging

    def judge(self, attempt: Attempt) -> tuple[str | None, list[Reason]]:
        """The strictest consequence, if there is one, and why; what counts is remembered."""
        if not self.terms.checks:
            return None, []
        known = self.players.setdefault(attempt.player, Known())
        gain, result = self._observed(known, attempt)
        broken: list[tuple[Check, Reason]] = []
        waited = attempt.at - known.times[-1] if known.times else None
        known.times.append(attempt.at)
        for check in self.terms.checks:
            observed = self._broken(check, known, attempt, (gain, result, waited))
            if observed is not None:
                broken.append((check, (check.rule, *observed)))
        thens = {check.then for check, _ in broken}
        then = max(thens, key=STRICTNESS.index, default=None)
        if then in (None, "flag") and not self._is_outside(result):
            known.gained.append((attempt.at, gain))
            self._count(known, attempt, gain, result)
        return then, [reason for _, reason in broken]

    def count(self, attempt: Attempt, *, replaces: bool) -> None:
        """Know of a score that counts without being judged."""
        if not self.terms.checks:
            return
        known = self.players.setdefault(attempt.player, Known())
        gain, result = self._observed(known, attempt)
        if replaces:
            known.counted = True
            if "value" in self.terms.remembered:
                known.value = attempt.number
            return
        was = known.value
        self._count(known, attempt, gain, result)
        if self.terms.rule == "latest" and not attempt.delta and was is not None:
            known.value = was

    def _observed(self, known: Known, attempt: Attempt) -> tuple[int, int]:
        """What it gains, and the score that it makes."""
        terms, number, gain = self.terms, attempt.number, 0
        result = number
        if terms.rule == "first":
            return 0, number
        if attempt.delta or terms.rule == "sum":
            gain = terms.winning(number)
            if terms.rule != "sum" and known.value is not None:
                result = clipped(known.value + number)
        elif known.value is not None:
            gain = terms.winning(number - known.value)
        return max(0, gain), result

    def _is_outside(self, result: int) -> bool:
        return "value" in self.terms.remembered and not self.terms.low <= result <= self.terms.high

    def _count(self, known: Known, attempt: Attempt, gain: int, result: int) -> None:
        if gain > 0:
            known.gains.append(gain)
        known.counted = True
        self.scores.append(result)
        if "value" not in self.terms.remembered:
            return
        best = self.terms.rule == "best" and not attempt.delta and known.value is not None
        if not best or self.terms.beyond(attempt.number, known.value or 0):
            known.value = result

    # ...... the rules

    def _broken(
        self, check: Check, known: Known, attempt: Attempt, seen: tuple[int, int, int | None]
    ) -> tuple[int, int] | None:
        """What a rule observes and its limit, if it is broken."""
        limit, (gain, result, waited) = self.terms.limit(check), seen
        if check.rule == "gain_per_minute":
            total = clipped(gain + sum(by_slot(known.gained, attempt.at)))
            return (total, limit) if gain > 0 and total > limit else None
        if check.rule == "submissions_per_minute":
            total = sum(by_slot([(at, 1) for at in known.times], attempt.at))
            return (total, limit) if total > limit else None
        if check.rule == "seconds_between":
            return (waited, limit) if waited is not None and waited < limit else None
        if check.rule == "first_score":
            number = attempt.number
            beyond = not known.counted and self.terms.beyond(number, limit)
            return (number, limit) if beyond else None
        if check.rule == "outlier_self":
            if len(known.gains) < check.after:
                return None
            limit = clipped(power(usual(known.gains) + 1, 256) * check.limit)
            return (gain, limit) if gain > limit else None
        assert check.rule == "outlier_field"
        return self._outlier_field(check, result)

    def _outlier_field(self, check: Check, result: int) -> tuple[int, int] | None:
        """Beyond so many times the median, of which the sixteenth of a doubling is known."""
        if len(self.scores) < check.after:
            return None
        half = -(-len(self.scores) // 2)
        place = half if self.terms.higher_wins else len(self.scores) - half + 1
        median = sorted(self.scores)[place - 1]
        if median <= 0:
            return None
        doublings = logarithm(median, 16)
        if self.terms.higher_wins:
            limit = power(doublings + 1, 16) * check.limit
        else:
            limit = power(doublings, 16) // check.limit
        limit = clipped(limit)
        return (result, limit) if self.terms.beyond(result, limit) else None


def same_reasons(found: Sequence[Reason], expected: Sequence[Reason]) -> bool:
    """Whether rules and numbers are the same; limits of 2**50 and more to fifteen digits."""
    return len(found) == len(expected) and all(
        mine[:2] == theirs[:2] and abs(mine[2] - theirs[2]) <= abs(theirs[2]) // 2**50
        for mine, theirs in zip(found, expected, strict=True)
    )


# ------------------------------------------------------------------------------ numbers


def clipped(number: int) -> int:
    return max(SCORE_MIN, min(SCORE_MAX, number))


def by_slot(several: Sequence[tuple[int, int]], now: int) -> list[int]:
    """The sums of the last six stretches of ten seconds."""
    slots = range(now // SLOT - SLOTS + 1, now // SLOT + 1)
    return [min(SLOT_MAX, sum(one for at, one in several if at // SLOT == slot)) for slot in slots]


def logarithm(number: int, parts: int) -> int:
    """How many parts of a doubling there are in a number, at most."""
    count = parts * (number.bit_length() - 1)
    while 2 ** (count + 1) <= number**parts:
        count += 1
    return count


def power(count: int, parts: int) -> int:
    """So many parts of a doubling, rounded down."""
    if count >= 63 * parts:
        return SCORE_MAX
    root = 1 << count
    for _ in range(parts.bit_length() - 1):
        root = isqrt(root)
    return root


def usual(gains: Sequence[int]) -> int:
    """The usual gain in 256ths of a doubling: it follows the gains in steps.

    A step is at least half a doubling for the first eight and an eighth later. It doubles while the
    way is the same, and goes no further than the gain.
    """
    found, step = logarithm(gains[0], 256), 0
    for seen, gain in enumerate(gains[1:], start=1):
        least = 128 if seen < 8 else 32
        far = logarithm(gain, 256) - found
        way = (far > 0) - (far < 0)
        reach = 2 * abs(step) if way * step > 0 else least
        moved = min(abs(far), reach)
        found += way * moved
        step = way * max(moved, least)
    return found

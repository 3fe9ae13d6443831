"""Boards with decay, folded by fractions and decimals of 120 digits from a list of submissions.

Nothing of rankd is used: values are computed as the definition says, each time anew, and compared
as numbers. Values of instants that are whole half-lives apart are compared exactly. Others are
equal if they differ by less than 10**-25 of the greater, which only those do that are the same.
"""

from dataclasses import dataclass, field
from decimal import ROUND_05UP, ROUND_HALF_EVEN, Context, Decimal, localcontext
from fractions import Fraction
from functools import cmp_to_key
from typing import Any

DAY = 86_400_000_000
ENOUGH = Context(prec=120, rounding=ROUND_05UP)
"""Rounds so that no inexact result looks like a half: 4 and a rest of 10**-400 are more than 4."""
EQUAL = Decimal(10) ** -25
_LN2 = Decimal(2).ln(ENOUGH)

Number = Decimal | Fraction


@dataclass(frozen=True)
class Rules:
    """The parts of a definition that decide the order. Times are in microseconds."""

    rule: str = "best"
    ties: str = "ordinal"
    tie_break: str = "first"
    half_life: int | None = None
    points: int = 0
    per: int = 1
    floor: int | None = None

    @property
    def decays(self) -> bool:
        return self.half_life is not None or self.points > 0

    def zero(self) -> Number:
        return Fraction(0) if self.half_life is None else Decimal(0)

    def number(self, score: int) -> Number:
        return Fraction(score) if self.half_life is None else Decimal(score)

    def value(self, held: "Held", at: int) -> Number:
        """The value of an entry at a time."""
        elapsed = max(at - held.at, 0)
        if isinstance(held.value, Fraction):
            if self.floor is not None and held.value <= self.floor:
                return held.value
            value = held.value - Fraction(self.points * elapsed, self.per)
            return value if self.floor is None else max(value, Fraction(self.floor))
        assert self.half_life is not None
        return _halved(held.value, elapsed, self.half_life)

    def difference(self, one: "Held", other: "Held") -> int:
        """Which of two entries has the greater value for ever, the floor left aside; 0 if none."""
        at = max(one.at, other.at)
        if self.half_life is None:
            rests = [self.floor is not None and held.value <= self.floor for held in (one, other)]
            if any(rests):
                if not all(rests):
                    return -1 if rests[0] else 1
                return _sign(one.value, other.value)
            values: list[Any] = [
                held.value - Fraction(self.points * (at - held.at), self.per)
                for held in (one, other)
            ]
            return _sign(*values)
        with localcontext(ENOUGH):
            values = [self.value(held, at) for held in (one, other)]
            first, second = values
            apart = (one.at - other.at) % self.half_life
            if apart and abs(first - second) <= EQUAL * max(abs(first), abs(second)):
                return 0
            return _sign(first, second)


def _sign(one: Number, other: Number) -> int:
    return int(one > other) - int(one < other)


def _halved(value: Decimal, elapsed: int, period: int) -> Decimal:
    with localcontext(ENOUGH):
        whole, part = divmod(elapsed, period)
        if part:
            value *= (-_LN2 * part / period).exp()
        return value / Decimal(2) ** whole


def kept(value: Number) -> Number:
    """A decayed value as it is added to: in parts of 2**-64, rounded to odd if that is inexact."""
    if isinstance(value, Fraction):
        return value
    with localcontext(ENOUGH):
        parts = abs(value) * 2**64
        whole = int(parts)
        whole |= parts != whole
        return Decimal(whole if value > 0 else -whole) / 2**64


def rounded(value: Number) -> int:
    """Half to even."""
    if isinstance(value, Fraction):
        return round(value)
    return int(value.to_integral_value(ROUND_HALF_EVEN, ENOUGH))


@dataclass(frozen=True)
class Said:
    """One submission."""

    position: int
    at: int
    player: str
    score: int | None
    delta: int | None
    sets: bool = False
    """Whether it is an adjustment, which replaces the entry under any rule."""


@dataclass(frozen=True)
class Held:
    """An entry: its value at a time, and the position of the submission that made it."""

    value: Any
    at: int
    position: int
    exact: Any = None
    """The value if sums were kept to all digits, where it is another one."""

    @property
    def unrounded(self) -> "Held":
        return self if self.exact is None else Held(self.exact, self.at, self.position)


@dataclass(frozen=True)
class Row:
    """A standing as it is to be shown."""

    rank: int
    player: str
    score: int
    raw: int


@dataclass
class Judge:
    """All submissions, and what is true of them at any time."""

    rules: Rules
    said: list[Said] = field(default_factory=list)
    retracted: set[int] = field(default_factory=set)

    def entries(self, day: int | None) -> dict[str, Held]:
        """The entries of all time, or of the submissions of a day."""
        held: dict[str, Held] = {}
        for one in self.said:
            if one.position not in self.retracted and (day is None or one.at // DAY == day):
                after = self._after(held.get(one.player), one)
                if after is not None:
                    held[one.player] = after
        return held

    def _after(self, before: Held | None, one: Said) -> Held | None:
        """The entry that a submission makes; None if it stays as it is."""
        rules, rule = self.rules, "latest" if one.sets else self.rules.rule
        if one.score is None or (rule == "sum" and before is not None):
            added = one.delta if one.score is None else one.score
            assert added is not None
            if before is not None and not added:
                return None
            if before is None:
                return Held(rules.number(added), one.at, one.position)
            with localcontext(ENOUGH):
                value: Any = kept(rules.value(before, one.at)) + added
                exact: Any = rules.value(before.unrounded, one.at) + added
                return Held(value, one.at, one.position, exact)
        made = Held(rules.number(one.score), one.at, one.position)
        if before is None:
            return made
        difference = rules.difference(made, before)
        if rule == "latest":
            return made if difference else None
        return made if difference > 0 else None

    def rows(self, at: int, day: int | None = None, players: set[str] | None = None) -> list[Row]:
        """The standings at a time, best first."""
        held = {
            player: entry
            for player, entry in self.entries(day).items()
            if players is None or player in players
        }
        until = at if day is None else min(at, (day + 1) * DAY)

        def compared(one: str, other: str) -> int:
            return self._compared(one, held[one], other, held[other])

        rows: list[Row] = []
        before: Held | None = None
        distinct = 0
        for place, player in enumerate(sorted(held, key=cmp_to_key(compared)), 1):
            entry = held[player]
            shared = before is not None and self._ties(before, entry)
            distinct += not shared
            rank = {"ordinal": place, "dense": distinct}.get(self.rules.ties, place)
            if shared and self.rules.ties == "standard":
                rank = rows[-1].rank
            shown = rounded(self.rules.value(entry, until))
            assert shown == rounded(self.rules.value(entry.unrounded, until))
            rows.append(Row(rank, player, shown, rounded(entry.value)))
            before = entry
        return rows

    def _ties(self, one: Held, other: Held) -> bool:
        """Whether two entries share a rank: they had the same value at the same time, or rest."""
        if self.rules.difference(one, other):
            return False
        return one.at == other.at or self._rests(one)

    def _rests(self, held: Held) -> bool:
        """Whether time changes nothing about an entry."""
        if not self.rules.decays:
            return True
        if self.rules.half_life is not None:
            return not held.value
        return self.rules.floor is not None and held.value <= self.rules.floor

    def _compared(self, one: str, first: Held, other: str, second: Held) -> int:
        difference = self.rules.difference(first, second)
        if difference:
            return -difference
        by_time = 0 if self._rests(first) else first.at - second.at
        by_player = -1 if one < other else 1
        match self.rules.tie_break:
            case "first":
                return first.position - second.position
            case "latest":
                return second.position - first.position
            case _:
                return by_time or by_player

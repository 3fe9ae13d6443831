"""Decay: values that become less with time, in integers, and the words that order them.

Under decay an entry is an amount and the instant at which it had it. Its value at a later instant
follows from these two, so time alone writes nothing. Its place follows from its *word*, an integer
that never changes: of two entries, the one with the greater word has the greater value at every
instant.

*Half-life.* A value is halved in each period. Amounts count 2**-64 of a smallest unit. The word is
``log2(amount) + time / period`` in steps of 2**-88, negative for negative amounts, which approach 0
from below, and 0 for 0.

*Linear.* A value loses a fixed amount in each period, until it reaches the floor. Amounts count one
part of a smallest unit in as many as the period has microseconds, so nothing is rounded. The word
is ``amount + loss * time``. Amounts that are recorded at or under the floor rest: time does not
change them, and their words are below all others.

Every result is the exact real number, rounded as stated: down, to odd, or half to even. A power of
two with a broken exponent is irrational, and so is the logarithm of any number but a power of two.
So with enough digits it is certain on which side of a bound the number lies; where the first digits
leave it open, it is computed again with twice as many. No result depends on the algorithm, the
machine or the language.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from math import isqrt
from typing import NamedTuple, Protocol, TypeAlias

from rankd.model.window import Instant, show_duration

FRACTION_BITS = 64
"""Of amounts under half-life: a sum of a million scores is off by less than 2**-44 of a unit."""

LOG_BITS = 88
"""Of the fraction of a word under half-life: two 64-bit scores of one instant differ by 2**-63."""

DIGITS = 192
"""Binary digits of the first attempt at a power or a logarithm."""

ERROR = 1 << 12
"""A bound of the error of a power or a logarithm, in units of its last digit."""

_RESTING = 1 << 125
"""The distance between the words of linear entries that rest and of those that do not."""

_SCORE_LOW = -(2**63)
_MICROSECOND = timedelta(microseconds=1)


class Amount(NamedTuple):
    """An entry of a board with decay."""

    amount: int
    """In parts of a smallest unit: as many as the decay's ``scale``."""
    at: Instant
    """When it was this amount; 0 if time does not change it."""


class DecayReading(Protocol):
    """The reader of a board's definition, which remembers its errors."""

    def refuse(self, path: str, message: str) -> None:
        """Note an error."""

    def mapping(
        self, path: str, value: object, known: Sequence[str] | None
    ) -> Mapping[str, object]:
        """Read an object."""

    def duration(self, path: str, value: object) -> timedelta:
        """Read a duration."""

    def amount(self, path: str, value: object, decimals: int) -> int | None:
        """Read a score above 0."""

    def score(self, path: str, value: object, decimals: int) -> int | None:
        """Read a score."""


@dataclass(frozen=True, slots=True)
class HalfLife:
    """A score is worth half as much after each of these periods."""

    period: timedelta
    scale: int = field(init=False, repr=False, compare=False, default=1 << FRACTION_BITS)
    floor: None = field(init=False, repr=False, compare=False, default=None)
    span: int = field(init=False, repr=False, compare=False)
    """The period in microseconds."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "span", self.period // _MICROSECOND)

    def entry(self, amount: int, at: Instant) -> Amount:
        """Return the entry of an amount at an instant, in its one form."""
        return Amount(amount, at if amount else 0)

    def word(self, entry: Amount) -> int:
        """Return the word that orders an entry: more is better."""
        amount, at = entry
        if not amount:
            return 0
        size = log2_floor(abs(amount)) + (at << LOG_BITS) // self.span + 1
        return size if amount > 0 else -size

    def amount(self, entry: Amount, at: Instant) -> int:
        """Return the amount at an instant, rounded to odd: an inexact result is odd.

        So it is on the same side of every half unit as the exact value. At instants before its own
        it is the recorded amount.
        """
        amount, elapsed = entry.amount, at - entry.at
        if elapsed <= 0 or not amount:
            return amount
        size, inexact = _halved(abs(amount), elapsed, self.span, 0)
        size |= inexact
        return size if amount > 0 else -size

    def score(self, entry: Amount, at: Instant) -> int:
        """Return the value at an instant in smallest units, rounded half to even."""
        amount, elapsed = entry.amount, max(at - entry.at, 0)
        size = _score_by_float(abs(amount), elapsed, self.span)
        if size is None:
            doubled, inexact = _halved(abs(amount), elapsed, self.span, FRACTION_BITS - 1)
            size = doubled >> 1
            if doubled & 1:
                size += inexact or size & 1
        return size if amount > 0 else -size

    def bound(self, halves: int, at: Instant) -> int:
        """Return the word of a value at an instant, given in half units."""
        return self.word(self.entry(halves << (FRACTION_BITS - 1), at))

    def definition(self) -> dict[str, object]:
        """Return it as a board's definition spells it."""
        return {"half_life": show_duration(self.period)}


@dataclass(frozen=True, slots=True)
class LinearDecay:
    """A score loses some points, in smallest units, in each of these periods, down to a floor."""

    points: int
    per: timedelta
    floor: int | None = None
    """In smallest units; None for the smallest score there is."""
    scale: int = field(init=False, repr=False, compare=False)
    lowest: int = field(init=False, repr=False, compare=False)
    """The floor as an amount."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", self.per // _MICROSECOND)
        floor = _SCORE_LOW if self.floor is None else self.floor
        object.__setattr__(self, "lowest", floor * self.scale)

    def entry(self, amount: int, at: Instant) -> Amount:
        """Return the entry of an amount at an instant, in its one form."""
        return Amount(amount, at if amount > self.lowest else 0)

    def word(self, entry: Amount) -> int:
        """Return the word that orders an entry: more is better."""
        amount, at = entry
        if amount <= self.lowest:
            return amount - _RESTING
        return amount + self.points * at + _RESTING

    def entry_of(self, word: int, at: Instant) -> Amount:
        """Return the entry with a word, if its instant is known."""
        if word < 0:
            return Amount(word + _RESTING, 0)
        return Amount(word - _RESTING - self.points * at, at)

    def amount(self, entry: Amount, at: Instant) -> int:
        """Return the amount at an instant: exact, and as recorded at earlier instants."""
        amount, elapsed = entry.amount, at - entry.at
        if elapsed <= 0 or amount <= self.lowest:
            return amount
        return max(amount - self.points * elapsed, self.lowest)

    def score(self, entry: Amount, at: Instant) -> int:
        """Return the value at an instant in smallest units, rounded half to even."""
        whole, part = divmod(self.amount(entry, at), self.scale)
        part *= 2
        return whole + (part > self.scale or (part == self.scale and whole & 1))

    def bound(self, halves: int, at: Instant) -> int:
        """Return the word of a value at an instant, given in half units; an odd number of them."""
        return self.word(self.entry(halves * self.scale // 2, at))

    def definition(self, show: "ScoreSpelling") -> dict[str, object]:
        """Return it as a board's definition spells it."""
        spelled: dict[str, object] = {
            "linear": {"points": show(self.points), "per": show_duration(self.per)}
        }
        if self.floor is not None:
            spelled["floor"] = show(self.floor)
        return spelled


class ScoreSpelling(Protocol):
    """The spelling of a score in a definition."""

    def __call__(self, scaled: int) -> int | str:
        """Return a score in smallest units as text or as a number."""


Decay: TypeAlias = HalfLife | LinearDecay


# ------------------------------------------------------------------------------ numbers


def _halved(size: int, elapsed: int, span: int, dropped: int) -> tuple[int, bool]:
    """Return floor(size * 2**(-elapsed / span - dropped)), and whether that is inexact."""
    whole, part = divmod(elapsed, span)
    dropped += whole
    if not part:
        floor = size >> dropped
        return floor, floor << dropped != size
    digits = DIGITS
    while True:
        power, shift = power_of_two(part, span, digits), digits + dropped
        low, high = size * (power - ERROR) >> shift, size * (power + ERROR) >> shift
        if low == high:
            return low, size > 0
        digits *= 2


_FLOAT_SIZE = float(2**30)
_FLOAT_ERROR = 2.0**-42
"""A float of this size is off by less than this part of it, on any machine: the exponent is at most
64, and pow() is off by far less than the 2**8 units of its last digit that this allows."""


def _score_by_float(size: int, elapsed: int, span: int) -> int | None:
    """Return the value in smallest units if a float leaves no doubt how it is rounded, else None.

    At a tenth of the cost of ``_halved``; most values of a page are not that near to a half.
    """
    halvings = elapsed / span
    if halvings > 64:
        return 0  # Less than half a unit, whatever the score was.
    value: float = size * 2.0 ** (-FRACTION_BITS - halvings)
    if value >= _FLOAT_SIZE:
        return None
    whole = int(value)
    if abs(value - whole - 0.5) <= value * _FLOAT_ERROR + _FLOAT_ERROR:
        return None
    return whole + (value - whole > 0.5)


@lru_cache(maxsize=4096)
def log2_floor(number: int) -> int:
    """Return floor(log2(number) * 2**LOG_BITS) of a positive integer."""
    assert number > 0, number
    exponent = number.bit_length() - 1
    if number == 1 << exponent:
        return exponent << LOG_BITS
    digits = DIGITS
    while True:
        fraction, spare = _log2_fraction(number, exponent, digits), digits - LOG_BITS
        low, high = (fraction - ERROR) >> spare, (fraction + ERROR) >> spare
        if low == high:
            return (exponent << LOG_BITS) + low
        digits *= 2


def _log2_fraction(number: int, exponent: int, digits: int) -> int:
    """Return log2 of a number between two powers of two, less that of the smaller one.

    In units of 2**-digits. The number is brought near to 1 by a reciprocal of 9 bits, and the rest
    of its logarithm is a series: ln(1 + z) = 2 artanh(z / (2 + z)).
    """
    one = 1 << digits
    mantissa = number << digits >> exponent
    reciprocal, log = _reciprocals(digits)[(mantissa >> (digits - 8)) & 255]
    z = (mantissa * reciprocal >> 17) - one
    u = (z << digits) // (2 * one + z)
    square, power, total, odd = u * u >> digits, u, u, 3
    while abs(power) > 1:  # A negative one is shifted towards -1.
        power = power * square >> digits
        total += power // odd
        odd += 2
    return log + ((2 * total << digits) // _ln2(digits))


@lru_cache(maxsize=8)
def _reciprocals(digits: int) -> Sequence[tuple[int, int]]:
    """Return 2**17 / (1 + (i + 1/2) / 256), rounded down, and minus its log2 but for 17."""
    made = []
    for i in range(256):
        reciprocal = (2**17 * 512) // (512 + 2 * i + 1)
        made.append((reciprocal, (17 << digits) - _log2_by_squares(reciprocal, digits)))
    return made


def _log2_by_squares(number: int, digits: int) -> int:
    """Return log2 of an integer in units of 2**-digits, a digit for each squaring."""
    work = digits + 32
    exponent = number.bit_length() - 1
    mantissa, found = number << work >> exponent, exponent
    for _ in range(digits):
        mantissa = mantissa * mantissa >> work
        found <<= 1
        if mantissa >> (work + 1):
            mantissa >>= 1
            found |= 1
    return found


def power_of_two(part: int, whole: int, digits: int) -> int:
    """Return 2**(-part / whole) in units of 2**-digits, off by less than ERROR; 0 <= part < whole.

    The first eight binary digits of the exponent select a product of roots, the rest is a series.
    """
    exponent = (part << digits) // whole
    first, rest = exponent >> (digits - 8), exponent & ((1 << (digits - 8)) - 1)
    y = rest * _ln2(digits) >> digits
    total = term = 1 << digits
    number = 1
    while term:
        term = (term * y >> digits) // number
        total += term if number % 2 == 0 else -term
        number += 1
    return total * _roots(digits)[first] >> digits


@lru_cache(maxsize=8)
def _roots(digits: int) -> Sequence[int]:
    """Return 2**(-i / 256) for each i below 256, in units of 2**-digits."""
    root, roots = 1 << (digits - 1), [1 << digits]
    for _ in range(8):  # 2**-(1/2), 2**-(1/4), ...
        root = isqrt(root << digits)
        roots = [one * factor >> digits for one in roots for factor in (1 << digits, root)]
    return roots


@lru_cache(maxsize=8)
def _ln2(digits: int) -> int:
    """Return ln(2) in units of 2**-digits."""
    work = digits + 32
    return sum((1 << (work - k)) // k for k in range(1, work + 1)) >> 32


# -------------------------------------------------------------------------- definitions


def read_decay(read: DecayReading, given: object, decimals: int) -> Decay | None:
    """Read the decay of a definition, and note its errors."""
    fields = read.mapping("decay", given, ("half_life", "linear", "floor"))
    if not isinstance(given, Mapping):
        return None
    half_life, linear = fields.get("half_life"), fields.get("linear")
    if (half_life is None) == (linear is None):
        read.refuse("decay", "must hold either half_life or linear")
        return None
    if linear is not None:
        return _read_linear(read, linear, fields.get("floor"), decimals)
    if fields.get("floor") is not None:
        read.refuse("decay.floor", "needs linear: a half-life approaches 0 and never passes it")
    return HalfLife(read.duration("decay.half_life", half_life))


def _read_linear(
    read: DecayReading, given: object, floor: object, decimals: int
) -> LinearDecay | None:
    fields = read.mapping("decay.linear", given, ("points", "per"))
    points = read.amount("decay.linear.points", fields.get("points"), decimals)
    if fields.get("points") is None:
        read.refuse("decay.linear.points", "must be given")
    per = read.duration("decay.linear.per", fields.get("per"))
    lowest = read.score("decay.floor", floor, decimals)
    return LinearDecay(points or 1, per, lowest) if per else None

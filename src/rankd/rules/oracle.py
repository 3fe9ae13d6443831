"""The state of rules in plain Python: the reference for the native one, and its stand-in."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import isqrt
from typing import TYPE_CHECKING, NamedTuple

from rankd.rules.conditions import (
    CONSEQUENCES,
    COUNTED,
    ID_BYTES_MAX,
    KINDS,
    SCORE_RULES,
    SEEN,
    SLOT_MICROSECONDS,
    SLOTS,
    UNBOUNDED,
    VALUED,
    Condition,
    DeclaredRule,
    Field,
    RuleNumber,
    layout_of,
    read_conditions,
    slot_max,
)
from rankd.rules.state_format import seal, unseal

if TYPE_CHECKING:
    from array import array

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

STEP_FIRST, STEP_STEADY = 128, 32
"""The least steps of the usual gain, in 1/256 of a doubling: among the first gains, and later."""

STEADY_AFTER = 8

_LOGARITHM_MAX = 62 * 256 + 255
_SEEN_MAX = 2**16 - 1
_FACTOR_ONE = 1_000
_QUANTILE_ONE = 10_000
_SECOND = 1_000_000
_HOLD = CONSEQUENCES.index("hold")


def _clipped(number: int) -> int:
    return max(INT64_MIN, min(INT64_MAX, number))


# ------------------------------------------------------------------------- logarithms


def _roots() -> tuple[int, ...]:
    """Return 2**(1/2), 2**(1/4) ... 2**(1/256) as counts of 2**-63, rounded down."""
    roots = [2**64]
    for _ in range(8):
        roots.append(isqrt(roots[-1] << 63))
    return tuple(roots[1:])


ROOTS = _roots()


def power_of_two(power: int) -> int:
    """Return 2**(power/256), rounded down; the largest 64-bit number where it is more."""
    whole, part = divmod(power, 256)
    number = 2**63
    for place, root in enumerate(ROOTS):
        if part & (128 >> place):
            number = number * root >> 63
    return INT64_MAX if whole > 62 else number >> (63 - whole)


def logarithm(number: int) -> int:
    """Return the largest power/256 of two that is no more than a number above 0."""
    whole = number.bit_length() - 1
    wanted, reached, power = number << (63 - whole), 2**63, whole * 256
    for place, root in enumerate(ROOTS):
        following = reached * root >> 63
        if following <= wanted:
            reached, power = following, power | (128 >> place)
    return power


def bucket_of(score: int) -> int:
    """Return the bucket of the histogram that a score is counted in."""
    return 0 if score <= 0 else 1 + (logarithm(score) >> 4)


# ------------------------------------------------------------------------------- rows


def _empty_slots() -> list[int]:
    return [0] * SLOTS


@dataclass(slots=True)
class RuleRow:
    """The fields that the rules keep of a player; see ``conditions``."""

    flags: int = 0
    time: int = 0
    value: int = 0
    gains: list[int] = field(default_factory=_empty_slots)
    counts: list[int] = field(default_factory=_empty_slots)
    usual: int = 0
    step: int = 0
    seen: int = 0

    def copy(self) -> "RuleRow":
        """Return a row that can be changed apart from this one."""
        return replace(self, gains=list(self.gains), counts=list(self.counts))

    def arrive(self, now: int) -> int | None:
        """Bring the minute to a time; return the time since the submission before, if known."""
        waited = None
        if not self.flags & SEEN or now < self.time:
            self.gains, self.counts = _empty_slots(), _empty_slots()
        else:
            waited = _clipped(now - self.time)
            first, last = self.time // SLOT_MICROSECONDS + 1, now // SLOT_MICROSECONDS
            for slot in range(max(first, last - SLOTS + 1), last + 1):
                self.gains[slot % SLOTS] = self.counts[slot % SLOTS] = 0
        self.time = now
        return waited

    def slot(self) -> int:
        """Return the place of the slot of the latest submission."""
        return self.time // SLOT_MICROSECONDS % SLOTS

    def move_usual(self, found: int) -> None:
        """Move the usual gain towards a gain, both logarithms."""
        least = STEP_FIRST if self.seen < STEADY_AFTER else STEP_STEADY
        way = (found > self.usual) - (found < self.usual)
        if self.seen == 0:
            self.usual = found
        else:
            far = 2 * abs(self.step) if way * self.step > 0 else least
            moved = min(abs(found - self.usual), far)
            self.usual += way * moved
            self.step = way * max(moved, least)
        self.seen = min(_SEEN_MAX, self.seen + 1)


class _Observed(NamedTuple):
    """The numbers of a submission that rules are about."""

    number: int
    """The score or delta submitted."""
    result: int
    """The score that it makes."""
    gain: int
    """At least 0."""
    waited: int | None
    elapsed: int


_Breach = tuple[int, int]
"""The number observed, and the limit."""


class RuleState:
    """The state of one board's rules."""

    def __init__(
        self,
        rules: Sequence[DeclaredRule],
        rule_of_board: str,
        higher_wins: bool,
        bounds: tuple[int, int] = UNBOUNDED,
    ) -> None:
        self.rules = tuple(rules)
        self.bounds = bounds
        self.rule_of_board = SCORE_RULES[SCORE_RULES.index(rule_of_board)]
        self.higher_wins = bool(higher_wins)
        self._conditions = read_conditions(rules)
        self.layout = layout_of(self._conditions, rule_of_board)
        self._fields = Field(self.layout.fields)
        self._rows: dict[str, RuleRow] = {}
        self._histogram: dict[int, int] = {}
        self._scores = 0
        self._reasons: dict[int, list[tuple[int, int, int]]] = {}
        self._saved: tuple[dict[str, RuleRow | None], dict[int, int]] | None = None
        """Rows and buckets as they were at the savepoint, of those that were changed since."""

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def memory(self) -> int:
        """Bytes of the rows and their ids, as the native state would store them."""
        return sum(len(player.encode()) + self.layout.row_bytes for player in self._rows)

    # ---------------------------------------------------------------------- judging

    def judge(
        self,
        players: Sequence[str],
        scores: "array[int]",
        deltas: bytes | None,
        times: "array[int]",
        elapsed: "array[int] | None" = None,
    ) -> bytes | None:
        """Judge a run of submissions in order, and count them; see ``_native.pyi``."""
        columns = (scores, times, *(column for column in (deltas, elapsed) if column is not None))
        if any(len(column) != len(players) for column in columns):
            raise ValueError(f"{len(players)} submissions need as many scores and times")
        for player in players:
            _check_id(player)
        self._reasons = {}
        verdicts = bytearray()
        for place, player in enumerate(players):
            delta = deltas is not None and deltas[place] != 0
            run = 0 if elapsed is None else elapsed[place]
            verdicts.append(self._judge_one(place, player, scores[place], delta, times[place], run))
        return bytes(verdicts) if any(verdicts) else None

    def reasons(self, row: int) -> list[tuple[int, int, int]]:
        """Return the rules that a row of the last run broke: place, observed, limit."""
        return self._reasons.get(row, [])

    def _judge_one(
        self, place: int, player: str, number: int, delta: bool, now: int, elapsed: int
    ) -> int:
        known = self._rows.get(player)
        row = RuleRow() if known is None else known.copy()
        waited = row.arrive(now)
        row.flags |= SEEN
        if Field.COUNTS in self._fields:
            top = slot_max(self.layout.count_bytes)
            row.counts[row.slot()] = min(top, row.counts[row.slot()] + 1)
        observed = self._observe(row, number, delta, waited, elapsed)
        verdict = self._judge_by_rules(place, row, observed)
        if verdict < _HOLD and not self._is_outside(observed):
            self._count_gain(row, observed)
            self._count(row, observed, delta)
            if Field.HISTOGRAM in self._fields:
                self._set_bucket(bucket_of(observed.result), 1)
        if Field.FLAGS in self._fields:
            self._set_row(player, row)
        return verdict

    def _observe(
        self, row: RuleRow, number: int, delta: bool, waited: int | None, elapsed: int
    ) -> _Observed:
        valued = bool(row.flags & VALUED)
        gain, result = 0, number
        if self.rule_of_board == "first":
            pass
        elif delta or self.rule_of_board == "sum":
            gain = self._winning(number)
            if self.rule_of_board != "sum" and valued:
                result = _clipped(row.value + number)
        elif valued:
            gain = self._winning(number - row.value)
        return _Observed(number, result, _clipped(max(0, gain)), waited, elapsed)

    def _winning(self, number: int) -> int:
        return _clipped(number if self.higher_wins else -number)

    def _judge_by_rules(self, place: int, row: RuleRow, observed: _Observed) -> int:
        broken: list[tuple[int, int, int]] = []
        verdict = 0
        for number, condition in enumerate(self._conditions):
            judge = _JUDGES[RuleNumber(condition.rule)]
            if (breach := judge(self, condition, row, observed)) is not None:
                broken.append((number, *breach))
                verdict = max(verdict, condition.then)
        if broken:
            self._reasons[place] = broken
        return verdict

    def _gain_per_minute(
        self, condition: Condition, row: RuleRow, observed: _Observed
    ) -> _Breach | None:
        total = _clipped(sum(row.gains) + observed.gain)
        broken = observed.gain > 0 and total > condition.limit
        return (total, condition.limit) if broken else None

    def _submissions_per_minute(
        self, condition: Condition, row: RuleRow, _observed: _Observed
    ) -> _Breach | None:
        total = _clipped(sum(row.counts))
        return (total, condition.limit) if total > condition.limit else None

    def _seconds_between(
        self, condition: Condition, _row: RuleRow, observed: _Observed
    ) -> _Breach | None:
        if observed.waited is None or observed.waited >= condition.limit:
            return None
        return observed.waited, condition.limit

    def _first_score(
        self, condition: Condition, row: RuleRow, observed: _Observed
    ) -> _Breach | None:
        if row.flags & COUNTED or not self._is_beyond(observed.number, condition.limit):
            return None
        return observed.number, condition.limit

    def _is_beyond(self, number: int, limit: int) -> bool:
        return number > limit if self.higher_wins else number < limit

    def _outlier_self(
        self, condition: Condition, row: RuleRow, observed: _Observed
    ) -> _Breach | None:
        if row.seen < max(1, condition.after):
            return None
        limit = _clipped(power_of_two(row.usual + 1) * condition.limit // _FACTOR_ONE)
        return (observed.gain, limit) if observed.gain > limit else None

    def _outlier_field(
        self, condition: Condition, _row: RuleRow, observed: _Observed
    ) -> _Breach | None:
        if self._scores < max(1, condition.after):
            return None
        below = -(-self._scores * condition.quantile // _QUANTILE_ONE)
        bucket = self._find_bucket(below if self.higher_wins else self._scores - below + 1)
        if bucket == 0:
            return None
        if self.higher_wins:
            limit = power_of_two(bucket << 4) * condition.limit // _FACTOR_ONE
        else:
            limit = power_of_two((bucket - 1) << 4) * _FACTOR_ONE // condition.limit
        limit = _clipped(limit)
        return (observed.result, limit) if self._is_beyond(observed.result, limit) else None

    def _find_bucket(self, k: int) -> int:
        """Return the bucket of the k-th score from below, which counts from 1."""
        for bucket in sorted(self._histogram):
            k -= self._histogram[bucket]
            if k <= 0:
                return bucket
        raise AssertionError("the histogram has fewer scores than were counted")

    def _per_second_of_run(
        self, condition: Condition, _row: RuleRow, observed: _Observed
    ) -> _Breach | None:
        score = self._winning(observed.number)
        if observed.elapsed <= 0 or score * _SECOND <= condition.limit * observed.elapsed:
            return None
        return _clipped(-(-score * _SECOND // observed.elapsed)), condition.limit

    def count(self, player: str, number: int, kind: str) -> None:
        """Count a submission that is not judged; see ``_native.pyi``."""
        KINDS.index(kind)
        _check_id(player)
        known = self._rows.get(player)
        row = RuleRow(time=INT64_MIN) if known is None else known.copy()
        row.flags |= SEEN
        delta, valued, before = kind == "delta", row.flags & VALUED, row.value
        observed = self._observe(row, number, delta, None, 0)
        if kind == "replaces":
            row.flags |= COUNTED
            if Field.VALUE in self._fields:
                row.value, row.flags = number, row.flags | VALUED
        else:
            self._count(row, observed, delta)
            if self.rule_of_board == "latest" and not delta and valued:
                row.value = before
            if Field.HISTOGRAM in self._fields:
                self._set_bucket(bucket_of(observed.result), 1)
        if Field.FLAGS in self._fields:
            if Field.TIME not in self._fields:
                row.time = 0
            self._set_row(player, row)

    def _is_outside(self, observed: _Observed) -> bool:
        low, high = self.bounds
        return Field.VALUE in self._fields and not low <= observed.result <= high

    def _count_gain(self, row: RuleRow, observed: _Observed) -> None:
        if Field.GAINS in self._fields:
            top = slot_max(self.layout.gain_bytes)
            row.gains[row.slot()] = min(top, row.gains[row.slot()] + observed.gain)

    def _count(self, row: RuleRow, observed: _Observed, delta: bool) -> None:
        if Field.USUAL in self._fields and observed.gain > 0:
            row.move_usual(logarithm(observed.gain))
        if Field.VALUE in self._fields:
            best = self.rule_of_board == "best" and not delta and row.flags & VALUED
            if not best or self._is_beyond(observed.number, row.value):
                row.value = observed.result
            row.flags |= VALUED
        row.flags |= COUNTED

    # ------------------------------------------------------------------ rows and undo

    def _set_row(self, player: str, row: RuleRow | None) -> None:
        if self._saved is not None:
            self._saved[0].setdefault(player, self._rows.get(player))
        if row is None:
            del self._rows[player]
        else:
            self._rows[player] = row

    def _set_bucket(self, bucket: int, more: int) -> None:
        before = self._histogram.get(bucket, 0)
        if self._saved is not None:
            self._saved[1].setdefault(bucket, before)
        self._histogram[bucket] = before + more
        self._scores += more

    def forget(self, player: str) -> bool:
        """Start a player anew. Returns whether it had a row."""
        _check_id(player)
        if player not in self._rows:
            return False
        self._set_row(player, None)
        return True

    def savepoint(self) -> None:
        """Begin to remember changes; a savepoint before this one is released."""
        self._saved = {}, {}

    def rollback(self) -> None:
        """Undo the changes since the savepoint and end it. RuntimeError without one."""
        if self._saved is None:
            raise RuntimeError("there is no savepoint to go back to")
        rows, buckets = self._saved
        self._saved = None
        for player, row in rows.items():
            if row is not None:
                self._rows[player] = row
            elif player in self._rows:
                del self._rows[player]
        self._histogram.update(buckets)
        self._scores = sum(self._histogram.values())

    def release(self) -> None:
        """Keep the changes since the savepoint and end it, if there is one."""
        self._saved = None

    # ------------------------------------------------------------------------- copies

    def copy(self) -> "RuleState":
        """Return a copy without savepoint."""
        made = RuleState(self.rules, self.rule_of_board, self.higher_wins, self.bounds)
        made._rows = {player: row.copy() for player, row in self._rows.items()}
        made._histogram, made._scores = dict(self._histogram), self._scores
        return made

    def redefined(
        self,
        rules: Sequence[DeclaredRule],
        scale: int = 1,
        bounds: tuple[int, int] = UNBOUNDED,
    ) -> "RuleState":
        """Return the state for other rules of the same board; see ``_native.pyi``."""
        made = RuleState(rules, self.rule_of_board, self.higher_wins, bounds)
        if scale == 1 and Field.HISTOGRAM in self._fields & made._fields:
            made._histogram, made._scores = dict(self._histogram), self._scores
        if Field.FLAGS not in made._fields:
            return made
        for player, row in self._rows.items():
            if not row.flags & COUNTED:
                continue
            after = RuleRow(SEEN | COUNTED, INT64_MIN if Field.TIME in made._fields else 0)
            if row.flags & VALUED and Field.VALUE in made._fields:
                after.value, after.flags = _clipped(row.value * scale), after.flags | VALUED
            made._rows[player] = after
        return made

    def save(self) -> bytes:
        """Return the state as bytes."""
        body = bytearray()
        for player, row in self._rows.items():
            text = player.encode()
            body += len(text).to_bytes(2, "little") + text + self._packed(row)
        buckets = sorted(item for item in self._histogram.items() if item[1])
        return seal(self, len(self._rows), bytes(body), buckets)

    def load(self, data: bytes) -> None:
        """Fill the state of a board without submissions with the bytes that ``save`` returned."""
        if self._rows or self._scores or self._saved is not None:
            raise ValueError("only the state of a board without submissions can be loaded")
        players, body, buckets = unseal(self, data)
        rows = self._read_rows(players, body)
        self._rows, self._histogram = rows, dict(buckets)
        self._scores = sum(self._histogram.values())

    def _read_rows(self, players: int, body: bytes) -> dict[str, RuleRow]:
        rows: dict[str, RuleRow] = {}
        at, row_bytes = 0, self.layout.row_bytes
        while len(rows) < players and len(body) - at >= 2:
            length = int.from_bytes(body[at : at + 2], "little")
            begin = at + 2 + length
            if not 1 <= length <= ID_BYTES_MAX or begin + row_bytes > len(body):
                raise ValueError("the saved state of rules has a player without an id or a row")
            player = body[at + 2 : begin].decode()
            row = self._unpacked(body[begin : begin + row_bytes])
            if player in rows:
                raise ValueError("the saved state of rules has a player twice")
            rows[player] = row
            at = begin + row_bytes
        if len(rows) < players or at != len(body):
            raise ValueError("the saved state of rules has more or fewer players than it says")
        return rows

    def _parts(self, row: RuleRow) -> list[tuple[Field, int, list[int]]]:
        return [
            (Field.FLAGS, 1, [row.flags]),
            (Field.TIME, 8, [row.time % 2**64]),
            (Field.VALUE, 8, [row.value % 2**64]),
            (Field.GAINS, self.layout.gain_bytes, row.gains),
            (Field.COUNTS, self.layout.count_bytes, row.counts),
            (Field.USUAL, 2, [row.usual, row.step % 2**16, row.seen]),
        ]

    def _packed(self, row: RuleRow) -> bytes:
        return b"".join(
            number.to_bytes(size, "little")
            for kind, size, numbers in self._parts(row)
            if kind in self._fields
            for number in numbers
        )

    def _unpacked(self, data: bytes) -> RuleRow:
        read: dict[Field, list[int]] = {}
        at = 0
        for kind, size, numbers in self._parts(RuleRow()):
            read[kind] = numbers
            if kind in self._fields:
                end = at + size * len(numbers)
                places = range(at, end, size)
                read[kind] = [int.from_bytes(data[i : i + size], "little") for i in places]
                at = end
        (flags,), (time,), (value,) = read[Field.FLAGS], read[Field.TIME], read[Field.VALUE]
        gains, counts, (usual, step, seen) = (
            read[Field.GAINS],
            read[Field.COUNTS],
            read[Field.USUAL],
        )
        step = _signed(step, 16)
        within = flags & SEEN and flags <= SEEN | COUNTED | VALUED
        within = within and max(usual, abs(step)) <= _LOGARITHM_MAX
        if not within or max(*gains, *counts) > INT64_MAX:
            raise ValueError("the saved state of rules has a row out of bounds")
        return RuleRow(
            flags, _signed(time, 64), _signed(value, 64), gains, counts, usual, step, seen
        )

    def check(self) -> None:
        """Assert that the histogram agrees with its count, and that rows are within bounds."""
        assert self._scores == sum(self._histogram.values())
        for row in self._rows.values():
            self._unpacked(self._packed(row))


def _signed(number: int, bits: int) -> int:
    return number - 2**bits if number >> (bits - 1) else number


def _check_id(player: str) -> None:
    size = len(player.encode())
    if not 1 <= size <= ID_BYTES_MAX:
        raise ValueError(f"a player id has 1 to {ID_BYTES_MAX} bytes of UTF-8, not {size}")


_Judge = Callable[[RuleState, Condition, RuleRow, _Observed], _Breach | None]

_JUDGES: dict[RuleNumber, _Judge] = {
    RuleNumber.GAIN_PER_MINUTE: RuleState._gain_per_minute,
    RuleNumber.SUBMISSIONS_PER_MINUTE: RuleState._submissions_per_minute,
    RuleNumber.SECONDS_BETWEEN: RuleState._seconds_between,
    RuleNumber.FIRST_SCORE: RuleState._first_score,
    RuleNumber.OUTLIER_SELF: RuleState._outlier_self,
    RuleNumber.OUTLIER_FIELD: RuleState._outlier_field,
    RuleNumber.PER_SECOND_OF_RUN: RuleState._per_second_of_run,
}

"""Used runs: a part of the state, by which each run counts once.

A run's id tells when it expires. It is remembered until no submission with it can be recorded any
more, by the ledger's time alone; later such a submission is refused as expired. So the memory is
bounded by the runs of a day, and every fold of the same facts refuses the same ones.
"""

from collections.abc import Hashable, Iterator
from itertools import chain, islice
from typing import Any, Protocol

from rankd.model.runs import RUN_BYTES, RunId, forgotten_before, hour_of, read_run_id
from rankd.model.submission import RUN_EXPIRED, RUN_USED, Rejected
from rankd.model.window import Instant


class KeepsValues(Protocol):
    """A journal, which keeps values before they are changed."""

    def keep(self, rows: dict[Any, Any], key: Hashable) -> None:
        """Keep an item, or its absence."""


class UsedRuns:
    """The used runs whose time is not over, some 130 bytes each."""

    def __init__(self) -> None:
        self.by_hour: dict[int, dict[bytes, None]] = {}
        """By the hour in which they expire."""
        self.forgotten = 0
        """The first hour of expiry that is remembered."""
        self.void_before = Instant(0)
        self.void_hour = 0
        """Runs that began before ``void_before`` and expire before this hour are as good as used:
        they were forgotten by a time that was wrong, and has been corrected since."""

    def __len__(self) -> int:
        return sum(map(len, self.by_hour.values()))

    def use(self, run: str, at: Instant, journal: KeepsValues | None) -> Rejected | None:
        """Note the use of a run at the ledger's time; return why it cannot be used, if so."""
        found = read_run_id(run)
        self._forget(forgotten_before(at), journal)
        if found is None or self._is_over(found):
            return RUN_EXPIRED
        hour = hour_of(found)
        if hour not in self.by_hour:
            _keep(journal, self.by_hour, hour)
            self.by_hour[hour] = {}
        used = self.by_hour[hour]
        if found.packed in used:
            return RUN_USED
        _keep(journal, used, found.packed)
        used[found.packed] = None
        return None

    def correct_time(self, at: Instant, journal: KeepsValues | None) -> None:
        """Go on at a time that is right: runs that begin from here on are good."""
        for name in ("forgotten", "void_before", "void_hour"):
            _keep(journal, vars(self), name)
        self.void_before = max(self.void_before, at)
        self.void_hour = max(self.void_hour, self.forgotten)
        self.forgotten = min(self.forgotten, forgotten_before(at))

    def _is_over(self, run: RunId) -> bool:
        hour = hour_of(run)
        is_void = run.started < self.void_before and hour < self.void_hour
        return hour < self.forgotten or is_void

    def _forget(self, hour: int, journal: KeepsValues | None) -> None:
        if hour <= self.forgotten:
            return
        _keep(journal, vars(self), "forgotten")
        self.forgotten = hour
        for past in [known for known in self.by_hour if known < hour]:
            _keep(journal, self.by_hour, past)
            del self.by_hour[past]

    def copy(self) -> "UsedRuns":
        """Return the same runs, to be added to on their own."""
        twin = UsedRuns()
        vars(twin).update(vars(self))
        twin.by_hour = {hour: dict(used) for hour, used in self.by_hour.items()}
        return twin

    def frames(self, runs_each: int) -> Iterator[bytes]:
        """Return the runs as bytes, so many at a time; of a copy, for they are read lazily."""
        runs = iter(list(chain.from_iterable(self.by_hour.values())))
        while some := list(islice(runs, runs_each)):
            yield b"".join(some)

    def extend(self, frame: bytes) -> None:
        """Add the runs of a frame."""
        for start in range(0, len(frame), RUN_BYTES):
            run = RunId.unpacked(frame[start : start + RUN_BYTES])
            self.by_hour.setdefault(hour_of(run), {})[run.packed] = None


def _keep(journal: KeepsValues | None, rows: dict[Any, Any], key: Hashable) -> None:
    if journal is not None:
        journal.keep(rows, key)

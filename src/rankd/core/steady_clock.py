"""Ledger time from a machine's clock: the one place where a reading of a wall clock is believed.

A wall clock may be set, by a person, by NTP or by a fault; a counter of elapsed time may not. The
steady clock goes on by the counter and follows the wall clock in small differences only. A larger
one is a *step*. It is reported and not followed until it has lasted or an operator confirms it. A
restart confirms it too, since the clock is believed at a start.

1. Between two readings ``now`` grows by the elapsed time, give or take 1/SLEW_PART of it, unless
   a step was believed in between.
2. A step that is taken back before it has lasted leaves no trace.
3. A step counts from its first reading; one that changes by more than STEP_MICROSECONDS begins
   anew, so a clock that runs fast or jumps about is never believed.
4. A clock without a counter, such as one that a test sets, is believed as it is.

With a reference, such as the clock of a server that nodes share, the machine's clock is not asked:
the reference is carried on by the counter, and judged by the same rules.

A monitor logs a line when time is wrong, with its advice: the clock stepped and is not believed
yet; the ledger has facts of a time that the clock has not reached; or the clock of the machine
differs from that of the server whose time is used.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple

from rankd.errors import RankdError
from rankd.model.window import Instant
from rankd.ports import Clock, CountingClock, LedgerReader, TimeServer

STEP_MICROSECONDS = 3_000_000
"""The largest difference that is followed; NTP slews away far less."""

SLEW_PART = 20
"""A small difference is made up for by 1/20 of the elapsed time: three seconds within a minute."""

ANCHORED_MICROSECONDS = 1_000_000
"""How long a reading is counted on from: shorter stretches would round the slew away."""

LASTING_SECONDS = 600.0
"""How long a step must last by default: longer than a restart of a time service takes."""

AHEAD_MICROSECONDS = 31 * 86_400_000_000
"""How far a start may lie behind the last fact without a note: a service may rest for a month."""

_log = logging.getLogger(__name__)


class ClockOffset(NamedTuple):
    """A difference between the clock and the elapsed time that is not believed yet."""

    offset: int
    """The clock minus the time counted on, in microseconds."""
    since: int
    """The counter at its first reading."""


class CertainTime(NamedTuple):
    """The time up to which retention may delete."""

    through: Instant
    again_at: Instant
    """When to ask again; ``through`` reaches it then unless the clock steps."""


class _Anchor(NamedTuple):
    time: Instant
    counter: int


class SteadyClock:
    """A clock that goes on evenly while the one behind it is set."""

    def __init__(
        self, wall: Clock, *, lasting_seconds: float = LASTING_SECONDS, recorded: Instant = 0
    ) -> None:
        """Begin at the wall clock's time; ``recorded`` is the time of the ledger's last fact."""
        self.wall = wall
        self.lasting_seconds = lasting_seconds
        self.step: ClockOffset | None = None
        self.confirmations = 0
        """How many steps were confirmed."""
        self._counting = wall if isinstance(wall, CountingClock) else None
        self._lasting = int(lasting_seconds * 1_000_000)
        self._recorded = recorded
        self._reference: _Anchor | None = None
        self._anchor = _Anchor(wall.now(), self._counter())
        self._steady_since = self._anchor.counter

    @property
    def counts(self) -> bool:
        """Whether there is a counter to hold the clock against."""
        return self._counting is not None

    @property
    def referenced(self) -> bool:
        """Whether another clock than the machine's is followed."""
        return self._reference is not None

    def _counter(self) -> int:
        return 0 if self._counting is None else self._counting.elapsed()

    def now(self) -> Instant:
        """Return the time that is believed."""
        if self._counting is None:
            return self.wall.now()
        counter = self._counter()
        anchor, reading = self._anchor, self._read(counter)
        elapsed = counter - anchor.counter
        expected = anchor.time + elapsed
        difference = reading - expected
        if abs(difference) > STEP_MICROSECONDS:
            return self._doubt(reading, difference, counter, expected)
        if self.step is not None:
            self._take_back()
        slew = elapsed // SLEW_PART
        time = expected + max(-slew, min(slew, difference))
        if elapsed >= ANCHORED_MICROSECONDS:
            self._anchor = _Anchor(time, counter)
        return time

    def _read(self, counter: int) -> Instant:
        if self._reference is None:
            return self.wall.now()
        return self._reference.time + counter - self._reference.counter

    def _doubt(self, reading: Instant, difference: int, counter: int, expected: Instant) -> Instant:
        """Note a step, or believe it once it has lasted."""
        step = self.step
        if step is None or abs(difference - step.offset) > STEP_MICROSECONDS:
            self.step = ClockOffset(difference, counter)
            if step is None:
                _log.warning(
                    "the clock stepped by %s; ledger time goes on without it until it has lasted "
                    "%d s or is confirmed: rankd clock confirm",
                    shown_span(difference),
                    self.lasting_seconds,
                )
            return expected
        # A reference is seen only when it is asked: what was not asked since has not lasted.
        seen = counter if self._reference is None else self._reference.counter
        if seen - step.since < self._lasting:
            return expected
        _log.warning("the clock's step by %s has lasted; it is believed", shown_span(step.offset))
        self._believe(reading, counter)
        return reading

    def _take_back(self) -> None:
        self.step = None
        _log.warning("the clock's step was taken back; ledger time did not follow it")

    def _believe(self, reading: Instant, counter: int) -> None:
        self.step = None
        self._anchor = _Anchor(reading, counter)
        self._steady_since = counter
        self._recorded = 0

    def confirm(self) -> ClockOffset | None:
        """Believe the step that is being doubted; return it, None if there is none."""
        self.now()
        step = self.step
        if step is not None:
            counter = self._counter()
            _log.warning("the clock's step by %s was confirmed", shown_span(step.offset))
            self.confirmations += 1
            self._believe(self._read(counter), counter)
        return step

    def doubted_seconds(self) -> float:
        """Return how long ago the step was first seen that is being doubted; 0 without one."""
        return 0.0 if self.step is None else (self._counter() - self.step.since) / 1_000_000

    def refer(self, time: Instant, *, counter: int) -> None:
        """Follow a reference that showed ``time`` when the counter was there.

        The first one is believed at once: a machine whose own clock is wrong begins right.
        """
        first = self._reference is None
        self._reference = _Anchor(time, counter)
        if first:
            difference = self.wall.now() - self._read(self._counter())
            if abs(difference) > STEP_MICROSECONDS:
                _log.warning(
                    "this machine's clock is %s against the ledger's server, whose time is used",
                    shown_span(difference),
                )
            self._anchor = self._reference

    def counter(self) -> int:
        """Return the elapsed time that ``refer`` is told."""
        return self._counter()

    def lasted(self) -> CertainTime:
        """Return how far time has lasted.

        Time has lasted if the clock ran steadily for ``lasting_seconds``. Before that, so has the
        time of the last fact before the start, if it lies that long ago: so short-lived processes
        delete due windows, too.
        """
        now = self.now()
        if self._counting is None:
            return CertainTime(now, now)
        steady = self._counter() - self._steady_since
        if self.step is None and steady >= self._lasting:
            return CertainTime(now, now)
        remaining = self._lasting if self.step is not None else self._lasting - steady
        known = self._recorded if now - self._recorded >= self._lasting else 0
        return CertainTime(known, now + remaining)


def steady(clock: Clock) -> SteadyClock:
    """Return a clock as one that is steady, which it may be already."""
    return clock if isinstance(clock, SteadyClock) else SteadyClock(clock)


def clock_problem(clock: SteadyClock, ledger_time: Instant) -> str | None:
    """Return how ledger time and the clock differ, with a remedy; None if they agree."""
    now = clock.now()
    if ledger_time - now > STEP_MICROSECONDS:
        return (
            f"ledger time is {shown_span(ledger_time - now)} against the clock, and stands still "
            "until the clock is there: set the clock if that is wrong; if the ledger is, correct "
            "it: rankd clock correct"
        )
    if clock.step is not None:
        return (
            f"the clock stepped by {shown_span(clock.step.offset)}, which ledger time does not "
            f"follow until it has lasted {clock.lasting_seconds:g} s: set the clock right, or "
            "confirm the step: rankd clock confirm"
        )
    offset = clock.wall.now() - now
    if abs(offset) > STEP_MICROSECONDS and clock.referenced:
        return (
            f"this machine's clock is {shown_span(offset)} against that of the ledger's server, "
            "whose time is used: set it (NTP)"
        )
    return None


def shown_span(microseconds: int) -> str:
    """Return a signed span for people: ``+3,652 days``, ``-4.0 s``."""
    seconds = microseconds / 1_000_000
    for size, unit in ((86_400, "days"), (3_600, "h")):
        if abs(seconds) >= 2 * size:
            return f"{seconds / size:+,.0f} {unit}"
    return f"{seconds:+,.1f} s"


LOOK_SECONDS = 10.0
"""How often the server is asked: a step that lasts is seen many times before it is believed."""


class ClockMonitor:
    """Looks after a steady clock while the engine runs."""

    def __init__(
        self, clock: SteadyClock, ledger: LedgerReader, ledger_time: Callable[[], Instant]
    ) -> None:
        self._clock = clock
        self._server = ledger if isinstance(ledger, TimeServer) and clock.counts else None
        self._ledger_time = ledger_time
        self._problem: str | None = None

    async def run(self) -> None:
        """Look again and again until the engine stops."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Ask the server, and log a problem when it begins or ends."""
        await self._ask()
        problem = clock_problem(self._clock, self._ledger_time())
        if problem is not None and self._problem is None:
            _log.warning("%s", problem)
        elif problem is None and self._problem is not None:
            _log.warning("ledger time and the clock agree again")
        self._problem = problem

    async def _ask(self) -> None:
        if self._server is None:
            return
        before = self._clock.counter()
        try:
            time = await self._server.server_time()
        except RankdError:
            return  # Its loss is told elsewhere; time goes on by the counter.
        after = self._clock.counter()
        if after - before <= STEP_MICROSECONDS:
            self._clock.refer(time, counter=(before + after) // 2)


def note_start(clock: SteadyClock, recorded: Instant) -> None:
    """Log it if the clock at a start lies far from the ledger's last fact."""
    now = clock.now()
    if recorded and now - recorded > AHEAD_MICROSECONDS:
        _log.warning(
            "the clock is %s against the last fact, and is believed: if it is wrong, set it, then "
            "take back what it did to windows: rankd clock correct",
            shown_span(now - recorded),
        )
    elif (problem := clock_problem(clock, max(now, recorded))) is not None:
        _log.warning("%s", problem)

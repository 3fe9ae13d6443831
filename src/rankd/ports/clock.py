"""The port of time."""

from typing import Protocol, runtime_checkable

from rankd.model.window import Instant


class Clock(Protocol):
    """The time. The core has no other source of it, so a test can simulate years."""

    def now(self) -> Instant:
        """Return the time. It may go back; ledger time does not."""


@runtime_checkable
class CountingClock(Clock, Protocol):
    """A machine's clock, which may be set, with a counter of elapsed time, which may not."""

    def elapsed(self) -> int:
        """Return microseconds since an arbitrary moment, including time the machine slept."""

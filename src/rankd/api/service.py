"""What handlers work with: the engine, the gate, and the bounds in force."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from rankd.api.access import Gate
from rankd.api.pages import Pages
from rankd.core.service import Rankd
from rankd.core.view import View
from rankd.model.window import Instant
from rankd.ports import Clock, LedgerReader

MIN_POSITION_SECONDS_MAX = 5.0
"""How long a read waits for the position it asks for."""


@dataclass(slots=True)
class Service:
    """One running service."""

    rankd: View
    """What is read."""
    ledger: LedgerReader
    gate: Gate
    clock: Clock
    durable: bool
    engine: Rankd | None = None
    """What writes; None where another process does, and writes are handed on to it."""
    pages: Pages = field(default_factory=Pages)
    stopping: Callable[[], bool] = lambda: False

    @property
    def writer(self) -> Rankd:
        """What writes. Routes that write are never handled where there is none."""
        assert self.engine is not None, "writes are handed on"
        return self.engine


def show_time(instant: Instant | None) -> str | None:
    """Return a time as RFC 3339, in UTC."""
    if instant is None:
        return None
    shown = datetime.fromtimestamp(instant // 1_000_000, UTC)
    micros = instant % 1_000_000
    text = shown.strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{micros:06}Z" if micros else f"{text}Z"

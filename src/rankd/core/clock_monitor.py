"""The clock's supervision: a second opinion where there is one, and a log line when time is wrong.

Ledger time may differ from the clock in three ways, and each has its advice: the clock stepped and
is not believed yet; the ledger has facts of a time that the clock has not reached; or the clock of
the machine differs from that of the server whose time is used.
"""

import asyncio
import logging
from collections.abc import Callable

from rankd.core.steady_clock import (
    AHEAD_MICROSECONDS,
    STEP_MICROSECONDS,
    SteadyClock,
    clock_problem,
    shown_span,
)
from rankd.errors import RankdError
from rankd.model.window import Instant
from rankd.ports import LedgerReader, TimeServer

LOOK_SECONDS = 10.0
"""How often the server is asked: a step that lasts is seen many times before it is believed."""

_log = logging.getLogger(__name__)


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

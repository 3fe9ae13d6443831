"""A process that follows another's writes: the same fold again, over the same ledger.

It is told when there is more to read, and looks by itself now and then in case nobody told it. What
it answers is as true as the writer's answer was at that position, and says which that is.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rankd.core.projector import Projector, Tell
from rankd.core.recovery import Build, recover
from rankd.core.view import View
from rankd.errors import LedgerUnavailable, RankdError
from rankd.ports import Clock, LedgerReader

LOOK_SECONDS = 0.05
"""How long a word from the writer may be missing before one looks without it."""

_log = logging.getLogger(__name__)


class Follower(View):
    """A view that goes on with the ledger."""

    def __init__(self, ledger: LedgerReader, projector: Projector, clock: Clock) -> None:
        super().__init__(projector, clock)
        self._ledger = ledger
        self._more = asyncio.Event()
        self._failure: RankdError | None = None

    @property
    def failure(self) -> RankdError | None:
        """Why nothing new is seen, if that is so."""
        return self._failure

    def wake(self) -> None:
        """Say that there is more to read."""
        self._more.set()

    async def run(self) -> None:
        """Follow until cancelled. What cannot be read or folded ends it, and is told."""
        try:
            while True:
                try:
                    async with asyncio.timeout(LOOK_SECONDS):
                        await self._more.wait()
                except TimeoutError:
                    pass
                self._more.clear()
                head = await self._ledger.head()
                if head > self.position:
                    await self.projector.catch_up(through=head)
        except RankdError as exc:
            self._failure = exc
            _log.error("the ledger can be followed no longer: %s", exc)
        except Exception as exc:
            self._failure = LedgerUnavailable(f"following failed: {exc!r}", applied="no")
            _log.exception("following failed")


@asynccontextmanager
async def following(
    *, ledger: LedgerReader, build: Build, clock: Clock, tell: Tell
) -> AsyncIterator[Follower]:
    """Come as far as the ledger is, and go on with it."""
    found = await recover(ledger, build, tell)
    follower = Follower(ledger, found.projector, clock)
    task = asyncio.create_task(follower.run(), name="follower")
    try:
        yield follower
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

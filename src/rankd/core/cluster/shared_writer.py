"""The write path of one node among several, which append to one ledger.

The node folds the facts of others before its own. A shared ledger may be lost and come back. While
it is lost a second task refuses the waiting requests, or spools them: the writer may still be
resolving its last append, and the requests behind that one were certainly not appended.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar
from uuid import uuid4

import msgspec

from rankd.core.fold import counts_on
from rankd.core.receipts import Receipts
from rankd.core.supervisor import Supervisor
from rankd.core.writer import PendingWrite, Writer, WriteResult
from rankd.errors import LedgerUnavailable, RankdError
from rankd.model.facts import Fact, Position, Recorded, is_submission
from rankd.model.window import Instant
from rankd.ports import Appended, SharedLedger, Spool

_log = logging.getLogger(__name__)


class SharedWriter(Writer):
    """A writer over a ledger to which other nodes append, too."""

    alone: ClassVar[bool] = False

    def __init__(
        self, *, ledger: SharedLedger, spool: Spool | None, supervisor: Supervisor, **parts: Any
    ) -> None:
        super().__init__(ledger=ledger, **parts)
        self.spool = spool
        self._server = ledger
        self._spool_refuses = False
        self._supervisor = supervisor
        self._arrived = asyncio.Event()
        """Set with new requests, for the task that refuses them."""
        self._refusing = asyncio.Lock()
        """Held while some are refused that the writer does not know of any more."""

    async def run(self) -> None:
        """Serve until closed, then until nothing waits any more."""
        refuser = self._supervisor.start("refuser", self._refuse_while_lost)
        try:
            await self._write()
        finally:
            async with self._refusing:
                refuser.cancel()
            await asyncio.gather(refuser, return_exceptions=True)

    async def _rest(self) -> None:
        """Store outstanding receipts: clients may ask another node for them."""
        if self.receipts.due:
            await self._hand_in_receipts()
        await super()._rest()

    async def finish(self) -> None:
        """Refuse the requests that are left, and store outstanding receipts."""
        await super().finish()
        if self.failure is None and self.receipts.due:
            await self._hand_in_receipts()

    async def _hand_in_receipts(self) -> None:
        """Store outstanding receipts when the writer is idle.

        Clients may ask another node for them.
        """
        async with self._turn:
            with suppress(LedgerUnavailable):  # They stay in the buffer.
                await self.record([])

    async def _refuse_while_lost(self) -> None:
        """Refuse requests while the ledger is lost, also while the writer is blocked."""
        while True:
            loss = await self._server.lost()
            self._arrived.clear()
            if not self._waiting:
                await self._arrived.wait()
                continue
            async with self._refusing:
                with self._taken() as requests:
                    await self._turn_away(self._current(requests), loss)

    async def _come(self) -> None:
        if not self._turn.locked():
            await self._turn.acquire()
            return
        coming = asyncio.ensure_future(self._turn.acquire())
        losing = asyncio.ensure_future(self._server.lost())
        try:
            await asyncio.wait({coming, losing}, return_when=asyncio.FIRST_COMPLETED)
            if not coming.done() and losing.exception() is None:
                raise losing.result()
            await coming
        except BaseException:
            if coming.done() and not coming.cancelled():
                self._turn.release()
            coming.cancel()
            raise
        finally:
            losing.cancel()

    def _rouse(self) -> None:
        super()._rouse()
        self._arrived.set()

    # ------------------------------------------------------------------------ recording

    async def catch_up_others(self, through: Position | None = None) -> None:
        """Fold the facts of other nodes, up to the head or a position. The writer must be held."""
        projector = self.projector
        target = await self._ledger.head() if through is None else through
        if projector.checkpoint < target:
            with self._reading:
                await projector.catch_up(through=target, collect=self.receipts.add_others)
            if through is None:  # Otherwise what is about to be folded brings its own link.
                self.link = await self._ledger.link_at(projector.checkpoint) or b""
            self._look_ahead(self.now())

    async def see_others(self) -> None:
        """Do the same, when the turn comes."""
        async with self.turn():
            await self.catch_up_others()

    async def _fold(self, recorded: Sequence[Recorded], appended: Appended) -> Receipts:
        """Fold the facts of others before these, or the repeated ones where all are repeated."""
        if recorded:
            await self.catch_up_others(Position(recorded[0].position - 1))
        elif appended.first_uses:
            await self.catch_up_others(max(use.position for use in appended.first_uses.values()))
        return await super()._fold(recorded, appended)

    def _passes(self, error: BaseException) -> bool:
        """Whether the ledger is lost: it goes on by itself when it can."""
        return isinstance(error, LedgerUnavailable)

    def _appended_at(self, now: Instant) -> Instant:
        """Return the time for an append.

        The ledger sees to it that time does not go back, and knows of corrections before this node.
        """
        return min(now, self._clock.now())

    def _ready(self, facts: Sequence[Fact]) -> Sequence[Fact]:
        return list(map(self._marked, facts))

    def _marked(self, fact: Fact) -> Fact:
        """Say in a submission which definition it was read under: others may append before it."""
        page = self.projector.state.boards.get(getattr(fact, "board", ""))
        if page is None or not is_submission(fact):
            return fact
        return msgspec.structs.replace(fact, defined=page.defined_at)

    def _completed(
        self, answers: Sequence[WriteResult], facts: Sequence[Fact]
    ) -> Sequence[WriteResult]:
        """Say so where a receipt is missing that there will be."""
        boards = self.projector.state.boards
        return [
            msgspec.structs.replace(answer, pending=fact)
            if answer.receipt is None
            and answer.error is None
            and is_submission(fact)
            and counts_on(boards.get(fact.board), fact)
            else answer
            for answer, fact in zip(answers, facts, strict=True)
        ]

    # ------------------------------------------------------------------------- spooling

    async def _turn_away(self, requests: Sequence[PendingWrite], error: RankdError) -> None:
        """Say why nothing was appended, or have it spooled if certainly nothing was."""
        if self.spool is not None and getattr(error, "applied", None) == "no":
            requests = await self._spooled(self.spool, requests)
        self._refuse(requests, error)

    async def _spooled(self, spool: Spool, requests: Sequence[PendingWrite]) -> list[PendingWrite]:
        """Keep submissions until the ledger is back; return the requests that must be refused.

        Each gets a key if it has none, so that it counts once, however often it is sent.
        """
        kept = [request for request in requests if request.facts and _waits(request)]
        facts = [_with_key(self._marked(fact)) for request in kept for fact in request.facts]
        try:
            if facts:
                waiting = spool.waiting
                await spool.put(facts)
                self.spooled += len(facts)
                self._spool_refuses = False
                if not waiting:
                    _log.warning("scores wait on this node's disk until the ledger is back")
        except RankdError as exc:
            if not self._spool_refuses:
                _log.warning("scores that were to wait on this node's disk are refused: %s", exc)
            self._spool_refuses = True
            self._refuse(kept, exc)
        else:
            self._tell((request, _pending(request)) for request in kept)
        return [request for request in requests if request not in kept]


def _waits(request: PendingWrite) -> bool:
    """Whether these may be counted later than they were made: submissions, but not for a prize."""
    return all(is_submission(fact) for fact in request.facts) and not any(
        board.prize for board in request.boards
    )


def _pending(request: PendingWrite) -> Sequence[WriteResult]:
    return [WriteResult(Position(0), None, pending=fact) for fact in request.facts]  # type: ignore[arg-type]


def _with_key(fact: Fact) -> Fact:
    assert is_submission(fact)
    if fact.key is not None:
        return fact
    return msgspec.structs.replace(fact, key=f"spool:{uuid4().hex}")

"""Background work of one node among several.

Each manager is a loop under the supervisor, which restarts it if it fails. Several nodes may run
each of them: work that is done twice has its effect once.
"""

import asyncio
import logging
from collections.abc import Sequence

from rankd.core.cluster.recovery import IndexRebuilder, IndexTooLarge, RebuildRunning
from rankd.core.cluster.shared_projector import SharedProjector
from rankd.core.projector import Tell
from rankd.core.receipts import ReceiptBuffer
from rankd.core.state_codec import VERSION, Heading, take_notes
from rankd.core.writer import Writer, WriteResult
from rankd.errors import (
    LedgerUnavailable,
    RankdError,
    Unavailable,
)
from rankd.model.facts import Fact, Position, is_submission
from rankd.ports import (
    Ledger,
    Progress,
    SharedLedger,
    Spool,
    StateSnapshots,
)

SLEEP_SECONDS_MAX = 1.0
"""How late a manager may notice that the clock was set."""

RETRY_SECONDS = 0.1
"""How soon a ledger is tried again that could not be read."""

KEEP_AFTER_SECONDS = 2.0
"""How long a node has to hand in its own receipts: it does so with its next append."""

SPOOLED_TOGETHER_MAX = 1_000
"""How many that waited share a commit."""

COPY_EVERY_FACTS = 1_000_000
"""To read so many takes a start some eight seconds. Of a state with more players than that, a copy
is made less often: writing one costs no more than the facts since the one before."""

MEND_SECONDS = 0.25
"""How often the state of the index is checked."""

MENDED_TOGETHER_MAX = 8_192
"""How many facts are folded into it before writers get their turn."""

LOG_SECONDS = 5.0
"""How often the log says how far an index is filled."""

LOG_AGAIN_SECONDS = 60.0
"""How often a lasting failure is logged again."""

DROPPED_TOLD_MAX = 10
"""Of submissions that waited for nothing, how many of a batch are named in the log."""

KEY_TOLD_CHARACTERS = 16
"""How much of a submission key the log shows: enough to find it."""

_log = logging.getLogger(__name__)


class StateSnapshotter:
    """Keeps a copy of the state now and then, where every node finds it that starts."""

    def __init__(
        self,
        writer: Writer,
        ledger: Ledger,
        copies: StateSnapshots,
        every_facts: int = COPY_EVERY_FACTS,
    ) -> None:
        self._writer = writer
        self._ledger = ledger
        self._copies = copies
        self._every_facts = every_facts
        self._kept = Position(0)
        """The newest copy, as far as this node knows."""

    async def run(self) -> None:
        """Look again and again until the engine stops."""
        while True:
            await asyncio.sleep(SLEEP_SECONDS_MAX)
            try:
                await self.copy()
            except RankdError as exc:
                _log.warning("no copy of the state could be kept: %s", exc)
                self._kept = self._writer.projector.checkpoint  # Not again at once.

    async def copy(self) -> bool:
        """Store a state snapshot if it is time, and no other node does.

        Return whether it is stored.
        """
        if not self._due():
            return False
        self._kept = max([self._kept, *await self._copies.kept()])
        if not self._due():
            return False
        async with self._writer.turn():
            heading = await self._heading()
            if heading is None:
                return False
            frames = take_notes(self._writer.projector.state, heading)
            unless_after = Position(heading.checkpoint - self._every())
        self._kept = heading.checkpoint
        return await self._copies.keep(heading.checkpoint, frames, unless_after=unless_after)

    def _due(self) -> bool:
        """Whether enough is new, and in the index: it is where that is that a state is wanted."""
        projector = self._writer.projector
        if self._kept < projector.state.redacted_at <= projector.shown_to:
            return True  # The copies from before have what was erased, and are dropped.
        return projector.shown_to - self._kept >= self._every()

    def _every(self) -> int:
        state = self._writer.projector.state
        players = len(state.profiles) + len(state.player_boards)
        return max(self._every_facts, players)

    async def _heading(self) -> Heading | None:
        """Return the heading of a state snapshot.

        None in the middle of an append, which has no link.
        """
        projector = self._writer.projector
        position, at, profiled_at = projector.checkpoint, projector.at, projector.state.profiled_at
        link = await self._ledger.link_at(position)
        return None if link is None else Heading(VERSION, position, at, link, profiled_at, {})


class LedgerTail:
    """Folds the facts that other nodes append to a shared ledger."""

    def __init__(self, writer: Writer, ledger: Ledger) -> None:
        self.failure: RankdError | None = None
        """Why nothing of the others is seen, while that is so."""
        self._writer = writer
        self._ledger = ledger

    async def run(self) -> None:
        """Fold new facts until the engine stops."""
        while True:
            after = self._writer.projector.checkpoint
            await self._ledger.changed(after=after, within_seconds=SLEEP_SECONDS_MAX)
            try:
                await self._writer.see_others()
                self._note(None)
            except LedgerUnavailable as exc:
                if self._writer.stopped.is_set():
                    return  # It says so itself.
                if self.failure is None:
                    _log.warning("the ledger cannot be read: %s", exc)
                self._note(exc)
                await asyncio.sleep(RETRY_SECONDS)
            except Exception as exc:
                self._note(LedgerUnavailable(f"following failed: {exc!r}", applied="no"))
                raise

    def _note(self, failure: RankdError | None) -> None:
        if (failure is None) != (self.failure is None):
            self._writer.projector.state.revision += 1
        self.failure = failure


class LedgerHealth:
    """Marks a ledger as lost as soon as any connection finds out."""

    def __init__(self, writer: Writer, ledger: SharedLedger) -> None:
        self.failure: RankdError | None = None
        """Why the ledger is out of reach, while it is."""
        self._writer = writer
        self._ledger = ledger

    async def run(self) -> None:
        """Look until the engine stops."""
        while True:
            self._note(await self._ledger.lost())
            await self._ledger.regained()
            self._note(None)

    def _note(self, failure: RankdError | None) -> None:
        self.failure = failure
        self._writer.projector.state.revision += 1  # Answers say from now on that they are stale.


class ReceiptRepair:
    """Stores the receipts of nodes that died before they stored them.

    Every node folds the facts of every other, and so has their receipts. Receipts that their own
    node has not stored after a while are stored by the first node to look; the ledger keeps one.
    """

    def __init__(self, receipts: ReceiptBuffer, ledger: Ledger) -> None:
        self._receipts = receipts
        self._ledger = ledger

    async def run(self) -> None:
        """Look again and again until the engine stops."""
        due: list[Position] = []
        while True:
            await asyncio.sleep(KEEP_AFTER_SECONDS)
            try:
                await self._receipts.store_missing(self._ledger, due)
            except LedgerUnavailable:
                continue  # They wait, and so does whoever would ask for them.
            due = self._receipts.others()


class IndexRepair:
    """Looks whether an index across a network is where it should be, and brings it there."""

    def __init__(
        self, writer: Writer, projector: SharedProjector, rebuilder: IndexRebuilder
    ) -> None:
        self._writer = writer
        self._projector = projector
        self._rebuilder = rebuilder
        self._may_fill = True
        """Whether the index is small enough to be made in this process."""
        self._told_at: float | None = None
        """When the log said that the index is behind, while it is."""

    async def run(self) -> None:
        """Look again and again until the engine stops."""
        tidy = False
        while True:
            await asyncio.sleep(MEND_SECONDS)
            projector = self._projector
            try:
                # Before anything else that may fail: from here on it is told that the index is out
                # of reach, and nobody waits any more for what may take long to answer.
                lost = await projector.lost()
                await projector.shared.look_again()
                if lost:
                    self._tell_behind(projector)
                    await self._mend(projector)
                    self._told_at = None
                    _log.warning("the index is where it should be again")
                if not tidy:  # Once: what another node leaves behind, the next that fills finds.
                    await self._rebuilder.tidy()
                    tidy = True
            except Unavailable as exc:
                _log.debug("the index cannot be mended yet: %s", exc)

    def _tell_behind(self, projector: SharedProjector) -> None:
        """Say that the index is being filled; seldom again while that comes to nothing."""
        now = asyncio.get_running_loop().time()
        if self._told_at is None:
            _log.warning("the index is behind; it is being filled")
        elif now < self._told_at + LOG_AGAIN_SECONDS:
            return
        else:
            _log.warning("the index is behind still, and cannot be filled: %s", projector.failure)
        self._told_at = now

    async def _mend(self, projector: SharedProjector) -> None:
        done = False
        while not done:
            if self._may_fill and await projector.hopeless():
                await self._fill()
                continue
            async with self._writer.turn():
                done = await projector.repair(MENDED_TOGETHER_MAX)
            await asyncio.sleep(0)

    async def _fill(self) -> None:
        """Fill it anew, or wait a moment for the node that does."""
        try:
            await self._rebuilder.refill(seldom_logged())
        except RebuildRunning:
            await asyncio.sleep(MEND_SECONDS)
        except IndexTooLarge as exc:
            self._may_fill = False
            _log.warning("%s: what it lacks is folded in, fact by fact", exc)


def seldom_logged() -> Tell:
    """Return a callback that logs the progress of long work now and then."""
    due = asyncio.get_running_loop().time() + LOG_SECONDS

    def tell(progress: Progress) -> None:
        nonlocal due
        now = asyncio.get_running_loop().time()
        if now >= due:
            due = now + LOG_SECONDS
            done, total = f"{progress.done:,}", f"{progress.total:,}"
            _log.info("the index is filled: %s, %s of %s", progress.stage, done, total)

    return tell


class SpoolSender:
    """Submits the spooled submissions once the ledger can be reached again."""

    def __init__(self, writer: Writer, spool: Spool) -> None:
        self.handed_in = 0
        """How many left the disk."""
        self.dropped = 0
        """Of these, how many count nowhere."""
        self._writer = writer
        self._spool = spool

    async def run(self) -> None:
        """Look again and again until the engine stops."""
        while True:
            if self._spool.waiting:
                await self._hand_in_all()
            await asyncio.sleep(RETRY_SECONDS)

    async def _hand_in_all(self) -> None:
        """Submit all spooled submissions, and log the end."""
        before, dropped = self.handed_in, self.dropped
        try:
            while self._spool.waiting:
                await self.hand_in()
        except Unavailable as exc:
            _log.debug("what waits cannot be handed in yet: %s", exc)
        if (count := self.handed_in - before) > 0:
            _log.warning(
                "scores that waited on this node's disk: handed in %d, of which %d count "
                "nowhere; waiting still: %d",
                count,
                self.dropped - dropped,
                self._spool.waiting,
            )

    async def hand_in(self) -> None:
        """Submit the first spooled submissions. The ledger skips those it has."""
        through, facts = await self._spool.first(SPOOLED_TOGETHER_MAX)
        async with self._writer.turn():
            answers = await self._writer.record(facts)
        await self._spool.drop(through)
        self.handed_in += len(facts)
        self._tell_dropped(facts, answers)

    def _tell_dropped(self, facts: Sequence[Fact], answers: Sequence[WriteResult]) -> None:
        """Log the submissions that count nowhere: their callers are gone."""
        dropped = [
            (fact, answer)
            for fact, answer in zip(facts, answers, strict=True)
            if answer.error is not None or (answer.receipt is None and answer.pending is None)
        ]
        self.dropped += len(dropped)
        for fact, answer in dropped[:DROPPED_TOLD_MAX]:
            assert is_submission(fact)
            key = (fact.key or "")[:KEY_TOLD_CHARACTERS]
            why = "its key was used for another" if answer.error else "its board is gone"
            _log.warning("a score that waited counts nowhere: %s, %r: %s", fact.board, key, why)
        if len(dropped) > DROPPED_TOLD_MAX:
            _log.warning("and %d more that waited with them", len(dropped) - DROPPED_TOLD_MAX)

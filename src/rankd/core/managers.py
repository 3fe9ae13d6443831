"""What is done without being asked: windows turn on time, and the index is saved now and then.

Each manager is a loop that one task runs. It sleeps until there is something to do, does it in the
intake's turn where that is needed, and stops with the engine.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence

from rankd.core.book import Sealed
from rankd.core.intake import Intake
from rankd.core.joint import Joint
from rankd.core.notes import VERSION, Heading, take_notes
from rankd.core.projector import Tell
from rankd.core.reader import Reader
from rankd.errors import LedgerUnavailable, RankdError, Unavailable, UnknownBoard, UnknownWindow
from rankd.model.facts import Position
from rankd.model.standing import PAGE_LIMIT_MAX, Rank
from rankd.ports import Archive, Clock, Kept, Ledger, Snapshots, Spool

SLEEP_SECONDS_MAX = 1.0
"""How late a manager may notice that the clock was set."""

SAVE_EVERY_FACTS = 1_000_000
"""Folding so many again takes a start some five seconds."""

SAVE_AT_CLOSE_FACTS = 50_000
"""Fewer are folded again sooner than they are saved."""

RETRY_SECONDS = 0.1
"""How soon a ledger is tried again that could not be read."""

KEEP_AFTER_SECONDS = 2.0
"""How long a node has to hand in its own receipts: it does so with its next append."""

KEPT_TOGETHER_MAX = 1_000

SPOOLED_TOGETHER_MAX = 1_000
"""How many that waited share a commit."""

ARCHIVE_SECONDS = 5.0
"""How soon a closed window is looked for."""

MEND_SECONDS = 0.25
"""How long an index may be behind before somebody notices."""

MENDED_TOGETHER_MAX = 8_192
"""How many facts are folded into it before writers get their turn."""

_log = logging.getLogger(__name__)


class Sealer:
    """Turns windows of boards that nobody submits to: readers, too, want to see a new day."""

    def __init__(self, intake: Intake, clock: Clock) -> None:
        self._intake = intake
        self._clock = clock

    async def run(self) -> None:
        """Turn windows until the engine stops."""
        while True:
            due_in = (self._intake.turn_at - self._clock.now()) / 1_000_000
            await asyncio.sleep(min(max(due_in, 0.0), SLEEP_SECONDS_MAX))
            if self._clock.now() < self._intake.turn_at:
                continue
            try:
                await self.turn()
            except LedgerUnavailable:
                if self._intake.failure is not None:
                    return  # The engine has stopped, and says so itself.
                await asyncio.sleep(RETRY_SECONDS)

    async def turn(self) -> None:
        """Turn what is due now.

        The writer does it, as it does for every batch: who asks may be told to stop meanwhile.
        """
        await self._intake.put([])


class Snapshotter:
    """Saves the index beside everything else that goes on."""

    def __init__(
        self, intake: Intake, snapshots: Callable[[], Snapshots | None], saved: Position
    ) -> None:
        self.saved = saved
        """The checkpoint of the last snapshot."""
        self._intake = intake
        self._snapshots = snapshots
        self._saving = asyncio.Lock()

    async def run(self) -> None:
        """Save now and then until the engine stops."""
        while True:
            await asyncio.sleep(SLEEP_SECONDS_MAX)
            if self.unsaved >= SAVE_EVERY_FACTS:
                try:
                    await self.save()
                except (RankdError, OSError) as exc:
                    _log.error("the index could not be saved: %s", exc)
                    self.saved = self._intake.projector.checkpoint  # Not again at once.

    @property
    def unsaved(self) -> int:
        """How many positions a start would have to fold again."""
        return self._intake.projector.checkpoint - self.saved

    async def save(self, tell: Tell = lambda _: None) -> Position:
        """Save the index; return the position it is saved at."""
        async with self._saving:
            snapshots = self._snapshots()
            if snapshots is None:
                return self.saved
            taken: list[Heading] = []

            def notes() -> Iterable[bytes]:
                self._refuse_if_stopped()
                heading = self._heading()
                taken.append(heading)
                return take_notes(self._intake.projector.book, heading)

            async for progress in snapshots.save(notes):
                tell(progress)
            self.saved = taken[0].checkpoint
            return self.saved

    def _refuse_if_stopped(self) -> None:
        """A fold that failed may have left the book ahead of the index."""
        if self._intake.failure is not None:
            raise LedgerUnavailable("the engine has stopped; open it anew", applied="no")

    def _heading(self) -> Heading:
        projector = self._intake.projector
        owed = self._intake.others | self._intake.owed
        return Heading(
            VERSION,
            projector.checkpoint,
            projector.at,
            self._intake.link,
            projector.book.profiled_at,
            {int(position): body for position, body in owed.items()},
        )


class Pursuer:
    """Goes after what other nodes append to a ledger that is shared."""

    def __init__(self, intake: Intake, ledger: Ledger) -> None:
        self.failure: RankdError | None = None
        """Why nothing of the others is seen, while that is so."""
        self._intake = intake
        self._ledger = ledger

    async def run(self) -> None:
        """Fold what comes until the engine stops."""
        while True:
            after = self._intake.projector.checkpoint
            await self._ledger.changed(after=after, within_seconds=SLEEP_SECONDS_MAX)
            try:
                async with self._intake.turn():
                    await self._intake.pursue()
                self._note(None)
            except LedgerUnavailable as exc:
                if self._intake.failure is not None:
                    return  # The engine has stopped, and says so itself.
                if self.failure is None:
                    _log.warning("the ledger cannot be read: %s", exc)
                self._note(exc)
                await asyncio.sleep(RETRY_SECONDS)

    def _note(self, failure: RankdError | None) -> None:
        if (failure is None) != (self.failure is None):
            self._intake.projector.book.revision += 1
        self.failure = failure


class Keeper:
    """Sees to it that receipts are kept whose node did not live to hand them in.

    Every node folds what every other appends, and so has its receipts. What was not handed in by
    its own node after a while is handed in by whoever looks first; the ledger keeps one.
    """

    def __init__(self, intake: Intake, ledger: Ledger) -> None:
        self._intake = intake
        self._ledger = ledger

    async def run(self) -> None:
        """Look again and again until the engine stops."""
        due: list[Position] = []
        while True:
            await asyncio.sleep(KEEP_AFTER_SECONDS)
            try:
                for start in range(0, len(due), KEPT_TOGETHER_MAX):
                    await self.keep(due[start : start + KEPT_TOGETHER_MAX])
            except LedgerUnavailable:
                continue  # They wait, and so does whoever would ask for them.
            due = list(self._intake.others)

    async def keep(self, positions: Sequence[Position]) -> None:
        """Hand in what is missing of these, and forget them: the ledger has them now."""
        others = self._intake.others
        lacking = await self._ledger.lacking_receipts(positions)
        if lacking:
            await self._ledger.keep_receipts([Kept(at, others[at]) for at in lacking])
        for position in positions:
            del others[position]


class Mender:
    """Looks whether an index across a network is where it should be, and brings it there."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake

    async def run(self) -> None:
        """Look again and again until the engine stops."""
        while True:
            await asyncio.sleep(MEND_SECONDS)
            projector = self._intake.projector
            if not isinstance(projector, Joint):
                continue
            self._take_late(projector)
            try:
                if await projector.lost():  # Nobody waits for what may take long to answer.
                    _log.warning("the index is behind; it is being filled")
                    await self._mend(projector)
                    _log.warning("the index is where it should be again")
            except Unavailable as exc:
                _log.debug("the index cannot be mended yet: %s", exc)

    async def _mend(self, projector: Joint) -> None:
        done = False
        while not done:
            async with self._intake.turn():
                done = await projector.mend(MENDED_TOGETHER_MAX)
            self._take_late(projector)
            await asyncio.sleep(0)

    def _take_late(self, projector: Joint) -> None:
        self._intake.others |= projector.late
        projector.late.clear()


class Drainer:
    """Hands in what waited on this node's disk, once the ledger can be reached again."""

    def __init__(self, intake: Intake, spool: Spool) -> None:
        self._intake = intake
        self._spool = spool

    async def run(self) -> None:
        """Look again and again until the engine stops."""
        while True:
            try:
                while self._spool.waiting:
                    await self.hand_in()
            except Unavailable as exc:
                _log.debug("what waits cannot be handed in yet: %s", exc)
            await asyncio.sleep(RETRY_SECONDS)

    async def hand_in(self) -> None:
        """Hand in the first of what waits. What the ledger has already it leaves out."""
        through, facts = await self._spool.first(SPOOLED_TOGETHER_MAX)
        async with self._intake.turn():
            await self._intake.record(facts)
        await self._spool.drop(through)


class Archiver:
    """Copies the final standings of closed windows to where they can be asked for with SQL.

    Several nodes may do it: what is kept already stays, and a window that is kept whole is left
    alone.
    """

    def __init__(self, reader: Reader, archive: Archive) -> None:
        self._reader = reader
        self._archive = archive
        self._done: set[tuple[str, str, Position]] = set()

    async def run(self) -> None:
        """Look again and again until the engine stops."""
        while True:
            try:
                for page in list(self._reader.projector.book.boards.values()):
                    for sealed in list(page.sealed.values()):
                        await self.keep(sealed)
            except (Unavailable, UnknownBoard, UnknownWindow) as exc:
                _log.debug("a closed window cannot be archived yet: %s", exc)
            await asyncio.sleep(ARCHIVE_SECONDS)

    async def keep(self, sealed: Sealed) -> None:
        """Archive a closed window, unless it is."""
        board, window, reader = sealed.terms.board.name, sealed.window.id, self._reader
        name = (board, window, sealed.through)
        if name in self._done:
            return
        kept = await self._archive.kept_standings(board, window, since=sealed.through)
        first = Rank(kept + 1)
        while True:
            page = await reader.page(board, window=window, from_rank=first, limit=PAGE_LIMIT_MAX)
            if not page.players:
                break
            beside = page.metadata or [None] * len(page.players)
            rows = list(zip(page.ranks, page.players, page.scores, beside, strict=True))
            await self._archive.keep_standings(board, window, rows, since=sealed.through)
            first = Rank(first + len(rows))
        self._done.add(name)

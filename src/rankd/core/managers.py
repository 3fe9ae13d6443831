"""Background work: windows roll over on time, the index is saved now and then.

Each manager is a loop under the supervisor, which restarts it if it fails. It sleeps until there is
something to do, holds the writer where that is needed, and stops with the engine.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable

from rankd.core.board_state import BoardState, SealedWindow, exact_id
from rankd.core.projector import Tell
from rankd.core.reader import Reader
from rankd.core.state_codec import VERSION, Heading, take_notes
from rankd.core.window_archiver import WindowArchiver
from rankd.core.writer import Writer
from rankd.errors import (
    IndexUnavailable,
    LedgerUnavailable,
    RankdError,
    Unavailable,
    UnknownBoard,
    UnknownWindow,
)
from rankd.model.facts import Position
from rankd.model.standing import PAGE_LIMIT_MAX, Rank
from rankd.ports import (
    Archive,
    Clock,
    RankingArchives,
    ReopenableLedger,
    SealedName,
    SealedRow,
    Snapshots,
)

SAVE_AT_CLOSE_FACTS = 50_000
"""Fewer are folded again sooner than they are saved."""

SLEEP_SECONDS_MAX = 1.0
"""How late a manager may notice that the clock was set."""

SAVE_EVERY_FACTS = 1_000_000
"""Folding so many again takes a start some five seconds."""

SAVED_PER_FACT_MAX = 10
"""Entries that are saved for each new fact, at most: a larger index is saved less often. A start
then folds the facts behind the save in about the time that it takes to load the entries."""

SAVE_FOR_ARCHIVES_SECONDS = 600.0
"""How soon the index is saved again to let go of archives that are needed no longer."""

RETRY_SECONDS = 0.1
"""How soon a ledger is tried again that could not be read."""

REOPEN_SECONDS_MIN, REOPEN_SECONDS_MAX = 0.25, 1.0
"""How soon a ledger of this process is opened anew after it failed, and after another try."""

ARCHIVE_SECONDS = 5.0
"""How soon a closed window is looked for."""

_log = logging.getLogger(__name__)


class WindowSealer:
    """Rolls windows over on boards without submissions, so that readers see a new day."""

    def __init__(self, writer: Writer, clock: Clock) -> None:
        self._writer = writer
        self._clock = clock

    async def run(self) -> None:
        """Turn windows until the engine stops."""
        while True:
            due_in = (self._writer.turn_at - self._clock.now()) / 1_000_000
            await asyncio.sleep(min(max(due_in, 0.0), SLEEP_SECONDS_MAX))
            if self._clock.now() < self._writer.turn_at:
                continue
            try:
                await self.turn()
            except LedgerUnavailable:
                if self._writer.stopped.is_set():
                    return  # It says so itself.
                await asyncio.sleep(RETRY_SECONDS)

    async def turn(self) -> None:
        """Roll over the windows that are due.

        The writer does it, as for every batch: this task may be cancelled meanwhile.
        """
        await self._writer.put([])


class LedgerReopener:
    """Opens a ledger anew that failed, once its disk takes writes again."""

    def __init__(self, writer: Writer, ledger: ReopenableLedger) -> None:
        self._writer = writer
        self._ledger = ledger

    async def run(self) -> None:
        """Look again and again until the engine stops."""
        pause = REOPEN_SECONDS_MIN
        while not self._writer.stopped.is_set():
            await asyncio.sleep(pause)
            pause = REOPEN_SECONDS_MIN
            if self._writer.failure is None:
                continue
            try:
                await self._writer.reopen(self._ledger)
            except LedgerUnavailable as exc:
                _log.debug("the ledger cannot be opened yet: %s", exc)
                pause = REOPEN_SECONDS_MAX


class Snapshotter:
    """Saves the index beside everything else that goes on."""

    def __init__(
        self,
        writer: Writer,
        snapshots: Callable[[], Snapshots | None],
        saved: Position,
        archives: Callable[[], RankingArchives | None],
        archiver: WindowArchiver,
    ) -> None:
        self.saved = saved
        """The checkpoint of the last snapshot."""
        self._writer = writer
        self._snapshots = snapshots
        self._archives = archives
        self._archiver = archiver
        self._saving = asyncio.Lock()
        self._entries = 0
        """How many players and entries the last save wrote."""

    async def run(self) -> None:
        """Save now and then until the engine stops."""
        tried, loop = self.saved, asyncio.get_running_loop()
        tried_at = loop.time()
        while True:
            await asyncio.sleep(SLEEP_SECONDS_MAX)
            head = self._writer.projector.checkpoint
            many = head - max(tried, self.saved) >= self._due_after
            waste = self._wastes_archives and loop.time() - tried_at >= SAVE_FOR_ARCHIVES_SECONDS
            if many or waste or self.outdated_at > tried:
                tried, tried_at = head, loop.time()  # If it fails, not again at once.
                try:
                    await self.save()
                except (RankdError, OSError) as exc:
                    _log.error("the index could not be saved: %s", exc)

    @property
    def _due_after(self) -> int:
        """How many facts behind the last save the next one is due."""
        return max(SAVE_EVERY_FACTS, self._entries // SAVED_PER_FACT_MAX)

    @property
    def _wastes_archives(self) -> bool:
        """Whether the last save keeps archives on the disk that are needed no longer."""
        archives = self._archives()
        return archives is not None and archives.outdated

    @property
    def outdated_at(self) -> Position:
        """Position of a redaction since the last save, which has the erased data; 0 if none."""
        redacted_at = self._writer.projector.state.redacted_at
        return redacted_at if redacted_at > self.saved > 0 else Position(0)

    @property
    def unsaved(self) -> int:
        """How many positions a start would have to fold again."""
        return self._writer.projector.checkpoint - self.saved

    async def save(self, tell: Tell = lambda _: None) -> Position:
        """Save the index; return the position it is saved at."""
        async with self._saving:
            snapshots = self._snapshots()
            if snapshots is None:
                return self.saved
            if self.outdated_at:
                await self._archiver.scrub()
            taken: list[Heading] = []

            def notes() -> Iterable[bytes]:
                self._refuse_if_stopped()
                heading = self._heading()
                taken.append(heading)
                return take_notes(self._writer.projector.state, heading)

            async for progress in snapshots.save(notes, still=self._writer.standstill):
                self._entries = progress.total
                tell(progress)
            self.saved = taken[0].checkpoint
            return self.saved

    def _refuse_if_stopped(self) -> None:
        """A fold that failed may have left the state ahead of the index."""
        if self._writer.failure is not None:
            raise LedgerUnavailable("the engine has stopped; open it anew", applied="no")

    def _heading(self) -> Heading:
        projector = self._writer.projector
        return Heading(
            VERSION,
            projector.checkpoint,
            projector.at,
            self._writer.link,
            projector.state.profiled_at,
            {int(position): receipt for position, receipt in self._writer.receipts},
        )


class Archiver:
    """Copies the final standings of closed windows to where they can be asked for with SQL.

    And deletes them there when the board keeps the window no longer. Several nodes may run it:
    stored rows stay, a complete window is skipped, and deleting twice is harmless.
    """

    def __init__(self, reader: Reader, archive: Archive) -> None:
        self._reader = reader
        self._archive = archive
        self._done: set[SealedName] = set()
        self._known: set[SealedName] | None = None
        """The stored windows when deletions were last looked for."""

    async def run(self) -> None:
        """Look again and again until the engine stops."""
        while True:
            try:
                for page in list(self._reader.projector.state.boards.values()):
                    for sealed in list(page.sealed.values()):
                        if sealed.sealed:
                            await self.keep(sealed)
                await self.drop()
            except (Unavailable, UnknownBoard, UnknownWindow) as exc:
                _log.debug("a closed window cannot be archived yet: %s", exc)
            await asyncio.sleep(ARCHIVE_SECONDS)

    async def keep(self, sealed: SealedWindow) -> None:
        """Archive a closed window, unless it is."""
        board, window, reader = sealed.terms.board.name, sealed.window.id, self._reader
        name, since = _name_of(sealed), sealed.sealed
        if name in self._done:
            return
        kept = await self._archive.kept_standings(board, window, since=since)
        first = Rank(kept + 1)
        while True:
            page = await reader.page(
                board, window=exact_id(window), from_rank=first, limit=PAGE_LIMIT_MAX
            )
            if page.as_of < since:
                raise IndexUnavailable("what is read is from before the window was closed")
            if not page.players:
                break
            keys = sealed.terms.order.parted(page.order_keys)
            beside = page.metadata or [None] * len(page.players)
            columns = zip(page.ranks, page.players, keys, page.scores, beside, strict=True)
            rows = [SealedRow(first + nth, *row) for nth, row in enumerate(columns)]
            await self._archive.keep_standings(board, window, rows, since=since)
            first = Rank(first + len(rows))
        await self._archive.finish_standings(board, window, page.total, since=since)
        self._done.add(name)

    async def drop(self) -> None:
        """Delete windows past their retention; look for them only if there may be some."""
        known = self._closed()
        if self._known is not None and self._known <= known:
            self._known = known
            return
        for name in await self._archive.sealed_windows():
            if self._is_over(name):
                await self._archive.drop_standings(name.board, name.window, since=name.since)
        self._done &= known  # A correction of the time may bring back what another node dropped.
        self._known = known

    def _closed(self) -> set[SealedName]:
        pages = self._reader.projector.state.boards.values()
        return {
            _name_of(sealed) for page in pages for sealed in page.sealed.values() if sealed.sealed
        }

    def _is_over(self, name: SealedName) -> bool:
        """Whether a window was dropped: it was closed here, as far as is known, and is not there.

        Or the time was wrong when it closed. The archive of a retired board stays, also where a new
        one has its name.
        """
        projector = self._reader.projector
        page = projector.state.boards.get(name.board)
        if page is None or not page.since < name.since <= projector.checkpoint:
            return False
        if self._closed_by_wrong_time(page, name):
            return True
        open_now = {opened.window.id for opened in page.windows.values()}
        return name.window not in page.sealed and name.window not in open_now

    def _closed_by_wrong_time(self, page: BoardState, name: SealedName) -> bool:
        sealed = page.sealed.get(name.window)
        if sealed is not None and sealed.sealed == name.since:
            return False
        wrong_times = self._reader.projector.state.wrong_times
        return any(wrong.first <= name.since < page.corrected_at for wrong in wrong_times)


def _name_of(sealed: SealedWindow) -> SealedName:
    return SealedName(sealed.terms.board.name, sealed.window.id, sealed.sealed)

"""Rolling windows: today's is open, and tomorrow's is prepared beside it.

A window of the last seven days is another one every day: a day has left it. Its entries do not
follow from those of the day before, as the best score of a player may have been of the day that
left. So the coming window is folded from the ledger, into a draft and beside all traffic, as a
board rebuild is. A ``WindowPrepared`` puts the draft behind the open windows: from then on each
score counts in both, and each correction reaches both. At midnight ``WindowOpened`` only makes the
prepared window the open one.

Where nothing was prepared, because nothing ran or there is too much to fold in a day, the facts of
the turn are ``WindowPrepared`` and ``WindowOpened`` at once. The window is folded then, up to its
position, and reads are of the position before until it is done.

A submission counts in each window whose days have its own, unless the window that was open at its
position, that of its day, refused it: a refusal is final.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator

from rankd.core.board_state import BoardState
from rankd.core.projector import Projector
from rankd.core.rolling_draft import RollingDraft
from rankd.core.writer import Writer
from rankd.errors import Unavailable
from rankd.model.facts import OpenWindow, WindowPrepared
from rankd.ports import LedgerReader

PREPARE_SECONDS = 1.0
"""How often boards are looked through for windows to prepare."""

DRAFT_BEHIND_MAX = 1_000
"""How near a draft comes to the head before the writer waits for it."""

DRAFT_PASSES_MAX = 20
"""How often a draft goes after a head that runs ahead of it. Then the writer waits all the same."""

TRIES_MAX = 5
"""How often the fact is tried to be appended behind the draft, against other nodes."""

_log = logging.getLogger(__name__)


def coming_windows(page: BoardState) -> Iterator[OpenWindow]:
    """Yield the windows that follow the open ones of rolling recurrences, and are not prepared."""
    for recurrence in page.rolling:
        opened = page.windows.get(recurrence.name)
        if opened is None or opened.window.end is None or recurrence.name in page.prepared:
            continue
        coming = recurrence.window_at(opened.window.end)
        if coming is not None and (coming.start or 0) < opened.window.end:
            yield page.edition(coming)  # Else no score of today is in it.


class RollingDrafts:
    """Folds the coming windows of rolling recurrences beside traffic, ready for their facts.

    In a process that records nothing, so that its fold need not do it when the fact comes.
    """

    def __init__(self, ledger: LedgerReader, projector: Callable[[], Projector]) -> None:
        self._ledger = ledger
        self._projector = projector
        self._looking = asyncio.Lock()
        """Held while drafts are begun: there is one of each window."""

    async def run(self) -> None:
        """Look again and again until the process stops."""
        looked: object = None
        while True:
            state = self._projector().state
            if looked != (state, state.revision) or self._projector().rolling:
                looked = (state, state.revision)
                await self.look()
            await asyncio.sleep(PREPARE_SECONDS)

    async def look(self) -> None:
        """Prepare the windows that can be prepared now."""
        async with self._looking:
            await self._look()

    async def _look(self) -> None:
        for page in list(self._projector().state.boards.values()):
            for window in list(coming_windows(page)):
                try:
                    await self.prepare(page.board.name, window)
                except Unavailable as exc:
                    _log.debug("%s cannot be prepared yet: %s", window.window, exc)
        for board, id in list(self._projector().rolling):
            draft = self._projector().rolling.get((board, id))
            if draft is not None:
                await self._current(board, draft.window)

    async def prepare(self, board: str, window: OpenWindow) -> None:
        """Fold a window nearly to the head."""
        await self._pursue_head(board, window)

    async def _pursue_head(self, board: str, window: OpenWindow) -> bool:
        """Fold a window nearly to the head; False if it is not the coming one any more."""
        projector = self._projector()
        for _ in range(DRAFT_PASSES_MAX):
            draft = await self._draft(board, window)
            if draft is None:
                return False
            await draft.catch_up(through=projector.checkpoint)
            if draft.position >= projector.checkpoint - DRAFT_BEHIND_MAX:
                break
        return True

    async def _draft(self, board: str, window: OpenWindow) -> RollingDraft | None:
        """Return the draft of a window, begun anew if it is overtaken; None if none is needed."""
        projector = self._projector()
        draft = await self._current(board, window)
        page = projector.state.boards.get(board)
        if draft is None and page is not None and window in coming_windows(page):
            draft = await RollingDraft.begun(
                self._ledger, projector.index, page, projector.state, window
            )
            projector.rolling[board, window.window] = draft
        return draft

    async def _current(self, board: str, window: OpenWindow) -> RollingDraft | None:
        """Return the draft of a window if it is one still; discard one that is overtaken."""
        projector, place = self._projector(), (board, window.window)
        draft, page = projector.rolling.get(place), projector.state.boards.get(board)
        if draft is None:
            return None
        if page is not None and window in coming_windows(page) and draft.is_current(page):
            return draft
        projector.rolling.pop(place, None)
        await draft.discard()
        return None


class RollingPreparer(RollingDrafts):
    """Folds them, and has them counted in by a fact, before the day is over."""

    def __init__(self, ledger: LedgerReader, writer: Writer) -> None:
        super().__init__(ledger, lambda: writer.projector)
        self._writer = writer

    async def prepare(self, board: str, window: OpenWindow) -> None:
        """Fold a window nearly to the head, then the rest and its fact while the writer waits."""
        if not await self._pursue_head(board, window):
            return
        async with self._writer.turn():
            for _ in range(TRIES_MAX):
                await self._writer.catch_up_others()
                now = self._writer.now()
                await self._writer.record([], now=now)  # Windows that are over must not go on.
                after = self._writer.projector.checkpoint
                draft = await self._current(board, window)
                if draft is None:
                    return  # Another time: to begin anew would hold up the writer.
                await draft.catch_up(through=after)
                since = self._writer.projector.state.boards[board].turned_since
                fact = WindowPrepared(board, window.window, window.start, window.end, since)
                if await self._writer.record_after([fact], now=now, after=after) is not None:
                    return

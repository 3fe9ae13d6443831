"""The draft of one rolling window: folded from the ledger beside the open one of its recurrence.

Several windows of such a recurrence contain a day, so a draft is of one window, by its bounds. It
is adopted by the ``WindowPrepared`` of that window.
"""

import asyncio

from rankd.core.board_rebuild import BoardRebuild, refusals_final
from rankd.core.board_state import BoardState, name_of_window
from rankd.core.move_batch import MoveBatch
from rankd.core.state import State
from rankd.model.facts import OpenWindow, Position, WindowPrepared
from rankd.model.window import Instant
from rankd.ports import LedgerReader, RankIndex


class RollingDraft:
    """A window of a rolling recurrence, on its way to being prepared."""

    def __init__(
        self, rebuild: BoardRebuild, page: BoardState, state: State, window: OpenWindow
    ) -> None:
        self.window = window
        self._rebuild = rebuild
        self._state = state
        self._made_for = _circumstances(page, state)
        self._folding = asyncio.Lock()
        """Held while it is folded: in the background, or by the fold of its fact."""
        self._closed = False
        """Whether it was adopted or discarded, or stopped amid some facts."""

    @classmethod
    async def begun(
        cls,
        ledger: LedgerReader,
        index: RankIndex,
        page: BoardState,
        state: State,
        window: OpenWindow,
    ) -> "RollingDraft":
        """Return a draft of a window, with nothing folded yet."""
        rebuild = BoardRebuild(
            ledger,
            index,
            page,
            page.board,
            state=state,
            refusals_final=await refusals_final(ledger, page),
            names=frozenset({name_of_window(window.window)}),
            rolling=[window],
        )
        return cls(rebuild, page, state, window)

    @property
    def position(self) -> Position:
        """Up to where it is folded."""
        return self._rebuild.position

    def fits(self, page: BoardState, fact: WindowPrepared) -> bool:
        """Whether it is the draft for a fact: of its window, and not overtaken by a correction."""
        window = OpenWindow(fact.window, fact.start, fact.end)
        return window == self.window and self.is_current(page)

    def is_current(self, page: BoardState) -> bool:
        """Whether the definition, the corrections and the times are those that it was made by."""
        made_for = _circumstances(page, self._state)
        return not self._closed and self._rebuild.is_current and made_for == self._made_for

    async def catch_up(self, *, through: Position) -> None:
        """Fold everything up to a position."""
        async with self._folding:
            if self._closed:
                return
            self._closed = True  # Facts that were folded in part are not folded again.
            await self._rebuild.catch_up(through=through)
            self._closed = False

    async def adopt(self, begun: MoveBatch, at: Instant) -> None:
        """Let a batch make it the prepared window."""
        id, start = self.window.window, self.window.start
        async with self._folding:
            self._closed = True
            await self._rebuild.adopt_as(begun, {(id, start): id}, at)

    async def discard(self) -> None:
        """Forget it."""
        async with self._folding:
            self._closed = True
            await self._rebuild.discard()


def _circumstances(page: BoardState, state: State) -> tuple[object, ...]:
    return page.since, page.turned_since, state.wrong_times

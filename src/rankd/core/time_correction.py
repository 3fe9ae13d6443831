"""The way back from a wrong time: the windows of all boards as they would be had it been right.

The ledger has every submission, and for each the time that was believed. An operator says from
which position on that time was wrong, and by how much. Facts of the stretch count at their time
less that much; turns of windows that the wrong time made are void, and those that the right time
makes take their place. Nothing is edited: the correction is a fact, and one more for each board
whose windows it changes.
"""

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from rankd.core.board_rebuild import CorrectedWindows
from rankd.core.board_state import BoardState, SealedWindow
from rankd.core.projector import Projector, Tell
from rankd.core.state import State
from rankd.core.steady_clock import SteadyClock, shown_span
from rankd.core.window_schedule import NEVER, next_step_of, turns_of, windows_at
from rankd.core.writer import Writer
from rankd.errors import FieldError, InvalidRequest, LedgerUnavailable
from rankd.model.board import Board
from rankd.model.facts import (
    BoardDefined,
    BoardRetired,
    ClosedWindow,
    Fact,
    OpenWindow,
    Position,
    Recorded,
    TimeCorrected,
    WindowDropped,
    WindowEnded,
    WindowFrozen,
    WindowOpened,
    WindowsCorrected,
    WindowSealed,
    WindowSettled,
    WrongTime,
    is_definition,
    is_submission,
    right_time,
)
from rankd.model.window import Instant
from rankd.ports import LedgerReader, Progress

FACTS_TOGETHER_MAX = 1_000
"""Facts read at once."""

TRIES_MAX = 100
"""How often a correction is tried while other nodes append all the time."""

BEHIND_MAX = 1_000
"""How near drafts come to the head before the writer waits for them."""

PASSES_MAX = 50
"""How often drafts go after a head that runs ahead of them. Then the writer waits all the same."""

NO_END = Position(2**63 - 1)

_log = logging.getLogger(__name__)

_TURNS = (
    WindowOpened,
    WindowEnded,
    WindowFrozen,
    WindowSealed,
    WindowSettled,
    WindowDropped,
)
"""Void if the time was wrong, those of operators included."""
_NOTED = (BoardDefined, BoardRetired, WindowsCorrected, *_TURNS)
"""The facts that change pages."""


class RightPages:
    """The pages of all boards by the right time, folded from the ledger without any entries."""

    def __init__(self, ledger: LedgerReader, wrong: WrongTime) -> None:
        self.wrong = wrong
        self.time = wrong.earliest
        """The right time of the last fact."""
        self.position = Position(0)
        self.submissions = 0
        """In the stretch."""
        self._ledger = ledger
        self._state = State()
        self._as_recorded: State | None = None
        """The pages by the recorded time; None before the stretch."""
        self._open_before: set[tuple[str, str]] = set()
        """Boards and ids of windows that were open before the stretch, and are not defined anew."""
        self._recorded = False
        """Whether the correction is reached in the ledger."""
        self._corrected: set[str] = set()
        """Boards that have their correction already, or need none."""
        self._turn_at: Instant = 0

    async def catch_up(
        self, *, through: Position, tell: Callable[[Progress], None] = lambda _: None
    ) -> None:
        """Fold the ledger up to a position."""
        while self.position < through:
            limit = min(FACTS_TOGETHER_MAX, through - self.position)
            facts = await self._ledger.read(after=self.position, limit=limit)
            facts = [recorded for recorded in facts if recorded.position <= through]
            if not facts:
                self.position = through
                break
            for recorded in facts:
                self._take(recorded)
            self.position = facts[-1].position
            tell(Progress(self.position, through, "windows"))

    def _take(self, recorded: Recorded) -> None:
        if recorded.position < self.wrong.first:
            if isinstance(recorded.fact, _NOTED):
                self._state.note(recorded)
            return
        if self._as_recorded is None:
            self._as_recorded, self._open_before = self._state.copy(), self._open_now()
        at = recorded.at
        if recorded.position <= self.wrong.last:
            at = self.wrong.right(at)
            self.submissions += is_submission(recorded.fact)
        self.time = max(self.time, at)
        self._turn(recorded.position)
        if isinstance(recorded.fact, TimeCorrected) and recorded.fact.wrong == self.wrong:
            self._reach_correction(self._as_recorded)
        elif isinstance(recorded.fact, _NOTED):
            self._as_recorded.note(recorded)
            self._note(Recorded(recorded.position, self.time, recorded.fact))

    def _reach_correction(self, as_recorded: State) -> None:
        """Leave the boards alone that are right: from here on, their turns are."""
        self._recorded = True
        for page in as_recorded.boards.values():
            if self.correction_of(page, None) is None:
                self._corrected.add(page.board.name)

    def _open_now(self) -> set[tuple[str, str]]:
        return {
            (name, opened.window.id)
            for name, page in self._state.boards.items()
            for opened in page.windows.values()
        }

    def _turn(self, position: Position) -> None:
        """Turn the windows that are due by the right time, right before a position."""
        if self.time < self._turn_at:
            return
        for name, page in self._state.boards.items():
            if name not in self._corrected:
                for fact in list(turns_of(page, self.time)):
                    self._state.note(Recorded(position, self.time, fact))
        self._turn_at = self._next_turn()

    def _next_turn(self) -> Instant:
        turns = [
            next_step_of(page, self.time)
            for name, page in self._state.boards.items()
            if name not in self._corrected
        ]
        return min((turn for turn in turns if turn is not None), default=NEVER)

    def _note(self, recorded: Recorded) -> None:
        """Apply the facts of a board, except rollovers by the wrong time."""
        fact = recorded.fact
        board: str = fact.board  # type: ignore[attr-defined]
        if isinstance(fact, _TURNS) and board not in self._corrected:
            return
        if isinstance(fact, WindowsCorrected):
            if not self._recorded:
                return  # It was made by an earlier correction of the same stretch.
            self._corrected.add(board)
        elif is_definition(fact) and board not in self._corrected:
            if self._recorded and board not in self._state.boards:
                self._corrected.add(board)
            recorded = Recorded(recorded.position, recorded.at, self._redated(fact))
            self._open_before = {one for one in self._open_before if one[0] != board}
            self._turn_at = 0
        self._state.note(recorded)
        if board not in self._state.boards:  # Retired.
            self._corrected.discard(board)

    def _redated(self, fact: BoardDefined) -> Fact:
        """Return a definition with the windows that it has by the right time."""
        page = self._state.boards.get(fact.board)
        board = Board.define(fact.board, fact.definition)
        return msgspec.structs.replace(fact, windows=windows_at(page, board, self.time))

    def correction_of(self, living: BoardState, actor: str | None) -> WindowsCorrected | None:
        """Return the correction of a board's windows; None if they are right."""
        name = living.board.name
        if name in self._corrected:
            return None
        right = self._state.boards[name]
        windows = tuple(
            OpenWindow(opened.window.id, opened.window.start, opened.window.end)
            for opened in right.windows.values()
        )
        open_now = {opened.window.id for opened in living.windows.values()}
        kept = tuple(
            one.window for one in windows if one.window in open_now and self._is_right(right, one)
        )
        closed = tuple(
            ClosedWindow(id, sealed.window.start, sealed.window.end, sealed.through, sealed.at)
            for id, sealed in right.sealed.items()
            if not _same_closing(living.sealed.get(id), sealed) or self._is_redated(sealed)
        )
        removed = tuple(id for id in living.sealed if id not in right.sealed)
        if not closed and not removed and len(open_now) == len(windows) == len(kept):
            return None
        return WindowsCorrected(
            name, self.wrong.first, self.time, windows, kept, closed, removed, actor
        )

    def _is_right(self, page: BoardState, window: OpenWindow) -> bool:
        """Whether a window took the whole stretch, so that its entries are right.

        Under decay none is: their scores depend on the times of submissions.
        """
        if page.terms.order.decays:
            return False
        always = (window.start, window.end) == (None, None)
        return always or (page.board.name, window.window) in self._open_before

    def _is_redated(self, sealed: SealedWindow) -> bool:
        """Whether a closed window may have scores of the stretch that depend on their times."""
        return sealed.terms.order.decays and sealed.through > self.wrong.first


def _same_closing(one: SealedWindow | None, other: SealedWindow) -> bool:
    return one is not None and (one.through, one.at) == (other.through, other.at)


class Corrected(NamedTuple):
    """The effect of a correction, or the effect that it would have."""

    wrong: WrongTime
    submissions: int
    """In the stretch."""
    boards: Sequence[WindowsCorrected]
    position: Position | None
    """Where it is recorded; None if it is not."""


class TimeCorrector:
    """Finds a stretch of the ledger whose time was wrong, and corrects it."""

    def __init__(self, ledger: LedgerReader, writer: Writer, clock: SteadyClock) -> None:
        self._ledger = ledger
        self._writer = writer
        self._clock = clock

    @property
    def _projector(self) -> Projector:
        return self._writer.projector

    async def preview(self, first: Position | None, ahead: int | None) -> Corrected:
        """Return the changes that a correction would make. Raises InvalidRequest."""
        wrong = await self._stretch(first, ahead)
        pages = RightPages(self._ledger, wrong)
        await pages.catch_up(through=self._projector.checkpoint)
        living = self._projector.state.boards
        facts = [pages.correction_of(living[name], None) for name in sorted(living)]
        return Corrected(wrong, pages.submissions, [one for one in facts if one is not None], None)

    async def correct(
        self,
        first: Position | None,
        ahead: int | None,
        *,
        actor: str | None,
        reason: str | None,
        tell: Tell,
    ) -> Corrected:
        """Correct the time, then the windows of each board that it changes.

        One that was broken off goes on when it is called again. Raises InvalidRequest.
        """
        wrong = await self._stretch(first, ahead)
        pages = RightPages(self._ledger, wrong)
        await pages.catch_up(through=self._projector.checkpoint, tell=tell)
        if wrong not in self._projector.state.wrong_times:
            pages.wrong = await self._record(TimeCorrected(wrong, actor, reason))
            span = shown_span(pages.wrong.ahead)
            _log.warning("time was wrong from position %d on, by %s: corrected", wrong.first, span)
        names = sorted(self._projector.state.boards)
        facts = [await self._correct_board(pages, name, actor, tell) for name in names]
        changed = [fact for fact in facts if fact is not None]
        return Corrected(pages.wrong, pages.submissions, changed, self._projector.checkpoint)

    # ---------------------------------------------------------------------- the stretch

    async def _stretch(self, first: Position | None, ahead: int | None) -> WrongTime:
        """Return the boards to correct: from a position on, or from the first later than now."""
        state, now = self._projector.state, self._clock.now()
        if self._clock.step is not None:
            raise _refusal("clock", "stepped, and is not believed yet: rankd clock confirm")
        head = self._projector.checkpoint
        if first is None:
            first = await self._first_later_than(now)
            if first is None and state.wrong_times:
                return state.wrong_times[-1]  # It may not have come to all boards.
            if first is None:
                raise _refusal("from", "must be given: no fact is later than the clock")
        for wrong in state.wrong_times:
            if wrong.first == first and ahead in (None, wrong.ahead):
                return wrong  # It is asked for again.
        if not 0 < first <= head:
            raise _refusal("from", f"must be a position, from 1 to {head}")
        before = await self._ledger.read(after=Position(max(first - 2, 0)), limit=2)
        earliest = right_time(before[0], state.wrong_times) if first > 1 else Instant(0)
        if earliest > now:
            raise _refusal("from", "is too late, or the clock is wrong: the fact before is later")
        jump = before[-1].at - (earliest if first > 1 else now)
        ends = [wrong.last for wrong in state.wrong_times if wrong.last >= first]
        return WrongTime(
            first, min(ends, default=NO_END), jump if ahead is None else ahead, earliest, now
        )

    async def _first_later_than(self, time: Instant) -> Position | None:
        """Return the first position since the last correction whose time is later."""
        wrong_times = self._projector.state.wrong_times
        low = Position(wrong_times[-1].last + 1 if wrong_times else 0)
        high = self._projector.checkpoint
        if low >= high or (await self._at(high)).at <= time:
            return None
        while low + 1 < high:
            middle = Position((low + high) // 2)
            if (await self._at(middle)).at > time:
                high = middle
            else:
                low = middle
        return high

    async def _at(self, position: Position) -> Recorded:
        (recorded,) = await self._ledger.read(after=Position(position - 1), limit=1)
        return recorded

    # -------------------------------------------------------------------- what is recorded

    async def _record(self, fact: TimeCorrected) -> WrongTime:
        """Let the ledger's time go back; return the stretch with its end."""
        async with self._writer.turn():
            for _ in range(TRIES_MAX):
                await self._writer.catch_up_others()
                await self._writer.record([])
                after = self._projector.checkpoint
                wrong = msgspec.structs.replace(fact.wrong, last=min(fact.wrong.last, after))
                now = max(self._clock.now(), wrong.latest)
                recorded = msgspec.structs.replace(fact, wrong=wrong)
                if await self._writer.record_after([recorded], now=now, after=after) is not None:
                    return wrong
        raise LedgerUnavailable("other nodes append all the time; try again", applied="no")

    async def _correct_board(
        self, pages: RightPages, name: str, actor: str | None, tell: Tell
    ) -> WindowsCorrected | None:
        """Correct a board's windows, once they are folded again nearly to the head."""
        projector = self._projector
        await self._prepare(pages, name, tell)
        try:
            async with self._writer.turn():
                for _ in range(TRIES_MAX):
                    await self._writer.catch_up_others()
                    await self._writer.record([])  # Turns must not come between.
                    fact = await self._needed(pages, name, actor)
                    if fact is None:
                        return None
                    after, now = projector.checkpoint, self._writer.now()
                    if await self._writer.record_after([fact], now=now, after=after) is not None:
                        return fact
        finally:
            if (left := projector.corrections.pop(name, None)) is not None:
                await left.discard()
        raise LedgerUnavailable("other nodes append all the time; try again", applied="no")

    async def _needed(
        self, pages: RightPages, name: str, actor: str | None
    ) -> WindowsCorrected | None:
        await pages.catch_up(through=self._projector.checkpoint)
        living = self._projector.state.boards.get(name)
        return None if living is None else pages.correction_of(living, actor)

    async def _prepare(self, pages: RightPages, name: str, tell: Tell) -> None:
        """Fold a board's windows again beside the living ones, nearly to the head."""
        projector = self._projector
        fact = await self._needed(pages, name, None)
        if fact is None:
            return
        drafts = await CorrectedWindows.begun(self._ledger, projector.index, projector.state, fact)
        try:
            for _ in range(PASSES_MAX):
                if drafts.position >= projector.checkpoint - BEHIND_MAX:
                    break
                await drafts.catch_up(through=projector.checkpoint, tell=tell)
        except BaseException:
            await drafts.discard()
            raise
        projector.corrections[name] = drafts


def _refusal(field: str, message: str) -> InvalidRequest:
    return InvalidRequest([FieldError(field, message)])

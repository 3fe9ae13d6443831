"""A board rebuild: windows of a board judged anew, folded beside the live ones.

The ledger has every submission, so a changed rule is no loss: the board's facts are read again from
its first definition on, put into the new terms and judged by the new rule, into draft rankings,
which are not read. A submission that was refused when its turn came stays out: its sender was told
that it counts nowhere. Traffic goes on meanwhile. When the draft has come as far as the index, one
apply gives its rankings the names they are to be known by.

A window of a draft is the one that is open at the time the fold has reached: when its time is over
it is let go, and the next one begun, just as the living board does.

``CorrectedWindows`` are folded again because the time had been wrong. A correction tells which
windows the board has from its position on. Those whose entries do not stay as they are become
drafts, each fact judged at its right time. Closed windows that retention dropped by the wrong time
come back so, too. One apply puts all of them in their place.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import NamedTuple

import msgspec

from rankd.core.board_state import EDITION, BoardState, OpenedWindow, Terms, name_of_window
from rankd.core.corrections import Retraction, RetractionFilter
from rankd.core.fold import Fold
from rankd.core.move_batch import MoveBatch
from rankd.core.player_history import NOT_REFUSED, REFUSED, WindowRefusal
from rankd.core.refusals import RefusalReplay
from rankd.core.state import State
from rankd.core.window_schedule import NEVER
from rankd.errors import IndexUnavailable
from rankd.model.board import Board, Scores
from rankd.model.facts import (
    BoardDefined,
    MetadataSet,
    OpenWindow,
    Position,
    Recorded,
    ScoresExpired,
    ScoreSubmitted,
    WindowFrozen,
    WindowOpened,
    WindowsCorrected,
    as_erased,
    is_definition,
    is_submission,
    right_time,
)
from rankd.model.redefinition import Translator, changes_columns, refolded, scale
from rankd.model.window import Instant, Window
from rankd.ports import DRAFT, LedgerReader, Progress, RankIndex, Ranking

FACTS_TOGETHER_MAX = 1_000
"""How many facts a draft reads at once."""

STAGED_TOGETHER_MAX = 256
"""How many facts, or moves, a draft folds before readers have their turn: some four ms."""

MISFITS_MAX = 1_000
"""Misfits that a draft keeps, to compare entries at its end. With more it is refused without."""

NO_END = Position(2**63 - 1)
_NONE_LASTING: Mapping[tuple[str, Instant | None], Position] = {}
_numbers = count(1)

Misfit = tuple[str, str]
"""The name of a window, and a player with a submission there that is too large for a draft."""


class BoardRebuild:
    """Some windows of a board, folded again under another definition."""

    def __init__(  # noqa: PLR0913 - what it is put together from
        self,
        ledger: LedgerReader,
        index: RankIndex,
        page: BoardState,
        board: Board,
        *,
        state: State,
        refusals_final: bool = True,
        names: frozenset[str] | None = None,
        lasting: Mapping[tuple[str, Instant | None], Position] = _NONE_LASTING,
        coming: Sequence[Retraction] = (),
        rolling: Sequence[OpenWindow] = (),
    ) -> None:
        """Begin one of the windows that the definition changes, or of those with these names.

        Windows with a name and a start in ``lasting`` are not let go when their time is over; they
        closed at these positions. ``rolling`` are the windows to fold of rolling recurrences: of
        these several are under way at a time, and only some are wanted.
        ``coming`` retractions are about to be recorded.
        """
        self.board = board
        self.state = state
        """The living one. Its players with entries are complete once the draft takes its place."""
        self.refusals_final = refusals_final
        self._ledger = ledger
        self._index = index
        self._since = page.since
        self._wrong_times = state.wrong_times
        names = refolded(page.board, board) if names is None else names
        rolls = {one.name for one in board.windows if one.rolls}
        self._names = names - rolls
        """Of the recurrences that are folded by the calendar."""
        self._rolling = {one.window: one for one in rolling if name_of_window(one.window) in names}
        self._lasting = lasting
        self._closed: dict[tuple[str, Instant | None], OpenedWindow] = {}
        self._frozen: dict[str, Instant | None] = {}
        """By name, the end of a window that an operator closed: no other one opens until then."""
        self._alias = f"{DRAFT}{next(_numbers)}:{board.name}"
        self._page = BoardState(board, page.since, alias=self._alias)
        self._state = State()
        self._state.boards[board.name] = self._page
        self._state.player_boards = state.player_boards
        self._state.player_states = dict(state.player_states)
        self._last_correction = state.last_correction
        self._fold = Fold(index, self._state, _never, ledger)
        self._translator = Translator(board)
        retractions = {**state.retractions, **{one.position: one for one in coming}}
        self._retracted = RetractionFilter(retractions.values(), board.name)
        self._admission = RefusalReplay(ledger, page, state)
        # Attributes may have been declared before the board was defined.
        self.position = Position(0 if board.segments else page.since - 1)
        self._scanned = Position(page.since - 1)
        self._expired: dict[Position, Position] = {}
        """Submissions whose terms were over at ``_scanned``, and where these ended."""
        self._overtaken = False
        self._turn_at: Instant = 0
        self._raises_decimals = board.decimals > page.board.decimals
        self._misfits: dict[Misfit, None] = {}
        self._changes_columns = changes_columns(page.board, board)
        self._lacking: set[str] = set()
        """Windows with submissions that lack a column of this definition, and had all before."""
        self._submitted: set[str] = set()
        """Windows with submissions up to the position of this rebuild."""

    @property
    def is_current(self) -> bool:
        """Whether no correction was made since it was begun: then it would have to begin anew.

        Nor did a term end of a submission that it has folded.
        """
        return self.state.last_correction == self._last_correction and not self._overtaken

    def fits(self, board: Board, refusals_final: bool, state: State) -> bool:
        """Whether it is a rebuild for a definition, over a state as it is."""
        return (
            (self.board, self.refusals_final) == (board, refusals_final)
            and self.state is state
            and self.is_current
        )

    async def catch_up(
        self, *, through: Position, tell: Callable[[Progress], None] = lambda _: None
    ) -> None:
        """Fold everything up to a position."""
        if not self._names and not self._rolling:
            self.position = through
        elif self.state.living.has(self.board.name):
            await self._find_expired(through)
        while self.position < through:
            limit = min(FACTS_TOGETHER_MAX, through - self.position)
            facts = await self._ledger.read(after=self.position, limit=limit)
            facts = [recorded for recorded in facts if recorded.position <= through]
            if not facts:
                self.position = through
                break
            await self._take(as_erased(facts, self.state.erased))
            self.position = facts[-1].position
            tell(Progress(self.position, through, "folding again", "fact"))

    async def _find_expired(self, through: Position) -> None:
        """Find the submissions whose terms are over at a position."""
        while self._scanned < through:
            limit = min(FACTS_TOGETHER_MAX, through - self._scanned)
            facts = await self._ledger.read(after=self._scanned, limit=limit)
            for recorded in facts:
                fact = recorded.fact
                if isinstance(fact, ScoresExpired) and recorded.position <= through:
                    for position in fact.positions:
                        self._expired.setdefault(position, recorded.position)
                    self._overtaken |= min(fact.positions) <= self.position
            self._scanned = min(through, facts[-1].position) if facts else through
            await asyncio.sleep(0)

    async def _take(self, facts: Sequence[Recorded]) -> None:
        begun = MoveBatch()
        for number, recorded in enumerate(facts, 1):
            at = right_time(recorded, self._wrong_times) if self._wrong_times else recorded.at
            if at >= self._turn_at:
                begun = await self._roll(begun, at)
            await self._take_one(begun, recorded)
            if number % STAGED_TOGETHER_MAX == 0 or len(begun.moves) >= STAGED_TOGETHER_MAX:
                await self._stage(begun)
                begun = MoveBatch()
                await asyncio.sleep(0)
        await self._stage(begun)

    async def _take_one(self, begun: MoveBatch, recorded: Recorded) -> None:
        fact, ours = recorded.fact, recorded.position >= self._since
        ours = ours and getattr(fact, "board", None) == self.board.name
        if is_submission(fact) and ours:
            if (fact.defined or self._since) >= self._since:
                await self._submit(begun, fact, recorded)
            return
        if isinstance(fact, MetadataSet) and ours:
            await self._fold.fold_one(begun, recorded)
            return
        await self._fold.change_profile(begun, recorded)
        if fact.about_player:
            self._state.note(recorded)
        elif ours and not fact.correction:
            self._admission.note(recorded)
            if isinstance(fact, WindowFrozen | WindowOpened):
                await self._follow_operator(begun, fact, recorded)
        if is_definition(fact) and ours:
            self._translator.define(recorded.position, Board.define(fact.board, fact.definition))
            self._page.terms.board = self._translator.board

    async def _submit(self, begun: MoveBatch, fact: ScoreSubmitted, recorded: Recorded) -> None:
        """Judge a submission anew in the windows that did not refuse it at its position."""
        exhausted = self._admission.exhausted(recorded)
        if not self.state.counts(recorded.position):
            await self._fold.change_profile(begun, recorded)
            return
        refusal = NOT_REFUSED
        if self.refusals_final:
            refusal = await self._admission.refusal(recorded, exhausted)
        if self._retracted.selects(recorded):
            refusal = REFUSED
        elif (expired := self._expired.get(recorded.position)) is not None:
            refusal = self._without_expired(refusal, expired)
        refused = self._refusing(refusal)
        if not refusal.everywhere:
            self._submitted |= self._page.windows.keys() - refused
        translated = None if refusal.everywhere else self._translator.translate(fact)
        if translated is not None:
            await self._fold.submit(
                begun, translated, self._rightly(recorded), refused=refused, again=True
            )
            if self._raises_decimals:
                self._note_misfits(fact.player, begun.overflowed())
            return
        await self._fold.change_profile(begun, recorded)
        if not refusal.everywhere:
            self._note_loss(fact, [name for name in self._page.windows if name not in refused])

    def _refusing(self, refusal: WindowRefusal) -> frozenset[str]:
        """Return the keys of the windows of the draft that a refusal holds in."""
        if not refusal.windows or not self._rolling:
            return refusal.windows
        keys = {key for key in self._page.windows if name_of_window(key) in refusal.windows}
        return refusal.windows | keys

    def _rightly(self, recorded: Recorded) -> Recorded:
        """Return a fact at its right time."""
        if not self._wrong_times:
            return recorded
        at = right_time(recorded, self._wrong_times)
        return msgspec.structs.replace(recorded, at=at)

    def _note_loss(self, fact: ScoreSubmitted, windows: Iterable[str]) -> None:
        if self._translator.outgrows(fact):
            self._note_misfits(fact.player, windows)
        elif self._changes_columns:
            self._lacking.update(windows)

    def _note_misfits(self, player: str, windows: Iterable[str]) -> None:
        if self._raises_decimals and len(self._misfits) <= MISFITS_MAX:
            self._misfits |= dict.fromkeys((window, player) for window in windows)

    def _without_expired(self, refusal: WindowRefusal, ended: Position) -> WindowRefusal:
        """Return a refusal also by the windows that were not closed when a term ended."""
        windows = self._page.windows
        keys = {
            key
            for key, opened in windows.items()
            if ended < self._lasting.get((key, opened.window.start), NO_END)
        }
        refused = self._refusing(refusal) | keys
        return WindowRefusal(refusal.everywhere or refused >= windows.keys(), refused)

    async def _stage(self, begun: MoveBatch) -> None:
        if begun.moves or begun.opened or begun.dropped:
            await self._index.stage(begun.moves, opened=begun.opened, dropped=begun.dropped)

    # -------------------------------------------------------------------------- windows

    async def _roll(self, begun: MoveBatch, at: Instant) -> MoveBatch:
        """Let go of windows whose time is over, and begin those whose time has come."""
        await self._stage(begun)
        rolled, turns = MoveBatch(), [NEVER]
        for recurrence in self.board.windows:
            if recurrence.name not in self._names:
                continue
            window, current = recurrence.window_at(at), self._page.windows.get(recurrence.name)
            if current is not None and (
                window is None or current.window.id.partition(EDITION)[0] != window.id
            ):
                await self._let_go(rolled, current)
            if window is None:
                coming = recurrence.next_opening(at)
                turns.append(NEVER if coming is None or coming.start is None else coming.start)
                continue
            turns.append(NEVER if window.end is None else window.end)
            if self._is_frozen(window):
                continue
            if recurrence.name not in self._page.windows:
                opened = self._page.opened(OpenWindow(window.id, window.start, window.end))
                self._page.windows[recurrence.name] = opened
                rolled.opened[opened.ranking] = opened.terms.shape
        turns += [turn async for turn in self._roll_days(rolled, at)]
        self._turn_at = min(turns)
        await self._stage(rolled)
        return MoveBatch()

    async def _roll_days(self, rolled: MoveBatch, at: Instant) -> AsyncIterator[Instant]:
        """Let go of rolling windows and begin them; yield when each of the others turns."""
        for id, window in self._rolling.items():
            current = self._page.windows.get(id)
            is_over = window.end is not None and window.end <= at
            if current is not None and is_over:
                await self._let_go(rolled, current)
            elif current is None and not is_over and (window.start or 0) <= at:
                opened = self._page.windows[id] = self._page.opened(window)
                rolled.opened[opened.ranking] = opened.terms.shape
            if not is_over:
                yield (window.start or 0) if at < (window.start or 0) else window.end or NEVER

    def _is_frozen(self, window: Window) -> bool:
        """Whether an operator closed a window that is due by the calendar."""
        if self._frozen.get(window.name, NEVER) == window.end:
            return True
        self._frozen.pop(window.name, None)
        return False

    async def _follow_operator(
        self, begun: MoveBatch, fact: WindowFrozen | WindowOpened, recorded: Recorded
    ) -> None:
        """Close a window that an operator froze or reset, and begin the one after a reset.

        Those of a stretch of wrong time are void. So are those of windows of another calendar.
        """
        name = name_of_window(fact.window)
        if name not in self._names or any(
            wrong.first <= recorded.position <= wrong.last for wrong in self._wrong_times
        ):
            return
        current = self._page.windows.get(name)
        if isinstance(fact, WindowFrozen):
            if current is None or not _is_time_of(current.window, fact.start, fact.end):
                return
            self._frozen[name] = fact.end
        elif not _follows_reset(current, fact, self._frozen.get(name, NEVER)):
            return
        await self._stage(begun)
        begun.clear()
        rolled = MoveBatch()
        if current is not None:
            await self._let_go(rolled, current)
        if isinstance(fact, WindowOpened):
            self._frozen.pop(name, None)
            opened = self._page.opened(OpenWindow(fact.window, fact.start, fact.end))
            self._page.windows = {**self._page.windows, name: opened}
            rolled.opened[opened.ranking] = opened.terms.shape
        await self._stage(rolled)

    async def _let_go(self, rolled: MoveBatch, current: OpenedWindow) -> None:
        """Count no more in a window; forget its entries unless it is wanted."""
        key, start = self._key(current), current.window.start
        if (key, start) in self._lasting:
            self._closed[key, start] = current
        else:
            rolled.dropped += await self._rankings(current.window.id)
        del self._page.windows[key]
        self._forget_losses(key)

    def _key(self, opened: OpenedWindow) -> str:
        """Return the key of a window in the page: its name, or the id of a rolling one."""
        id, name = opened.window.id, opened.window.name
        return id if id in self._rolling else name

    async def turn_windows(self, at: Instant) -> None:
        """Let go of windows that are over at a time, and begin those that are not yet."""
        if at >= self._turn_at:
            await self._roll(MoveBatch(), at)

    def _forget_losses(self, window: str) -> None:
        self._lacking.discard(window)
        self._submitted.discard(window)
        self._misfits = {misfit: None for misfit in self._misfits if misfit[0] != window}

    async def _rankings(self, window: str | None = None) -> list[Ranking]:
        every = await self._index.rankings(self._alias)
        return [ranking for ranking in every if window is None or ranking.window == window]

    # -------------------------------------------------------------------------- its end

    async def misfit(self, page: BoardState) -> Misfit | None:
        """Return a player whose entry is lost or another one because a submission does not fit.

        A submission that does not fit is no loss where the entry does not depend on it.
        """
        found = list(self._misfits)
        if len(found) > MISFITS_MAX:
            return found[0]
        comparable = [misfit for misfit in found if misfit[0] in page.windows]
        entries = await self._entries_of(page, comparable)
        drafted = await self._entries_of(self._page, comparable)
        kept = {
            misfit
            for misfit, before, after in zip(comparable, entries, drafted, strict=True)
            if self._is_same(page.board, before, after)
        }
        return next((misfit for misfit in found if misfit not in kept), None)

    async def _entries_of(
        self, page: BoardState, misfits: Sequence[Misfit]
    ) -> Sequence[Scores | None]:
        opened = [page.windows[window] for window, _ in misfits]
        places = [
            (self._fold.home(one.ranking, player), player)
            for one, (_, player) in zip(opened, misfits, strict=True)
        ]
        keys = await self._index.order_keys(places)
        return [_recorded(one.terms, key) for one, key in zip(opened, keys, strict=True)]

    def _is_same(self, board: Board, before: Scores | None, after: Scores | None) -> bool:
        """Whether an entry of the draft is that of the board in another unit."""
        if (board.rule, board.columns) != (self.board.rule, self.board.columns):
            return False
        factor = scale(board, self.board)
        return after == (None if before is None else tuple(score * factor for score in before))

    async def dropped_windows(self, page: BoardState) -> tuple[str, ...]:
        """Return the names of windows with scores that cannot be ranked any more.

        A live window with entries proves nothing by itself: a shared index may be ahead of this
        rebuild, with the first entries of a window that has just opened. Raises IndexUnavailable if
        the draft is gone: another index lives since it was staged.
        """
        found = []
        for name, ranking in self.windows():
            living = page.windows.get(name)
            if living is None or not await self._count(living.ranking):
                continue
            key = ranking.window if ranking.window in self._rolling else name
            emptied = key in self._submitted and not await self._count(ranking)
            if emptied or key in self._lacking:
                found.append(name)
        staged = await self._rankings()  # After they were counted: a draft never comes back.
        for _, ranking in self.windows():
            _check_staged(ranking, staged)
        return tuple(found)

    async def _count(self, ranking: Ranking) -> int:
        """Return the number of entries, those of players that are not ranked included."""
        return await self._index.count(ranking) + await self._index.count(ranking.unseen)

    async def adopt(self, begun: MoveBatch, fact: BoardDefined, at: Instant) -> None:
        """Let a batch replace the rankings of the redefined board by the draft.

        Raises IndexUnavailable if the draft is gone: another index lives since it was staged.
        """
        await self.turn_windows(at)
        ids = {name_of_window(window.window): window for window in fact.windows}
        living = await self._index.rankings(fact.board)
        unwanted: list[Ranking] = []
        for opened in self._page.windows.values():
            adopting = ids.get(opened.window.name)
            if adopting is None or not self._is_for(opened, adopting):
                # An operator closed it before its time, or it is the rolling window of another day.
                unwanted += await self._rankings(opened.window.id)
                continue
            id = adopting.window
            begun.dropped += [ranking for ranking in living if ranking.window == id]
            drafts = await self._rankings(opened.window.id)
            _check_staged(opened.ranking, drafts)
            for draft in drafts:
                begun.adopted[draft] = Ranking(fact.board, id, draft.segment)
        await self._index.stage([], dropped=unwanted)

    def _is_for(self, opened: OpenedWindow, window: OpenWindow) -> bool:
        """Whether a draft is for this window of its recurrence: of rolling ones there are more."""
        window_of = opened.window
        return window_of.id not in self._rolling or window_of.end == window.end

    def has(self, windows: Iterable[OpenWindow]) -> bool:
        """Whether it has a draft of each of these that it ought to have: they are of its days."""
        rolls = {one.name for one in self.board.windows if one.rolls}
        ends = {(name_of_window(one.window), one.end) for one in self._rolling.values()}
        folded = {name for name, _ in ends}
        return all(
            (name_of_window(one.window), one.end) in ends
            for one in windows
            if name_of_window(one.window) in rolls & folded
        )

    async def adopt_as(
        self, begun: MoveBatch, ids: Mapping[tuple[str, Instant | None], str], at: Instant
    ) -> None:
        """Have a batch put windows of the draft in the place of those of the board.

        ``ids`` tells by name and start which ones, ``at`` the time that the fold has reached.
        Raises IndexUnavailable as ``adopt`` does.
        """
        await self.turn_windows(at)
        here = {(name, one.window.start): one for name, one in self._page.windows.items()}
        unwanted: list[Ranking] = []
        for place, opened in {**self._closed, **here}.items():
            drafts = await self._rankings(opened.window.id)
            _check_staged(opened.ranking, drafts)
            if place not in ids:
                unwanted += drafts
                continue
            for draft in drafts:
                begun.adopted[draft] = Ranking(self.board.name, ids[place], draft.segment)
        await self._index.stage([], dropped=unwanted)

    def draft_of(self, ranking: Ranking, ids: Mapping["Place", str]) -> Ranking | None:
        """Return the draft of a living ranking of one of these windows."""
        here = {(name, one.window.start): one for name, one in self._page.windows.items()}
        for place, opened in {**self._closed, **here}.items():
            if ids.get(place) == ranking.window:
                return Ranking(self._alias, opened.window.id, ranking.segment)
        return None

    async def discard(self) -> None:
        """Forget all of it."""
        await self._index.stage([], dropped=await self._rankings())

    def windows(self) -> Sequence[tuple[str, Ranking]]:
        """Return its windows' names and rankings, for previews."""
        opened: dict[str, OpenedWindow] = {}
        for one in self._page.windows.values():
            known = opened.get(one.window.name)
            if known is None or (one.window.end or 0) < (known.window.end or 0):
                opened[one.window.name] = one
        names = (recurrence.name for recurrence in self.board.windows)
        return [(name, opened[name].ranking) for name in names if name in opened]

    def page(self) -> BoardState:
        """Return the board state that its keys were made under."""
        return self._page


def _recorded(terms: Terms, key: bytes | None) -> Scores | None:
    """Return the scores of an entry as they were recorded, None where there is none."""
    scores = terms.scores(key)
    raw = None if scores is None else terms.order.recorded(scores)
    return scores if raw is None else (raw,)


def _check_staged(ranking: Ranking, staged: Sequence[Ranking]) -> None:
    if ranking not in staged:
        raise IndexUnavailable("a draft is gone with the index it was staged in")


def _is_time_of(window: Window, start: Instant | None, end: Instant | None) -> bool:
    return (window.start, window.end) == (start, end)


def _follows_reset(
    current: OpenedWindow | None, fact: WindowOpened, frozen_until: Instant | None
) -> bool:
    """Whether a window was opened because the present one, of the same calendar, was reset."""
    if current is None:
        return EDITION in fact.window and frozen_until == fact.end
    window = current.window
    base = window.id.partition(EDITION)[0] == fact.window.partition(EDITION)[0]
    later = fact.start is not None and (window.start is None or window.start < fact.start)
    return base and later and window.end == fact.end and EDITION in fact.window


async def _never(_begun: MoveBatch, _recorded: Recorded) -> bool:
    raise AssertionError("a draft is of one definition")


Place = tuple[str, Instant | None]
"""The name and the start of a window; of a rolling one the id, as several may start together."""


class _Part(NamedTuple):
    """Windows that were made under one definition."""

    draft: BoardRebuild
    ids: dict[Place, str]
    through: Position | None
    """Where the definition ended; None if it is in force."""


class _Wanted(NamedTuple):
    defined_at: Position
    name: str
    place: Place
    id: str
    through: Position | None
    """Where it closed; None while it is open."""
    window: OpenWindow


class CorrectedWindows:
    """The drafts of one correction."""

    def __init__(self, index: RankIndex, page: BoardState, fact: WindowsCorrected) -> None:
        self._fact = fact
        self._index = index
        self._page = page
        self._parts: list[_Part] = []

    @classmethod
    async def begun(
        cls,
        ledger: LedgerReader,
        index: RankIndex,
        state: State,
        fact: WindowsCorrected,
        coming: Sequence[Retraction] = (),
    ) -> "CorrectedWindows":
        """Return drafts of the windows that a correction folds again, given the state before it."""
        page = state.boards[fact.board]
        corrected = cls(index, page, fact)
        final = await refusals_final(ledger, page)
        wanted = _wanted(page, fact)
        for defined_at in dict.fromkeys(one.defined_at for one in wanted):
            some = [one for one in wanted if one.defined_at == defined_at]
            board = page.board_at(defined_at)
            draft = BoardRebuild(
                ledger,
                index,
                page,
                board,
                state=state,
                refusals_final=final,
                names=frozenset(one.name for one in some),
                lasting={one.place: one.through for one in some if one.through is not None},
                coming=coming,
                rolling=[one.window for one in some if is_rolling(board, one.name)],
            )
            ends = [one.through for one in some if one.through is not None]
            through = None if defined_at == page.defined_at else max(ends)
            corrected._parts.append(_Part(draft, {one.place: one.id for one in some}, through))
        return corrected

    @property
    def position(self) -> Position:
        """Up to where all of them are folded."""
        return min((draft.position for draft, _, _ in self._open_parts()), default=Position(0))

    def _open_parts(self) -> Sequence[_Part]:
        return [part for part in self._parts if part.through is None]

    async def catch_up(
        self, *, through: Position, tell: Callable[[Progress], None] = lambda _: None
    ) -> None:
        """Fold everything up to a position."""
        for draft, _, ended in self._parts:
            until = through if ended is None else min(through, Position(ended - 1))
            await draft.catch_up(through=until, tell=tell)

    def fits(self, fact: WindowsCorrected) -> bool:
        """Whether these are the drafts of a correction, but for the time that it has reached."""
        return self.is_current and _what(self._fact) == _what(fact)

    @property
    def is_current(self) -> bool:
        """Whether no other correction was made since they were begun."""
        return all(draft.is_current for draft, _, _ in self._parts)

    async def adopt(self, begun: MoveBatch, fact: WindowsCorrected) -> None:
        """Let a batch adopt them, and drop the windows that never should have been."""
        again = {*fact.removed, *(window.window for window in fact.closed)}
        stay = {*fact.kept, *(id for id in self._page.sealed if id not in again)}
        living = await self._index.rankings(fact.board)
        begun.dropped += [ranking for ranking in living if ranking.window not in stay]
        await self.replace(begun, fact.time)

    async def replace(self, begun: MoveBatch, at: Instant) -> None:
        """Let a batch put the drafts in place of the windows that they were made of."""
        for draft, ids, _ in self._parts:
            await draft.adopt_as(begun, ids, at)

    def drafted(self, ranking: Ranking) -> Ranking | None:
        """Return the draft of a living ranking; None if it is not folded again."""
        for draft, ids, _ in self._parts:
            found = draft.draft_of(ranking, ids)
            if found is not None:
                return found
        return None

    async def discard(self) -> None:
        """Forget all of them."""
        for draft, _, _ in self._parts:
            await draft.discard()


def days_of(before: Board, after: Board, at: Instant) -> list[OpenWindow]:
    """Return the rolling windows that a redefinition at about this time folds again.

    Today's, and tomorrow's in case that the day ends before it.
    """
    again = refolded(before, after)
    found: list[OpenWindow] = []
    for recurrence in after.windows:
        window = recurrence.window_at(at) if recurrence.rolls and recurrence.name in again else None
        coming = None if window is None else recurrence.next_after(window)
        some = [one for one in (window, coming) if one is not None]
        found += [OpenWindow(one.id, one.start, one.end) for one in some]
    return found


def _wanted(page: BoardState, fact: WindowsCorrected) -> list[_Wanted]:
    """Return the windows that are folded again."""
    wanted = [
        _wanted_one(page.board, page.defined_at, one, None)
        for one in fact.windows
        if one.window not in fact.kept
    ]
    for closed in fact.closed:
        defined_at, board = page.definition_at(Position(closed.through - 1))
        window = OpenWindow(closed.window, closed.start, closed.end)
        wanted.append(_wanted_one(board, defined_at, window, closed.through))
    return wanted


def _wanted_one(
    board: Board, defined_at: Position, window: OpenWindow, through: Position | None
) -> _Wanted:
    name, start = name_of_window(window.window), window.start
    place = (window.window if is_rolling(board, name) else name), start
    return _Wanted(defined_at, name, place, window.window, through, window)


def is_rolling(board: Board, name: str) -> bool:
    """Whether the windows of this name overlap."""
    return any(recurrence.rolls for recurrence in board.windows if recurrence.name == name)


def _what(fact: WindowsCorrected) -> WindowsCorrected:
    return msgspec.structs.replace(fact, time=0, actor=None, request_id=None, address=None)


async def refusals_final(ledger: LedgerReader, page: BoardState) -> bool:
    """Tell whether the definition in force counts nothing that was refused before it."""
    if not page.earlier:
        return True
    (recorded,) = await ledger.read(after=Position(page.defined_at - 1), limit=1)
    return is_definition(recorded.fact) and recorded.fact.refusals_final

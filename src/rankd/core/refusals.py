"""Admission: which windows refused a submission at its own position, judged again from the ledger.

A refusal is final. A draft folds facts that may be years old under a definition of today, and has
to know of each whether it was refused when its turn came. No verdict is stored: the definition in
force and the windows open at a position are facts, and judging is a pure function of them and of
the player's scores at the time.

Those scores matter only for sums and deltas, and only where a total can leave its bounds. While all
numbers submitted to the board stay within them together, no total leaves them, and two numbers are
kept (``_Reach``). From the first submission on that might leave them, every player's scores are
kept for every window (``_Totals``): some 200 bytes a player, and one more pass over the ledger.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from rankd.core.board_state import EDITION, BoardState, name_of_window
from rankd.core.fold import in_terms_of
from rankd.core.player_history import (
    NOT_REFUSED,
    REFUSED,
    PlayerHistory,
    WindowRefusal,
    corrections_of,
    facts_of_player,
)
from rankd.core.state import NO_WINDOWS, State
from rankd.core.window_schedule import NEVER
from rankd.model.board import Board, ScoreRule, Scores
from rankd.model.decay import LinearDecay
from rankd.model.facts import (
    Position,
    Recorded,
    ScoreSubmitted,
    WindowFrozen,
    WindowOpened,
    is_definition,
    is_submission,
)
from rankd.model.redefinition import Translator, refolded, scale
from rankd.model.submission import ATTEMPTS_EXHAUSTED, Counted, Rejected, Verdict, judge
from rankd.model.window import Instant, Window
from rankd.ports import LedgerReader

FACTS_TOGETHER_MAX = 1_000
"""Facts read at once while totals are folded."""


class RefusalReplay:
    """Judges a board's submissions as they were judged, given its facts in order."""

    def __init__(self, ledger: LedgerReader, page: BoardState, state: State) -> None:
        self._ledger = ledger
        self._name, self._since = page.board.name, page.since
        self._living, self._living_state = page, state
        name = page.board.name
        self._corrected = state.corrected(name) or state.living.has(name)
        self._histories: dict[str, Mapping[Position, WindowRefusal]] = {}
        self._defined_at = [*(position for position, _ in page.earlier), page.defined_at]
        self._state = State()
        self._page = page
        """The board at the position that is reached; a retired one as it was."""
        self._reach = _Reach()
        self._totals: _Totals | None = None

    def note(self, recorded: Recorded) -> None:
        """Take a fact of the board that is no submission."""
        fact = recorded.fact
        before = self._state.boards.get(self._name)
        if is_definition(fact) and before is not None:
            self._reach.rescale(scale(before.board, Board.define(fact.board, fact.definition)))
        self._state.note(recorded)
        self._page = self._state.boards.get(self._name, self._page)
        if self._totals is not None:
            self._totals.turn(recorded, self._page)

    def exhausted(self, recorded: Recorded) -> frozenset[str]:
        """Return the windows in which its player had no attempts left. Once for each, in order."""
        return self._attempt(self._state, self._page, recorded)

    def _attempt(self, state: State, page: BoardState, recorded: Recorded) -> frozenset[str]:
        assert is_submission(recorded.fact)
        if recorded.position in self._living_state.refused:
            return NO_WINDOWS
        return state.attempt(page, recorded.fact)

    async def refusal(
        self, recorded: Recorded, exhausted: frozenset[str] = NO_WINDOWS
    ) -> WindowRefusal:
        """Return where a submission was refused at its own position, these windows included."""
        found = await self._refusal(recorded, exhausted)
        if found.everywhere or not exhausted:
            return found
        windows = found.windows | exhausted
        return WindowRefusal(windows >= self._page.windows.keys(), windows)

    async def _refusal(self, recorded: Recorded, exhausted: frozenset[str]) -> WindowRefusal:
        page, fact = self._page, recorded.fact
        assert is_submission(fact)
        fact = in_terms_of(page, fact)
        if self._totals is None:
            self._reach.add(fact)
            if not page.windows or not _depends_on_scores(page.board, fact):
                alone = isinstance(judge(page.board, fact, None, recorded.at), Rejected)
                return REFUSED if alone or not page.windows else NOT_REFUSED
            if self._reach.stays_within(page.board):
                return NOT_REFUSED
            if self._corrected:
                return await self._refusal_in_history(recorded.position, fact.player)
            self._totals = await self._totals_before(recorded.position)
        return self._totals.submit(recorded, page, fact, exhausted)

    async def _refusal_in_history(self, position: Position, player: str) -> WindowRefusal:
        """Return where a submission was refused, on a board with retractions.

        The player's total was another one before each of them, so its history is folded again.
        """
        known = self._histories.get(player)
        if known is None:
            known = self._histories[player] = await self._refusals_of(player)
        return known.get(position, NOT_REFUSED)

    async def _refusals_of(self, player: str) -> Mapping[Position, WindowRefusal]:
        page, state = self._living, self._living_state
        head = await self._ledger.head()
        facts = await facts_of_player(self._ledger, page, player, state.erased, through=head)
        corrections = corrections_of(state, page, facts)
        return PlayerHistory(page, facts, corrections, state.wrong_times).refusals

    async def _totals_before(self, position: Position) -> "_Totals":
        """Return every player's scores as they were just before a position."""
        definitions = [await self._definition(at) for at in self._defined_at]
        totals, state = _Totals(definitions), State()
        reached = Position(self._since - 1)
        while reached < position - 1:
            limit = min(FACTS_TOGETHER_MAX, position - 1 - reached)
            for recorded in await self._ledger.read(after=reached, limit=limit):
                reached = recorded.position
                if reached < position and getattr(recorded.fact, "board", None) == self._name:
                    self._replay(totals, state, recorded)
        return totals

    def _replay(self, totals: "_Totals", state: State, recorded: Recorded) -> None:
        fact = recorded.fact
        if not is_submission(fact):
            state.note(recorded)
            totals.turn(recorded, state.boards[self._name])
        elif (fact.defined or self._since) >= self._since:
            page = state.boards[self._name]
            exhausted = self._attempt(state, page, recorded)
            if self._counted(recorded.position):
                totals.submit(recorded, page, in_terms_of(page, fact), exhausted)

    def _counted(self, position: Position) -> bool:
        return self._living_state.counts(position)

    async def _definition(self, position: Position) -> "_RecordedDefinition":
        (recorded,) = await self._ledger.read(after=Position(position - 1), limit=1)
        fact = recorded.fact
        assert is_definition(fact)
        board = Board.define(fact.board, fact.definition)
        return _RecordedDefinition(position, board, fact.refusals_final)


def _depends_on_scores(board: Board, fact: ScoreSubmitted) -> bool:
    """Whether the player's scores decide if a submission is rejected, and not it alone."""
    if fact.scores is None:
        return board.rule is not ScoreRule.FIRST
    return board.rule is ScoreRule.SUM and len(fact.scores) == board.width


class _Reach:
    """The least and the greatest total that any rule of a board can reach."""

    def __init__(self) -> None:
        self._low = self._high = 0

    def add(self, fact: ScoreSubmitted) -> None:
        for number in fact.scores if fact.scores is not None else (fact.delta or 0,):
            self._low += min(number, 0)
            self._high += max(number, 0)

    def rescale(self, factor: int) -> None:
        self._low, self._high = self._low * factor, self._high * factor

    def stays_within(self, board: Board) -> bool:
        if isinstance(board.decay, LinearDecay):
            return False  # Time alone may make a total less than any sum.
        return board.score_low <= self._low and self._high <= board.score_high


# ------------------------------------------------------------------------------- totals


class _RecordedDefinition(NamedTuple):
    """A definition of the board, as the ledger has it."""

    position: Position
    board: Board
    refusals_final: bool


_Entries = dict[str, Scores]
"""Scores by player, in one window."""


class _Totals:
    """Every player's scores in the open windows, and in those that later definitions fold again."""

    def __init__(self, definitions: Sequence[_RecordedDefinition]) -> None:
        self._entries: dict[str, _Entries] = {}
        """By the ids of the open windows, and of those of the coming days of rolling ones."""
        self._coming = [_Refolding(before.board, after) for before, after in pairwise(definitions)]

    def turn(self, recorded: Recorded, page: BoardState) -> None:
        """Take a definition or a turned window, which the page has noted already."""
        before = self._entries
        between = {one.name for one in page.rolling if one.name not in page.windows}
        kept = {id: before[id] for id in before if name_of_window(id) in between}
        self._entries = kept | {
            id: before.get(id, {})
            for opened in page.windows.values()
            for id in _counted_in(page.board, opened.window)
        }
        if is_definition(recorded.fact):
            self._define(recorded, page)
        for refolding in self._coming:
            refolding.follow_operator(recorded)

    def _define(self, recorded: Recorded, page: BoardState) -> None:
        if self._coming and self._coming[0].position == recorded.position:
            folded = self._coming.pop(0).entries_at(recorded.at)
            for name, entries in folded.items():
                opened = page.windows.get(name)
                self._entries[name if opened is None else opened.window.id] = entries
        for refolding in self._coming:
            refolding.translator.define(recorded.position, page.board)

    def submit(
        self,
        recorded: Recorded,
        page: BoardState,
        fact: ScoreSubmitted,
        exhausted: frozenset[str],
    ) -> WindowRefusal:
        """Judge a submission, in the terms in force, in every open window that is not exhausted."""
        verdicts = {
            name: ATTEMPTS_EXHAUSTED
            if name in exhausted
            else self._judge(opened.window, page.board, fact, recorded.at)
            for name, opened in page.windows.items()
        }
        refusal = _refusal_of(verdicts)
        original = recorded.fact
        assert is_submission(original)
        for refolding in self._coming:
            refolding.submit(recorded.at, original, refusal)
        return refusal

    def _judge(self, window: Window, board: Board, fact: ScoreSubmitted, at: Instant) -> Verdict:
        """Judge a submission in its window, and in those of later days if that counts it."""
        own, *later = _counted_in(board, window)
        verdict = _judge_in(self._entries[own], board, fact, at)
        for id in () if isinstance(verdict, Rejected) else later:
            _judge_in(self._entries[id], board, fact, at)
        return verdict


def _counted_in(board: Board, window: Window) -> tuple[str, ...]:
    """Return under which ids a submission counts that is made in a window: its own first."""
    rolling = next((one for one in board.windows if one.name == window.name and one.rolls), None)
    if rolling is None or window.end is None:
        return (window.id,)
    return tuple(one.id for one in rolling.covering(window.end - 1))


def _judge_in(entries: _Entries, board: Board, fact: ScoreSubmitted, at: Instant) -> Verdict:
    verdict = judge(board, fact, entries.get(fact.player), at)
    if isinstance(verdict, Counted):
        entries[fact.player] = verdict.scores
    return verdict


def _refusal_of(verdicts: Mapping[str, Verdict]) -> WindowRefusal:
    windows = frozenset(name for name, verdict in verdicts.items() if isinstance(verdict, Rejected))
    return WindowRefusal(len(windows) == len(verdicts), windows)


class _Refolding:
    """The scores that a later definition of the board folds again, before it is in force."""

    def __init__(self, before: Board, after: _RecordedDefinition) -> None:
        self.position, self._board, self._final = after
        self.translator = Translator(self._board)
        names = refolded(before, self._board)
        self._recurrences = [one for one in self._board.windows if one.name in names]
        self._windows: dict[str, Window] = {}
        self._entries: dict[str, _Entries] = {}
        self._turn_at: Instant = 0

    def submit(self, at: Instant, fact: ScoreSubmitted, refusal: WindowRefusal) -> None:
        """Fold a submission as a draft of this definition does."""
        self._roll(at)
        translated = self.translator.translate(fact)
        for name, entries in () if translated is None else self._entries.items():
            if not (self._final and refusal.holds_in(name_of_window(name))):
                assert translated is not None
                _judge_in(entries, self.translator.board, translated, at)

    def follow_operator(self, recorded: Recorded) -> None:
        """Count no more in a window that was frozen, and anew in one that was reset."""
        fact = recorded.fact
        if not isinstance(fact, WindowFrozen | WindowOpened):
            return
        name = name_of_window(fact.window)
        window = self._windows.get(name)
        if window is None or window.id != fact.window.partition(EDITION)[0]:
            return
        if isinstance(fact, WindowFrozen):
            self._entries.pop(name, None)
        elif EDITION in fact.window and (fact.start or 0) > (window.start or 0):
            self._entries[name] = {}

    def entries_at(self, at: Instant) -> Mapping[str, _Entries]:
        """Return the scores in the windows that are open when it comes into force, by name.

        Those in windows of rolling recurrences by id, with the windows of coming days.
        """
        self._roll(at)
        return self._entries

    def _roll(self, at: Instant) -> None:
        """Let go of windows whose time is over, and begin those whose time has come."""
        if at < self._turn_at:
            return
        turns = [NEVER]
        for recurrence in self._recurrences:
            name, window = recurrence.name, recurrence.window_at(at)
            if recurrence.rolls:
                self._roll_days(recurrence.covering(at))
            elif window is None:
                self._windows.pop(name, None)
                self._entries.pop(name, None)
                coming = recurrence.next_opening(at)
                turns.append(NEVER if coming is None or coming.start is None else coming.start)
                continue
            elif self._windows.get(name) != window:
                self._windows[name], self._entries[name] = window, {}
            turns.append(NEVER if window is None or window.end is None else window.end)
        self._turn_at = min(turns)

    def _roll_days(self, windows: Sequence[Window]) -> None:
        """Go on with the windows of a rolling recurrence that contain a day."""
        ids = {window.id for window in windows}
        name = windows[0].name
        for id in [id for id in self._entries if id != name and name_of_window(id) == name]:
            if id not in ids:
                del self._entries[id]
        for id in ids:
            self._entries.setdefault(id, {})

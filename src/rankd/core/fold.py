"""The fold: facts in, moves of the index and receipts out.

There are two paths through it, with equal results.

*In place.* Plain submissions, by far the most of all facts, go to an index that judges as columns:
it finds, judges and moves entries where they are, and no object is made for any of them.

*In moves.* Everything else is folded in three steps, so that an index across a network gets two
calls and not a thousand: a read of the entries that the facts may touch; then, without a call,
every fact judged in order against those entries and the results of earlier facts; then all moves
as one apply.

Invariants:

1. Facts are folded in order of position, each exactly once: an index applies only the facts
   that follow its checkpoint.
2. The effect of a fact depends only on the facts before it: no clock, no random number, no order
   of dictionaries that differs between processes.
3. All rankings that a submission belongs to change together: a reader sees all of it or none.
4. An entry's order key changes only when its scores do.
"""

import asyncio
from array import array
from collections.abc import Awaitable, Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import groupby
from typing import Any, NamedTuple

import msgspec

from rankd.core.board_state import BoardState, OpenedWindow
from rankd.core.receipts import JudgedRun, Receipts, RunReceipts, joined
from rankd.core.reviews import BarredRows, JudgedColumns
from rankd.core.state import NO_WINDOWS, State, differing, segments_of
from rankd.model.board import ScoreRule, Scores
from rankd.model.facts import (
    Attributes,
    BoardDefined,
    BoardExpired,
    BoardRedefined,
    BoardRetired,
    ExpiringScoreSubmitted,
    Fact,
    Position,
    Recorded,
    ScoreAdjusted,
    ScoreSubmitted,
    WindowDropped,
    WindowOpened,
    WindowsCorrected,
    is_submission,
)
from rankd.model.receipt import InWindow, Receipt, VerdictName, is_rejected
from rankd.model.redefinition import Translation
from rankd.model.rules import Reason
from rankd.model.standing import TieRule
from rankd.model.submission import (
    ATTEMPTS_EXHAUSTED,
    OVERFLOW,
    Counted,
    Held,
    NotBetter,
    Rejected,
    Verdict,
    judge,
)
from rankd.model.window import Instant
from rankd.ports import (
    DRAFT,
    REFUSED,
    STAY,
    LedgerReader,
    Move,
    Moved,
    RankIndex,
    Ranking,
    RankingShape,
    Run,
    SegmentChange,
)

Place = tuple[Ranking, str]
Entries = dict[Place, bytes | None]


class FoldPart(NamedTuple):
    """Consecutive facts that go one way through the fold."""

    plain: bool
    """Whether in place."""
    facts: Sequence[Recorded]
    share: float
    """Of the cost that a part may have: before parts come to more than 1, readers have a turn."""
    news: Sequence[Recorded] = ()
    """Those in place that may change the attributes of their player."""


class _PlainPart(NamedTuple):
    """The end of a part that goes in place, its cost, and the facts that may change attributes."""

    end: int
    cost: int
    news: Sequence[Recorded]


class _TouchedPlayers:
    """The players whose profiles some facts may change, looked up when first asked for."""

    def __init__(self, state: State, facts: Sequence[Recorded]) -> None:
        self._state, self._facts = state, facts

    @cached_property
    def players(self) -> Set[str]:
        """Return the players. Others keep their profiles through every part of the fold."""
        return self._state.players_with_news(recorded.fact for recorded in self._facts)


class _Outcome(NamedTuple):
    """The verdict in one window, and the number of the move that returns its ranks."""

    window: str
    verdict: Verdict
    before: Scores | None
    after: Scores | None
    move: int


class _AttemptsLeft:
    """The attempts that players have left on a board, while a part of a fold is looked for."""

    def __init__(self, limit: int, made: Callable[[str], int]) -> None:
        self._limit = limit
        self._made = made
        self._left: dict[str, int] = {}

    def take(self, player: str) -> bool:
        """Take one of a player's attempts; False if a window may have none left."""
        left = self._left.get(player)
        if left is None:
            left = self._limit - self._made(player)
        self._left[player] = left - 1
        return left > 0


class _Judged(NamedTuple):
    page: BoardState
    fact: ScoreSubmitted
    position: Position
    outcomes: dict[str, _Outcome]
    reasons: tuple[Reason, ...] = ()
    """The rules that bar it."""
    expires: Instant | None = None
    """When its term is over, if it has one."""


@dataclass(slots=True)
class MoveBatch:
    """The intermediate result of folding some facts in moves."""

    entries: dict[Place, bytes | None] = field(default_factory=dict)
    """The order keys as the facts so far have made them."""
    beside: dict[Place, bytes | None] = field(default_factory=dict)
    """The metadata that they brought."""
    moves: list[Move] = field(default_factory=list)
    opened: dict[Ranking, RankingShape] = field(default_factory=dict)
    dropped: list[Ranking] = field(default_factory=list)
    adopted: dict[Ranking, Ranking] = field(default_factory=dict)
    judged: list[_Judged] = field(default_factory=list)
    fresh: set[Ranking] = field(default_factory=set)
    """Windows that the facts have opened, still empty."""
    at: Position | None = None
    """The position that entries are looked up at; None for drafts, which have none."""

    def clear(self) -> None:
        """Forget moves and rankings that were staged."""
        self.entries, self.beside, self.moves, self.judged = {}, {}, [], []
        self.opened, self.dropped, self.adopted, self.fresh = {}, [], {}, set()

    def put(
        self,
        place: Place,
        order_key: bytes | None,
        metadata: bytes | None = None,
        ties: TieRule = TieRule.ORDINAL,
    ) -> int:
        """Move a player; return which move it is."""
        self.entries[place] = order_key
        self.beside[place] = metadata
        self.moves.append(Move(*place, order_key, metadata, ties))
        return len(self.moves) - 1

    def overflowed(self) -> list[str]:
        """Return the windows in which the last submission came to more than 64 bits."""
        outcomes = self.judged[-1].outcomes
        return [name for name, outcome in outcomes.items() if outcome.verdict is OVERFLOW]

    def ask(self, place: Place, ties: TieRule) -> int:
        """Ask for a player's rank at this moment; return which move tells it."""
        self.moves.append(Move(*place, STAY, None, ties))
        return len(self.moves) - 1


Redefine = Callable[[MoveBatch, Recorded], Awaitable[bool]]
"""Have the windows that a definition or a correction changes folded again, and adopted with the
batch.

For a definition, return whether the players in them are among the state's player_boards; for a
retraction, whether it was done so."""


class Fold:
    """Folds facts into an index and a state."""

    def __init__(
        self, index: RankIndex, state: State, redefine: Redefine, ledger: LedgerReader
    ) -> None:
        self.ledger = ledger
        """For corrections, which fold facts again."""
        self._index = index
        self._state = state
        self._redefine = redefine

    async def fold(self, part: "FoldPart", *, after: Position) -> Receipts:
        """Fold a part that follows ``after``; return the receipts of the submissions in it."""
        if part.plain:
            return await self._in_place(part.facts, part.news, after)
        return await self._in_moves(part.facts, after)

    def parted(self, facts: Sequence[Recorded]) -> Iterator["FoldPart"]:
        """Split the facts where the path through the fold changes.

        Whether a fact is plain depends on the state, so each part is formed only after those before
        it were folded.
        """
        start = 0
        touched = _TouchedPlayers(self._state, facts)
        while start < len(facts):
            plain, (end, cost, news) = True, self._plain_until(facts, start, touched)
            bound = IN_PLACE_COST_MAX
            if end == start:
                plain, (end, cost) = False, self._intricate_until(facts, start, touched)
                bound = IN_MOVES_COST_MAX
            some = facts[start:end] if end - start < len(facts) else facts
            yield FoldPart(plain, some, cost / bound, news)
            start = end

    def _plain_until(
        self, facts: Sequence[Recorded], start: int, touched: "_TouchedPlayers"
    ) -> "_PlainPart":
        """Return the end of a part that goes in place, its bounded cost, and the news in it."""
        if not self._index.judges:
            return _PlainPart(start, 0, ())
        boards, seen, unranked = self._state.boards, None, self._state.player_states
        plain = no_delta = False
        lefts: dict[str, _AttemptsLeft | None] = {}
        attempts: _AttemptsLeft | None = None
        defined_at: Position | None = None
        news: list[Recorded] = []
        changing: set[str] = set()
        width = cost = spent = 0
        for place in range(start, len(facts)):
            fact = facts[place].fact
            if type(fact) is not ScoreSubmitted or fact.run is not None:
                return _PlainPart(place, spent, news)
            if fact.player in unranked:
                return _PlainPart(place, spent, news)
            if fact.board != seen:
                seen = fact.board
                page = boards.get(seen)
                plain = page is not None and judged_in_place(page)
                width = 0 if page is None else page.board.width
                no_delta = page is not None and page.board.rule is ScoreRule.FIRST
                defined_at = None if page is None else page.defined_at
                cost = 0 if page is None else _cost_in_place(page)
                attempts = lefts.get(seen)
                if attempts is None and page is not None:
                    attempts = lefts[seen] = self._attempts_left(page)
            if fact.defined is not None and fact.defined != defined_at:
                return _PlainPart(place, spent, news)
            if not plain or (no_delta if fact.scores is None else len(fact.scores) != width):
                return _PlainPart(place, spent, news)
            told = fact.attributes
            is_news = told and fact.player in touched.players and self._is_news(fact, changing)
            moved = self._cost_of_segments(fact) if is_news else 0
            if spent + cost + moved > IN_PLACE_COST_MAX and place > start:
                return _PlainPart(place, spent, news)
            if attempts is not None and not attempts.take(fact.player):
                return _PlainPart(place, spent, news)
            if is_news:
                changing.add(fact.player)
                news.append(facts[place])
            spent += cost + moved
        return _PlainPart(len(facts), spent, news)

    def _is_news(self, fact: ScoreSubmitted, changing: Set[str]) -> bool:
        told = fact.attributes or {}
        return fact.player in changing or not self._state.knows(fact.player, told)

    def _attempts_left(self, page: BoardState) -> "_AttemptsLeft | None":
        limit = page.board.limits.attempts_max
        if limit is None:
            return None
        made = partial(self._state.attempts.most, page.board.name, page.window_ids)
        return _AttemptsLeft(limit, made)

    def _intricate_until(
        self, facts: Sequence[Recorded], start: int, touched: "_TouchedPlayers"
    ) -> tuple[int, int]:
        """Return the end of a part that goes in moves, and its cost.

        A fact that replaces or drops rankings is a part of its own. An apply drops last, so no fact
        may follow; and it drops the rankings that the index has, so no fact that opens one, or
        returns receipts of its board, may precede. Otherwise the part ends where plain submissions
        begin, unless the two kinds alternate, or where the cost of a part is reached.
        """
        bounded, spent = self._index.immediate, self._cost(facts[start].fact)
        for place in range(start + 1, len(facts)):
            before = facts[place - 1].fact
            if is_barrier(before) or is_barrier(facts[place].fact):
                return place, spent
            cost = self._cost(facts[place].fact) if bounded else 0
            if spent + cost > IN_MOVES_COST_MAX and bounded:
                return place, spent
            long = place - start >= IN_MOVES_AT_LEAST
            worth_it = long or not is_submission(before)
            if worth_it and self._plain_until(facts[place : place + 1], 0, touched).end:
                return place, spent
            spent += cost
        return len(facts), spent

    def _cost(self, fact: Fact) -> int:
        """Return about how many moves a fact makes, by the state before the part it belongs to."""
        cost = 1 + self._cost_of_segments(fact)
        page = self._state.boards.get(fact.board) if is_submission(fact) else None
        if page is not None:
            cost += len(page.windows) * (1 + len(page.board.segments))
        return cost

    def _cost_of_segments(self, fact: Fact) -> int:
        """Return about how many moves a fact makes between segments."""
        return sum(MOVES_TO_SEGMENT for _ in self._in_segments(fact))

    # ---------------------------------------------------------------------- in place

    async def _in_place(
        self, facts: Sequence[Recorded], news: Sequence[Recorded], after: Position
    ) -> Receipts:
        """Have plain submissions judged where the entries are.

        No verdict depends on attributes. So players come to the segments of their last attributes
        once all of the part is judged, and no reader sees a part of it.
        """
        before = self._learn(news) if news else {}
        boards = [facts] if _one_board(facts) else _by_board(facts)
        runs = [self._run(some) for some in boards]
        barred = [self._judge_by_rules(run, some) for run, some in zip(runs, boards, strict=True)]
        runs = [
            run if one is None else run._replace(barred=one.barred)
            for run, one in zip(runs, barred, strict=True)
        ]
        for some, run in zip(boards, runs, strict=True):
            self._count_attempts(some, run.barred)
        changes = [change for item in before.items() for change in self._changes(*item)]
        verdicts = await self._index.judge(
            runs, after=after, through=facts[-1].position, changes=changes
        )
        assert verdicts is not None, f"somebody else moved the index past {after}"
        receipts = [
            RunReceipts(
                JudgedRun(
                    self._state.boards[run.board.name].windows,
                    run,
                    told,
                    {} if one is None else one.reasons,
                )
            )
            for run, told, one in zip(runs, verdicts, barred, strict=True)
        ]
        return joined(receipts)

    def _learn(self, news: Sequence[Recorded]) -> dict[str, Attributes]:
        """Note attributes; return those before, of each player whose attributes differ now."""
        before: dict[str, Attributes] = {}
        for recorded in news:
            change = recorded.fact.profile_change()
            assert change is not None, "it tells attributes"
            known = self._state.profile(change.player).attributes
            if differing(known, change.attributes_after(known)):
                before.setdefault(change.player, known)
                self._state.change_profile(change)
        return before

    def _changes(self, player: str, before: Attributes) -> Iterator[SegmentChange]:
        """Yield where a player changes segments, in every open window."""
        attributes = self._state.profile(player).attributes
        changed = differing(before, attributes)
        for page in self._state.concerned(player, changed) if changed else ():
            old, new = segments_of(page.board, before), segments_of(page.board, attributes)
            left = [segment for segment in old if segment not in new]
            entered = [segment for segment in new if segment not in old]
            for opened in page.windows.values() if left or entered else ():
                yield SegmentChange(opened.ranking, player, left, entered)

    def _run(self, facts: Sequence[Recorded]) -> Run:
        submitted: list[ScoreSubmitted] = [recorded.fact for recorded in facts]  # type: ignore[misc]
        page = self._state.boards[submitted[0].board]
        positions = array("Q", [recorded.position for recorded in facts])
        return run_of(page, submitted, positions, self._enter(page, submitted))

    def _judge_by_rules(self, run: Run, facts: Sequence[Recorded]) -> BarredRows | None:
        width = run.board.width
        scores = run.scores if width == 1 else run.scores[::width]
        columns = JudgedColumns(run.players, scores, run.deltas)
        return self._state.judge_by_rules(self._state.boards[run.board.name], columns, facts)

    def _count_attempts(self, facts: Sequence[Recorded], barred: bytes | None) -> None:
        """Count the attempts of a run, of which the board has none that is one too many."""
        page = self._state.boards[facts[0].fact.board]  # type: ignore[attr-defined]
        if page.board.limits.attempts_max is not None:
            for row, recorded in enumerate(facts):
                if barred is not None and barred[row] == REFUSED:
                    continue
                spent = self._state.attempt(page, recorded.fact)  # type: ignore[arg-type]
                assert not spent, "it goes in moves"

    def _enter(
        self, page: BoardState, submitted: Sequence[ScoreSubmitted]
    ) -> list[list[str]] | None:
        """Note the players that submit to a board with segments; return the segments of each."""
        if not page.board.segments:
            return None
        enter, since = self._state.player_boards.add, page.since
        profile_of, board = self._state.profile, page.board
        known: dict[int, list[str]] = {}  # Many profiles share the same attributes.
        entered: list[list[str]] = []
        for fact in submitted:
            enter(fact.player, since)
            attributes = profile_of(fact.player).attributes
            segments = known.get(id(attributes))
            if segments is None:
                segments = known[id(attributes)] = segments_of(board, attributes)
            entered.append(segments)
        return entered

    # ---------------------------------------------------------------------- in moves

    async def _in_moves(self, facts: Sequence[Recorded], after: Position) -> Receipts:
        entries = await self.entries_of(facts, after=after)
        begun = await self.begin(facts, entries, after=after)
        receipts = await self.apply(begun, after=after, through=facts[-1].position)
        assert receipts is not None, f"somebody else moved the index past {after}"
        return receipts

    async def begin(
        self, facts: Sequence[Recorded], entries: "Entries", *, after: Position
    ) -> MoveBatch:
        """Judge facts against the entries they touch, and note them in the state."""
        begun = MoveBatch(entries, at=after)
        paused_at = IN_MOVES_COST_MAX
        for recorded in facts:
            await self.fold_one(begun, recorded)
            if len(begun.moves) >= paused_at and not self._index.immediate:
                paused_at = len(begun.moves) + IN_MOVES_COST_MAX
                await asyncio.sleep(0)  # Such a state is behind the one that readers ask.
        return begun

    async def apply(
        self, begun: MoveBatch, *, after: Position, through: Position
    ) -> Receipts | None:
        """Apply a batch to the index; return the receipts, None if the checkpoint was another."""
        moved = await self._index.apply(
            begun.moves,
            after=after,
            through=through,
            opened=begun.opened,
            dropped=begun.dropped,
            adopted=begun.adopted,
        )
        if moved is None:
            return None
        return {
            judged.position: _receipt(
                judged, [moved[outcome.move] for outcome in judged.outcomes.values()]
            )
            for judged in begun.judged
        }

    async def entries_of(self, facts: Sequence[Recorded], *, after: Position) -> "Entries":
        """Fetch at once the entries that submissions are most likely to touch.

        Nothing is noted yet. Raises IndexForgot where a shared index is no longer there.
        """
        likely: dict[Place, None] = {}
        for recorded in facts:
            fact = recorded.fact
            if is_submission(fact) and fact.board in self._state.boards:
                for _, ranking, _ in self._state.boards[fact.board].windows.values():
                    likely[self.home(ranking, fact.player), fact.player] = None
            likely |= dict.fromkeys(self._in_segments(fact))
        places = list(likely)
        found = await self._index.order_keys(places, at=after)
        return dict(zip(places, found, strict=True))

    def _in_segments(self, fact: Fact) -> Iterator[Place]:
        """Yield where a player is looked for if a fact changes the segments that it is in."""
        change = fact.profile_change()
        if change is None:
            return
        known = self._state.profile(change.player).attributes
        changed = differing(known, change.attributes_after(known))
        for page in self._state.concerned(change.player, changed) if changed else ():
            for _, ranking, _ in page.windows.values():
                yield self.home(ranking, change.player), change.player

    async def fold_one(self, begun: MoveBatch, recorded: Recorded) -> None:
        """Fold a fact by the handler of its kind; the others change profiles or the state alone."""
        self._state.index_fact(recorded)
        handler = _HANDLERS.get(type(recorded.fact))
        if handler is not None:
            await handler.fold(self, begun, recorded.fact, recorded)
        else:
            await self.change_profile(begun, recorded)
            self._state.note(recorded)

    def _make_room(self, begun: MoveBatch, board: str) -> None:
        page = self._state.boards.get(board)
        for opened in () if page is None else page.windows.values():
            begun.opened[opened.ranking] = opened.terms.shape

    async def define(self, begun: MoveBatch, fact: BoardDefined, recorded: Recorded) -> None:
        """Take a definition, under which some windows may have been folded again."""
        before, traced = self._state.boards.get(fact.board), False
        if before is not None:  # It needs the page as it was.
            traced = await self._redefine(begun, recorded) and not before.board.segments
        self._state.note(recorded)
        if traced:  # With its first segments all windows were folded again.
            self._state.trace(self._state.boards[fact.board])
        drafted = set(begun.adopted.values())
        for opened in self._state.boards[fact.board].windows.values():
            if opened.ranking not in drafted:
                begun.opened[opened.ranking] = opened.terms.shape

    async def retire(self, begun: MoveBatch, fact: BoardRetired, recorded: Recorded) -> None:
        """Drop all rankings of a board."""
        page = self._state.boards.get(fact.board)
        if page is not None and not page.is_retired_by(fact):
            return
        self._state.note(recorded)
        begun.dropped += await self._index.rankings(fact.board)

    async def open_window(self, begun: MoveBatch, fact: WindowOpened, recorded: Recorded) -> None:
        """Make room for a window, which is empty unless it was there before."""
        page = self._state.boards.get(fact.board)
        if page is not None and page.is_stale(fact):
            return
        if page is None or not page.is_recorded(fact.window):
            begun.fresh.add(Ranking(fact.board, fact.window))
        self._state.note(recorded)
        self._make_room(begun, fact.board)

    async def drop_window(self, begun: MoveBatch, fact: WindowDropped, recorded: Recorded) -> None:
        """Drop the rankings of a closed window."""
        page = self._state.boards.get(fact.board)
        if page is not None and page.is_stale(fact):
            return
        self._state.note(recorded)
        every = await self._index.rankings(fact.board)
        begun.dropped += [ranking for ranking in every if ranking.window == fact.window]

    async def correct(self, begun: MoveBatch, fact: WindowsCorrected, recorded: Recorded) -> None:
        """Take windows that were folded again by the right time."""
        if fact.board not in self._state.boards:
            return
        await self._redefine(begun, recorded)  # It needs the page as it was.
        self._state.note(recorded)
        page, drafted = self._state.boards[fact.board], set(begun.adopted.values())
        made = [(opened.ranking, opened.terms) for opened in page.windows.values()]
        closed = [page.sealed[window.window] for window in fact.closed]
        made += [(sealed.ranking, sealed.terms) for sealed in closed]
        for ranking, terms in made:
            if ranking not in drafted and ranking.window not in fact.kept:
                begun.opened[ranking] = terms.shape

    # ...... for handlers

    async def retract_beside(self, begun: MoveBatch, recorded: Recorded) -> bool:
        """Fold the windows of a retraction again if it is of many players; False if of few."""
        return await self._redefine(begun, recorded)

    def note(self, recorded: Recorded) -> None:
        """Apply a fact to the state."""
        self._state.note(recorded)

    @property
    def state(self) -> State:
        """The state that facts are folded into."""
        return self._state

    @property
    def index(self) -> RankIndex:
        """The index that the moves are for."""
        return self._index

    def _board_of(self, ranking: Ranking) -> str:
        """Return the board of a ranking, also of a draft."""
        board = ranking.board
        return board.partition(":")[2] if board.startswith(DRAFT) else board

    async def entry(
        self, begun: MoveBatch, ranking: Ranking, player: str
    ) -> tuple[bytes, bytes | None] | None:
        """Return a player's order key and metadata, as the facts so far have made them."""
        order_key = await self._entry(begun, (ranking, player))
        if order_key is None:
            return None
        return order_key, await self._beside(begun, (ranking, player))

    def home(self, ranking: Ranking, player: str) -> Ranking:
        """Return the ranking that holds a player's entry: itself, or its unseen twin."""
        if not self._state.player_states:
            return ranking
        state = self._state.player_state(player, self._board_of(ranking))
        return ranking if state is None else ranking.unseen

    def open_windows(self, board: str) -> Sequence[OpenedWindow]:
        """Return the open windows of a board; none if it is unknown."""
        page = self._state.boards.get(board)
        return [] if page is None else list(page.windows.values())

    async def scores_of(self, begun: MoveBatch, opened: OpenedWindow, player: str) -> Scores | None:
        """Return a player's scores in a window, as the facts so far have made them."""
        place = (self.home(opened.ranking, player), player)
        return opened.terms.scores(await self._entry(begun, place))

    async def set_scores(
        self,
        begun: MoveBatch,
        opened: OpenedWindow,
        player: str,
        scores: Scores,
        position: Position,
    ) -> None:
        """Give a player other scores in a window; its metadata stays."""
        page = self._state.boards[self._board_of(opened.ranking)]
        place = (self.home(opened.ranking, player), player)
        metadata = await self._beside(begun, place)
        order_key = opened.terms.order.key(scores, position)
        segments = self._state.segments(page, player)
        self._place(begun, opened, player, order_key, metadata, segments)

    # ...... submissions

    async def submit(
        self,
        begun: MoveBatch,
        fact: ScoreSubmitted,
        recorded: Recorded,
        *,
        refused: Set[str] = frozenset(),
        again: bool = False,
    ) -> None:
        """Judge a submission in every window that is open, but for those that refused it before.

        ``again`` if it was admitted before, when its turn came. No clock is read. A window closes
        by a fact, which a node appends before any fact past the end; so no submission falls between
        two windows, also of a node that was behind.
        """
        page = self._state.boards.get(fact.board)
        if page is None or not counts_on(page, fact):
            return  # The board was retired while it waited: it is recorded, and counts nowhere.
        fact = in_terms_of(page, fact)
        self._state.enter(page, fact.player)
        await self.change_profile(begun, recorded)
        segments = self._state.segments(page, fact.player)
        barred = None if again else self._state.admit(page, fact, recorded)
        verdict = None if barred is None else barred.verdict
        counted = not again and not isinstance(verdict, Rejected)
        spent = self._state.attempt(page, fact) if counted else NO_WINDOWS
        expires = self._state.note_term(fact, recorded) if counted else None
        outcomes: dict[str, _Outcome] = {}
        for name, opened in page.windows.items():
            if name in refused:
                continue
            bar = ATTEMPTS_EXHAUSTED if name in spent else verdict
            outcomes[name] = await self._judge(
                begun, opened, fact, recorded.position, segments, bar
            )
        reasons = () if barred is None else barred.reasons
        begun.judged.append(_Judged(page, fact, recorded.position, outcomes, reasons, expires))

    async def _judge(
        self,
        begun: MoveBatch,
        opened: OpenedWindow,
        fact: ScoreSubmitted,
        position: Position,
        segments: Sequence[str],
        barred: Verdict | None,
    ) -> _Outcome:
        window, terms, player = opened.window, opened.terms, fact.player
        place = (self.home(opened.ranking, player), player)
        ranked, known = place[0] is opened.ranking, await self._entry(begun, place)
        before = terms.scores(known)
        verdict = barred or judge(terms.board, fact, before)
        if not isinstance(verdict, Counted):
            asked = (
                begun.ask(place, terms.board.ties)
                if ranked
                else self._ask_unseen(begun, opened, fact, (known, known))
            )
            return _Outcome(window.id, verdict, before, before, asked)
        order_key = known
        if verdict.moved or order_key is None:
            order_key = terms.order.key(verdict.scores, position)
        metadata = fact.metadata
        if fact.overrides and metadata is None and known is not None:
            metadata = await self._beside(begun, place)
        move = self._place(begun, opened, player, order_key, metadata, segments)
        if not ranked:
            move = self._ask_unseen(begun, opened, fact, (known, order_key))
        return _Outcome(window.id, verdict, before, verdict.scores, move)

    def _ask_unseen(
        self,
        begun: MoveBatch,
        opened: OpenedWindow,
        fact: ScoreSubmitted,
        keys: tuple[bytes | None, bytes | None],
    ) -> int:
        """Ask for the ranks that the receipt of a player without one shows; return which move.

        A shadowed player gets those that its entry, before and after, would have: it enters the
        ranking and leaves it again within one apply, of which no reader sees a part.
        """
        place, ties = (opened.ranking, fact.player), opened.terms.board.ties
        state = self._state.player_state(fact.player, fact.board)
        before, after = keys
        if state is None or state.state != "shadowed" or after is None:
            return begun.ask(place, ties)
        if before is not None:
            begun.moves.append(Move(*place, before))
        begun.moves.append(Move(*place, STAY if before == after else after, None, ties))
        begun.moves.append(Move(*place, None))
        return len(begun.moves) - 2

    def _place(
        self,
        begun: MoveBatch,
        opened: OpenedWindow,
        player: str,
        order_key: bytes,
        metadata: bytes | None,
        segments: Sequence[str],
    ) -> int:
        """Put an entry into a window and the segments of its player; return its first move."""
        ties, home = opened.terms.board.ties, self.home(opened.ranking, player)
        if home is not opened.ranking:
            begun.opened[home] = opened.terms.shape
        move = begun.put((home, player), order_key, metadata, ties)
        for segment in segments:
            self._put_in_segment(begun, opened, segment, player, order_key, metadata)
        return move

    def _put_in_segment(
        self,
        begun: MoveBatch,
        opened: OpenedWindow,
        segment: str,
        player: str,
        order_key: bytes,
        metadata: bytes | None,
    ) -> None:
        ranking = self.home(_in_segment(opened.ranking, segment), player)
        begun.opened[ranking] = opened.terms.shape
        begun.put((ranking, player), order_key, metadata)

    async def _entry(self, begun: MoveBatch, place: Place) -> bytes | None:
        if place not in begun.entries and place[0] in begun.fresh:
            begun.entries[place] = None
        if place not in begun.entries:
            (begun.entries[place],) = await self._index.order_keys([place], at=begun.at)
        return begun.entries[place]

    async def _beside(self, begun: MoveBatch, place: Place) -> bytes | None:
        if place not in begun.beside:
            (begun.beside[place],) = await self._index.metadata([place], at=begun.at)
        return begun.beside[place]

    # ...... segments

    async def change_profile(self, begun: MoveBatch, recorded: Recorded) -> None:
        """Move a player between segments if a fact changes its attributes.

        Also notes the attributes that a submission tells, if they are news.
        """
        change = recorded.fact.profile_change()
        if change is None:
            return
        known = self._state.profile(change.player).attributes
        after = change.attributes_after(known)
        if changed := differing(known, after):
            await self._change_segments(begun, change.player, after, changed)
            if is_submission(recorded.fact):
                self._state.change_profile(change)

    async def _change_segments(
        self, begun: MoveBatch, player: str, attributes: Attributes, changed: Set[str]
    ) -> None:
        """Move a player from the segments it was in to those it is in now, in every open window."""
        before = self._state.profile(player).attributes
        for page in self._state.concerned(player, changed):
            old, new = segments_of(page.board, before), segments_of(page.board, attributes)
            if old == new:
                continue
            for opened in page.windows.values():
                await self._change_in_window(begun, opened, player, old, new)

    async def _change_in_window(
        self,
        begun: MoveBatch,
        opened: OpenedWindow,
        player: str,
        old: Sequence[str],
        new: Sequence[str],
    ) -> None:
        place = (self.home(opened.ranking, player), player)
        order_key = await self._entry(begun, place)
        if order_key is None:
            return
        for segment in old:
            if segment not in new:
                left = self.home(_in_segment(opened.ranking, segment), player)
                begun.put((left, player), None)
        metadata = await self._beside(begun, place)
        for segment in new:
            if segment not in old:
                self._put_in_segment(begun, opened, segment, player, order_key, metadata)


IN_MOVES_COST_MAX = 1_024
"""The cost of a part that goes in moves, in moves of a player in a ranking: some ten milliseconds.
Between two parts readers have their turn, and see the facts so far."""

IN_PLACE_COST_MAX = 32_768
"""The same of a part that goes in place, where a move is one of the rank list: some thirty
milliseconds."""

MOVES_TO_SEGMENT = 2
"""A player that changes its segment leaves one and enters another."""

IN_MOVES_AT_LEAST = 2
"""How many facts go in moves before one looks whether they could go in place again."""


def judged_in_place(page: BoardState) -> bool:
    """Whether plain submissions to a board can be judged by the index, as columns."""
    return bool(page.windows) and page.board.verifier is None


def _cost_in_place(page: BoardState) -> int:
    """Return about how many moves a submission makes in place; shared ranks cost another search."""
    rankings = len(page.windows) * (1 + len(page.board.segments))
    return rankings if page.board.ties is TieRule.ORDINAL else 2 * rankings


def run_of(
    page: BoardState,
    facts: Sequence[ScoreSubmitted],
    positions: "array[int]",
    segments: Sequence[Sequence[str]] | None = None,
) -> Run:
    """Return submissions to one board as columns."""
    width = page.board.width
    deltas = bytes([fact.scores is None for fact in facts])
    if 1 not in deltas and width == 1:
        scores = array("q", [fact.scores[0] for fact in facts])  # type: ignore[index]
    else:
        rest = (0,) * (width - 1)
        scores = array("q")
        for fact in facts:
            scores.extend(fact.scores if fact.scores is not None else (fact.delta or 0, *rest))
    metadata = [fact.metadata for fact in facts]
    return Run(
        page.board,
        [opened.ranking for opened in page.windows.values()],
        [fact.player for fact in facts],
        scores,
        deltas if 1 in deltas else None,
        positions,
        metadata if metadata.count(None) < len(metadata) else None,
        segments,
    )


def _one_board(facts: Sequence[Recorded]) -> bool:
    name = facts[0].fact.board  # type: ignore[attr-defined]
    return all(recorded.fact.board == name for recorded in facts)  # type: ignore[attr-defined]


def _by_board(facts: Sequence[Recorded]) -> list[list[Recorded]]:
    boards: dict[str, list[Recorded]] = {}
    for name, some in groupby(facts, lambda recorded: recorded.fact.board):  # type: ignore[attr-defined]
        boards.setdefault(name, []).extend(some)
    return list(boards.values())


def _in_segment(ranking: Ranking, segment: str) -> Ranking:
    return Ranking(ranking.board, ranking.window, segment)


def counts_on(page: BoardState | None, fact: ScoreSubmitted) -> bool:
    """Whether a submission was made to this board, and not to one of its name before it."""
    return page is not None and (fact.defined or page.since) >= page.since


def in_terms_of(page: BoardState, fact: ScoreSubmitted) -> ScoreSubmitted:
    """Return a submission in the terms of the definition in force.

    One that was read under another and cannot be said in these has no columns, and is rejected.
    """
    if fact.defined is None or fact.defined == page.defined_at:
        return fact
    translated = Translation(page.board_at(fact.defined), page.board)(fact)
    if translated is not None:
        return translated
    return msgspec.structs.replace(fact, scores=(), delta=None)


# ---------------------------------------------------------------- handlers of fact kinds

Handle = Callable[[Fold, MoveBatch, Any, Recorded], Awaitable[None]]
"""Adds the moves of a fact to a batch, and notes the fact in the state."""


class FoldHandler(NamedTuple):
    """The effect of a kind of facts on the rankings."""

    fold: Handle
    barrier: bool
    """Whether it replaces or drops rankings, so that it is folded alone."""


_HANDLERS: dict[type[Fact], FoldHandler] = {}


def register_fold(*kinds: type[Fact], fold: Handle, barrier: bool = False) -> None:
    """Register how some kinds of facts are folded.

    Kinds without a handler move no entries, except between segments if they change a profile.
    """
    _HANDLERS.update(dict.fromkeys(kinds, FoldHandler(fold, barrier)))


def is_barrier(fact: Fact) -> bool:
    """Whether a fact is folded alone, because it replaces or drops rankings."""
    handler = _HANDLERS.get(type(fact))
    return handler is not None and handler.barrier


register_fold(ScoreSubmitted, ExpiringScoreSubmitted, ScoreAdjusted, fold=Fold.submit)
register_fold(BoardDefined, BoardRedefined, fold=Fold.define, barrier=True)
register_fold(BoardRetired, BoardExpired, fold=Fold.retire, barrier=True)
register_fold(WindowOpened, fold=Fold.open_window)
register_fold(WindowDropped, fold=Fold.drop_window, barrier=True)
register_fold(WindowsCorrected, fold=Fold.correct, barrier=True)


# ---------------------------------------------------------------------------- receipts


def _receipt(judged: _Judged, moved: Sequence[Moved]) -> Receipt:
    windows = {
        name: _in_window(outcome, each)
        for (name, outcome), each in zip(judged.outcomes.items(), moved, strict=True)
    }
    fact, decimals = judged.fact, judged.page.board.decimals
    return Receipt(
        fact.board,
        fact.player,
        judged.position,
        decimals,
        windows,
        is_rejected(windows),
        reasons=judged.reasons,
        expires=judged.expires,
    )


def _in_window(outcome: _Outcome, moved: Moved) -> InWindow:
    name, code, message = _named(outcome.verdict)
    return InWindow(
        outcome.window,
        name,
        outcome.after,
        outcome.before,
        moved.rank,
        moved.previous_rank,
        moved.total,
        code,
        message,
    )


def _named(verdict: Verdict) -> tuple[VerdictName, str | None, str | None]:
    match verdict:
        case Counted():
            return "counted", None, None
        case NotBetter():
            return "not_better", None, None
        case Held(reason):
            return "held", reason, None
        case Rejected(code, message):
            return "rejected", code, message

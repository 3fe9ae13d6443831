"""The fold: facts in, moves of the index and receipts out.

There are two paths through it, with equal results.

*In place.* Plain submissions, by far the most of all facts, go to an index that judges as columns:
it finds, judges and moves entries where they are, and no object is made for any of them. That is
in ``fold_parts``, which also tells where a path ends.

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
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set

import msgspec

from rankd.core.board_state import BoardState, OpenedWindow, Terms, name_of_window
from rankd.core.fold_handlers import handler_of, register_fold
from rankd.core.fold_parts import IN_MOVES_COST_MAX, entries_of_change
from rankd.core.move_batch import Entries, Judged, MoveBatch, Place, WindowOutcome, receipt_of
from rankd.core.receipts import Receipts
from rankd.core.rule_past import learn_past
from rankd.core.state import NO_WINDOWS, State, differing, segments_of
from rankd.model.board import Scores
from rankd.model.facts import (
    Attributes,
    BoardDefined,
    BoardExpired,
    BoardRedefined,
    BoardRelearned,
    BoardRetired,
    ExpiringScoreSubmitted,
    Position,
    Recorded,
    ScoreAdjusted,
    ScoreSubmitted,
    WindowDropped,
    WindowOpened,
    WindowPrepared,
    WindowsCorrected,
    is_submission,
)
from rankd.model.redefinition import Translation
from rankd.model.submission import (
    ATTEMPTS_EXHAUSTED,
    Counted,
    Rejected,
    Verdict,
    judge,
)
from rankd.model.window import Instant
from rankd.ports import DRAFT, STAY, LedgerReader, Move, RankIndex, Ranking

Redefine = Callable[[MoveBatch, Recorded], Awaitable[bool]]
"""Have the windows that a definition or a correction changes folded again, and adopted with the
batch.

For a definition, return whether the players in them are among the state's player_boards; for a
retraction, whether it was done so."""


class Fold:
    """Folds facts in moves into an index and a state."""

    def __init__(
        self, index: RankIndex, state: State, redefine: Redefine, ledger: LedgerReader
    ) -> None:
        self.ledger = ledger
        """For corrections, which fold facts again."""
        self._index = index
        self._state = state
        self._redefine = redefine

    async def fold(self, facts: Sequence[Recorded], after: Position) -> Receipts:
        """Fold facts that follow ``after``; return the receipts of the submissions among them."""
        entries = await self.entries_of(facts, after=after)
        begun = await self.begin(facts, entries, after=after)
        receipts = await self.apply(begun, after=after, through=facts[-1].position)
        assert receipts is not None, f"somebody else moved the index past {after}"
        return receipts

    async def begin(
        self, facts: Sequence[Recorded], entries: Entries, *, after: Position
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
            judged.position: receipt_of(
                judged, [moved[outcome.move] for outcome in judged.outcomes.values()]
            )
            for judged in begun.judged
        }

    async def entries_of(self, facts: Sequence[Recorded], *, after: Position) -> Entries:
        """Fetch at once the entries that submissions are most likely to touch.

        Nothing is noted yet. Raises IndexForgot where a shared index is no longer there.
        """
        likely: dict[Place, None] = {}
        for recorded in facts:
            fact = recorded.fact
            if is_submission(fact) and fact.board in self._state.boards:
                for _, ranking, _ in self._state.boards[fact.board].counting:
                    likely[self.home(ranking, fact.player), fact.player] = None
            for ranking, player in entries_of_change(self._state, fact):
                likely[self.home(ranking, player), player] = None
        places = list(likely)
        found = await self._index.order_keys(places, at=after)
        return dict(zip(places, found, strict=True))

    async def fold_one(self, begun: MoveBatch, recorded: Recorded) -> None:
        """Fold a fact by the handler of its kind; the others change profiles or the state alone."""
        self._state.index_fact(recorded)
        handler = handler_of(recorded.fact)
        if handler is not None:
            await handler.fold(self, begun, recorded.fact, recorded)
        else:
            await self.change_profile(begun, recorded)
            self._state.note(recorded)

    def _make_room(self, begun: MoveBatch, board: str) -> None:
        page = self._state.boards.get(board)
        for opened in () if page is None else page.counting:
            begun.opened[opened.ranking] = opened.terms.shape

    async def define(self, begun: MoveBatch, fact: BoardDefined, recorded: Recorded) -> None:
        """Take a definition, under which some windows may have been folded again."""
        before, traced = self._state.boards.get(fact.board), False
        prepared = [] if before is None else list(before.prepared.values())
        if before is not None:  # It needs the page as it was.
            traced = await self._redefine(begun, recorded) and not before.board.segments
            await learn_past(self._state, self.ledger, recorded)
        self._state.note(recorded)
        if traced:  # With its first segments all windows were folded again.
            self._state.trace(self._state.boards[fact.board])
        page, drafted = self._state.boards[fact.board], set(begun.adopted.values())
        for opened in page.windows.values():
            if opened.ranking not in drafted:
                begun.opened[opened.ranking] = opened.terms.shape
        for one in prepared:
            if not page.is_prepared(one.window.id) and one.ranking not in drafted:
                await self._drop(begun, one.ranking)

    async def _drop(self, begun: MoveBatch, window: Ranking) -> None:
        """Drop all rankings of a window."""
        every = await self._index.rankings(window.board)
        begun.dropped += [ranking for ranking in every if ranking.window == window.window]

    async def prepare_window(
        self, begun: MoveBatch, fact: WindowPrepared, recorded: Recorded
    ) -> None:
        """Take the coming window of a rolling recurrence, which was folded from the ledger."""
        page = self._state.boards.get(fact.board)
        if page is not None and not page.is_stale(fact) and page.takes(fact):
            outlived = page.prepared.get(name_of_window(fact.window))
            if outlived is not None:
                await self._drop(begun, outlived.ranking)
            await self._redefine(begun, recorded)  # It needs the page as it was.
            ranking = Ranking(fact.board, fact.window)
            if ranking not in begun.adopted.values():
                begun.opened[ranking] = page.terms.shape
        self._state.note(recorded)

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
        if page is None or not (page.is_recorded(fact.window) or page.is_prepared(fact.window)):
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
        """Return the windows of a board that count, also unseen; none if it is unknown."""
        page = self._state.boards.get(board)
        return [] if page is None else page.counting

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
        outcomes: dict[str, WindowOutcome] = {}
        for name, opened in page.windows.items():
            if name in refused:
                continue
            bar = ATTEMPTS_EXHAUSTED if name in spent else verdict
            outcomes[name] = await self._judge(begun, opened, fact, recorded, segments, bar)
        if verdict is None and page.prepared:
            await self._submit_unseen(begun, page, fact, recorded, segments, outcomes)
        reasons = () if barred is None else barred.reasons
        begun.judged.append(Judged(page, fact, recorded.position, outcomes, reasons, expires))

    async def _submit_unseen(
        self,
        begun: MoveBatch,
        page: BoardState,
        fact: ScoreSubmitted,
        recorded: Recorded,
        segments: Sequence[str],
        outcomes: Mapping[str, WindowOutcome],
    ) -> None:
        """Judge a submission in the prepared windows of recurrences that did not reject it."""
        for name, opened in page.prepared.items():
            today = outcomes.get(name)
            if today is None or not isinstance(today.verdict, Rejected):
                await self._judge(begun, opened, fact, recorded, segments, None)

    async def _judge(
        self,
        begun: MoveBatch,
        opened: OpenedWindow,
        fact: ScoreSubmitted,
        recorded: Recorded,
        segments: Sequence[str],
        barred: Verdict | None,
    ) -> WindowOutcome:
        window, terms, player = opened.window, opened.terms, fact.player
        place = (self.home(opened.ranking, player), player)
        ranked, known = place[0] is opened.ranking, await self._entry(begun, place)
        before = terms.scores(known)
        verdict = barred or judge(terms.board, fact, before, recorded.at)
        if not isinstance(verdict, Counted):
            asked = (
                begun.ask(place, terms.board.ties)
                if ranked
                else self._ask_unseen(begun, opened, fact, (known, known))
            )
            shown = _shown(terms, before, recorded.at)
            return WindowOutcome(window.id, verdict, shown, shown, asked, _raw(terms, before))
        order_key = known
        if verdict.moved or order_key is None:
            order_key = terms.order.key(verdict.scores, recorded.position)
        metadata = fact.metadata
        if fact.overrides and metadata is None and known is not None:
            metadata = await self._beside(begun, place)
        move = self._place(begun, opened, player, order_key, metadata, segments)
        if not ranked:
            move = self._ask_unseen(begun, opened, fact, (known, order_key))
        shown, raw = _shown(terms, verdict.scores, recorded.at), _raw(terms, verdict.scores)
        return WindowOutcome(
            window.id, verdict, _shown(terms, before, recorded.at), shown, move, raw
        )

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
            for opened in page.counting:
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


def _shown(terms: Terms, entry: Scores | None, at: Instant) -> Scores | None:
    return None if entry is None else terms.order.shown(entry, at)


def _raw(terms: Terms, entry: Scores | None) -> int | None:
    return None if entry is None else terms.order.recorded(entry)


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


register_fold(ScoreSubmitted, ExpiringScoreSubmitted, ScoreAdjusted, fold=Fold.submit)
register_fold(BoardDefined, BoardRedefined, BoardRelearned, fold=Fold.define, barrier=True)
register_fold(BoardRetired, BoardExpired, fold=Fold.retire, barrier=True)
register_fold(WindowOpened, fold=Fold.open_window)
register_fold(WindowPrepared, fold=Fold.prepare_window, barrier=True)
register_fold(WindowDropped, fold=Fold.drop_window, barrier=True)
register_fold(WindowsCorrected, fold=Fold.correct, barrier=True)

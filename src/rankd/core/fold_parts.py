"""Parts of a fold: consecutive facts that go one way through it, in place or in moves.

Their cost bounds how long readers wait for a part. Parts in place are folded here: plain
submissions, which an index judges as columns.
"""

from array import array
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence, Set
from functools import cached_property, partial
from itertools import groupby
from typing import NamedTuple

from rankd.core.board_state import BoardState, OpenedWindow
from rankd.core.fold_handlers import is_barrier
from rankd.core.move_batch import Place
from rankd.core.receipts import JudgedRun, Receipts, RunReceipts, joined
from rankd.core.reviews import BarredRows, JudgedColumns
from rankd.core.state import State, differing, segments_of
from rankd.model.board import ScoreRule
from rankd.model.facts import (
    Attributes,
    Fact,
    Position,
    Recorded,
    ScoreSubmitted,
    is_submission,
)
from rankd.model.standing import TieRule
from rankd.ports import REFUSED, RankIndex, Run, SegmentChange

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
        """Return the players. The others keep their profiles while the facts are folded."""
        return self._state.players_with_news(recorded.fact for recorded in self._facts)


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


InMoves = Callable[[Sequence[Recorded], Position], Awaitable[Receipts]]
"""Folds facts that follow a position in moves."""


class FoldParts:
    """Splits facts into parts, by the state that they are folded into, and folds each its way."""

    def __init__(self, index: RankIndex, state: State, in_moves: InMoves) -> None:
        self._index = index
        self._state = state
        self._in_place = InPlaceFold(index, state)
        self._in_moves = in_moves

    async def fold(self, part: FoldPart, *, after: Position) -> Receipts:
        """Fold a part that follows ``after``; return the receipts of the submissions in it."""
        if part.plain:
            return await self._in_place.fold(part.facts, part.news, after)
        return await self._in_moves(part.facts, after)

    def parted(self, facts: Sequence[Recorded]) -> Iterator[FoldPart]:
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
        self, facts: Sequence[Recorded], start: int, touched: _TouchedPlayers
    ) -> _PlainPart:
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

    def _attempts_left(self, page: BoardState) -> _AttemptsLeft | None:
        limit = page.board.limits.attempts_max
        if limit is None:
            return None
        made = partial(self._state.attempts.most, page.board.name, page.attempt_windows)
        return _AttemptsLeft(limit, made)

    def _intricate_until(
        self, facts: Sequence[Recorded], start: int, touched: _TouchedPlayers
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
            cost += (len(page.windows) + len(page.prepared)) * (1 + len(page.board.segments))
        return cost

    def _cost_of_segments(self, fact: Fact) -> int:
        """Return about how many moves a fact makes between segments."""
        return sum(MOVES_TO_SEGMENT for _ in entries_of_change(self._state, fact))


def judged_in_place(page: BoardState) -> bool:
    """Whether plain submissions to a board can be judged by the index, as columns."""
    return bool(page.windows) and page.board.verifier is None and page.board.decay is None


def _cost_in_place(page: BoardState) -> int:
    """Return about how many moves a submission makes in place; shared ranks cost another search."""
    rankings = (len(page.windows) + len(page.prepared)) * (1 + len(page.board.segments))
    return rankings if page.board.ties is TieRule.ORDINAL else 2 * rankings


def entries_of_change(state: State, fact: Fact) -> Iterator[Place]:
    """Yield the windows, and the player, whose segments a fact changes."""
    change = fact.profile_change()
    if change is None:
        return
    known = state.profile(change.player).attributes
    changed = differing(known, change.attributes_after(known))
    for page in state.concerned(change.player, changed) if changed else ():
        for _, ranking, _ in page.counting:
            yield ranking, change.player


class InPlaceFold:
    """Folds plain submissions where the entries are."""

    def __init__(self, index: RankIndex, state: State) -> None:
        self._index = index
        self._state = state

    async def fold(
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
                    told[: len(self._state.boards[run.board.name].windows)],
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
            for opened in page.counting if left or entered else ():
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
        [opened.ranking for opened in _counting(page)],
        [fact.player for fact in facts],
        scores,
        deltas if 1 in deltas else None,
        positions,
        metadata if metadata.count(None) < len(metadata) else None,
        segments,
        follows=_following(page) if page.prepared else (),
    )


def _counting(page: BoardState) -> Iterable[OpenedWindow]:
    return page.counting if page.prepared else page.windows.values()


def _following(page: BoardState) -> list[tuple[int, int]]:
    """Return pairs of a prepared window and the open one before it, by their numbers in a run."""
    names = list(page.windows)
    return [
        (len(names) + number, names.index(name))
        for number, name in enumerate(page.prepared)
        if name in names
    ]


def _one_board(facts: Sequence[Recorded]) -> bool:
    name = facts[0].fact.board  # type: ignore[attr-defined]
    return all(recorded.fact.board == name for recorded in facts)  # type: ignore[attr-defined]


def _by_board(facts: Sequence[Recorded]) -> list[list[Recorded]]:
    boards: dict[str, list[Recorded]] = {}
    for name, some in groupby(facts, lambda recorded: recorded.fact.board):  # type: ignore[attr-defined]
        boards.setdefault(name, []).extend(some)
    return list(boards.values())

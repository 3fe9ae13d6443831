"""Rules against cheating in the fold, and the reviews of submissions that they hold or flag.

A submission is judged by the rules of its board once, when its turn comes, by the ledger's time of
the fact. The state of the rules (``rankd.rules``) is folded from the same facts, so every process
that folds the ledger reaches the same verdicts.

Whether a submission counts follows from ``held`` and ``decisions`` alone, which nothing is dropped
from. The reviews, with the reasons for people, are bounded.
"""

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from rankd.core.corrections import PositionLog
from rankd.errors import UnknownReview
from rankd.model.board import Board, Direction
from rankd.model.facts import Position, Recorded, ReviewDecided, ScoreSubmitted, is_submission
from rankd.model.redefinition import scale
from rankd.model.rules import VERIFIER, Reason, Rule, RuleName
from rankd.model.runs import elapsed_of_run
from rankd.model.standing import shown_score
from rankd.model.submission import IN_REVIEW, IN_VERIFICATION, RULE_BROKEN, Held, Rejected
from rankd.model.window import Instant
from rankd.ports import HELD, REFUSED, LedgerReader
from rankd.rules import CONSEQUENCES, RuleState

REVIEWS_MAX = 10_000
"""Reviews listed, some 5 MB. With more, decided ones are dropped first, then flagged ones, then
held ones, the oldest of each first. A dropped one stays in the ledger, and if it was held it can
still be decided by its id."""

REVIEWS_DROPPED = REVIEWS_MAX // 10
"""So many are dropped at once, which makes a new one cheap."""

ReviewState = Literal["held", "flagged", "approved", "rejected"]

_FLAG, _HOLD = CONSEQUENCES.index("flag"), CONSEQUENCES.index("hold")
_BARRED = {_HOLD: HELD, CONSEQUENCES.index("refuse"): REFUSED}


class Review(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A submission that a rule held, or flagged, with the reasons and the decision."""

    board: str
    player: str
    position: Position
    at: Instant
    state: ReviewState
    reasons: tuple[Reason, ...] = ()
    scores: tuple[int, ...] | None = None
    delta: int | None = None
    decimals: int = 0
    was_held: bool = True
    decided_at: Position | None = None
    decided_by: str | None = None
    why: str | None = None

    @property
    def id(self) -> str:
        """The position of its submission, in digits."""
        return str(self.position)

    @property
    def was_held_by_rules(self) -> bool:
        """Whether rules held it, so that they do not count it yet; a verifier holds those fine."""
        return self.was_held and all(one.rule != VERIFIER for one in self.reasons)

    @property
    def score(self) -> int | Decimal | None:
        """The first column submitted, as people see it; None for an amount to add."""
        return None if self.scores is None else shown_score(self.scores[0], self.decimals)


class Decision(NamedTuple):
    """The decision about a held submission."""

    board: str
    approved: bool
    at: Position
    """Where it is recorded."""


class RuleTally(NamedTuple):
    """A rule of a board that submissions broke."""

    board: str
    rule: str
    then: str


class Learned(NamedTuple):
    """The state of a board's rules once they know all submissions before a definition."""

    position: Position
    """Of the definition."""
    rules: RuleState


class Barred(NamedTuple):
    """Why a submission does not count, now or ever."""

    verdict: Rejected | Held
    reasons: tuple[Reason, ...] = ()


class BarredRows(NamedTuple):
    """The submissions of a run that do not count."""

    barred: bytes
    """For each row HELD, REFUSED, or 0."""
    reasons: Mapping[int, tuple[Reason, ...]]
    """By row, of those barred."""


class Undo(Protocol):
    """Keeps values before they are changed."""

    def keep(self, rows: dict[Any, Any], key: Any) -> None:
        """Keep an item, or its absence."""

    def keep_length(self, log: PositionLog) -> None:
        """Keep the length of a log."""

    def keep_rules(self, rules: RuleState) -> None:
        """Keep the state of a board's rules."""


class JudgedColumns(NamedTuple):
    """Submissions to one board, in the terms of its definition."""

    players: Sequence[str]
    scores: "array[int]"
    """Of the first column; or deltas."""
    deltas: bytes | None


def columns_of(fact: ScoreSubmitted) -> JudgedColumns | None:
    """Return one submission as columns; None if it has no score that rules could judge."""
    if fact.scores is None:
        return JudgedColumns([fact.player], array("q", [fact.delta or 0]), b"\x01")
    return JudgedColumns([fact.player], array("q", fact.scores[:1]), None) if fact.scores else None


def run_elapsed(recorded: Recorded) -> int:
    """Return the microseconds that the run of a submission took; 0 without a run."""
    assert is_submission(recorded.fact)
    return elapsed_of_run(recorded.fact, recorded.at) or 0


class Reviews:
    """The state of rules by board, the submissions that they held, and the reviews of them."""

    def __init__(self) -> None:
        self.rules: dict[str, RuleState] = {}
        """Of the boards that have rules."""
        self.held = PositionLog()
        """The submissions that a rule held, decided ones included."""
        self.decisions: dict[Position, Decision] = {}
        """By held submission."""
        self.listed: dict[Position, Review] = {}
        """By submission; at most REVIEWS_MAX."""
        self.broken: Counter[RuleTally] = Counter()
        """How often rules were broken since this process began to take submissions."""
        self.learned: Learned | None = None
        """The past of rules that a definition is about to bring into force."""

    def copy(self) -> "Reviews":
        """Return the same, to be changed on its own. O(players of boards with rules)."""
        other = Reviews()
        other.rules = {board: rules.copy() for board, rules in self.rules.items()}
        other.held, other.decisions = self.held.copy(), dict(self.decisions)
        other.listed, other.broken = dict(self.listed), self.broken.copy()
        return other

    @property
    def open_count(self) -> int:
        """How many held submissions wait for a decision."""
        return len(self.held) - len(self.decisions)

    def is_out(self, position: Position) -> bool:
        """Whether a submission was held and is not approved."""
        if not len(self.held) or position not in self.held:
            return False
        decision = self.decisions.get(position)
        return decision is None or not decision.approved

    def is_open(self, submission: Position) -> bool:
        """Whether a submission was held or flagged, and is not decided."""
        if submission in self.held:
            return submission not in self.decisions
        review = self.listed.get(submission)
        return review is not None and review.decided_at is None

    def approved_on(self, board: str) -> bool:
        """Whether a held submission to a board was approved."""
        return any(one.board == board and one.approved for one in self.decisions.values())

    def approvals(self, positions: Sequence[Position]) -> dict[Position, Position | None]:
        """Return those that were held, and where each was approved; None if it was not."""
        held = [at for at in positions if at in self.held] if len(self.held) else []
        decided = {at: self.decisions.get(at) for at in held}
        return {at: one.at if one and one.approved else None for at, one in decided.items()}

    def select(
        self, board: str | None, state: str | None, before: int | None = None
    ) -> list[Review]:
        """Return the reviews listed of a board, in a state, older than one; newest first."""
        return [
            one
            for one in sorted(self.listed.values(), key=lambda one: -one.position)
            if board in (None, one.board)
            and state in (None, one.state)
            and (before is None or one.position < before)
        ]

    # ---------------------------------------------------------------------- changes

    def declare(self, board: Board, before: Board | None, undo: Undo | None) -> None:
        """Judge by the rules of a definition from here on; keep the rows that still fit."""
        known, rules = self.rules.get(board.name), None
        if board.rules_in_force:
            rules = rule_state(board) if known is None else _redefined(known, before, board)
        if rules is not known:
            self._put(self.rules, board.name, rules, undo)

    def adopt_learned(self, board: str, position: Position, undo: Undo | None) -> None:
        """Let the rules of a definition know the past, if that was prepared for it."""
        if self.learned is not None and self.learned.position == position:
            self._put(self.rules, board, self.learned.rules, undo)

    def retire(self, board: str, undo: Undo | None) -> None:
        """Forget the state of a board's rules."""
        self.learned = None
        self._put(self.rules, board, None, undo)
        for broken in [one for one in self.broken if one.board == board]:
            self._put(self.broken, broken, None, undo)

    def judge(
        self, board: Board, columns: JudgedColumns, facts: Sequence[Recorded], undo: Undo | None
    ) -> BarredRows | None:
        """Judge submissions to a board with rules; None if all of them count."""
        rules = self.rules[board.name]
        if undo is not None:
            undo.keep_rules(rules)
        times = array("q", [recorded.at for recorded in facts])
        elapsed = None
        if any(one.rule is RuleName.PER_SECOND_OF_RUN for one in board.rules_in_force):
            elapsed = array("q", map(run_elapsed, facts))
        verdicts = rules.judge(columns.players, columns.scores, columns.deltas, times, elapsed)
        if verdicts is None:
            return None
        reasons: dict[int, tuple[Reason, ...]] = {}
        for row in (row for row, verdict in enumerate(verdicts) if verdict):
            broken = _reasons(rules, row)
            self._count_broken(board.name, rules, row, undo)
            if verdicts[row] <= _HOLD:
                self._list(board, facts[row], verdicts[row] == _HOLD, broken, undo)
            if verdicts[row] != _FLAG:
                reasons[row] = broken
        barred = bytes(_BARRED.get(verdict, 0) for verdict in verdicts)
        return BarredRows(barred, reasons) if reasons else None

    def _count_broken(self, board: str, rules: RuleState, row: int, undo: Undo | None) -> None:
        for place, *_ in rules.reasons(row):
            rule = rules.rules[place]
            broken = RuleTally(board, str(rule.rule), str(rule.then))
            self._put(self.broken, broken, self.broken[broken] + 1, undo)

    def hold(self, board: Board, recorded: Recorded, undo: Undo | None) -> Barred:
        """Hold a submission for the verifier of its board."""
        flagged = self.listed.get(recorded.position)
        reasons = (*(() if flagged is None else flagged.reasons), Reason(VERIFIER, 0, 0))
        self._list(board, recorded, True, reasons, undo)
        return Barred(IN_VERIFICATION, reasons)

    def count(
        self, fact: ScoreSubmitted | Review, undo: Undo | None, *, replaces: bool = False
    ) -> None:
        """Have the rules of a board know of a submission that counts without being judged."""
        rules = self.rules.get(fact.board)
        if rules is None or fact.scores == ():
            return
        if undo is not None:
            undo.keep_rules(rules)
        if fact.scores is None:
            rules.count(fact.player, fact.delta or 0, "delta")
        else:
            rules.count(fact.player, fact.scores[0], "replaces" if replaces else "score")

    def _list(
        self,
        board: Board,
        recorded: Recorded,
        held: bool,
        reasons: tuple[Reason, ...],
        undo: Undo | None,
    ) -> None:
        fact, position = recorded.fact, recorded.position
        assert is_submission(fact)
        if held:
            if undo is not None:
                undo.keep_length(self.held)
            self.held.add(position)
        review = Review(
            board.name,
            fact.player,
            position,
            recorded.at,
            "held" if held else "flagged",
            reasons,
            fact.scores,
            fact.delta,
            board.decimals,
            held,
        )
        self._put(self.listed, position, review, undo)
        if len(self.listed) > REVIEWS_MAX:
            for one in sorted(self.listed.values(), key=_dropped_first)[:REVIEWS_DROPPED]:
                self._put(self.listed, one.position, None, undo)

    def decide(self, fact: ReviewDecided, at: Position, undo: Undo | None) -> None:
        """Note the decision about an open review."""
        if fact.submission in self.held:
            decision = Decision(fact.board, fact.approved, at)
            self._put(self.decisions, fact.submission, decision, undo)
        review = self.listed.get(fact.submission)
        if review is not None and fact.approved and review.was_held_by_rules:
            self.count(review, undo)
        if review is not None:
            decided = msgspec.structs.replace(
                review,
                state="approved" if fact.approved else "rejected",
                decided_at=at,
                decided_by=fact.actor,
                why=fact.reason,
            )
            self._put(self.listed, fact.submission, decided, undo)

    def _put(self, rows: dict[Any, Any], key: Any, value: object | None, undo: Undo | None) -> None:
        if undo is not None:
            undo.keep(rows, key)
        if value is None:
            rows.pop(key, None)
        else:
            rows[key] = value


def _dropped_first(review: Review) -> tuple[bool, bool, Position]:
    return review.decided_at is None, review.was_held, review.position


def _reasons(rules: RuleState, row: int) -> tuple[Reason, ...]:
    return tuple(
        Reason(str(rules.rules[place].rule), observed, limit)
        for place, observed, limit in rules.reasons(row)
    )


POSITION_DIGITS_MAX = 18
"""Of a review's id, which is the position of its submission."""


class DefinedBoard(Protocol):
    """A board with its definitions."""

    def board_at(self, position: Position) -> Board:
        """Return the definition that was in force at a position."""


class ReviewedBoards(Protocol):
    """A state of boards and reviews."""

    @property
    def boards(self) -> Mapping[str, DefinedBoard]:
        """The boards by name."""

    @property
    def reviews(self) -> Reviews:
        """Their reviews."""


async def find_review(state: ReviewedBoards, ledger: LedgerReader, id: str) -> Review:
    """Return a review, if need be from the ledger. Raises UnknownReview."""
    if not (id.isascii() and id.isdigit() and len(id) <= POSITION_DIGITS_MAX):
        raise UnknownReview(id)
    position, reviews = Position(int(id)), state.reviews
    if (known := reviews.listed.get(position)) is not None:
        return known
    if position not in reviews.held:
        raise UnknownReview(id)
    (recorded,) = await ledger.read(after=Position(position - 1), limit=1)
    fact, decision = recorded.fact, reviews.decisions.get(position)
    assert is_submission(fact)
    page = state.boards.get(fact.board)
    decided: ReviewState = "held"
    if decision is not None:
        decided = "approved" if decision.approved else "rejected"
    return Review(
        fact.board,
        fact.player,
        position,
        recorded.at,
        decided,
        scores=fact.scores,
        delta=fact.delta,
        decimals=0 if page is None else page.board_at(position).decimals,
        decided_at=None if decision is None else decision.at,
    )


def barred_by(row: BarredRows | None) -> Barred | None:
    """Return why the only submission of a run does not count; None if it does."""
    if row is None:
        return None
    return Barred(IN_REVIEW if row.barred[0] == HELD else RULE_BROKEN, row.reasons[0])


# ------------------------------------------------------------------ state of the rules


def forgets(known: RuleState | None, before: Board, after: Board) -> bool:
    """Whether the rules of a definition would not know all that they need of the past."""
    if not after.rules_in_force:
        return False
    made = rule_state(after)
    if known is None or not _judges_alike(known, made, before, after):
        return True
    return scale(before, after) != 1 or known.layout != made.layout


def rule_state(board: Board, rules: Sequence[Rule] | None = None) -> RuleState:
    """Return the state of a board's rules, or of others, before its first submission."""
    higher_wins = board.columns[0].direction is Direction.HIGHER
    judged = board.rules_in_force if rules is None else rules
    bounds = board.score_low, board.score_high
    return RuleState(judged, board.rule.value, higher_wins, bounds)


def _redefined(known: RuleState, before: Board | None, after: Board) -> RuleState:
    """Return a board's state of rules under another definition."""
    made = rule_state(after)
    if before is None or not _judges_alike(known, made, before, after):
        return made
    factor = scale(before, after)
    if factor == 1 and (known.rules, known.bounds) == (made.rules, made.bounds):
        return known
    if factor == 1 and known.layout == made.layout:
        made.load(known.save())
        return made
    return known.redefined(after.rules_in_force, factor, made.bounds)


def _judges_alike(known: RuleState, made: RuleState, before: Board, after: Board) -> bool:
    """Whether the scores of both are of one kind."""
    kinds = [(one.rule_of_board, one.higher_wins) for one in (known, made)]
    return kinds[0] == kinds[1] and before.columns[0].name == after.columns[0].name


RULES_FRAME_BYTES = 1 << 20
"""Bytes of a state of rules in one frame of a snapshot."""


def saved_rules(rules: RuleState) -> Iterator[bytes]:
    """Yield a state of rules as bytes, in pieces."""
    saved = rules.save()
    for start in range(0, len(saved), RULES_FRAME_BYTES):
        yield saved[start : start + RULES_FRAME_BYTES]

"""The past of a board for its rules: the submissions that count, judged again as if they were new.

A rule that a definition brings to a board has to know the players: to ``first_score`` all of them
would be new otherwise. So the board's facts are read again, up to the definition. The node that
records it does so beforehand, while traffic goes on; the others when they come to it.
"""

import asyncio
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from rankd.core.board_state import BoardState
from rankd.core.corrections import RetractionFilter
from rankd.core.reviews import Learned, forgets, rule_state, run_elapsed
from rankd.core.state import State
from rankd.model.board import Board
from rankd.model.facts import (
    BoardRelearned,
    Position,
    Recorded,
    ScoreSubmitted,
    is_definition,
    is_submission,
)
from rankd.model.redefinition import Translator
from rankd.model.rules import Consequence
from rankd.ports import LedgerReader, Progress
from rankd.rules import RuleState

FACTS_TOGETHER = 4_096
"""Facts judged before other work gets its turn: some 20 ms."""

PAST_FACTS_MAX = 1_000_000
"""Facts since a board was defined, beyond which rules that are new on it begin without the past:
other nodes read them while they fold the definition, some five seconds of one core."""


class PastSubmissions:
    """Judges a board's submissions by the rules of another definition; each rule only flags."""

    def __init__(self, ledger: LedgerReader, state: State, page: BoardState, board: Board) -> None:
        self._ledger, self._state, self._board = ledger, state, board
        self._since = self.position = Position(page.since - 1)
        self._rules = rule_state(
            board, [replace(rule, then=Consequence.FLAG) for rule in board.rules_in_force]
        )
        self._translator = Translator(board)
        self._retracted = RetractionFilter(state.retractions.values(), board.name)
        self._corrections = _corrections(state)

    @property
    def is_current(self) -> bool:
        """Whether no correction has changed since which submissions count."""
        return self._corrections == _corrections(self._state)

    def rules(self) -> RuleState:
        """Return the state of the definition's rules, which know the submissions judged so far."""
        rules = rule_state(self._board)
        rules.load(self._rules.save())
        return rules

    async def run(self, *, through: Position, tell: Callable[[Progress], None]) -> None:
        """Judge all submissions up to a position."""
        while self.position < through:
            limit = min(FACTS_TOGETHER, through - self.position)
            facts = await self._ledger.read(after=self.position, limit=limit)
            if not facts:
                break
            for run in _runs([one for one in map(self._translated, facts) if one is not None]):
                self._take(run)
            self.position = facts[-1].position
            tell(Progress(self.position, through, "judging", "fact"))
            await asyncio.sleep(0)

    def _translated(self, recorded: Recorded) -> Recorded | None:
        """Return a submission that counts, in terms of the definition; None for other facts."""
        fact = recorded.fact
        if getattr(fact, "board", None) != self._board.name:
            return None
        if is_definition(fact):
            board = Board.define(fact.board, fact.definition)
            self._translator.define(recorded.position, board)
        if not is_submission(fact) or (fact.defined or self._since) < self._since:
            return None
        if not self._state.counts(recorded.position) or self._retracted.selects(recorded):
            return None
        translated = self._translator.translate(fact)
        if translated is None or translated.scores == ():
            return None
        return Recorded(recorded.position, recorded.at, translated)

    def _take(self, run: Sequence[Recorded]) -> None:
        if run[0].fact.overrides:  # type: ignore[attr-defined]
            self._adjust(run[0].fact)  # type: ignore[arg-type]
        else:
            self._judge(run)

    def _adjust(self, fact: ScoreSubmitted) -> None:
        """Know of an adjustment, which is not judged."""
        if fact.scores is None:
            self._rules.count(fact.player, fact.delta or 0, "delta")
        else:
            self._rules.count(fact.player, fact.scores[0], "replaces")

    def _judge(self, several: Sequence[Recorded]) -> None:
        facts: list[ScoreSubmitted] = [recorded.fact for recorded in several]  # type: ignore[misc]
        numbers = (fact.delta or 0 if fact.scores is None else fact.scores[0] for fact in facts)
        verdicts = self._rules.judge(
            [fact.player for fact in facts],
            array("q", numbers),
            bytes(fact.scores is None for fact in facts),
            array("q", [recorded.at for recorded in several]),
            array("q", map(run_elapsed, several)),
        )
        self._note(several, verdicts)

    def _note(self, several: Sequence[Recorded], verdicts: bytes | None) -> None:
        """Take note of the verdicts; here they are not needed."""


def _corrections(state: State) -> tuple[object, ...]:
    return state.last_correction, len(state.reviews.decisions), len(state.retractions)


def _runs(several: Sequence[Recorded]) -> Iterator[Sequence[Recorded]]:
    """Yield submissions as runs, and each adjustment alone."""
    start = 0
    for place, recorded in enumerate(several):
        if recorded.fact.overrides:  # type: ignore[attr-defined]
            if start < place:
                yield several[start:place]
            yield several[place : place + 1]
            start = place + 1
    if start < len(several):
        yield several[start:]


class RulePast:
    """The past for a definition that is about to be recorded, if its rules have to learn it."""

    def __init__(self, ledger: LedgerReader, state: State, page: BoardState, board: Board) -> None:
        self._ledger, self._state, self._page, self._board = ledger, state, page, board
        known = state.reviews.rules.get(board.name)
        self._past = self._begun() if forgets(known, page.board, board) else None

    def _begun(self) -> PastSubmissions:
        return PastSubmissions(self._ledger, self._state, self._page, self._board)

    async def read(self, through: Position, tell: Callable[[Progress], None]) -> None:
        """Read the past nearly to the head, while traffic goes on."""
        if self._past is not None and through - self._page.since < PAST_FACTS_MAX:
            await self._past.run(through=through, tell=tell)

    async def prepare(self, head: Position) -> None:
        """Have the state ready for a definition behind the head; nothing may be recorded now."""
        if self._past is None or head - self._page.since >= PAST_FACTS_MAX:
            return
        if not self._past.is_current:
            self._past = self._begun()
        await self._past.run(through=head, tell=lambda _: None)
        self._state.reviews.learned = Learned(Position(head + 1), self._past.rules())


async def learn_past(state: State, ledger: LedgerReader, recorded: Recorded) -> None:
    """Prepare a state for a definition whose rules know the past; at most once for each."""
    fact, learned = recorded.fact, state.reviews.learned
    if not isinstance(fact, BoardRelearned):
        return
    if learned is not None and learned.position == recorded.position:
        return
    page = state.boards.get(fact.board)
    if page is None:
        return
    past = PastSubmissions(ledger, state, page, Board.define(fact.board, fact.definition))
    await past.run(through=Position(recorded.position - 1), tell=lambda _: None)
    state.reviews.learned = Learned(recorded.position, past.rules())


def parts_with_past(facts: Sequence[Recorded]) -> Iterator[Sequence[Recorded]]:
    """Yield facts in parts, of which each definition with a past begins one."""
    start = 0
    for place, recorded in enumerate(facts):
        if isinstance(recorded.fact, BoardRelearned) and start < place:
            yield facts[start:place]
            start = place
    yield facts[start:]

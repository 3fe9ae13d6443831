"""The preview of rules: the submissions of the past that they would have caught.

The board's facts are read again, and those that count are judged by the rules, at their own times.
None is left out for breaking one, as if every rule only flagged: so the preview is about the scores
that were counted. It changes nothing, and holds a few examples for each rule.
"""

import asyncio
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from rankd.core.board_state import BoardState
from rankd.core.corrections import RetractionFilter
from rankd.core.reviews import rule_state, run_elapsed
from rankd.core.state import State
from rankd.model.board import Board
from rankd.model.facts import Position, Recorded, ScoreSubmitted, is_definition
from rankd.model.redefinition import Translator
from rankd.model.rules import Consequence, Reason, Rule
from rankd.ports import LedgerReader, Progress

EXAMPLES_MAX = 10
"""Of each rule, the first ones."""

FACTS_TOGETHER = 4_096
"""Facts judged before other work gets its turn: some 20 ms."""


class RuleExample(NamedTuple):
    """A submission that a rule would have caught."""

    position: Position
    player: str
    reason: Reason


@dataclass(slots=True)
class RuleFinding:
    """The submissions that one rule would have caught."""

    rule: Rule
    caught: int = 0
    examples: list[RuleExample] = field(default_factory=list)
    """The first EXAMPLES_MAX."""


class RulesPreview(NamedTuple):
    """The submissions of the past that rules would have caught."""

    board: Board
    """As it would be defined."""
    submissions: int
    """How many were judged: those that count."""
    caught: int
    """How many of them break a rule."""
    through: Position
    rules: Sequence[RuleFinding]
    """Those of the definition in their order, then those that its limits stand for."""


class RuleReplay:
    """Judges a board's submissions by the rules of another definition."""

    def __init__(self, ledger: LedgerReader, state: State, page: BoardState, board: Board) -> None:
        self._ledger, self._state, self._board = ledger, state, board
        self._since = self.position = Position(page.since - 1)
        self._findings = [RuleFinding(rule) for rule in board.rules_in_force]
        flags = [replace(rule, then=Consequence.FLAG) for rule in board.rules_in_force]
        self._rules = rule_state(board, flags)
        self._translator = Translator(board)
        self._retracted = RetractionFilter(state.retractions.values(), board.name)
        self._submissions = self._caught = 0

    async def run(self, *, through: Position, tell: Callable[[Progress], None]) -> RulesPreview:
        """Judge all submissions up to a position."""
        while self.position < through:
            limit = min(FACTS_TOGETHER, through - self.position)
            facts = await self._ledger.read(after=self.position, limit=limit)
            if not facts:
                break
            self._judge([one for one in map(self._translated, facts) if one is not None])
            self.position = facts[-1].position
            tell(Progress(self.position, through, "judging", "fact"))
            await asyncio.sleep(0)
        return RulesPreview(
            self._board, self._submissions, self._caught, self.position, self._findings
        )

    def _translated(self, recorded: Recorded) -> Recorded | None:
        """Return a submission that counts, in terms of the definition; None for other facts."""
        fact = recorded.fact
        if getattr(fact, "board", None) != self._board.name:
            return None
        if is_definition(fact):
            board = Board.define(fact.board, fact.definition)
            self._translator.define(recorded.position, board)
        if type(fact) is not ScoreSubmitted or (fact.defined or self._since) < self._since:
            return None
        if not self._state.counts(recorded.position) or self._retracted.selects(recorded):
            return None
        translated = self._translator.translate(fact)
        if translated is None:
            return None
        return Recorded(recorded.position, recorded.at, translated)

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
        self._submissions += len(several)
        for row, verdict in enumerate(verdicts or ()):
            if verdict:
                self._caught += 1
                self._note(row, several[row])

    def _note(self, row: int, recorded: Recorded) -> None:
        player: str = recorded.fact.player  # type: ignore[attr-defined]
        for place, observed, limit in self._rules.reasons(row):
            finding = self._findings[place]
            finding.caught += 1
            if len(finding.examples) < EXAMPLES_MAX:
                reason = Reason(str(finding.rule.rule), observed, limit)
                finding.examples.append(RuleExample(recorded.position, player, reason))

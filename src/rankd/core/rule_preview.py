"""The preview of rules: the submissions of the past that they would have caught.

The board's facts are read again, and those that count are judged by the rules, at their own times.
None is left out for breaking one, as if every rule only flagged: so the preview is about the scores
that were counted. It changes nothing, and holds a few examples for each rule.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rankd.core.board_state import BoardState
from rankd.core.rule_past import PastSubmissions
from rankd.core.state import State
from rankd.model.board import Board
from rankd.model.facts import Position, Recorded
from rankd.model.rules import Reason, Rule
from rankd.ports import LedgerReader, Progress

EXAMPLES_MAX = 10
"""Of each rule, the first ones."""


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


class RuleReplay(PastSubmissions):
    """Judges a board's submissions by the rules of another definition, and keeps the findings."""

    def __init__(self, ledger: LedgerReader, state: State, page: BoardState, board: Board) -> None:
        super().__init__(ledger, state, page, board)
        self._findings = [RuleFinding(rule) for rule in board.rules_in_force]
        self._submissions = self._caught = 0

    async def preview(self, *, through: Position, tell: Callable[[Progress], None]) -> RulesPreview:
        """Judge all submissions up to a position; return the findings of the rules."""
        await self.run(through=through, tell=tell)
        return RulesPreview(
            self._board, self._submissions, self._caught, self.position, self._findings
        )

    def _note(self, several: Sequence[Recorded], verdicts: bytes | None) -> None:
        self._submissions += len(several)
        for row, verdict in enumerate(verdicts or ()):
            if verdict:
                self._caught += 1
                self._note_broken(row, several[row])

    def _note_broken(self, row: int, recorded: Recorded) -> None:
        player: str = recorded.fact.player  # type: ignore[attr-defined]
        for place, observed, limit in self._rules.reasons(row):
            finding = self._findings[place]
            finding.caught += 1
            if len(finding.examples) < EXAMPLES_MAX:
                reason = Reason(str(finding.rule.rule), observed, limit)
                finding.examples.append(RuleExample(recorded.position, player, reason))

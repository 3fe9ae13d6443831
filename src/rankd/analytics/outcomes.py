"""Facts with their outcomes: the ledger folded again, and the results of each submission.

The ledger records requests; a verdict and a rank are known only to a fold. So an archive folds the
facts that it takes, into an index of its own, and has the receipts of all submissions and the final
standings of each window at the moment it is sealed or corrected.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import NamedTuple

from rankd.core.board_state import BoardState, exact_id
from rankd.core.certificates import NoClock
from rankd.core.projector import FACTS_TOGETHER_MAX, Projector
from rankd.core.reader import Page, Reader
from rankd.core.receipts import Receipts
from rankd.core.state import State
from rankd.model.facts import (
    Attributes,
    Fact,
    Position,
    Recorded,
    WindowSealed,
    is_definition,
    is_submission,
)
from rankd.model.standing import PAGE_LIMIT_MAX, Rank
from rankd.model.window import Instant
from rankd.ports import LedgerReader, Progress

Tell = Callable[[Progress], None]


class FactOutcomes(NamedTuple):
    """Consecutive facts, and the outcomes of the submissions among them."""

    facts: Sequence[Recorded]
    receipts: Receipts
    """Of the submissions, by position; none of those whose board was retired before their turn."""
    attributes: Sequence[Attributes]
    """Of the player of each submission, in the order of the facts, as they were at its position."""


class SealedEdition(NamedTuple):
    """A closed window in one of its editions."""

    board: str
    window: str
    edition: int
    at: Instant
    """The ledger time at which it was sealed, or corrected."""
    position: Position


class OutcomeFold:
    """Folds a ledger for its outcomes."""

    def __init__(self, ledger: LedgerReader, projector: Projector) -> None:
        self.projector = projector
        self._ledger = ledger
        self._reader = Reader(projector=projector, clock=NoClock())
        self._editions = dict(projector.state.editions)

    @property
    def position(self) -> Position:
        """The last position that was folded."""
        return self.projector.checkpoint

    async def run(
        self, through: Position, tell: Tell
    ) -> AsyncIterator[tuple[FactOutcomes, list[SealedEdition]]]:
        """Fold up to a position; yield facts with the windows that the last of them closed."""
        while self.position < through:
            limit = min(FACTS_TOGETHER_MAX, through - self.position)
            facts = await self._ledger.read(after=self.position, limit=limit)
            facts = [recorded for recorded in facts if recorded.position <= through]
            if not facts:
                return
            for part in _parts(facts):
                attributes = _attributes(self.projector.state, part)
                before = self._sealed(part[-1].fact)
                receipts = await self.projector.fold(part)
                yield FactOutcomes(part, receipts, attributes), self._closed(part[-1], before)
            tell(Progress(self.position, through, "archiving", "fact"))
            await asyncio.sleep(0)

    def _sealed(self, fact: Fact) -> set[str]:
        """Return the ids of the closed windows of the board that a fact defines; none otherwise."""
        page = self.projector.state.boards.get(fact.board) if is_definition(fact) else None
        return set() if page is None else set(page.sealed)

    def _closed(self, last: Recorded, before: set[str]) -> list[SealedEdition]:
        """Return the windows that have another edition since the facts before."""
        state, fact = self.projector.state, last.fact
        found: set[tuple[str, str]] = set()
        if isinstance(fact, WindowSealed):
            found.add((fact.board, fact.window))
        elif is_definition(fact):
            found |= {(fact.board, window) for window in self._sealed(fact) - before}
        elif fact.correction:
            changed = state.editions.items() - self._editions.items()
            found |= {edition for edition, _ in changed}
            self._editions = dict(state.editions)
        return [
            SealedEdition(board, window, state.edition(board, window), last.at, last.position)
            for board, window in sorted(found)
            if _is_closed(state.boards.get(board), window)
        ]

    async def standings(self, sealed: SealedEdition) -> AsyncIterator[Page]:
        """Yield all standings of a closed window, best first, a page at a time."""
        first, window = Rank(1), exact_id(sealed.window)
        while True:
            page = await self._reader.page(
                sealed.board, window=window, from_rank=first, limit=PAGE_LIMIT_MAX
            )
            if not page.players:
                return
            yield page
            first = Rank(first + len(page.players))


def _is_closed(page: BoardState | None, window: str) -> bool:
    return page is not None and window in page.sealed


def _parts(facts: Sequence[Recorded]) -> list[Sequence[Recorded]]:
    """Part facts behind each that closes a window, or corrects one."""
    parts, start = [], 0
    for end, recorded in enumerate(facts, 1):
        fact = recorded.fact
        if isinstance(fact, WindowSealed) or fact.correction or is_definition(fact):
            parts.append(facts[start:end])
            start = end
    return [*parts, facts[start:]] if start < len(facts) else parts


def _attributes(state: State, facts: Sequence[Recorded]) -> list[Attributes]:
    """Return the attributes of each submission's player, of the state before the facts."""
    known: dict[str, Attributes] = {}
    found = []
    for recorded in facts:
        fact, change = recorded.fact, recorded.fact.profile_change()
        if change is not None:
            before = known.get(change.player)
            if before is None:
                before = state.profile(change.player).attributes
            known[change.player] = change.attributes_after(before)
        if is_submission(fact):
            there = known.get(fact.player)
            found.append(state.profile(fact.player).attributes if there is None else there)
    return found

"""The projector: an index and a state, both at the position up to which the ledger is folded.

It has two sources for the same facts: the writer, which passes on the facts it has just appended,
and the ledger, which is read at a start, and by a process that follows another's writes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

from rankd.core.board_rebuild import BoardRebuild, CorrectedWindows, days_of
from rankd.core.fold import Fold
from rankd.core.fold_parts import FoldParts
from rankd.core.mass_retraction import MassRetraction, scan
from rankd.core.move_batch import MoveBatch
from rankd.core.receipts import Collect, Receipts, encoded, joined
from rankd.core.rolling_draft import RollingDraft
from rankd.core.state import State
from rankd.model.board import Board
from rankd.model.facts import (
    OpenWindow,
    Position,
    Recorded,
    RetractionUndone,
    ScoresRetracted,
    ScoreSubmitted,
    WindowPrepared,
    WindowsCorrected,
    is_definition,
)
from rankd.model.redefinition import refolded
from rankd.model.window import Instant
from rankd.ports import LedgerReader, Progress, Ranked, RankIndex, Ranking

if TYPE_CHECKING:
    from rankd.core.changes import RankingChanges
    from rankd.errors import IndexUnavailable

FACTS_TOGETHER_MAX = 8_192
"""How many facts are folded at once while catching up: enough to be quick, few enough that other
work gets its turn."""

UNREAD = nullcontext()
"""Held while reads are excluded: nothing, where all readers are of the same event loop."""

BEGINNING = Position(0)
"""Before the first fact."""

Tell = Callable[[Progress], None]
Ask = Callable[[str, Callable[[Ranked | None], None]], bool]
"""Asks for a player's place, for a callback; False if that will not be called."""

D = TypeVar("D", BoardRebuild, CorrectedWindows)


class Projector:
    """Folds facts, in order, into the index and the state it belongs to."""

    def __init__(
        self,
        *,
        ledger: LedgerReader,
        index: RankIndex,
        state: State,
        checkpoint: Position = BEGINNING,
        at: Instant = 0,
    ) -> None:
        self.index = index
        self.readable = index
        """Where reads go: elsewhere only while the index cannot be reached."""
        self.fallback: RankIndex | None = None
        """Where a read goes that finds out itself that the index cannot be reached."""
        self.spare: Projector | None = None
        """A copy of this node's own, to read from while a shared index cannot be reached."""
        self.failure: IndexUnavailable | None = None
        """Why the index is behind the ledger, while that is so; never for one of this process."""
        self.state = state
        self.checkpoint = checkpoint
        """The last position folded."""
        self.at = at
        """The ledger's time there."""
        self.drafts: dict[str, BoardRebuild] = {}
        """Prepared for redefinitions that are about to be recorded, by board."""
        self.corrections: dict[str, CorrectedWindows] = {}
        """Prepared for corrections that are about to be recorded, by board."""
        self.rolling: dict[tuple[str, str], RollingDraft] = {}
        """Of coming rolling windows, by board and window."""
        self.retractions: list[MassRetraction] = []
        """Prepared for a retraction of many players that is about to be recorded, if there is one.
        """
        self.at_a_stretch = False
        """Whether readers do not run between two parts: they use another state, which is ahead."""
        self.changes: RankingChanges | None = None
        """Notes the changes of the fold, while there are streams."""
        self.tidy: Callable[[], Awaitable[None]] | None = None
        """Called between two steps of catching up, to archive the windows that were sealed."""
        self._awaited: dict[asyncio.Future[None], Position] = {}
        self._ledger = ledger
        fold = Fold(index, state, self._redefine, ledger)
        self._parts = FoldParts(index, state, fold.fold)
        self.parted, self.entries_of = self._parts.parted, fold.entries_of
        self.begin, self.apply = fold.begin, fold.apply

    async def fold(
        self, facts: Sequence[Recorded], *, reading: AbstractContextManager[Any] = UNREAD
    ) -> Receipts:
        """Fold facts that follow those before; return the receipts of submissions among them.

        Part by part, each with ``reading`` held, and a turn of the loop in between. If a part
        fails, those before it are folded, and the next fold begins with it.
        """
        parts: list[Receipts] = []
        spent = 0.0
        for part in self._parts.parted(facts):
            if spent + part.share > 1 and parts and not self.at_a_stretch:
                await asyncio.sleep(0)
                spent = 0.0
            spent += part.share
            with reading:
                parts.append(await self._parts.fold(part, after=self.checkpoint))
                self.checkpoint, self.at = part.facts[-1].position, part.facts[-1].at
            if self.changes is not None:
                self.changes.note(part.facts, parts[-1])
            if self._awaited:
                self._tell_those_who_wait()
        self.state.sweep_entrants()
        return joined(parts)

    @property
    def shown_to(self) -> Position:
        """The position that readers see."""
        return self.checkpoint

    async def shown_in(self, ranking: Ranking) -> Position:
        """The position that readers of one ranking see."""
        del ranking
        return self.shown_to

    async def fallback_moment(self, _index: RankIndex, _ranking: Ranking) -> Position | None:
        """Return the position at which a fallback index knows a ranking; None for other indexes."""
        return None

    def asker(self, _ranking: Ranking) -> Ask | None:
        """Return a function that asks a shared index for places; None for any other index."""
        return None

    @property
    def notes(self) -> Sequence[str]:
        """Remarks on the server of the index, in sentences."""
        return ()

    @property
    def floor(self) -> Position:
        """A lower bound of the index's checkpoint: read it before calling the index."""
        return BEGINNING

    async def check_fresh(self, as_of: Position | None, floor: Position) -> None:
        """Raise if an answer is older than allowed; None is the answer that a player is not ranked.

        An index of one's own is always where it was folded to.
        """

    async def reach(self, position: Position) -> None:
        """Wait until a position is folded."""
        if self.shown_to < position:
            reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._awaited[reached] = position
            try:
                await reached
            finally:
                self._awaited.pop(reached, None)

    def follow(self, before: "Projector") -> None:
        """Replace another projector: its waiters wait for this one now."""
        self._awaited = before._awaited
        self.changes = before.changes
        if self.changes is not None:
            self.changes.note_all(self.checkpoint)
        self._tell_those_who_wait()

    def _tell_those_who_wait(self) -> None:
        here = self.shown_to
        for reached, position in self._awaited.items():
            if position <= here and not reached.done():
                reached.set_result(None)

    async def catch_up_with(self, facts: Sequence[Recorded]) -> Receipts:
        """Fold facts that others have folded, and the missing ones before them.

        Return the receipts of those that were not folded yet.
        """
        await self.catch_up(through=Position(facts[0].position - 1))
        coming = [recorded for recorded in facts if recorded.position > self.checkpoint]
        return await self.fold(coming) if coming else {}

    async def catch_up(
        self,
        *,
        through: Position,
        tell: Tell = lambda _: None,
        receipts_after: Position = BEGINNING,
        collect: Collect | None = None,
    ) -> None:
        """Fold the ledger up to a position.

        ``collect`` gets the receipts of keyed submissions after ``receipts_after``, also of those
        folded before a failure of the ledger.
        """
        while self.checkpoint < through:
            limit = min(FACTS_TOGETHER_MAX, through - self.checkpoint)
            facts = await self._ledger.read(after=self.checkpoint, limit=limit)
            facts = [recorded for recorded in facts if recorded.position <= through]
            if not facts:
                break
            told = await self.fold(facts)
            if collect is not None and facts[-1].position > receipts_after:
                collect(keyed(facts, told, after=receipts_after))
            tell(Progress(self.checkpoint, through, "folding", "fact"))
            if self.tidy is not None:
                await self.tidy()

    async def count_entries(self) -> int:
        """Return how many entries the index has in all rankings."""
        return sum([await self.index.count(ranking) for ranking in await self.index.shapes()])

    async def _redefine(self, begun: MoveBatch, recorded: Recorded) -> bool:
        fact = recorded.fact
        if isinstance(fact, WindowsCorrected):
            await self._correct(begun, recorded, fact)
            return False
        if isinstance(fact, WindowPrepared):
            await self._prepare_window(begun, recorded, fact)
            return False
        if isinstance(fact, ScoresRetracted | RetractionUndone):
            return await self._retract(begun, recorded, fact)
        assert is_definition(fact)
        page = self.state.boards[fact.board]
        board = Board.define(fact.board, fact.definition)
        draft = _prepared(self.drafts, recorded)
        final = fact.refusals_final
        if draft is not None and not (
            draft.fits(board, final, self.state) and draft.has(fact.windows)
        ):
            await draft.discard()
            draft = None
        if draft is None and refolded(page.board, board):
            draft = BoardRebuild(
                self._ledger,
                self.index,
                page,
                board,
                state=self.state,
                refusals_final=final,
                rolling=days_of(page.board, board, recorded.at),
            )
        if draft is not None:
            await draft.catch_up(through=Position(recorded.position - 1))
            await draft.adopt(begun, fact, recorded.at)
        return draft is not None and draft.state is self.state

    async def _retract(
        self, begun: MoveBatch, recorded: Recorded, fact: ScoresRetracted | RetractionUndone
    ) -> bool:
        """Have the windows of a retraction of many players folded again; False for one of few."""
        drafts = next((one for one in self.retractions if one.is_for(fact)), None)
        before = Position(recorded.position - 1)
        if drafts is not None:
            self.retractions.remove(drafts)
        if drafts is None:
            undone = None
            if isinstance(fact, RetractionUndone):
                undone = self.state.retractions[fact.retraction]
            selecting = fact if isinstance(fact, ScoresRetracted) else None
            selecting = selecting or (undone and undone.fact)
            assert selecting is not None
            through = before if undone is None else Position(undone.position - 1)
            selected = await scan(
                self._ledger, self.state, selecting, through=through, undone=undone
            )
            if not selected.are_many:
                return False
            drafts = MassRetraction(
                self._ledger, self.index, self.state, selecting, selected, undone=undone
            )
        await drafts.catch_up(through=before)
        await drafts.stage_editions()
        await drafts.adopt(begun, recorded.at)
        return True

    async def _correct(self, begun: MoveBatch, recorded: Recorded, fact: WindowsCorrected) -> None:
        drafts = _prepared(self.corrections, recorded)
        if drafts is not None and not drafts.fits(fact):
            await drafts.discard()
            drafts = None
        if drafts is None:
            drafts = await CorrectedWindows.begun(self._ledger, self.index, self.state, fact)
        await drafts.catch_up(through=Position(recorded.position - 1))
        await drafts.adopt(begun, fact)

    async def _prepare_window(
        self, begun: MoveBatch, recorded: Recorded, fact: WindowPrepared
    ) -> None:
        """Have a rolling window adopted, folded up to its fact."""
        page = self.state.boards[fact.board]
        draft = self.rolling.pop((fact.board, fact.window), None)
        fits = draft is not None and draft.fits(page, fact) and draft.position < recorded.position
        if draft is not None and not fits:
            await draft.discard()
        if draft is None or not fits:
            window = OpenWindow(fact.window, fact.start, fact.end)
            draft = await RollingDraft.begun(self._ledger, self.index, page, self.state, window)
        await draft.catch_up(through=Position(recorded.position - 1))
        await draft.adopt(begun, recorded.at)


def _prepared(drafts: dict[str, D], recorded: Recorded) -> D | None:
    """Take out the draft for a fact; None if there is none, or it is for a later fact.

    A shared index may be folded behind the position at which the next fact is prepared.
    """
    board: str = recorded.fact.board  # type: ignore[attr-defined]
    draft = drafts.get(board)
    if draft is None or draft.position >= recorded.position:
        return None
    return drafts.pop(board)


def keyed(
    facts: Sequence[Recorded], receipts: Receipts, *, after: Position = BEGINNING
) -> dict[Position, bytes]:
    """Return the receipts to be kept: those of submissions that may be repeated by their key."""
    asked = [
        recorded.position
        for recorded in facts
        if isinstance(recorded.fact, ScoreSubmitted)
        and recorded.fact.key is not None
        and recorded.position > after
    ]
    if not asked:
        return {}
    known = set(receipts)
    return encoded(receipts, [position for position in asked if position in known])

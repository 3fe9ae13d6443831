"""A draft: the windows of a board as another definition would have them, folded beside the living.

The ledger has every submission, so a changed rule is no loss: the board's facts are read again from
its first definition on, put into the new terms and judged by the new rule, into rankings
that nobody reads. A submission that was refused when its turn came stays out: its sender was told
that it counts nowhere. Traffic goes on meanwhile. When the draft has come as far as the index, one
apply gives its rankings the names they are to be known by.

A window of a draft is the one that is open at the time the fold has reached: when its time is over
it is let go, and the next one begun, just as the living board does.
"""

from collections.abc import Callable, Sequence
from itertools import count

from rankd.core.admission import NOT_REFUSED, Admission
from rankd.core.book import BoardPage, Book
from rankd.core.entrants import Entrants
from rankd.core.fold import Batch, Fold
from rankd.core.turns import NEVER
from rankd.errors import IndexUnavailable
from rankd.model.board import Board
from rankd.model.facts import (
    BoardDefined,
    OpenWindow,
    PlayerErased,
    PlayerProfiled,
    Position,
    Recorded,
    ScoreSubmitted,
    WindowOpened,
    WindowSealed,
)
from rankd.model.redefinition import Translator, refolded
from rankd.model.window import Instant
from rankd.ports import DRAFT, LedgerReader, Progress, RankIndex, Ranking

FACTS_TOGETHER_MAX = 1_000
"""How many facts a draft folds before others get their turn: some 20 ms."""

_numbers = count(1)


class Draft:
    """Some windows of a board, folded again under another definition."""

    def __init__(
        self,
        ledger: LedgerReader,
        index: RankIndex,
        page: BoardPage,
        board: Board,
        *,
        entrants: Entrants,
        refusals_final: bool = True,
    ) -> None:
        self.board = board
        self.entrants = entrants
        """Those of the living board's book: they are complete once the draft takes its place."""
        self.refusals_final = refusals_final
        self._ledger = ledger
        self._index = index
        self._since = page.since
        self._names = refolded(page.board, board)
        self._alias = f"{DRAFT}{next(_numbers)}:{board.name}"
        self._page = BoardPage(board, page.since, alias=self._alias)
        self._book = Book()
        self._book.boards[board.name], self._book.entrants = self._page, entrants
        self._fold = Fold(index, self._book, _never)
        self._translator = Translator(board)
        self._admission = Admission(ledger, page)
        # Attributes may have been declared before the board was defined.
        self.position = Position(0 if board.segments else page.since - 1)
        self._turn_at: Instant = 0

    async def catch_up(
        self, *, through: Position, tell: Callable[[Progress], None] = lambda _: None
    ) -> None:
        """Fold everything up to a position."""
        if not self._names:
            self.position = through
        while self.position < through:
            limit = min(FACTS_TOGETHER_MAX, through - self.position)
            facts = await self._ledger.read(after=self.position, limit=limit)
            facts = [recorded for recorded in facts if recorded.position <= through]
            if not facts:
                self.position = through
                break
            await self._take(facts)
            self.position = facts[-1].position
            tell(Progress(self.position, through, "folding again", "fact"))

    async def _take(self, facts: Sequence[Recorded]) -> None:
        begun = Batch()
        for recorded in facts:
            if recorded.at >= self._turn_at:
                begun = await self._roll(begun, recorded.at)
            await self._take_one(begun, recorded)
        await self._stage(begun)

    async def _take_one(self, begun: Batch, recorded: Recorded) -> None:
        fact, ours = recorded.fact, recorded.position >= self._since
        match fact:
            case ScoreSubmitted() if ours and fact.board == self.board.name:
                if (fact.defined or self._since) >= self._since:
                    await self._submit(begun, fact, recorded)
            case ScoreSubmitted() if fact.attributes:
                await self._fold.merge_attributes(begun, fact.player, fact.attributes)
            case BoardDefined() if ours and fact.board == self.board.name:
                self._translator.define(
                    recorded.position, Board.define(fact.board, fact.definition)
                )
                self._page.terms.board = self._translator.board
                self._admission.note(recorded)
            case WindowOpened() | WindowSealed() if ours and fact.board == self.board.name:
                self._admission.note(recorded)
            case PlayerProfiled():
                await self._fold.change_segments(begun, fact.player, fact.attributes or {})
                self._book.note(recorded)
            case PlayerErased():
                await self._fold.change_segments(begun, fact.player, {})
                self._book.note(recorded)
            case _:
                pass

    async def _submit(self, begun: Batch, fact: ScoreSubmitted, recorded: Recorded) -> None:
        """Judge a submission anew in the windows that did not refuse it at its position."""
        refusal = await self._admission.refusal(recorded) if self.refusals_final else NOT_REFUSED
        translated = None if refusal.everywhere else self._translator.translate(fact)
        if translated is not None:
            await self._fold.submit(begun, translated, recorded, refused=refusal.windows)
        elif fact.attributes:
            await self._fold.merge_attributes(begun, fact.player, fact.attributes)

    async def _stage(self, begun: Batch) -> None:
        if begun.moves or begun.opened or begun.dropped:
            await self._index.stage(begun.moves, opened=begun.opened, dropped=begun.dropped)

    # -------------------------------------------------------------------------- windows

    async def _roll(self, begun: Batch, at: Instant) -> Batch:
        """Let go of windows whose time is over, and begin those whose time has come."""
        await self._stage(begun)
        rolled, turns = Batch(), [NEVER]
        for recurrence in self.board.windows:
            if recurrence.name not in self._names:
                continue
            window, current = recurrence.window_at(at), self._page.windows.get(recurrence.name)
            if current is not None and (window is None or current.window.id != window.id):
                rolled.dropped += await self._rankings(current.window.id)
                del self._page.windows[recurrence.name]
            if window is None:
                coming = recurrence.next_opening(at)
                turns.append(NEVER if coming is None or coming.start is None else coming.start)
                continue
            turns.append(NEVER if window.end is None else window.end)
            if recurrence.name not in self._page.windows:
                opened = self._page.opened(OpenWindow(window.id, window.start, window.end))
                self._page.windows[recurrence.name] = opened
                rolled.opened[opened.ranking] = opened.terms.shape
        self._turn_at = min(turns)
        await self._stage(rolled)
        return Batch()

    async def _rankings(self, window: str | None = None) -> list[Ranking]:
        every = await self._index.rankings(self._alias)
        return [ranking for ranking in every if window is None or ranking.window == window]

    # -------------------------------------------------------------------------- its end

    async def adopt(self, begun: Batch, fact: BoardDefined, at: Instant) -> None:
        """Have a batch put the draft in the place of what the fact redefines.

        Raises IndexUnavailable if the draft is gone: another index lives since it was staged.
        """
        if at >= self._turn_at:
            await self._roll(Batch(), at)
        ids = {window.window.partition(":")[0].partition("~")[0]: window for window in fact.windows}
        living = await self._index.rankings(fact.board)
        for name, opened in self._page.windows.items():
            id = ids[name].window
            begun.dropped += [ranking for ranking in living if ranking.window == id]
            drafts = await self._rankings(opened.window.id)
            if opened.ranking not in drafts:
                raise IndexUnavailable("a draft is gone with the index it was staged in")
            for draft in drafts:
                begun.adopted[draft] = Ranking(fact.board, id, draft.segment)

    async def discard(self) -> None:
        """Forget all of it."""
        await self._index.stage([], dropped=await self._rankings())

    def windows(self) -> Sequence[tuple[str, Ranking]]:
        """Return its windows' names and rankings, for whoever wants to see what would be."""
        opened = self._page.windows
        names = (recurrence.name for recurrence in self.board.windows)
        return [(name, opened[name].ranking) for name in names if name in opened]

    def page(self) -> BoardPage:
        """Return what explains its keys."""
        return self._page


async def _never(_begun: Batch, _recorded: Recorded) -> bool:
    raise AssertionError("a draft is of one definition")

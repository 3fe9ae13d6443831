"""Windows of a board that are folded again because the time had been wrong.

A correction tells which windows the board has from its position on. Those whose entries do not stay
as they are become drafts: the board's facts are judged again, each at its right time, as for a
changed definition. Closed windows that retention dropped by the wrong time come back so, too. One
apply puts all of them in their place.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from rankd.core.board_rebuild import BoardRebuild
from rankd.core.fold import MoveBatch
from rankd.core.state import BoardState, State, name_of_window
from rankd.model.facts import Position, WindowsCorrected, is_definition
from rankd.model.window import Instant
from rankd.ports import LedgerReader, Progress, RankIndex

Place = tuple[str, Instant | None]
"""The name and the start of a window."""


class _Part(NamedTuple):
    """Windows that were made under one definition."""

    draft: BoardRebuild
    ids: dict[Place, str]
    through: Position | None
    """Where the definition ended; None if it is in force."""


class _Wanted(NamedTuple):
    defined_at: Position
    place: Place
    id: str
    through: Position | None
    """Where it closed; None while it is open."""


class CorrectedWindows:
    """The drafts of one correction."""

    def __init__(self, index: RankIndex, page: BoardState, fact: WindowsCorrected) -> None:
        self._fact = fact
        self._index = index
        self._page = page
        self._parts: list[_Part] = []

    @classmethod
    async def begun(
        cls,
        ledger: LedgerReader,
        index: RankIndex,
        state: State,
        fact: WindowsCorrected,
    ) -> "CorrectedWindows":
        """Return drafts of the windows that a correction folds again, given the state before it."""
        page = state.boards[fact.board]
        corrected = cls(index, page, fact)
        final = await _refusals_final(ledger, page)
        wanted = _wanted(page, fact)
        for defined_at in dict.fromkeys(one.defined_at for one in wanted):
            some = [one for one in wanted if one.defined_at == defined_at]
            draft = BoardRebuild(
                ledger,
                index,
                page,
                page.board_at(defined_at),
                player_boards=state.player_boards,
                refusals_final=final,
                wrong_times=state.wrong_times,
                names=frozenset(one.place[0] for one in some),
                lasting={one.place for one in some if one.through is not None},
            )
            ends = [one.through for one in some if one.through is not None]
            through = None if defined_at == page.defined_at else max(ends)
            corrected._parts.append(_Part(draft, {one.place: one.id for one in some}, through))
        return corrected

    @property
    def position(self) -> Position:
        """Up to where all of them are folded."""
        return min((draft.position for draft, _, _ in self._open_parts()), default=Position(0))

    def _open_parts(self) -> Sequence[_Part]:
        return [part for part in self._parts if part.through is None]

    async def catch_up(
        self, *, through: Position, tell: Callable[[Progress], None] = lambda _: None
    ) -> None:
        """Fold everything up to a position."""
        for draft, _, ended in self._parts:
            until = through if ended is None else min(through, Position(ended - 1))
            await draft.catch_up(through=until, tell=tell)

    def fits(self, fact: WindowsCorrected) -> bool:
        """Whether these are the drafts of a correction, but for the time that it has reached."""
        return _what(self._fact) == _what(fact)

    async def adopt(self, begun: MoveBatch, fact: WindowsCorrected) -> None:
        """Let a batch adopt them, and drop the windows that never should have been."""
        again = {*fact.removed, *(window.window for window in fact.closed)}
        stay = {*fact.kept, *(id for id in self._page.sealed if id not in again)}
        living = await self._index.rankings(fact.board)
        begun.dropped += [ranking for ranking in living if ranking.window not in stay]
        for draft, ids, _ in self._parts:
            await draft.adopt_as(begun, ids, fact.time)

    async def discard(self) -> None:
        """Forget all of them."""
        for draft, _, _ in self._parts:
            await draft.discard()


def _wanted(page: BoardState, fact: WindowsCorrected) -> list[_Wanted]:
    """Return the windows that are folded again."""
    wanted = [
        _Wanted(page.defined_at, (name_of_window(one.window), one.start), one.window, None)
        for one in fact.windows
        if one.window not in fact.kept
    ]
    for closed in fact.closed:
        defined_at, _ = page.definition_at(Position(closed.through - 1))
        place = name_of_window(closed.window), closed.start
        wanted.append(_Wanted(defined_at, place, closed.window, closed.through))
    return wanted


def _what(fact: WindowsCorrected) -> WindowsCorrected:
    return msgspec.structs.replace(fact, time=0, actor=None)


async def _refusals_final(ledger: LedgerReader, page: BoardState) -> bool:
    """Whether the definition in force counts nothing that was refused before it."""
    if not page.earlier:
        return True
    (recorded,) = await ledger.read(after=Position(page.defined_at - 1), limit=1)
    return is_definition(recorded.fact) and recorded.fact.refusals_final

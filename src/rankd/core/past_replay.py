"""A board as of a past position, by folding its facts up to there into an index of its own."""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from rankd.core.projector import Projector, Tell
from rankd.core.state import State
from rankd.model.facts import Fact, Position, as_erased
from rankd.ports import LedgerReader, Progress, RankIndex

SLICE_FACTS = 1_024
"""Facts that are read and folded at a stretch: some milliseconds."""

SIZE_CHECKED_FACTS = 65_536
"""How many facts are folded between two looks at the size of the index."""


class PastTooLarge(Exception):
    """A past board has more entries than memory is granted; its message says how many."""

    def __init__(self, entries: int) -> None:
        super().__init__(f"it has {entries:,} entries")


class Slices:
    """The pace of background work: a pause after each slice, in proportion to its length."""

    def __init__(self, pause_per_work: float) -> None:
        self._pause_per_work = pause_per_work
        self._since = asyncio.get_running_loop().time()

    async def rest(self) -> None:
        """Let others run, for as long as the slice took times ``pause_per_work``."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep((loop.time() - self._since) * self._pause_per_work)
        self._since = loop.time()


class PastRanking(NamedTuple):
    """The rankings of a board, or one of them, as of a past position."""

    projector: Projector
    entries: int


class Replay(NamedTuple):
    """The board and the position that are folded, with the bounds of the work."""

    board: str
    position: Position
    erased: Mapping[str, Position]
    """Of players that were erased since, where: earlier facts are read without personal data."""
    entries_max: int | None
    slices: Slices
    tell: Tell


async def replay(ledger: LedgerReader, index: RankIndex, wanted: Replay) -> PastRanking:
    """Fold all facts that concern a board up to a position. Raises PastTooLarge.

    O(facts of the ledger up to there) to read them, and those of the board to fold them.
    """
    projector = Projector(ledger=ledger, index=index, state=State())
    after, position = Position(0), wanted.position
    entries = check_at = 0
    while after < position:
        facts = await ledger.read(after=after, limit=min(SLICE_FACTS, position - after))
        facts = [recorded for recorded in facts if recorded.position <= position]
        if not facts:
            break
        after = facts[-1].position
        some = [one for one in facts if _concerns(one.fact, wanted.board)]
        if some:
            await projector.fold(as_erased(some, wanted.erased))
        if after >= check_at or after >= position:
            entries = await check_size(projector, wanted.entries_max)
            check_at = after + SIZE_CHECKED_FACTS
        wanted.tell(Progress(after, position, "folding", "fact"))
        await wanted.slices.rest()
    await _move_to(projector, index, position)
    return PastRanking(projector, entries)


def _concerns(fact: Fact, board: str) -> bool:
    """Whether a fact is of a board, or of none, as profiles and states of players are."""
    return getattr(fact, "board", None) in {None, board}


async def check_size(projector: Projector, entries_max: int | None) -> int:
    """Return how many entries an index has. Raises PastTooLarge."""
    entries = await projector.count_entries()
    if entries_max is not None and entries > entries_max:
        raise PastTooLarge(entries)
    return entries


async def _move_to(projector: Projector, index: RankIndex, position: Position) -> None:
    """Let a projector be at a position behind which there are facts of other boards only."""
    if projector.checkpoint < position:
        await index.apply([], after=projector.checkpoint, through=position)
        projector.checkpoint = position

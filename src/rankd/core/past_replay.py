"""A board as of a past position, by folding its facts up to there into an index of its own."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from rankd.core.projector import Projector, Tell
from rankd.core.state import State
from rankd.model.facts import (
    AttributesSet,
    Fact,
    Position,
    ProfileChange,
    Recorded,
    WrongTime,
    as_erased,
    is_submission,
    right_time,
)
from rankd.model.window import Instant
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


class Stops:
    """Times at which a replay stops to be looked at, in order."""

    def __init__(
        self,
        times: Iterable[Instant],
        look: Callable[[Projector, Instant, Position], Awaitable[None]],
        wrong_times: Sequence[WrongTime],
    ) -> None:
        self._times = deque(times)
        self._look = look
        self._wrong_times = wrong_times

    def before(self, facts: Sequence[Recorded]) -> int:
        """Return how many of the facts come before the next stop."""
        if not self._times:
            return len(facts)
        due = self._times[0]
        times = (right_time(recorded, self._wrong_times) for recorded in facts)
        return next((number for number, time in enumerate(times) if time >= due), len(facts))

    async def stop(self, projector: Projector, position: Position) -> None:
        """Have the next stop looked at, as of a position."""
        await self._look(projector, self._times.popleft(), position)

    async def finish(self, projector: Projector, position: Position) -> None:
        """Have the stops looked at that no fact came after."""
        while self._times:
            await self.stop(projector, position)


async def replay(
    ledger: LedgerReader, index: RankIndex, wanted: Replay, stops: Stops | None = None
) -> PastRanking:
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
        while stops is not None and (count := stops.before(facts)) < len(facts):
            await _fold(projector, facts[:count], wanted)
            await stops.stop(projector, Position(facts[count].position - 1))
            facts = facts[count:]
        await _fold(projector, facts, wanted)
        if after >= check_at or after >= position:
            entries = await check_size(projector, wanted.entries_max)
            check_at = after + SIZE_CHECKED_FACTS
        wanted.tell(Progress(after, position, "folding", "fact"))
        await wanted.slices.rest()
    if stops is not None:
        await stops.finish(projector, position)
    await _move_to(projector, index, position)
    return PastRanking(projector, entries)


async def _fold(projector: Projector, facts: Sequence[Recorded], wanted: Replay) -> None:
    some = [one for one in facts if _concerns(one.fact, wanted.board)]
    if some:
        known = as_erased(some, wanted.erased)
        await projector.fold([_as_seen_from(wanted.board, one) for one in known])


def _concerns(fact: Fact, board: str) -> bool:
    """Whether a fact is of a board, or of none, as profiles and states of players are.

    A submission to another board is, if it tells attributes: its player may change segments.
    """
    if getattr(fact, "board", None) in {None, board}:
        return True
    return is_submission(fact) and bool(fact.attributes)


class _AttributesTold(AttributesSet, frozen=True):
    """Attributes that a submission to another board tells; the others of its player stay."""

    def profile_change(self) -> ProfileChange | None:
        """Merge the attributes into those that are known."""
        return ProfileChange(self.player, attributes=self.attributes or {}, merges=True)


def _as_seen_from(board: str, recorded: Recorded) -> Recorded:
    """Return a fact as it is folded for a board alone."""
    fact = recorded.fact
    if not is_submission(fact) or fact.board == board:
        return recorded
    told = _AttributesTold(player=fact.player, attributes=fact.attributes)
    return msgspec.structs.replace(recorded, fact=told)


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

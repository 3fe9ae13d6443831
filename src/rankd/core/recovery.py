"""Recovery: from a ledger to a projector that is up to date, and comparison of an index with it.

A snapshot spares most of the folding where there is one that can be believed: it is whole, its
notes can be read, and the ledger's hash chain at its checkpoint is the one that was noted. Anything
else is told and left aside: the ledger has everything.

A comparison folds the whole ledger again. Writes go on meanwhile: entries are compared some at a
time, in the writer's turn and as of one position. An index that other nodes fold into may have
forgotten that position by the time it is asked; then both sides go on to a later one, and the same
entries are compared there.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

from rankd.core.projector import Projector, Tell
from rankd.core.receipts import ReceiptBuffer
from rankd.core.state import State
from rankd.core.state_codec import VERSION, DecodedState, Heading, read_notes, take_notes
from rankd.core.window_archiver import WindowArchiver
from rankd.errors import IndexDiffers, IndexForgot, IndexUnavailable, SnapshotDamaged
from rankd.model.facts import Position
from rankd.model.standing import Rank
from rankd.ports import (
    LedgerReader,
    Placed,
    Progress,
    RankIndex,
    Ranking,
    RankingArchives,
    Snapshots,
)

NOTHING_LINKED = b""
"""The link of the hash chain of an empty ledger."""

TRACED_TOGETHER = 4_096
"""How many entries are read at once to find the players of a board."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class IndexHome:
    """An index, and where it is kept between two lives, if anywhere."""

    index: RankIndex
    snapshots: Snapshots | None
    archives: RankingArchives | None = None

    def apart(self) -> "IndexHome":
        """Return the empty index as one to compare another with: nothing of it is stored."""
        if self.archives is not None:
            self.archives.keep_apart()
        return IndexHome(self.index, None, self.archives)


Build = Callable[[], IndexHome]


P_co = TypeVar("P_co", bound=Projector, covariant=True)


class Recovered(NamedTuple, Generic[P_co]):
    """The engine's state as the ledger has it."""

    home: IndexHome
    projector: P_co
    saved: Position
    """The position of the last snapshot; 0 without one."""
    receipts: ReceiptBuffer
    link: bytes


async def recover(ledger: LedgerReader, build: Build, tell: Tell) -> Recovered[Projector]:
    """Return the state at the ledger's head, over an index of this process."""
    kept = await ledger.receipts_through()
    home = build()
    noted = await _load(ledger, home, tell)
    head = await ledger.head()  # Only now: another process may have saved past an earlier one.
    if noted is None:
        home = build()
        projector, saved, receipts = folded(ledger, home), Position(0), ReceiptBuffer()
    else:
        heading = noted.heading
        saved, projector = heading.checkpoint, _resumed(ledger, home, noted)
        unstored = {Position(at): body for at, body in heading.unstored.items() if at > kept}
        receipts = ReceiptBuffer(unstored)
        await find_entrants(noted.state, home.index)
    await projector.catch_up(through=head, tell=tell, receipts_after=kept, collect=receipts.add)
    link = await ledger.link_at(head) or NOTHING_LINKED
    return Recovered(home, projector, saved, receipts, link)


async def restored(ledger: LedgerReader, build: Build, tell: Tell) -> tuple[IndexHome, Projector]:
    """Return a projector at the position of the saved index; at 0 without one that can be used."""
    home = build()
    noted = await _load(ledger, home, tell)
    if noted is None:
        home = build()
        return home, folded(ledger, home)
    await find_entrants(noted.state, home.index)
    return home, _resumed(ledger, home, noted)


def _resumed(ledger: LedgerReader, home: IndexHome, noted: DecodedState) -> Projector:
    """Return a projector at the position of a saved index."""
    heading = noted.heading
    projector = Projector(
        ledger=ledger,
        index=home.index,
        state=noted.state,
        checkpoint=heading.checkpoint,
        at=heading.at,
    )
    _tidy(projector, home)
    return projector


async def save(ledger: LedgerReader, home: IndexHome, projector: Projector) -> None:
    """Save an index that no engine writes to, at a position where an append ended."""
    link = await ledger.link_at(projector.checkpoint)
    if home.snapshots is None or link is None:
        return
    state = projector.state
    heading = Heading(VERSION, projector.checkpoint, projector.at, link, state.profiled_at, {})
    async for _ in home.snapshots.save(lambda: take_notes(state, heading)):
        pass


def folded(ledger: LedgerReader, home: IndexHome) -> Projector:
    """Return a projector that knows nothing yet."""
    projector = Projector(ledger=ledger, index=home.index, state=State())
    _tidy(projector, home)
    return projector


def _tidy(projector: Projector, home: IndexHome) -> None:
    """Let the windows that a long fold seals leave memory."""
    archiver = WindowArchiver(lambda: home.archives, lambda: projector.state)
    projector.tidy = archiver.tidy


async def find_entrants(state: State, index: RankIndex) -> None:
    """Note the players of the index on boards whose players the state does not all know."""
    for page in [page for page in state.segmented.values() if not page.traced]:
        for opened in page.windows.values():
            first, total = 1, 1
            while first <= total:
                entries, total, _ = await index.read(
                    opened.ranking, first=Rank(first), limit=TRACED_TOGETHER
                )
                for entry in entries:
                    state.enter(page, entry.player)
                first += TRACED_TOGETHER
        state.trace(page)


async def _load(ledger: LedgerReader, home: IndexHome, tell: Tell) -> DecodedState | None:
    if home.snapshots is None:
        return None
    try:
        frames = await home.snapshots.load(tell)
        if frames is None:
            return None
        noted = read_notes(frames)
        heading = noted.heading
        if heading.checkpoint != await home.index.checkpoint():
            raise SnapshotDamaged("the notes beside the index are of another moment")
        link = await ledger.link_at(heading.checkpoint) or NOTHING_LINKED
        if heading.checkpoint > await ledger.head() or link != heading.link:
            raise SnapshotDamaged("the snapshot is of another ledger")
    except (SnapshotDamaged, OSError) as exc:
        _log.warning("the saved index cannot be used; everything is folded again: %s", exc)
        return None
    return noted


SHADOW_FACTS = 65_536
"""How many facts are folded between two words about progress."""

SHADOW_BEHIND_MAX = 1_000
"""How near a shadow comes to the head before the writer waits for it."""

COMPARED_TOGETHER = 4_096
"""How many entries are compared before others get their turn: some ten milliseconds."""

MOMENTS_MAX = 20
"""How often the same entries are looked at before an index counts as too busy to be compared."""


class WriterPart(Protocol):
    """The part of an writer that a comparison needs."""

    projector: Projector

    def turn(self) -> AbstractAsyncContextManager[None]:
        """Hold the writer between two batches."""

    async def catch_up_others(self) -> None:
        """Fold the facts that other nodes appended."""


class IdleProjector:
    """A projector that no writer writes to."""

    def __init__(self, projector: Projector) -> None:
        self.projector = projector

    def turn(self) -> AbstractAsyncContextManager[None]:
        """Wait for nothing."""
        return nullcontext()

    async def catch_up_others(self) -> None:
        """Do nothing: there are no other nodes."""


async def fold_shadow(shadow: Projector, writer: WriterPart) -> AsyncIterator[Progress]:
    """Fold the ledger into a shadow, nearly as far as the engine is."""
    while shadow.checkpoint < (here := writer.projector.checkpoint):
        through = min(here, Position(shadow.checkpoint + SHADOW_FACTS))
        await shadow.catch_up(through=through)
        yield Progress(shadow.checkpoint, here, "folding", "fact")
        await asyncio.sleep(0)
        if writer.projector.checkpoint - shadow.checkpoint <= SHADOW_BEHIND_MAX:
            break  # Writes go on meanwhile: who waits for the last of them waits for ever.


async def compare(shadow: Projector, writer: WriterPart) -> AsyncIterator[Progress]:
    """Compare every entry of the engine's index with a shadow's. Raises IndexDiffers."""
    rankings, done = await _rankings(shadow, writer), 0
    entries = await shadow.count_entries()
    for ranking in rankings:
        first, total = 1, 1
        while first <= total:  # Whoever comes behind the last one now is not waited for.
            count, total = await _compare_some(shadow, writer, ranking, Rank(first))
            done, first = done + count, first + count
            yield Progress(done, max(done, entries), "comparing", "standing")


async def _rankings(shadow: Projector, writer: WriterPart) -> list[Ranking]:
    """Return the rankings that either side has."""
    both: dict[Ranking, None] = {}
    async with writer.turn():
        await _meet(shadow, writer)
        for projector in (writer.projector, shadow):
            for name in projector.state.boards:
                both |= dict.fromkeys(await projector.index.rankings(name))
    return list(both)


async def _compare_some(
    shadow: Projector, writer: WriterPart, ranking: Ranking, first: Rank
) -> tuple[int, int]:
    for _ in range(MOMENTS_MAX):
        try:
            async with writer.turn():
                at = await _meet(shadow, writer)
                return await _compare_at(at, shadow, writer, ranking, first)
        except IndexForgot:
            await asyncio.sleep(0)
    raise IndexUnavailable("the index moves on too fast to be compared")


async def _meet(shadow: Projector, writer: WriterPart) -> Position:
    """Bring both to where the ledger is; return where that is."""
    await writer.catch_up_others()
    projector = writer.projector
    if projector.shown_to < projector.checkpoint:
        raise IndexUnavailable("the index lacks some of the ledger; wait until it is filled")
    await shadow.catch_up(through=projector.checkpoint)
    return projector.checkpoint


async def _compare_at(
    at: Position, shadow: Projector, writer: WriterPart, ranking: Ranking, first: Rank
) -> tuple[int, int]:
    index = writer.projector.index
    ours, theirs = [
        await side.read(ranking, first=first, limit=COMPARED_TOGETHER, at=at)
        for side in (index, shadow.index)
    ]
    if ours.total != theirs.total or list(ours.entries) != list(theirs.entries):
        pairs = enumerate(zip(ours.entries, theirs.entries, strict=False))
        place = next((at for at, (one, other) in pairs if one != other), len(ours.entries))
        raise IndexDiffers(ranking=str(ranking), rank=first + place)
    if index.shared:
        await _compare_by_player(at, index, ranking, first, ours.entries)
    return len(ours.entries), ours.total


async def _compare_by_player(
    at: Position, index: RankIndex, ranking: Ranking, first: Rank, entries: Sequence[Placed]
) -> None:
    """Compare entries found by rank with those found by player, where both are stored."""
    found = await index.order_keys([(ranking, placed.player) for placed in entries], at)
    for place, (placed, order_key) in enumerate(zip(entries, found, strict=True)):
        if placed.order_key != order_key:
            raise IndexDiffers(ranking=str(ranking), rank=first + place)

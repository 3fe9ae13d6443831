"""From a ledger to a projector that is up to date: at a start, for a check, to begin anew.

A snapshot spares most of the folding where there is one that can be believed: it is whole, its
notes can be read, and the ledger's hash chain at its checkpoint is the one that was noted. Anything
else is told and left aside: the ledger has everything.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from rankd.core.projector import Projector, Tell
from rankd.core.receipts import ReceiptBuffer
from rankd.core.state import State
from rankd.core.state_codec import DecodedState, read_notes
from rankd.errors import SnapshotDamaged
from rankd.model.facts import Position
from rankd.model.standing import Rank
from rankd.ports import LedgerReader, RankIndex, Snapshots

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
        saved = heading.checkpoint
        projector = Projector(
            ledger=ledger,
            index=home.index,
            state=noted.state,
            checkpoint=heading.checkpoint,
            at=heading.at,
        )
        unstored = {Position(at): body for at, body in heading.unstored.items() if at > kept}
        receipts = ReceiptBuffer(unstored)
        await find_entrants(noted.state, home.index)
    await projector.catch_up(through=head, tell=tell, receipts_after=kept, collect=receipts.add)
    link = await ledger.link_at(head) or NOTHING_LINKED
    return Recovered(home, projector, saved, receipts, link)


def folded(ledger: LedgerReader, home: IndexHome) -> Projector:
    """Return a projector that knows nothing yet."""
    return Projector(ledger=ledger, index=home.index, state=State())


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

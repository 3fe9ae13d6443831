"""From a ledger to a projector that is up to date: at a start, for a check, to begin anew.

A snapshot spares most of the folding where there is one that can be believed: it is whole, its
notes can be read, and the ledger's hash chain at its checkpoint is the one that was noted. Anything
else is told and left aside: the ledger has everything.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from rankd.core.book import Book
from rankd.core.joint import PATIENCE_SECONDS, Joint
from rankd.core.notes import Noted, read_notes
from rankd.core.projector import Projector, Tell
from rankd.errors import SnapshotDamaged
from rankd.model.facts import Position
from rankd.ports import LedgerReader, RankIndex, SharedIndex, Snapshots

NOTHING_LINKED = b""
"""What stands for the hash chain of a ledger without facts."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Home:
    """An index, and where it is kept between two lives, if anywhere."""

    index: RankIndex
    snapshots: Snapshots | None


Build = Callable[[], Home]


@dataclass(frozen=True, slots=True)
class Shared:
    """An index that several nodes fold into."""

    index: SharedIndex
    spare: bool = False
    """Whether this node keeps a copy of its own, to read from while that one is out of reach."""


class Recovered(NamedTuple):
    """The engine's state as the ledger has it."""

    home: Home
    projector: Projector
    saved: Position
    """What the last snapshot has; 0 without one."""
    owed: dict[Position, bytes]
    """Receipts of submissions with a key that the ledger does not keep yet."""
    link: bytes


async def recover(
    ledger: LedgerReader, build: Build, tell: Tell, *, shared: Shared | None = None
) -> Recovered:
    """Return the state at the ledger's head, over an index of one's own or one that is shared."""
    kept = await ledger.receipts_through()
    if shared is not None:
        spare = build().index if shared.spare else None
        joint = Joint(ledger=ledger, index=shared.index, spare=spare)
        return await _join(ledger, joint, kept, tell)
    home = build()
    noted = await _load(ledger, home, tell)
    head = await ledger.head()  # Only now: another process may have saved past an earlier one.
    if noted is None:
        home = build()
        projector, owed, saved = folded(ledger, home), {}, Position(0)
    else:
        heading = noted.heading
        saved = heading.checkpoint
        projector = Projector(
            ledger=ledger,
            index=home.index,
            book=noted.book,
            checkpoint=heading.checkpoint,
            at=heading.at,
        )
        owed = {Position(at): body for at, body in heading.owed.items() if at > kept}
    await projector.catch_up(through=head, tell=tell, receipts_after=kept, receipts=owed)
    link = await ledger.link_at(head) or NOTHING_LINKED
    return Recovered(home, projector, saved, owed, link)


async def _join(ledger: LedgerReader, joint: Joint, kept: Position, tell: Tell) -> Recovered:
    """Return the state at the ledger's head, beside an index that others fold into."""
    owed: dict[Position, bytes] = {}
    head = await ledger.head()
    await joint.catch_up(through=head, tell=tell, receipts_after=kept, receipts=owed)
    joint.patience_seconds = PATIENCE_SECONDS
    link = await ledger.link_at(head) or NOTHING_LINKED
    return Recovered(Home(joint.shared, None), joint, head, owed, link)


def folded(ledger: LedgerReader, home: Home) -> Projector:
    """Return a projector that knows nothing yet."""
    return Projector(ledger=ledger, index=home.index, book=Book())


async def _load(ledger: LedgerReader, home: Home, tell: Tell) -> Noted | None:
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

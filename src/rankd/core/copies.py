"""Copies of the book, for nodes whose index is elsewhere: those read on from the newest one.

Without one, such a node reads every fact from the first on, only to know boards, windows and
players. A copy is believed if it is whole and the ledger's hash chain at its position is the one
that was noted with it; any other is told and left aside: the ledger has everything.
"""

import logging

from rankd.core.notes import Noted, blank, read_notes
from rankd.errors import SnapshotDamaged
from rankd.model.facts import Position
from rankd.ports import Copies, LedgerReader

_log = logging.getLogger(__name__)


async def newest_copy(copies: Copies | None, ledger: LedgerReader, *, through: Position) -> Noted:
    """Return the book as of the newest copy up to a position; a blank one if there is none."""
    if copies is None:
        return blank()
    for position in await copies.kept():
        if position > through:
            continue
        try:
            return await _believed(copies, ledger, position)
        except SnapshotDamaged as exc:
            _log.warning("a copy of the book cannot be used: %s", exc.problem)
    return blank()


async def _believed(copies: Copies, ledger: LedgerReader, position: Position) -> Noted:
    noted = read_notes(await copies.load(position))
    if noted.heading.checkpoint != position:
        raise SnapshotDamaged(f"the copy at {position} is of another position")
    if noted.heading.link != await ledger.link_at(position):
        raise SnapshotDamaged(f"the copy at {position} is of another ledger")
    return noted

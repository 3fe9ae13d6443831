"""Copies of the state, for nodes whose index is elsewhere: those read on from the newest one.

Without one, such a node reads every fact from the first on, only to know boards, windows and
players. A copy is believed if it is whole and the ledger's hash chain at its position is the one
that was noted with it; any other is told and left aside: the ledger has everything.
"""

import logging

from rankd.core.state_codec import DecodedState, placeholder, read_notes
from rankd.errors import SnapshotDamaged
from rankd.model.facts import Position
from rankd.ports import LedgerReader, StateSnapshots

_log = logging.getLogger(__name__)


async def newest_copy(
    copies: StateSnapshots | None, ledger: LedgerReader, *, through: Position
) -> DecodedState:
    """Return the state as of the newest copy up to a position; a blank one if there is none."""
    if copies is None:
        return placeholder()
    for position in await copies.kept():
        if position > through:
            continue
        try:
            return await _believed(copies, ledger, position)
        except SnapshotDamaged as exc:
            _log.warning("a copy of the state cannot be used: %s", exc.problem)
    return placeholder()


async def _believed(
    copies: StateSnapshots, ledger: LedgerReader, position: Position
) -> DecodedState:
    noted = read_notes(await copies.load(position))
    if noted.heading.checkpoint != position:
        raise SnapshotDamaged(f"the copy at {position} is of another position")
    if noted.heading.link != await ledger.link_at(position):
        raise SnapshotDamaged(f"the copy at {position} is of another ledger")
    return noted

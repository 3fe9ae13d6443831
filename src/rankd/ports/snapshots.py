"""The ports of saved state: of an index with its state, or of the state alone."""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Protocol

from rankd.model.facts import Position
from rankd.ports.operations import Progress

NOTHING_HELD = nullcontext()
"""The lock of a save whose state may be taken between any two applies."""


class Snapshots(Protocol):
    """An index of this process saved between runs, together with the core's encoded state.

    1. ``load`` restores the index as of the saved checkpoint and the state taken at the same
       moment; never a mixture of two saves.
    2. A save runs beside reads and applies, and delays neither by more than 50 ms.
    3. A save that is interrupted, by an error or the end of the process, leaves the previous one.
    4. Damage is detected and never loaded: SnapshotDamaged.
    """

    def save(
        self,
        notes: Callable[[], Iterable[bytes]],
        *,
        still: AbstractAsyncContextManager[Any] = NOTHING_HELD,
    ) -> AsyncIterator[Progress]:
        """Save the index as of the last step but one, without draft rankings.

        ``notes`` returns the encoded state. It is called once, between two applies and while
        ``still`` is held; the frames are read later, on another thread, so they must not refer to
        anything that changes.
        """

    async def load(self, tell: Callable[[Progress], None]) -> Sequence[bytes] | None:
        """Fill the empty index from the save and return the state's frames; None without a save."""


COPIES_KEPT = 3
"""The number of stored state snapshots: one may be in use or damaged while the next is written."""


class StateSnapshots(Protocol):
    """Snapshots of the core's state, available to every node over one ledger.

    1. ``load`` returns the frames as they were stored. A snapshot that is damaged or gone raises
       SnapshotDamaged.
    2. A snapshot is complete or absent: ``kept`` does not list one that was interrupted.
    3. There are at most COPIES_KEPT; the oldest are deleted.
    4. A stored snapshot is never rewritten. Of several nodes that would store one at about the same
       time one does, unless they start at the very same moment.
    """

    async def kept(self) -> Sequence[Position]:
        """Return the positions of the snapshots, the newest first."""

    async def keep(
        self, position: Position, frames: Iterable[bytes], *, unless_after: Position
    ) -> bool:
        """Store a snapshot, unless one after ``unless_after`` is stored or being written.

        Return whether it was stored. Frames are taken one by one, while other work goes on.
        """

    async def load(self, position: Position) -> Sequence[bytes]:
        """Return the frames of the snapshot at a position."""

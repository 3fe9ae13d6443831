"""State snapshots in this process, for tests that run several nodes in it."""

from collections.abc import Iterable, Sequence

from rankd.errors import SnapshotDamaged
from rankd.model.facts import Position
from rankd.ports import COPIES_KEPT


class MemoryStateSnapshots:
    """State snapshots in memory. They end with the process."""

    def __init__(self) -> None:
        self._copies: dict[Position, Sequence[bytes]] = {}

    async def kept(self) -> Sequence[Position]:
        return sorted(self._copies, reverse=True)

    async def keep(
        self, position: Position, frames: Iterable[bytes], *, unless_after: Position
    ) -> bool:
        if position in self._copies or any(one > unless_after for one in self._copies):
            return False
        self._copies[position] = list(frames)
        for old in sorted(self._copies)[:-COPIES_KEPT]:
            del self._copies[old]
        return True

    async def load(self, position: Position) -> Sequence[bytes]:
        if position not in self._copies:
            raise SnapshotDamaged(f"the copy of the book at {position} is gone")
        return self._copies[position]

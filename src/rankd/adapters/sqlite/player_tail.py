"""Tail: the entries of the ledger's end, which is in no run yet, in memory.

Each fact is read once, by the first question after its append; with none, nothing is read.
"""

import apsw

from rankd.adapters.sqlite.block_reader import pages_after
from rankd.adapters.sqlite.player_entries import (
    ENTRY_BYTES,
    SEED_BYTES,
    PlayerHash,
    entries_of,
    find,
    hash_of_player,
)
from rankd.model.facts import Position

TAIL_FACTS_MAX = 131_072
"""Facts at the end that are held: 1.6 MB. Two ranges, because one may be on its way into a run."""

_SEED = bytes(SEED_BYTES)
"""No secret: ids that share a hash in the tail cost a part of a scan, and only for a while."""


class PlayerTail:
    """Entries of the last facts. For one thread."""

    def __init__(self) -> None:
        self.after = Position(0)
        """The facts after this position are held."""
        self._through = Position(0)
        self._entries = bytearray()

    def cover(self, database: apsw.Connection, after: Position, head: Position) -> None:
        """Hold the facts after a position, as far as that is allowed, up to the head."""
        wanted = Position(max(after, head - TAIL_FACTS_MAX))
        if wanted >= self._through or wanted < self.after:
            self.after = self._through = wanted
            self._entries.clear()
        for page in pages_after(database, self._through, head):
            parts = [entries_of(block, _SEED) for block in page]
            self._entries += b"".join(parts)
            self._through = page[-1].last
        self._forget(wanted)

    def _forget(self, through: Position) -> None:
        """Drop the entries that a run covers, once they are half of all."""
        gone = through - self.after
        if gone * 2 < self._through - self.after or not gone:
            return
        places = range(0, len(self._entries), ENTRY_BYTES)
        kept = next((at for at in places if self._position(at) > through), len(self._entries))
        del self._entries[:kept]
        self.after = through

    def _position(self, at: int) -> int:
        return int.from_bytes(self._entries[at + 5 : at + 10], "big")

    def find(self, player: str, board: str | None) -> list[int]:
        """Return the positions of a player's facts, oldest first."""
        wanted: PlayerHash = hash_of_player(_SEED, player, board)
        return find(self._entries, *wanted)

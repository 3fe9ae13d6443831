"""The ports of copies that spare a fold: an index with its state, the state alone, standings."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from typing import Any, NamedTuple, Protocol

from rankd.model.facts import Position
from rankd.model.standing import Rank
from rankd.ports.index import Placed, Ranking
from rankd.ports.operations import Progress


class SealedRow(NamedTuple):
    """An entry in the final standings of a closed window."""

    place: int
    """Ordinal, counted from 1."""
    rank: int
    """The rank shown, by the board's tie rule: equal scores may share it."""
    player: str
    order_key: bytes
    scores: tuple[int, ...]
    metadata: bytes | None


class SealedName(NamedTuple):
    """The identity of a closed window in the archive."""

    board: str
    window: str
    since: Position
    """The position at which it was closed."""


class Archive(Protocol):
    """The final standings of closed windows, stored for SQL queries.

    Readers use them, too, while the index is out of reach. ``since`` is the position at which the
    window was closed: a window that is reopened and closed again has separate rows.

    1. Stored rows of a window never change until the window is dropped.
    2. Rows are stored from the first place on, without gaps.
    3. The cost of a call is bounded by the rows it returns, not by the size of the window.
    """

    async def kept_standings(self, board: str, window: str, *, since: Position) -> int:
        """Return the number of stored rows of a closed window."""

    async def keep_standings(
        self, board: str, window: str, rows: Sequence[SealedRow], *, since: Position
    ) -> None:
        """Store rows. Rows that are stored already stay unchanged."""

    async def finish_standings(
        self, board: str, window: str, total: int, *, since: Position
    ) -> None:
        """Record that all ``total`` rows of a closed window are stored."""

    async def sealed_windows(self) -> Sequence[SealedName]:
        """Return the windows with any stored data."""

    async def drop_standings(self, board: str, window: str, *, since: Position) -> None:
        """Delete a closed window past its retention. Safe to repeat and to interrupt."""

    async def sealed_total(self, board: str, window: str, *, since: Position) -> int | None:
        """Return the size of a closed window; None unless all of its rows are stored."""

    async def sealed_rows(
        self, board: str, window: str, *, since: Position, first: Rank, limit: int
    ) -> Sequence[SealedRow]:
        """Return up to ``limit`` rows from place ``first`` on."""

    async def sealed_players(
        self, board: str, window: str, players: Sequence[str], *, since: Position
    ) -> Mapping[str, SealedRow]:
        """Return the rows of the given players; a player without one is left out."""

    async def sealed_behind(
        self, board: str, window: str, order_key: bytes, player: str, *, since: Position
    ) -> SealedRow | None:
        """Return the first row at or after (``order_key``, ``player``); None if there is none."""


class TopList(NamedTuple):
    """The first entries of a ranking as they were at a position."""

    ranking: Ranking
    entries: Sequence[Placed]
    total: int
    """The size of the whole ranking."""
    as_of: Position

    @property
    def whole(self) -> bool:
        """Whether it has every entry of the ranking."""
        return len(self.entries) >= self.total


class TopListAge(NamedTuple):
    """The age of a stored top list."""

    as_of: Position
    seconds: float
    """Seconds since it was made, by the clock of the store."""


class TopLists(Protocol):
    """The first entries of rankings, stored to be read while the index is out of reach.

    1. There is at most one list per ranking; ``list_of`` returns one stored list, never a mixture.
    2. A list replaces an older one and never a newer one, whichever node stores it.
    """

    async def lists_kept(self) -> Mapping[Ranking, TopListAge]:
        """Return the stored lists' ages by ranking."""

    async def keep_lists(self, lists: Sequence[TopList]) -> None:
        """Store the lists atomically."""

    async def drop_lists(self, rankings: Sequence[Ranking]) -> None:
        """Delete the lists of rankings that are no longer read."""

    async def list_of(self, ranking: Ranking) -> TopList | None:
        """Return the stored list of a ranking; None if there is none."""


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


class RankingArchives(Protocol):
    """Rankings of sealed windows outside memory: their entries are read from archives, in parts.

    1. An archived ranking reads and moves as one in memory does, and its digest is equal.
    2. Archiving runs beside reads and applies, and delays neither by more than 50 ms.
    3. An interrupted call leaves the ranking as it was, in memory or in the archive before.
    4. Damage is detected and never read: WindowArchiveDamaged.
    """

    def in_memory(self) -> Sequence[Ranking]:
        """Return the rankings whose entries are in memory, without drafts."""

    async def archive(
        self,
        ranking: Ranking,
        *,
        reading: AbstractContextManager[Any],
        wanted: Callable[[], bool],
    ) -> bool:
        """Archive a ranking, if it is still ``wanted`` in the end; return whether it was done.

        Not if it changed meanwhile. ``reading`` is held while reads must not run.
        """

    async def renew(
        self, *, reading: AbstractContextManager[Any], all_removed: bool = False
    ) -> None:
        """Write archives with many changes anew; with ``all_removed`` all that lost entries."""

    async def sweep(self) -> None:
        """Remove archives that neither the saved index nor this process needs."""

    @property
    def outdated(self) -> bool:
        """Whether the saved index names archives that this process needs no longer."""

    @property
    def damage(self) -> str | None:
        """Which archive is damaged, and how; None while all that were read are sound."""

    def forget_damage(self) -> None:
        """Forget the damage: the index was made anew."""

    def keep_apart(self) -> None:
        """Use no archives but one's own, in memory: this index is to be compared with another."""


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

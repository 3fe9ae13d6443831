"""The ports of standings that are stored beside the index, in the ledger's own database."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from rankd.model.facts import Position
from rankd.model.standing import Rank
from rankd.ports.entries import Placed, Ranking


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

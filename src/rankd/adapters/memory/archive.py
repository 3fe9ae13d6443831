"""The archive, top lists and state snapshots of several nodes in this process, without a server."""

from bisect import insort
from collections.abc import Iterable, Mapping, Sequence

from rankd.errors import SnapshotDamaged
from rankd.model.facts import Position
from rankd.model.standing import Rank
from rankd.ports import COPIES_KEPT, Ranking, SealedName, SealedRow, TopList, TopListAge

Name = tuple[str, str, Position]
"""A board, a window, and where it was closed."""


class MemoryArchive:
    """An Archive and TopLists. Nothing ages here unless it is told to."""

    def __init__(self) -> None:
        self.sealed: dict[Name, list[SealedRow]] = {}
        """By place."""
        self.totals: dict[Name, int] = {}
        self.lists: dict[Ranking, TopList] = {}
        self.seconds = 0.0
        """How old every list is."""

    # ------------------------------------------------------------------ closed windows

    async def kept_standings(self, board: str, window: str, *, since: Position) -> int:
        return len(self._rows(board, window, since))

    async def keep_standings(
        self, board: str, window: str, rows: Sequence[SealedRow], *, since: Position
    ) -> None:
        kept = self.sealed.setdefault((board, window, since), [])
        known = {row.player for row in kept}
        for row in rows:
            if row.player not in known:
                insort(kept, row)

    async def finish_standings(
        self, board: str, window: str, total: int, *, since: Position
    ) -> None:
        self.totals.setdefault((board, window, since), total)

    async def sealed_windows(self) -> Sequence[SealedName]:
        return [SealedName(*name) for name in sorted({*self.sealed, *self.totals})]

    async def drop_standings(self, board: str, window: str, *, since: Position) -> None:
        for kept in (self.totals, self.sealed):
            kept.pop((board, window, since), None)

    async def sealed_total(self, board: str, window: str, *, since: Position) -> int | None:
        return self.totals.get((board, window, since))

    async def sealed_rows(
        self, board: str, window: str, *, since: Position, first: Rank, limit: int
    ) -> Sequence[SealedRow]:
        return self._rows(board, window, since)[first - 1 : first - 1 + limit]

    async def sealed_players(
        self, board: str, window: str, players: Sequence[str], *, since: Position
    ) -> Mapping[str, SealedRow]:
        wanted = set(players)
        return {row.player: row for row in self._rows(board, window, since) if row.player in wanted}

    async def sealed_behind(
        self, board: str, window: str, order_key: bytes, player: str, *, since: Position
    ) -> SealedRow | None:
        place = (order_key, player.encode())
        for row in self._rows(board, window, since):
            if (row.order_key, row.player.encode()) >= place:
                return row
        return None

    def _rows(self, board: str, window: str, since: Position) -> list[SealedRow]:
        return self.sealed.get((board, window, since), [])

    # ----------------------------------------------------------------------- top lists

    async def lists_kept(self) -> Mapping[Ranking, TopListAge]:
        return {ranking: TopListAge(top.as_of, self.seconds) for ranking, top in self.lists.items()}

    async def keep_lists(self, lists: Sequence[TopList]) -> None:
        for top in lists:
            known = self.lists.get(top.ranking)
            if known is None or known.as_of < top.as_of:
                self.lists[top.ranking] = top

    async def drop_lists(self, rankings: Sequence[Ranking]) -> None:
        for ranking in rankings:
            self.lists.pop(ranking, None)

    async def list_of(self, ranking: Ranking) -> TopList | None:
        return self.lists.get(ranking)


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
            raise SnapshotDamaged(f"the copy of the state at {position} is gone")
        return self._copies[position]

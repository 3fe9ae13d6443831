"""Archive beside the facts: closed windows, complete; top lists; snapshots of the state.

Standings are derived from the facts, and read only while the index is unreachable. A query is one
index lookup, or proportional to its result.

A snapshot of the state, for nodes that start, is written part by part, one statement each, so that
no append waits longer than for one of them. Readers do not see it before its last statement records
the number of parts and their digest.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from rankd.adapters.postgres.database import QUERIES
from rankd.errors import LedgerCorrupt, SnapshotDamaged
from rankd.model.facts import Position
from rankd.model.standing import Rank
from rankd.ports import COPIES_KEPT, Placed, Ranking, SealedName, SealedRow, TopList, TopListAge

STANDINGS_TOGETHER_MAX = 10_000
"""Rows of a sealed window written, or deleted, per statement."""

EVERYBODY = ""
"""Stands for no segment: a column of a primary key cannot be null."""

_players = msgspec.json.Decoder(list[str]).decode
_beside = msgspec.json.Decoder(list[msgspec.Raw]).decode
_NOTHING = b"null"


class PostgresArchive:
    """Archive and TopLists in the ledger's schema. The ledger implements its reads and writes."""

    async def _rows(self, query: str, *given: Any) -> Sequence[Any]:
        raise NotImplementedError

    async def _archive(self, query: str, *given: Any) -> None:
        """Write on the connection of appends: archives are large and rare."""
        raise NotImplementedError

    async def _keep_aside(self, query: str, *given: Any) -> None:
        """Write on the connection of reads, so that no append waits for it."""
        raise NotImplementedError

    # ------------------------------------------------------------------ closed windows

    async def kept_standings(self, board: str, window: str, *, since: Position) -> int:
        ((count,),) = await self._rows(QUERIES["kept_standings"], board, window, since)
        return int(count)

    async def keep_standings(
        self, board: str, window: str, rows: Sequence[SealedRow], *, since: Position
    ) -> None:
        for start in range(0, len(rows), STANDINGS_TOGETHER_MAX):
            some = rows[start : start + STANDINGS_TOGETHER_MAX]
            await self._archive(
                QUERIES["keep_standings"],
                board,
                window,
                since,
                [row.place for row in some],
                [row.rank for row in some],
                [row.player for row in some],
                [row.order_key for row in some],
                [f"{{{','.join(map(str, row.scores))}}}" for row in some],
                [None if row.metadata is None else row.metadata.decode() for row in some],
            )

    async def finish_standings(
        self, board: str, window: str, total: int, *, since: Position
    ) -> None:
        await self._archive(QUERIES["finish_standings"], board, window, since, total)

    async def sealed_windows(self) -> Sequence[SealedName]:
        rows = await self._rows(QUERIES["archived_windows"])
        return [SealedName(board, window, Position(since)) for board, window, since in rows]

    async def drop_standings(self, board: str, window: str, *, since: Position) -> None:
        await self._archive(QUERIES["drop_sealed_window"], board, window, since)
        while await self.kept_some(board, window, since=since):
            given = (board, window, since, STANDINGS_TOGETHER_MAX)
            await self._archive(QUERIES["drop_standings"], *given)

    async def kept_some(self, board: str, window: str, *, since: Position) -> bool:
        """Whether any row of a closed window is stored."""
        return bool(await self._rows(QUERIES["any_standing"], board, window, since))

    async def sealed_total(self, board: str, window: str, *, since: Position) -> int | None:
        rows = await self._rows(QUERIES["sealed_total"], board, window, since)
        return int(rows[0][0]) if rows else None

    async def sealed_rows(
        self, board: str, window: str, *, since: Position, first: Rank, limit: int
    ) -> Sequence[SealedRow]:
        given = (board, window, since, first, first + limit - 1)
        return [_sealed(row) for row in await self._rows(QUERIES["sealed_rows"], *given)]

    async def sealed_players(
        self, board: str, window: str, players: Sequence[str], *, since: Position
    ) -> Mapping[str, SealedRow]:
        known = [player for player in players if "\0" not in player]  # Cannot be stored.
        rows = await self._rows(QUERIES["sealed_players"], board, window, since, known)
        return {row.player: row for row in map(_sealed, rows)}

    async def sealed_behind(
        self, board: str, window: str, order_key: bytes, player: str, *, since: Position
    ) -> SealedRow | None:
        player, _, _ = player.partition("\0")  # Cannot be stored, so no id contains it.
        given = (board, window, since, order_key, player)
        rows = await self._rows(QUERIES["sealed_behind"], *given)
        return _sealed(rows[0]) if rows else None

    # ----------------------------------------------------------------------- top lists

    async def lists_kept(self) -> Mapping[Ranking, TopListAge]:
        return {
            Ranking(board, window, segment or None): TopListAge(Position(position), seconds)
            for board, window, segment, position, seconds in await self._rows(QUERIES["lists_kept"])
        }

    async def keep_lists(self, lists: Sequence[TopList]) -> None:
        if not lists:
            return
        await self._keep_aside(
            QUERIES["keep_lists"],
            *_names([top.ranking for top in lists]),
            [top.as_of for top in lists],
            [top.total for top in lists],
            [msgspec.json.encode([one.player for one in top.entries]).decode() for top in lists],
            [b"".join(one.order_key for one in top.entries) for top in lists],
            [_metadata_of(top.entries) for top in lists],
        )

    async def drop_lists(self, rankings: Sequence[Ranking]) -> None:
        if rankings:
            await self._keep_aside(QUERIES["drop_lists"], *_names(rankings))

    async def list_of(self, ranking: Ranking) -> TopList | None:
        given = (ranking.board, ranking.window, ranking.segment or EVERYBODY)
        if any("\0" in name for name in given):
            return None
        rows = await self._rows(QUERIES["list_of"], *given)
        return _top_list(ranking, rows[0]) if rows else None


def _names(rankings: Sequence[Ranking]) -> tuple[list[str], list[str], list[str]]:
    return (
        [ranking.board for ranking in rankings],
        [ranking.window for ranking in rankings],
        [ranking.segment or EVERYBODY for ranking in rankings],
    )


def _metadata_of(entries: Sequence[Placed]) -> str | None:
    if all(entry.metadata is None for entry in entries):
        return None
    beside = [_NOTHING if entry.metadata is None else entry.metadata for entry in entries]
    return f"[{b','.join(beside).decode()}]"


def _top_list(ranking: Ranking, row: Any) -> TopList:
    position, total, ids, keys, beside = row
    players = _players(ids)
    raw = [_NOTHING] * len(players) if beside is None else [bytes(one) for one in _beside(beside)]
    width, rest = divmod(len(keys), len(players)) if players else (0, len(keys))
    if rest or len(raw) != len(players):
        raise LedgerCorrupt(f"the top list of {ranking} is not one that was kept")
    entries = [
        Placed(player, keys[place * width : (place + 1) * width], _told(raw[place]))
        for place, player in enumerate(players)
    ]
    return TopList(ranking, entries, total, Position(position))


def _told(beside: bytes) -> bytes | None:
    return None if beside == _NOTHING else beside


def _sealed(row: Any) -> SealedRow:
    place, rank, player, order_key, scores, beside = row
    metadata = None if beside is None else beside.encode()
    return SealedRow(place, rank, player, order_key, tuple(scores), metadata)


PARTS_TOGETHER = 8
"""Parts read per query: some megabytes."""

BEGUN_SECONDS_MAX = 600.0
"""Seconds that a node may take for a snapshot before another may begin one."""

Ask = Callable[..., Awaitable[Sequence[Any]]]
"""Run a query with its arguments, and return the rows."""


class PostgresStateSnapshots:
    """State snapshots in the schema of a ledger."""

    def __init__(self, *, node: str, read: Ask, write: Ask) -> None:
        self._node = node
        self._read = read
        self._write = write

    async def kept(self) -> Sequence[Position]:
        return [Position(row[0]) for row in await self._read(QUERIES["kept_books"])]

    async def keep(
        self, position: Position, frames: Iterable[bytes], *, unless_after: Position
    ) -> bool:
        claim = (position, self._node, unless_after, BEGUN_SECONDS_MAX)
        if not await self._write(QUERIES["begin_book"], *claim):
            return False
        parts, digest = 0, sha256()
        for frame in frames:
            if not await self._write(QUERIES["add_book_part"], position, parts, frame):
                return False
            _take_in(digest, frame)
            parts += 1
        if not await self._write(QUERIES["finish_book"], position, parts, digest.digest()):
            return False
        await self._write(QUERIES["drop_books"], position, COPIES_KEPT)
        return True

    async def load(self, position: Position) -> Sequence[bytes]:
        found = await self._read(QUERIES["find_book"], position)
        if not found:
            raise SnapshotDamaged(f"the copy of the state at {position} is gone")
        ((parts, expected),) = found
        frames: list[bytes] = []
        last, digest = -1, sha256()
        while rows := await self._read(QUERIES["read_book"], position, last, PARTS_TOGETHER):
            last = rows[-1][0]
            for _, body in rows:
                frames.append(body)
                _take_in(digest, body)
        if len(frames) != parts or digest.digest() != expected:
            raise SnapshotDamaged(f"the copy of the state at {position} is not what was written")
        return frames


def _take_in(digest: Any, frame: bytes) -> None:
    digest.update(len(frame).to_bytes(8, "big"))
    digest.update(frame)

"""Snapshots of the state in two small tables beside the ledger, for nodes that start.

A snapshot is written part by part, one statement each, so that no append waits longer than for one
of them. Readers do not see it before its last statement records the number of parts and their
digest.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from hashlib import sha256
from typing import Any

from rankd.adapters.postgres.queries import QUERIES
from rankd.errors import SnapshotDamaged
from rankd.model.facts import Position
from rankd.ports import COPIES_KEPT

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

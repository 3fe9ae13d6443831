"""The archiving of a native index: rankings in, archives out, in slices beside everything else.

A ranking is read a slice at a time, on the event loop, and compressed and written on a thread. If
it changes meanwhile, the archive is thrown away: it is tried again. Only when all of it is on the
disk it takes the place of the ranking in memory, at once.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from rankd.adapters.memory.archive_format import BLOCK_ENTRIES, ArchiveWriter
from rankd.adapters.memory.archive_store import ArchiveStore, ArchiveTarget, StoredArchive
from rankd.adapters.memory.archived_ranking import ArchivedRanking, PackedEntries
from rankd.adapters.memory.index import NativeIndex
from rankd.adapters.memory.index_state import Entries, is_draft
from rankd.adapters.memory.snapshot_folder import OneThread
from rankd.ports import Ranking, RankingShape

SLICE_ENTRIES = 16 * BLOCK_ENTRIES
"""Entries of a slice: about a millisecond."""

CHANGES_MAX = 1_000
"""Changed entries of an archived ranking from which on it is archived anew."""

CHANGES_SHARE = 16
"""The same as a share of its entries: one of so many. The greater of the two counts."""

Reading = AbstractContextManager[Any]


class IndexArchives:
    """The RankingArchives of a native index."""

    def __init__(self, index: NativeIndex) -> None:
        self._index = index
        self._alone = asyncio.Lock()

    def in_memory(self) -> Sequence[Ranking]:
        """Return the rankings whose entries are in memory, without drafts."""
        return [ranking for ranking in self._index.state.rankings if not is_draft(ranking)]

    @property
    def damage(self) -> str | None:
        """Which archive is damaged, and how; None while all that were read are sound."""
        return next(iter(self._index.archives.damaged.values()), None)

    def forget_damage(self) -> None:
        """Forget the damage: the index was made anew."""
        self._index.archives.damaged.clear()

    @property
    def outdated(self) -> bool:
        """Whether the saved index names archives that this process needs no longer."""
        return self._index.archives.outdated

    async def sweep(self) -> None:
        """Remove archives that neither the saved index nor this process needs."""
        async with self._alone:
            thread = OneThread("archive")
            try:
                await thread.do(self._index.archives.sweep)
            finally:
                thread.end()

    def keep_apart(self) -> None:
        """Use no archives but one's own, in memory: this index is to be compared with another."""
        assert not self._index.state.archived, "it has archives already"
        self._index.archives = ArchiveStore()

    async def archive(
        self, ranking: Ranking, *, reading: Reading, wanted: Callable[[], bool]
    ) -> bool:
        """Archive a ranking, if it is still ``wanted`` in the end; return whether it was done."""
        index, entries = self._index, self._index.state.rankings.get(ranking)
        if entries is None:
            return False
        changes = entries.ranks.changes

        def unchanged() -> bool:
            return index.state.rankings.get(ranking) is entries and entries.ranks.changes == changes

        columns = partial(self._slice, entries)
        written = await self._write(len(entries.ranks), entries.shape, columns, unchanged)
        if written is None or not unchanged() or not wanted():
            return False
        with reading:
            index.archive(ranking, ArchivedRanking(written))
        await self._free(reading)
        return True

    async def _free(self, reading: Reading) -> None:
        """Free the memory of dropped rankings, step by step."""
        left = True
        while left:
            with reading:
                left = self._index.free_dropped()
            await asyncio.sleep(0)

    def _slice(self, entries: Entries, first: int) -> PackedEntries:
        keys, numbers = entries.ranks.read(first + 1, SLICE_ENTRIES)
        known = entries.metadata
        beside = {at: known[one] for at, one in enumerate(numbers) if one in known} if known else {}
        return PackedEntries(keys, *self._index.state.players.pack_ids(numbers), beside)

    async def renew(self, *, reading: Reading, all_removed: bool = False) -> None:
        """Write archives with many changes anew; with ``all_removed`` all that lost entries."""
        for ranking, archived in list(self._index.state.archived.items()):
            many = archived.changed > max(CHANGES_MAX, len(archived) // CHANGES_SHARE)
            if many or (all_removed and archived.removed):
                await self._renew(ranking, archived, reading)

    async def _renew(self, ranking: Ranking, archived: ArchivedRanking, reading: Reading) -> None:
        index, changes = self._index, archived.changes

        def unchanged() -> bool:
            return index.state.archived.get(ranking) is archived and archived.changes == changes

        columns = partial(archived.columns_at, size=SLICE_ENTRIES)
        written = await self._write(len(archived), archived.shape, columns, unchanged)
        if written is not None and unchanged():
            with reading:
                index.state.archived[ranking] = ArchivedRanking(written)

    async def _write(
        self,
        count: int,
        shape: RankingShape,
        columns: Callable[[int], PackedEntries],
        unchanged: Callable[[], bool],
    ) -> StoredArchive | None:
        """Write an archive; None if the ranking changed meanwhile."""
        async with self._alone:
            store, thread = self._index.archives, OneThread("archive")
            target = store.target()
            try:
                seed = await thread.do(lambda: store.seed)
                writer = ArchiveWriter(
                    count=count, key_bytes=shape.key_bytes, dense=shape.dense, seed=seed
                )
                for first in range(0, count, SLICE_ENTRIES):
                    if not unchanged():
                        return None
                    await thread.do(partial(_add, target, writer, columns(first)))
                return await thread.do(partial(_finish, target, writer))
            finally:
                try:
                    await thread.do(target.end)
                finally:
                    thread.end()


def _add(target: ArchiveTarget, writer: ArchiveWriter, columns: PackedEntries) -> None:
    keys, text, lengths, beside = columns
    target.write(writer.add(keys, (text, lengths), beside))


def _finish(target: ArchiveTarget, writer: ArchiveWriter) -> StoredArchive:
    for part in writer.finish():
        target.write(part)
    return target.finish()

"""The native index keeps the promises of an index: over its list, a stand-in, and archives."""

from typing import Any

import pytest

from rankd.adapters.memory.archive_format import ArchiveWriter
from rankd.adapters.memory.archive_store import StoredArchive
from rankd.adapters.memory.archived_ranking import ArchivedRanking
from rankd.adapters.memory.index import NativeIndex
from rankd.adapters.memory.index_state import Entries
from rankd.ports import RankIndex
from rankd.rank import oracle
from rankd.testing.contracts import RankIndexContract

_: type[RankIndex] = NativeIndex  # mypy sees whether the methods are those of the port.


class ArchivingIndex(NativeIndex):
    """An index that archives every ranking after each apply."""

    def _change(self, *args: Any, draft: bool) -> Any:
        moved = super()._change(*args, draft=draft)
        for ranking, entries in list(self.state.rankings.items()):
            if not entries.draft:
                self.archive(ranking, ArchivedRanking(self.archived(entries)))
        return moved

    def archived(self, entries: Entries) -> StoredArchive:
        """Return an archive with the entries of a ranking."""
        ranks, metadata, target = entries.ranks, entries.metadata, self.archives.target()
        writer = ArchiveWriter(count=len(ranks), key_bytes=ranks.width, dense=ranks.dense, seed=7)
        keys, numbers = ranks.read(1, len(ranks))
        beside = {at: metadata[one] for at, one in enumerate(numbers) if one in metadata}
        target.write(writer.add(keys, self.state.players.pack_ids(numbers), beside))
        for part in writer.finish():
            target.write(part)
        return target.finish()


class TestNativeIndex(RankIndexContract):
    @pytest.fixture
    def index(self) -> NativeIndex:
        return NativeIndex()


class TestOracleIndex(RankIndexContract):
    """Where there was no compiler."""

    @pytest.fixture
    def index(self) -> NativeIndex:
        players: Any = oracle.PlayerTable
        lists: Any = oracle.RankList
        return NativeIndex(make_players=players, make_list=lists)


class TestArchivedIndex(RankIndexContract):
    """All of it, where each apply finds the rankings archived, with or without earlier changes."""

    @pytest.fixture
    def index(self) -> NativeIndex:
        return ArchivingIndex()

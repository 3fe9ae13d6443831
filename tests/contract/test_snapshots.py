"""A folder of snapshots keeps its promises, for the native list and for its stand-in."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from rankd.adapters.memory import snapshot_save
from rankd.adapters.memory.index import NativeIndex
from rankd.adapters.memory.snapshot_folder import SnapshotFolder
from rankd.ports import Snapshots
from rankd.rank import oracle
from rankd.testing.contracts import SnapshotsContract

_: type[Snapshots] = SnapshotFolder  # mypy sees whether the methods are those of the port.


class TestSnapshotFolder(SnapshotsContract):
    make: Mapping[str, Any] = MappingProxyType({})

    @pytest.fixture(autouse=True)
    def small_steps(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(snapshot_save, "STEP_ENTRIES", 7)
        monkeypatch.setattr(snapshot_save, "STEP_TOUCHES", 5)
        monkeypatch.setattr(snapshot_save, "RANKING_ENTRIES", 1)
        monkeypatch.setattr(snapshot_save, "LAST_TOUCHES_MAX", 4)

    @pytest.fixture
    def kept(self, tmp_path: Path) -> Callable[[], tuple[NativeIndex, SnapshotFolder]]:
        def made() -> tuple[NativeIndex, SnapshotFolder]:
            index = NativeIndex(**self.make)
            return index, SnapshotFolder(tmp_path / "snapshots", index)

        return made

    @pytest.fixture
    def files(self, tmp_path: Path) -> Callable[[], list[Path]]:
        return lambda: sorted(path for path in tmp_path.rglob("*") if path.is_file())


class TestOracleSnapshotFolder(TestSnapshotFolder):
    """Where there was no compiler."""

    make: Mapping[str, Any] = MappingProxyType(
        {"make_players": oracle.PlayerTable, "make_list": oracle.RankList}
    )

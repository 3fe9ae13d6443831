"""A small disk really fills, and has room again; where nobody may mount, that is said."""

import errno
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.disks import freezable_disk, small_disk

from rankd.testing import faults


def test_small_disk_fills_and_empties(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", 256 << 10) as disk:
        (disk / "kept").write_bytes(b"kept")
        for _ in range(2):
            faults.fill(disk)
            with pytest.raises(OSError) as refusal, (disk / "tried").open("wb", 0) as tried:
                tried.write(bytes(1))
            assert refusal.value.errno == errno.ENOSPC
            faults.empty(disk)
            (disk / "more").write_bytes(bytes(100 << 10))
        faults.make_read_only(disk)
        with pytest.raises(OSError):
            (disk / "more").unlink()
        faults.make_read_only(disk, read_only=False)
        assert (disk / "kept").read_bytes() == b"kept"
    assert list((tmp_path / "small").iterdir()) == []


def test_writes_wait_while_a_disk_stands_still(tmp_path: Path) -> None:
    with freezable_disk(tmp_path / "hanging", 16 << 20) as disk, ThreadPoolExecutor(1) as thread:
        with faults.standstill(disk):
            written = thread.submit((disk / "late").write_bytes, b"late")
            with pytest.raises(TimeoutError):
                written.result(timeout=0.2)
        assert written.result(timeout=60) == 4


def test_a_process_that_may_not_mount_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(faults.CannotMount), faults.small_disk(tmp_path / "small", 1 << 20):
        pass

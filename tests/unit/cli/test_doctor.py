"""The doctor warns of what is in the way, and only of that."""

import os
import shutil
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

import rankd.bootstrap
import rankd.templates
from rankd.cli.doctor import (
    DISK_BYTES_MIN,
    _clock,
    _disk,
    _files,
    _ledger,
    _ledger_time,
    _native,
)
from rankd.cli.options import ChosenLedger


class Usage(NamedTuple):
    free: int


def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(DISK_BYTES_MIN - 1))
    assert _disk(tmp_path / "not" / "there").advice
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(DISK_BYTES_MIN))
    assert not _disk(tmp_path).advice


def test_a_clock_that_is_behind_its_own_files_is_told(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").touch()
    assert not _clock(tmp_path).advice
    later = time.time() + 1e6
    os.utime(tmp_path / "ledger.db", (later, later))
    assert "future" in _clock(tmp_path).advice


class LaterClock:
    """A clock that is two days ahead."""

    def now(self) -> int:
        return time.time_ns() // 1000 + 2 * 86_400_000_000


def test_doctor_warns_of_a_ledger_that_is_ahead_of_the_clock(tmp_path: Path) -> None:
    here = ChosenLedger(data=str(tmp_path), ledger="sqlite", index="native")
    assert list(_ledger_time(here)) == [] and list(tmp_path.iterdir()) == []
    with rankd.open(tmp_path) as ranks:
        ranks.board("b").submit("p", 1)
    (finding,) = _ledger_time(here)
    assert finding.what == "ledger time" and not finding.advice
    with rankd.open(tmp_path, clock=LaterClock()) as ranks:
        ranks.board("b").submit("p", 2)
    (finding,) = _ledger_time(here)
    assert "+48 h" in finding.found and "rankd clock correct" in finding.advice


class EarlierClock:
    """A clock that is forty days behind."""

    def now(self) -> int:
        return time.time_ns() // 1000 - 40 * 86_400_000_000


def test_doctor_warns_of_a_clock_that_is_far_ahead_of_the_ledger(tmp_path: Path) -> None:
    """A start believes the clock, and ends windows by it: it is looked at before."""
    here = ChosenLedger(data=str(tmp_path), ledger="sqlite", index="native")
    with rankd.open(tmp_path, clock=EarlierClock()) as ranks:
        ranks.board("b").submit("p", 1)
    (finding,) = _ledger_time(here)
    assert "-40 days" in finding.found and "a start believes the clock" in finding.advice


def test_a_folder_that_cannot_be_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryDirectory", refuse)
    (finding,) = _ledger(tmp_path)
    assert "Permission denied" in finding.found
    assert finding.advice


def test_few_open_files_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 1024))
    assert "ulimit" in _files().advice
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)
    assert not _files().advice


@pytest.mark.parametrize("forms", [True, False])
@pytest.mark.parametrize("ranks", [True, False])
def test_each_native_part_that_is_missing_is_told(
    monkeypatch: pytest.MonkeyPatch, ranks: bool, forms: bool
) -> None:
    """A compiler may build one of them and not the other."""
    name = "rankd.rank._ranklist"
    if ranks:
        monkeypatch.setitem(sys.modules, name, rankd.bootstrap)  # Any will do.
    else:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(rankd.templates, "NATIVE", forms)
    found = {finding.what: finding for finding in _native()}
    assert list(found) == ["rank list", "answers"]
    for finding, native in zip(found.values(), (ranks, forms), strict=True):
        assert ("C compiler" in finding.advice) is not native
        assert ("plain Python" in finding.found) is not native

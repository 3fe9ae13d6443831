"""A file appears once it is whole."""

import sys
from pathlib import Path

import pytest

from rankd.cli.export import _insist_on_pyarrow, _target
from rankd.cli.output import CommandFailed


def test_a_file_that_could_not_be_finished_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed), _target(str(tmp_path / "out.csv")) as file:
        file.write(b"half")
        raise CommandFailed("the service went away")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_was_there_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    (tmp_path / "out.csv").write_bytes(b"old")
    with _target(str(tmp_path / "out.csv")) as file:
        file.write(b"new")
        assert (tmp_path / "out.csv").read_bytes() == b"old"
    assert (tmp_path / "out.csv").read_bytes() == b"new"


def test_parquet_without_pyarrow_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(CommandFailed, match=r"pip install pyarrow"):
        _insist_on_pyarrow()

"""Definitions from files and from the command line."""

from pathlib import Path

import pytest

from rankd.cli.board import changed, read_definition
from rankd.cli.output import CommandFailed


def test_fields_of_fields_are_set_and_the_others_stay() -> None:
    before = {"rule": "best", "limits": {"score_min": 0, "score_max": 9}}
    after = changed(before, {"limits.score_max": 10, "windows": "daily"})
    assert after == {
        "rule": "best",
        "limits": {"score_min": 0, "score_max": 10},
        "windows": ["daily"],
    }
    assert before["limits"] == {"score_min": 0, "score_max": 9}


def test_a_direction_and_columns_do_not_contradict_each_other() -> None:
    known = {"direction": "higher", "columns": [{"name": "score", "direction": "higher"}]}
    assert changed(known, {"direction": "lower"}) == {"direction": "lower"}
    assert changed(known, {"columns": []}) == {"columns": []}
    assert changed(known, {"title": "x"}) == {**known, "title": "x"}


def test_a_file_is_json_or_toml(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('rule = "sum"\n[limits]\nscore_max = 5\n')
    (tmp_path / "a.json").write_text('{"rule": "sum", "limits": {"score_max": 5}}')
    expected = {"rule": "sum", "limits": {"score_max": 5}}
    assert read_definition(tmp_path / "a.toml") == expected
    assert read_definition(tmp_path / "a.json") == expected


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("a.toml", b"rule=", "cannot be read"),
        ("a.json", b"{", "cannot be read"),
        ("a.json", b"\xff", "cannot be read"),
        ("a.json", b"[]", "one object"),
        ("a.json", b'{"rule": "sum", "rule": "best"}', "has the field rule twice"),
        (
            "a.json",
            b'{"limits": {"score_max": 1, "score_max": 2}}',
            "has the field score_max twice",
        ),
        ("a.toml", b'rule = "sum"\nrule = "best"\n', "cannot be read"),
        ("a.json", b" " * (1 << 20) + b"{}", "more than"),
    ],
)
def test_a_file_that_defines_nothing_is_told(
    tmp_path: Path, name: str, data: bytes, why: str
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(CommandFailed, match=why):
        read_definition(tmp_path / name)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="No such file"):
        read_definition(tmp_path / "none.json")

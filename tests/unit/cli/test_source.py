"""Rows of files become submissions whose keys say where they came from."""

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankd.cli.failing import Failed
from rankd.cli.source import FORMULA, from_file, guarded, key_of, unguarded


def rows(
    path: Path,
    text: str,
    *,
    columns: Sequence[str] = (),
    board_columns: Sequence[str] = ("score",),
    **more: Any,
) -> list[dict[str, Any]]:
    path.write_text(text, newline="")
    options = {"name": "s", "format": None, "delimiter": ","} | more
    with from_file(path, columns=columns, board_columns=board_columns, **options) as source:
        return list(source.submissions())


def said(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: row[name] for name in row if name != "key"} for row in found]


@given(st.text() | st.text("'=+-@\t\rx"))
def test_a_guarded_cell_is_no_formula_and_comes_back(cell: str) -> None:
    assert not guarded(cell).startswith(FORMULA)
    assert unguarded(guarded(cell)) == cell


def test_a_row_has_the_same_key_each_time_and_no_other_row_has_it(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    first = rows(path, "player,score\nann,1\nann,1\nbob,1\n")
    keys = [row["key"] for row in first]
    assert len(set(keys)) == 3
    assert all(key.startswith("import:") and len(key) <= 128 for key in keys)
    assert rows(path, "player,score\nann,1\nann,1\nbob,1\ncid,4\n")[:3] == first
    changed = rows(path, "player,score\nann,2\nann,1\nbob,1\n")
    assert changed[0]["key"] not in keys
    assert changed[1:] == first[1:]
    assert key_of("s", 1, {"player": "ann"}) != key_of("t", 1, {"player": "ann"})


def test_a_key_of_the_row_itself_is_kept(tmp_path: Path) -> None:
    assert rows(tmp_path / "a.csv", "key,player,score\nk1,ann,1\n")[0]["key"] == "k1"


def test_csv_is_read_as_spreadsheets_write_it(tmp_path: Path) -> None:
    text = (
        '\ufeffname,score,player,metadata\r\nAnn, 10 ,"a,\nb","{""lap"": 1.10}"\r\n\r\n,5,\'=x,\r\n'
    )
    assert said(rows(tmp_path / "a.csv", text)) == [
        {"player": "a,\nb", "score": "10", "metadata": {"lap": Decimal("1.10")}},
        {"player": "=x", "score": "5"},
    ]


def test_the_columns_of_a_board_are_taken_by_their_names(tmp_path: Path) -> None:
    text = "rank,player,score,time,metadata\n1,ann,7,90,\n"
    found = rows(tmp_path / "a.csv", text, board_columns=("kills", "time"))
    assert said(found) == [{"player": "ann", "score": "7", "columns": {"time": "90"}}]
    text = "player,kills,time,score\nann,7,90,7\n"
    found = rows(tmp_path / "a.csv", text, board_columns=("kills", "time"))
    assert said(found) == [{"player": "ann", "columns": {"kills": "7", "time": "90"}}]


def test_json_lines_keep_what_a_submission_may_say(tmp_path: Path) -> None:
    text = (
        '{"rank": 1, "player": "ann", "score": 1.50, "name": "Ann", "metadata": null}\n\n'
        '{"player": "bob", "score": 7, "columns": {"kills": 7, "time": 90}}\n'
    )
    assert said(rows(tmp_path / "a.jsonl", text)) == [
        {"player": "ann", "score": Decimal("1.50")},
        {"player": "bob", "columns": {"kills": 7, "time": 90}},
    ]


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("a.csv", "user,points\nann,1\n", "player and score are needed"),
        ("a.csv", "", "player and score are needed"),
        ("a.csv", 'player,score\n"ann,1\n', "is not CSV"),
        ("a.csv", "player,score,metadata\nann,1,{\n", "is not JSON"),
        ("a.jsonl", "[1]\n", "one object"),
        ("a.jsonl", "{\n", "is not JSON"),
        ("a.xml", "<x/>", "--format"),
    ],
)
def test_what_cannot_be_read_is_told(tmp_path: Path, name: str, text: str, why: str) -> None:
    with pytest.raises(Failed, match=why):
        rows(tmp_path / name, text)


def test_a_file_that_is_not_utf_8_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"player,score\n\xff,1\n")
    options: dict[str, Any] = {"name": None, "format": None, "delimiter": ",", "columns": []}
    with (
        from_file(path, board_columns=["score"], **options) as source,
        pytest.raises(Failed, match="UTF-8"),
    ):
        list(source.submissions())

"""Rows of files become submissions whose keys say where they came from."""

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankd.cli.import_source import (
    FORMULA,
    LINE_BYTES_MAX,
    BadRow,
    BoardColumns,
    ImportRow,
    Occurrences,
    from_file,
    guarded,
    unguarded,
)
from rankd.cli.output import CommandFailed


def rows(
    path: Path,
    text: str,
    *,
    columns: Sequence[str] = (),
    board_columns: Sequence[str] = ("score",),
    segments: Sequence[str] = (),
    since: int = 0,
    **more: Any,
) -> list[dict[str, Any]]:
    path.write_text(text, newline="")
    options = {"name": "s", "format": None, "delimiter": ","} | more
    shape = BoardColumns(tuple(board_columns), tuple(segments))
    with from_file(path, columns=columns, shape=shape, **options) as source:
        found = source.submissions(since)
        return [cast("Any", one.row if isinstance(one, ImportRow) else one) for one in found]


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
    assert changed[1:] == [first[0], first[2]]
    assert not {row["key"] for row in rows(path, "player,score\nann,1\n", name="t")} & {*keys}


def test_a_key_is_of_content_and_occurrence_wherever_a_row_stands(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    before = rows(path, "player,score\nann,1\nbob,x\nann,1\ncyd,3\n")
    after = rows(path, "player,score\ncyd,3\n\nann,1\nnew,9\nbob,2\nann,1\n")
    unchanged = [row for row in before if row["score"] != "x"]
    assert sorted(row["key"] for row in unchanged) == sorted(
        row["key"] for row in after if row["player"] in {"ann", "cyd"}
    )
    assert len({row["key"] for row in after}) == 5


def test_the_keys_of_a_board_defined_anew_are_others(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    first, second = (rows(path, '{"player": "ann", "score": 1}\n', since=at) for at in (1, 7))
    assert first[0]["key"] != second[0]["key"]


@pytest.mark.parametrize(
    ("name", "text", "more", "why"),
    [
        ("a.csv", "player,score,score\nann,1,2\n", {}, "line 1 names the column score twice"),
        ("a.csv", "ann,1\n", {"columns": ["player", "player", "score"]}, "--columns names"),
        ("a.csv", "player,score,region,region\n", {"segments": ["region"]}, "region twice"),
    ],
)
def test_a_column_that_is_named_twice_is_refused(
    tmp_path: Path, name: str, text: str, more: dict[str, Any], why: str
) -> None:
    with pytest.raises(CommandFailed, match=why):
        rows(tmp_path / name, text, **more)


def test_a_column_that_is_left_out_may_be_named_twice(tmp_path: Path) -> None:
    assert said(rows(tmp_path / "a.csv", "player,,,score,note,note\nann,,,1,a,b\n")) == [
        {"player": "ann", "score": "1"}
    ]


def test_contents_are_counted_each_for_itself() -> None:
    with Occurrences() as occurrences:
        counted = [occurrences.count(content) for content in (b"a", b"b", b"a", b"a", b"b")]
    assert counted == [1, 1, 2, 3, 2]


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

    line = '{"player": "ann", "kills": 7, "time": 90, "score": 7}\n'
    found = rows(tmp_path / "a.jsonl", line, board_columns=("kills", "time"))
    assert said(found) == [{"player": "ann", "columns": {"kills": 7, "time": 90}}]
    line = '{"player": "ann", "score": 7, "time": 90}\n'
    found = rows(tmp_path / "a.jsonl", line, board_columns=("kills", "time"))
    assert said(found) == [{"player": "ann", "score": 7, "columns": {"time": 90}}]


def test_json_lines_keep_what_a_submission_may_say(tmp_path: Path) -> None:
    text = (
        '{"rank": 1, "player": "ann", "score": 1.50, "name": "Ann", "metadata": null}\n\n'
        '{"player": "bob", "score": 7, "columns": {"kills": 7, "time": 90}}\n'
    )
    assert said(rows(tmp_path / "a.jsonl", text, board_columns=("kills", "time"))) == [
        {"player": "ann", "score": Decimal("1.50")},
        {"player": "bob", "columns": {"kills": 7, "time": 90}},
    ]


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("a.csv", "user,points\nann,1\n", "player and score are needed"),
        ("a.csv", "", "player and score are needed"),
        ("a.csv", '"player,score\nann,1\n', "line 1 is not CSV"),
        ("a.xml", "<x/>", "--format"),
        ("a.parquet", "PAR1", "Parquet is not taken, CSV and JSON lines are"),
    ],
)
def test_what_cannot_be_read_is_told(tmp_path: Path, name: str, text: str, why: str) -> None:
    with pytest.raises(CommandFailed, match=why):
        rows(tmp_path / name, text)


LONG = '{"player": "%s"}' % ("x" * (2 * LINE_BYTES_MAX))


@pytest.mark.parametrize(
    ("name", "text", "line", "why"),
    [
        ("a.csv", b"player,score,metadata\nann,1,\nbob,1,{\ncyd,1,\n", 3, "is not JSON"),
        ("a.csv", b'player,score\n"a\nnn",1\n\xff,1\ncyd,1\n', 4, "is not UTF-8"),
        ("a.jsonl", b'{"player": "ann"}\n\n[1]\n{"player": "cyd"}\n', 3, "one object"),
        ("a.jsonl", b'{"player": "ann"}\n{"player": \n{"player": "cyd"}\n', 2, "is not JSON"),
        ("a.jsonl", b'{"a": 1}\n{"player": "bob", "score": NaN}\n{"a": 1}\n', 2, "is not JSON"),
        (
            "a.jsonl",
            b'{"a": 1}\n{"player": "bob", "score": 1, "score": 2}\n{"a": 1}\n',
            2,
            "has the field score twice",
        ),
        (
            "a.jsonl",
            b'{"a": 1}\n{"metadata": {"lap": 1, "lap": 2}}\n{"a": 1}\n',
            2,
            "has the field lap twice",
        ),
        (
            "a.csv",
            b'player,score,metadata\nann,1,\nbob,1,"{""lap"": 1, ""lap"": 2}"\ncyd,1,\n',
            3,
            "has the field lap twice",
        ),
        (
            "a.csv",
            b"player,score\nann,1\nbob,1,234\ncyd,1,\n",
            3,
            "has 3 cells, and there are 2 columns",
        ),
        ("a.jsonl", b'{"player": "ann"}\n"\xff"\n{"player": "cyd"}', 2, "is not UTF-8"),
        ("a.jsonl", f'{{"a": 1}}\n{LONG}\n{{"a": 1}}\n'.encode(), 2, "is longer than"),
        ("a.jsonl", b'{"a": 1}\n' + b"[" * 100_000 + b'\n{"a": 1}\n', 2, "is not JSON"),
        ("a.jsonl", b'{"a": 1}\n{"a": ' + b"9" * 5000 + b'}\n{"a": 1}\n', 2, "is not JSON"),
    ],
)
def test_a_line_that_cannot_be_read_is_named_and_those_around_it_are_read(
    tmp_path: Path, name: str, text: bytes, line: int, why: str
) -> None:
    path = tmp_path / name
    path.write_bytes(text)
    options: dict[str, Any] = {"name": None, "format": None, "delimiter": ",", "columns": []}
    with from_file(path, shape=BoardColumns(("score",), ()), **options) as source:
        first, broken, last = source.submissions()
    assert isinstance(broken, BadRow) and broken.line == line
    assert why in broken.problem
    assert isinstance(first, ImportRow) and isinstance(last, ImportRow)


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [
        ("a.csv", 'player,score\n\nann,1\n"b\nob",2\r\ncyd,3\n', [3, 4, 6]),
        ("a.jsonl", '{"player": "ann"}\n\n\n{"player": "bob"}\r\n{"player": "cyd"}', [1, 4, 5]),
    ],
)
def test_a_row_knows_its_line_as_an_editor_shows_it(
    tmp_path: Path, name: str, text: str, lines: list[int]
) -> None:
    path = tmp_path / name
    path.write_text(text, newline="")
    options: dict[str, Any] = {"name": None, "format": None, "delimiter": ",", "columns": []}
    with from_file(path, shape=BoardColumns(("score",), ()), **options) as source:
        assert [found.line for found in source.submissions()] == lines


def test_where_csv_ends_in_the_middle_of_a_cell_the_rows_before_are_read(tmp_path: Path) -> None:
    first, broken = rows(tmp_path / "a.csv", 'player,score\nann,1\n"bob,1\ncyd,1\n')
    assert first["player"] == "ann"
    assert isinstance(broken, BadRow) and (broken.line, "not read" in broken.problem) == (3, True)


def test_the_boards_attributes_are_columns_too(tmp_path: Path) -> None:
    """Otherwise a segment would stay empty, and nobody would say so."""
    text = 'player,score,region,attributes\nann,1,eu,\nbob,2,,"{""region"":""us"",""level"":3}"\n'
    found = rows(tmp_path / "a.csv", text, segments=("region",))
    assert [row.get("attributes") for row in found] == [
        {"region": "eu"},
        {"region": "us", "level": 3},
    ]
    lines = (
        '{"player":"a","score":1,"region":"eu"}\n{"player":"b","score":1,"attributes":{"x":1}}\n'
    )
    found = rows(tmp_path / "a.jsonl", lines, segments=("region",))
    assert [row.get("attributes") for row in found] == [{"region": "eu"}, {"x": 1}]
    assert "attributes" not in rows(tmp_path / "a.jsonl", lines)[0]


def test_columns_that_nobody_asks_for_are_named(tmp_path: Path) -> None:
    told: list[Sequence[str]] = []
    rows(tmp_path / "a.csv", "player,score,region,colour\na,1,eu,red\n", left_out=told.append)
    assert told == [["region", "colour"]]


def test_fields_that_nobody_asks_for_are_named_once_for_all_lines(tmp_path: Path) -> None:
    lines = (
        '{"player":"a","score":10,"kye":"k1","region":"eu","rank_change":null}\n'
        '{"player":"b","score":11,"kye":"k2"}\n{\n{"player":"c","score":12,"colour":"red"}\n'
    )
    told: list[Sequence[str]] = []
    rows(tmp_path / "a.jsonl", lines, segments=("region",), left_out=told.append)
    assert told == [["kye", "colour"]]
    rows(tmp_path / "a.jsonl", '{"player":"a","score":1}\n', left_out=told.append)
    assert len(told) == 1


def test_a_lone_column_is_taken_by_its_name_too(tmp_path: Path) -> None:
    expected = [{"player": "ann", "columns": {"laps": "7"}}]
    found = rows(tmp_path / "a.csv", "player,laps\nann,7\n", board_columns=("laps",))
    assert said(found) == expected
    line = '{"player": "ann", "laps": "7"}\n'
    assert said(rows(tmp_path / "a.jsonl", line, board_columns=("laps",))) == expected


def test_a_header_of_other_names_is_left_out_where_that_is_said(tmp_path: Path) -> None:
    text, names = "name,points\nann,1\n", ("player", "score")
    with pytest.raises(CommandFailed, match="--skip-header"):
        rows(tmp_path / "a.csv", text)
    found = rows(tmp_path / "a.csv", text, columns=names, skip_header=True)
    assert said(found) == [{"player": "ann", "score": "1"}]

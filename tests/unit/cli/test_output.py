"""What people see is what it says, whoever chose the words."""

from decimal import Decimal
from io import StringIO

import pytest

from rankd.cli.output import add, print_tables, score, standings_table, table, written
from rankd.schemas import Row


def printed(rows: list[Row], capsys: pytest.CaptureFixture[str]) -> str:
    print_tables(standings_table(rows))
    return capsys.readouterr().out


def test_names_are_shown_whole_and_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 256
    rows = [
        Row(1, "[red]a[/red]", "\x1b[31mred\x07", Decimal("1234.50"), None, None),
        Row(2, long, ":smile:", -1234567, None, None),
    ]
    out = printed(rows, capsys)
    assert "[red]a[/red]" in out
    assert "\x1b" not in out
    assert "\x07" not in out
    assert long in out
    assert ":smile:" in out
    assert "1,234.50" in out
    assert "-1,234,567" in out


def test_every_column_is_shown_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    row = Row(1, "a", None, 7, None, None, columns={"kills": 7, "time": 90})
    head, line = printed([row], capsys).splitlines()
    assert head.split() == ["rank", "player", "kills", "time"]
    assert line.split() == ["1", "a", "7", "90"]


@pytest.mark.parametrize("width", [40, 60])
def test_a_narrow_terminal_breaks_lines_and_cuts_nothing_off(width: int) -> None:
    from rich.console import Console

    out = StringIO()
    made = table("window", "from", "players", right=["players"], whole=["window"])
    add(made, "daily:2026-11-17", "2026-11-17T00:00:00Z and some more words", 1_000_000)
    Console(file=out, width=width, force_terminal=False).print(made)
    lines = out.getvalue().splitlines()
    assert all(len(line) <= width for line in lines)
    assert lines[1].startswith("daily:2026-11-17 ")
    assert "1,000,000" in lines[1]
    middle = "".join(line[18 : width - 11].strip() for line in lines[1:])
    assert middle.replace(" ", "") == "2026-11-17T00:00:00Zandsomemorewords"


def test_no_line_ends_in_blanks_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    made = table("", "")
    add(made, "title", "x")
    add(made, "columns", "y" * 250)
    print_tables(made, "")
    assert capsys.readouterr().out == f"title    x\ncolumns  {'y' * 250}\n\n"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, ""),
        ("best", "best"),
        ("The “cup”", "The “cup”"),
        (False, "false"),
        (3, "3"),
        (Decimal("0.10"), "0.10"),
        (["all", "daily"], "all, daily"),
        ({"score_min": 0, "score_max": None}, "score_min=0 score_max="),
        (
            [{"name": "wins", "direction": "higher"}, {"name": "minutes"}],
            "name=wins direction=higher, name=minutes",
        ),
    ],
)
def test_what_a_board_is_defined_with_is_written_without_quotes(value: object, shown: str) -> None:
    assert written(value) == shown


def test_an_empty_ranking_is_only_a_head(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed([], capsys).split() == ["rank", "player", "score"]


def test_a_score_keeps_its_digits() -> None:
    assert score(Decimal("0.10")) == "0.10"
    assert score(2**63 - 1) == "9,223,372,036,854,775,807"

"""Output: tables on a terminal, plain columns elsewhere, JSON for programs."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from rankd.cli.errors import plain
from rankd.errors import count

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from rankd import schemas

PIPED_WIDTH = 2000
"""Columns without a terminal: enough that no name is cut off."""


def print_json(shape: object) -> None:
    """Print a schema of the API as JSON."""
    from rankd import schemas

    click.echo(schemas.encode(shape).decode())


def console() -> "Console":
    """Return the console for tables: coloured only on a terminal, and not with NO_COLOR."""
    from rich.console import Console

    made = Console(markup=False, highlight=False, emoji=False)
    return (
        made
        if made.is_terminal
        else Console(markup=False, highlight=False, emoji=False, width=PIPED_WIDTH)
    )


def print_tables(*tables: "Table | str") -> None:
    """Print tables and lines. Without a terminal, trailing blanks are removed."""
    to = console()
    if to.is_terminal:
        to.print(*tables)
        return
    with to.capture() as captured:
        to.print(*tables)
    text = "\n".join(map(str.rstrip, captured.get().split("\n")))
    click.echo(text, nl=not text.endswith("\n"))  # An empty table has no newline.


def table(*names: str, right: Iterable[str] = (), whole: Iterable[str] = ()) -> "Table":
    """Return an empty table; columns named in ``right`` hold numbers.

    On a narrow terminal, long cells continue on the next line, except numbers and columns named in
    ``whole``, so that a value a user may want to copy is never broken.
    """
    from rich.table import Table

    made = Table(
        box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", show_header=any(names)
    )
    numbers, unbroken = set(right), {*right, *whole}
    for name in names:
        made.add_column(
            name,
            justify="right" if name in numbers else "left",
            no_wrap=name in unbroken,
            overflow="fold",
        )
    return made


def add(to: "Table", *cells: object, style: str | None = None) -> None:
    """Add a row. Cells are shown as plain text, because players choose some of them."""
    from rich.text import Text

    texts = [cell if isinstance(cell, Text) else Text(shown(cell)) for cell in cells]
    to.add_row(*texts, style=style)


def mark(text: str) -> "Text":
    """Return a mark of movement: green up, red down."""
    from rich.text import Text

    return Text(text, style={"▲": "green", "▼": "red"}.get(text[:1], "cyan"))


def shown(cell: object) -> str:
    """Return a cell's text for people."""
    if cell is None:
        return ""
    return f"{cell:,}" if isinstance(cell, int) else plain(str(cell))


def written(value: object) -> str:
    """Return a value of a definition for people: without quotes and brackets."""
    match value:
        case None:
            return ""
        case str():
            return value
        case dict():
            return " ".join(f"{name}={written(inner)}" for name, inner in value.items())
        case list() | tuple():
            return ", ".join(map(written, value))
        case bool():
            return "true" if value else "false"
    return str(value)


def score(value: object) -> str:
    """Return a score digit for digit."""
    return "" if value is None else f"{value:,}"


def scores(of: "schemas.Standing | schemas.Receipt") -> str:
    """Return a player's score in every column, with the columns' names."""
    columns = of.columns if isinstance(of.columns, Mapping) else {"score": of.score}
    return ", ".join(f"{plain(name)} {score(value)}" for name, value in columns.items())


def columns_of(rows: Sequence["schemas.Row"]) -> list[str]:
    """Return the names of all columns; ["score"] for rows of a board with one."""
    first = rows[0].columns if rows else None
    return list(first) if isinstance(first, dict) else ["score"]


def standings_table(
    rows: Sequence["schemas.Row"], *, marks: Sequence[str] | None = None, me: str | None = None
) -> "Table":
    """Return standings as a table, optionally with marks and with one player's row in bold."""
    first, *more = columns_of(rows)
    names = any(row.name for row in rows)
    heads = ["rank", *([""] if marks else []), "player", *(["name"] if names else [])]
    made = table(*heads, first, *more, right=("rank", first, *more))
    for number, row in enumerate(rows):
        columns: Any = row.columns if more else {}
        add(
            made,
            row.rank,
            *([mark(marks[number])] if marks else []),
            row.player,
            *([row.name] if names else []),
            score(row.score),
            *(score(columns[name]) for name in more),
            style="bold" if row.player == me else None,
        )
    return made


def heading(page: "schemas.Page") -> str:
    """Return a line with the ranking's name and position."""
    among = f" · {plain(page.segment)}" if page.segment else ""
    where = f"{plain(page.board)} · {plain(page.window)}{among}"
    if page.opens_at:
        return f"{where} · opens at {page.opens_at}"
    return f"{where} · {count(page.total, 'player')} · as of {page.as_of:,}{stale(page.stale)}"


def stale(flag: bool) -> str:
    """Return the suffix for a response that may miss newer scores."""
    return " · perhaps stale" if flag else ""

"""What people see: tables in a terminal, plain columns elsewhere, JSON for programs."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from rankd.cli.failing import plain
from rankd.errors import count

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from rankd import wire

PIPED_WIDTH = 2000
"""Columns where there is no terminal: enough that no name is cut off."""


def print_json(shape: object) -> None:
    """Print a shape of the wire."""
    from rankd import wire

    click.echo(wire.encode(shape).decode())


def console() -> "Console":
    """Return where tables go: coloured only on a terminal, and not with NO_COLOR."""
    from rich.console import Console

    made = Console(markup=False, highlight=False, emoji=False)
    return (
        made
        if made.is_terminal
        else Console(markup=False, highlight=False, emoji=False, width=PIPED_WIDTH)
    )


def print_tables(*tables: "Table | str") -> None:
    """Print tables and lines. Where there is no terminal, no line ends in blanks."""
    to = console()
    if to.is_terminal:
        to.print(*tables)
        return
    with to.capture() as captured:
        to.print(*tables)
    text = "\n".join(map(str.rstrip, captured.get().split("\n")))
    click.echo(text, nl=not text.endswith("\n"))  # A table without rows ends in no newline.


def table(*names: str, right: Iterable[str] = (), whole: Iterable[str] = ()) -> "Table":
    """Return an empty table; columns named in ``right`` hold numbers.

    On a narrow terminal, what does not fit goes on in the next line, but for numbers and for
    columns named in ``whole``: nothing that somebody may want to type is cut off.
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
    """Add a row. What strangers chose is shown as text, whatever it says."""
    from rich.text import Text

    texts = [cell if isinstance(cell, Text) else Text(shown(cell)) for cell in cells]
    to.add_row(*texts, style=style)


def mark(text: str) -> "Text":
    """Return a mark of movement: green up, red down."""
    from rich.text import Text

    return Text(text, style={"▲": "green", "▼": "red"}.get(text[:1], "cyan"))


def shown(cell: object) -> str:
    """Return a cell as people write it."""
    if cell is None:
        return ""
    return f"{cell:,}" if isinstance(cell, int) else plain(str(cell))


def written(value: object) -> str:
    """Return what a board is defined with as people write it: without quotes and brackets."""
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


def scores(of: "wire.Standing | wire.Receipt") -> str:
    """Return what a player has in every column, by their names."""
    columns = of.columns if isinstance(of.columns, Mapping) else {"score": of.score}
    return ", ".join(f"{plain(name)} {score(value)}" for name, value in columns.items())


def columns_of(rows: Sequence["wire.Row"]) -> list[str]:
    """Return what the columns are called, all of them; only the rows of boards with several say."""
    first = rows[0].columns if rows else None
    return list(first) if isinstance(first, dict) else ["score"]


def standings_table(
    rows: Sequence["wire.Row"], *, marks: Sequence[str] | None = None, me: str | None = None
) -> "Table":
    """Return standings as a table, with a mark before each and one player's row lit, if asked."""
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


def heading(page: "wire.Page") -> str:
    """Say which ranking it is, and as of when."""
    among = f" · {plain(page.segment)}" if page.segment else ""
    where = f"{plain(page.board)} · {plain(page.window)}{among}"
    if page.opens_at:
        return f"{where} · opens at {page.opens_at}"
    return f"{where} · {count(page.total, 'player')} · as of {page.as_of:,}{stale(page.stale)}"


def stale(flag: bool) -> str:
    """Say, behind an answer, if there may be newer scores than it knows of."""
    return " · perhaps stale" if flag else ""

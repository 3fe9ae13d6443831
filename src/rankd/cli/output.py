"""Output: tables on a terminal, plain columns elsewhere, JSON for programs, and errors.

An error or a warning is one line on stderr with advice. Exit codes: 0 is success, 1 refused or
failed, 2 wrong usage.
"""

import errno
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TextIO

import click

from rankd.errors import InvalidSetting, RankdError, count

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from rankd import schemas

NEW_ENOUGH = "run a rankd at least as new as the one that wrote the ledger; nothing was changed"

HINTS = {
    "unreachable": "is `rankd serve` running there? Name it with --url, or a folder with --data",
    "unauthenticated": "give a key with RANKD_KEY; `rankd keys create` makes one, with an admin's "
    "key, or with --data FOLDER while the service is stopped",
    "forbidden": "use a key that has this scope, and this board; an admin's key sees all of them "
    "with `rankd keys list`",
    "unknown_board": "`rankd board list` shows which there are, `rankd board apply` defines one",
    "drops_scores": "`rankd board apply` does it with --drop-scores",
    "unknown_window": "`rankd board windows` lists its windows",
    "unknown_player": "`rankd player find` lists players by the beginning of a name or an id",
    "unknown_key": "`rankd keys list` shows the ids",
    "ledger_in_use": "stop it first, or work on a backup, which `rankd backup` makes meanwhile; "
    "what reads and submits can speak to its service with --url instead",
    "ledger_corrupt": "stop, keep a copy of the ledger as it is, and restore the last backup",
    "unknown_fact": NEW_ENOUGH,
    "ledger_too_new": NEW_ENOUGH,
    "index_differs": "`rankd rebuild` folds it anew from the ledger",
    "snapshot_damaged": "`rankd rebuild` folds the index anew",
    "key_reused": "use another submission key",
}
"""Advice by error code."""


def plain(text: str) -> str:
    """Return text in one line, without control characters for the terminal."""
    return "".join(sign if sign.isprintable() else " " for sign in text)


class CommandFailed(click.ClickException):
    """The command could not be carried out."""

    def show(self, file: TextIO | None = None) -> None:  # type: ignore[override]
        """Print the error in one line."""
        click.echo(f"rankd: {plain(self.format_message())}", file=file, err=file is None)


def insist_on_yes(question: str, *, option: str = "--yes") -> None:
    """Ask for confirmation. Without a terminal, fail and name the option that confirms."""
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        click.echo(err=True)  # Ends the line of the question.
        problem = f"nothing was changed: there is no terminal to answer on; {option} agrees"
        raise CommandFailed(problem) from None
    if not agreed:
        raise click.Abort


def failure(error: RankdError) -> click.ClickException:
    """Return the exception that shows an error to the user."""
    if isinstance(error, InvalidSetting) and error.source == "the command line":
        option = "--" + error.setting.replace("_", "-")
        return click.UsageError(f"{option} {error.problem}")
    code = getattr(error, "code", "")
    hint = HINTS.get(code)
    said = [str(error) or code, *getattr(error, "__notes__", ())]
    if hint is not None and hint not in said[0]:
        said.append(hint)
    return CommandFailed("; ".join(said))


def _warn(message: Warning | str, *_where: Any, **_more: Any) -> None:
    """Print a warning without its source line, which is of no use here."""
    click.echo(f"warning: {plain(str(message))}", err=True)


class FailingGroup(click.Group):
    """A group whose commands fail as this module defines."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; turn errors and warnings into lines."""
        with warnings.catch_warnings():
            warnings.showwarning = _warn
            return self._invoke(ctx)

    def _invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except RankdError as exc:
            raise failure(exc) from exc
        except OSError as exc:
            if exc.errno == errno.EPIPE:  # The reader of the pipe has closed it.
                raise
            where = f"{exc.filename}: " if exc.filename else ""
            advice = "; choose another with --port" if exc.errno == errno.EADDRINUSE else ""
            raise CommandFailed(f"{where}{exc.strerror or exc}{advice}") from exc


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
    told = ", ".join(f"{plain(name)} {score(value)}" for name, value in columns.items())
    raw = recorded(of)
    return told if raw is None else f"{told} of {score(raw)} recorded"


def columns_of(rows: Sequence["schemas.Row"]) -> list[str]:
    """Return the names of all columns; ["score"] for rows of a board with one."""
    first = rows[0].columns if rows else None
    return list(first) if isinstance(first, dict) else ["score"]


ANONYMOUS = "(anonymous)"
"""In place of the id of a player that is hidden to the reader."""


def recorded(of: "schemas.Standing | schemas.Receipt | schemas.Row") -> int | Decimal | None:
    """Return a score as it was recorded, on boards with decay; else None."""
    return of.raw_score if isinstance(of.raw_score, int | Decimal) else None


RAW = "recorded"
"""The heading of scores as they were recorded, on boards with decay."""


def standings_table(
    rows: Sequence["schemas.Row"], *, marks: Sequence[str] | None = None, me: str | None = None
) -> "Table":
    """Return standings as a table, optionally with marks and with one player's row in bold."""
    first, *more = columns_of(rows)
    names = any(row.name for row in rows)
    raw = [RAW] if any(recorded(row) is not None for row in rows) else []
    heads = ["rank", *([""] if marks else []), "player", *(["name"] if names else [])]
    made = table(*heads, first, *more, *raw, right=("rank", first, *more, *raw))
    for number, row in enumerate(rows):
        columns: Any = row.columns if more else {}
        add(
            made,
            row.rank,
            *([mark(marks[number])] if marks else []),
            row.player or ANONYMOUS,
            *([row.name] if names else []),
            score(row.score),
            *(score(columns[name]) for name in more),
            *(score(recorded(row)) for _ in raw),
            style="bold" if row.player is not None and row.player == me else None,
        )
    return made


def heading(page: "schemas.Page") -> str:
    """Return a line with the ranking's name and position."""
    among = f" · {plain(page.segment)}" if page.segment else ""
    where = f"{plain(page.board)} · {plain(page.window)}{among}"
    if page.opens_at:
        return f"{where} · opens at {page.opens_at}"
    players = count(page.total, "player")
    if isinstance(page.count, int):
        players = f"{page.count:,} of {players}"
    return f"{where} · {players} · as of {page.as_of:,}{stale(page.stale)}"


def stale(flag: bool) -> str:
    """Return the suffix for a response that may miss newer scores."""
    return " · perhaps stale" if flag else ""

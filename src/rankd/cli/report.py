"""Reports on an archive: as a table, JSON, a page, or Parquet."""

from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rankd.cli.archive import insist_on_pyarrow
from rankd.cli.output import CommandFailed, add, plain, print_json, print_tables, shown, table
from rankd.errors import count

if TYPE_CHECKING:
    import pyarrow as pa

NAMES = ("activity", "retention", "distribution", "movement", "windows", "suspects")

ARCHIVE_DEFAULT = "rankd-archive"

TABLE_ROWS_MAX = 200
"""Rows that a terminal is shown; the other formats have all of them."""


@click.command()
@click.argument("name", type=click.Choice(NAMES))
@click.option(
    "--archive",
    default=ARCHIVE_DEFAULT,
    show_default=True,
    metavar="FOLDER|s3://…",
    help="The archive, as `rankd archive --to` wrote it.",
)
@click.option(
    "--engine",
    type=click.Choice(["duckdb", "spark"]),
    default="duckdb",
    show_default=True,
    help="Both give the same rows; Spark is for more than one machine holds.",
)
@click.option("--board", help="Of one board; of all without.")
@click.option(
    "--from", "since", type=click.DateTime(["%Y-%m-%d"]), help="From this day on, in UTC."
)
@click.option("--to", "until", type=click.DateTime(["%Y-%m-%d"]), help="Until this day, included.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["table", "json", "html", "parquet"]),
    default="table",
    show_default=True,
    help="A table is printed; html is one file with its pictures.",
)
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="The file.")
def report(
    name: str,
    archive: str,
    engine: str,
    board: str | None,
    since: datetime | None,
    until: datetime | None,
    format_: str,
    output: Path | None,
) -> None:
    """Answer a question about the past from an archive.

    activity: how much is played, and how many players are new. retention: how many came back.
    distribution: the scores that players have. movement: the players that rose and fell most.
    windows: the ends of closed windows. suspects: players whose submissions deserve a look.
    """
    insist_on_pyarrow()
    if format_ == "parquet" and output is None:
        raise click.UsageError("parquet needs a file: name it with --output")
    from rankd.analytics.query_engines import Range
    from rankd.analytics.reports import report as rows_of

    span = Range(board)
    if since is not None:
        span = span._replace(since=since.date())
    if until is not None:
        span = span._replace(until=until.date())
    if span.since > span.until:
        raise click.UsageError("--from is after --to")
    rows = rows_of(name, archive, engine=engine, span=span)
    _write(name, rows, format_, output, _about(archive, board, since, until))


def _about(archive: str, board: str | None, since: datetime | None, until: datetime | None) -> str:
    """Return a sentence on the part of the archive that a report is of."""
    parts = [f"From {archive}"]
    if board:
        parts.append(f"board {board}")
    if since is not None:
        parts.append(f"since {since:%Y-%m-%d}")
    if until is not None:
        parts.append(f"until {until:%Y-%m-%d}")
    return ", ".join(parts) + "."


def _write(name: str, rows: "pa.Table", format_: str, output: Path | None, about: str) -> None:
    if format_ == "parquet":
        assert output is not None, "checked before"
        _write_parquet(rows, output)
        return
    if format_ == "table" and output is None:
        _print(name, rows)
        return
    if format_ == "html":
        from rankd.analytics.page import html_page

        text = html_page(name, rows, about)
    elif output is None:
        print_json({"report": name, "rows": _json_rows(rows)})
        return
    elif format_ == "json":
        from rankd import schemas

        text = schemas.encode({"report": name, "rows": _json_rows(rows)}).decode() + "\n"
    else:
        raise click.UsageError("a table is printed; choose another --format for a file")
    if output is None:
        click.echo(text, nl=False)
        return
    _written(output, text)
    click.echo(f"{count(rows.num_rows, 'row')} in {output}", err=True)


def _written(output: Path, text: str) -> None:
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as exc:
        raise CommandFailed(f"{output} cannot be written: {exc.strerror}") from None


def _write_parquet(rows: "pa.Table", output: Path) -> None:
    from pyarrow import parquet

    try:
        parquet.write_table(rows, output, compression="zstd")
    except OSError as exc:
        raise CommandFailed(f"{output} cannot be written: {exc}") from None
    click.echo(f"{count(rows.num_rows, 'row')} in {output}", err=True)


def _json_rows(rows: "pa.Table") -> list[dict[str, Any]]:
    """Return rows as JSON has them: days as text, decimals digit for digit."""
    from rankd.analytics.reports import shown_value

    return [
        {name: _json_cell(shown_value(cell)) for name, cell in row.items()}
        for row in rows.to_pylist()
    ]


def _json_cell(value: object) -> object:
    return value.isoformat() if isinstance(value, date) else value


def _print(name: str, rows: "pa.Table") -> None:
    from rankd.analytics.reports import shown_rows

    columns, listed = shown_rows(name, rows.slice(0, TABLE_ROWS_MAX))
    numbers = [
        column
        for at, column in enumerate(columns)
        if not any(isinstance(row[at], str | date) for row in listed)
    ]
    drawn = table(*columns, right=numbers)
    for row in listed:
        add(drawn, *("" if value is None else plain(shown(value)) for value in row))
    print_tables(drawn)
    if rows.num_rows > TABLE_ROWS_MAX:
        click.echo(f"and {rows.num_rows - TABLE_ROWS_MAX:,} more: --format json has all", err=True)

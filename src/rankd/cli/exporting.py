"""A ranking into a file."""

import csv
import io
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import click

from rankd.cli.failing import Failed, plain
from rankd.cli.reaching import Reach, reaching, which_ranking
from rankd.cli.show import columns_of
from rankd.cli.source import SUBMITTED, guarded
from rankd.errors import count

if TYPE_CHECKING:
    from rankd.cli.folder import Attributes
    from rankd.wire import Row

FORMATS = ("csv", "jsonl", "parquet")

FIXED = ("rank", "name", *SUBMITTED)
"""Names that mean something else in what is exported, or where it is imported."""

GROUP_ROWS = 65_536
"""Rows of one group of a Parquet file: what a reader loads at a time."""


@click.command()
@click.argument("board")
@click.option(
    "--format",
    "format_",
    type=click.Choice(FORMATS),
    default="csv",
    show_default=True,
    help="Parquet needs rankd[parquet].",
)
@click.option(
    "-o", "--output", default="-", metavar="FILE", help="Where to; - is the terminal or the pipe."
)
@which_ranking
@reaching()
def export(
    reach: Reach,
    board: str,
    format_: str,
    output: str,
    window: str | None,
    segment: str | None,
) -> None:
    """Write every standing of a ranking, best first.

    Cells of CSV that a spreadsheet would take for a formula get a quote before them; `rankd import`
    takes it off again. The attributes that the board's segments are made of are in it with --data
    only, as columns of their names: a service would have to be asked for each player.
    """
    if format_ == "parquet":
        _insist_on_pyarrow()
        if output == "-":
            raise click.UsageError("parquet needs a file: name it with --output")
    with reach.client_and_attributes(patient=True) as (client, attributes):
        definition = client.board(board).definition
        rows = client.walk(board, window=window, segment=segment)
        first = list(islice(rows, 1))  # An unknown window is told before a file is begun.
        columns = [column["name"] for column in definition["columns"]]
        columns = columns_of(first) if first else columns  # Of a ranking, not of the board now.
        beside = _beside(columns, definition, attributes)
        with _target(output) as file:
            written = _WRITERS[format_](file, chain(first, rows), beside)
    if output != "-":
        click.echo(f"{count(written, 'standing')} in {output}", err=True)


class Beside(NamedTuple):
    """What a row has beside a player."""

    first: str
    """What the first score is called."""
    columns: list[str]
    """The board's others."""
    segments: list[str]
    """Of which the attributes are written."""
    attributes: "Attributes"
    decimals: int
    """Of the board's scores now; the rows of a closed window may have others."""

    def attributes_of(self, player: str) -> dict[str, str | int | bool]:
        """Return a player's, of those that are written."""
        known = self.attributes(player)
        return {name: known[name] for name in self.segments if name in known}


def _beside(
    columns: list[str], definition: dict[str, Any], attributes: "Attributes | None"
) -> Beside:
    """Say what will be missing, rather than let somebody find it out after an import."""
    (first, *others), segments, decimals = columns, definition["segments"], definition["decimals"]
    # By its own name, unless that means something else where it is imported.
    first = first if others and first not in FIXED else "score"
    if attributes is None:
        if segments:
            names = plain(", ".join(segments))
            click.echo(
                f"without {names}: a service is not asked for the attributes of every player; "
                "`rankd export --data` has them, of a folder that no service has open",
                err=True,
            )
        return Beside(first, others, [], lambda _: {}, decimals)
    taken = {*FIXED, *columns}
    if hidden := [name for name in segments if name in taken]:
        names = plain(", ".join(hidden))
        click.echo(f"without {names}: a column has that name already", err=True)
    written = [name for name in segments if name not in taken]
    return Beside(first, others, written, attributes, decimals)


@contextmanager
def _target(output: str) -> Iterator[IO[bytes]]:
    """Open what is written to. A file appears under its name once it is whole."""
    if output == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(output)
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as file:
            yield file
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _write_csv(file: IO[bytes], rows: Iterable["Row"], beside: Beside) -> int:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    try:
        lines = csv.writer(text, lineterminator="\n")
        more = map(guarded, (beside.first, *beside.columns, *beside.segments))
        lines.writerow(["rank", "player", "name", *more, "metadata"])
        written = 0
        for row in rows:
            lines.writerow(_csv_cells(row, beside))
            written += 1
        return written
    finally:
        text.detach()  # The file is the caller's to close.


def _csv_cells(row: "Row", beside: Beside) -> list[str]:
    columns: Any = row.columns if beside.columns else {}
    known = beside.attributes_of(row.player)
    attributes = [_text(known[name]) if name in known else "" for name in beside.segments]
    metadata = "" if row.metadata is None else _json(row.metadata)
    # Numbers are ours, and no formulas: a negative score stays a number.
    scores = [f"{row.score:f}" if not isinstance(row.score, int) else str(row.score)]
    scores += [str(columns[name]) for name in beside.columns]
    said = map(guarded, (*attributes, metadata))
    return [str(row.rank), guarded(row.player), guarded(row.name or ""), *scores, *said]


def _text(value: str | int | bool) -> str:
    """Return an attribute as segments are named after it: true, and not True."""
    return value if isinstance(value, str) else json.dumps(value)


def _json(value: object) -> str:
    from rankd import wire

    return wire.encode(value).decode()


def _write_jsonl(file: IO[bytes], rows: Iterable["Row"], beside: Beside) -> int:
    from rankd import wire

    written = 0
    for row in rows:
        line = wire.encode(row)
        if known := beside.attributes_of(row.player):
            line = line[:-1] + b',"attributes":' + wire.encode(known) + b"}"
        file.write(line + b"\n")
        written += 1
    return written


def _insist_on_pyarrow() -> Any:
    try:
        import pyarrow  # type: ignore[import-not-found, import-untyped, unused-ignore]
        import pyarrow.parquet  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError:
        raise Failed("parquet needs pyarrow: pip install 'rankd[parquet]'") from None
    return pyarrow


def _write_parquet(file: IO[bytes], rows: Iterable["Row"], beside: Beside) -> int:
    arrow = _insist_on_pyarrow()
    left, written = iter(rows), 0
    some = list(islice(left, GROUP_ROWS))
    schema = _schema(arrow, some, beside)
    with arrow.parquet.ParquetWriter(file, schema) as writer:
        while some:
            records = [_record(row, beside) for row in some]
            writer.write_table(arrow.Table.from_pylist(records, schema))
            written += len(some)
            some = list(islice(left, GROUP_ROWS))
    return written


def _schema(arrow: Any, rows: list["Row"], beside: Beside) -> Any:
    """Whole scores are 64-bit integers; others are exact decimals of the board's."""
    places = -_exponent(rows[0].score) if rows else beside.decimals
    score = arrow.int64() if places == 0 else arrow.decimal128(38, places)
    fields = [("rank", arrow.int64()), ("player", arrow.string()), ("name", arrow.string())]
    fields += [(beside.first, score), *((name, score) for name in beside.columns)]
    fields += [(name, arrow.string()) for name in (*beside.segments, "metadata")]
    return arrow.schema(fields)


def _exponent(score: Any) -> int:
    return 0 if isinstance(score, int) else int(score.as_tuple().exponent)


def _record(row: "Row", beside: Beside) -> dict[str, Any]:
    columns: Any = row.columns if beside.columns else {}
    record = {"rank": row.rank, "player": row.player, "name": row.name, beside.first: row.score}
    record |= {name: columns[name] for name in beside.columns}
    record |= {name: _text(value) for name, value in beside.attributes_of(row.player).items()}
    record["metadata"] = None if row.metadata is None else json.dumps(row.metadata, default=str)
    return record


_WRITERS: dict[str, Any] = {
    "csv": _write_csv,
    "jsonl": _write_jsonl,
    "parquet": _write_parquet,
}

"""Export a ranking into a file."""

import csv
import io
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import click

from rankd.cli.import_source import SUBMITTED, guarded
from rankd.cli.options import Target, reaching, which_ranking
from rankd.cli.output import CommandFailed, columns_of, plain, recorded
from rankd.errors import Refused, count

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rankd.client import Client
    from rankd.progress import Tell
    from rankd.schemas import Row

FORMATS = ("csv", "jsonl", "parquet")

RAW_SCORE = "raw_score"
"""The column of scores as they were recorded, on boards with decay."""

FIXED = ("rank", "name", *SUBMITTED)
"""Names with another meaning in an export, or in an import."""

LOOKUP_PLAYERS = 1000
"""Players per lookup: the service's maximum, and the length of a page."""

GROUP_ROWS = 65_536
"""Rows per group of a Parquet file, the unit that readers load."""


@click.command()
@click.argument("board")
@click.option(
    "--format",
    "format_",
    type=click.Choice(FORMATS),
    default="csv",
    show_default=True,
    help="Parquet needs pyarrow.",
)
@click.option(
    "-o", "--output", default="-", metavar="FILE", help="Where to; - is the terminal or the pipe."
)
@which_ranking
@reaching()
def export(
    reach: Target,
    board: str,
    format_: str,
    output: str,
    window: str | None,
    segment: str | None,
) -> None:
    """Write every standing of a ranking, best first.

    Cells of CSV that a spreadsheet would take for a formula get a quote before them; `rankd import`
    removes it again. The attributes that the board's segments are made of are columns of their
    names, with their values at the time their player is exported.
    """
    from rankd.progress import showing

    if format_ == "parquet":
        _insist_on_pyarrow()
        if output == "-":
            raise click.UsageError("parquet needs a file: name it with --output")
    with reach.client(patient=True) as client:
        definition = client.board(board).definition
        # An unknown window fails before a file is created.
        first = client.page(board, limit=1, window=window, segment=segment)
        columns = [column["name"] for column in definition["columns"]]
        # The columns of this ranking, which may differ from the board's present ones.
        columns = columns_of(first.standings) if first.standings else columns
        beside = _beside(columns, definition, client)
        rows = client.walk(board, window=window, segment=segment)
        lines = _lines(client, rows, look_up=bool(beside.segments))
        with _target(output) as file, showing(output != "-") as tell:
            written = _WRITERS[format_](file, _told(lines, first.total, tell), beside)
    if output != "-":
        click.echo(f"{count(written, 'standing')} in {output}", err=True)


class ExportRow(NamedTuple):
    """A standing, and the attributes of its player."""

    row: "Row"
    attributes: "Mapping[str, str | int | bool]"


def _lines(client: "Client", rows: Iterator["Row"], *, look_up: bool) -> Iterator[ExportRow]:
    """Yield rows with their players' attributes, which are looked up a page at a time."""
    while some := list(islice(rows, LOOKUP_PLAYERS)):
        known: dict[str, dict[str, str | int | bool]] = {}
        if look_up:
            found = client.lookup_players([row.player for row in some if row.player])
            known = {one.player: one.attributes for one in found.players}
        for row in some:
            yield ExportRow(row, known.get(row.player or "", {}))


def _told(lines: Iterator[ExportRow], total: int, tell: "Tell") -> Iterator[ExportRow]:
    """Yield lines, and report progress against the total at the start."""
    from rankd.ports import Progress

    for done, line in enumerate(lines, start=1):
        yield line
        if done % LOOKUP_PLAYERS == 0 or done == total:
            tell(Progress(done, max(done, total), "exporting", "standing"))


class PlayerColumns(NamedTuple):
    """The columns of an export, beside the player's."""

    first: str
    """The name of the first score column."""
    columns: list[str]
    """The names of the other score columns."""
    segments: list[str]
    """The attributes that are exported."""
    decimals: int
    """Of the board's scores now; the rows of a closed window may have others."""
    raw: list[str]
    """The column of scores as they were recorded, on boards with decay."""

    def attributes_of(self, line: ExportRow) -> dict[str, str | int | bool]:
        """Return the exported attributes of a player."""
        known = line.attributes
        return {name: known[name] for name in self.segments if name in known}


def _beside(columns: list[str], definition: dict[str, Any], client: "Client") -> PlayerColumns:
    """Choose the columns, and warn now of those that will be missing."""
    (first, *others), segments, decimals = columns, definition["segments"], definition["decimals"]
    # By its own name, unless that has another meaning in an import.
    first = first if others and first not in FIXED else "score"
    raw = [] if definition.get("decay") is None else [RAW_SCORE]
    taken = {*FIXED, *columns, *raw}
    if hidden := [name for name in segments if name in taken]:
        names = plain(", ".join(hidden))
        click.echo(f"without {names}: a column has that name already", err=True)
    written = [name for name in segments if name not in taken]
    if written and (refusal := _refusal(client)) is not None:
        click.echo(plain(f"without {', '.join(written)}: {refusal}"), err=True)
        written = []
    return PlayerColumns(first, others, written, decimals, raw)


def _refusal(client: "Client") -> str | None:
    """Return the service's refusal to list attributes, as for a key of some boards only."""
    try:
        client.lookup_players([])
    except Refused as exc:
        return str(exc)
    return None


@contextmanager
def _target(output: str) -> Iterator[IO[bytes]]:
    """Open the output. A file gets its name only when it is complete."""
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


def _write_csv(file: IO[bytes], rows: Iterable[ExportRow], beside: PlayerColumns) -> int:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    try:
        lines = csv.writer(text, lineterminator="\n")
        scores = (beside.first, *beside.columns, *beside.raw)
        more = map(guarded, (*scores, *beside.segments))
        lines.writerow(["rank", "player", "name", *more, "metadata"])
        written = 0
        for row in rows:
            lines.writerow(_csv_cells(row, beside))
            written += 1
        return written
    finally:
        text.detach()  # The file is the caller's to close.


def _csv_cells(line: ExportRow, beside: PlayerColumns) -> list[str]:
    row = line.row
    columns: Any = row.columns if beside.columns else {}
    known = beside.attributes_of(line)
    attributes = [_text(known[name]) if name in known else "" for name in beside.segments]
    metadata = "" if row.metadata is None else _json(row.metadata)
    # Numbers are never formulas: a negative score stays a number.
    scores = [_digits(row.score)]
    scores += [str(columns[name]) for name in beside.columns]
    scores += [_digits(recorded(row)) for _ in beside.raw]
    said = map(guarded, (*attributes, metadata))
    return [str(row.rank), guarded(row.player or ""), guarded(row.name or ""), *scores, *said]


def _digits(score: Any) -> str:
    if score is None:
        return ""
    return f"{score:f}" if not isinstance(score, int) else str(score)


def _text(value: str | int | bool) -> str:
    """Return an attribute's value as segments are named: true, and not True."""
    return value if isinstance(value, str) else json.dumps(value)


def _json(value: object) -> str:
    from rankd import schemas

    return schemas.encode(value).decode()


def _write_jsonl(file: IO[bytes], rows: Iterable[ExportRow], beside: PlayerColumns) -> int:
    from rankd import schemas

    written = 0
    for line in rows:
        text = schemas.encode(line.row)
        if known := beside.attributes_of(line):
            text = text[:-1] + b',"attributes":' + schemas.encode(known) + b"}"
        file.write(text + b"\n")
        written += 1
    return written


def _insist_on_pyarrow() -> Any:
    try:
        import pyarrow  # type: ignore[import-not-found, import-untyped, unused-ignore]
        import pyarrow.parquet  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError:
        raise CommandFailed("parquet needs pyarrow: pip install pyarrow") from None
    return pyarrow


def _write_parquet(file: IO[bytes], rows: Iterable[ExportRow], beside: PlayerColumns) -> int:
    arrow = _insist_on_pyarrow()
    left, written = iter(rows), 0
    some = list(islice(left, GROUP_ROWS))
    schema = _schema(arrow, some, beside)
    with arrow.parquet.ParquetWriter(file, schema) as writer:
        while some:
            records = [_record(line, beside) for line in some]
            writer.write_table(arrow.Table.from_pylist(records, schema))
            written += len(some)
            some = list(islice(left, GROUP_ROWS))
    return written


def _schema(arrow: Any, rows: list[ExportRow], beside: PlayerColumns) -> Any:
    """Return the schema: whole scores are 64-bit integers, others exact decimals."""
    places = -_exponent(rows[0].row.score) if rows else beside.decimals
    score = arrow.int64() if places == 0 else arrow.decimal128(38, places)
    fields = [("rank", arrow.int64()), ("player", arrow.string()), ("name", arrow.string())]
    names = (beside.first, *beside.columns, *beside.raw)
    fields += [(name, score) for name in names]
    fields += [(name, arrow.string()) for name in (*beside.segments, "metadata")]
    return arrow.schema(fields)


def _exponent(score: Any) -> int:
    return 0 if isinstance(score, int) else int(score.as_tuple().exponent)


def _record(line: ExportRow, beside: PlayerColumns) -> dict[str, Any]:
    row = line.row
    columns: Any = row.columns if beside.columns else {}
    record = {"rank": row.rank, "player": row.player, "name": row.name, beside.first: row.score}
    record |= {name: columns[name] for name in beside.columns}
    record |= {name: recorded(row) for name in beside.raw}
    record |= {name: _text(value) for name, value in beside.attributes_of(line).items()}
    record["metadata"] = None if row.metadata is None else json.dumps(row.metadata, default=str)
    return record


_WRITERS: dict[str, Any] = {
    "csv": _write_csv,
    "jsonl": _write_jsonl,
    "parquet": _write_parquet,
}

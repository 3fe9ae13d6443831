"""Where imported scores come from: rows of CSV and JSON lines, members of a Redis sorted set.

Each row becomes a submission with a key made of the source, the row's number and what it says. So
an import that is repeated, after a failure or by mistake, counts once; and a row that was added to
the file, or changed, counts as what it is: new.
"""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from hashlib import blake2b
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from rankd.cli import resp
from rankd.cli.failing import Failed

FORMATS = ("csv", "jsonl")
SUBMITTED = ("player", "score", "delta", "key", "columns", "metadata", "attributes", "build", "at")
"""What a line of JSON may say; whatever else it says is left out."""

LINE_BYTES_MAX = 1 << 20
KEY_BYTES = 16

FORMULA = tuple("=+-@\t\r")
"""How a cell begins that a spreadsheet would run."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Source:
    """Rows, and how far one is through them."""

    name: str
    rows: Iterable[Row]
    total: int
    done: Callable[[], int] | None
    """How much of the total was read; None if rows are counted."""

    def submissions(self) -> Iterator[Row]:
        """Yield a submission for each row, each with its key."""
        for number, row in enumerate(self.rows, start=1):
            if row.get("key") is None:
                row["key"] = key_of(self.name, number if self.done else 0, row)
            yield row


def key_of(source: str, number: int, row: Row) -> str:
    """Return the submission key of a row."""
    said = json.dumps([source, number, row], sort_keys=True, default=str, ensure_ascii=False)
    digest = blake2b(said.encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES)
    return f"import:{digest.hexdigest()}"


# ------------------------------------------------------------------------------ formulas


def guarded(cell: str) -> str:
    """Return a cell that no spreadsheet takes for a formula."""
    return f"'{cell}" if cell.lstrip("'").startswith(FORMULA) else cell


def unguarded(cell: str) -> str:
    """Return the cell that was guarded."""
    guards = cell.startswith("'") and cell.lstrip("'").startswith(FORMULA)
    return cell[1:] if guards else cell


# ---------------------------------------------------------------------------------- files


@contextmanager
def from_file(
    path: Path,
    *,
    name: str | None,
    format: str | None,
    columns: Sequence[str],
    delimiter: str,
    board_columns: Sequence[str],
) -> Iterator[Source]:
    """Open a file. ``columns`` are those of a CSV file without a header."""
    format = format or path.suffix.lstrip(".").lower().replace("ndjson", "jsonl")
    if format not in FORMATS:
        raise Failed(f"what is in {path}? Say --format csv or --format jsonl")
    with path.open("rb") as raw:
        # The newline is left alone: a cell may hold one.
        text = TextIOWrapper(raw, encoding="utf-8-sig", newline="" if format == "csv" else None)
        rows = (
            _csv_rows(text, columns, delimiter, board_columns)
            if format == "csv"
            else _json_rows(text)
        )
        total = path.stat().st_size
        yield Source(name or str(path.resolve()), _readable(rows, path), total, raw.tell)


def _readable(rows: Iterator[Row], path: Path) -> Iterator[Row]:
    try:
        yield from rows
    except UnicodeDecodeError:
        raise Failed(f"{path} is not UTF-8") from None
    except csv.Error as exc:
        raise Failed(f"{path} is not CSV: {exc}") from None


def _csv_rows(
    text: TextIOWrapper, columns: Sequence[str], delimiter: str, board_columns: Sequence[str]
) -> Iterator[Row]:
    lines = csv.reader(text, delimiter=delimiter, strict=True)
    heads = list(columns) or [cell.strip() for cell in next(lines, [])]
    if "player" not in heads or not {"score", "delta", *board_columns} & set(heads):
        raise Failed(
            f"the columns are {', '.join(heads)[:200] or 'none'}: player and score are needed. "
            "Name them with --columns, such as --columns player,score"
        )
    more = [name for name in board_columns if name in heads] if len(board_columns) > 1 else []
    for cells in lines:
        if cells:
            yield _csv_row(dict(zip(heads, cells, strict=False)), more, board_columns)


def _csv_row(cells: dict[str, str], more: Sequence[str], board_columns: Sequence[str]) -> Row:
    row: Row = {name: unguarded(cells[name]) for name in ("player", "key") if cells.get(name)}
    row |= {name: cells[name].strip() for name in ("score", "delta") if cells.get(name)}
    if more:
        row["columns"] = {name: cells.get(name, "").strip() for name in more}
        if board_columns[0] in row["columns"]:
            row.pop("score", None)
    if metadata := cells.get("metadata"):
        row["metadata"] = _json(unguarded(metadata), "the metadata of a row")
    return row


def _json_rows(text: TextIOWrapper) -> Iterator[Row]:
    while line := text.readline(LINE_BYTES_MAX):
        if not line.strip():
            continue
        said = _json(line, "a line")
        if not isinstance(said, dict):
            raise Failed('each line must be one object, such as {"player": "p1", "score": 10}')
        row = {name: said[name] for name in SUBMITTED if said.get(name) is not None}
        if "columns" in row:
            row.pop("score", None)  # The first column is there already, by its name.
        yield row


def _json(text: str, what: str) -> Any:
    try:
        return json.loads(text, parse_float=Decimal)
    except ValueError as exc:
        raise Failed(f"{what} is not JSON: {exc}") from None


# ---------------------------------------------------------------------------------- Redis


@contextmanager
def from_redis(url: str, *, name: str | None) -> Iterator[Source]:
    """Open a sorted set of Redis."""
    place = resp.place_of(url)
    with resp.connected(place) as redis:
        total = resp.count(redis, place.key)
        members = resp.members(redis, place.key)
        rows = ({"player": player, "score": _number(score)} for player, score in members)
        yield Source(name or place.source, rows, total, None)


def _number(score: str) -> str:
    """Write a double of Redis without an exponent, as scores are written."""
    try:
        number = Decimal(score)
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite():
        raise Failed(f"a score in the sorted set is {score[:40]}: it has no place in a ranking")
    whole = number.to_integral_value()
    return f"{whole:f}" if whole == number else f"{number:f}"

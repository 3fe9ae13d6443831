"""Sources of imported scores: rows of CSV and JSON lines, members of a Redis sorted set.

Each row becomes a submission. Its key is made of the source, the position of the board's first
definition, the content of the row, and the number of equal rows before it. So an import that is
repeated, after a failure or by mistake, counts once, even if rows were moved or corrected in
between; a row that was added or changed is new. A board that was retired and defined again is
another board, with other keys.
"""

import csv
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from hashlib import blake2b
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NamedTuple

from rankd.cli import resp
from rankd.cli.output import CommandFailed

FORMATS = ("csv", "jsonl")
SUBMITTED = ("player", "score", "delta", "key", "columns", "metadata", "attributes", "build", "at")
"""Fields that a row may have on any board; others that are not the board's are left out."""

LEFT_OUT_MAX = 100
"""The most left-out names that are listed: these are enough to see the mistake."""

SHOWN_BYTES_MAX = 100
"""Bytes of a member that a message shows."""

STANDARD_INPUT = Path("-")
LINE_BYTES_MAX = 1 << 20
KEY_BYTES = 16

OCCURRENCES_CACHE_KIB = 65_536
"""Memory for the digests of rows; beyond it they are in a temporary file."""

FORMULA = tuple("=+-@\t\r")
"""The first characters of a cell that a spreadsheet would run."""

Row = dict[str, Any]


class BoardColumns(NamedTuple):
    """The columns and segments of a board."""

    columns: tuple[str, ...]
    segments: tuple[str, ...]
    """By the attributes that they are made of."""

    @property
    def named(self) -> tuple[str, ...]:
        """The columns that a row may give by name; none if ``score`` is the only column."""
        taken = {*SUBMITTED} - {"score"}
        names = tuple(name for name in self.columns if name not in taken)
        return () if names == ("score",) else names


@dataclass(frozen=True, slots=True)
class ImportRow:
    """A row that becomes a submission."""

    row: Row
    line: int | None = None
    """The line that it begins in, from 1, as an editor shows it; None where there are no lines."""


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that cannot be read. The others still count."""

    line: int | None
    """The line in the file, from 1, as an editor shows it; None where there are no lines."""
    problem: str


class _Unreadable(Exception):
    """An error in a line, as a sentence that follows its number."""


@dataclass(frozen=True, slots=True)
class ImportSource:
    """The rows of an import, with its progress."""

    name: str
    rows: Iterable[ImportRow | BadRow]
    total: int
    """The size of the source; 0 if unknown."""
    done: Callable[[], int] | None
    """Returns how much of the total was read; None if rows are counted."""
    repeats: bool = True
    """Whether two equal rows are two submissions; a scan of Redis may repeat one."""

    def submissions(self, since: int = 0) -> Iterator[ImportRow | BadRow]:
        """Yield a submission for each row, each with its key.

        ``since`` is the position of the board's first definition.
        """
        with Occurrences() as occurrences:
            for found in self.rows:
                if isinstance(found, ImportRow) and found.row.get("key") is None:
                    content = _content(self.name, since, found.row)
                    times = occurrences.count(content) if self.repeats else 1
                    found.row["key"] = key_of(content, times)
                yield found


class Occurrences:
    """Counts equal rows, in bounded memory for any number of them."""

    def __init__(self) -> None:
        import apsw

        self._met = apsw.Connection("")  # A temporary file, written once the cache is full.
        self._met.execute(f"PRAGMA cache_size = -{OCCURRENCES_CACHE_KIB}")
        self._met.execute("PRAGMA journal_mode = OFF")
        self._met.execute("CREATE TABLE met (content BLOB PRIMARY KEY, times INT) WITHOUT ROWID")
        self._met.execute("BEGIN")

    def __enter__(self) -> "Occurrences":
        return self

    def __exit__(self, *_error: object) -> None:
        self._met.close()

    def count(self, content: bytes) -> int:
        """Return how often this content occurred, including this time."""
        counted: Any = self._met.execute(
            "INSERT INTO met VALUES (?, 1) ON CONFLICT DO UPDATE SET times = times + 1 "
            "RETURNING times",
            (content,),
        )
        return int(counted.fetchall()[0][0])


def _content(source: str, since: int, row: Row) -> bytes:
    """Return the digest that identifies a row's content in this source and on this board."""
    said = json.dumps([source, since, row], sort_keys=True, default=str, ensure_ascii=False)
    return blake2b(said.encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES).digest()


def key_of(content: bytes, times: int) -> str:
    """Return the submission key of a content's occurrence number ``times``."""
    return f"import:{blake2b(b'%d:%b' % (times, content), digest_size=KEY_BYTES).hexdigest()}"


# ------------------------------------------------------------------------------ formulas


def guarded(cell: str) -> str:
    """Return a cell that no spreadsheet takes for a formula."""
    return f"'{cell}" if cell.lstrip("'").startswith(FORMULA) else cell


def unguarded(cell: str) -> str:
    """Return the cell before ``guarded``."""
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
    shape: BoardColumns,
    skip_header: bool = False,
    left_out: Callable[[Sequence[str]], None] = lambda _names: None,
) -> Iterator[ImportSource]:
    """Open a file or standard input.

    ``columns`` are those of CSV without a header, or replace it. ``left_out`` is called once with
    unknown names: with those of a header at once, with those in JSON lines at the end.
    """
    format = format or path.suffix.lstrip(".").lower().replace("ndjson", "jsonl")
    if format == "parquet":
        raise CommandFailed(
            f"{path}: Parquet is not taken, CSV and JSON lines are; whatever reads Parquet writes "
            f"one of them, such as pandas: read_parquet(…).to_csv(…, index=False)"
        )
    if format not in FORMATS:
        raise CommandFailed(f"what is in {path}? Say --format csv or --format jsonl")
    if path == STANDARD_INPUT and name is None:
        raise CommandFailed(
            "what comes in has no name: say --source NAME. Rows of one source count once"
        )
    with nullcontext(sys.stdin.buffer) if path == STANDARD_INPUT else path.open("rb") as raw:
        # Newlines are not translated: a cell may hold one. Bytes that are not UTF-8 are let
        # through, so that their line can be named.
        newline = "" if format == "csv" else None
        strange: dict[str, None] = {}
        text = TextIOWrapper(raw, "utf-8-sig", errors="surrogateescape", newline=newline)
        if format == "csv":
            lines = csv.reader(text, delimiter=delimiter, strict=True)
            heads = _heads(lines, columns, shape, skip_header=skip_header)
            if others := [head for head in heads if head not in _known(shape)]:
                left_out(others)
            rows = _csv_rows(lines, heads, shape)
        else:
            rows = _json_rows(text, shape, strange)
        if path == STANDARD_INPUT:
            yield ImportSource(name or "", rows, 0, None)
        else:
            yield ImportSource(name or str(path.resolve()), rows, path.stat().st_size, raw.tell)
        if strange:
            left_out([*strange])


def _known(shape: BoardColumns) -> set[str]:
    return {*SUBMITTED, *shape.columns, *shape.segments}


def _heads(
    lines: Any, columns: Sequence[str], shape: BoardColumns, *, skip_header: bool
) -> list[str]:
    """Return the names of the columns, from the first line unless they are given."""
    first = _first(lines) if skip_header or not columns else []
    heads = list(columns) or [unguarded(cell.strip()) for cell in first]
    known = _known(shape)
    if twice := next((name for name in heads if heads.count(name) > 1 and name in known), None):
        where = "--columns" if columns else "line 1"
        raise CommandFailed(f"{where} names the column {twice[:200]} twice: which of them counts?")
    if "player" not in heads or not {"score", "delta", *shape.columns} & set(heads):
        raise CommandFailed(
            f"the columns are {', '.join(heads)[:200] or 'none'}: player and score are needed. "
            "Name them, such as --columns player,score; with --skip-header if the first line "
            "names them otherwise"
        )
    return heads


def _csv_rows(
    lines: Any, heads: Sequence[str], shape: BoardColumns
) -> Iterator[ImportRow | BadRow]:
    while True:
        number = lines.line_num + 1  # The row's first line: a cell may hold several.
        try:
            cells = next(lines)
            if cells:
                _insist_on_utf8("".join(cells))
                _insist_on_columns(cells, heads)
                yield ImportRow(_csv_row(dict(zip(heads, cells, strict=False)), shape), number)
        except StopIteration:
            return
        except _Unreadable as exc:
            yield BadRow(number, str(exc))
        except csv.Error as exc:
            # The start of the next row is unknown.
            yield BadRow(number, f"is not CSV: {exc}; what follows was not read")
            return


def _insist_on_columns(cells: Sequence[str], heads: Sequence[str]) -> None:
    """Refuse a row with more cells than columns: 1,234 without quotes would count as 1."""
    if any(cell.strip() for cell in cells[len(heads) :]):
        raise _Unreadable(
            f"has {len(cells)} cells, and there are {len(heads)} columns; a cell with the "
            "delimiter in it stands in quotes"
        )


def _first(lines: Any) -> list[str]:
    try:
        found: list[str] = next(lines, [])
        return found
    except csv.Error as exc:
        raise CommandFailed(f"line 1 is not CSV: {exc}") from None


def _csv_row(cells: dict[str, str], shape: BoardColumns) -> Row:
    row: Row = {
        name: unguarded(cells[name]) for name in ("player", "key", "build") if cells.get(name)
    }
    row |= {name: cells[name].strip() for name in ("score", "delta", "at") if cells.get(name)}
    if more := [name for name in shape.named if name in cells]:
        row["columns"] = {name: cells.get(name, "").strip() for name in more}
        if shape.columns[0] in row["columns"]:
            row.pop("score", None)
    for name in ("metadata", "attributes"):
        if said := cells.get(name):
            row[name] = _json(unguarded(said), f"has {name} that is not JSON")
    return _with_attributes(
        row, {name: unguarded(cells[name]) for name in shape.segments if cells.get(name)}
    )


def _with_attributes(row: Row, found: dict[str, Any]) -> Row:
    """Add the values of segment columns to a row's attributes, which take precedence."""
    if found:
        said = row.get("attributes")
        row["attributes"] = {**found, **said} if isinstance(said, dict) else found
    return row


def _json_rows(
    text: TextIOWrapper, shape: BoardColumns, strange: dict[str, None]
) -> Iterator[ImportRow | BadRow]:
    """Yield rows; add the names that are left out to ``strange``, in order of occurrence."""
    known = _known(shape)
    for number, line in enumerate(_lines(text), start=1):
        if not line.strip():
            continue
        try:
            said = _json_object(line)
        except _Unreadable as exc:
            yield BadRow(number, str(exc))
            continue
        if len(strange) < LEFT_OUT_MAX and not known.issuperset(said):
            strange |= dict.fromkeys(name for name in said if _is_lost(name, said, known))
        yield ImportRow(_json_row(said, shape), number)


def _is_lost(name: str, said: Row, known: set[str]) -> bool:
    """Whether a field's value is lost: null values are not."""
    return name not in known and said[name] is not None


def _lines(text: TextIOWrapper) -> Iterator[str]:
    """Yield lines; one that is too long is cut at LINE_BYTES_MAX, which the caller detects."""
    while line := text.readline(LINE_BYTES_MAX):
        yield line
        while len(line) == LINE_BYTES_MAX and not line.endswith("\n"):
            line = text.readline(LINE_BYTES_MAX)


def _json_object(line: str) -> Row:
    if len(line) == LINE_BYTES_MAX:
        raise _Unreadable(f"is longer than {LINE_BYTES_MAX:,} characters")
    _insist_on_utf8(line)
    said = _json(line, "is not JSON")
    if not isinstance(said, dict):
        raise _Unreadable('must be one object, such as {"player": "p1", "score": 10}')
    return said


def _json_row(said: Row, shape: BoardColumns) -> Row:
    row = {name: said[name] for name in SUBMITTED if said.get(name) is not None}
    found = {name: said[name] for name in shape.named if said.get(name) is not None}
    if found and "columns" not in row:
        row["columns"] = found
    columns = row.get("columns")
    if isinstance(columns, dict) and shape.columns[0] in columns:
        row.pop("score", None)  # The first column was given by its name.
    return _with_attributes(
        row, {name: said[name] for name in shape.segments if said.get(name) is not None}
    )


def _json(text: str, problem: str) -> Any:
    try:
        return json.loads(
            text,
            parse_float=Decimal,
            parse_constant=_refuse_constant,
            object_pairs_hook=_refuse_repeated,
        )
    except json.JSONDecodeError as exc:
        raise _Unreadable(f"{problem}: {exc.msg} at column {exc.colno}") from None
    except (ValueError, RecursionError):  # Too many digits or levels.
        raise _Unreadable(problem) from None


def _refuse_repeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object. Raises _Unreadable if a field is there twice: one of them would be lost."""
    said = dict(pairs)
    if len(said) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _Unreadable(f"has the field {twice[:200]} twice")
    return said


def _refuse_constant(name: str) -> None:
    raise ValueError(f"JSON has no {name}")  # Python's json accepts it.


def _insist_on_utf8(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _Unreadable("is not UTF-8") from None


# ---------------------------------------------------------------------------------- Redis


@contextmanager
def from_redis(url: str, *, name: str | None) -> Iterator[ImportSource]:
    """Open a sorted set of Redis."""
    place = resp.place_of(url)
    with resp.connected(place) as redis:
        total = resp.count(redis, place.key)
        members = resp.members(redis, place.key)
        rows = (_member_row(member, score) for member, score in members)
        yield ImportSource(name or place.source, rows, total, None, repeats=False)


def _member_row(member: bytes, score: bytes) -> ImportRow | BadRow:
    try:
        return ImportRow({"player": member.decode(), "score": _number(score.decode())})
    except UnicodeDecodeError:
        return BadRow(None, f"the member {_escaped(member)} is not UTF-8: players are text")
    except _Unreadable as exc:
        return BadRow(None, f"the member {_escaped(member)} {exc}")


def _escaped(member: bytes) -> str:
    return member[:SHOWN_BYTES_MAX].decode(errors="backslashreplace")


def _number(score: str) -> str:
    """Return a double of Redis without an exponent. Raises _Unreadable."""
    try:
        number = Decimal(score)
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite():
        raise _Unreadable(f"has the score {score[:40]}, which has no place in a ranking")
    whole = number.to_integral_value()
    return f"{whole:f}" if whole == number else f"{number:f}"

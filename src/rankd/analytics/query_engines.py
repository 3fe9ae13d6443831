"""The engines that answer reports: DuckDB in this process, or Spark.

Each has the same views over the files of an archive. The SQL of a report is one text in the subset
that both speak, and whole numbers, exact decimals and texts are all it returns, so both give the
same rows.
"""

from collections.abc import Sequence
from datetime import date
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from rankd.analytics.files import ArchiveFiles, Manifest
from rankd.analytics.tables import SUBMISSIONS, TABLES
from rankd.errors import FieldError, InvalidRequest

_EPOCH = date(1970, 1, 1)
FIRST_DAY, LAST_DAY = date(1970, 1, 1), date(9999, 12, 31)

EXACT = pa.decimal128(38, 9)
"""The type of every decimal in a report."""


class Range(NamedTuple):
    """The part of an archive that a report is about."""

    board: str | None = None
    """None for all boards."""
    since: date = FIRST_DAY
    until: date = LAST_DAY
    """The last day, included."""

    @property
    def numbers(self) -> tuple[int, int]:
        """Its days, counted from 1970-01-01."""
        return (self.since - _EPOCH).days, (self.until - _EPOCH).days

    def files(self, manifests: Sequence[Manifest], table: str) -> list[str]:
        """Return the paths of the files that may have rows of it; all days before it, too."""
        return [
            file.path
            for manifest in manifests
            for file in manifest.files
            if file.table == table
            and self.board in (None, file.board)
            and date.fromisoformat(file.day) <= self.until
        ]


class QueryEngine(Protocol):
    """SQL over the views ``history``, ``submissions``, ``standings`` and ``bounds``.

    ``history`` has the submissions until the end of the range, ``submissions`` those in it,
    ``standings`` the closed windows that were sealed in it, ``bounds`` its first and last day.
    """

    name: str

    def query(self, sql: str) -> pa.Table:
        """Return the rows of a query."""

    def close(self) -> None:
        """Release all resources."""


def _views(span: Range, days: str, micros: str) -> dict[str, str]:
    """Return the views; ``days`` and ``micros`` are the engine's expressions for times."""
    first, last = span.numbers
    of_board = "TRUE" if span.board is None else f"board = {_quoted(span.board)}"
    range_ = f"{of_board} AND {days} BETWEEN {first} AND {last}"
    return {
        "history": f"SELECT *, {days} AS day_number, {micros} AS at_us FROM archived_submissions "
        f"WHERE {of_board} AND {days} <= {last}",
        "submissions": f"SELECT * FROM history WHERE day_number >= {first}",
        "standings": f"SELECT * FROM archived_standings WHERE {range_}",
        "bounds": f"SELECT {first} AS first_number, {last} AS last_number",
    }


def _quoted(text: str) -> str:
    """Return a literal of SQL. Names of boards have no backslash, which Spark would read."""
    if "\\" in text:
        raise InvalidRequest([FieldError("board", "is not the name of a board")])
    return "'" + text.replace("'", "''") + "'"


class DuckEngine:
    """Reports by DuckDB."""

    name = "duckdb"

    def __init__(self, files: ArchiveFiles, span: Range) -> None:
        try:
            import duckdb
        except ImportError:
            raise _missing("duckdb", "pip install duckdb") from None
        self._connection: Any = duckdb.connect()
        self._connection.execute("SET TimeZone = 'UTC'")
        manifests = files.manifests()
        for table in ("submissions", "standings"):
            self._register(files, table, span.files(manifests, table))
        views = _views(span, "date_diff('day', DATE '1970-01-01', day)", "epoch_us(recorded_at)")
        for name, sql in views.items():
            self._connection.execute(f"CREATE VIEW {name} AS {sql}")

    def _register(self, files: ArchiveFiles, table: str, paths: list[str]) -> None:
        name = f"archived_{table}"
        if not paths:
            self._connection.register(name, TABLES[table].empty_table())
        elif files.local:
            listed = ", ".join(_quoted(f"{files.base}/{path}") for path in paths)
            self._connection.execute(
                f"CREATE VIEW {name} AS "
                f"SELECT * FROM read_parquet([{listed}], hive_partitioning = false)"
            )
        else:
            rows = pads.dataset(paths, TABLES[table], format="parquet", filesystem=files.system)
            self._connection.register(name, rows)

    def query(self, sql: str) -> pa.Table:
        """Return the rows of a query."""
        return canonical(self._connection.sql(sql).to_arrow_table())

    def close(self) -> None:
        """Release all resources."""
        self._connection.close()


_SPARK_OPTIONS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""Others, such as the cluster, are those of ``spark-submit`` and ``spark-defaults.conf``."""


class SparkEngine:
    """Reports by Spark, for archives that one machine cannot read."""

    name = "spark"

    def __init__(self, files: ArchiveFiles, span: Range) -> None:
        try:
            from pyspark.sql import SparkSession
        except ImportError:
            raise _missing("spark", "pip install pyspark, and a Java runtime") from None
        builder: Any = SparkSession.builder.appName("rankd report")
        for name, value in _SPARK_OPTIONS.items():
            builder = builder.config(name, value)
        self._session: Any = builder.getOrCreate()
        self._session.sparkContext.setLogLevel("ERROR")
        manifests = files.manifests()
        for table in ("submissions", "standings"):
            self._register(files, table, span.files(manifests, table))
        views = _views(span, "datediff(day, DATE '1970-01-01')", "unix_micros(recorded_at)")
        for name, sql in views.items():
            self._session.sql(sql).createOrReplaceTempView(name)

    def _register(self, files: ArchiveFiles, table: str, paths: list[str]) -> None:
        from pyspark.sql.pandas.types import from_arrow_schema

        shape = from_arrow_schema(TABLES[table])
        if not paths:
            rows = self._session.createDataFrame([], shape)
        else:
            base = f"file://{files.base}" if files.local else files.target.rstrip("/")
            rows = self._session.read.schema(shape).parquet(*(f"{base}/{path}" for path in paths))
        rows.createOrReplaceTempView(f"archived_{table}")

    def query(self, sql: str) -> pa.Table:
        """Return the rows of a query."""
        return canonical(self._session.sql(sql).toArrow())

    def close(self) -> None:
        """Stop the session."""
        self._session.stop()


def canonical(rows: pa.Table) -> pa.Table:
    """Return rows with one type for all whole numbers, one for decimals, and one for days."""
    columns = [_canonical_column(column) for column in rows.columns]
    return pa.table(columns, names=rows.column_names)


def _canonical_column(column: pa.ChunkedArray) -> pa.Array:
    kind = column.type
    if pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0):
        column = pc.cast(column, pa.int64())
    elif pa.types.is_decimal(kind):
        column = pc.cast(column, EXACT)
    elif pa.types.is_large_string(kind):
        column = pc.cast(column, pa.string())
    return column.combine_chunks()


def _missing(engine: str, remedy: str) -> InvalidRequest:
    return InvalidRequest([FieldError("engine", f"{engine} needs its library: {remedy}")])


assert "day" in SUBMISSIONS.names

"""The reports: their questions, their SQL, and their form for people."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import cache
from importlib.resources import files as resources
from typing import NamedTuple

import pyarrow as pa

from rankd.analytics.files import ArchiveFiles
from rankd.analytics.query_engines import DuckEngine, QueryEngine, Range, SparkEngine
from rankd.errors import ArchiveUnavailable, FieldError, InvalidRequest


class Plot(NamedTuple):
    """The columns of a report that its picture shows, a picture for each board."""

    across: str
    values: tuple[str, ...]
    bars: bool = False


class Report(NamedTuple):
    """A report: one text of SQL for all engines."""

    name: str
    title: str
    question: str
    plot: Plot | None = None
    shares: tuple[str, ...] = ()
    """Columns that are also shown as percentages of the column ``players``."""

    def sql(self) -> str:
        """Return the query."""
        return _sql(self.name)


@cache
def _sql(name: str) -> str:
    return resources("rankd.analytics").joinpath("sql", f"{name}.sql").read_text()


REPORTS: Mapping[str, Report] = {
    report.name: report
    for report in (
        Report(
            "activity",
            "Activity",
            "How much is played, by whom, and how many players are new?",
            Plot("day", ("submissions", "players", "new_players")),
        ),
        Report(
            "retention",
            "Retention",
            "How many of the players that began on a day came back?",
            Plot("cohort", ("players", "day_1", "day_7")),
            shares=("day_1", "day_3", "day_7", "day_30"),
        ),
        Report(
            "distribution",
            "Distribution",
            "Which scores do the players have?",
        ),
        Report("movement", "Movement", "Who rose most, and who fell?"),
        Report(
            "windows",
            "Windows",
            "How did the closed windows end?",
            Plot("window_id", ("players",), bars=True),
        ),
        Report("suspects", "Suspects", "Whose submissions deserve a look?"),
    )
}

ENGINES: Mapping[str, Callable[[ArchiveFiles, Range], QueryEngine]] = {
    "duckdb": DuckEngine,
    "spark": SparkEngine,
}


def report(
    name: str,
    archive: str,
    *,
    engine: str = "duckdb",
    span: Range = Range(),  # noqa: B008
) -> pa.Table:
    """Return the rows of a report on an archive. Raises InvalidRequest, ArchiveUnavailable.

    A table of Arrow: ``to_pandas()`` makes a data frame of it.
    """
    return reports([name], archive, engine=engine, span=span)[name]


def reports(
    names: list[str],
    archive: str,
    *,
    engine: str = "duckdb",
    span: Range = Range(),  # noqa: B008
) -> dict[str, pa.Table]:
    """Return the rows of several reports, by their names; the engine is started once."""
    unknown = [name for name in names if name not in REPORTS]
    if unknown:
        raise InvalidRequest([FieldError("report", f"must be one of {', '.join(REPORTS)}")])
    if engine not in ENGINES:
        raise InvalidRequest([FieldError("engine", f"must be one of {', '.join(ENGINES)}")])
    files = ArchiveFiles(archive)
    if not files.manifests():
        raise ArchiveUnavailable(archive, "it is no archive; `rankd archive --to` writes one")
    opened = ENGINES[engine](files, span)
    try:
        return {name: opened.query(REPORTS[name].sql()) for name in names}
    finally:
        opened.close()


def shown_rows(name: str, rows: pa.Table) -> tuple[list[str], list[list[object]]]:
    """Return the columns and rows of a report for people: shares in percent, decimals cut short."""
    found, shares = REPORTS[name], []
    listed = rows.to_pylist()
    for row in listed:
        for column in found.shares:
            row[f"{column} %"] = _percent(row[column], row["players"])
    shares = [f"{column} %" for column in found.shares]
    columns = [*rows.column_names, *shares]
    return columns, [[shown_value(row[column]) for column in columns] for row in listed]


def _percent(part: int, whole: int) -> Decimal | None:
    return None if not whole else Decimal(part * 1000 // whole) / 10


def shown_value(value: object) -> object:
    """Return an exact decimal without the zeros behind its last digit."""
    if not isinstance(value, Decimal):
        return value
    return int(value) if value == value.to_integral_value() else value.normalize()

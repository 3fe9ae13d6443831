"""Scores from elsewhere: files, and Redis."""

from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rankd.cli.failing import Failed, plain
from rankd.cli.reaching import Reach, reaching
from rankd.cli.source import FORMATS, Row, Source, from_file, from_redis

if TYPE_CHECKING:
    from rankd.client import Client

BATCH_DEFAULT = 1000
BATCH_MAX = 8192
"""As many as the service takes at once."""

REFUSALS_SHOWN_MAX = 10
"""More of them hardly say anything new."""


@click.command("import")
@click.argument("source", metavar="FILE|redis://HOST:PORT/KEY")
@click.option("--board", required=True, help="Where the scores go.")
@click.option(
    "--format", "format_", type=click.Choice(FORMATS), help="If the file's name does not tell it."
)
@click.option(
    "--columns",
    default="",
    metavar="A,B,…",
    help="The columns of a CSV file without a header, in their order.",
)
@click.option("--delimiter", default=",", metavar="SIGN", help="What parts the cells of CSV.")
@click.option(
    "--source",
    "source_name",
    metavar="NAME",
    help="What to call the source. Rows of one source count once; the default is where it is.",
)
@click.option(
    "--batch",
    type=click.IntRange(1, BATCH_MAX),
    default=BATCH_DEFAULT,
    show_default=True,
    metavar="N",
    help="Scores sent together.",
)
@reaching()
def import_(reach: Reach, source: str, board: str, batch: int, **given: Any) -> None:
    """Have scores from a file or from Redis counted.

    CSV needs the columns player and score (or delta); a column key, those of the board and metadata
    (as JSON) are taken too. JSON lines are objects of the same names. A Redis sorted set is read by
    ZSCAN, while it goes on.

    An import can be repeated, after a failure too: each row has a key, and counts once.
    """
    if len(given["delimiter"]) != 1:
        raise click.UsageError("--delimiter takes one sign")
    with reach.client(patient=True) as client:
        columns = client.board(board).definition["columns"]
        names = [column["name"] for column in columns]
        with _opened(source, names, given) as rows:
            tally = _send(client, board, rows, batch)
    _report(tally)


def _opened(
    source: str, board_columns: list[str], given: dict[str, Any]
) -> AbstractContextManager[Source]:
    if source.startswith(("redis://", "rediss://")):
        return from_redis(source, name=given["source_name"])
    return from_file(
        Path(source),
        name=given["source_name"],
        format=given["format_"],
        columns=[name.strip() for name in given["columns"].split(",") if name.strip()],
        delimiter=given["delimiter"],
        board_columns=board_columns,
    )


def _send(client: "Client", board: str, source: Source, batch: int) -> Counter[str]:
    from rankd.ports import Progress
    from rankd.terminal import ProgressBar

    bar, tally, rows = ProgressBar(), Counter[str](), source.submissions()
    try:
        for some in _batches(rows, batch):
            answered = client.submit_batch(some, board=board)
            for result, number in zip(answered, range(tally["rows"] + 1, 1 << 62), strict=False):
                _note(tally, result, number)
            tally["rows"] += len(some)
            done = tally["rows"] if source.done is None else source.done()
            bar.tell(Progress(min(done, source.total), source.total, "importing"))
    finally:
        bar.tell(None)
    return tally


def _batches(rows: Iterator[Row], size: int) -> Iterator[list[Row]]:
    while some := list(islice(rows, size)):
        yield some


def _note(tally: Counter[str], result: Any, number: int) -> None:
    if result.verdict == "refused":
        tally["refused"] += 1
        if tally["refused"] <= REFUSALS_SHOWN_MAX:
            click.echo(f"row {number:,}: {plain(result.detail)}", err=True)
    elif result.duplicate is True:
        tally["seen before"] += 1
    else:
        tally[result.verdict.replace("_", " ")] += 1


def _report(tally: Counter[str]) -> None:
    rows = tally.pop("rows", 0)
    refused = tally.get("refused", 0)
    told = ", ".join(f"{count:,} {what}" for what, count in sorted(tally.items()))
    click.echo(f"{rows:,} rows: {told}" if told else "no rows")
    if refused:
        raise Failed(f"{refused:,} of {rows:,} rows were refused; mend them and import again")

"""Scores from the command line: one that is submitted, and imports from files and from Redis."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rankd.cli import resp
from rankd.cli.import_source import (
    FORMATS,
    SHOWN_BYTES_MAX,
    BadRow,
    BoardColumns,
    ImportRow,
    ImportSource,
    Row,
    from_file,
    from_redis,
)
from rankd.cli.options import Target, json_option, reaching
from rankd.cli.output import CommandFailed, plain, print_json, scores
from rankd.errors import count
from rankd.signatures import SigningKey

if TYPE_CHECKING:
    from rankd.client import Client
    from rankd.schemas import BoardBody


# Otherwise -5 would be taken for an option; this way it is a score.
@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("board")
@click.argument("player")
@click.argument("score", required=False)
@click.option("--delta", is_flag=True, help="Add SCORE to the score there is.")
@click.option("--key", metavar="KEY", help="The submission's own key: with it, it counts once.")
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="NAME=SCORE",
    help="A column of a board with several: minutes=12. SCORE is the first of them, unless it is "
    "named here too. May be repeated.",
)
@click.option(
    "--attribute",
    "attributes",
    multiple=True,
    metavar="NAME=VALUE",
    help="Where the player belongs, for the board's segments: region=eu. May be repeated.",
)
@click.option(
    "--lives",
    metavar="DURATION",
    help="How long it counts, as 24h or 7d; for ever if absent.",
)
@click.option("--run", metavar="RUN", help="The run that the score was made in.")
@click.option(
    "--sign-key",
    metavar="ID:SECRET",
    envvar="RANKD_SIGN_KEY",
    help="Sign it with a key as `rankd keys create --signing` printed it, or @FILE.",
)
@json_option
@reaching(key=("--api-key",))
def submit(reach: Target, as_json: bool, **given: Any) -> None:
    """Submit a score.

    Prints the verdict, and the player's rank after it. SCORE may be negative.
    """
    what = submitted(
        given["score"],
        pairs("--column", "minutes=12", given["columns"]),
        delta=given["delta"],
    )
    if attributes := pairs("--attribute", "region=eu", given["attributes"]):
        what["attributes"] = attributes
    what |= {name: given[name] for name in ("run", "lives") if given[name] is not None}
    if given["sign_key"] is not None:
        what["signing"] = _signing_key(given["sign_key"])
    with reach.client() as client:
        receipt = client.submit(given["board"], given["player"], key=given["key"], **what)
    if as_json:
        print_json(receipt)
        return
    if receipt.verdict == "accepted":
        click.echo("accepted: it is recorded, and will be ranked once the index is back")
        return
    moved = f" (was {receipt.previous_rank:,})" if receipt.previous_rank else ""
    again = ", seen before" if receipt.duplicate is True else ""
    until = f", until {receipt.expires_at}" if receipt.expires_at else ""
    place = "not ranked"
    if receipt.rank:
        place = f"rank {receipt.rank:,}{moved} of {receipt.total:,}, {scores(receipt)}"
    click.echo(f"{receipt.verdict}{again}: {place}{until}")


def _signing_key(text: str) -> SigningKey:
    """Return the key of --sign-key: as it was printed, or in a file that ``@`` names."""
    try:
        return SigningKey.parse(Path(text[1:]).read_text() if text.startswith("@") else text)
    except (OSError, UnicodeDecodeError):
        raise click.UsageError("--sign-key: the file cannot be read") from None
    except ValueError as exc:
        raise click.UsageError(f"--sign-key: {exc}") from None


def submitted(score: str | None, columns: dict[str, str], *, delta: bool) -> dict[str, Any]:
    """Return the fields of the submission, by the names of the API."""
    if delta and columns:
        raise click.UsageError("--delta adds to a score: it takes no --column")
    if score is None and (delta or not columns):
        raise click.UsageError("SCORE is missing, or a --column for each that the board has")
    what: dict[str, Any] = {} if score is None else {"delta" if delta else "score": score}
    return {**what, "columns": columns} if columns else what


def pairs(option: str, example: str, given: Iterable[str]) -> dict[str, str]:
    """Return the NAME=VALUE pairs of an option. A name may occur once."""
    found: dict[str, str] = {}
    for text in given:
        name, _, value = text.partition("=")
        if not (name and value):
            raise click.UsageError(f"{option} takes NAME=VALUE, such as {example}")
        if name in found:
            raise click.UsageError(f"{option} names {name} twice")
        found[name] = value
    return found


BATCH_DEFAULT = 1000
BATCH_MAX = 8192
"""The most that the service accepts in one request."""

REFUSALS_SHOWN_MAX = 10
"""Further ones rarely say anything new."""


@click.command("import")
@click.argument("source", metavar=f"FILE|-|{resp.FORM}")
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
@click.option("--skip-header", is_flag=True, help="Leave out the first line: --columns names them.")
@click.option("--delimiter", default=",", metavar="SIGN", help="The delimiter of CSV cells.")
@click.option(
    "--source",
    "source_name",
    metavar="NAME",
    help="The name of the source. Rows of one source count once; the default is its path.",
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
def import_(reach: Target, source: str, board: str, batch: int, **given: Any) -> None:
    """Submit scores from a file, from standard input or from Redis.

    CSV needs the columns player and score (or delta). Also read are key, the columns of the board,
    the attributes that its segments are made of (region, if it has that segment), and metadata and
    attributes as JSON; columns of other names are left out, and listed. JSON lines are objects with
    the same names; fields that were left out are listed at the end. A Redis sorted set is read by
    ZSCAN, while it is in use.

    An import can be repeated, also after a failure: each row has a key made of its content, and
    counts once, wherever in the file it stands. Standard input (-) needs a name for that: --source.
    """
    if len(given["delimiter"]) != 1:
        raise click.UsageError("--delimiter takes one sign")
    if not (_is_redis(source) or source == "-" or Path(source).exists()):
        raise CommandFailed(f"there is no file {source}")
    with reach.client(patient=True) as client:
        known = client.board(board)
        definition = known.definition
        shape = BoardColumns(
            tuple(column["name"] for column in definition["columns"]), tuple(definition["segments"])
        )
        unsaid = set(shape.segments)
        with _opened(source, shape, given) as rows:
            tally = _send(client, known, rows, batch, unsaid)
    if unsaid and tally["rows"]:
        names = ", ".join(name for name in shape.segments if name in unsaid)
        click.echo(plain(f"no row has {names}: no player enters a segment by that"), err=True)
    _report(tally)


def _opened(
    source: str, shape: BoardColumns, given: dict[str, Any]
) -> AbstractContextManager[ImportSource]:
    if _is_redis(source):
        return from_redis(source, name=given["source_name"])
    return from_file(
        Path(source),
        name=given["source_name"],
        format=given["format_"],
        columns=[name.strip() for name in given["columns"].split(",") if name.strip()],
        delimiter=given["delimiter"],
        shape=shape,
        skip_header=given["skip_header"],
        left_out=_name_left_out,
    )


def _is_redis(source: str) -> bool:
    return source.startswith(("redis://", "rediss://"))


def _name_left_out(names: Sequence[str]) -> None:
    click.echo(plain(f"left out: {', '.join(names)[:200]}"), err=True)


def _send(
    client: "Client", board: "BoardBody", source: ImportSource, batch: int, unsaid: set[str]
) -> Counter[str]:
    """Send all rows; remove from ``unsaid`` the attributes that any row has."""
    from rankd.ports import Progress
    from rankd.progress import BYTE, ProgressBar

    bar, tally, rows = ProgressBar(), Counter[str](), source.submissions(board.since)
    try:
        for some in _batches(rows, batch):
            whole = [found.row for found in some if isinstance(found, ImportRow)]
            unsaid.difference_update(*map(_said, whole) if unsaid else ())
            answered = iter(client.submit_batch(whole, board=board.name) if whole else ())
            for number, found in enumerate(some, start=tally["rows"] + 1):
                where = _place(found, number)
                if isinstance(found, BadRow):
                    _refuse(tally, f"{where}: {found.problem}")
                else:
                    _note(tally, next(answered), where, since=board.since)
            tally["rows"] += len(some)
            done = tally["rows"] if source.done is None else source.done()
            unit = "row" if source.done is None else BYTE
            bar.tell(Progress(done, source.total, "importing", unit))
    finally:
        bar.tell(None)
    return tally


def _place(found: ImportRow | BadRow, number: int) -> str:
    """Return where a row is: its line, for an editor, or the member of a Redis sorted set."""
    if found.line is not None:
        return f"line {found.line:,}"
    if isinstance(found, BadRow):
        return f"row {number:,}"  # Its problem names the member.
    return f"the member {found.row['player'][:SHOWN_BYTES_MAX]}"


def _said(row: Row) -> Collection[str]:
    """Return the names of a row's attributes."""
    said = row.get("attributes")
    return said if isinstance(said, dict) else ()


def _batches(rows: Iterator[ImportRow | BadRow], size: int) -> Iterator[list[ImportRow | BadRow]]:
    while some := list(islice(rows, size)):
        yield some


def _note(tally: Counter[str], result: Any, where: str, *, since: int) -> None:
    """Count a row's result; a key used by a retired board of this name is a refusal."""
    if result.verdict == "refused":
        _refuse(tally, f"{where}: {result.detail}")
    elif result.duplicate is True and result.position is not None and result.position < since:
        _refuse(tally, f"{where}: its key was used on a board of this name that was retired since")
    elif result.duplicate is True:
        tally["seen before"] += 1
    else:
        tally[result.verdict.replace("_", " ")] += 1


def _refuse(tally: Counter[str], said: str) -> None:
    tally["refused"] += 1
    if tally["refused"] <= REFUSALS_SHOWN_MAX:
        click.echo(plain(said), err=True)


def _report(tally: Counter[str]) -> None:
    rows = tally.pop("rows", 0)
    refused = tally.get("refused", 0)
    told = ", ".join(f"{number:,} {what}" for what, number in sorted(tally.items()))
    click.echo(f"{count(rows, 'row')}: {told}" if told else "no rows")
    if refused:
        were = "was" if refused == 1 else "were"
        raise CommandFailed(
            f"{refused:,} of {count(rows, 'row')} {were} refused; mend the source "
            "and import again: no row counts twice"
        )
    if rows and tally["seen before"] == rows:
        click.echo("nothing new was counted: an earlier import had every row", err=True)

"""Write an archive of a ledger in Parquet, and check one."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rankd.cli.options import ChosenLedger, data_option, json_option
from rankd.cli.output import CommandFailed, print_json
from rankd.errors import count

if TYPE_CHECKING:
    from rankd.analytics.archive import ArchiveResult

STATE = ".fold"
"""The folder of the saved fold in an archive that is a folder."""


@click.command()
@click.option(
    "--to",
    "target",
    required=True,
    metavar="FOLDER|s3://…",
    help="The folder or bucket of the archive; what it has already stays.",
)
@click.option(
    "--state",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the fold is saved between two runs; in the archive, if that is a folder.",
)
@click.option("--check", is_flag=True, help="Add nothing; compare each file with its digest.")
@json_option
@data_option
def archive(at: ChosenLedger, target: str, state: Path | None, check: bool, as_json: bool) -> None:
    """Archive a ledger with its outcomes as Parquet.

    That is facts, submissions with verdicts and ranks, and closed windows.

    Each run adds the facts since the last one. A service may go on meanwhile: the ledger is only
    read.
    """
    insist_on_pyarrow()
    if check:
        _check(target, as_json)
        return
    at.insist()
    if state is None and "://" not in target:
        state = Path(target) / STATE
    result = _archived(at, target, state)
    if as_json:
        print_json(result._asdict())
        return
    if not result.facts:
        click.echo(f"{target} has everything up to position {result.last:,}")
        return
    added = f"{count(result.facts, 'fact')}, {count(result.submissions, 'submission')}"
    windows = count(result.windows, "closed window")
    click.echo(f"added {added} and {windows} in {count(result.files, 'file')} to {target}")


def _archived(at: ChosenLedger, target: str, state: Path | None) -> "ArchiveResult":
    from rankd import bootstrap
    from rankd.progress import showing

    with showing(True) as tell:
        return asyncio.run(bootstrap.archive(at.place(), target, state=state, tell=tell))


def _check(target: str, as_json: bool) -> None:
    from rankd.analytics.files import ArchiveFiles, file_count, rows_by_table
    from rankd.ports import Progress
    from rankd.progress import showing

    files = ArchiveFiles(target)
    manifests = files.manifests()
    total = file_count(manifests)
    with showing(True) as tell:
        for done, _ in enumerate(files.check(manifests), 1):
            tell(Progress(done, total, "checking", "file"))
    position = manifests[-1].last if manifests else 0
    if as_json:
        found = {"archive": target, "whole": True, "position": position, "files": total}
        print_json({**found, "rows": rows_by_table(manifests)})
        return
    click.echo(f"{target} is whole: {count(total, 'file')} up to position {position:,}")


def insist_on_pyarrow() -> Any:
    """Return the library that reads and writes Parquet. Raises CommandFailed without it."""
    try:
        import pyarrow
    except ImportError:
        raise CommandFailed("archives need pyarrow: pip install pyarrow") from None
    return pyarrow

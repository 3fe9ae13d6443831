"""Maintenance of a data folder: verify, rebuild, back up and restore it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rankd.cli.options import NATIVE, ChosenLedger, data_option, json_option
from rankd.cli.output import CommandFailed, print_json
from rankd.errors import NothingToBackUp, count
from rankd.settings import shown_place

if TYPE_CHECKING:
    from rankd.core.engine import Engine
    from rankd.ports import Progress


@click.command()
@click.option(
    "--certificate",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Check this certificate of a settled window instead.",
)
@json_option
@data_option
def verify(at: ChosenLedger, as_json: bool, certificate: Path | None) -> None:
    """Check every fact of a ledger, and its index against them.

    Nothing is written to a folder: it may be a backup on a read-only disk. If a service has the
    folder open, the facts are checked up to now; the index is in that service's memory, and is not
    compared. An index that nodes share is compared while they serve.
    """
    at.insist()
    if certificate is not None:
        _verify_certificate(at, certificate, as_json)
        return
    position, compared = asyncio.run(_verify(at))
    if as_json:
        found = {"place": at.shown, "whole": True, "position": position}
        print_json({**found, "index_compared": compared})
        return
    index = "the index" if at.index == NATIVE else f"the index in {shown_place(at.index)}"
    says = f"and {index} agrees with them"
    if not compared:
        says = "and more may have come since; a service has it open, whose index was not compared"
    click.echo(f"{at.shown} is whole: {count(position, 'fact')}, {says}")


CERTIFICATE_BYTES_MAX = 1 << 20
"""A certificate is a page of text."""


def _verify_certificate(at: ChosenLedger, file: Path, as_json: bool) -> None:
    from rankd.bootstrap import verify_certificate
    from rankd.core.certificates import read_certificate
    from rankd.progress import showing

    with file.open("rb") as opened:
        claims = read_certificate(opened.read(CERTIFICATE_BYTES_MAX))
    with showing(True) as tell:
        asyncio.run(verify_certificate(at.place(), claims, tell))
    if as_json:
        print_json(
            {"place": at.shown, "board": claims.board, "window": claims.window, "true": True}
        )
        return
    click.echo(f"{at.shown} agrees: {claims.window} of {claims.board} is as the certificate says")


async def _verify(at: ChosenLedger) -> tuple[int, bool]:
    """Check a ledger; return the position reached, and whether an index was compared with it."""
    from rankd.bootstrap import insist_on_ledger, verify_folder
    from rankd.progress import showing

    if at.elsewhere:
        await insist_on_ledger(at.place())
        return await _with_engine(at, lambda rankd: rankd.verify()), True
    with showing(True) as tell:
        return await verify_folder(Path(at.data), tell)


@click.command()
@data_option
def rebuild(at: ChosenLedger) -> None:
    """Fold the ledger into a new index.

    The index of a folder is saved there. For an index that nodes share, a new one is filled beside
    it while they serve, partitioned as the URL says, and then replaces it for all of them at once.
    Only a ledger in PostgreSQL has such an index.
    """
    at.insist()
    if at.index != NATIVE:
        position = _rebuild_shared(at)
        click.echo(
            f"the index in {shown_place(at.index)} is new as of {position:,}; all nodes use it"
        )
        return
    if at.elsewhere:
        raise CommandFailed(
            f"there is no index in {at.shown} to rebuild: name the one that nodes share, "
            "--index redis://…; a node with an index of its own folds it anew when it is "
            "started without the folder `index` of its data folder"
        )
    import rankd

    with rankd.open(at.place(), progress=True) as ranks:
        ranks.rebuild(progress=True)
        position = ranks.save(progress=True)
    click.echo(f"the index of {at.shown} is new, and saved as of {position:,}")


def _rebuild_shared(at: ChosenLedger) -> int:
    if not at.elsewhere:
        raise CommandFailed(f"{at.shown} is a folder, whose index nobody shares: leave out --index")
    return asyncio.run(_with_engine(at, lambda rankd: rankd.rebuild()))


async def _with_engine(
    at: ChosenLedger, work: Callable[["Engine"], AsyncIterator["Progress"]]
) -> int:
    """Run long work on an engine without managers; return its position."""
    from rankd.bootstrap import engine
    from rankd.embedded import WallClock
    from rankd.progress import showing

    with showing(True) as tell:
        opening = engine(
            at.place(), clock=WallClock(), reading=nullcontext(), tell=tell, manages=False
        )
        async with opening as opened:
            async for progress in work(opened.rankd):
                tell(progress)
            return opened.rankd.position


@click.command()
@click.argument("folder", type=click.Path(file_okay=False))
@data_option
def backup(folder: str, at: ChosenLedger) -> None:
    """Copy a data folder's ledger into FOLDER, and verify the copy.

    A service may have it open: the copy then has everything that was acknowledged before. The index
    is not copied: it is folded again where the backup is restored.
    """
    if at.elsewhere:
        raise NothingToBackUp
    at.insist()
    position = asyncio.run(_back_up(at.data, folder))
    click.echo(f"{folder} is a backup of {at.shown} as of {position:,}, and whole")


async def _back_up(data: str, folder: str) -> int:
    """Copy a ledger; return the last position of the copy."""
    from rankd.bootstrap import alone
    from rankd.progress import showing

    with showing(True) as tell:
        async with alone(data) as ledger:
            async for progress in ledger.backup(Path(folder)):
                tell(progress)
    async with alone(folder) as copy:
        return await copy.head()


@click.command()
@click.argument("folder", type=click.Path(file_okay=False))
@data_option
def restore(folder: str, at: ChosenLedger) -> None:
    """Make a data folder, or a ledger in PostgreSQL, from a backup.

    FOLDER is the backup; the copy is verified. The data folder must be empty or missing:
    nothing is ever overwritten. With --data postgresql://… FOLDER may also be the data folder of a
    stopped service. FOLDER may be a ledger at postgresql://… itself, to go back. Every
    fact is copied unchanged; a copy that was interrupted continues where it ended.
    """
    import rankd
    from rankd.bootstrap import POSTGRESQL

    if not folder.startswith(POSTGRESQL) and not Path(folder).is_dir():
        raise CommandFailed(
            f"{shown_place(folder)} is not there; name the folder that `rankd backup` made, or a "
            "ledger as postgresql://…"
        )

    rankd.restore(folder, at.place(), progress=True)
    click.echo(f"{at.shown} is restored from {shown_place(folder)}, and whole")

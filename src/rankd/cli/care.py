"""Care of a data folder: checking it, folding it anew, copying it."""

from pathlib import Path

import click

from rankd.cli.failing import Failed
from rankd.cli.reaching import data_option, insist_on_data, shown_place


@click.command()
@data_option
def verify(data: str) -> None:
    """Check every fact of a folder, and its index against them."""
    insist_on_data(data)
    import rankd

    with rankd.open(data, progress=True) as ranks:
        ranks.verify(progress=True)
        place, position = shown_place(data), ranks.position
        click.echo(f"{place} is whole: {position:,} facts, and the index agrees with them")


@click.command()
@data_option
def rebuild(data: str) -> None:
    """Fold the ledger of a folder into a new index."""
    insist_on_data(data)
    import rankd

    with rankd.open(data, progress=True) as ranks:
        ranks.rebuild(progress=True)
        position = ranks.save(progress=True)
    click.echo(f"the index of {shown_place(data)} is new, and saved as of {position:,}")


@click.command()
@click.argument("folder", type=click.Path(file_okay=False))
@data_option
def backup(folder: str, data: str) -> None:
    """Copy a data folder's ledger into FOLDER, and verify the copy.

    The index is not copied: it is folded again where the backup is restored.
    """
    insist_on_data(data)
    import rankd

    with rankd.open(data, progress=True) as ranks:
        ranks.backup(folder, progress=True)
        position = ranks.position
    click.echo(f"{folder} is a backup of {shown_place(data)} as of {position:,}, and whole")


@click.command()
@click.argument("folder", type=click.Path(file_okay=False))
@data_option
def restore(folder: str, data: str) -> None:
    """Make a data folder from the backup in FOLDER, and verify it.

    The data folder must be empty or not there: nothing is ever overwritten.
    """
    if not Path(folder).is_dir():
        raise Failed(f"{folder} is not there; name the folder that `rankd backup` made")
    import rankd

    rankd.restore(folder, data, progress=True)
    click.echo(f"{data} is restored from {folder}, and whole")

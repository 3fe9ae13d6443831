"""Reading standings from the command line."""

import click

from rankd.cli.errors import plain
from rankd.cli.output import heading, print_json, print_tables, scores, stale, standings_table
from rankd.cli.target import Target, json_option, reaching, which_ranking

COUNT_MAX = 1000
NEIGHBOURS_MAX = 100


@click.command()
@click.argument("board")
@click.option(
    "-n",
    "--count",
    "--limit",
    "count",
    type=click.IntRange(1, COUNT_MAX),
    default=10,
    show_default=True,
    help="How many.",
)
@click.option("--from-rank", type=click.IntRange(min=1), help="Begin at this rank instead of 1.")
@which_ranking
@json_option
@reaching()
def top(
    reach: Target,
    board: str,
    count: int,
    from_rank: int | None,
    window: str | None,
    segment: str | None,
    as_json: bool,
) -> None:
    """Show the best players of a board."""
    with reach.client() as client:
        page = client.page(board, limit=count, from_rank=from_rank, window=window, segment=segment)
    if as_json:
        print_json(page)
        return
    click.echo(heading(page))
    print_tables(standings_table(page.standings))


@click.command()
@click.argument("board")
@click.argument("player")
@which_ranking
@json_option
@reaching()
def standing(
    reach: Target,
    board: str,
    player: str,
    window: str | None,
    segment: str | None,
    as_json: bool,
) -> None:
    """Show a player's rank and score."""
    with reach.client() as client:
        found = client.standing(board, player, window=window, segment=segment)
    if as_json:
        print_json(found)
        return
    name = f" ({plain(found.name)})" if found.name else ""
    click.echo(
        f"{plain(found.player)}{name}: rank {found.rank:,} of {found.total:,}, "
        f"{scores(found)}, percentile {found.percentile:g}{stale(found.stale)}"
    )


@click.command()
@click.argument("board")
@click.argument("player")
@click.option(
    "--above",
    type=click.IntRange(0, NEIGHBOURS_MAX),
    default=5,
    show_default=True,
    help="How many better players.",
)
@click.option(
    "--below",
    type=click.IntRange(0, NEIGHBOURS_MAX),
    default=5,
    show_default=True,
    help="How many worse players.",
)
@which_ranking
@json_option
@reaching()
def around(
    reach: Target,
    board: str,
    player: str,
    above: int,
    below: int,
    window: str | None,
    segment: str | None,
    as_json: bool,
) -> None:
    """Show a player's neighbours."""
    with reach.client() as client:
        page = client.around(
            board, player, above=above, below=below, window=window, segment=segment
        )
    if as_json:
        print_json(page)
        return
    click.echo(heading(page))
    print_tables(standings_table(page.standings, me=player))

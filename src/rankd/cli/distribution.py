"""The distribution of a board's scores from the command line, with a bar for each range."""

from typing import TYPE_CHECKING, Any

import click

from rankd.cli.options import Target, json_option, reaching, which_ranking
from rankd.cli.output import add, print_json, print_tables, score, stale, table

if TYPE_CHECKING:
    from rankd import schemas

BAR_WIDTH = 40
"""Of the longest bar, in characters."""


@click.command("scores")
@click.argument("board")
@click.option(
    "--buckets",
    type=click.IntRange(1, 200),
    default=20,
    show_default=True,
    help="Ranges of scores, of equal width.",
)
@which_ranking
@json_option
@reaching()
def distribution(reach: Target, board: str, as_json: bool, **given: Any) -> None:
    """Show how the scores of a board are distributed."""
    with reach.client() as client:
        found = client.distribution(board, **given)
    if as_json:
        print_json(found)
        return
    click.echo(f"{found.board} {found.window}: {found.total:,} players{stale(found.stale)}")
    if found.buckets:
        print_tables(_bars(found), _quantiles(found))


def _bars(found: "schemas.Distribution") -> Any:
    drawn = table("from", "to", "players", "", right=("from", "to", "players"))
    most = max(bucket.count for bucket in found.buckets)
    for bucket in reversed(found.buckets):
        bar = "█" * round(BAR_WIDTH * bucket.count / most) or ("▏" if bucket.count else "")
        low, high = score(bucket.score_min), score(bucket.score_max)
        add(drawn, low, high, f"{bucket.count:,}", bar)
    return drawn


def _quantiles(found: "schemas.Distribution") -> Any:
    drawn = table("share of players", "score up to", right=("share of players", "score up to"))
    for quantile, value in found.quantiles.items():
        add(drawn, f"{float(quantile):.0%}", score(value))
    return drawn

"""A player's submissions to a board, from the command line."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from rankd.cli.errors import plain
from rankd.cli.output import add, print_json, print_tables, score, stale, table, written
from rankd.cli.target import Target, json_option, reaching

if TYPE_CHECKING:
    from rich.table import Table

    from rankd import schemas

COUNT_MAX = 1000


@click.command()
@click.argument("board")
@click.argument("player")
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(1, COUNT_MAX),
    default=20,
    show_default=True,
    help="How many.",
)
@click.option("--before", type=click.IntRange(min=1), help="Only facts before this position.")
@click.option("--since", metavar="TIME", help="Recorded then or later: 2026-11-14T09:30:00Z.")
@click.option("--until", metavar="TIME", help="Recorded before then.")
@json_option
@reaching()
def history(
    reach: Target,
    board: str,
    player: str,
    limit: int,
    before: int | None,
    since: str | None,
    until: str | None,
    as_json: bool,
) -> None:
    """Show a player's submissions to a board, newest first."""
    with reach.client() as client:
        found = client.history(board, player, limit=limit, before=before, since=since, until=until)
    if as_json:
        print_json(found)
        return
    where = f"{plain(found.board)} · {plain(found.player)}"
    click.echo(f"{where} · as of {found.as_of:,}{stale(found.stale)}")
    print_tables(_facts_table(found.facts))
    if found.next_before is not None:
        click.echo(f"there may be more: --before {found.next_before}", err=True)


def _facts_table(facts: Sequence["schemas.HistoryItem"]) -> "Table":
    """Return facts as a table, without columns that are empty in all of them."""
    optional = ("score", "delta", "key", "build", "metadata")
    filled = [name for name in optional if any(_cell(fact, name) for fact in facts)]
    shown = table("position", "at", *filled, right=["position", "score", "delta"], whole=["at"])
    for fact in facts:
        add(shown, fact.position, fact.at, *(_cell(fact, name) for name in filled))
    return shown


def _cell(fact: "schemas.HistoryItem", name: str) -> str:
    """Return one field; on a board with several columns, the score lists all of them."""
    if name == "score" and fact.columns:
        return ", ".join(f"{column} {score(value)}" for column, value in fact.columns.items())
    value = getattr(fact, name)
    return score(value) if name in {"score", "delta"} else written(value)

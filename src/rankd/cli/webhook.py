"""Set, list and remove webhooks, show their deliveries, and replay events."""

from typing import TYPE_CHECKING

import click

from rankd.cli.options import Target, json_option, reaching
from rankd.cli.output import FailingGroup, add, plain, print_json, print_tables, table

if TYPE_CHECKING:
    from rich.table import Table

    from rankd import schemas


@click.group(cls=FailingGroup)
def webhook() -> None:
    """Post events to addresses: windows that open, close, held scores."""


@webhook.command()
@click.argument("name")
@click.argument("url")
@click.option("--event", "events", multiple=True, required=True, help="An event; may be repeated.")
@click.option(
    "--board", "boards", multiple=True, help="Only of this board; may be repeated; all without."
)
@json_option
@reaching()
def put(
    reach: Target,
    name: str,
    url: str,
    events: tuple[str, ...],
    boards: tuple[str, ...],
    as_json: bool,
) -> None:
    """Post events to an address; print a new one's secret.

    The secret is printed only this once. A webhook that is there keeps its secret and its place.
    """
    with reach.client() as client:
        made = client.put_webhook(name, url, events, boards=boards or None)
    if as_json:
        print_json(made)
    elif isinstance(made.secret, str):
        click.echo(f"webhook {plain(name)} is set; its secret is not shown again:", err=True)
        click.echo(made.secret)
    else:
        click.echo(f"webhook {plain(name)} is set")


@webhook.command("list")
@json_option
@reaching()
def list_webhooks(reach: Target, as_json: bool) -> None:
    """List all webhooks."""
    with reach.client() as client:
        found = client.webhooks()
    if as_json:
        print_json(found)
        return
    if not found.webhooks:
        click.echo("no webhooks", err=True)
        return
    shown = table(
        "name", "url", "events", "boards", "state", "through", right=["through"], whole=["name"]
    )
    for one in found.webhooks:
        _add(shown, one)
    print_tables(shown)


def _add(shown: "Table", one: "schemas.WebhookBody") -> None:
    events, boards = ", ".join(one.events), ", ".join(one.boards)
    state = one.state if one.failing_since is None else f"{one.state} since {one.failing_since}"
    add(shown, one.name, one.url, events, boards, state, one.delivered_through)


@webhook.command()
@click.argument("name")
@json_option
@reaching()
def deliveries(reach: Target, name: str, as_json: bool) -> None:
    """List the last deliveries of a webhook, newest first."""
    with reach.client() as client:
        found = client.deliveries(name)
    if as_json:
        print_json(found)
        return
    if not found.deliveries:
        click.echo("no deliveries since the start", err=True)
        return
    shown = table(
        "id", "event", "board", "state", "tries", "tried", "problem", right=["tries"], whole=["id"]
    )
    for one in found.deliveries:
        problem = one.problem or ""
        add(shown, one.id, one.type, one.board, one.state, one.attempts, one.tried_at, problem)
    print_tables(shown)


@webhook.command()
@click.argument("name")
@click.argument("position", type=click.IntRange(min=1), metavar="FROM")
@reaching()
def replay(reach: Target, name: str, position: int) -> None:
    """Deliver the events from a position on again."""
    with reach.client() as client:
        client.replay_webhook(name, position)
    click.echo(f"webhook {plain(name)} delivers again from {position}")


@webhook.command()
@click.argument("name")
@reaching()
def remove(reach: Target, name: str) -> None:
    """Remove a webhook."""
    with reach.client() as client:
        client.delete_webhook(name)
    click.echo(f"removed {plain(name)}")

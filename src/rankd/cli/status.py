"""The status and the position of services."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import click

from rankd.cli.errors import CommandFailed, plain
from rankd.cli.output import add, print_json, print_tables, table
from rankd.cli.target import Target, json_option, reaching
from rankd.errors import RankdError
from rankd.settings import shown_place

TAKING = frozenset({"ready", "degraded"})
"""States in which a service accepts requests."""


class NodeStatus(NamedTuple):
    """A service, or a data folder, and its state."""

    place: str
    status: str
    position: int | None = None
    durable: bool | None = None
    problem: str | None = None
    notes: list[str] | None = None


@click.command()
@click.argument("urls", nargs=-1, metavar="[URL]...")
@json_option
@reaching()
def status(reach: Target, urls: tuple[str, ...], as_json: bool) -> None:
    """Show whether a service accepts requests, its position, and its problems.

    Several nodes are named by their URLs; `behind` compares their positions. No key is needed.
    Exits 1 if one of them accepts no requests.
    """
    if urls and reach.data is not None:
        raise click.UsageError("URL and --data are two places: name one of them")
    asked = [replace(reach, url=url, key=None) for url in urls or (reach.url,)]
    nodes = [_asked(each) for each in asked]
    if as_json:
        print_json({"nodes": [node._asdict() for node in nodes]})
    else:
        _show(nodes)
    if away := [node.place for node in nodes if node.status not in TAKING]:
        raise CommandFailed(f"requests are not taken by {', '.join(away)}")


def _asked(reach: Target) -> NodeStatus:
    place = reach.data or shown_place(reach.url)
    try:
        with reach.client(brief=True) as client:
            found = client.status()
    except RankdError as exc:
        if reach.data is not None:
            raise
        return NodeStatus(place, "unreachable", problem=str(exc))
    return NodeStatus(
        place, found.status, found.position, found.durable, found.problem, found.notes
    )


def _show(nodes: Sequence[NodeStatus]) -> None:
    head = max((node.position or 0 for node in nodes), default=0)
    several = ["behind"] if len(nodes) > 1 else []
    shown = table(
        *("node", "status", "position", *several, "durable"),
        right=("position", "behind"),
        whole=("node", "status"),
    )
    for node in nodes:
        behind = [None if node.position is None else head - node.position] if several else []
        durable = {True: "yes", False: "no", None: ""}[node.durable]
        add(shown, node.place, node.status, node.position, *behind, durable)
    print_tables(shown)
    for node in nodes:
        for said in filter(None, (node.problem, *(node.notes or ()))):
            named = not several or said.startswith(node.place)
            click.echo(plain(said if named else f"{node.place}: {said}"))

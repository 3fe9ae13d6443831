"""Players from the command line: profiles, friends, and the submissions to a board."""

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from rankd.cli.corrections import STATE_COMMANDS
from rankd.cli.options import Target, count_option, json_option, reaching
from rankd.cli.output import (
    FailingGroup,
    add,
    plain,
    print_json,
    print_tables,
    score,
    stale,
    table,
    written,
)
from rankd.cli.rank_plot import show_ranks
from rankd.cli.scores import pairs
from rankd.errors import UnknownPlayer

if TYPE_CHECKING:
    from rich.table import Table

    from rankd import schemas
    from rankd.client import Client


@click.command()
@click.argument("board")
@click.argument("player")
@count_option("--limit", default=20)
@click.option("--before", type=click.IntRange(min=1), help="Only facts before this position.")
@click.option("--since", metavar="TIME", help="Recorded then or later: 2026-11-14T09:30:00Z.")
@click.option("--until", metavar="TIME", help="Recorded before then.")
@click.option("--ranks", is_flag=True, help="Show the rank over time instead, as a plot.")
@click.option("--window", metavar="WINDOW", help="With --ranks: of this window.")
@click.option(
    "--grain",
    type=click.Choice(["hour", "day", "week"]),
    help="With --ranks: a point for each. [default: day]",
)
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
    ranks: bool,
    window: str | None,
    grain: str | None,
    as_json: bool,
) -> None:
    """Show a player's submissions to a board, or its rank over time."""
    if ranks:
        with reach.client(past=True) as client:
            show_ranks(client.rank_history(board, player, window=window, grain=grain), as_json)
        return
    if window is not None or grain is not None:
        raise click.UsageError("--window and --grain go with --ranks")
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
    if any(fact.status != "recorded" for fact in facts):
        filled.append("status")
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


@click.group(cls=FailingGroup)
def player() -> None:
    """Find, show and change players; ban, hide and restore."""


for _command in STATE_COMMANDS:
    player.add_command(_command)

# --------------------------------------------------------------------------------- find


@player.command()
@click.argument("query")
@count_option("--limit", default=10)
@click.option("--after", metavar="PLAYER", help="Go on behind this id.")
@json_option
@reaching()
def find(reach: Target, query: str, limit: int, after: str | None, as_json: bool) -> None:
    """List players whose name or id begins with QUERY, ordered by id.

    Names are compared without regard to capitals, ids exactly.
    """
    with reach.client() as client:
        found = client.players(query, limit=limit, after=after)
    if as_json:
        print_json(found)
        return
    shown = table("player", "name", "attributes", whole=["player"])
    for one in found.players:
        add(shown, one.player, one.name, written(one.attributes))
    print_tables(shown)
    if found.next_after is not None:
        click.echo(f"there are more: --after {plain(found.next_after)}", err=True)


# --------------------------------------------------------------------------------- show


@player.command()
@click.argument("player")
@click.option("--window", metavar="WINDOW", help="Standings in this window, such as daily.")
@json_option
@reaching()
def show(reach: Target, player: str, window: str | None, as_json: bool) -> None:
    """Show a player's profile, and its standings on every board.

    With --json it is the API's profile, with `standings` added.
    """
    with reach.client() as client:
        everywhere = client.standings(player, window=window)
        known = _known(client, everywhere)
    if as_json:
        from msgspec import to_builtins

        print_json({**to_builtins(known), "standings": everywhere.standings})
        return
    name = f" ({plain(known.name)})" if known.name else ""
    click.echo(f"{plain(known.player)}{name} · as of {known.as_of:,}{stale(known.stale)}")
    if known.states:
        print_tables("", _states_table(known.states))
    if known.attributes or known.friends or known.visibility != "public":
        print_tables("", _profile_table(known))
    if everywhere.standings:
        print_tables("", _standings_table(everywhere.standings))


def _known(client: "Client", everywhere: "schemas.Everywhere") -> "schemas.Profile":
    """Return a player's profile; an empty one for a player with scores only."""
    from rankd import schemas

    player = everywhere.player
    try:
        return client.profile(player)
    except UnknownPlayer:
        if not (everywhere.standings or client.standings(player).standings):
            raise
    return schemas.Profile(player, None, {}, [], everywhere.as_of, stale=everywhere.stale)


def _states_table(states: Sequence["schemas.PlayerStateItem"]) -> "Table":
    shown = table("state", "boards", "until", "reason", "by", "position", right=["position"])
    for one in states:
        boards = "all" if one.boards is None else ", ".join(one.boards)
        add(shown, one.state, boards, one.until, one.reason, one.actor, one.since)
    return shown


def _profile_table(known: "schemas.Profile") -> "Table":
    shown = table("", "")
    for name, value in known.attributes.items():
        add(shown, name, written(value))
    if known.friends:
        add(shown, "friends", ", ".join(known.friends))
    if known.visibility != "public":
        add(shown, "visibility", known.visibility)
    return shown


def _standings_table(standings: Iterable["schemas.OnBoard"]) -> "Table":
    numbers = ("rank", "of", "score", "percentile")
    shown = table("board", "window", *numbers, right=numbers, whole=["board", "window"])
    for one in standings:
        percentile = f"{one.percentile:g}"
        add(shown, one.board, one.window, one.rank, one.total, score(one.score), percentile)
    return shown


# ---------------------------------------------------------------------------------- set


@player.command("set")
@click.argument("player")
@click.option("--name", metavar="NAME", help="The player's display name.")
@click.option(
    "--attribute",
    "attributes",
    multiple=True,
    metavar="NAME=VALUE",
    help="An attribute: region=eu, level=7, vip=true. The others stay. May be repeated.",
)
@click.option(
    "--remove",
    "removed",
    multiple=True,
    metavar="NAME",
    help="Forget this attribute. May be repeated.",
)
@click.option(
    "--friend",
    "friends",
    multiple=True,
    metavar="PLAYER",
    help="A friend; those that are not named are friends no longer. May be repeated.",
)
@click.option(
    "--visibility",
    type=click.Choice(("public", "friends", "anonymous")),
    help="Who sees the player: all, it and its friends, or it alone.",
)
@json_option
@reaching()
def set_(reach: Target, player: str, as_json: bool, **given: Any) -> None:
    """Change a player's name, attributes, friends or visibility.

    Other attributes stay unchanged. Whole numbers, true and false are stored as such, everything
    else as text; quotes make text of a number: level='"7"'.
    """
    said = _said(given["name"], given["attributes"], given["removed"], given["friends"])
    if given["visibility"] is not None:
        said["visibility"] = given["visibility"]
    if not said:
        options = "--name, --attribute, --remove, --friend or --visibility"
        raise click.UsageError(f"nothing to set: give {options}")
    with reach.client() as client:
        known = client.merge_profile(player, **said)
    if as_json:
        print_json(known)
        return
    name = f" ({plain(known.name)})" if known.name else ""
    click.echo(f"{plain(known.player)}{name} · as of {known.as_of:,}")
    print_tables("", _profile_table(known))


def _said(
    name: str | None, attributes: Iterable[str], removed: Iterable[str], friends: Iterable[str]
) -> dict[str, Any]:
    said: dict[str, Any] = {} if name is None else {"name": name}
    values: dict[str, Any] = {
        name: _value(text) for name, text in pairs("--attribute", "region=eu", attributes).items()
    }
    for each in removed:
        if each in values:
            raise click.UsageError(f"--attribute and --remove both name {each}")
        values[each] = None
    if values:
        said["attributes"] = values
    if named := list(friends):
        said["friends"] = named
    return said


def _value(text: str) -> str | int | bool:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, str | int) else text


# -------------------------------------------------------------------------------- erase


@player.command()
@click.argument("player")
@click.option("--reason", metavar="TEXT", help="Kept in the audit trail, without personal data.")
@click.option("--unfriend", is_flag=True, help="Take it out of other players' lists of friends.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@reaching()
def erase(
    reach: Target, player: str, reason: str | None, unfriend: bool, yes: bool, as_json: bool
) -> None:
    """Erase a player's name, attributes, friends and metadata for good.

    Ranks stay as they are. The data goes from facts, snapshots and archives; backups made before
    still have it.
    """
    if not yes:
        click.confirm(f"Erase all data of {plain(player)}, for good?", abort=True, err=True)
    with reach.client(patient=True) as client:
        done = client.erase(player, reason=reason, unfriend=unfriend or None)
    if as_json:
        print_json(done)
        return
    click.echo(f"{plain(player)} is erased · position {done.position:,}")

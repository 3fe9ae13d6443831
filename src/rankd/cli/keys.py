"""Create, list and revoke the keys of programs."""

import click

from rankd.cli.options import Target, json_option, reaching
from rankd.cli.output import FailingGroup, add, plain, print_json, print_tables, table

SCOPES = ("read", "submit", "moderate", "admin")


@click.group(cls=FailingGroup)
def keys() -> None:
    """Make, list and revoke keys.

    Until the first key exists, every program on this machine has full access. To make it before the
    service starts, name its folder with --data.
    """


@keys.command()
@click.option(
    "--scope",
    "scopes",
    type=click.Choice(SCOPES),
    multiple=True,
    required=True,
    help="A scope of the key; repeat it for several. admin includes the others.",
)
@click.option(
    "--board",
    "boards",
    multiple=True,
    metavar="BOARD",
    help="Only for this board; may be repeated.",
)
@click.option("--title", help="A title, for the list.")
@click.option(
    "--expires", metavar="WHEN", help="Refuse it later: 90d, 2027-01-01 or 2027-01-01T06:00:00Z."
)
@json_option
@reaching()
def create(
    reach: Target,
    scopes: tuple[str, ...],
    boards: tuple[str, ...],
    title: str | None,
    expires: str | None,
    as_json: bool,
) -> None:
    """Make a key and print it.

    It is printed only this once and stored nowhere: the service has only its hash.
    """
    with reach.client(create=True) as client:
        made = client.create_key(scopes, boards=boards or None, title=title, expires=expires)
    if as_json:
        print_json(made)
        return
    until = f", until {_moment(made.expires)}" if made.expires else ""
    click.echo(f"key {made.id} ({', '.join(made.scopes)}{until}); it is not shown again:", err=True)
    click.echo(made.key)


@keys.command("list")
@json_option
@reaching()
def list_keys(reach: Target, as_json: bool) -> None:
    """List all keys, by their ids.

    The last use of a key may be up to an hour behind.
    """
    with reach.client() as client:
        found = client.keys()
    if as_json:
        print_json(found)
        return
    if not found.keys:
        click.echo("no keys: on a loopback address every request is allowed", err=True)
        return
    shown = table(
        "id", "scopes", "boards", "title", "created", "last used", "expires", whole=["id"]
    )
    for key in found.keys:
        boards = "all" if key.boards is None else ", ".join(key.boards)
        times = [_moment(time) for time in (key.created, key.last_used, key.expires)]
        add(shown, key.id, ", ".join(key.scopes), boards, key.title, *times)
    print_tables(shown)


@keys.command()
@click.argument("id")
@reaching()
def revoke(reach: Target, id: str) -> None:
    """Revoke a key."""
    with reach.client() as client:
        client.revoke_key(id)
    click.echo(f"revoked {plain(id)}")


def _moment(text: str | None) -> str:
    """Return a time to the second, with a space at which a narrow column may break it."""
    return f"{text[:19].replace('T', ' ')}Z" if text else ""

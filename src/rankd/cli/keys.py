"""Create, list and revoke the keys of programs."""

from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from rankd.cli.options import Target, json_option, reaching
from rankd.cli.output import FailingGroup, add, plain, print_json, print_tables, table
from rankd.signatures import ALGORITHMS, new_private_key, public_key_of

if TYPE_CHECKING:
    from rankd.client.serialization import Key

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
    help="A scope of the key; repeat it for several. admin includes the others.",
)
@click.option(
    "--signing",
    type=click.Choice((*ALGORITHMS, "webhook")),
    help="Make a key that signs submissions, in place of one with scopes; or with webhook one by "
    "which the service signs its requests to a verifier.",
)
@click.option(
    "--public-key",
    metavar="TEXT",
    help="With --signing ed25519: the public key, if the private one was made elsewhere.",
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
    signing: str | None,
    public_key: str | None,
    as_json: bool,
) -> None:
    """Make a key and print it.

    It is printed only this once. The service has only the hash of a key with scopes; of a key that
    signs it has the secret (hmac), or the public half alone (ed25519), whose private half is made
    here.
    """
    if (signing is None) == (not scopes):
        raise click.UsageError("give either --scope, or --signing")
    if public_key is not None and signing != "ed25519":
        raise click.UsageError("--public-key is for --signing ed25519")
    private_key = None
    if signing == "ed25519" and public_key is None:
        private_key = new_private_key()
        public_key = public_key_of(private_key)
    with reach.client(create=True) as client:
        made = client.create_key(
            scopes,
            boards=boards or None,
            title=title,
            expires=expires,
            signing=signing,
            public_key=public_key,
        )
    _print_made(made, private_key, as_json=as_json)


def _print_made(made: "Key", private_key: str | None, *, as_json: bool) -> None:
    """Print a new key; one for ``rankd submit --sign-key`` together with its id."""
    if as_json:
        print_json(replace(made, key=private_key or made.key))
        return
    until = f", until {_moment(made.expires)}" if made.expires else ""
    use = made.signing or ", ".join(made.scopes)
    secret = private_key or made.key
    if secret is None:
        click.echo(f"key {made.id} ({use}{until}): sign with the private key of yours", err=True)
        return
    click.echo(f"key {made.id} ({use}{until}); it is not shown again:", err=True)
    click.echo(secret if made.signing in (None, "webhook") else f"{made.id}:{secret}")


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
        use = ", ".join(key.scopes) or f"signs: {key.signing}"
        add(shown, key.id, use, boards, key.title, *times)
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

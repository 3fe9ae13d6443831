"""The lives of windows: list, schedule, reset, freeze and settle them."""

from typing import TYPE_CHECKING, Literal

import click
import msgspec

from rankd.cli.board import windows_table
from rankd.cli.options import Target, json_option, reaching
from rankd.cli.output import (
    FailingGroup,
    add,
    insist_on_yes,
    plain,
    print_json,
    print_tables,
    table,
)

if TYPE_CHECKING:
    from rankd import schemas

    RewardState = Literal["given", "claimed", "withdrawn"]

SCHEDULE_LENGTH_DEFAULT = 10

REWARDS_TOGETHER = 1000
"""Rewards of one request."""

reason_option = click.option("--reason", required=True, help="Kept in the audit trail.")
yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


@click.group(cls=FailingGroup)
def window() -> None:
    """List, schedule, reset, freeze and settle the windows of a board."""


@window.command("list")
@click.argument("board")
@json_option
@reaching()
def list_windows(reach: Target, board: str, as_json: bool) -> None:
    """List all windows of a board with their states, newest first."""
    with reach.client() as client:
        found = client.windows(board)
    if as_json:
        print_json(found)
        return
    print_tables(windows_table(found.windows, states=True))


@window.command()
@click.argument("board")
@click.option(
    "--next",
    "steps",
    type=click.IntRange(min=1),
    default=SCHEDULE_LENGTH_DEFAULT,
    show_default=True,
    help="How many.",
)
@json_option
@reaching()
def schedule(reach: Target, board: str, steps: int, as_json: bool) -> None:
    """Show the coming openings and closings of a board's windows."""
    with reach.client() as client:
        found = client.schedule(board, next=steps)
    if as_json:
        print_json(found)
        return
    if not found.schedule:
        click.echo("no window of this board opens or closes any more", err=True)
        return
    shown = table("at", found.time_zone, "", "window", whole=["window", "at"])
    for one in found.schedule:
        add(shown, one.at.replace("T", " "), one.local.replace("T", " "), one.step, one.window)
    print_tables(shown)


@window.command()
@click.argument("board")
@click.argument("window")
@reason_option
@yes_option
@json_option
@reaching()
def reset(reach: Target, board: str, window: str, reason: str, yes: bool, as_json: bool) -> None:
    """Close a window now, and open the next one at once."""
    if not yes:
        insist_on_yes(f"Close {plain(window)} of {plain(board)} and begin anew?")
    with reach.client() as client:
        done = client.reset_window(board, window, reason=reason)
    _show(done, as_json)


@window.command()
@click.argument("board")
@click.argument("window")
@reason_option
@yes_option
@json_option
@reaching()
def freeze(reach: Target, board: str, window: str, reason: str, yes: bool, as_json: bool) -> None:
    """Let a window take no more scores. The next one opens at its time."""
    if not yes:
        insist_on_yes(f"Freeze {plain(window)} of {plain(board)}?")
    with reach.client() as client:
        done = client.freeze_window(board, window, reason=reason)
    _show(done, as_json)


@window.command()
@click.argument("board")
@click.argument("window")
@reason_option
@yes_option
@json_option
@reaching()
def settle(reach: Target, board: str, window: str, reason: str, yes: bool, as_json: bool) -> None:
    """Declare the standings of a window final. One that is open is closed first."""
    if not yes:
        insist_on_yes(f"Declare {plain(window)} of {plain(board)} final?")
    with reach.client() as client:
        done = client.settle_window(board, window, reason=reason)
    _show(done, as_json)


@window.command()
@click.argument("board")
@click.argument("window")
@reaching()
def certificate(reach: Target, board: str, window: str) -> None:
    """Print the certificate of a settled window.

    `rankd verify --certificate FILE` checks it against the ledger.
    """
    with reach.client() as client:
        print_json(client.certificate(board, window))


@window.command()
@click.argument("board")
@click.argument("window")
@click.option("--player", help="Those of one player.")
@click.option("--state", type=click.Choice(["given", "claimed", "withdrawn"]), help="In one state.")
@click.option("--limit", type=click.IntRange(min=1), help="How many; all of them without.")
@json_option
@reaching()
def rewards(
    reach: Target,
    board: str,
    window: str,
    player: str | None,
    state: "RewardState | None",
    limit: int | None,
    as_json: bool,
) -> None:
    """List the rewards of a settled window."""
    found: list[schemas.Reward] = []
    some = min(limit or REWARDS_TOGETHER, REWARDS_TOGETHER)
    with reach.client() as client:
        page = client.rewards(board, window, player=player, state=state, limit=some)
        found += page.rewards
        while page.next_cursor is not None and (limit is None or len(found) < limit):
            cursor = page.next_cursor
            page = client.rewards(
                board, window, player=player, state=state, cursor=cursor, limit=some
            )
            found += page.rewards
    found = found[:limit]
    if as_json:
        print_json(msgspec.structs.replace(page, rewards=found, next_cursor=None))
        return
    if not found:
        click.echo(f"{plain(page.window)} is {page.state}, and has no such rewards", err=True)
        return
    shown = table("id", "rank", "player", "amount", "give", "state", whole=["id"])
    for one in found:
        late = one.claimed and one.state == "withdrawn"
        said = "withdrawn, claimed" if late else one.state
        give = "" if one.give is None else msgspec.json.encode(one.give).decode()
        add(shown, one.id, one.rank, one.player or "-", one.amount or "", give, said)
    print_tables(shown)


@window.command()
@click.argument("board")
@click.argument("window")
@click.argument("reward")
@json_option
@reaching()
def claim(reach: Target, board: str, window: str, reward: str, as_json: bool) -> None:
    """Claim a reward of a settled window, once it was handed out."""
    with reach.client() as client:
        done = client.claim_reward(board, window, reward)
    if as_json:
        print_json(done)
        return
    said = f"{plain(done.id)} of {plain(done.player or '-')} is claimed"
    click.echo(said if done.changed else f"{said}; it was before")


def _show(done: "schemas.WindowStep", as_json: bool) -> None:
    if as_json:
        print_json(done)
        return
    said = f"{plain(done.window)} is {done.state}"
    if done.opened is not None:
        said += f", and {plain(done.opened.window)} is {done.opened.state}"
    click.echo(said if done.changed else f"{said}; it was before")

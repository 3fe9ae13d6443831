"""Services from the command line: status, position, and ledger time beside their clocks."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import click

from rankd.cli.options import ONE_SERVICE, Target, is_on_command_line, json_option, reaching
from rankd.cli.output import (
    CommandFailed,
    FailingGroup,
    add,
    insist_on_yes,
    plain,
    print_json,
    print_tables,
    table,
)
from rankd.errors import RankdError
from rankd.settings import shown_place

if TYPE_CHECKING:
    from rankd import schemas

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
    """Show whether a service accepts requests, and its position.

    Its problems are listed below. Several nodes are named by their URLs; `behind` compares their
    positions. No key is needed. Exits 1 if one of them accepts no requests.
    """
    if urls and reach.data is not None:
        raise click.UsageError("URL and --data are two places: name one of them")
    if urls and is_on_command_line("urls_named"):
        raise click.UsageError(ONE_SERVICE)
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


@click.group(cls=FailingGroup)
def clock() -> None:
    """Compare ledger time with the clock; confirm or correct it.

    If the clock is set while a service runs, ledger time follows only after the step has lasted
    --clock-step-seconds. Each node has its own clock: name its --url.
    """


@clock.command()
@json_option
@reaching()
def show(reach: Target, as_json: bool) -> None:
    """Show ledger time, the machine's clock, and a doubted step."""
    with reach.client() as client:
        found = client.clock()
    if as_json:
        print_json(found)
        return
    print_clock(found)


@clock.command()
@json_option
@reaching(data=False)
def confirm(reach: Target, as_json: bool) -> None:
    """Accept a step of the clock now.

    Windows roll over accordingly. Retention still waits until the new time has lasted.
    """
    with reach.client() as client:
        found = client.confirm_clock()
    if as_json:
        print_json(found)
        return
    if found.confirmed_seconds is None:
        click.echo("there is no step to confirm", err=True)
    else:
        click.echo(f"confirmed a step of {found.confirmed_seconds:+,.1f} s")
    print_clock(found)


@clock.command()
@click.option(
    "--from",
    "first",
    type=click.IntRange(min=1),
    metavar="POSITION",
    help="The first fact with a wrong time. [default: the first that is later than the clock]",
)
@click.option(
    "--ahead",
    "ahead_seconds",
    type=float,
    metavar="SECONDS",
    help="How far the time was ahead. [default: the jump of the time at that fact]",
)
@click.option("--reason", help="Kept in the audit trail.")
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@reaching()
def correct(
    reach: Target,
    first: int | None,
    ahead_seconds: float | None,
    reason: str | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Undo the effects of a wrong time on windows.

    The clock must be right again. Scores recorded since then count in the windows of their right
    time, windows that retention dropped come back, and ledger time goes on from the clock. All is
    folded again from the ledger, beside the service that goes on; a command that was broken off
    is given again.
    """
    with reach.client() as client:
        found = client.correct_clock(first=first, ahead_seconds=ahead_seconds, dry_run=True)
        if not as_json:
            print_correction(found)
        if not dry_run:
            if not yes:
                insist_on_yes("Correct the time?")
            found = client.correct_clock(
                first=found.first, ahead_seconds=found.ahead_seconds, reason=reason
            )
    if as_json:
        print_json(found)
    elif not dry_run:
        click.echo(f"the time is corrected, as of {found.position:,}")


def print_correction(found: "schemas.Correction") -> None:
    """Print from where on the time was wrong, and the windows that change."""
    before = "" if found.previous_time is None else f" behind {found.previous_time}"
    click.echo(f"wrong from     position {found.first:,}: {found.first_time}{before}")
    click.echo(f"ahead by       {found.ahead_seconds:,.1f} s")
    click.echo(f"submissions    {found.submissions:,}")
    for board in found.boards:
        click.echo(f"board          {plain(board.board)}")
        for what, windows in (
            ("open", board.opened),
            ("restored", board.restored),
            ("removed", board.removed),
        ):
            if windows:
                click.echo(f"  {what:<12} {plain(', '.join(windows))}")


def print_clock(found: "schemas.ClockBody") -> None:
    """Print both times, a step and the problem, if any."""
    click.echo(f"ledger time    {found.ledger_time}")
    click.echo(f"machine clock  {found.machine_time}")
    if (step := found.step) is not None:
        click.echo(
            f"step           {step.offset_seconds:+,.1f} s, seen for {step.seen_seconds:,.0f} s, "
            f"believed after {step.believed_after_seconds:,.0f} s"
        )
    if found.problem is not None:
        click.echo(found.problem, err=True)

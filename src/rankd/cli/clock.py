"""Ledger time and the machine's clock: show both, and confirm a step."""

from typing import TYPE_CHECKING

import click

from rankd.cli.failing import Commands
from rankd.cli.reaching import Reach, json_option, reaching
from rankd.cli.show import print_json

if TYPE_CHECKING:
    from rankd import wire


@click.group(cls=Commands)
def clock() -> None:
    """Compare ledger time with the clock; confirm a step.

    If the clock is set while a service runs, ledger time follows only after the step has lasted
    --clock-step-seconds. Each node has its own clock: name its --url.
    """


@clock.command()
@json_option
@reaching()
def show(reach: Reach, as_json: bool) -> None:
    """Show ledger time, the machine's clock, and a step that is not accepted yet."""
    with reach.client() as client:
        found = client.clock()
    if as_json:
        print_json(found)
        return
    print_clock(found)


@clock.command()
@json_option
@reaching(data=False)
def confirm(reach: Reach, as_json: bool) -> None:
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


def print_clock(found: "wire.ClockBody") -> None:
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
